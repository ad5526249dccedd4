//! The key of the vault: a file beside the database, so that a copy of the database alone tells no credential.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::replace_file::{PRIVATE, replace_file};
use crate::{CommandError, CommandResult, config};

const FILE: &str = "vault.key";
const BYTES: usize = 32;
const FINGERPRINT_BYTES: usize = 8;

/// The variable that holds the key where no file is wanted: 64 hexadecimal digits.
const VARIABLE: &str = "RONDO_VAULT_KEY";

/// Whether the key comes from outside, so that several servers can have the same.
pub(crate) fn is_from_outside() -> bool {
    config::process_environment(VARIABLE).is_some_and(|text| !text.trim().is_empty())
}

/// Reads the key, and makes one the first time.
pub(crate) fn key(data: &Path) -> CommandResult<[u8; BYTES]> {
    match existing_key(data)? {
        Some(key) => Ok(key),
        None => make_key(&data.join(FILE)),
    }
}

/// Reads the key, if there is one yet.
pub(crate) fn existing_key(data: &Path) -> CommandResult<Option<[u8; BYTES]>> {
    let file = data.join(FILE);
    if let Some(text) = config::process_environment(VARIABLE).filter(|text| !text.trim().is_empty()) {
        let wrong = || format!("{VARIABLE} must be 64 hexadecimal digits").into();
        return parse_key(&text).ok_or_else(wrong).map(Some);
    }
    match std::fs::read_to_string(&file) {
        Ok(text) => {
            let wrong = || unusable(&file, "it does not contain 64 hexadecimal digits");
            parse_key(&text).ok_or_else(wrong).map(Some)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unusable(&file, &error.to_string())),
    }
}

/// Names a key without telling it, so that servers find out whether they have the same.
pub(crate) fn fingerprint(key: &[u8; BYTES]) -> String {
    let digest = Sha256::new().chain_update(b"rondo vault key").chain_update(key).finalize();
    digest.iter().take(FINGERPRINT_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a folder has a key.
pub(crate) fn has_key(data: &Path) -> bool {
    data.join(FILE).exists()
}

/// Copies the key into another folder, which must have none, and says where the key is then.
pub(crate) fn copy(data: &Path, into: &Path) -> CommandResult<&'static str> {
    if is_from_outside() {
        // A file would only be another key.
        return Ok(
            "not in the copy: the vault key, which decrypts the users' credentials, and which is in RONDO_VAULT_KEY",
        );
    }
    let text = match std::fs::read(data.join(FILE)) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok("there is no vault key for the users' credentials yet");
        }
        Err(error) => return Err(unusable(&data.join(FILE), &error.to_string())),
    };
    let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(into.join(FILE))?;
    new.write_all(&text)?;
    Ok(
        "the copy contains the vault key, which decrypts the users' credentials: keep the copy where nobody else can \
        read it",
    )
}

fn unusable(file: &Path, reason: &str) -> CommandError {
    format!(
        "{}: {reason}; restore it from a backup, or remove it and ask users to enter their credentials again",
        file.display()
    )
    .into()
}

/// Written completely or not at all, and readable by no other user of the operating system.
fn make_key(file: &Path) -> CommandResult<[u8; BYTES]> {
    let mut key = [0; BYTES];
    getrandom::fill(&mut key)?;
    let folder = file.parent().unwrap_or(Path::new("."));
    store::sqlite::make_private_folder(folder)?;
    let digits: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    replace_file(file, digits.as_bytes(), PRIVATE)?; // a key that is gone after a power failure opens nothing
    Ok(key)
}

fn parse_key(text: &str) -> Option<[u8; BYTES]> {
    let digits = text.trim().as_bytes();
    if digits.len() != BYTES * 2 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut key = [0; BYTES];
    for (byte, pair) in key.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_is_nobody_elses_to_read() {
        let folder = tempfile::tempdir().unwrap();
        let first = key(&folder.path().join("data")).unwrap();
        assert_eq!(key(&folder.path().join("data")).unwrap(), first);
        assert_ne!(first, [0; BYTES]);
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &std::fs::metadata(folder.path().join("data/vault.key")).unwrap().permissions(),
        );
        assert_eq!(mode & 0o077, 0);
    }

    #[test]
    fn a_key_is_64_hexadecimal_digits() {
        assert_eq!(parse_key(&format!(" {}\n", "0F".repeat(BYTES))), Some([15; BYTES]));
        for wrong in
            ["", &"0f".repeat(BYTES - 1), &"0f".repeat(BYTES + 1), &"+f".repeat(BYTES), &"é".repeat(BYTES)]
        {
            assert_eq!(parse_key(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_key_that_is_none_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), "short").unwrap();
        assert!(key(folder.path()).unwrap_err().to_string().contains("vault.key"));
        assert_eq!(std::fs::read_to_string(folder.path().join(FILE)).unwrap(), "short");
    }
}

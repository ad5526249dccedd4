//! SHA-256 sums of files, in the format of the program `sha256sum`.

use sha2::{Digest, Sha256};

/// The sum in hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The text of `SHA256SUMS`, sorted by name.
pub(crate) fn sums(files: &[(String, String)]) -> String {
    let mut lines: Vec<(&str, &str)> =
        files.iter().map(|(name, sum)| (name.as_str(), sum.as_str())).collect();
    lines.sort_unstable();
    lines.into_iter().map(|(name, sum)| format!("{sum}  {name}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_as_sha256sum_writes_them() {
        let sum = sha256(b"abc");
        assert_eq!(sum, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let files = [("b".to_owned(), "2".to_owned()), ("a".to_owned(), "1".to_owned())];
        assert_eq!(sums(&files), "1  a\n2  b\n");
    }
}

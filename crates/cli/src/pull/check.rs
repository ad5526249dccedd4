//! Whether files are the weights they are said to be, as far as their first bytes tell.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use serde_json::Value;

use super::error::PullError;
use super::model_list::EMBEDDER_FILES;
use crate::weights::{CHAT_FILE, WeightsKind};

const GGUF_MAGIC: &[u8; 4] = b"GGUF";
const GGUF_VERSIONS: std::ops::RangeInclusive<u32> = 2..=3;
/// The length of the header, which stands before it.
const PREFIX_BYTES: u64 = 8;
const MAX_HEADER_BYTES: u64 = 100 << 20;
const MAX_JSON_BYTES: u64 = 64 << 20;
/// How the files of quantised models end in their names, as in `Q4_K_M` or `BF16`.
const ENCODINGS: [&str; 5] = ["q", "iq", "f", "bf", "tq"];

pub(super) fn folder(folder: &Path, kind: WeightsKind) -> Result<(), PullError> {
    match kind {
        WeightsKind::Chat => gguf(&folder.join(CHAT_FILE)),
        WeightsKind::Embedding => {
            for name in EMBEDDER_FILES {
                let path = folder.join(name);
                if name.ends_with(".json") { json(&path)? } else { safetensors(&path)? }
            }
            Ok(())
        }
    }
}

pub(super) fn gguf(path: &Path) -> Result<(), PullError> {
    let mut begin = [0; 8];
    let mut file = File::open(path).map_err(PullError::file(path))?;
    let whole = file.read_exact(&mut begin).is_ok();
    let [magic @ .., a, b, c, d] = begin;
    if !whole || &magic != GGUF_MAGIC {
        return Err(PullError::unfit(path, "it is not a GGUF file"));
    }
    match u32::from_le_bytes([a, b, c, d]) {
        version if GGUF_VERSIONS.contains(&version) => Ok(()),
        version => {
            Err(PullError::unfit(path, format!("it is GGUF version {version}, which is not supported")))
        }
    }
}

/// The header has to be JSON, and name exactly the bytes that follow it.
fn safetensors(path: &Path) -> Result<(), PullError> {
    let trouble = |reason: &str| PullError::unfit(path, format!("it is not a safetensors file: {reason}"));
    let mut file = File::open(path).map_err(PullError::file(path))?;
    let size = file.metadata().map_err(PullError::file(path))?.len();
    let mut prefix = [0; 8];
    file.read_exact(&mut prefix).map_err(|_| trouble("it is too short"))?;
    let length = u64::from_le_bytes(prefix);
    if length > MAX_HEADER_BYTES || length > size.saturating_sub(PREFIX_BYTES) {
        return Err(trouble("its header is too long"));
    }
    let header: Value =
        serde_json::from_reader(file.take(length)).map_err(|_| trouble("its header is not JSON"))?;
    let tensors = header.as_object().ok_or_else(|| trouble("its header is not an object"))?;
    let end = |tensor: &Value| tensor.get("data_offsets")?.get(1)?.as_u64();
    let last = tensors.values().filter_map(end).max().ok_or_else(|| trouble("it contains no tensor"))?;
    if PREFIX_BYTES.checked_add(length).and_then(|begin| begin.checked_add(last)) == Some(size) {
        Ok(())
    } else {
        Err(trouble("its length differs from its header"))
    }
}

fn json(path: &Path) -> Result<(), PullError> {
    let file = File::open(path).map_err(PullError::file(path))?;
    let parsed: Result<Value, _> = serde_json::from_reader(BufReader::new(file.take(MAX_JSON_BYTES)));
    parsed.map(drop).map_err(|error| PullError::unfit(path, format!("it is not JSON: {error}")))
}

/// The encoding of weights, as the name of their file says.
pub(super) fn quantisation(file_name: &str) -> Option<String> {
    let stem = file_name.strip_suffix(".gguf").unwrap_or(file_name);
    let last = stem.rsplit(['.', '-']).next()?;
    let letters: String = last.chars().take_while(char::is_ascii_alphabetic).collect();
    let rest = last.get(letters.len()..)?;
    let known = ENCODINGS.contains(&letters.to_ascii_lowercase().as_str());
    (known && rest.starts_with(|digit: char| digit.is_ascii_digit())).then(|| last.to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(bytes: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        file
    }

    fn safe(header: &str, data: &[u8]) -> Vec<u8> {
        [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
    }

    #[test]
    fn only_gguf_of_a_known_version_is_gguf() {
        for (bytes, good) in [
            (&b"GGUF\x03\0\0\0"[..], true),
            (b"GGUF\x02\0\0\0more", true),
            (b"GGUF\x01\0\0\0", false),
            (b"GGUF\0\0\0\x03", false),
            (b"GGUF\x03\0\0", false),
            (b"<html><head>", false),
            (b"", false),
        ] {
            assert_eq!(gguf(written(bytes).path()).is_ok(), good, "{bytes:?}");
        }
    }

    #[test]
    fn safetensors_are_as_long_as_their_header_says() {
        let header = r#"{"__metadata__": {"a": "b"}, "w": {"data_offsets": [0, 4]}}"#;
        for (bytes, complaint) in [
            (safe(header, b"1234"), None),
            (safe(header, b"123"), Some("its length differs")),
            (safe(header, b"12345"), Some("its length differs")),
            (safe("{}", b""), Some("it contains no tensor")),
            (safe("[1]", b""), Some("its header is not an object")),
            (safe("nonsense", b""), Some("its header is not JSON")),
            (u64::MAX.to_le_bytes().to_vec(), Some("its header is too long")),
            (b"1234".to_vec(), Some("it is too short")),
            (safe(&format!(r#"{{"w": {{"data_offsets": [0, {}]}}}}"#, u64::MAX), b""), Some("its length")),
        ] {
            let checked = safetensors(written(&bytes).path()).map_err(|error| error.to_string());
            match (checked, complaint) {
                (Ok(()), None) => {}
                (Err(error), Some(complaint)) => assert!(error.contains(complaint), "{error}"),
                (checked, complaint) => panic!("{checked:?} where {complaint:?} was expected"),
            }
        }
    }

    #[test]
    fn the_encoding_is_read_from_the_name() {
        for (name, encoding) in [
            ("SmolLM2-135M-Instruct.Q4_1.gguf", Some("Q4_1")),
            ("Qwen3-8B-iq2_xxs.gguf", Some("IQ2_XXS")),
            ("m-BF16.gguf", Some("BF16")),
            ("mistral-7b.gguf", None),
            ("model.gguf", None),
            ("ü.gguf", None),
            ("", None),
        ] {
            assert_eq!(quantisation(name).as_deref(), encoding, "{name}");
        }
    }
}

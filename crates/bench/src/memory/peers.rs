//! A search of these vectors by other programs: numpy, faiss and sqlite-vec, all of them without an index of their own.

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use super::fill;

/// The folder into which `cargo xtask bench memory` puts the packages.
const PACKAGES: &str = "target/bench-memory";
const SCRIPT: &str = include_str!("peers.py");

pub(super) fn compare(count: usize) -> Result<String, Box<dyn Error>> {
    let mut file = tempfile::NamedTempFile::new()?;
    for number in 0..count {
        let numbers = fill::vector(&fill::text(number));
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        file.write_all(&bytes)?;
    }
    file.flush()?;
    if !Path::new(PACKAGES).is_dir() {
        return Ok("NOT COMPARED: the Python packages are not there".into());
    }
    let ran = Command::new("python3")
        .args(["-c", SCRIPT])
        .arg(file.path())
        .arg(fill::DIMENSIONS.to_string())
        .env("PYTHONPATH", PACKAGES)
        .output()?;
    let (out, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    Ok(if ran.status.success() { out.into_owned() } else { format!("NOT COMPARED: {errors}") })
}

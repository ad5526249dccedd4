//! Compresses the files of the apps that come with Rondo, so that the binary contains them, and names their version.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::DeflateEncoder;
use sha2::{Digest, Sha256};

/// Six bytes distinguish the versions of the files.
const REVISION_BYTES: usize = 6;

fn main() -> Result<(), Box<dyn Error>> {
    let apps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps").canonicalize()?;
    println!("cargo::rerun-if-changed={}", apps.display());
    let mut files = Vec::new();
    add_files(&apps, &mut files)?;
    files.sort();
    let output = output_folder()?;
    let mut list = String::from("&[\n");
    for (number, file) in files.iter().enumerate() {
        let compressed = output.join(format!("app-file-{number}"));
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&fs::read(file)?)?;
        fs::write(&compressed, encoder.finish()?)?;
        writeln!(list, "    ({:?}, include_bytes!({compressed:?})),", file.strip_prefix(&apps)?)?;
    }
    list.push_str("]\n");
    fs::write(output.join("apps.rs"), list)?;
    Ok(fs::write(output.join("apps_revision.rs"), format!("{:?}\n", revision(&apps, &files)?))?)
}

/// Names the content of the files: equal content, equal revision. The server would need some milliseconds at each start.
fn revision(apps: &Path, files: &[PathBuf]) -> Result<String, Box<dyn Error>> {
    let mut hash = Sha256::new();
    for file in files {
        let content = fs::read(file)?;
        hash.update(file.strip_prefix(apps)?.as_os_str().as_encoded_bytes());
        hash.update([0]);
        hash.update(content.len().to_le_bytes());
        hash.update(content);
    }
    Ok(hash.finalize().iter().take(REVISION_BYTES).map(|byte| format!("{byte:02x}")).collect())
}

/// Hidden files are left out, as the server leaves out hidden folders.
fn add_files(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if path.is_dir() {
            add_files(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "cargo names the folder in the environment only")]
fn output_folder() -> Result<PathBuf, std::env::VarError> {
    std::env::var("OUT_DIR").map(PathBuf::from)
}

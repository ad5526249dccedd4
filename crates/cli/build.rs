//! Lists the files of the apps that come with Rondo, so that the binary contains them.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let apps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps").canonicalize()?;
    println!("cargo::rerun-if-changed={}", apps.display());
    let mut files = Vec::new();
    add_files(&apps, &mut files)?;
    files.sort();
    let mut list = String::from("&[\n");
    for file in &files {
        writeln!(list, "    ({:?}, include_bytes!({file:?})),", file.strip_prefix(&apps)?)?;
    }
    list.push_str("]\n");
    Ok(fs::write(output_folder()?.join("apps.rs"), list)?)
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

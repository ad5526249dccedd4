//! Compresses the description of the API and the files of the web console. The binary contains the latter in the form
//! in which browsers get them.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

fn main() -> Result<(), Box<dyn Error>> {
    let output = output_folder()?;
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let description = crate_folder.join("openapi.json");
    println!("cargo::rerun-if-changed={}", description.display());
    compress(&description, &output.join("openapi.json.gz"))?;
    let dist = crate_folder.join("../../console/dist").canonicalize()?;
    println!("cargo::rerun-if-changed={}", dist.display());
    let mut list = String::from("&[\n");
    for (number, name) in names(&dist)?.iter().enumerate() {
        let compressed = output.join(format!("console-{number}.gz"));
        compress(&dist.join(name), &compressed)?;
        writeln!(list, "    ({name:?}, include_bytes!({compressed:?})),")?;
    }
    list.push_str("]\n");
    Ok(fs::write(output.join("console.rs"), list)?)
}

fn compress(file: &Path, compressed: &Path) -> std::io::Result<()> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&fs::read(file)?)?;
    fs::write(compressed, encoder.finish()?)
}

/// The page, and the files in its one folder, in order.
fn names(dist: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut names = vec!["index.html".to_owned()];
    let mut files = Vec::new();
    for entry in fs::read_dir(dist.join("_console"))? {
        let name = entry?.file_name().into_string().map_err(|name| format!("{name:?} is not UTF-8"))?;
        files.push(format!("_console/{name}"));
    }
    files.sort();
    names.extend(files);
    Ok(names)
}

#[expect(clippy::disallowed_methods, reason = "cargo names the folder in the environment only")]
fn output_folder() -> Result<PathBuf, std::env::VarError> {
    std::env::var("OUT_DIR").map(PathBuf::from)
}

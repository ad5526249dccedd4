//! Files that are there as a whole or not at all, and texts of files that others have made.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The mode of a file that only its owner may read.
pub(crate) const PRIVATE: u32 = 0o600;

/// The mode of other files, as far as the process lets others read what it writes.
pub(crate) const PUBLIC: u32 = 0o666;

/// Writes a file beside its place, and then puts it there. It survives a power failure.
pub(crate) fn replace_file(file: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let beside = file.with_added_extension(format!("{}.new", std::process::id()));
    let new = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&beside);
    let written = new.and_then(|mut new| {
        new.write_all(bytes)?;
        new.sync_all()?;
        fs::rename(&beside, file)
    });
    if written.is_err() {
        let _ = fs::remove_file(&beside); // half a file is of no use
    }
    written?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// The text of a file that is not larger than `most` bytes.
pub(crate) fn read_text(file: &Path, most: u64) -> Result<String, String> {
    let mut text = String::new();
    let read = File::open(file).and_then(|opened| opened.take(most + 1).read_to_string(&mut text));
    match read {
        Err(error) => Err(error.to_string()),
        Ok(bytes) if bytes as u64 > most => Err(format!("is larger than {} MiB", most / 1024 / 1024)),
        Ok(_) => Ok(text),
    }
}

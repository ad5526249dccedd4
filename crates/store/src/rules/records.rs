//! Records and files: versions that a write expects, bounds, and the words of a refusal.

use protocol::RecordId;

use crate::{
    Error, MAX_FILE_BYTES, MAX_FILE_BYTES_PER_SCOPE, MAX_FILES_PER_SCOPE, MAX_PATH_BYTES, MAX_RECORD_BYTES,
    MAX_RECORDS_PER_TYPE,
};

/// A record or a file as it stands, deleted or not. All zero and empty where there never was one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StandingVersion<T> {
    pub version: u64,
    /// The version that first had these contents.
    pub state: u64,
    pub contents: Option<T>,
}

impl<T> StandingVersion<T> {
    /// Whether a write that expects a version comes in time. `thing` names the record or file.
    pub fn check_expected(&self, expected: u64, thing: &str) -> Result<(), Error> {
        let version = self.version;
        if version == expected {
            return Ok(());
        }
        Err(Error::Changed(match self.contents {
            Some(_) if expected == 0 => {
                format!("there is a {thing} already; its version is {version}")
            }
            Some(_) => format!("the {thing} has changed meanwhile; its version is {version}"),
            None => format!("there is no {thing}"),
        }))
    }
}

/// The name of a record in a refusal.
pub fn record_name(kind: &str, id: RecordId) -> String {
    format!("{kind} {id}")
}

/// The name of a file in a refusal.
pub fn file_name(path: &str) -> String {
    format!("file {path}")
}

/// Why something that is not there cannot be changed.
pub fn not_there(thing: &str) -> Error {
    Error::Changed(format!("there is no {thing}"))
}

pub fn check_path(path: &str) -> Result<(), Error> {
    if path.is_empty() || path.len() > MAX_PATH_BYTES {
        return Err(Error::Changed(format!("the path of a file has 1 to {MAX_PATH_BYTES} bytes")));
    }
    Ok(())
}

pub fn check_record_size(bytes: usize) -> Result<(), Error> {
    if bytes > MAX_RECORD_BYTES {
        return Err(Error::Changed(format!("a record has at most {MAX_RECORD_BYTES} bytes")));
    }
    Ok(())
}

/// Whether a scope with `there` records of a type may have another.
pub fn check_record_room(there: u64, kind: &str) -> Result<(), Error> {
    if there < MAX_RECORDS_PER_TYPE as u64 {
        return Ok(());
    }
    let words =
        format!("there are {MAX_RECORDS_PER_TYPE} records of the type {kind} already; delete some first");
    Err(Error::Changed(words))
}

pub fn check_file_size(bytes: usize) -> Result<(), Error> {
    if bytes > MAX_FILE_BYTES {
        return Err(Error::Changed(format!("a file has at most {MAX_FILE_BYTES} bytes")));
    }
    Ok(())
}

/// Files of a scope: how many there are, and their bytes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileTotals {
    pub files: u64,
    pub bytes: u64,
}

/// Whether a scope has room for a file of `bytes` bytes in place of one of `replaced` bytes.
pub fn check_file_room(totals: FileTotals, bytes: usize, replaced: Option<usize>) -> Result<(), Error> {
    let (there, freed) = replaced.map_or((0, 0), |bytes| (1, bytes as u64));
    if totals.files.saturating_sub(there) >= MAX_FILES_PER_SCOPE as u64 {
        let words = format!("there are {MAX_FILES_PER_SCOPE} files already; delete some first");
        return Err(Error::Changed(words));
    }
    if totals.bytes.saturating_sub(freed) + bytes as u64 > MAX_FILE_BYTES_PER_SCOPE as u64 {
        let message = format!("the files would have more than {MAX_FILE_BYTES_PER_SCOPE} bytes together");
        return Err(Error::Changed(format!("{message}; shorten or delete some first")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_for_another_version_is_refused_in_words() {
        let there = StandingVersion { version: 3, state: 3, contents: Some(()) };
        let gone = StandingVersion::<()> { version: 3, state: 3, contents: None };
        let words = |standing: &StandingVersion<()>, expected| {
            standing.check_expected(expected, "file a.md").err().map(|error| error.to_string())
        };
        assert_eq!(words(&there, 3), None);
        assert_eq!(words(&there, 0).unwrap(), "there is a file a.md already; its version is 3");
        assert_eq!(words(&there, 2).unwrap(), "the file a.md has changed meanwhile; its version is 3");
        assert_eq!(words(&gone, 2).unwrap(), "there is no file a.md");
    }

    #[test]
    fn a_file_that_takes_the_place_of_another_needs_no_more_room() {
        let full = FileTotals { files: MAX_FILES_PER_SCOPE as u64, bytes: 10 };
        assert!(check_file_room(full, 1, None).is_err());
        assert!(check_file_room(full, 1, Some(1)).is_ok());
    }
}

//! Why weights could not be fetched, and what to do about it.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use reqwest::StatusCode;

use super::model_list::KNOWN;

#[derive(Debug, thiserror::Error)]
pub(crate) enum PullError {
    #[error("there is no model {0:?} to pull; known models are {known}; or give the URL or the path of a .gguf file, or the folder of an embedding model", known = known_names())]
    Unknown(String),
    #[error(
        "{0:?} cannot be the name of a model; with --name, give at most 64 letters, digits, dots, dashes and \
         underscores"
    )]
    Name(String),
    #[error(
        "there is a model {0:?} from another source; give another --name, or run `rondo models remove {0}` \
         first"
    )]
    Taken(String),
    #[error("there is no pulled model {0:?}; `rondo models list` shows all pulled models")]
    Missing(String),
    #[error("another pull or remove is active in {}; wait until it has ended", .0.display())]
    Busy(PathBuf),
    #[error("{what} is not a usable URL: {reason}")]
    Url { what: String, reason: String },
    #[error("{url} does not answer: {reason}; check the connection and try again")]
    Unreachable { url: String, reason: String },
    #[error("{url} answers {status}; {}", remedy(*.status))]
    Refused { url: String, status: StatusCode },
    #[error(
        "the download from {url} stopped after {bytes} bytes: {reason}; run the same command again to \
         continue from there"
    )]
    Broken { url: String, bytes: u64, reason: String },
    #[error("{what} is larger than {max} bytes, the maximum")]
    TooLarge { what: String, max: u64 },
    #[error(
        "the download from {url} has the wrong checksum: its SHA-256 is {found}, not {expected}; the file \
         was deleted, so try again, and if the error remains, do not trust the source"
    )]
    Hash { url: String, expected: String, found: String },
    #[error("the package index {url} cannot be used: {reason}; set PIP_INDEX_URL to another index")]
    Index { url: String, reason: String },
    #[error("{} is not valid: {reason}", .file.display())]
    Unfit { file: PathBuf, reason: String },
    #[error("the disk has no space for {}; free some space and run the same command again", .0.display())]
    NoSpace(PathBuf),
    #[error("{}: {error}", .file.display())]
    File { file: PathBuf, error: io::Error },
    #[error("{first}\nthe other source failed as well: {second}")]
    Both { first: Box<PullError>, second: Box<PullError> },
}

impl PullError {
    pub(super) fn file(file: &Path) -> impl FnOnce(io::Error) -> Self + use<'_> {
        move |error| {
            if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) {
                Self::NoSpace(file.to_owned())
            } else {
                Self::File { file: file.to_owned(), error }
            }
        }
    }

    pub(super) fn unfit(file: &Path, reason: impl Into<String>) -> Self {
        Self::Unfit { file: file.to_owned(), reason: reason.into() }
    }

    /// Whether another source may do better.
    pub(super) fn is_the_sources(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Refused { .. })
    }
}

fn known_names() -> String {
    KNOWN.iter().map(|known| known.name).collect::<Vec<_>>().join(", ")
}

fn remedy(status: StatusCode) -> &'static str {
    match status {
        StatusCode::NOT_FOUND | StatusCode::GONE => "check the address",
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            "the file is not public; download it yourself, and pull it from its path"
        }
        StatusCode::TOO_MANY_REQUESTS => "wait a little and try again",
        _ if status.is_server_error() => "try again later",
        _ => "check the address, and whether it can be opened in a browser",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_from_other_failures_of_a_file() {
        let path = Path::new("models/x.partial/model.gguf");
        let full = PullError::file(path)(io::Error::from(ErrorKind::StorageFull));
        assert_eq!(
            full.to_string(),
            "the disk has no space for models/x.partial/model.gguf; free some space and run the same command again"
        );
        let denied = PullError::file(path)(io::Error::from(ErrorKind::PermissionDenied));
        assert_eq!(denied.to_string(), "models/x.partial/model.gguf: permission denied");
    }
}

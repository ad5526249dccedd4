//! O13: what the server holds when all is quiet again.

use serde::Serialize;

use crate::record::Violation;

use super::case::violation;

/// The growth that is allowed: in hundredths of what was held before, and a number of files or bytes beside that.
const MORE_PERCENT: u64 = 10;
const MORE_FILES: u64 = 16;
/// Caches fill in the course of a trial, and the allocator keeps what it had.
const MORE_BYTES: u64 = 96 * 1024 * 1024;
const MAX_LOG_BYTES: u64 = 64 * 1024 * 1024;

/// Measured in the process, before the trial and when it was quiet after it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Resources {
    pub(crate) bytes_before: u64,
    pub(crate) bytes_after: u64,
    pub(crate) files_before: u64,
    pub(crate) files_after: u64,
    /// Of the write-ahead log.
    pub(crate) log_bytes: u64,
}

/// Looks at each node.
pub(super) fn check(nodes: &[Resources]) -> Vec<Violation> {
    let found = nodes.iter().enumerate().flat_map(|(node, resources)| {
        of_node(resources).into_iter().map(move |what| violation("O13", format!("node {node}: {what}")))
    });
    found.collect()
}

fn of_node(resources: &Resources) -> Vec<String> {
    let Resources { bytes_before, bytes_after, files_before, files_after, log_bytes } = *resources;
    let most = |before: u64, more: u64| before + before * MORE_PERCENT / 100 + more;
    let mut found = Vec::new();
    if bytes_after > most(bytes_before, MORE_BYTES) {
        found.push(format!("{bytes_after} bytes of memory are held, and {bytes_before} were before"));
    }
    if files_after > most(files_before, MORE_FILES) {
        found.push(format!("{files_after} files are open, and {files_before} were before"));
    }
    if log_bytes > MAX_LOG_BYTES {
        found.push(format!("the write-ahead log has {log_bytes} bytes"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_may_grow_a_little() {
        let before = Resources { bytes_before: 100 << 20, files_before: 100, ..Resources::default() };
        let most = Resources {
            bytes_after: (110 << 20) + MORE_BYTES,
            files_after: 126,
            log_bytes: 64 << 20,
            ..before
        };
        assert_eq!(check(&[before, most]), []);
        let more = [
            Resources { bytes_after: most.bytes_after + 1, ..most },
            Resources { files_after: most.files_after + 1, ..most },
            Resources { log_bytes: most.log_bytes + 1, ..most },
        ];
        for more in more {
            assert_eq!(check(&[most, more]).len(), 1, "{more:?}");
        }
    }
}

//! Earlier versions of records and files: how many of them are kept.

/// Earlier versions of one record or file, and bytes that they have together. The newest is kept at any size.
pub const MAX_VERSIONS: usize = 50;
pub const MAX_VERSION_BYTES: u64 = 512 * 1024;

/// An earlier version, by its number and its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionSize {
    pub version: u64,
    pub bytes: u64,
}

/// The newest version that is no longer kept; those before it go with it. The versions are given newest first.
pub fn newest_dropped(versions: &[VersionSize]) -> Option<u64> {
    let mut bytes = 0_u64;
    let dropped = versions.iter().enumerate().find(|(place, size)| {
        bytes = bytes.saturating_add(size.bytes);
        *place >= MAX_VERSIONS || (*place > 0 && bytes > MAX_VERSION_BYTES)
    });
    dropped.map(|(_, size)| size.version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(newest: u64, bytes: u64, count: u64) -> Vec<VersionSize> {
        (0..count).map(|place| VersionSize { version: newest - place, bytes }).collect()
    }

    #[test]
    fn so_many_versions_are_kept() {
        assert_eq!(newest_dropped(&sizes(60, 10, 50)), None);
        assert_eq!(newest_dropped(&sizes(60, 10, 51)), Some(10));
    }

    #[test]
    fn large_versions_leave_room_for_fewer_and_the_newest_is_always_kept() {
        assert_eq!(newest_dropped(&sizes(9, MAX_VERSION_BYTES, 1)), None);
        assert_eq!(newest_dropped(&sizes(9, MAX_VERSION_BYTES + 1, 1)), None);
        assert_eq!(newest_dropped(&sizes(9, MAX_VERSION_BYTES / 2, 3)), Some(7));
        assert_eq!(newest_dropped(&[]), None);
    }
}

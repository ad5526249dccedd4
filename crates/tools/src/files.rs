//! The form of a path of a user's file. Files are rows of the store, yet their paths end up in exports and archives,
//! so nothing is taken that could mean something to a file system.

use store::MAX_PATH_BYTES;

/// Why a path is none, in words that say what to write.
pub fn check_path(path: &str) -> Result<(), String> {
    if path.is_empty() || path.len() > MAX_PATH_BYTES {
        return Err(format!("a path has 1 to {MAX_PATH_BYTES} bytes"));
    }
    if path.starts_with('/') {
        return Err("a path is relative; leave out the slash at the beginning".into());
    }
    let odd = |c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ' ' | '/'));
    if let Some(odd) = path.chars().find(|c| odd(*c)) {
        return Err(format!("{odd:?} cannot be in a path; use letters, digits, spaces and - _ . /"));
    }
    for segment in path.split('/') {
        match segment {
            "" | "." | ".." => return Err(format!("{segment:?} cannot be a part of a path")),
            spaced if spaced.trim() != spaced => {
                return Err("a part of a path neither begins nor ends with a space".into());
            }
            _ => {}
        }
    }
    let name = path.rsplit('/').next().and_then(|name| name.strip_suffix(".md"));
    if name.is_none_or(str::is_empty) {
        return Err("a path ends in a name and .md".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn plain_relative_paths_are_taken() {
        for path in
            ["a.md", "notes/2026-03-01.md", "Été/über mich.md", "日記/一.md", "a..b.md", ".hidden/a.md"]
        {
            assert_eq!(check_path(path), Ok(()), "{path}");
        }
        assert_eq!(check_path(&format!("{}.md", "a".repeat(253))), Ok(()));
    }

    #[test]
    fn hostile_paths_are_refused() {
        let long = format!("{}.md", "a".repeat(254));
        for path in [
            "",
            "/a.md",
            "//a.md",
            "../a.md",
            "a/../b.md",
            "a/./b.md",
            "./a.md",
            "a//b.md",
            "a.md/",
            "a\\b.md",
            "..\\a.md",
            "C:a.md",
            "a\0.md",
            "a\n.md",
            "a\u{202e}.md",
            "a%2e.md",
            "~/a.md",
            "a",
            "a.txt",
            ".md",
            "a/.md",
            "a.MD",
            " a.md",
            "a /b.md",
            "a.md ",
            "a:b.md",
            "a*.md",
            "e\u{301}.md",
            &long,
        ] {
            assert!(check_path(path).is_err(), "{path:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_taken_stays_where_it_is(path in "\\PC{0,20}|[a./\\\\ ~]{1,12}\\.md") {
            if check_path(&path).is_ok() {
                let plain = |part: std::path::Component<'_>| matches!(part, std::path::Component::Normal(_));
                prop_assert!(std::path::Path::new(&path).components().all(plain));
                prop_assert!(!path.contains('\\') && !path.chars().any(char::is_control));
            }
        }
    }
}

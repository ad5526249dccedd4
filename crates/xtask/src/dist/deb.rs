//! A Debian package: an `ar` archive of a version, the control files and the installed files.

use std::io;

use flate2::Compression;

use super::file_tree::{FileTree, OPEN, READABLE, gzip};

/// The facts that the control file states.
pub(crate) struct DebFacts<'a> {
    pub(crate) version: &'a str,
    /// Debian's name of the architecture.
    pub(crate) architecture: &'a str,
    /// Packages that are installed with it, beside those that every system has.
    pub(crate) depends: &'a str,
}

/// Files that tell dpkg how to install the package, by name.
const SCRIPTS: &[(&str, &str, u32)] = &[
    ("conffiles", include_str!("../../../../packaging/deb/conffiles"), READABLE),
    ("postinst", include_str!("../../../../packaging/deb/postinst"), OPEN),
    ("postrm", include_str!("../../../../packaging/deb/postrm"), OPEN),
    ("prerm", include_str!("../../../../packaging/deb/prerm"), OPEN),
];

const BYTES_OF_KIB: usize = 1024;

/// The package as bytes.
pub(crate) fn package(
    facts: &DebFacts<'_>,
    files: &FileTree,
    epoch: u64,
    level: Compression,
) -> io::Result<Vec<u8>> {
    let mut control = FileTree::default();
    control.add_file("control", control_file(facts, files.size()), READABLE);
    for (name, text, mode) in SCRIPTS {
        control.add_file(name, *text, *mode);
    }
    let members = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", gzip(&control.tar(epoch)?, level)?),
        ("data.tar.gz", gzip(&files.tar(epoch)?, level)?),
    ];
    Ok(ar(&members, epoch))
}

fn control_file(facts: &DebFacts<'_>, size: usize) -> String {
    let DebFacts { version, architecture, depends } = facts;
    let installed = size.div_ceil(BYTES_OF_KIB);
    format!(
        "Package: rondo\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: The Rondo contributors \
         <rondo@localhost>\nInstalled-Size: {installed}\nDepends: {depends}\nSection: net\nPriority: optional\n\
         Description: agent server for chat products\n Rondo runs the AI agent behind a chat product. It stores \
         conversations, streams\n the answers of a language model, runs tool calls and keeps a ledger of them.\n .\n \
         The package has one static binary with five example apps inside.\n"
    )
}

/// The archive format of Unix: a header of 60 bytes before each member, at even offsets.
fn ar(members: &[(&str, Vec<u8>)], epoch: u64) -> Vec<u8> {
    let mut archive = b"!<arch>\n".to_vec();
    for (name, content) in members {
        let size = content.len();
        let header = format!("{name:<16}{epoch:<12}{:<6}{:<6}{:<8}{size:<10}`\n", 0, 0, "100644");
        archive.extend_from_slice(header.as_bytes());
        archive.extend_from_slice(content);
        if content.len() % 2 == 1 {
            archive.push(b'\n');
        }
    }
    archive
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_have_headers_of_sixty_bytes_and_even_offsets() {
        let archive = ar(&[("odd", b"abc".to_vec()), ("even", b"de".to_vec())], 7);
        let text = String::from_utf8(archive).unwrap();
        let header =
            |name: &str, length: &str| format!("{name:<16}7           0     0     100644  {length:<10}`\n");
        assert_eq!(text, format!("!<arch>\n{}abc\n{}de", header("odd", "3"), header("even", "2")));
        assert_eq!(header("odd", "3").len(), 60);
    }

    #[test]
    fn the_control_file_names_what_dpkg_needs() {
        let facts = DebFacts { version: "1.2.3", architecture: "arm64", depends: "passwd" };
        let control = control_file(&facts, 1025);
        for line in ["Package: rondo", "Version: 1.2.3", "Architecture: arm64", "Installed-Size: 2"] {
            assert!(control.lines().any(|other| other == line), "{line}: {control}");
        }
        let continued = control.lines().skip_while(|line| !line.starts_with("Description")).skip(1);
        assert!(continued.into_iter().all(|line| line.starts_with(' ')), "{control}");
    }

    #[test]
    fn the_same_files_make_the_same_package() {
        let facts = DebFacts { version: "1", architecture: "amd64", depends: "passwd" };
        let mut files = FileTree::default();
        files.add_file("usr/bin/rondo", "program", OPEN);
        let packed = || package(&facts, &files, 9, Compression::fast()).unwrap();
        assert_eq!(packed(), packed());
        assert!(packed().starts_with(b"!<arch>\ndebian-binary   9"));
    }
}

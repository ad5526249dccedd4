//! Writes the files in `data`: the classes of all characters, and for each vocabulary its tokens, compressed. They are
//! kept in the repository, so that a build needs neither the crate `tiktoken` nor its regular expressions. The tests
//! compare them with both. After a new version of Unicode: `cargo run -p tokens --example write_data`.

use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use regex_syntax::hir::{Class, HirKind};

#[path = "../src/shared.rs"]
mod shared;

use shared::{BLOCK, CASELESS, LINE_END, LOWER, MARK, NUMBER, OTHER, SPACE, UPPER};

/// The classes in the words of the regular expressions. A later line wins over an earlier one.
const CLASSES: &[(&str, u8)] = &[
    (r"[\p{Lu}\p{Lt}]", UPPER),
    (r"\p{Ll}", LOWER),
    (r"[\p{Lm}\p{Lo}]", CASELESS),
    (r"\p{M}", MARK),
    (r"\p{N}", NUMBER),
    (r"\s", SPACE),
    (r"[\r\n]", LINE_END),
];

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    write_classes(&folder)?;
    for name in ["o200k_base", "cl100k_base"] {
        write_vocabulary(&folder, name)?;
    }
    Ok(())
}

/// Writes the class of every character as blocks, equal ones only once, and the number of the block of each place.
fn write_classes(folder: &Path) -> Result<(), Box<dyn Error>> {
    let mut classes = vec![OTHER; char::MAX as usize + 1];
    for (pattern, class) in CLASSES {
        let hir = regex_syntax::parse(pattern)?;
        let HirKind::Class(Class::Unicode(set)) = hir.kind() else {
            return Err(format!("{pattern} is no class of characters").into());
        };
        for range in set.iter() {
            let members = classes.get_mut(range.start() as usize..=range.end() as usize);
            members.ok_or("a range after the last character")?.fill(*class);
        }
    }
    let mut blocks: Vec<&[u8]> = Vec::new();
    let mut numbers = Vec::new();
    for block in classes.chunks(BLOCK) {
        let number = blocks.iter().position(|kept| *kept == block).unwrap_or_else(|| {
            blocks.push(block);
            blocks.len() - 1
        });
        numbers.push(u8::try_from(number)?);
    }
    fs::write(folder.join("classes.blocks"), blocks.concat())?;
    Ok(fs::write(folder.join("classes.numbers"), numbers)?)
}

/// Writes the lengths of all tokens in the order of their ranks, and their bytes.
fn write_vocabulary(folder: &Path, name: &str) -> Result<(), Box<dyn Error>> {
    let encoding = tiktoken::get_encoding(name).ok_or("no such vocabulary")?;
    let (mut lengths, mut bytes) = (Vec::new(), Vec::new());
    for rank in 0..u32::try_from(encoding.vocab_size())? {
        let token = encoding.decode(&[rank]);
        if token.is_empty() {
            return Err(format!("{name} has no token of rank {rank}").into());
        }
        lengths.push(u8::try_from(token.len())?);
        bytes.extend(token);
    }
    fs::write(folder.join(format!("{name}.lengths")), deflate(&lengths)?)?;
    Ok(fs::write(folder.join(format!("{name}.bytes")), deflate(&bytes)?)?)
}

fn deflate(plain: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain)?;
    encoder.finish()
}

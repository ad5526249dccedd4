//! Writes the tables of the crate: the classes of all characters, and for each vocabulary its tokens and a hash table.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use regex_syntax::hir::{Class, HirKind};

#[path = "src/shared.rs"]
mod shared;

use shared::{
    BLOCK, CASELESS, LINE_END, LOWER, MARK, NUMBER, OTHER, PLACE_BITS, RECORD_HEAD, SPACE, UPPER, first_slot,
    hash, tag,
};

/// Slots of a hash table for each 3 tokens. A quarter of the slots is empty, so that the search for bytes that are no token
/// ends soon.
const SLOTS_FOR_3: usize = 4;

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
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/shared.rs");
    let folder = output_folder()?;
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

/// Writes the records of all tokens in the order of their ranks, and the hash table that leads to them.
fn write_vocabulary(folder: &Path, name: &str) -> Result<(), Box<dyn Error>> {
    let encoding = tiktoken::get_encoding(name).ok_or("no such vocabulary")?;
    let size = encoding.vocab_size();
    let mut records: Vec<u8> = Vec::new();
    let mut pairs = vec![[0_u8; 3]; 1 << 16];
    let mut slots = vec![0_u32; size * SLOTS_FOR_3 / 3];
    for rank in 0..u32::try_from(size)? {
        let token = encoding.decode(&[rank]);
        if token.is_empty() {
            return Err(format!("{name} has no token of rank {rank}").into());
        }
        let place = u32::try_from(records.len())? + 1;
        if place >> PLACE_BITS != 0 {
            return Err(format!("the records of {name} are too long").into());
        }
        let [low, middle, high, 0] = rank.to_le_bytes() else {
            return Err(format!("{name} has too many tokens").into());
        };
        records.extend([low, middle, high, u8::try_from(token.len())?]);
        debug_assert_eq!((records.len() + 1 - place as usize), RECORD_HEAD);
        records.extend_from_slice(&token);
        if let [first, second] = *token {
            let [low, middle, high, _] = (rank + 1).to_le_bytes();
            let pair = pairs.get_mut(usize::from(u16::from_be_bytes([first, second])));
            *pair.ok_or("a pair of bytes without a place")? = [low, middle, high];
        }
        add_slot(&mut slots, hash(&token), place)?;
    }
    fs::write(folder.join(format!("{name}.pairs")), pairs.concat())?;
    let slots: Vec<u8> = slots.into_iter().flat_map(u32::to_le_bytes).collect();
    fs::write(folder.join(format!("{name}.slots")), slots)?;
    Ok(fs::write(folder.join(format!("{name}.records")), records)?)
}

fn add_slot(slots: &mut [u32], hash: u64, place: u32) -> Result<(), &'static str> {
    let (after, before) = slots.split_at_mut(first_slot(hash, slots.len()));
    let free = before.iter_mut().chain(after).find(|slot| **slot == 0);
    *free.ok_or("the hash table is full")? = tag(hash) << PLACE_BITS | place;
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "cargo names the folder in the environment only")]
fn output_folder() -> Result<PathBuf, std::env::VarError> {
    std::env::var("OUT_DIR").map(PathBuf::from)
}

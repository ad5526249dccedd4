//! A file of another product as a stream of entries: of a list one after the other, of anything else one.

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::de::{DeserializeSeed, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use tokio::sync::mpsc::Sender;
use zip::ZipArchive;

use super::{FoundItem, MigrationSource, chatgpt, langgraph, letta};

/// Bytes of a file, unpacked. A list may be as long; one that is an object is read whole and has a limit of its own.
const MAX_FILE_BYTES: u64 = 8 * 1024 * 1024 * 1024;

/// Bytes of a file that is not a list.
const MAX_OBJECT_BYTES: u64 = 256 * 1024 * 1024;

/// How the files of a `ChatGPT` archive are called that have conversations: one, or several of a large export.
const CONVERSATIONS: &str = "conversations";

/// A file that is open.
pub(super) struct Reading {
    file: File,
    total: u64,
    place: ReadingPlace,
}

/// How many bytes of a file have been read.
#[derive(Debug, Clone, Default)]
pub(super) struct ReadingPlace(Arc<AtomicU64>);

impl ReadingPlace {
    pub(super) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A reader that tells how far it is.
struct Counted<R> {
    from: R,
    place: ReadingPlace,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let read = self.from.read(into)?;
        self.place.0.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

impl Reading {
    pub(super) fn open(path: &Path) -> std::io::Result<Self> {
        let file = File::open(path)?;
        let total = file.metadata()?.len();
        Ok(Self { file, total, place: ReadingPlace::default() })
    }

    /// The bytes of the file.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn place(&self) -> ReadingPlace {
        self.place.clone()
    }

    /// Sends what the file has. The error says where in the file it cannot be read.
    pub(super) fn read_items(self, from: MigrationSource, found: &Sender<FoundItem>) -> Result<(), String> {
        let Self { file, place, .. } = self;
        let Ok(mut archive) = ZipArchive::new(&file) else {
            let mut plain = &file;
            std::io::Seek::rewind(&mut plain).map_err(|error| error.to_string())?;
            return read_json(Counted { from: plain, place }, from, found);
        };
        if from != MigrationSource::Chatgpt {
            return Err("is a ZIP archive; unpack it first".into());
        }
        let names = archive.file_names().filter_map(Result::ok).map(Cow::into_owned);
        let names: Vec<String> = names.filter(|name| has_conversations(name)).collect();
        if names.is_empty() {
            return Err("is a ZIP archive without conversations.json".into());
        }
        for name in names {
            let entry = archive.by_name(&name).map_err(|error| format!("{name}: {error}"))?;
            let entry = Counted { from: entry, place: place.clone() };
            read_json(entry, from, found).map_err(|trouble| format!("{name}: {trouble}"))?;
        }
        Ok(())
    }
}

/// Whether a file of an archive has conversations, such as `conversations.json` or `conversations-001.json`.
fn has_conversations(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.strip_suffix(".json")
        .and_then(|name| name.strip_prefix(CONVERSATIONS))
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_']))
}

fn read_json(reader: impl Read, from: MigrationSource, found: &Sender<FoundItem>) -> Result<(), String> {
    let mut reader = BufReader::new(reader.take(MAX_FILE_BYTES));
    let first = first_byte(&mut reader).map_err(|error| error.to_string())?;
    let entries = Entries { from, found };
    if first == Some(b'[') {
        let mut json = serde_json::Deserializer::from_reader(reader);
        let read = entries.deserialize(&mut json).and_then(|()| json.end());
        return read.map_err(|error| place_of(&error));
    }
    let value: Value =
        serde_json::from_reader(reader.take(MAX_OBJECT_BYTES)).map_err(|error| place_of(&error))?;
    entries.take(0, &value);
    Ok(())
}

/// Names the place at which a file is not what it must be.
fn place_of(error: &serde_json::Error) -> String {
    format!("line {}, column {}: is not a file of this kind: {error}", error.line(), error.column())
}

/// The first byte that is neither a space nor a mark of the byte order.
fn first_byte(reader: &mut impl BufRead) -> std::io::Result<Option<u8>> {
    loop {
        let Some(byte) = reader.fill_buf()?.first().copied() else { return Ok(None) };
        if !byte.is_ascii_whitespace() && !matches!(byte, 0xef | 0xbb | 0xbf) {
            return Ok(Some(byte));
        }
        reader.consume(1);
    }
}

/// The entries of a list, dealt with one by one.
struct Entries<'a> {
    from: MigrationSource,
    found: &'a Sender<FoundItem>,
}

impl Entries<'_> {
    /// Sends what an entry has. If the receiver has gone, the reader continues to the end of the list in vain.
    fn take(&self, index: usize, entry: &Value) {
        let items = match self.from {
            MigrationSource::Chatgpt => chatgpt::items(index, entry),
            MigrationSource::Letta => letta::items(entry),
            MigrationSource::Langgraph => langgraph::items(index, entry),
        };
        for item in items {
            let _nobody_listens = self.found.blocking_send(item);
        }
    }
}

impl<'de> DeserializeSeed<'de> for Entries<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Entries<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut index = 0;
        while let Some(entry) = list.next_element::<Entry>()? {
            self.take(index, &entry.0);
            index += 1;
        }
        Ok(())
    }
}

/// One entry of a list, of any form.
#[derive(Deserialize)]
#[serde(transparent)]
struct Entry(Value);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_have_conversations_under_some_names() {
        for name in ["conversations.json", "export/conversations.json", "conversations-001.json"] {
            assert!(has_conversations(name), "{name}");
        }
        for name in ["shared_conversations.json", "conversations.html", "user.json", "conversationsx.json"] {
            assert!(!has_conversations(name), "{name}");
        }
    }
}

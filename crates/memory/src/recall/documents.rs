//! The pieces of the documents of one user, or of one app, in an index of their own: how often they use a word says
//! nothing about what people said.

use std::collections::{BTreeMap, HashMap, HashSet};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use protocol::{ChunkId, DocumentId};
use store::ChunkRow;

use crate::index::{Hit, Index, IndexItem, ItemRef, MAX_HITS, Query, RecallFilter, Refused, SearchMethod};

#[derive(Default)]
pub(super) struct DocumentIndex {
    pub(super) index: Index,
    known: HashMap<DocumentId, Document>,
    pieces: HashMap<ChunkId, Piece>,
}

struct Document {
    name: Box<str>,
    /// In their order.
    pieces: BTreeMap<u32, ChunkId>,
}

/// Facts about a piece that the index does not hold.
struct Piece {
    document: DocumentId,
    number: u32,
    place: Box<str>,
    suspicious: bool,
}

impl DocumentIndex {
    pub(super) fn put(&mut self, row: ChunkRow) -> Result<(), Refused> {
        let ChunkRow { id, document, name, number, text, place, suspicious, at } = row;
        self.index.put(IndexItem {
            id: ItemRef::Chunk(id),
            thread: None,
            place: u64::from(number),
            at,
            speaker: None,
            role: None,
            text: text.into(),
            importance: 0.0,
        })?;
        let known = || Document { name: name.into(), pieces: BTreeMap::new() };
        self.known.entry(document).or_insert_with(known).pieces.insert(number, id);
        self.pieces.insert(id, Piece { document, number, place: place.into(), suspicious });
        Ok(())
    }

    pub(super) fn remove(&mut self, id: ChunkId) {
        self.index.remove(ItemRef::Chunk(id));
        self.forget(id);
    }

    /// Removes many at once, which costs less than one by one.
    pub(super) fn remove_all(&mut self, ids: &[ChunkId]) {
        self.index.remove_all(ids.iter().copied().map(ItemRef::Chunk));
        for id in ids {
            self.forget(*id);
        }
    }

    fn forget(&mut self, id: ChunkId) {
        let Some(piece) = self.pieces.remove(&id) else { return };
        let Some(document) = self.known.get_mut(&piece.document) else { return };
        document.pieces.remove(&piece.number);
        if document.pieces.is_empty() {
            self.known.remove(&piece.document);
        }
    }

    /// Returns the pieces that it had.
    pub(super) fn remove_document(&mut self, id: DocumentId) -> Vec<ChunkId> {
        let Some(document) = self.known.remove(&id) else { return Vec::new() };
        let pieces: Vec<ChunkId> = document.pieces.into_values().collect();
        for piece in &pieces {
            self.pieces.remove(piece);
        }
        self.index.remove_all(pieces.iter().copied().map(ItemRef::Chunk));
        pieces
    }

    /// How many pieces these documents have; all together when none is named.
    pub(super) fn count(&self, among: Option<&[DocumentId]>) -> usize {
        match among {
            Some(among) => among.iter().filter_map(|id| self.known.get(id)).map(|it| it.pieces.len()).sum(),
            None => self.pieces.len(),
        }
    }

    /// The nearest pieces, best first: of all documents, or of those that are named and then never none.
    pub(super) fn passages(
        &self,
        text: &str,
        vector: Option<&[f32]>,
        among: Option<&[DocumentId]>,
        limit: usize,
    ) -> Vec<(ChunkRow, f32)> {
        let method = if vector.is_some() { SearchMethod::Hybrid } else { SearchMethod::Words };
        let (now, zone, within, limit) = (Timestamp::UNIX_EPOCH, &TimeZone::UTC, None, limit.min(MAX_HITS));
        let query = Query { text, vector, now, zone, within, limit, among: RecallFilter::Documents, method };
        let hits = match among {
            None => self.index.search(&query),
            Some(among) => self.search_in(&query, among),
        };
        hits.into_iter().filter_map(|hit| self.passage(hit)).collect()
    }

    fn search_in(&self, query: &Query<'_>, among: &[DocumentId]) -> Vec<Hit> {
        let mut seen = HashSet::new();
        let named = among.iter().filter(|id| seen.insert(**id)).filter_map(|id| self.known.get(id));
        let mut pieces: Vec<(u32, ItemRef)> = named
            .flat_map(|document| &document.pieces)
            .map(|(number, id)| (*number, ItemRef::Chunk(*id)))
            .collect();
        let mut hits = self.index.search_among(query, pieces.iter().map(|(_, id)| *id));
        // A user who names a document wants it read: whole if it is short, and from its beginning if nothing else
        // speaks for a piece of it.
        if hits.is_empty() || pieces.len() <= query.limit {
            let found: HashSet<ItemRef> = hits.iter().map(|hit| hit.id).collect();
            pieces.sort_by_key(|(number, _)| *number);
            let rest = pieces.into_iter().filter(|(_, id)| !found.contains(id));
            hits.extend(rest.map(|(_, id)| Hit { id, score: 0.0 }));
            hits.truncate(query.limit);
        }
        hits
    }

    fn passage(&self, hit: Hit) -> Option<(ChunkRow, f32)> {
        let ItemRef::Chunk(id) = hit.id else { return None };
        let (item, piece) = (self.index.get(hit.id)?, self.pieces.get(&id)?);
        let chunk = ChunkRow {
            id,
            document: piece.document,
            name: self.known.get(&piece.document)?.name.to_string(),
            number: piece.number,
            text: item.text.to_string(),
            place: piece.place.to_string(),
            suspicious: piece.suspicious,
            at: item.at,
        };
        Some((chunk, hit.score))
    }

    pub(super) fn bytes(&self) -> usize {
        let places: usize = self.pieces.values().map(|piece| piece.place.len()).sum();
        let document =
            |document: &Document| document.name.len() + document.pieces.len() * size_of::<(u32, ChunkId)>();
        let documents: usize = self.known.values().map(document).sum();
        self.index.bytes()
            + places
            + documents
            + self.pieces.capacity() * size_of::<(ChunkId, Piece)>()
            + self.known.capacity() * size_of::<(DocumentId, Document)>()
    }
}

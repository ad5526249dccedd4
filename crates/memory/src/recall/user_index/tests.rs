//! An index is bounded, and its oldest items are left out.

use jiff::SignedDuration;
use protocol::{Ids, MessageUser, TimeOrderedIds};

use super::*;

/// A message with these words, sent at this second.
fn message_row(rev: u64, second: i64, words: &str) -> ItemRow {
    let id = TimeOrderedIds.message();
    let text = format!("{words} {}", "x".repeat(1_000));
    let body = MessageUser { message_id: id, parent_id: None, text, parts: vec![] };
    let said =
        RawEvent { seq: rev, kind: "message:user".into(), body: serde_json::to_string(&body).unwrap() };
    let at = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second);
    let thread = ThreadId::new(uuid::Uuid::from_u128(u128::from(rev % 7)));
    let row = RecallMessage { id, thread, role: "user".into(), seq: rev, at, said: Some(said) };
    ItemRow { rev, what: store::RecallItem::Message(row, None) }
}

fn piece(rev: u64, second: i64) -> ItemRow {
    let row = ChunkRow {
        id: TimeOrderedIds.chunk(),
        document: protocol::DocumentId::new(uuid::Uuid::from_u128(u128::from(rev % 3))),
        name: "book".into(),
        number: u32::try_from(rev).unwrap(),
        text: format!("piece {rev} {}", "y".repeat(1_000)),
        place: String::new(),
        suspicious: false,
        at: Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second),
    };
    ItemRow { rev, what: store::RecallItem::Chunk(row, None) }
}

fn seconds(state: &UserIndexState) -> Vec<i64> {
    let items = state.index.items().chain(state.documents.index.items());
    let mut seconds: Vec<i64> = items.map(|item| item.at.as_second()).collect();
    seconds.sort_unstable();
    seconds
}

#[test]
fn the_oldest_are_left_out_when_there_is_too_much_and_never_the_newest() {
    let mut state = UserIndexState { most_bytes: 200_000, ..UserIndexState::default() };
    state.read_again(Forgotten::new(&[]), 0);
    for rev in 1..=1_000u64 {
        let second = i64::try_from(rev).unwrap();
        // An item that is written later is not always newer.
        let row = if rev % 2 == 0 { piece(rev, second) } else { message_row(rev, 1_001 - second, "words") };
        state.take_in(vec![row], 1_000);
        assert!(state.bytes() <= 200_000 + 200_000 / LEFT_OUT * 2, "{} bytes", state.bytes());
    }
    let seconds = seconds(&state);
    assert!(seconds.len() > 50, "{} are left", seconds.len());
    assert!(seconds.contains(&1_000), "the newest piece is there");
    let bare: Vec<ItemRef> = state.bare.keys().copied().collect();
    assert_eq!(bare.len(), state.len(), "nothing that is gone is to be embedded");
    let listed: usize = state.threads.values().map(HashSet::len).sum();
    assert_eq!(listed, state.index.len());
    assert_eq!(state.documents.count(None), state.documents.index.len());
    let newest_left_out = (1..=1_000).rev().find(|second| !seconds.contains(second)).unwrap();
    let oldest_kept = seconds.first().copied().unwrap();
    assert!(newest_left_out < 1_000 && oldest_kept > 1, "{newest_left_out} {oldest_kept}");
}

#[test]
fn everything_is_read_again_in_place_and_what_is_cut_short_goes_on() {
    let mut state = UserIndexState::default();
    assert_eq!(state.read_up_to(), None, "nothing was read yet");
    state.read_again(Forgotten::new(&[]), 2);
    let rows = vec![message_row(1, 1, "lives in Oslo"), message_row(2, 2, "likes tea")];
    state.take_in(rows.clone(), 2);
    assert!(!state.is_behind(2) && state.is_behind(3));
    let memory = TimeOrderedIds.memory();
    let tombstone = store::TombstoneRow {
        words: "lives in Oslo".into(),
        at: Timestamp::UNIX_EPOCH + SignedDuration::from_secs(9),
        memory,
    };
    let changed = ItemRow { rev: 3, what: store::RecallItem::Tombstones };
    assert!(state.hides_other_than(std::slice::from_ref(&changed)));
    state.read_again(Forgotten::new(&[tombstone]), 3);
    assert!(state.is_behind(2), "until everything is read, nobody may search");
    state.take_in(vec![rows[0].clone()], 3);
    assert_eq!((state.read_up_to(), state.is_behind(1)), (Some(1), true), "it goes on from there");
    state.take_in(vec![rows[1].clone(), changed], 3);
    assert!(!state.is_behind(3));
    let texts: Vec<&str> = state.index.items().map(|item| &*item.text).collect();
    assert!(texts.len() == 2 && !texts.iter().any(|text| text.contains("Oslo")), "{texts:?}");
}

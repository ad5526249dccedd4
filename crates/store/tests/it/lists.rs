//! Pages end by their bytes as well as by their entries, and together they are the whole list.

use protocol::{Event, Ids, MessageId, RunStatus, StreamComplete, Usage};
use serde_json::json;
use store::{
    ActionFilter, MAX_BYTES_PER_PAGE, MessageRow, PageOf, PageRows, PersonaRow, RecordQuery, SubmittedRun,
    Target, TimeCursor, Write,
};

use crate::support::{Fixture, call, end, principal, result, scope, step_end};

/// Bytes of what comes out of one call, about as much as an event holds of it.
const OUTPUT_BYTES: usize = 64 * 1024;

/// Messages of users, each with an answer that rests on 32 results.
const EXCHANGES: usize = 8;

/// Says something, and answers it after 32 calls.
async fn exchange(fixture: &Fixture, thread: Target, output: &str) -> SubmittedRun {
    let submitted = fixture.submit(thread).await;
    let log = fixture.log(submitted).await;
    let calls: Vec<_> = (0..32).map(|_| fixture.ids.call()).collect();
    log.record(vec![step_end(calls.iter().map(|id| call(*id)).collect())], vec![], vec![]).await.unwrap();
    for call in calls {
        log.record(vec![result(call, output)], vec![], vec![]).await.unwrap();
    }
    let answer = Event::StreamComplete(StreamComplete {
        message_id: fixture.ids.message(),
        text: "so".into(),
        memories_referenced: vec![],
        data: None,
        usage: Usage::default(),
    });
    log.record(vec![answer, end(submitted.run, RunStatus::Completed)], vec![], vec![]).await.unwrap();
    submitted
}

/// All pages of a list, each of them with a bounded number of bytes unless it has one entry alone.
async fn all<T, C>(
    mut read: impl AsyncFnMut(Option<C>) -> PageRows<T>,
    cursor: impl Fn(&T) -> C,
    bytes: impl Fn(&T) -> usize,
) -> (Vec<T>, usize) {
    let (mut all, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = read(after).await;
        pages += 1;
        let size: usize = page.rows.iter().map(&bytes).sum();
        assert!(size <= MAX_BYTES_PER_PAGE || page.rows.len() == 1, "{size} bytes in {}", page.rows.len());
        after = page.rows.last().map(&cursor);
        let more = page.more && !page.rows.is_empty();
        assert_eq!(more, page.more, "a page that says that there are more has some");
        all.extend(page.rows);
        if !more {
            return (all, pages);
        }
    }
}

fn bytes(row: &MessageRow) -> usize {
    row.said.iter().chain(&row.steps).chain(&row.results).map(|event| event.body.len()).sum()
}

#[tokio::test]
async fn messages_with_huge_results_come_page_by_page_and_are_the_same_as_all_at_once() {
    let fixture = Fixture::new();
    let output = "x".repeat(OUTPUT_BYTES);
    let first = exchange(&fixture, Target::New(fixture.ids.thread()), &output).await;
    for _ in 1..EXCHANGES {
        exchange(&fixture, Target::Existing(first.thread), &output).await;
    }
    let head: MessageId =
        fixture.store.thread(&principal("alice"), first.thread).await.unwrap().head.unwrap();
    let whole = fixture.store.path(first.thread, head, 1_000).await.unwrap();
    assert_eq!(whole.len(), 2 * EXCHANGES);
    for limit in [1, 3, 1_000] {
        let read =
            async |after| fixture.store.messages(first.thread, head, PageOf { after, limit }).await.unwrap();
        let (paged, pages) = all(read, |shown| shown.row.seq, |shown| bytes(&shown.row)).await;
        assert_eq!(paged.into_iter().map(|shown| shown.row).collect::<Vec<_>>(), whole);
        assert!(pages >= EXCHANGES / 2, "{pages} pages");
    }
}

#[tokio::test]
async fn actions_end_a_page_by_what_came_out_of_them_and_by_what_they_changed() {
    let fixture = Fixture::new();
    let output = "x".repeat(OUTPUT_BYTES);
    for _ in 0..4 {
        exchange(&fixture, Target::New(fixture.ids.thread()), &output).await;
    }
    let read = async |after| {
        let page = PageOf { after, limit: 1_000 };
        fixture.store.actions(&scope("alice"), ActionFilter::default(), page).await.unwrap()
    };
    let (paged, pages) = all(read, |row| row.position, |row| row.output.as_str().unwrap().len()).await;
    let newest =
        store::newest_actions(&fixture.store, &scope("alice"), ActionFilter::default(), 1_000).await.unwrap();
    assert_eq!((paged.len(), paged), (4 * 32, newest));
    assert!(pages >= 2, "{pages} pages");
}

#[tokio::test]
async fn records_end_a_page_by_their_data_in_a_list_and_in_a_search() {
    let fixture = Fixture::new();
    for number in 0..100 {
        let data = json!({ "n": number, "text": format!("word {}", "x".repeat(60_000)) });
        let id = fixture.ids.record();
        let write = Write::Record { id, kind: "part".into(), data: Some(data), expected: 0 };
        fixture.store.put_record(&scope("alice"), write, None).await.unwrap();
    }
    for text in [None, Some("word".to_owned())] {
        let read = async |after| {
            let query = RecordQuery { text: text.clone(), fields: Vec::new() };
            fixture
                .store
                .records(&scope("alice"), "part", query, PageOf { after, limit: 1_000 })
                .await
                .unwrap()
        };
        let cursor = |row: &protocol::RecordView| TimeCursor { at: row.updated_at, id: row.id };
        let (paged, pages) = all(read, cursor, |row| row.data.to_string().len()).await;
        let mut numbers: Vec<_> = paged.iter().map(|row| row.data["n"].as_u64().unwrap()).collect();
        numbers.sort_unstable();
        assert_eq!((numbers, pages), ((0..100).collect(), 2));
        let query = RecordQuery { text: text.clone(), fields: Vec::new() };
        let newest = store::newest_records(&fixture.store, &scope("alice"), "part", query, 90).await.unwrap();
        assert_eq!(newest, paged[..90]);
    }
}

#[tokio::test]
async fn short_lists_end_a_page_by_their_bytes_too() {
    let fixture = Fixture::new();
    let alice = scope("alice");
    for number in 0..80 {
        let id = format!("p{number:02}");
        let prompt = "x".repeat(store::MAX_PERSONA_BYTES);
        let new = store::NewPersonaRow { name: id.clone(), id, prompt, settings: json!({}) };
        fixture.store.add_persona(&alice, new, None).await.unwrap();
    }
    let seen = std::cell::Cell::new(0_u64);
    let read = async |after| {
        let page = fixture.store.personas(&alice, PageOf { after, limit: 1_000 }).await.unwrap();
        seen.set(seen.get() + page.rows.len() as u64);
        page
    };
    let (paged, pages) = all(read, |_| seen.get(), |row: &PersonaRow| row.prompt.len()).await;
    let names: Vec<String> = paged.into_iter().map(|row| row.name).collect();
    assert_eq!((names, pages), ((0..80).map(|number| format!("p{number:02}")).collect(), 2));
    for _ in 0..1_200 {
        let pin =
            store::NewPinRow { id: fixture.ids.pin(), thread: None, text: "x".repeat(store::MAX_PIN_BYTES) };
        fixture.store.add_pin(&alice, pin, None).await.unwrap();
    }
    let whole = fixture.store.pins(&alice, None).await.unwrap();
    let first = fixture.store.pin_page(&alice, None, PageOf { after: None, limit: 2_000 }).await.unwrap();
    let after = Some(first.rows.len() as u64);
    let rest = fixture.store.pin_page(&alice, None, PageOf { after, limit: 2_000 }).await.unwrap();
    assert_eq!((first.more, rest.more, whole.len()), (true, false, 1_200));
    assert_eq!([first.rows, rest.rows].concat(), whole);
}

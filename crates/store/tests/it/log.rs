//! The log: gapless under concurrency, published only once committed, whole or not at all.

use std::sync::Arc;

use protocol::{Event, Ids, MessageId, RunId, RunStatus, ThreadNamed};
use store::{Error, PageOf, RunLog, Target, ThreadEdit, ThreadFilter};
use tokio::task::JoinSet;

use crate::support::{
    Fixture, Published, answer, call, end, open, principal, reset, result, scope, step_end, text,
};

const DELTAS: usize = 200;

/// Says numbers, with a fact here and there, to the end.
async fn talk(log: RunLog, run: RunId, message: MessageId) {
    for n in 0..DELTAS {
        let mut delta = text(&format!("{n},"));
        while let Err(back) = log.push(delta) {
            delta = back;
            log.room().await;
        }
        if n % 50 == 0 {
            log.record(vec![reset(1, None)], vec![], vec![]).await.unwrap();
        }
    }
    log.record(vec![step_end(vec![]), answer(message), end(run, RunStatus::Completed)], vec![], vec![])
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_runs_write_at_once_without_gap_or_mixture() {
    const RUNS: usize = 32;
    let fixture = Fixture::new();
    let mut runs = Vec::new();
    let mut writers = JoinSet::new();
    for _ in 0..RUNS {
        let (submitted, log) = fixture.run().await;
        let message = fixture.ids.message();
        runs.push(submitted);
        writers.spawn(talk(log, submitted.run, message));
    }
    writers.join_all().await;
    let expected: String = (0..DELTAS).map(|n| format!("{n},")).collect();
    for submitted in runs {
        let published = fixture.published.of(submitted.thread);
        let seqs: Vec<u64> = published.iter().map(|event| event.seq).collect();
        assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "S1");
        let mut stored = Vec::new();
        while let batch @ [_, ..] =
            fixture.store.events(submitted.thread, None, stored.len() as u64).await.unwrap().as_slice()
        {
            stored.extend_from_slice(batch);
        }
        assert_eq!(stored, published, "S2: what was published is what is stored");
        let said: String = published
            .iter()
            .filter_map(|event| match Event::read(&event.kind, &event.body) {
                Ok(Event::TextDelta(piece)) => Some(piece.delta),
                _ => None,
            })
            .collect();
        assert_eq!(said, expected, "order is kept within a run");
    }
}

fn named(title: &str) -> ThreadEdit {
    ThreadEdit { title: Some(title.into()), ..ThreadEdit::default() }
}

#[tokio::test]
async fn a_refused_write_leaves_its_neighbours_alone() {
    let fixture = Fixture::new();
    let (submitted, log) = fixture.run().await;
    let id = fixture.ids.call();
    // All four are queued before the writer can commit the first, so they share a transaction.
    let alice = alice();
    let (named, refused, also_refused, kept) = tokio::join!(
        fixture.store.change_thread(&alice, submitted.thread, named("a name"), None),
        log.record(vec![step_end(vec![]), result(fixture.ids.call(), "no such call")], vec![], vec![]),
        fixture.store.submit(fixture.submission(Target::Existing(submitted.thread))),
        log.record(vec![step_end(vec![call(id)])], vec![], vec![]),
    );
    assert_eq!(named.unwrap().title.as_deref(), Some("a name"));
    assert!(matches!(refused, Err(Error::Sql(_) | Error::Postgres(_))));
    assert!(matches!(also_refused, Err(Error::Busy)));
    assert_eq!(kept.unwrap(), [true]);
    let published = fixture.published.of(submitted.thread);
    let kinds: Vec<&str> = published.iter().map(|event| &*event.kind).collect();
    assert_eq!(kinds, ["message:user", "run:start", "thread:named", "step:end"]);
    let seqs: Vec<u64> = published.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, [1, 2, 3, 4], "a refused write leaves no hole");
}

fn alice() -> protocol::Principal {
    principal("alice")
}

#[tokio::test]
async fn deltas_after_the_end_are_dropped_and_block_nobody() {
    let fixture = Fixture::new();
    let (submitted, log) = fixture.run().await;
    log.record(vec![end(submitted.run, RunStatus::Cancelled)], vec![], vec![]).await.unwrap();
    log.push(text("too late")).unwrap();
    let next = fixture.submit(Target::Existing(submitted.thread)).await;
    let log = fixture.log(next).await;
    log.push(text("in time")).unwrap();
    log.record(vec![step_end(vec![])], vec![], vec![]).await.unwrap();
    let bodies: Vec<String> =
        fixture.published.of(submitted.thread).iter().map(|event| event.body.to_string()).collect();
    assert!(
        bodies.iter().any(|body| body.contains("in time"))
            && !bodies.iter().any(|body| body.contains("too late"))
    );
}

#[tokio::test]
async fn another_user_finds_nothing() {
    let fixture = Fixture::new();
    let (submitted, _) = fixture.run().await;
    let mallory = principal("mallory");
    assert!(matches!(fixture.store.thread(&mallory, submitted.thread).await, Err(Error::NotFound("thread"))));
    assert!(matches!(fixture.store.run(&mallory, submitted.run).await, Err(Error::NotFound("run"))));
    assert!(matches!(fixture.store.cancel(&mallory, submitted.run, None).await, Err(Error::NotFound("run"))));
    let rename = fixture.store.change_thread(&mallory, submitted.thread, named("mine"), None).await;
    assert!(matches!(rename, Err(Error::NotFound("thread"))));
    assert!(matches!(
        fixture.store.delete_thread(&mallory, submitted.thread, None).await,
        Err(Error::NotFound("thread"))
    ));
    let page = PageOf { after: None, limit: 10 };
    assert!(
        fixture
            .store
            .threads(&scope("mallory"), ThreadFilter::default(), page)
            .await
            .unwrap()
            .rows
            .is_empty()
    );
    let mut stolen = fixture.submission(Target::Existing(submitted.thread));
    stolen.scope = scope("mallory");
    assert!(matches!(fixture.store.submit(stolen).await, Err(Error::NotFound("thread"))));
    assert_eq!(fixture.store.run(&alice(), submitted.run).await.unwrap().stop, None);
}

#[tokio::test]
async fn a_deleted_thread_is_hidden_at_once_and_purged_when_its_run_has_ended() {
    let fixture = Fixture::new();
    let (submitted, log) = fixture.run().await;
    for n in 0..1200 {
        log.record(vec![reset(n, None)], vec![], vec![]).await.unwrap();
    }
    let now = protocol::Clock::now(&testkit::still::StandingClock);
    assert_eq!(
        fixture.store.delete_thread(&alice(), submitted.thread, None).await.unwrap(),
        Some(submitted.run)
    );
    assert!(matches!(fixture.store.run(&alice(), submitted.run).await, Err(Error::NotFound("run"))));
    assert!(!fixture.store.purge(now, now).await.unwrap(), "not while its run is under way");
    log.record(vec![end(submitted.run, RunStatus::Cancelled)], vec![], vec![]).await.unwrap();
    let mut rounds = 0;
    while fixture.store.purge(now, now).await.unwrap() {
        rounds += 1;
    }
    assert!(rounds > 2, "in pieces that do not hold up streams");
    let conn = fixture.database();
    for table in ["threads", "runs", "messages", "events", "tool_calls", "tool_results"] {
        let left: i64 =
            conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
        assert_eq!(left, 0, "{table}");
    }
}

#[tokio::test]
async fn a_path_is_the_branch_that_ends_in_its_leaf() {
    let fixture = Fixture::new();
    let (first, log) = fixture.run().await;
    let answered = fixture.ids.message();
    log.record(
        vec![step_end(vec![]), answer(answered), end(first.run, RunStatus::Completed)],
        vec![],
        vec![],
    )
    .await
    .unwrap();
    let mut branch = fixture.submission(Target::Existing(first.thread));
    branch.request.ask = store::RunInput::Again { of: Some(answered) };
    let second = fixture.store.submit(branch).await.unwrap().0;
    let alice = alice();
    let message = fixture.store.run(&alice, first.run).await.unwrap().message;
    let answered_again = fixture.store.run(&alice, second.run).await.unwrap().message;
    assert_eq!(answered_again, message, "an answer's id stands for what it answered");
    let log = fixture.log(second).await;
    let again = fixture.ids.message();
    log.record(vec![step_end(vec![]), answer(again), end(second.run, RunStatus::Completed)], vec![], vec![])
        .await
        .unwrap();
    for leaf in [answered, again] {
        let path = fixture.store.path(first.thread, leaf, 10).await.unwrap();
        let ids: Vec<_> = path.iter().map(|row| row.id).collect();
        assert_eq!(ids, [message, leaf]);
    }
    let row = fixture.store.thread(&alice, first.thread).await.unwrap();
    assert_eq!((row.head, row.message_count, row.active_run), (Some(again), 3, None));
    assert_eq!(fixture.store.run(&alice, second.run).await.unwrap().usage.total(), 7);
}

#[tokio::test]
async fn a_folder_has_one_owner_and_keeps_what_it_was_told() {
    let fixture = Fixture::new();
    let (submitted, log) = fixture.run().await;
    log.record(vec![Event::ThreadNamed(ThreadNamed { title: "kept".into() })], vec![], vec![]).await.unwrap();
    let second = open(fixture.folder.path(), Arc::new(Published::default()));
    assert!(matches!(second, Err(Error::Locked(_))));
    let Fixture { store, folder, .. } = fixture;
    drop((store, log));
    let store = open(folder.path(), Arc::new(Published::default())).unwrap();
    assert_eq!(store.thread(&alice(), submitted.thread).await.unwrap().title.as_deref(), Some("kept"));
    let unfinished: Vec<_> = store.adopt().await.unwrap().into_iter().map(|row| row.id).collect();
    assert_eq!(unfinished, [submitted.run]);
}

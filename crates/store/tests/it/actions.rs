//! Actions: each call of a run, and each confirmed proposal, with what it changed, committed with what it tells.

use protocol::{
    ActionId, CallId, Decision, Effect, Event, Ids, RecordId, RunStatus, Scope, ToolComplete, ToolStatus,
};
use rusqlite::Connection;
use serde_json::{Value, json};
use store::{
    ActionEnd, ActionFilter, ActionRow, AppliedChange, Error, MAX_WRITES_PER_CALL, NewAction, NewProposal,
    PageOf, RunLog, SubmittedRun, Write,
};

use crate::support::{Fixture, after, call, end, once, principal, result, scope, start, step_end};

pub(crate) const ALL: PageOf<u64> = PageOf { after: None, limit: 1_000 };

/// A run with one step of `count` calls, all of a tool that changes things.
pub(crate) async fn run_with_calls(fixture: &Fixture, count: usize) -> (SubmittedRun, RunLog, Vec<CallId>) {
    let (submitted, log) = fixture.run().await;
    let calls: Vec<CallId> = (0..count).map(|_| fixture.ids.call()).collect();
    let asked = calls.iter().map(|id| protocol::Call { input: json!({ "asked": 1 }), ..call(*id) }).collect();
    log.record(vec![step_end(asked)], vec![], vec![]).await.unwrap();
    (submitted, log, calls)
}

/// Begins a call and ends it with these writes.
pub(crate) async fn act(log: &RunLog, call: CallId, writes: Vec<Write>) -> Result<Vec<bool>, Error> {
    log.record(vec![start(call, "echo", Effect::Reversible)], vec![], vec![]).await.unwrap();
    log.record(vec![result(call, "done")], vec![], writes).await
}

pub(crate) fn record(id: RecordId, data: impl Into<Option<Value>>, expected: u64) -> Write {
    Write::Record { id, kind: "part".into(), data: data.into(), expected }
}

pub(crate) fn file(path: &str, content: Option<&str>, expected: u64) -> Write {
    Write::File { path: path.into(), content: content.map(str::to_owned), expected }
}

pub(crate) async fn action(fixture: &Fixture, id: impl Into<ActionId>) -> ActionRow {
    fixture.store.action(&principal("alice"), id.into()).await.unwrap()
}

pub(crate) fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    let Err(Error::Changed(words)) = result else { panic!("not refused: {result:?}") };
    words
}

/// The kinds of an action's entries in their order.
pub(crate) fn kinds(conn: &Connection, action: impl Into<ActionId>) -> Vec<String> {
    let mut find = conn.prepare("SELECT kind FROM ledger WHERE action = ?1 ORDER BY position").unwrap();
    let rows = find.query_map([action.into().bytes()], |row| row.get(0)).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

#[tokio::test]
async fn e1_an_intent_comes_before_and_an_outcome_with_what_was_changed() {
    let fixture = Fixture::new();
    let (submitted, log, calls) = run_with_calls(&fixture, 1).await;
    log.record(vec![start(calls[0], "makePart", Effect::Reversible)], vec![], vec![]).await.unwrap();
    let begun = ActionRow {
        id: calls[0].into(),
        scope: scope("alice"),
        actor: None,
        thread: Some(submitted.thread),
        run: Some(submitted.run),
        step: Some(1),
        tool: "makePart".into(),
        effect: Effect::Reversible,
        status: store::ActionStatus::Started,
        input: json!({ "n": 1 }),
        output: Value::Null,
        changes: vec![],
        started_at: after(0),
        duration_ms: None,
        undone_by: None,
        undo_of: None,
        undo_under_way: false,
        position: 1,
    };
    assert_eq!(action(&fixture, calls[0]).await, begun);
    let part = fixture.ids.record();
    let writes = vec![record(part, json!({ "name": "bolt" }), 0), file("a.md", Some("# A"), 0)];
    assert_eq!(log.record(vec![result(calls[0], "done")], vec![], writes).await.unwrap(), [true]);
    let changes = vec![
        AppliedChange::Record { id: part, kind: "part".into(), before: None, was: 0, version: 1 },
        AppliedChange::File { path: "a.md".into(), before: None, was: 0, version: 1 },
    ];
    let ended = ActionRow {
        status: store::ActionStatus::Ended(ToolStatus::Complete),
        output: json!("done"),
        changes,
        duration_ms: Some(1),
        ..begun
    };
    assert_eq!(action(&fixture, calls[0]).await, ended);
    let alice = scope("alice");
    let made = fixture.store.record_of(&alice, "part", part).await.unwrap();
    assert_eq!((made.version, made.data), (1, json!({ "name": "bolt" })));
    assert_eq!(fixture.store.file(&alice, "a.md").await.unwrap().content, "# A");
    assert_eq!(kinds(&fixture.database(), calls[0]), ["intent", "outcome"]);
    assert_eq!(fixture.store.verify_ledger().await.unwrap().faults, Vec::<String>::new());
}

#[tokio::test]
async fn e1_a_write_that_comes_too_late_takes_the_whole_outcome_with_it() {
    let fixture = Fixture::new();
    let alice = scope("alice");
    let (submitted, log, calls) = run_with_calls(&fixture, 1).await;
    let (part, other) = (fixture.ids.record(), fixture.ids.record());
    fixture.store.put_record(&alice, record(part, json!(1), 0), None).await.unwrap();
    fixture.store.put_record(&alice, record(part, json!(2), 1), None).await.unwrap();
    let published = fixture.published.of(submitted.thread).len();
    let stale = vec![record(other, json!("new"), 0), record(part, json!(3), 1)];
    assert!(refusal(act(&log, calls[0], stale).await).contains("has changed meanwhile"));
    assert!(matches!(fixture.store.record_of(&alice, "part", other).await, Err(Error::NotFound(_))));
    assert_eq!(fixture.store.record_of(&alice, "part", part).await.unwrap().data, json!(2));
    assert_eq!(action(&fixture, calls[0]).await.status.name(), "started");
    assert_eq!(fixture.published.of(submitted.thread).len(), published + 1, "the intent alone");
    let failed = ToolComplete {
        call_id: calls[0],
        name: "echo".into(),
        status: ToolStatus::Failed,
        output: json!({ "error": "conflict" }),
        duration_ms: 1,
        outside: false,
        suspicious: false,
        by: None,
    };
    log.record(vec![Event::ToolComplete(failed)], vec![], vec![]).await.unwrap();
    assert_eq!(action(&fixture, calls[0]).await.status.name(), "failed");
    assert_eq!(fixture.store.verify_ledger().await.unwrap().faults, Vec::<String>::new());
}

#[tokio::test]
async fn t6_a_second_result_is_noted_as_late_and_its_writes_are_not_applied() {
    let fixture = Fixture::new();
    let (submitted, log, calls) = run_with_calls(&fixture, 1).await;
    let part = fixture.ids.record();
    act(&log, calls[0], vec![record(part, json!("first"), 0)]).await.unwrap();
    let first = action(&fixture, calls[0]).await;
    let late =
        log.record(vec![result(calls[0], "second")], vec![], vec![record(part, json!("second"), 1)]).await;
    assert_eq!(late.unwrap(), [false]);
    log.record(vec![end(submitted.run, RunStatus::Completed)], vec![], vec![]).await.unwrap();
    assert_eq!(log.record(vec![result(calls[0], "third")], vec![], vec![]).await.unwrap(), [false]);
    assert_eq!(action(&fixture, calls[0]).await, first);
    let kept = fixture.store.record_of(&scope("alice"), "part", part).await.unwrap();
    assert_eq!((kept.version, kept.data), (1, json!("first")));
    let conn = fixture.database();
    assert_eq!(kinds(&conn, calls[0]), ["intent", "outcome", "late", "late"]);
    let said: String = conn
        .query_row("SELECT payload FROM ledger_payloads ORDER BY position DESC LIMIT 1", [], |row| row.get(0))
        .unwrap();
    assert_eq!(said, r#"{"status":"complete","output":"third"}"#);
    assert_eq!(fixture.store.verify_ledger().await.unwrap().faults, Vec::<String>::new());
}

#[tokio::test]
async fn a_call_that_never_began_has_an_action_with_what_its_step_asked() {
    let fixture = Fixture::new();
    let (_, log, calls) = run_with_calls(&fixture, 1).await;
    log.record(vec![result(calls[0], "refused")], vec![], vec![]).await.unwrap();
    let row = action(&fixture, calls[0]).await;
    assert_eq!((row.effect, row.input, row.step), (Effect::Read, json!({ "asked": 1 }), Some(1)));
    assert_eq!((row.output, row.status.name()), (json!("refused"), "complete"));
    assert_eq!(kinds(&fixture.database(), calls[0]), ["outcome"]);
    assert_eq!(fixture.store.verify_ledger().await.unwrap().faults, Vec::<String>::new());
}

#[tokio::test]
async fn r5_a_call_that_begins_again_is_the_same_action() {
    let fixture = Fixture::new();
    let (_, log, calls) = run_with_calls(&fixture, 1).await;
    for _ in 0..2 {
        log.record(vec![start(calls[0], "echo", Effect::Idempotent)], vec![], vec![]).await.unwrap();
    }
    log.record(vec![result(calls[0], "done")], vec![], vec![]).await.unwrap();
    let row = action(&fixture, calls[0]).await;
    assert_eq!((row.status.name(), row.position), ("complete", 1));
    assert_eq!(kinds(&fixture.database(), calls[0]), ["intent", "intent", "outcome"]);
    assert_eq!(fixture.store.verify_ledger().await.unwrap().faults, Vec::<String>::new());
}

#[tokio::test]
async fn writes_belong_to_one_result_and_are_bounded() {
    let fixture = Fixture::new();
    let (_, log, calls) = run_with_calls(&fixture, 2).await;
    let write = || vec![file("a.md", Some(""), 0)];
    let both = vec![result(calls[0], "a"), result(calls[1], "b")];
    for events in [vec![], both] {
        assert!(matches!(log.record(events, vec![], write()).await, Err(Error::Aborted)));
    }
    let files = |count| (0..count).map(|n| file(&format!("{n}.md"), Some(""), 0)).collect::<Vec<_>>();
    refusal(log.record(vec![result(calls[0], "a")], vec![], files(MAX_WRITES_PER_CALL + 1)).await);
    log.record(vec![result(calls[0], "a")], vec![], files(MAX_WRITES_PER_CALL)).await.unwrap();
}

#[tokio::test]
async fn m1_actions_are_a_users_own_listed_newest_first_and_filtered() {
    let fixture = Fixture::new();
    let (first, log, calls) = run_with_calls(&fixture, 3).await;
    act(&log, calls[0], vec![file("a.md", Some(""), 0)]).await.unwrap();
    log.record(vec![start(calls[1], "look", Effect::Read)], vec![], vec![]).await.unwrap();
    let (_, other_log, others) = run_with_calls(&fixture, 1).await;
    act(&other_log, others[0], vec![]).await.unwrap();
    let by = NewAction {
        id: fixture.ids.action(),
        tool: "undo".into(),
        effect: Effect::Reversible,
        input: json!({}),
        actor: None,
    };
    let undo = fixture.store.undo(&principal("alice"), calls[0].into(), by, None).await.unwrap().id;
    let list = async |scope: Scope, filter: ActionFilter, page| {
        let rows = fixture.store.actions(&scope, filter, page).await.unwrap().rows;
        rows.into_iter().map(|row| (row.id, row.position)).collect::<Vec<_>>()
    };
    let ids = async |filter: ActionFilter| -> Vec<ActionId> {
        list(scope("alice"), filter, ALL).await.into_iter().map(|(id, _)| id).collect()
    };
    let [a, b, c]: [ActionId; 3] = [calls[0].into(), calls[1].into(), others[0].into()];
    let any = ActionFilter::default;
    assert_eq!(ids(any()).await, [undo, c, b, a]);
    assert_eq!(ids(ActionFilter { run: Some(first.run), ..any() }).await, [b, a]);
    assert_eq!(ids(ActionFilter { thread: Some(first.thread), ..any() }).await, [undo, b, a]);
    assert_eq!(ids(ActionFilter { tool: Some("look".into()), ..any() }).await, [b]);
    assert_eq!(ids(ActionFilter { status: store::ActionStatus::parse("started"), ..any() }).await, [b]);
    assert_eq!(ids(ActionFilter { effect: Some(Effect::Reversible), ..any() }).await, [undo, c, a]);
    assert_eq!(ids(ActionFilter { undone: Some(true), ..any() }).await, [a]);
    assert_eq!(
        ids(ActionFilter { undone: Some(false), status: store::ActionStatus::parse("complete"), ..any() })
            .await,
        [undo, c]
    );
    let first_page = list(scope("alice"), any(), PageOf { after: None, limit: 3 }).await;
    let rest = list(scope("alice"), any(), PageOf { after: Some(first_page[2].1), limit: 3 }).await;
    assert_eq!(rest.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [a]);
    assert_eq!(list(scope("bob"), any(), ALL).await, []);
    assert!(matches!(fixture.store.action(&principal("bob"), a).await, Err(Error::NotFound("action"))));
}

#[tokio::test]
async fn a_confirmed_proposal_becomes_an_action_without_a_run_that_ends_once() {
    let fixture = Fixture::new();
    let (alice, store) = (scope("alice"), &fixture.store);
    let (submitted, log, calls) = run_with_calls(&fixture, 1).await;
    let new = NewProposal {
        id: fixture.ids.proposal(),
        tool: "makePart".into(),
        input: json!({ "b": 1, "a": 2 }),
        note: None,
        expires_at: after(60),
    };
    act(&log, calls[0], vec![Write::Propose(new.clone())]).await.unwrap();
    let fresh = |input: Value| NewAction {
        id: fixture.ids.action(),
        tool: "makePart".into(),
        effect: Effect::Reversible,
        input,
        actor: None,
    };
    refusal(store.begin_action(&alice, new.id, fresh(json!({ "other": 1 })), None).await);
    let foreign = store.begin_action(&scope("bob"), new.id, fresh(new.input.clone()), None).await;
    assert!(matches!(foreign, Err(Error::NotFound("proposal"))));
    let begun = store.begin_action(&alice, new.id, fresh(new.input.clone()), once("k", 1)).await.unwrap();
    assert_eq!((begun.status.name(), begun.run, begun.thread), ("started", None, Some(submitted.thread)));
    let again = store.begin_action(&alice, new.id, fresh(new.input.clone()), once("k", 1)).await.unwrap();
    assert_eq!(again, begun, "the same request again gives the action it made");
    let second = store.begin_action(&alice, new.id, fresh(new.input.clone()), None).await;
    assert!(matches!(second, Err(Error::Decided(Decision::Confirmed))));
    assert_eq!(store.proposal(&principal("alice"), new.id).await.unwrap().action, Some(begun.id));
    assert_eq!(store.begun_actions().await.unwrap(), std::slice::from_ref(&begun));
    let part = fixture.ids.record();
    let done = |data: i64| ActionEnd {
        status: ToolStatus::Complete,
        output: json!(data),
        duration_ms: 7,
        writes: vec![record(part, json!(data), 0)],
    };
    assert!(matches!(
        store.end_action(&scope("bob"), begun.id, done(1)).await,
        Err(Error::NotFound("action"))
    ));
    assert!(matches!(
        store.end_action(&alice, calls[0].into(), done(1)).await,
        Err(Error::NotFound("action"))
    ));
    let ended = store.end_action(&alice, begun.id, done(1)).await.unwrap();
    assert_eq!((ended.status.name(), ended.duration_ms, ended.changes.len()), ("complete", Some(7), 1));
    assert_eq!(store.end_action(&alice, begun.id, done(2)).await.unwrap(), ended, "the first outcome stays");
    assert_eq!(store.record_of(&alice, "part", part).await.unwrap().data, json!(1));
    assert_eq!(store.begun_actions().await.unwrap(), []);
    assert_eq!(kinds(&fixture.database(), begun.id), ["intent", "outcome", "late"]);
    assert_eq!(store.verify_ledger().await.unwrap().faults, Vec::<String>::new());
}

#[tokio::test]
async fn e3_a_purged_thread_loses_what_was_said_and_its_chain_still_verifies() {
    let fixture = Fixture::new();
    let (alice, store) = (principal("alice"), &fixture.store);
    let (submitted, log, calls) = run_with_calls(&fixture, 2).await;
    let (_, kept_log, kept) = run_with_calls(&fixture, 1).await;
    act(&log, calls[0], vec![file("a.md", Some("secret"), 0)]).await.unwrap();
    act(&kept_log, kept[0], vec![file("b.md", Some("kept"), 0)]).await.unwrap();
    log.record(vec![result(calls[1], "secret")], vec![], vec![]).await.unwrap();
    let by = NewAction {
        id: fixture.ids.action(),
        tool: "undo".into(),
        effect: Effect::Reversible,
        input: json!({}),
        actor: None,
    };
    let undo = store.undo(&alice, calls[0].into(), by, None).await.unwrap().id;
    log.record(vec![end(submitted.run, RunStatus::Completed)], vec![], vec![]).await.unwrap();
    let before = action(&fixture, kept[0]).await;
    store.delete_thread(&alice, submitted.thread, None).await.unwrap();
    while store.purge(after(1), after(0)).await.unwrap() {
        let faults = store.verify_ledger().await.unwrap().faults;
        assert_eq!(faults, [""; 0], "the chain holds at every step of the way");
    }
    for erased in [calls[0].into(), calls[1].into(), undo] {
        let row = action(&fixture, erased).await;
        assert_eq!((row.input, row.output, row.changes), (Value::Null, Value::Null, vec![]));
    }
    assert_eq!(action(&fixture, kept[0]).await, before);
    let conn = fixture.database();
    assert_eq!(kinds(&conn, calls[0]), ["intent", "outcome", "undo", "erase"]);
    assert_eq!(kinds(&conn, calls[1]), ["outcome", "erase"]);
    let secrets: i64 = conn
        .query_row("SELECT count(*) FROM ledger_payloads WHERE payload LIKE '%secret%'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(secrets, 0);
    let verified = store.verify_ledger().await.unwrap();
    assert_eq!((verified.faults, verified.scopes, verified.entries, verified.erased), (vec![], 1, 11, 6));
}

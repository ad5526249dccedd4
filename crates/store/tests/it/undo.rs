//! Undo: once, newest first, refused in words, and back to the last byte.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use protocol::{ActionId, AppId, Effect, Ids, RecordId, Scope, ToolStatus};
use serde_json::{Value, json};
use store::{
    ActionEnd, ActionFilter, ActionRow, AppliedChange, Error, NewAction, PageOf, ProfileRow, RecordQuery,
    Write,
};

use crate::actions::{ALL, act, action, file, kinds, record, refusal, run_with_calls};
use crate::support::{Fixture, Forward, after, once, open, principal, result, scope, start};

fn by(fixture: &Fixture) -> NewAction {
    let input = json!({ "by": "hand" });
    NewAction {
        id: fixture.ids.action(),
        tool: "undo".into(),
        effect: Effect::Reversible,
        input,
        actor: None,
    }
}

async fn undo(fixture: &Fixture, id: impl Into<ActionId>) -> Result<ActionRow, Error> {
    fixture.store.undo(&principal("alice"), id.into(), by(fixture), None).await
}

async fn data(fixture: &Fixture, id: RecordId) -> Option<(u64, Value)> {
    let row = fixture.store.record_of(&scope("alice"), "part", id).await.ok();
    row.map(|row| (row.version, row.data))
}

#[tokio::test]
async fn e4_an_undo_is_an_action_of_its_own_and_happens_once() {
    let fixture = Fixture::new();
    let alice = scope("alice");
    let (submitted, log, calls) = run_with_calls(&fixture, 1).await;
    let part = fixture.ids.record();
    fixture.store.put_record(&alice, record(part, json!({ "x": 0.1 }), 0), None).await.unwrap();
    act(&log, calls[0], vec![record(part, None, 1), file("a.md", Some("new"), 0)]).await.unwrap();
    assert_eq!(data(&fixture, part).await, None);
    let undone = undo(&fixture, calls[0]).await.unwrap();
    assert_eq!(data(&fixture, part).await, Some((3, json!({ "x": 0.1 }))));
    assert!(matches!(fixture.store.file(&alice, "a.md").await, Err(Error::NotFound("file"))));
    assert_eq!(action(&fixture, calls[0]).await.undone_by, Some(undone.id));
    assert_eq!(action(&fixture, undone.id).await, undone);
    assert_eq!(
        (undone.undo_of, undone.status.name(), undone.run, undone.thread),
        (Some(calls[0].into()), "complete", None, Some(submitted.thread))
    );
    let changes = [
        AppliedChange::File { path: "a.md".into(), before: Some("new".into()), was: 1, version: 2 },
        AppliedChange::Record { id: part, kind: "part".into(), before: None, was: 2, version: 3 },
    ];
    assert_eq!(undone.changes, changes, "the newest change is put back first");
    let conn = fixture.database();
    assert_eq!(kinds(&conn, calls[0]), ["intent", "outcome", "undo"]);
    assert_eq!(kinds(&conn, undone.id), ["intent", "outcome"]);
    assert_eq!(refusal(undo(&fixture, calls[0]).await), "the action was undone already");
    assert!(refusal(undo(&fixture, undone.id).await).contains("cannot be undone"));
    assert_eq!(fixture.store.verify_ledger().await.unwrap().faults, Vec::<String>::new());
}

#[tokio::test]
async fn a_profile_that_a_call_changed_is_put_back_unless_it_changed_since() {
    let fixture = Fixture::new();
    let alice = scope("alice");
    let (_, log, calls) = run_with_calls(&fixture, 2).await;
    let named = |name: &str, version: u64| ProfileRow {
        name: Some(name.into()),
        fields: json!({ "focus": name }),
        version,
        ..ProfileRow::default()
    };
    fixture.store.put_profile(&alice, named("Al", 0), None).await.unwrap();
    act(&log, calls[0], vec![Write::Profile(named("Alice", 1))]).await.unwrap();
    assert_eq!(fixture.store.profile(&alice).await.unwrap().name.as_deref(), Some("Alice"));
    undo(&fixture, calls[0]).await.unwrap();
    let back = fixture.store.profile(&alice).await.unwrap();
    assert_eq!(
        (back.name.as_deref(), &back.fields, back.version),
        (Some("Al"), &json!({ "focus": "Al" }), 3)
    );
    act(&log, calls[1], vec![Write::Profile(named("Alice", 3))]).await.unwrap();
    fixture.store.put_profile(&alice, named("A.", 4), None).await.unwrap();
    assert!(!refusal(undo(&fixture, calls[1]).await).is_empty(), "the user has changed it since");
    while fixture.store.erase(after(0)).await.unwrap() {}
    assert_eq!(action(&fixture, calls[1]).await.input, Value::Null, "what the call said of it is erased");
    assert_eq!(fixture.store.verify_ledger().await.unwrap().faults, Vec::<String>::new());
}

#[tokio::test]
async fn e4_what_changed_since_must_be_undone_first() {
    let clock = Arc::new(Forward::default());
    let fixture = Fixture::by(clock.clone());
    let alice = scope("alice");
    let (_, log, calls) = run_with_calls(&fixture, 3).await;
    let part = fixture.ids.record();
    act(&log, calls[0], vec![record(part, json!(1), 0)]).await.unwrap();
    clock.to(5);
    act(&log, calls[1], vec![record(part, json!(2), 1)]).await.unwrap();
    act(&log, calls[2], vec![file("a.md", Some("unrelated"), 0)]).await.unwrap();
    let words = refusal(undo(&fixture, calls[0]).await);
    assert_eq!(
        words,
        format!(
            "the part {part} was changed since then by echo at 2026-03-01T12:00:05Z; undo that action first"
        )
    );
    assert_eq!(data(&fixture, part).await, Some((2, json!(2))), "a refusal changes nothing");
    assert_eq!(kinds(&fixture.database(), calls[0]), ["intent", "outcome"]);
    undo(&fixture, calls[1]).await.unwrap();
    assert_eq!(data(&fixture, part).await, Some((3, json!(1))));
    undo(&fixture, calls[0]).await.expect("the newer one is undone");
    assert_eq!(data(&fixture, part).await, None);
    fixture.store.put_file(&alice, file("a.md", Some("by hand"), 1), None).await.unwrap();
    let words = refusal(undo(&fixture, calls[2]).await);
    assert_eq!(words, "the file a.md was changed since then by hand, so the action cannot be undone");
    assert_eq!(fixture.store.file(&alice, "a.md").await.unwrap().content, "by hand");
}

#[tokio::test]
async fn e4_what_changed_nothing_or_did_not_complete_is_refused_up_front() {
    let fixture = Fixture::new();
    let (_, log, calls) = run_with_calls(&fixture, 4).await;
    act(&log, calls[0], vec![]).await.unwrap();
    log.record(vec![start(calls[1], "send", Effect::Irreversible)], vec![], vec![]).await.unwrap();
    assert!(refusal(undo(&fixture, calls[1]).await).contains("not completed"));
    log.record(vec![result(calls[1], "sent")], vec![], vec![file("log.md", Some("sent"), 0)]).await.unwrap();
    for nothing in [calls[0], calls[1]] {
        assert!(refusal(undo(&fixture, nothing).await).contains("nothing that can be undone"));
    }
    log.record(vec![start(calls[2], "set", Effect::Idempotent)], vec![], vec![]).await.unwrap();
    log.record(vec![result(calls[2], "set")], vec![], vec![file("a.md", Some("a"), 0)]).await.unwrap();
    undo(&fixture, calls[2]).await.expect("idempotent with changes");
    assert!(matches!(undo(&fixture, fixture.ids.action()).await, Err(Error::NotFound("action"))));
    let foreign = fixture.store.undo(&principal("bob"), calls[2].into(), by(&fixture), None).await;
    assert!(matches!(foreign, Err(Error::NotFound("action"))));
}

#[tokio::test]
async fn e4_of_two_undos_at_once_exactly_one_happens() {
    let fixture = Fixture::new();
    let (_, log, calls) = run_with_calls(&fixture, 1).await;
    act(&log, calls[0], vec![file("a.md", Some("a"), 0)]).await.unwrap();
    let all = tokio::join!(
        undo(&fixture, calls[0]),
        undo(&fixture, calls[0]),
        undo(&fixture, calls[0]),
        undo(&fixture, calls[0])
    );
    let happened = [all.0, all.1, all.2, all.3].iter().filter(|result| result.is_ok()).count();
    assert_eq!(happened, 1);
    assert_eq!(fixture.store.file_version(&scope("alice"), "a.md").await.unwrap(), 2);
}

#[tokio::test]
async fn q3_under_a_key_an_undo_happens_once_and_is_given_again() {
    let fixture = Fixture::new();
    let (_, log, calls) = run_with_calls(&fixture, 2).await;
    act(&log, calls[0], vec![file("a.md", Some("a"), 0)]).await.unwrap();
    act(&log, calls[1], vec![file("b.md", Some("b"), 0)]).await.unwrap();
    let keyed = async |call: protocol::CallId, asked| {
        let (key, by) = (once("k", asked), by(&fixture));
        fixture.store.undo(&principal("alice"), call.into(), by, key).await
    };
    let first = keyed(calls[0], 1).await.unwrap();
    assert_eq!(keyed(calls[0], 1).await.unwrap(), first);
    assert!(matches!(keyed(calls[1], 2).await, Err(Error::KeyReused)));
}

#[tokio::test]
async fn e4_a_call_of_a_run_undoes_as_its_own_action() {
    let fixture = Fixture::new();
    let (_, log, calls) = run_with_calls(&fixture, 4).await;
    act(&log, calls[0], vec![file("a.md", Some("a"), 0)]).await.unwrap();
    act(&log, calls[1], vec![file("b.md", Some("b"), 0)]).await.unwrap();
    let undo_of = |action: ActionId| Write::Undo { action };
    act(&log, calls[2], vec![undo_of(calls[0].into())]).await.unwrap();
    let row = action(&fixture, calls[2]).await;
    assert_eq!((row.undo_of, row.changes.len()), (Some(calls[0].into()), 1));
    assert_eq!(action(&fixture, calls[0]).await.undone_by, Some(calls[2].into()));
    let elsewhere = Scope { app: AppId::new("other"), ..scope("alice") };
    let foreign = foreign_action(&fixture, elsewhere).await;
    for (writes, reason) in [
        (vec![undo_of(calls[3].into())], "cannot undo itself"),
        (vec![undo_of(calls[0].into())], "undone already"),
        (vec![undo_of(calls[2].into())], "cannot be undone"),
        (vec![undo_of(foreign)], "no such action"),
        (vec![undo_of(fixture.ids.action())], "no such action"),
        (vec![undo_of(calls[1].into()), undo_of(calls[1].into())], "one action at most"),
    ] {
        let words = refusal(act(&log, calls[3], writes).await);
        assert!(words.contains(reason), "{words}: expected {reason}");
    }
    act(&log, calls[3], vec![undo_of(calls[1].into())]).await.unwrap();
    assert_eq!(fixture.store.files(&scope("alice")).await.unwrap(), []);
    assert_eq!(fixture.store.verify_ledger().await.unwrap().faults, Vec::<String>::new());
}

/// A completed action with a change in another scope.
async fn foreign_action(fixture: &Fixture, scope: Scope) -> ActionId {
    let mut submission = fixture.submission(store::Target::New(fixture.ids.thread()));
    submission.scope = scope;
    let submitted = fixture.store.submit(submission).await.unwrap().0;
    let log = fixture.log(submitted).await;
    let call = fixture.ids.call();
    log.record(vec![crate::support::step_end(vec![crate::support::call(call)])], vec![], vec![])
        .await
        .unwrap();
    act(&log, call, vec![file("c.md", Some("c"), 0)]).await.unwrap();
    call.into()
}

#[derive(Debug, Clone)]
enum Step {
    /// A call that writes these, each to one of a few things: a value, or none to delete.
    Act(Vec<(usize, Option<u8>)>),
    /// An undo of the action so far back.
    Undo(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let write = (0_usize..4, proptest::option::weighted(0.8, any::<u8>()));
    let step = prop_oneof![
        3 => proptest::collection::vec(write, 1..4).prop_map(Step::Act),
        1 => (0_usize..5).prop_map(Step::Undo),
    ];
    proptest::collection::vec(step, 1..24)
}

/// Everything there is, by name, as text.
async fn state(fixture: &Fixture) -> BTreeMap<String, String> {
    let alice = scope("alice");
    let page = PageOf { after: None, limit: 100 };
    let records = fixture.store.records(&alice, "part", RecordQuery::default(), page).await.unwrap().rows;
    let files = fixture.store.files(&alice).await.unwrap();
    let records = records.into_iter().map(|row| (row.id.to_string(), row.data.to_string()));
    records.chain(files.into_iter().map(|row| (row.path, row.content))).collect()
}

fn versions(fixture: &Fixture) -> BTreeMap<String, i64> {
    let conn = fixture.database();
    let mut find = conn
        .prepare("SELECT hex(id), version FROM records UNION ALL SELECT path, version FROM files")
        .unwrap();
    let rows = find.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

/// A write to one of four things that suits what is there, or none if there is nothing to delete.
async fn suitable(
    fixture: &Fixture,
    things: &[RecordId],
    (thing, value): (usize, Option<u8>),
) -> Option<Write> {
    let there = versions(fixture);
    let text = value.map(|value| format!("{value} {}", f64::from(value) / 255.0));
    if let Some(id) = things.get(thing) {
        let hex: String = id.bytes().iter().map(|byte| format!("{byte:02X}")).collect();
        let expected = there.get(&hex).copied().unwrap_or(0).unsigned_abs();
        let live = data(fixture, *id).await.is_some();
        let value = value.map(|value| json!({ "value": f64::from(value) / 255.0, "text": text }));
        return (live || value.is_some()).then(|| record(*id, value, expected));
    }
    let path = format!("{thing}.md");
    let expected = there.get(&path).copied().unwrap_or(0).unsigned_abs();
    let live = fixture.store.file(&scope("alice"), &path).await.is_ok();
    (live || text.is_some()).then(|| file(&path, text.as_deref(), expected))
}

async fn play(steps: Vec<Step>) {
    let fixture = Fixture::new();
    let alice = scope("alice");
    let things = [fixture.ids.record(), fixture.ids.record()];
    fixture.store.put_record(&alice, record(things[0], json!({ "pi": 0.1 }), 0), None).await.unwrap();
    fixture.store.put_file(&alice, file("2.md", Some("first"), 0), None).await.unwrap();
    let first = state(&fixture).await;
    let (_, log, calls) = run_with_calls(&fixture, 32).await;
    for (step, call) in steps.into_iter().zip(&calls) {
        let before = versions(&fixture);
        match step {
            Step::Act(wanted) => {
                // One call may change a thing once here, because each write must know the version before it.
                let wanted: BTreeMap<_, _> = wanted.into_iter().collect();
                let mut writes = Vec::new();
                for wanted in wanted {
                    writes.extend(suitable(&fixture, &things, wanted).await);
                }
                act(&log, *call, writes).await.unwrap();
            }
            Step::Undo(back) => {
                let rows = fixture.store.actions(&alice, ActionFilter::default(), ALL).await.unwrap().rows;
                if let Some(row) = rows.get(back) {
                    drop(undo(&fixture, row.id).await); // it may be refused
                }
            }
        }
        let after = versions(&fixture);
        assert!(before.iter().all(|(thing, version)| after[thing] >= *version));
    }
    for row in fixture.store.actions(&alice, ActionFilter::default(), ALL).await.unwrap().rows {
        if row.undo_of.is_none() && row.undone_by.is_none() && !row.changes.is_empty() {
            undo(&fixture, row.id).await.unwrap();
        }
    }
    assert_eq!(state(&fixture).await, first);
    assert_eq!(fixture.store.verify_ledger().await.unwrap().faults, Vec::<String>::new());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn e4_undoing_everything_newest_first_brings_back_the_first_state(steps in steps()) {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(play(steps));
    }
}

#[tokio::test]
async fn e4_a_call_that_changes_a_thing_twice_is_undone_as_one() {
    let fixture = Fixture::new();
    let (_, log, calls) = run_with_calls(&fixture, 1).await;
    let part = fixture.ids.record();
    fixture.store.put_record(&scope("alice"), record(part, json!("first"), 0), None).await.unwrap();
    let writes =
        vec![record(part, json!("second"), 1), record(part, None, 2), record(part, json!("third"), 3)];
    act(&log, calls[0], writes).await.unwrap();
    undo(&fixture, calls[0]).await.unwrap();
    assert_eq!(data(&fixture, part).await, Some((5, json!("first"))));
}

/// A call that acted outside, as the ledger has it afterwards.
async fn acted_outside(fixture: &Fixture) -> (store::SubmittedRun, ActionId) {
    let (submitted, log, calls) = run_with_calls(fixture, 1).await;
    act(&log, calls[0], vec![]).await.unwrap();
    (submitted, calls[0].into())
}

async fn begin(fixture: &Fixture, id: ActionId) -> Result<ActionRow, Error> {
    fixture.store.begin_undo(&principal("alice"), id, by(fixture), None).await
}

fn ended(status: ToolStatus) -> ActionEnd {
    ActionEnd { status, output: json!({ "said": status }), duration_ms: 7, writes: vec![] }
}

async fn end(fixture: &Fixture, id: ActionId, status: ToolStatus) -> ActionRow {
    fixture.store.end_action(&scope("alice"), id, ended(status)).await.unwrap()
}

async fn no_faults(fixture: &Fixture) {
    assert_eq!(fixture.store.verify_ledger().await.unwrap().faults, Vec::<String>::new());
}

#[tokio::test]
async fn e4_an_undo_outside_names_what_it_undoes_from_its_beginning_and_marks_it_at_its_end() {
    let fixture = Fixture::new();
    let (submitted, done) = acted_outside(&fixture).await;
    let begun = begin(&fixture, done).await.unwrap();
    let expected = (Some(done), Some(submitted.thread), None, "started");
    assert_eq!((begun.undo_of, begun.thread, begun.run, begun.status.name()), expected);
    assert_eq!(action(&fixture, begun.id).await, begun);
    assert_eq!(action(&fixture, done).await.undone_by, None, "nothing has happened yet");
    no_faults(&fixture).await;
    let undone = end(&fixture, begun.id, ToolStatus::Complete).await;
    assert_eq!((undone.undo_of, undone.status.name()), (Some(done), "complete"));
    assert_eq!(action(&fixture, begun.id).await, undone);
    assert_eq!(action(&fixture, done).await.undone_by, Some(begun.id));
    let conn = fixture.database();
    assert_eq!(kinds(&conn, done), ["intent", "outcome", "undo"]);
    assert_eq!(kinds(&conn, begun.id), ["intent", "outcome"]);
    assert_eq!(refusal(begin(&fixture, done).await), "the action was undone already");
    let of_undo = refusal(begin(&fixture, begun.id).await);
    assert_eq!(of_undo, "the action is an undo, which cannot be undone; make the change again");
    end(&fixture, begun.id, ToolStatus::Failed).await;
    assert_eq!(action(&fixture, begun.id).await, undone, "a second outcome is only noted");
    assert_eq!(action(&fixture, done).await.undone_by, Some(begun.id));
    no_faults(&fixture).await;
}

#[tokio::test]
async fn e4_of_many_undos_outside_at_once_exactly_one_begins() {
    let fixture = Fixture::new();
    let (_, done) = acted_outside(&fixture).await;
    let all = tokio::join!(begin(&fixture, done), begin(&fixture, done), begin(&fixture, done));
    let (begun, refused): (Vec<_>, Vec<_>) = [all.0, all.1, all.2].into_iter().partition(Result::is_ok);
    assert_eq!(begun.len(), 1);
    for refused in refused {
        assert_eq!(refusal(refused), "an undo of the action is running");
    }
    assert_eq!(fixture.store.begun_actions().await.unwrap().len(), 1);
}

#[tokio::test]
async fn e4_a_failed_undo_outside_frees_the_action_and_an_unknown_one_never_does() {
    let fixture = Fixture::new();
    let (_, done) = acted_outside(&fixture).await;
    for nothing in [ToolStatus::Failed, ToolStatus::Denied, ToolStatus::Cancelled, ToolStatus::Failed] {
        let begun = begin(&fixture, done).await.unwrap();
        let row = end(&fixture, begun.id, nothing).await;
        assert_eq!((row.undo_of, row.status.name()), (Some(done), nothing.name()));
        assert_eq!(action(&fixture, done).await.undone_by, None);
    }
    let begun = begin(&fixture, done).await.unwrap();
    end(&fixture, begun.id, ToolStatus::Unknown).await;
    assert_eq!(action(&fixture, done).await.undone_by, None, "nobody can know");
    let words = "an earlier undo of the action has no known result; check the external system";
    assert_eq!(refusal(begin(&fixture, done).await), words);
    end(&fixture, begun.id, ToolStatus::Complete).await;
    assert_eq!(action(&fixture, done).await.undone_by, None, "what comes late changes nothing");
    assert_eq!(refusal(begin(&fixture, done).await), words);
    no_faults(&fixture).await;
}

#[tokio::test]
async fn e4_an_undo_outside_is_refused_where_there_is_nothing_to_undo() {
    let fixture = Fixture::new();
    let (_, log, calls) = run_with_calls(&fixture, 4).await;
    for (call, effect) in
        calls.iter().zip([Effect::Read, Effect::Idempotent, Effect::Irreversible, Effect::Reversible])
    {
        log.record(vec![start(*call, "echo", effect)], vec![], vec![]).await.unwrap();
        let early = refusal(begin(&fixture, (*call).into()).await);
        assert_eq!(early, "the action was not completed, so there is nothing to undo");
        log.record(vec![result(*call, "done")], vec![], vec![]).await.unwrap();
        let begun = begin(&fixture, (*call).into()).await;
        match effect {
            Effect::Reversible => drop(begun.unwrap()),
            Effect::Read | Effect::Idempotent | Effect::Irreversible => {
                assert_eq!(refusal(begun), "the action changed nothing that can be undone");
            }
        }
    }
    assert!(matches!(begin(&fixture, fixture.ids.action()).await, Err(Error::NotFound("action"))));
    let (_, done) = acted_outside(&fixture).await;
    let foreign = fixture.store.begin_undo(&principal("bob"), done, by(&fixture), None).await;
    assert!(matches!(foreign, Err(Error::NotFound("action"))));
    let begun = begin(&fixture, done).await.unwrap();
    let foreign = fixture.store.end_action(&scope("bob"), begun.id, ended(ToolStatus::Complete)).await;
    assert!(matches!(foreign, Err(Error::NotFound("action"))));
    assert_eq!(action(&fixture, done).await.undone_by, None);
}

#[tokio::test]
async fn q3_under_a_key_an_undo_outside_begins_once_and_is_given_again_as_it_is() {
    let fixture = Fixture::new();
    let ((_, done), (_, other)) = (acted_outside(&fixture).await, acted_outside(&fixture).await);
    let keyed = async |action: ActionId, asked| {
        let (key, by) = (once("k", asked), by(&fixture));
        fixture.store.begin_undo(&principal("alice"), action, by, key).await
    };
    let begun = keyed(done, 1).await.unwrap();
    assert_eq!(keyed(done, 1).await.unwrap(), begun);
    assert!(matches!(keyed(other, 2).await, Err(Error::KeyReused)));
    let failed = end(&fixture, begun.id, ToolStatus::Failed).await;
    assert_eq!(keyed(done, 1).await.unwrap(), failed, "the same request is not another try");
    assert_eq!(fixture.store.begun_actions().await.unwrap(), []);
}

#[tokio::test]
async fn e4_after_a_restart_an_undo_outside_that_was_cut_is_found_and_ended() {
    let fixture = Fixture::new();
    let (_, done) = acted_outside(&fixture).await;
    let begun = begin(&fixture, done).await.unwrap();
    let Fixture { store, published, ids, folder } = fixture;
    drop(store);
    let store = open(folder.path(), published.clone()).unwrap();
    let fixture = Fixture { store, published, ids, folder };
    assert_eq!(fixture.store.begun_actions().await.unwrap(), std::slice::from_ref(&begun));
    assert_eq!(refusal(begin(&fixture, done).await), "an undo of the action is running");
    end(&fixture, begun.id, ToolStatus::Complete).await;
    assert_eq!(action(&fixture, done).await.undone_by, Some(begun.id));
    assert_eq!(fixture.store.begun_actions().await.unwrap(), []);
    no_faults(&fixture).await;
}

#[tokio::test]
async fn e4_undo_here_and_undo_outside_stand_in_each_others_way() {
    let fixture = Fixture::new();
    let (_, log, calls) = run_with_calls(&fixture, 3).await;
    for (call, path) in calls.iter().zip(["a.md", "b.md", "c.md"]) {
        act(&log, *call, vec![file(path, Some("new"), 0)]).await.unwrap();
    }
    let both = begin(&fixture, calls[0].into()).await.unwrap();
    assert_eq!(refusal(undo(&fixture, calls[0]).await), "an undo of the action is running");
    let end_with = async |action| {
        let end = ActionEnd { writes: vec![Write::Undo { action }], ..ended(ToolStatus::Complete) };
        fixture.store.end_action(&scope("alice"), both.id, end).await
    };
    assert_eq!(refusal(end_with(calls[1].into()).await), "a call undoes one action at most");
    assert_eq!(action(&fixture, calls[1]).await.undone_by, None);
    let row = end_with(calls[0].into()).await.unwrap();
    assert_eq!((row.undo_of, row.changes.len()), (Some(calls[0].into()), 1), "both at once");
    assert_eq!(action(&fixture, calls[0]).await.undone_by, Some(both.id));
    undo(&fixture, calls[2]).await.unwrap();
    assert_eq!(refusal(begin(&fixture, calls[2].into()).await), "the action was undone already");
    no_faults(&fixture).await;
}

#[tokio::test]
async fn e3_what_an_undo_outside_is_of_cannot_be_changed_unseen() {
    let fixture = Fixture::new();
    let ((_, done), (_, other)) = (acted_outside(&fixture).await, acted_outside(&fixture).await);
    let begun = begin(&fixture, done).await.unwrap();
    let conn = fixture.database();
    for undo_of in [None, Some(other), Some(done)] {
        let bytes = undo_of.as_ref().map(ActionId::bytes);
        conn.execute("UPDATE actions SET undo_of = ?2 WHERE id = ?1", (begun.id.bytes(), bytes)).unwrap();
        let faults = fixture.store.verify_ledger().await.unwrap().faults;
        assert_eq!(faults.is_empty(), undo_of == Some(done), "{faults:?}");
        assert!(
            faults.iter().all(|fault| fault.ends_with("differs from its entries in the ledger: undo_of"))
        );
    }
}

#[tokio::test]
async fn e4_what_went_with_its_conversation_is_not_taken_back_outside() {
    let fixture = Fixture::new();
    let (submitted, log, calls) = run_with_calls(&fixture, 1).await;
    act(&log, calls[0], vec![]).await.unwrap();
    let over = crate::support::end(submitted.run, protocol::RunStatus::Completed);
    log.record(vec![over], vec![], vec![]).await.unwrap();
    let alice = principal("alice");
    let begun = begin(&fixture, calls[0].into()).await.unwrap();
    fixture.store.delete_thread(&alice, submitted.thread, None).await.unwrap();
    let purge = async || while fixture.store.purge(after(1), after(0)).await.unwrap() {};
    purge().await;
    assert_eq!(action(&fixture, begun.id).await, begun, "what is under way is ended first");
    end(&fixture, begun.id, ToolStatus::Failed).await;
    purge().await;
    assert_eq!(action(&fixture, begun.id).await.input, Value::Null);
    let words = refusal(begin(&fixture, calls[0].into()).await);
    assert!(words.contains("was erased, because its thread"), "{words}");
    no_faults(&fixture).await;
}

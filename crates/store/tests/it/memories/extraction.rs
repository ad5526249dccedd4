//! Extraction: once, by the job's owner, for the versions it has seen, and never what was forgotten meanwhile.

use std::sync::Arc;

use protocol::{Event, Ids, MemoryId, MemoryUpdate, MessageId, RunStatus, Scope, ThreadId, Usage};
use store::{
    Error, ExtractedMemories, JobRow, JobUsage, MAX_CHANGES_PER_EXTRACTION, MAX_EXPIRED_PER_EXTRACTION,
    MemoryChange, MemoryExtraction, MemoryOrigin, MemoryPurge, MemoryRow, NewJob, NewMemoryRow, SubmittedRun,
    Target,
};

use super::changes::{said, versions};
use super::{add, listed, new};
use crate::support::{Fixture, Forward, after, answer, end, principal, scope, step_end};

/// A run under way, and a job of its thread that has begun.
async fn begun(fixture: &Fixture) -> (SubmittedRun, JobRow) {
    let (submitted, log) = fixture.run().await;
    let job = NewJob {
        id: fixture.ids.job(),
        kind: "extract",
        key: submitted.run.to_string(),
        delay: std::time::Duration::ZERO,
    };
    log.record(vec![step_end(vec![])], vec![job], vec![]).await.unwrap();
    (submitted, fixture.store.claim().await.unwrap().unwrap())
}

fn of(changes: Vec<MemoryChange>) -> MemoryExtraction {
    MemoryExtraction { from: 1, through: 1, changes, ..MemoryExtraction::default() }
}

fn update(row: &MemoryRow, text: &str, source: MemoryOrigin) -> MemoryChange {
    MemoryChange::Update { id: row.id, version: row.version, text: text.into(), kind: "place".into(), source }
}

fn remove(row: &MemoryRow) -> MemoryChange {
    MemoryChange::Remove { id: row.id, version: row.version, source: MemoryOrigin::default() }
}

fn merge(into: &MemoryRow, from: &[&MemoryRow], text: &str) -> MemoryChange {
    MemoryChange::Merge {
        into: (into.id, into.version),
        from: from.iter().map(|row| (row.id, row.version)).collect(),
        text: text.into(),
        kind: "fact".into(),
        source: None,
    }
}

async fn status(fixture: &Fixture, id: MemoryId) -> String {
    fixture.store.memory(&principal("alice"), id).await.unwrap().status.name().to_owned()
}

async fn sourced(fixture: &Fixture, text: &str, source: MemoryOrigin) -> MemoryRow {
    let memory = NewMemoryRow { sources: vec![source], ..new(fixture, text) };
    fixture.store.add_memory(&scope("alice"), memory, None).await.unwrap()
}

fn updates(fixture: &Fixture, thread: ThreadId) -> Vec<MemoryUpdate> {
    let published = fixture.published.of(thread);
    let read = published.iter().filter_map(|event| match Event::read(&event.kind, &event.body) {
        Ok(Event::MemoryUpdate(update)) => {
            assert_eq!(event.run, None, "it belongs to no run");
            Some(update)
        }
        _ => None,
    });
    read.collect()
}

#[tokio::test]
async fn what_is_purged_while_a_job_looks_at_it_does_not_come_back_by_it() {
    let fixture = Fixture::new();
    let her = principal("alice");
    let row = add(&fixture, &scope("alice"), "has a dog").await;
    let (_, job) = begun(&fixture).await;
    let as_of = Some(fixture.store.recall_head(&scope("alice")).await.unwrap());
    let found = || MemoryExtraction { as_of, ..of(vec![MemoryChange::Create(new(&fixture, "has a dog"))]) };
    fixture.store.forget_memory(&her, row.id, None).await.unwrap();
    fixture.store.purge_memory(&her, row.id, MemoryPurge::default(), None).await.unwrap();
    let refused = fixture.store.extract(&job, found()).await;
    assert!(matches!(refused, Err(Error::Changed(_))), "{refused:?}");
    let as_of = Some(fixture.store.recall_head(&scope("alice")).await.unwrap());
    fixture.store.extract(&job, MemoryExtraction { as_of, ..found() }).await.expect("it has looked again");
}

#[tokio::test]
async fn every_kind_of_change_is_made_and_told() {
    let clock = Arc::new(Forward::default());
    let fixture = Fixture::by(clock.clone());
    let alice = scope("alice");
    let (submitted, job) = begun(&fixture).await;
    let message = fixture.ids.message();
    let said = |words: &str| said(submitted.thread, message, words);
    let moved = sourced(&fixture, "lives in Oslo", said("I live in Oslo")).await;
    let stopped = add(&fixture, &alice, "smokes").await;
    let tea = sourced(&fixture, "drinks tea", said("tea, please")).await;
    let green = sourced(&fixture, "drinks green tea", said("green tea")).await;
    let same = sourced(&fixture, "tea in the morning", said("tea, please")).await;
    clock.to(60);
    let born = NewMemoryRow { source: "extracted", ..new(&fixture, "is fifty") };
    let changes = vec![
        MemoryChange::Create(born.clone()),
        update(&moved, "lives in Rome", said("I moved to Rome")),
        merge(&green, &[&tea, &same], "drinks green tea in the morning"),
        remove(&stopped),
    ];
    let spent =
        Some(JobUsage { model: "small".into(), usage: Usage { input_tokens: 7, ..Usage::default() } });
    let done = fixture.store.extract(&job, MemoryExtraction { spent, ..of(changes) }).await.unwrap();
    let expected = ExtractedMemories {
        created: vec![born.id],
        updated: vec![moved.id, green.id],
        merged: vec![tea.id, same.id],
        removed: vec![stopped.id],
        expired: vec![],
        skipped: 0,
    };
    assert_eq!(done, expected);
    let ExtractedMemories { created, updated, merged, removed, expired, .. } = expected;
    let told = MemoryUpdate { created, updated, merged, removed, expired };
    assert_eq!(updates(&fixture, submitted.thread), [told]);
    let today = store::day(after(0));
    assert_eq!(fixture.store.usage_of_day(&alice, today).await.unwrap().input_tokens, 7 + 3);
    let her = principal("alice");
    let history = async |id| fixture.store.memory_history(&her, id).await.unwrap();
    let moved = history(moved.id).await;
    assert_eq!((moved.memory.text.as_str(), moved.memory.kind.as_str()), ("lives in Rome", "place"));
    let valid: Vec<_> = moved.versions.iter().map(|row| (row.valid_from, row.valid_until)).collect();
    assert_eq!(valid, [(None, Some(after(60))), (Some(after(60)), None)], "the old one was so until now");
    assert_eq!(moved.sources, [said("I live in Oslo"), said("I moved to Rome")]);
    let merged = history(green.id).await;
    assert_eq!(merged.sources, [said("green tea"), said("tea, please")], "what both rest on is there once");
    assert_eq!((merged.versions[1].reason.name(), merged.memory.version), ("merged", 2));
    let superseded = history(tea.id).await;
    assert_eq!(superseded.memory.superseded_by, Some(green.id));
    assert_eq!((superseded.memory.status.name(), superseded.sources.len()), ("superseded", 1));
    let removed = history(stopped.id).await.memory;
    assert_eq!((removed.status.name(), removed.valid_until), ("removed", Some(after(60))));
    for (id, version) in [(tea.id, 3), (stopped.id, 3)] {
        let row = fixture.store.restore_memory(&her, id, None).await.unwrap();
        assert_eq!((row.status.name(), row.version), ("active", version));
        assert_eq!((row.superseded_by, row.valid_until), (None, None));
    }
}

#[tokio::test]
async fn j2_a_stale_owner_extracts_nothing_and_nobody_does_twice() {
    let fixture = Fixture::new();
    let (submitted, stale) = begun(&fixture).await;
    fixture.store.adopt().await.unwrap(); // as a restart does
    let owner = fixture.store.claim().await.unwrap().unwrap();
    let create = || of(vec![MemoryChange::Create(new(&fixture, "born"))]);
    let spent = Some(JobUsage { model: "stale".into(), usage: Usage::default() });
    let refused = fixture.store.extract(&stale, MemoryExtraction { spent, ..create() }).await;
    assert!(matches!(refused, Err(Error::Fenced)));
    assert_eq!(listed(&fixture, &scope("alice")).await, Vec::<String>::new());
    fixture.store.extract(&owner, create()).await.unwrap();
    assert!(matches!(fixture.store.extract(&owner, create()).await, Err(Error::Fenced)));
    assert!(matches!(fixture.store.complete(&owner, None, None).await, Err(Error::Fenced)));
    assert_eq!(listed(&fixture, &scope("alice")).await, ["born"]);
    assert_eq!(updates(&fixture, submitted.thread).len(), 1);
}

#[tokio::test]
async fn a_change_for_another_version_or_status_or_scope_is_skipped() {
    let fixture = Fixture::new();
    let (alice, her) = (scope("alice"), principal("alice"));
    let (submitted, job) = begun(&fixture).await;
    let edited = add(&fixture, &alice, "edited").await;
    let text = Some("by hand".to_owned());
    fixture.store.edit_memory(&her, edited.id, store::MemoryEdit { text, kind: None }, None).await.unwrap();
    let gone = add(&fixture, &alice, "gone").await;
    fixture.store.forget_memory(&her, gone.id, None).await.unwrap();
    let gone = fixture.store.memory(&her, gone.id).await.unwrap();
    let foreign = add(&fixture, &scope("bob"), "bob's").await;
    let elsewhere = Scope { app: protocol::AppId::new("other"), ..alice.clone() };
    let elsewhere = add(&fixture, &elsewhere, "elsewhere").await;
    let (good, other) = (add(&fixture, &alice, "good").await, add(&fixture, &alice, "other").await);
    let mut changes = Vec::new();
    for wrong in [&edited, &gone, &foreign, &elsewhere] {
        changes.push(update(wrong, "x", MemoryOrigin::default()));
        changes.push(remove(wrong));
        changes.push(merge(wrong, &[&good], "x"));
        changes.push(merge(&good, &[&other, wrong], "x"));
    }
    changes.extend([
        merge(&good, &[&good], "x"),
        merge(&good, &[&other, &other], "x"),
        merge(&good, &[], "x"),
    ]);
    let expected = ExtractedMemories { skipped: changes.len(), ..ExtractedMemories::default() };
    assert_eq!(fixture.store.extract(&job, of(changes)).await.unwrap(), expected);
    assert_eq!(listed(&fixture, &alice).await, ["other", "good", "by hand"]);
    assert_eq!(status(&fixture, gone.id).await, "forgotten");
    assert_eq!(listed(&fixture, &scope("bob")).await, ["bob's"]);
    assert_eq!(updates(&fixture, submitted.thread), [], "nothing changed, so nothing is told");
    let (_, job) = begun(&fixture).await;
    let twice = vec![update(&good, "new", MemoryOrigin::default()), remove(&good)];
    let done = fixture.store.extract(&job, of(twice)).await.unwrap();
    assert_eq!((done.updated, done.skipped), (vec![good.id], 1), "the first makes a new version");
}

#[tokio::test]
async fn words_that_were_forgotten_meanwhile_do_not_come_back() {
    let clock = Arc::new(Forward::default());
    let fixture = Fixture::by(clock.clone());
    let (submitted, job) = begun(&fixture).await;
    let message = fixture.ids.message();
    let at = |words: &str, seconds| MemoryOrigin {
        at: Some(after(seconds)),
        ..said(submitted.thread, message, words)
    };
    let kept = add(&fixture, &scope("alice"), "kept").await;
    let spare = add(&fixture, &scope("alice"), "spare").await;
    let gone = sourced(&fixture, "has a dog", at("my dog", 0)).await;
    clock.to(10);
    fixture.store.forget_memory(&principal("alice"), gone.id, None).await.unwrap();
    let create = |words: &str, seconds| {
        let sources = vec![at(words, seconds)];
        MemoryChange::Create(NewMemoryRow { sources, ..new(&fixture, &format!("{words} at {seconds}")) })
    };
    clock.to(20);
    let MemoryChange::Merge { into, from, text, kind, .. } = merge(&kept, &[&spare], "x") else {
        unreachable!()
    };
    let changes = vec![
        create("my dog", 0),
        create("my dog", 10),
        update(&kept, "x", at("my dog", 9)),
        MemoryChange::Merge { into, from, text, kind, source: Some(at("my dog", 9)) },
        create("my dog", 11),
        create("my cat", 0),
    ];
    let done = fixture.store.extract(&job, of(changes)).await.unwrap();
    assert_eq!((done.created.len(), done.skipped), (2, 4), "what is said anew counts");
}

#[tokio::test]
async fn the_least_used_and_oldest_expire_first() {
    let clock = Arc::new(Forward::default());
    let fixture = Fixture::by(clock.clone());
    let alice = scope("alice");
    let day = 24 * 60 * 60;
    let mut rows = Vec::new();
    // Uses, and days before now. A use is worth ten days, and the future is no younger than now.
    let aged = [(1, 10), (0, 0), (2, 25), (0, 0), (0, 5), (0, -3), (1, 0)];
    for (number, (uses, days)) in aged.into_iter().enumerate() {
        let memory =
            NewMemoryRow { created_at: Some(after(-days * day)), ..new(&fixture, &format!("x{number}")) };
        rows.push(fixture.store.add_memory(&alice, memory, None).await.unwrap().id);
        let used = format!("UPDATE memories SET access_count = {uses} WHERE id = ?1");
        fixture.database().execute(&used, [rows.last().unwrap().bytes()]).unwrap();
    }
    add(&fixture, &scope("bob"), "bob's is no concern of hers").await;
    let order = [2, 4, 0, 1, 3, 5, 6].map(|place: usize| rows[place]);
    for (limit, expected) in [(7, 0..0), (6, 0..1), (4, 1..3), (5, 3..3), (1, 3..6), (0, 6..7)] {
        let (submitted, job) = begun(&fixture).await;
        let done =
            fixture.store.extract(&job, MemoryExtraction { limit: Some(limit), ..of(vec![]) }).await.unwrap();
        assert_eq!(done.expired, order[expected.clone()], "{limit} may stay");
        let told: Vec<_> = updates(&fixture, submitted.thread).into_iter().map(|told| told.expired).collect();
        assert_eq!(told.concat(), order[expected]);
    }
    assert_eq!(status(&fixture, rows[4]).await, "expired");
    let row = fixture.store.restore_memory(&principal("alice"), rows[4], None).await.unwrap();
    assert_eq!((row.status.name(), row.version), ("active", 3));
}

#[tokio::test]
async fn each_subject_may_have_as_many_as_the_limit_says() {
    let fixture = Fixture::new();
    let alice = scope("alice");
    let day = 24 * 60 * 60;
    for (kind, count) in [("maths/level", 3), ("maths/goal", 1), ("french/level", 2), ("interest", 3)] {
        for age in 0..count {
            let created_at = Some(after(-age * day));
            let memory =
                NewMemoryRow { kind: kind.into(), created_at, ..new(&fixture, &format!("{kind} {age}")) };
            fixture.store.add_memory(&alice, memory, None).await.unwrap();
        }
    }
    let (_, job) = begun(&fixture).await;
    let by_subject = MemoryExtraction { limit: Some(2), per_subject: true, ..of(vec![]) };
    let done = fixture.store.extract(&job, by_subject).await.unwrap();
    assert_eq!(done.expired.len(), 3);
    let mut left = listed(&fixture, &alice).await;
    left.sort_unstable();
    let stay =
        ["french/level 0", "french/level 1", "interest 0", "interest 1", "maths/goal 0", "maths/level 0"];
    assert_eq!(left, stay, "the oldest of each subject are gone");
}

#[tokio::test]
async fn an_extraction_is_bounded_in_what_it_changes_and_lets_go() {
    let fixture = Fixture::new();
    let (_, job) = begun(&fixture).await;
    let more = MAX_CHANGES_PER_EXTRACTION + 1;
    let create = |number: usize| MemoryChange::Create(new(&fixture, &format!("x{number}")));
    let changes = (0..more).map(create).collect();
    let done = fixture.store.extract(&job, of(changes)).await.unwrap();
    assert_eq!((done.created.len(), done.skipped), (MAX_CHANGES_PER_EXTRACTION, 1));
    let fill = format!(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {MAX_EXPIRED_PER_EXTRACTION})
         INSERT INTO memories (id, app, user, text, kind, status, source, created_at, updated_at)
            SELECT randomblob(16), 'app', 'alice', 'x', 'fact', 'active', 'user', 0, 0 FROM n;
         INSERT INTO memory_versions (memory, version, text, kind, status, reason, at)
            SELECT id, 1, text, kind, status, 'created', 0 FROM memories WHERE created_at = 0"
    );
    fixture.database().execute_batch(&fill).unwrap();
    let rest = MAX_CHANGES_PER_EXTRACTION - MAX_EXPIRED_PER_EXTRACTION;
    for expired in [MAX_EXPIRED_PER_EXTRACTION, MAX_EXPIRED_PER_EXTRACTION, rest, 0] {
        let (_, job) = begun(&fixture).await;
        let done =
            fixture.store.extract(&job, MemoryExtraction { limit: Some(0), ..of(vec![]) }).await.unwrap();
        assert_eq!(done.expired.len(), expired);
    }
    assert_eq!(listed(&fixture, &scope("alice")).await, Vec::<String>::new());
}

#[tokio::test]
async fn messages_are_looked_at_once_on_every_branch() {
    let fixture = Fixture::new();
    let her = principal("alice");
    let (submitted, log) = fixture.run().await;
    let said = async || -> Vec<(String, MessageId)> {
        let rows = fixture.store.unextracted(submitted.thread, 100).await.unwrap();
        rows.into_iter().map(|row| (row.role.name().to_owned(), row.id)).collect()
    };
    let first = fixture.store.unextracted(submitted.thread, 100).await.unwrap();
    assert_eq!(first.len(), 1);
    assert!(first[0].said.as_ref().unwrap().body.contains("\"hi\""));
    log.record(
        vec![step_end(vec![]), answer(fixture.ids.message()), end(submitted.run, RunStatus::Completed)],
        vec![],
        vec![],
    )
    .await
    .unwrap();
    let branch = fixture.submit(Target::Existing(submitted.thread)).await;
    let rows = fixture.store.unextracted(submitted.thread, 100).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.role.name()).collect::<Vec<_>>(), ["user", "assistant", "user"]);
    assert_eq!((rows[1].steps.len(), rows[0].seq < rows[1].seq), (0, true), "no step called a tool");
    assert_eq!(fixture.store.unextracted(submitted.thread, 2).await.unwrap(), rows[..2]);
    assert_eq!(fixture.store.unextracted(submitted.thread, 0).await.unwrap(), []);
    let job = job_of(&fixture, branch).await;
    let seen = MemoryExtraction { from: rows[0].seq, through: rows[1].seq, ..MemoryExtraction::default() };
    fixture.store.extract(&job, seen.clone()).await.unwrap();
    assert_eq!(said().await, [("user".to_owned(), rows[2].id)]);
    let late = MemoryExtraction { changes: vec![MemoryChange::Create(new(&fixture, "late"))], ..seen };
    let job = job_of(&fixture, branch).await;
    let done = fixture.store.extract(&job, late.clone()).await.unwrap();
    assert_eq!(
        done,
        ExtractedMemories { skipped: 1, ..ExtractedMemories::default() },
        "another was faster with all of them"
    );
    let job = job_of(&fixture, branch).await;
    let half = MemoryExtraction { from: rows[1].seq, through: rows[2].seq, ..late.clone() };
    let some = fixture.store.extract(&job, half).await;
    assert!(matches!(some, Err(Error::Changed(_))), "another was faster with some of them");
    let rest = MemoryExtraction { from: rows[2].seq, through: rows[2].seq, ..late };
    assert_eq!(fixture.store.extract(&job, rest).await.unwrap().created.len(), 1, "the job is still its own");
    assert_eq!(said().await, []);
    fixture.store.delete_thread(&her, submitted.thread, None).await.unwrap();
    assert_eq!(fixture.store.unextracted(submitted.thread, 9).await.unwrap(), []);
}

async fn job_of(fixture: &Fixture, run: SubmittedRun) -> JobRow {
    let id = fixture.ids.job();
    let delay = std::time::Duration::ZERO;
    let job = NewJob { id, kind: "extract", key: id.to_string(), delay };
    fixture.log(run).await.record(vec![step_end(vec![])], vec![job], vec![]).await.unwrap();
    fixture.store.claim().await.unwrap().unwrap()
}

#[tokio::test]
async fn nothing_is_kept_when_memory_is_off_or_the_thread_is_deleted_meanwhile() {
    let fixture = Fixture::new();
    let alice = scope("alice");
    let create =
        || MemoryExtraction { limit: Some(0), ..of(vec![MemoryChange::Create(new(&fixture, "late"))]) };
    let kept = add(&fixture, &alice, "kept").await;
    let (off, job) = begun(&fixture).await;
    fixture.store.set_memory_off(&alice, true, None).await.unwrap();
    let nothing = ExtractedMemories { skipped: 1, ..ExtractedMemories::default() };
    assert_eq!(fixture.store.extract(&job, create()).await.unwrap(), nothing);
    fixture.store.set_memory_off(&alice, false, None).await.unwrap();
    let unseen = fixture.store.unextracted(off.thread, 9).await.unwrap();
    assert_eq!(unseen, [], "what was said meanwhile is not looked at later");
    let (deleted, job) = begun(&fixture).await;
    fixture.store.delete_thread(&principal("alice"), deleted.thread, None).await.unwrap();
    assert_eq!(fixture.store.extract(&job, create()).await.unwrap(), nothing);
    assert_eq!(listed(&fixture, &alice).await, ["kept"]);
    assert_eq!(versions(&fixture, kept.id).await.len(), 1);
    assert_eq!(updates(&fixture, deleted.thread), []);
}

#[tokio::test]
async fn a_job_of_a_scope_changes_memories_without_a_thread() {
    let fixture = Fixture::new();
    let alice = scope("alice");
    let (one, two) = (add(&fixture, &alice, "one").await, add(&fixture, &alice, "two").await);
    let delay = std::time::Duration::ZERO;
    let job = NewJob { id: fixture.ids.job(), kind: "tidy", key: "all".into(), delay };
    fixture.store.schedule_for(&alice, job).await.unwrap();
    let job = fixture.store.claim().await.unwrap().unwrap();
    let tidied =
        MemoryExtraction { changes: vec![merge(&one, &[&two], "both")], ..MemoryExtraction::default() };
    assert_eq!(fixture.store.extract(&job, tidied).await.unwrap().merged, [two.id]);
    assert_eq!(listed(&fixture, &alice).await, ["both"]);
}

#[tokio::test]
async fn a_full_scope_skips_what_is_new_and_still_counts_right() {
    let fixture = Fixture::new();
    let alice = scope("alice");
    let row = add(&fixture, &alice, "one").await;
    let set = |active: usize| format!("UPDATE memory_counts SET active = {active}");
    fixture.database().execute(&set(store::MAX_MEMORIES_PER_SCOPE), []).unwrap();
    let (_, job) = begun(&fixture).await;
    let changes = vec![MemoryChange::Create(new(&fixture, "full")), remove(&row)];
    let done = fixture.store.extract(&job, of(changes)).await.unwrap();
    assert_eq!((done.skipped, done.removed), (1, vec![row.id]));
    fixture.database().execute(&set(0), []).unwrap();
    let her = principal("alice");
    fixture.store.restore_memory(&her, row.id, None).await.unwrap();
    let counted = || -> i64 {
        fixture.database().query_row("SELECT active FROM memory_counts", [], |row| row.get(0)).unwrap()
    };
    assert_eq!(counted(), 1);
    fixture.store.forget_memory(&her, row.id, None).await.unwrap();
    assert_eq!(counted(), 0);
}

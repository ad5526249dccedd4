//! Summaries: told in the log, one of a level for each end, merged once, and gone with their thread.

use protocol::{Event, Ids, MessageId, RunStatus, Summary, SummaryId, ThreadId, Usage};
use store::{Error, JobRow, JobUsage, MAX_TEXT_BYTES, NewJob, PageOf, SummaryRow, Target};

use crate::support::{Fixture, after, answer, end, principal, scope, step_end};

/// A thread of four messages.
struct Talk {
    thread: ThreadId,
    messages: Vec<MessageId>,
}

async fn talk(fixture: &Fixture) -> Talk {
    let thread = fixture.ids.thread();
    let mut messages = Vec::new();
    for target in [Target::New(thread), Target::Existing(thread)] {
        let submitted = fixture.submit(target).await;
        let answered = fixture.ids.message();
        let events = vec![step_end(vec![]), answer(answered), end(submitted.run, RunStatus::Completed)];
        fixture.log(submitted).await.record(events, vec![], vec![]).await.unwrap();
        messages.push(fixture.store.run(&principal("alice"), submitted.run).await.unwrap().message);
        messages.push(answered);
    }
    Talk { thread, messages }
}

/// A job of the thread that has begun.
async fn begun(fixture: &Fixture, thread: ThreadId) -> JobRow {
    let submitted = fixture.submit(Target::Existing(thread)).await;
    let id = fixture.ids.job();
    let job = NewJob { id, kind: "summarise", key: id.to_string(), delay: std::time::Duration::ZERO };
    let ended = end(submitted.run, RunStatus::Completed);
    fixture.log(submitted).await.record(vec![ended], vec![job], vec![]).await.unwrap();
    fixture.store.claim().await.unwrap().unwrap()
}

impl Talk {
    /// A summary of the messages with these numbers.
    fn summary(&self, fixture: &Fixture, level: u32, (from, to): (usize, usize)) -> Summary {
        let id = fixture.ids.summary();
        Summary {
            summary_id: id,
            level,
            after_message_id: from.checked_sub(1).map(|before| self.messages[before]),
            from_message_id: self.messages[from],
            to_message_id: self.messages[to],
            from: from as u64 + 1,
            to: to as u64 + 1,
            messages: u32::try_from(to - from + 1).unwrap(),
            merged: vec![],
            hash: id.uuid().simple().to_string(),
        }
    }

    /// Commits it, with a job of its own.
    async fn add(&self, fixture: &Fixture, summary: &Summary) {
        let job = begun(fixture, self.thread).await;
        let text = format!("to {}", summary.to);
        fixture.store.summarise(&job, Some((summary.clone(), text)), None).await.unwrap();
        assert_eq!(status(fixture, &job).await, "done", "whatever came of it");
    }
}

async fn status(fixture: &Fixture, job: &JobRow) -> String {
    let jobs = fixture.store.jobs(PageOf { after: None, limit: 99 }).await.unwrap().rows;
    jobs.into_iter().find(|row| row.id == job.id).unwrap().status.name().to_owned()
}

async fn ids(fixture: &Fixture, thread: ThreadId, all: bool) -> Vec<SummaryId> {
    fixture.store.summaries(thread, all).await.unwrap().into_iter().map(|row| row.id).collect()
}

fn told(fixture: &Fixture, thread: ThreadId) -> Vec<Summary> {
    let published = fixture.published.of(thread);
    let read = published.iter().filter_map(|event| match Event::read(&event.kind, &event.body) {
        Ok(Event::Summary(summary)) => {
            assert_eq!(event.run, None, "it belongs to no run");
            Some(summary)
        }
        _ => None,
    });
    read.collect()
}

fn count(fixture: &Fixture, table: &str) -> i64 {
    fixture.database().query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn a_summary_is_told_and_reads_back_with_its_text() {
    let fixture = Fixture::new();
    let talk = talk(&fixture).await;
    let job = begun(&fixture, talk.thread).await;
    let before = fixture.store.usage_of_day(&scope("alice"), store::day(after(0))).await.unwrap();
    let summary = talk.summary(&fixture, 0, (1, 2));
    let spent =
        Some(JobUsage { model: "small".into(), usage: Usage { input_tokens: 7, ..Usage::default() } });
    fixture.store.summarise(&job, Some((summary.clone(), "they met".into())), spent).await.unwrap();
    let expected = SummaryRow {
        id: summary.summary_id,
        level: 0,
        after_message: Some(talk.messages[0]),
        from_message: talk.messages[1],
        to_message: talk.messages[2],
        from: 2,
        to: 3,
        messages: 2,
        text: Some("they met".into()),
        merged: false,
        created_at: after(0),
    };
    assert_eq!(fixture.store.summaries(talk.thread, false).await.unwrap(), [expected]);
    assert_eq!(told(&fixture, talk.thread), [summary]);
    let used = fixture.store.usage_of_day(&scope("alice"), store::day(after(0))).await.unwrap();
    assert_eq!(used.input_tokens, before.input_tokens + 7);
    assert_eq!(status(&fixture, &job).await, "done");
    assert_eq!(fixture.store.summaries(fixture.ids.thread(), true).await.unwrap(), []);
}

#[tokio::test]
async fn of_two_that_end_at_the_same_message_the_first_stays() {
    let fixture = Fixture::new();
    let talk = talk(&fixture).await;
    let first = talk.summary(&fixture, 0, (0, 1));
    talk.add(&fixture, &first).await;
    talk.add(&fixture, &talk.summary(&fixture, 0, (1, 1))).await;
    assert_eq!(ids(&fixture, talk.thread, true).await, [first.summary_id]);
    assert_eq!((told(&fixture, talk.thread).len(), count(&fixture, "texts")), (1, 1));
    let other = talk.summary(&fixture, 1, (0, 1));
    talk.add(&fixture, &other).await;
    assert_eq!(ids(&fixture, talk.thread, true).await, [first.summary_id, other.summary_id]);
    let job = begun(&fixture, talk.thread).await;
    fixture.store.summarise(&job, None, None).await.unwrap();
    assert_eq!(status(&fixture, &job).await, "done", "there may be nothing to summarise");
}

#[tokio::test]
async fn merged_ones_give_their_place_to_another_once() {
    let fixture = Fixture::new();
    let talk = talk(&fixture).await;
    let parts: Vec<Summary> = (0..3).map(|number| talk.summary(&fixture, 0, (number, number))).collect();
    for part in parts.iter().rev() {
        talk.add(&fixture, part).await;
    }
    let part = |number: usize| parts[number].summary_id;
    assert_eq!(
        ids(&fixture, talk.thread, false).await,
        [part(0), part(1), part(2)],
        "in the order of the log"
    );
    let merged = Summary { merged: vec![part(0), part(1)], ..talk.summary(&fixture, 1, (0, 1)) };
    talk.add(&fixture, &merged).await;
    assert_eq!(ids(&fixture, talk.thread, false).await, [merged.summary_id, part(2)]);
    assert_eq!(ids(&fixture, talk.thread, true).await, [part(0), part(1), merged.summary_id, part(2)]);
    let rows = fixture.store.summaries(talk.thread, true).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.merged).collect::<Vec<_>>(), [true, true, false, false]);
    assert!(rows.iter().all(|row| row.text.is_some()));
    for late in [vec![part(1), part(2)], vec![part(2), fixture.ids.summary()]] {
        let late = Summary { merged: late, ..talk.summary(&fixture, 1, (1, 2)) };
        talk.add(&fixture, &late).await;
        assert_eq!(ids(&fixture, talk.thread, false).await, [merged.summary_id, part(2)]);
    }
    let database = fixture.database();
    let again = database.execute("UPDATE summaries SET merged_into = id", []).unwrap_err();
    assert!(again.to_string().contains("S1: a summary is merged once"));
}

#[tokio::test]
async fn nothing_is_added_to_a_deleted_thread_and_its_summaries_go_with_it() {
    let fixture = Fixture::new();
    let (gone, kept) = (talk(&fixture).await, talk(&fixture).await);
    let part = gone.summary(&fixture, 0, (0, 1));
    gone.add(&fixture, &part).await;
    let merged = Summary { merged: vec![part.summary_id], ..gone.summary(&fixture, 1, (0, 1)) };
    gone.add(&fixture, &merged).await;
    kept.add(&fixture, &kept.summary(&fixture, 0, (0, 3))).await;
    let job = begun(&fixture, gone.thread).await;
    fixture.store.delete_thread(&principal("alice"), gone.thread, None).await.unwrap();
    assert!(ids(&fixture, gone.thread, true).await.is_empty());
    let late = Some((gone.summary(&fixture, 0, (2, 3)), "late".to_owned()));
    fixture.store.summarise(&job, late, None).await.unwrap();
    assert_eq!((status(&fixture, &job).await.as_str(), count(&fixture, "summaries")), ("done", 3));
    while fixture.store.purge(after(0), after(0)).await.unwrap() {}
    assert_eq!((count(&fixture, "summaries"), count(&fixture, "texts")), (1, 1));
    assert_eq!(ids(&fixture, kept.thread, false).await.len(), 1);
}

#[tokio::test]
async fn what_is_not_the_owners_or_not_as_it_must_be_changes_nothing() {
    let fixture = Fixture::new();
    let talk = talk(&fixture).await;
    let job = begun(&fixture, talk.thread).await;
    let good = talk.summary(&fixture, 0, (0, 1));
    let stale = JobRow { epoch: job.epoch - 1, ..job.clone() };
    let refused = fixture.store.summarise(&stale, Some((good.clone(), "x".into())), None).await;
    assert!(matches!(refused, Err(Error::Fenced)));
    for hash in ["", "xyz", &"g".repeat(32), &"a".repeat(33)] {
        let nameless = Summary { hash: hash.into(), ..good.clone() };
        let refused = fixture.store.summarise(&job, Some((nameless, "x".into())), None).await;
        assert!(matches!(refused, Err(Error::Changed(_))), "{hash:?}");
    }
    let long = "x".repeat(MAX_TEXT_BYTES + 1);
    let refused = fixture.store.summarise(&job, Some((good.clone(), long)), None).await;
    assert!(matches!(refused, Err(Error::Changed(_))));
    let foreign = Summary { to_message_id: fixture.ids.message(), ..good.clone() };
    let refused = fixture.store.summarise(&job, Some((foreign, "x".into())), None).await;
    assert!(matches!(refused, Err(Error::Sql(_) | Error::Postgres(_))), "it covers messages of its thread");
    assert_eq!((count(&fixture, "summaries"), count(&fixture, "texts")), (0, 0));
    assert_eq!(status(&fixture, &job).await, "running");
    fixture.store.summarise(&job, Some((good, "x".repeat(MAX_TEXT_BYTES))), None).await.unwrap();
    assert_eq!(count(&fixture, "summaries"), 1);
}

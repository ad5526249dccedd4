//! A store in a folder of its own, and the shortest way to a run in it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use jiff::{SignedDuration, Timestamp};
use protocol::{
    AppId, Call, CallId, Clock, Delta, Effect, Event, Finish, Ids, MessageId, OnBusy, Principal, RunEnd,
    RunId, RunStatus, Scope, Settings, StepEnd, StepReset, Stored, StreamComplete, ThreadId, ToolComplete,
    ToolStart, ToolStatus, Usage, UserId, UserLimits,
};
use rusqlite::Connection;
use serde_json::json;
use store::{
    Error, IdempotencyClaim, Publish, RunInput, RunLog, RunRequest, Store, StoreOptions, Submission,
    SubmittedRun, Target,
};
use tempfile::TempDir;
use testkit::database::open_store;
use testkit::still::{CountingIds, StandingClock};

/// Everything that was published.
#[derive(Default)]
pub(crate) struct Published {
    /// In order.
    events: Mutex<Vec<Arc<Stored>>>,
    has_work: AtomicBool,
}

impl Publish for Published {
    fn publish(&self, events: &[Arc<Stored>]) {
        self.events.lock().unwrap().extend_from_slice(events);
    }

    fn publish_work(&self) {
        self.has_work.store(true, Ordering::Release);
    }
}

impl Published {
    pub(crate) fn all(&self) -> Vec<Arc<Stored>> {
        self.events.lock().unwrap().clone()
    }

    /// Whether there was new work since this was asked last.
    pub(crate) fn takes_work(&self) -> bool {
        self.has_work.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn of(&self, thread: ThreadId) -> Vec<Arc<Stored>> {
        self.events.lock().unwrap().iter().filter(|event| event.thread == thread).cloned().collect()
    }
}

pub(crate) struct Fixture {
    pub(crate) store: Store,
    pub(crate) published: Arc<Published>,
    pub(crate) ids: CountingIds,
    pub(crate) folder: TempDir,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::by(Arc::new(StandingClock))
    }

    pub(crate) fn by(clock: Arc<dyn Clock>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let published = Arc::new(Published::default());
        let store = open_store(folder.path(), clock, published.clone(), StoreOptions::default()).unwrap();
        Self { store, published, ids: CountingIds::default(), folder }
    }

    /// A connection beside the store's own, with foreign keys on as there.
    pub(crate) fn database(&self) -> Connection {
        let conn = Connection::open(self.folder.path().join("rondo.db")).unwrap();
        conn.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
        conn.execute_batch("PRAGMA foreign_keys = ON").unwrap();
        conn
    }

    pub(crate) fn submission(&self, thread: Target) -> Submission {
        Submission {
            scope: scope("alice"),
            thread,
            run: self.ids.run(),
            on_busy: OnBusy::Reject,
            once: None,
            replay_only: false,
            limits: UserLimits::default(),
            request: RunRequest {
                ask: RunInput::Say { id: self.ids.message(), text: "hi".into(), parent: None, parts: vec![] },
                model: Some("m".into()),
                settings: Settings::default(),
                system_prompt: None,
                persona: None,
                documents: None,
                app_revision: "r".into(),
                echo: None,
                actor: None,
                tools: vec![],
                client_tools: vec![],
                answer_schema: None,
                earlier: vec![],
                jobs: vec![],
            },
        }
    }

    pub(crate) async fn submit(&self, thread: Target) -> SubmittedRun {
        self.store.submit(self.submission(thread)).await.unwrap().0
    }

    /// A run under way in a thread of its own.
    pub(crate) async fn run(&self) -> (SubmittedRun, RunLog) {
        let submitted = self.submit(Target::New(self.ids.thread())).await;
        (submitted, self.log(submitted).await)
    }

    pub(crate) async fn log(&self, submitted: SubmittedRun) -> RunLog {
        self.store.log(&self.store.run(&principal("alice"), submitted.run).await.unwrap())
    }
}

/// A folder for what is looked at once, where syncs cost nothing if there is such a place.
pub(crate) fn in_memory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

pub(crate) fn open(folder: &Path, published: Arc<Published>) -> Result<Store, Error> {
    open_store(folder, Arc::new(StandingClock), published, StoreOptions::default())
}

pub(crate) fn scope(user: &str) -> Scope {
    principal(user).scope(AppId::new("app"))
}

pub(crate) fn principal(user: &str) -> Principal {
    Principal::authenticated(UserId::new(user))
}

pub(crate) fn text(delta: &str) -> Delta {
    Delta::Text { step: 1, delta: delta.into() }
}

pub(crate) fn call(id: CallId) -> Call {
    Call { id, name: "echo".into(), input: json!({}), raw: None, provider_id: None }
}

pub(crate) fn step_end(calls: Vec<Call>) -> Event {
    Event::StepEnd(StepEnd {
        step: 1,
        text: "so".into(),
        reasoning: None,
        calls,
        usage: Usage { input_tokens: 3, output_tokens: 4, ..Usage::default() },
        finish: Finish::Stop,
        error: None,
        model: None,
        dropped: vec![],
        provider: None,
        fallback: None,
        structured: None,
        prompt: None,
    })
}

pub(crate) fn result(call_id: CallId, output: &str) -> Event {
    let status = ToolStatus::Complete;
    Event::ToolComplete(ToolComplete {
        call_id,
        name: "echo".into(),
        status,
        output: json!(output),
        duration_ms: 1,
        outside: false,
        suspicious: false,
        by: None,
    })
}

pub(crate) fn start(call_id: CallId, name: &str, effect: Effect) -> Event {
    let input = json!({ "n": 1 });
    Event::ToolStart(ToolStart { call_id, name: name.into(), input, effect, marker: None })
}

/// A clock that a test can set forward, in seconds after the standing one.
#[derive(Default)]
pub(crate) struct Forward(AtomicI64);

impl Forward {
    pub(crate) fn to(&self, seconds: i64) {
        self.0.store(seconds, Ordering::Relaxed);
    }
}

impl Clock for Forward {
    fn now(&self) -> Timestamp {
        after(self.0.load(Ordering::Relaxed))
    }
}

/// The moment of the standing clock, and `seconds` after it.
pub(crate) fn after(seconds: i64) -> Timestamp {
    StandingClock.now().checked_add(SignedDuration::from_secs(seconds)).unwrap()
}

pub(crate) fn once(key: &str, asked: u8) -> Option<IdempotencyClaim> {
    Some(IdempotencyClaim { key: key.into(), fingerprint: [asked; 32] })
}

pub(crate) fn answer(message_id: MessageId) -> Event {
    let usage = Usage::default();
    Event::StreamComplete(StreamComplete {
        message_id,
        text: "so".into(),
        memories_referenced: vec![],
        data: None,
        usage,
    })
}

/// A step that starts again.
pub(crate) fn reset(step: u32, usage: Option<Usage>) -> Event {
    Event::StepReset(StepReset { step, reason: "cut".into(), model: None, usage })
}

pub(crate) fn end(run_id: RunId, status: RunStatus) -> Event {
    Event::RunEnd(RunEnd { run_id, status, error: None, message_id: None })
}

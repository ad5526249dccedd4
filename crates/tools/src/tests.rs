//! For tests: a real store, an app with two types of records, and calls that are committed as a run commits them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ::memory::recall::Recall;
use app::App;
use jiff::tz::TimeZone;
use protocol::{
    AppId, Call, Clock, Event, Finish, Ids, OnBusy, Scope, Settings, StepEnd, Stored, SystemClock,
    TimeOrderedIds, ToolComplete, ToolStart, ToolStatus, Usage, UserId,
};
use serde_json::Value;
use store::{Publish, RunInput, RunRequest, Store, StoreOptions, Submission, Target};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::{CallOutcome, Calling, Catalog, Failed, Taint, ToolRegistry, Vault};

const PART: &str = r#"{"type": "object", "title": "part", "description": "an inner part", "additionalProperties": false,
    "required": ["name", "status"], "properties": {
        "name": {"type": "string", "minLength": 1},
        "status": {"type": "string", "enum": ["emerging", "active"]},
        "role": {"type": "string"}, "source": {"type": "string"}, "age": {"type": "integer"},
        "known": {"type": "boolean"}, "friend": {"type": "string", "format": "record:part"},
        "evidence": {"type": "array", "items": {"type": "string", "format": "record:evidence"}}}}"#;
const EVIDENCE: &str = r#"{"type": "object", "additionalProperties": false, "required": ["content"], "properties": {
    "content": {"type": "string"}, "partId": {"type": "string", "format": "record:part"}}}"#;

/// A vault in which everybody has the credential `given` and no other.
pub(crate) struct OneCredential;

#[async_trait::async_trait]
impl Vault for OneCredential {
    async fn credential(&self, scope: &Scope, name: &str) -> Result<Option<String>, Failed> {
        Ok((name == "given").then(|| format!("credential-of-{}", scope.user)))
    }
}

/// The tools of the app that most tests use.
pub(crate) const TOML: &str = r#"
tools = ["calculate", "documents", "markdown", "memory", "proposals", "undo"]
[tool.searchParts]
record = "part"
does = "search"
limit = 3
[tool.getPart]
record = "part"
does = "get"
[tool.createPart]
record = "part"
does = "create"
defaults = { status = "emerging" }
fixed = { source = "agent" }
[tool.createEmergingPart]
record = "part"
does = "create"
requires = { evidence = 3 }
confirm = true
defaults = { status = "emerging" }
fields = ["name", "role"]
[tool.updatePart]
record = "part"
does = "update"
fixed = { source = "agent" }
[tool.listParts]
record = "part"
does = "list"
[tool.deletePart]
record = "part"
does = "delete"
[tool.addEvidence]
record = "evidence"
does = "create"
"#;

struct Nobody;

impl Publish for Nobody {
    fn publish(&self, _: &[Arc<Stored>]) {}
}

pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) recall: Arc<Recall>,
    pub(crate) scope: Scope,
    pub(crate) ids: Arc<dyn Ids>,
    registry: ToolRegistry,
    pub(crate) vault: Arc<dyn Vault>,
    stop: CancellationToken,
    _folder: TempDir,
}

/// An app folder with the two types of records.
pub(crate) fn app(toml: &str) -> (TempDir, App) {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("demo");
    std::fs::create_dir_all(dir.join("records")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.join(name), text).unwrap();
    write("app.toml", toml);
    write("instructions.md", "Help.");
    write("records/part.json", PART);
    write("records/evidence.json", EVIDENCE);
    let app = app::load(&dir).unwrap();
    (folder, app)
}

pub(crate) fn catalog() -> Catalog {
    Catalog::builtin(Arc::new(SystemClock))
}

fn store(folder: &Path) -> Store {
    Store::open_sqlite(&folder.join("data"), Arc::new(SystemClock), Arc::new(Nobody), StoreOptions::default())
        .unwrap()
}

impl World {
    pub(crate) fn new() -> Self {
        let (folder, app) = app(TOML);
        let store = store(folder.path());
        Self {
            recall: Arc::new(Recall::new(store.clone(), None)),
            store,
            scope: Scope { app: AppId::new("demo"), user: UserId::new("alice") },
            ids: Arc::new(TimeOrderedIds),
            registry: catalog().registry(&app, &[]).unwrap(),
            vault: Arc::new(OneCredential),
            stop: CancellationToken::new(),
            _folder: folder,
        }
    }

    /// Continues with this store as another user.
    pub(crate) fn become_user(&mut self, user: &str) {
        self.scope = Scope { user: UserId::new(user), ..self.scope.clone() };
    }

    pub(crate) fn calling(&self, input: Value) -> Calling<'_> {
        Calling {
            id: self.ids.call(),
            input,
            scope: &self.scope,
            thread: None,
            run: None,
            store: &self.store,
            vault: &self.vault,
            recall: &self.recall,
            ids: &self.ids,
            now: SystemClock.now(),
            zone: TimeZone::UTC,
            stop: &self.stop,
        }
    }

    /// Returns the outcome of a call, with nothing committed.
    pub(crate) async fn attempt(&self, name: &str, calling: Calling<'_>) -> CallOutcome {
        let tool = match self.registry.find(name) {
            Ok(tool) => tool,
            Err(failed) => return failed.into(),
        };
        match tool.prepare(&calling, &Taint::new()).await {
            Ok(prepared) => prepared.run(calling, Duration::from_secs(10)).await,
            Err(failed) => failed.into(),
        }
    }

    /// The output of a call that must succeed and is committed by a run of its own.
    pub(crate) async fn call(&self, name: &str, input: Value) -> Value {
        let calling = self.calling(input.clone());
        let id = calling.id;
        let outcome = self.attempt(name, calling).await;
        assert_eq!(outcome.status, ToolStatus::Complete, "{name}: {}", outcome.output);
        let submission = Submission {
            scope: self.scope.clone(),
            thread: Target::New(self.ids.thread()),
            run: self.ids.run(),
            on_busy: OnBusy::Reject,
            once: None,
            replay_only: false,
            limits: protocol::UserLimits::default(),
            request: RunRequest {
                ask: RunInput::Say { id: self.ids.message(), text: "hi".into(), parent: None, parts: vec![] },
                model: None,
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
        };
        let submitted = self.store.submit(submission).await.unwrap();
        let principal = protocol::Principal::authenticated(self.scope.user.clone());
        let log = self.store.log(&self.store.run(&principal, submitted.0.run).await.unwrap());
        let effect = self.registry.get(name).unwrap().facts().effect;
        let call = Call { id, name: name.into(), input: input.clone(), raw: None, provider_id: None };
        let start = ToolStart { call_id: id, name: name.into(), input, effect, marker: None };
        log.record(vec![step(call), Event::ToolStart(start)], vec![], vec![]).await.unwrap();
        let result = ToolComplete {
            call_id: id,
            name: name.into(),
            status: outcome.status,
            output: outcome.output.clone(),
            duration_ms: 1,
            outside: false,
            suspicious: false,
            by: None,
        };
        log.record(vec![Event::ToolComplete(result)], vec![], outcome.writes).await.unwrap();
        outcome.output
    }

    /// The error and the message of a call that must fail, and so changes nothing.
    pub(crate) async fn refused(&self, name: &str, input: Value) -> (String, String) {
        let outcome = self.attempt(name, self.calling(input)).await;
        assert_eq!((outcome.status, outcome.writes), (ToolStatus::Failed, vec![]), "{}", outcome.output);
        let said = |key: &str| outcome.output[key].as_str().unwrap_or_default().to_owned();
        (said("error"), said("message"))
    }
}

fn step(call: Call) -> Event {
    Event::StepEnd(StepEnd {
        step: 1,
        text: String::new(),
        reasoning: None,
        calls: vec![call],
        usage: Usage::default(),
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

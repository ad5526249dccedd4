//! An app, once its folder has been read without a problem.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use protocol::{AppId, Cost, Effect, Settings, UserLimits, WebhookEvent};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::source::bounds;
use crate::words::word_enum;
use crate::{
    AppMcpServer, AppMcpTransport, Classifier, ContextRules, FailureReplies, FlowRule, HistoryRules,
    HttpTool, ImageRules, KnowledgeRules, Persona, Plausible, Ranges, RecordType, SandboxTool, Section,
    TargetRange, ToolRef, external_tools, failure,
};

/// An agent as its folder defines it. Never changed: an edited folder is another `App` with another revision.
#[derive(Debug, Clone, PartialEq)]
pub struct App {
    /// The folder's name.
    pub id: AppId,
    /// The folder that it was read from.
    pub folder: PathBuf,
    pub name: String,
    pub description: String,
    /// First messages that a front end can offer.
    pub starters: Vec<String>,
    /// Names the content of the folder: equal content, equal revision.
    pub revision: String,
    /// The time zone of its users, unless they say otherwise.
    pub zone: TimeZone,
    /// The server's default model when absent.
    pub model: Option<String>,
    /// Asked in this order when the model before them fails.
    pub fallbacks: Vec<String>,
    /// Further models that a request, a persona or a thread may choose; [`ANY_MODEL`] alone stands for all.
    pub models: Vec<String>,
    pub settings: Settings,
    pub ranges: Ranges,
    pub answer: AnswerForm,
    pub memory: MemoryRules,
    pub budget: AppBudget,
    /// The system prompt. Never empty.
    pub instructions: String,
    /// How the model is told to name a thread; without it, the title of a thread is its first words.
    pub title: Option<String>,
    pub limits: LoopLimits,
    /// Limits of one user over time.
    pub user_limits: UserLimits,
    pub history: HistoryRules,
    pub images: ImageRules,
    pub context: ContextRules,
    pub knowledge: KnowledgeRules,
    /// By id.
    pub personas: BTreeMap<String, Persona>,
    /// By the names of their files.
    pub sections: Vec<Section>,
    /// Target ranges of readings; the first that fits counts.
    pub targets: Vec<TargetRange>,
    /// Weights learned from examples, to choose among the sections.
    pub classifier: Option<Arc<Classifier>>,
    /// By name.
    pub records: BTreeMap<String, RecordType>,
    /// Each name once, in the order they are offered to the model. Whether a tool or a family of that name exists is
    /// for the registry to say, through [`ToolRef::problem`].
    pub tools: Vec<ToolRef>,
    /// Offered after `tools`, in the order of the files.
    pub declared: Vec<DeclaredTool>,
    /// Changes that the app makes to tools it lists, and to tools of its MCP servers.
    pub adjusted: Vec<AdjustedTool>,
    /// In the order of the files.
    pub mcp: Vec<AppMcpServer>,
    /// Addresses that are told of events.
    pub webhooks: Vec<Webhook>,
}

/// An address that is told of events of an app.
#[derive(Debug, Clone, PartialEq)]
pub struct Webhook {
    /// Tells it from the app's others, and says where it stands.
    pub name: ToolRef,
    pub url: String,
    /// Each once, and at least one.
    pub events: Vec<WebhookEvent>,
    /// The name of the operator's secret that messages are signed with.
    pub secret: String,
}

/// In `models` it allows every model.
pub const ANY_MODEL: &str = "*";

impl App {
    /// Returns this app as if it had been read from another folder that has its files.
    pub fn moved_to(mut self, folder: &Path) -> Self {
        let old = std::mem::replace(&mut self.folder, folder.into());
        for server in &mut self.mcp {
            let cwd = match &mut server.transport {
                AppMcpTransport::Stdio { cwd, .. } => cwd.as_mut(),
                AppMcpTransport::Http { .. } => None,
            };
            for path in cwd.into_iter().chain([&mut server.name.file]) {
                if let Ok(inside) = path.strip_prefix(&old) {
                    *path = folder.join(inside);
                }
            }
        }
        self
    }

    /// The models that a request, a persona or a thread may choose: its own and its fallbacks, then those it lists.
    /// `default` is the server's model, for an app that names none. [`ANY_MODEL`] alone when all are allowed.
    pub fn choosable_models<'a>(&'a self, default: Option<&'a str>) -> Vec<&'a str> {
        if self.models.iter().any(|name| name == ANY_MODEL) {
            return vec![ANY_MODEL];
        }
        let own = self.model.as_deref().or(default);
        let others = self.fallbacks.iter().chain(&self.models).map(String::as_str);
        let mut names: Vec<&str> = Vec::new();
        for name in own.into_iter().chain(others) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The server that a tool of this name would be one of.
    pub fn server_of(&self, tool: &str) -> Option<&AppMcpServer> {
        external_tools::server_of(&self.mcp, tool)
    }

    /// The operator's secrets that its tools, servers and webhooks name, each with the first place that does.
    pub fn secrets(&self) -> BTreeMap<&str, &ToolRef> {
        let of_tools = self.declared.iter().flat_map(|declared| {
            let names = match &declared.kind {
                ToolKind::Http(tool) => tool.secrets(),
                ToolKind::Record(_) | ToolKind::Sandbox(_) | ToolKind::Client(_) => BTreeSet::new(),
            };
            names.into_iter().map(|name| (name, &declared.tool))
        });
        let of_servers =
            self.mcp.iter().flat_map(|server| server.secrets().into_iter().map(|name| (name, &server.name)));
        let mut first = BTreeMap::new();
        let of_webhooks = self.webhooks.iter().map(|webhook| (webhook.secret.as_str(), &webhook.name));
        for (name, place) in of_tools.chain(of_servers).chain(of_webhooks) {
            first.entry(name).or_insert(place);
        }
        first
    }

    /// Whether a request, a persona or a thread may choose this model.
    pub fn allows_model(&self, name: &str, default: Option<&str>) -> bool {
        self.choosable_models(default).iter().any(|allowed| *allowed == ANY_MODEL || *allowed == name)
    }
}

word_enum! {
    /// The action of a declared tool on records.
    pub enum RecordAction {
        Search = "search",
        Get = "get",
        Create = "create",
        Update = "update",
        List = "list",
        Delete = "delete",
    }
}

impl RecordAction {
    pub(crate) fn choices() -> String {
        Self::ALL.map(|does| format!("{:?}", does.name())).join(" or ")
    }
}

/// Whether a call needs an approval of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    Allow,
    Ask,
    Deny,
}

/// A tool that an app declares.
#[derive(Debug, Clone, PartialEq)]
pub struct DeclaredTool {
    pub tool: ToolRef,
    /// Absent at most for tools over records.
    pub description: Option<String>,
    pub permission: Option<Permission>,
    pub flows: Vec<FlowRule>,
    /// Where there is any, a call that fits none of these needs an approval.
    pub plausible: Vec<Plausible>,
    pub kind: ToolKind,
}

/// The kind of a declared tool, with its parts.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolKind {
    Record(DeclaredRecordTool),
    Http(Box<HttpTool>),
    Sandbox(SandboxTool),
    Client(DeclaredClientTool),
}

/// A tool whose calls the client makes.
#[derive(Debug, Clone, PartialEq)]
pub struct DeclaredClientTool {
    /// The effect of a call, as the app declares it; the server cannot know.
    pub effect: Effect,
    /// A JSON Schema of the arguments.
    pub parameters: Value,
}

/// A tool over one type of records.
#[derive(Debug, Clone, PartialEq)]
pub struct DeclaredRecordTool {
    /// One of the app's record types.
    pub record: String,
    pub does: RecordAction,
    /// How many distinct records of these types must exist and be named in the call.
    pub requires: BTreeMap<String, usize>,
    /// Set when the model does not.
    pub defaults: Map<String, Value>,
    /// Always set; the model cannot give them.
    pub fixed: Map<String, Value>,
    /// Fields that the model may give; all fields when absent.
    pub fields: Option<BTreeSet<String>>,
    /// Results at most.
    pub limit: usize,
}

/// Changes that an app makes to a tool that it does not declare.
#[derive(Debug, Clone, PartialEq)]
pub struct AdjustedTool {
    pub tool: ToolRef,
    pub description: Option<String>,
    pub permission: Option<Permission>,
    /// Only for tools of MCP servers.
    pub effect: Option<Effect>,
    pub flows: Vec<FlowRule>,
    /// Where there is any, a call that fits none of these needs an approval.
    pub plausible: Vec<Plausible>,
    /// Shown in the answer while a call is made.
    pub marker: Option<String>,
}

const MAX_STEPS: i64 = 200;
const MAX_PARALLEL_TOOLS: i64 = 32;
const MAX_TOOL_TIMEOUT_SECONDS: i64 = 600;
const MAX_RUN_TIMEOUT_SECONDS: i64 = 24 * 60 * 60;

/// `[loop]`: the bounds of one run.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoopLimits {
    /// Model calls before the run must end.
    #[serde(deserialize_with = "bounds::whole_number::<1, MAX_STEPS, _, _>")]
    pub max_steps: u32,
    pub at_limit: AtLimit,
    /// The text that the user reads under [`AtLimit::Reply`].
    #[serde(deserialize_with = "bounds::text")]
    pub limit_reply: String,
    /// The text that the user reads when every model has failed; without it the run fails.
    #[serde(deserialize_with = "failure::text_or_table")]
    pub failure_reply: FailureReplies,
    /// Calls of one step that are under way at once.
    #[serde(deserialize_with = "bounds::whole_number::<1, MAX_PARALLEL_TOOLS, _, _>")]
    pub max_parallel_tools: usize,
    #[serde(rename = "tool_timeout_seconds")]
    #[serde(deserialize_with = "bounds::whole_number::<1, MAX_TOOL_TIMEOUT_SECONDS, _, _>")]
    pub tool_timeout: Duration,
    #[serde(rename = "run_timeout_seconds")]
    #[serde(deserialize_with = "bounds::whole_number::<1, MAX_RUN_TIMEOUT_SECONDS, _, _>")]
    pub run_timeout: Duration,
}

impl Default for LoopLimits {
    fn default() -> Self {
        Self {
            max_steps: 10,
            at_limit: AtLimit::Answer,
            limit_reply: "I could not finish this. Please ask again, perhaps for a smaller part of it."
                .into(),
            failure_reply: FailureReplies::default(),
            max_parallel_tools: 8,
            tool_timeout: Duration::from_secs(60),
            run_timeout: Duration::from_secs(15 * 60),
        }
    }
}

/// How a run ends when its steps are used up. Either way there is an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtLimit {
    /// The model is called once more, without tools, and answers from what it has.
    Answer,
    /// The app's fixed sentence is the answer.
    Reply,
}

/// The form of an answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum AnswerForm {
    #[default]
    Text,
    /// A text with the memories it refers to.
    Structured,
    /// An object of the app's own; where it has a text called `response`, that is what streams.
    Schema { name: String, schema: Value },
}

/// `[memory]`: which memories of the user are in a prompt, and which are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryRules {
    pub inject: Inject,
    /// Memories in a prompt at most.
    pub limit: usize,
    /// Whether "remember that …" keeps what it says without asking a model.
    pub remember: bool,
    /// Whether "forget that …" is asked about and carried out without a model.
    pub forget: bool,
    /// Beginnings of words that speak of danger. A message with such a word always reaches the model.
    pub danger_words: Vec<String>,
    /// Whether earlier conversations are recalled too.
    pub history: bool,
    /// Messages of them in a prompt at most, beside the memories.
    pub history_limit: usize,
    /// Tokens that what is recalled may take.
    pub recall_tokens: usize,
    /// Active ones that may stay after an extraction; those of the lowest score expire.
    pub keep: Option<usize>,
    /// Whether `keep` counts for each subject by itself: what a memory's kind says before a slash.
    pub keep_per_subject: bool,
    /// Kinds of memories that are only kept if the user has approved that.
    pub consent: Vec<String>,
    /// Kinds of memories that name a day, and are brought up when it has come.
    pub follow_up: Vec<String>,
    /// Kinds of memories that are marked as due when they were not used for a while.
    pub review: Vec<String>,
    /// Types of records that a snapshot shows.
    pub snapshot: Vec<String>,
    /// Files of the user that a snapshot shows.
    pub snapshot_files: Vec<String>,
    /// Whether and how a model looks for memories in what the user says.
    pub extraction: Option<ExtractionRules>,
}

impl MemoryRules {
    /// How many are recalled for a message when the app does not say.
    pub const TOP: usize = 5;

    /// Whether memories play any part in this app.
    pub fn is_used(&self) -> bool {
        self.inject != Inject::None || self.remember || self.history || self.extraction.is_some()
    }

    /// Whether a text has a word that begins with one of `danger_words`.
    pub fn speaks_of_danger(&self, text: &str) -> bool {
        let text = text.to_lowercase().replace('\u{2019}', "'");
        let begins_word =
            |at: usize| text.get(..at).is_some_and(|before| !before.ends_with(char::is_alphanumeric));
        let is_in_text = |word: &String| text.match_indices(word.as_str()).any(|(at, _)| begins_word(at));
        self.danger_words.iter().any(is_in_text)
    }
}

impl Default for MemoryRules {
    fn default() -> Self {
        Self {
            inject: Inject::None,
            limit: 50,
            remember: false,
            forget: false,
            danger_words: Vec::new(),
            history: false,
            history_limit: Self::TOP,
            recall_tokens: 1_000,
            keep: None,
            keep_per_subject: false,
            consent: Vec::new(),
            follow_up: Vec::new(),
            review: Vec::new(),
            snapshot: Vec::new(),
            snapshot_files: Vec::new(),
            extraction: None,
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Inject {
    #[default]
    None,
    /// All of them, the newest up to the limit.
    All,
    /// Memories that matter most for the message.
    Top,
    /// Memories at the start of a thread, unchanged for as long as the thread goes on.
    Snapshot,
}

/// How a model looks for memories in what the user says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtractionRules {
    /// A prompt that says which facts are worth remembering; a default when absent.
    pub prompt: Option<String>,
    /// The app's model when absent.
    pub model: Option<String>,
    /// Types of records it is shown for understanding.
    pub records: Vec<String>,
    /// How long it waits for more to be said, so that one call does for several messages.
    pub delay: Duration,
}

impl Default for ExtractionRules {
    fn default() -> Self {
        Self { prompt: None, model: None, records: Vec::new(), delay: Duration::from_secs(2) }
    }
}

/// `[budget]`: tokens and dollars that may be spent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AppBudget {
    pub run_tokens: Option<u64>,
    pub run_cost: Option<Cost>,
    /// Of one user in one day (UTC).
    pub day_tokens: Option<u64>,
    pub day_cost: Option<Cost>,
    /// The line of `app.toml` that says how many dollars, if one does.
    pub dollars_line: Option<usize>,
}

impl AppBudget {
    /// Whether any of it is in dollars, so that every model must have a price.
    pub fn is_in_dollars(&self) -> bool {
        self.run_cost.is_some() || self.day_cost.is_some()
    }
}

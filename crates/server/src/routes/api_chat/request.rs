//! The request that `useChat` sends, and the question in it. Front ends add fields of their own, so unknown ones are ignored.

use std::collections::BTreeMap;

use axum::http::Uri;
use protocol::{
    CallId, ClientTool, DocumentId, ImageId, MessageId, NewCallResult, NewPart, OnBusy, Principal, RunId,
    ThreadId,
};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use utoipa::ToSchema;

use crate::Api;
use crate::error::ApiProblem;
use crate::routes::waiting_run::{Approval, GivenAnswers, MAX_APPROVALS, MAX_RESULTS};

/// Characters of a chat's id.
const MAX_ID_CHARS: usize = 255;

const DATA: &str = "data:";

/// The path below which images are found here.
const IMAGES: &str = "/v1/images/";

/// The name of a document that comes without one.
const UNNAMED_DOCUMENT: &str = "document";

/// Told to a client whose file is elsewhere.
const OTHER_ADDRESS: &str = "the url of a file must be a data URL, or the address of an image of this server \
    (/v1/images/{image}); the server fetches no other address";

/// A request of a chat.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::routes) struct NewChat {
    /// The chat as the client names it, or the id of a thread.
    pub(super) id: String,
    /// The messages of the chat. Only the last one counts.
    #[serde(default)]
    messages: Vec<UiMessage>,
    /// The last message alone, for clients that send no more.
    message: Option<UiMessage>,
    #[serde(default)]
    trigger: ChatTrigger,
    /// The answer to regenerate, or the message that the new one replaces.
    message_id: Option<String>,
    /// The app's name; `server.chat_app` when absent, or else the only app.
    pub(super) app: Option<String>,
    pub(super) model: Option<String>,
    pub(super) persona_id: Option<String>,
    pub(super) document_ids: Option<Vec<DocumentId>>,
    /// Tools that the client runs: a list, or an object with their names as keys.
    #[serde(default)]
    tools: ChatTools,
    #[serde(default)]
    pub(super) on_busy: OnBusy,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum ChatTrigger {
    #[default]
    SubmitMessage,
    RegenerateMessage,
}

/// Tools as front ends of the AI SDK name them.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged, expecting = "expected a list of {name, description, parameters}, or an object by name")]
enum ChatTools {
    Listed(Vec<ClientTool>),
    Named(BTreeMap<String, NamedTool>),
}

#[derive(Debug, Deserialize, ToSchema)]
struct NamedTool {
    description: Option<String>,
    parameters: Option<Value>,
}

impl Default for ChatTools {
    fn default() -> Self {
        Self::Listed(Vec::new())
    }
}

/// A message as the client has it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct UiMessage {
    id: Option<String>,
    role: UiRole,
    #[serde(default)]
    parts: Vec<UiPart>,
    /// The whole text, for clients that know no parts.
    content: Option<String>,
    /// The metadata as the stream of the answer had it.
    metadata: Option<Metadata>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum UiRole {
    System,
    User,
    Assistant,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct UiPart {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    /// The content type of a file.
    media_type: Option<String>,
    filename: Option<String>,
    /// A file as a data URL, or the address of an image here.
    url: Option<String>,
    state: Option<String>,
    approval: Option<UiApproval>,
    tool_call_id: Option<String>,
    /// Whether the server has made the call.
    provider_executed: Option<bool>,
    #[serde(default, deserialize_with = "read_output")]
    output: Option<Value>,
    error_text: Option<String>,
}

/// Tells an output that is null from none.
fn read_output<'de, D: Deserializer<'de>>(output: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(output).map(Some)
}

#[derive(Debug, Deserialize, ToSchema)]
struct UiApproval {
    id: String,
    approved: Option<bool>,
}

/// Metadata of a message. Front ends can add fields of their own, which are ignored.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    thread_id: Option<String>,
    answer_id: Option<String>,
}

/// The question of a request.
#[derive(Debug)]
pub(super) enum ChatAsk {
    Say {
        text: String,
        parts: Vec<NewPart>,
        parent: Option<MessageId>,
    },
    /// Answer again: this message, or the last.
    Again(Option<AnswerId>),
    GoOn(GivenAnswers),
}

/// An answer by its id.
#[derive(Debug, Clone, Copy)]
pub(super) enum AnswerId {
    Run(RunId),
    Message(MessageId),
}

impl AnswerId {
    fn parse(id: &str) -> Option<Self> {
        id.parse().map(Self::Run).ok().or_else(|| id.parse().map(Self::Message).ok())
    }

    /// The message it answers, or itself.
    pub(super) async fn message(self, api: &Api, principal: &Principal) -> Result<MessageId, ApiProblem> {
        match self {
            Self::Run(run) => Ok(api.service.run(principal, run).await?.message_id),
            Self::Message(message) => Ok(message),
        }
    }
}

impl NewChat {
    /// `is_own` is whether a host is this server.
    pub(super) fn ask(&mut self, is_own: impl Fn(&str) -> bool) -> Result<ChatAsk, ApiProblem> {
        if self.id.trim().is_empty() || self.id.chars().nth(MAX_ID_CHARS).is_some() {
            return Err(ApiProblem::invalid("id", format!("must be 1 to {MAX_ID_CHARS} characters")));
        }
        if self.trigger == ChatTrigger::RegenerateMessage {
            return self.repeat_answer();
        }
        // Earlier messages have files, too; the thread has those already.
        let last = self.message.as_mut().or(self.messages.last_mut());
        let parts = match last {
            Some(message) if message.role == UiRole::User => message.files(is_own)?,
            Some(_) | None => Vec::new(),
        };
        let last = self.message.as_ref().or(self.messages.last());
        match last {
            Some(message) if message.role == UiRole::User => self.say(message, parts),
            Some(message) if message.role == UiRole::Assistant => decided_calls(message),
            Some(_) => Err(ApiProblem::invalid("messages", "the last one must be the user's")),
            None => {
                Err(ApiProblem::invalid("messages", "is required; send at least the user's last message"))
            }
        }
    }

    /// The thread that the newest answer says it is in.
    pub(super) fn thread(&self) -> Option<ThreadId> {
        let said = self.messages.iter().chain(&self.message).rev();
        said.filter_map(|message| message.metadata.as_ref()?.thread_id.as_deref())
            .find_map(|id| id.parse().ok())
    }

    /// The tools that the client runs. Some front ends describe one by its name alone.
    pub(super) fn tools(&self) -> Vec<ClientTool> {
        match &self.tools {
            ChatTools::Listed(tools) => tools.clone(),
            ChatTools::Named(tools) => {
                let tool = |(name, tool): (&String, &NamedTool)| ClientTool {
                    name: name.clone(),
                    description: tool.description.clone().unwrap_or_else(|| name.clone()),
                    parameters: tool.parameters.clone(),
                };
                tools.iter().map(tool).collect()
            }
        }
    }

    fn repeat_answer(&self) -> Result<ChatAsk, ApiProblem> {
        let Some(id) = &self.message_id else { return Ok(ChatAsk::Again(None)) };
        let answer = AnswerId::parse(id).ok_or_else(|| {
            ApiProblem::invalid(
                "messageId",
                "is not an answer of this chat; send the id from the beginning of its stream",
            )
        })?;
        Ok(ChatAsk::Again(Some(answer)))
    }

    fn say(&self, message: &UiMessage, parts: Vec<NewPart>) -> Result<ChatAsk, ApiProblem> {
        let text = message.text();
        if text.trim().is_empty() && parts.is_empty() {
            return Err(ApiProblem::invalid("messages", "the last one has no text; say something"));
        }
        let parent = if self.message_id.is_some() { Some(self.answer_before()?) } else { None };
        Ok(ChatAsk::Say { text, parts, parent })
    }

    /// The answer that an edited message follows.
    fn answer_before(&self) -> Result<MessageId, ApiProblem> {
        let newest = self.messages.iter().rev().find(|message| message.role == UiRole::Assistant);
        let named = newest.and_then(|answer| {
            let kept = answer.metadata.as_ref().and_then(|metadata| metadata.answer_id.as_deref());
            kept.or(answer.id.as_deref())?.parse().ok()
        });
        named.ok_or_else(|| {
            ApiProblem::invalid(
                "messageId",
                "there is no complete answer before this message; begin another chat",
            )
        })
    }
}

impl UiMessage {
    /// Its files, which are taken out of it.
    fn files(&mut self, is_own: impl Fn(&str) -> bool) -> Result<Vec<NewPart>, ApiProblem> {
        let files = self.parts.iter_mut().filter(|part| part.kind == "file");
        files.map(|part| part.file(&is_own)).collect()
    }

    fn text(&self) -> String {
        let texts = self.parts.iter().filter(|part| part.kind == "text");
        let texts: Vec<&str> = texts.filter_map(|part| part.text.as_deref()).collect();
        match &self.content {
            Some(content) if texts.is_empty() => content.clone(),
            Some(_) | None => texts.join("\n"),
        }
    }
}

impl UiPart {
    /// A file as a part of a message: an image by its content type, else a document.
    fn file(&mut self, is_own: &impl Fn(&str) -> bool) -> Result<NewPart, ApiProblem> {
        let missing = || ApiProblem::invalid("messages", "a file has no url; send it as a data URL");
        let url = self.url.take().ok_or_else(missing)?;
        let name = self.filename.take().filter(|name| !name.trim().is_empty());
        let media_type = self.media_type.take().unwrap_or_default().to_ascii_lowercase();
        let is_data = url.get(..DATA.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(DATA));
        match (media_type.starts_with("image/"), is_data) {
            (true, true) => Ok(NewPart::Image { image_id: None, url: Some(url), name }),
            (true, false) => match image_at(&url, is_own) {
                Some(id) => Ok(NewPart::Image { image_id: Some(id), url: None, name: None }),
                None => Err(ApiProblem::invalid("messages", OTHER_ADDRESS)),
            },
            (false, true) => {
                let name = name.unwrap_or_else(|| UNNAMED_DOCUMENT.to_owned());
                Ok(NewPart::Document { document_id: None, url: Some(url), name: Some(name) })
            }
            (false, false) => Err(ApiProblem::invalid("messages", OTHER_ADDRESS)),
        }
    }
}

/// The image that an address of this server is the address of.
fn image_at(url: &str, is_own: &impl Fn(&str) -> bool) -> Option<ImageId> {
    let uri: Uri = url.parse().ok()?;
    let is_here = match (uri.scheme_str(), uri.authority()) {
        (None, None) => true,
        (Some("http" | "https"), Some(authority)) => is_own(authority.as_str()),
        (_, _) => false,
    };
    let (_, id) = uri.path().rsplit_once(IMAGES)?;
    id.parse().ok().filter(|_| is_here)
}

/// The decisions and results in an answer that the client sends back.
fn decided_calls(message: &UiMessage) -> Result<ChatAsk, ApiProblem> {
    let responded = |part: &&UiPart| part.state.as_deref() == Some("approval-responded");
    let mut approvals = Vec::new();
    for approval in message.parts.iter().filter(responded).filter_map(|part| part.approval.as_ref()) {
        let unknown = || {
            ApiProblem::invalid(
                "messages",
                "an approval names a call that does not wait for approval in this chat",
            )
        };
        let id = approval.id.parse().map_err(|_| unknown())?;
        approvals.push(Approval { id, approved: approval.approved.unwrap_or(false) });
    }
    let newest = message.parts.iter().rev().filter_map(UiPart::result).take(MAX_RESULTS);
    let mut results: Vec<(CallId, NewCallResult)> = newest.collect();
    results.reverse();
    if approvals.is_empty() && results.is_empty() || approvals.len() > MAX_APPROVALS {
        let detail = format!(
            "the last one must be the user's, or an answer with 1 to {MAX_APPROVALS} decided approvals or with \
             results of the client's tools"
        );
        return Err(ApiProblem::invalid("messages", detail));
    }
    Ok(ChatAsk::GoOn(GivenAnswers { approvals, results }))
}

impl UiPart {
    /// The result of a call that the client has made.
    fn result(&self) -> Option<(CallId, NewCallResult)> {
        if !self.kind.starts_with("tool-") || self.provider_executed == Some(true) {
            return None;
        }
        let call = self.tool_call_id.as_deref()?.parse().ok()?;
        let nothing = NewCallResult::default();
        match self.state.as_deref()? {
            "output-available" => {
                Some((call, NewCallResult { result: Some(self.output.clone()), ..nothing }))
            }
            "output-error" => {
                let error = self.error_text.clone().filter(|text| !text.trim().is_empty());
                let error = error.unwrap_or_else(|| "the client gave no reason".to_owned());
                Some((call, NewCallResult { error: Some(error), ..nothing }))
            }
            _ => None,
        }
    }
}

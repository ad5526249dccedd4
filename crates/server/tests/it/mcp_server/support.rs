//! A client of the MCP server, which answers questions as it is told and notes what it hears.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use protocol::{Right, Rights};
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, ElicitRequestParams,
    ElicitResult, ElicitationAction, ErrorData, Implementation, ProgressNotificationParam, ProtocolVersion,
};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt, NotificationContext, Peer, RequestContext, RunningService,
    ServiceError,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, RoleClient};
use serde_json::{Value, json};
use service::NewKey;
use testkit::{TestApp, plain_client};

/// An era of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    /// With `initialize`, up to 2025-11-25.
    Old,
    /// Without sessions, from 2026-07-28 on.
    New,
}

pub(super) const ERAS: [Era; 2] = [Era::Old, Era::New];

/// The user's answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    Yes,
    No,
    Decline,
    Cancel,
    /// Nothing at all.
    Never,
}

#[derive(Clone, Default)]
pub(super) struct TestClient {
    /// Whether it can ask its user.
    asks: bool,
    words: Arc<Mutex<VecDeque<Word>>>,
    questions: Arc<Mutex<Vec<String>>>,
    progress: Arc<Mutex<Vec<(f64, String)>>>,
}

impl TestClient {
    /// A client whose user says these words, one after the other.
    pub(super) fn saying(words: impl IntoIterator<Item = Word>) -> Self {
        let words = Arc::new(Mutex::new(words.into_iter().collect()));
        Self { asks: true, words, ..Self::default() }
    }

    pub(super) fn questions(&self) -> Vec<String> {
        self.questions.lock().unwrap().clone()
    }

    pub(super) fn progress(&self) -> Vec<(f64, String)> {
        self.progress.lock().unwrap().clone()
    }
}

impl ClientHandler for TestClient {
    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, .. } = request else {
            return Err(ErrorData::invalid_params("not a form", None));
        };
        self.questions.lock().unwrap().push(message);
        let accepted = |approve: bool| {
            ElicitResult::new(ElicitationAction::Accept).with_content(json!({ "approve": approve }))
        };
        let word = self.words.lock().unwrap().pop_front();
        if word == Some(Word::Never) {
            std::future::pending::<()>().await;
        }
        Ok(match word {
            Some(Word::Yes) => accepted(true),
            Some(Word::No) => accepted(false),
            Some(Word::Decline) => ElicitResult::new(ElicitationAction::Decline),
            Some(Word::Cancel | Word::Never) | None => ElicitResult::new(ElicitationAction::Cancel),
        })
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.progress.lock().unwrap().push((params.progress, params.message.unwrap_or_default()));
    }

    fn get_info(&self) -> ClientConfig {
        let builder = ClientCapabilities::builder();
        let capabilities = if self.asks { builder.enable_elicitation().build() } else { builder.build() };
        ClientConfig::new(capabilities, Implementation::new("test", "1"))
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}

pub(super) type Connected = RunningService<RoleClient, TestClient>;

pub(super) async fn connect(
    app: &TestApp,
    token: Option<&str>,
    path: &str,
    (era, handler): (Era, TestClient),
) -> Connected {
    let config = StreamableHttpClientTransportConfig::with_uri(format!("{}{path}", app.url));
    let config = match token {
        Some(token) => config.auth_header(token),
        None => config,
    };
    let transport = StreamableHttpClientTransport::with_client(plain_client().build().unwrap(), config);
    let lifecycle = match era {
        Era::Old => ClientLifecycleMode::Initialize,
        Era::New => ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] },
    };
    let client = handler.serve_with_lifecycle(transport, lifecycle).await.unwrap();
    let version = client.peer_info().unwrap().protocol_version.clone();
    let expected =
        if era == Era::Old { ProtocolVersion::LATEST_WITH_INITIALIZE } else { ProtocolVersion::V_2026_07_28 };
    assert_eq!(version, expected);
    client
}

fn request(tool: &str, arguments: Value) -> CallToolRequestParams {
    let arguments = serde_json::from_value(arguments).expect("arguments are an object");
    CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments)
}

pub(super) async fn call(client: &Connected, tool: &str, arguments: Value) -> CallToolResult {
    client.call_tool(request(tool, arguments)).await.unwrap()
}

pub(super) async fn call_peer(
    peer: &Peer<RoleClient>,
    tool: &str,
    arguments: Value,
) -> Result<rmcp::model::CallToolResponse, ServiceError> {
    peer.call_tool_once(request(tool, arguments)).await
}

/// The structured content of a good result, which its text repeats.
pub(super) fn structured(result: &CallToolResult) -> Value {
    assert_eq!(result.is_error, Some(false), "{result:?}");
    let value = result.structured_content.clone().unwrap();
    let text = serde_json::to_value(&result.content).unwrap();
    assert_eq!(serde_json::from_str::<Value>(text[0]["text"].as_str().unwrap()).unwrap(), value);
    value
}

/// The text of a failure.
pub(super) fn failure(result: &CallToolResult) -> String {
    assert_eq!((result.is_error, &result.structured_content), (Some(true), &None), "{result:?}");
    serde_json::to_value(&result.content).unwrap()[0]["text"].as_str().unwrap().to_owned()
}

pub(super) async fn key(app: &TestApp, user: &str, right: Right) -> String {
    let rights = Some(Rights::of([right]));
    let key = NewKey { user: user.into(), rights, ..NewKey::default() };
    app.service.add_key(key, None).await.unwrap().token.unwrap()
}

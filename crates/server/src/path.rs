//! The names in a request's path: each type both reads them and describes them in OpenAPI.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use protocol::{
    ActionId, CallId, DocumentId, ImageId, JobId, KeyId, MemoryId, PinId, ProposalId, RecordId, RunId,
    SessionId, ThreadId,
};
use serde::Deserialize;
use service::{RecordPlace, RecordsPlace};
use utoipa::IntoParams;

use crate::Api;
use crate::error::ApiProblem;

/// Declares types of path parameters. A path that cannot name anything is answered as if nothing had that name; the text
/// in brackets says what is missing then. The service knows which apps, record types and files exist.
macro_rules! path_types {
    ($($name:ident($what:literal) { $($(#[$about:meta])* $field:ident: $type:ident,)* })*) => {$(
        #[derive(Deserialize, IntoParams)]
        #[into_params(parameter_in = Path)]
        pub(crate) struct $name {
            $($(#[$about])* pub(crate) $field: $type,)*
        }

        impl FromRequestParts<Api> for $name {
            type Rejection = ApiProblem;

            async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiProblem> {
                let names = Path::<Self>::from_request_parts(parts, api).await;
                names.map(|Path(names)| names).map_err(|_| service::Error::NotFound { what: $what }.into())
            }
        }
    )*};
}

path_types! {
    AppPath("app") {
        /// The app's name
        app: String,
    }
    RunPath("run") { run: RunId, }
    ThreadPath("thread") { thread: ThreadId, }
    KeyPath("key") { key: KeyId, }
    JobPath("job") { job: JobId, }
    SessionPath("session") { session: SessionId, }
    MemoryPath("memory") { memory: MemoryId, }
    ActionPath("action") { action: ActionId, }
    ProposalPath("proposal") { proposal: ProposalId, }
    CallPath("call") { call: CallId, }
    PinPath("pin") { pin: PinId, }
    DocumentPath("document") { document: DocumentId, }
    ImagePath("image") { image: ImageId, }
    ChatPath("chat") {
        /// The chat's id, or a thread's id
        chat: String,
    }
    PersonaPath("persona") {
        /// The app's name
        app: String,
        /// The persona's id
        persona: String,
    }
    RecordsPath("record type") {
        /// The app's name
        app: String,
        /// A type of records that the app has
        #[serde(rename = "type")]
        kind: String,
    }
    RecordPath("record") {
        /// The app's name
        app: String,
        /// A type of records that the app has
        #[serde(rename = "type")]
        kind: String,
        record: RecordId,
    }
    FilePath("file") {
        /// The app's name
        app: String,
        /// The file's path, with its slashes
        path: String,
    }
    CredentialPath("credential") {
        /// The app's name
        app: String,
        /// The name of the credential in the app's tools
        name: String,
    }
    McpServerPath("server") {
        /// The app's name
        app: String,
        /// The MCP server's name in the app
        server: String,
    }
}

impl From<RecordsPath> for RecordsPlace {
    fn from(RecordsPath { app, kind }: RecordsPath) -> Self {
        Self { app, kind }
    }
}

impl From<RecordPath> for RecordPlace {
    fn from(RecordPath { app, kind, record }: RecordPath) -> Self {
        Self { of: RecordsPlace { app, kind }, id: record }
    }
}

//! Failures as the client sees them: one closed list of codes, one problem document.
//!
//! A handler returns a [`ApiProblem`]; it rides in the response's extensions until [`crate::middleware`], which knows the
//! request's id, writes the document. Nothing internal ever gets into `detail`.

pub(crate) mod openai;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use service::Error;
use utoipa::ToSchema;

pub(crate) const MEDIA_TYPE: &str = "application/problem+json";
/// The longest field name or sentence we repeat to a client that sent nonsense.
const MAX_TEXT_CHARS: usize = 300;

macro_rules! codes {
    ($($variant:ident = $name:literal, $status:ident, $title:literal;)*) => {
        /// Every code but those of a conflict, which the service names.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum ProblemCode {
            $($variant,)*
            Conflict(&'static str),
        }

        impl ProblemCode {
            const ALL: &'static [ProblemCode] = &[$(ProblemCode::$variant),*];

            /// The code of something that the service names: a conflict, unless it stands in the list.
            fn of_name(name: &'static str) -> Self {
                let listed = Self::ALL.iter().find(|code| code.name() == name);
                listed.copied().unwrap_or(ProblemCode::Conflict(name))
            }

            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(ProblemCode::$variant => $name,)*
                    ProblemCode::Conflict(name) => name,
                }
            }

            fn status(self) -> StatusCode {
                match self {
                    $(ProblemCode::$variant => StatusCode::$status,)*
                    ProblemCode::Conflict(_) => StatusCode::CONFLICT,
                }
            }

            fn title(self) -> &'static str {
                match self {
                    $(ProblemCode::$variant => $title,)*
                    ProblemCode::Conflict(_) => "Not possible in the current state",
                }
            }
        }
    };
}

codes! {
    InvalidJson = "invalid_json", BAD_REQUEST, "The body is not JSON";
    InvalidUtf8 = "invalid_utf8", BAD_REQUEST, "The body is not UTF-8";
    InvalidCursor = "invalid_cursor", BAD_REQUEST, "The event id is not valid";
    InvalidKey = "invalid_idempotency_key", BAD_REQUEST, "The idempotency key is not valid";
    Unauthorized = "unauthorized", UNAUTHORIZED, "Authentication is required";
    ActingNotAllowed = "acting_not_allowed", FORBIDDEN, "Only an acting key speaks for users";
    UserRequired = "user_required", FORBIDDEN, "The user is not named";
    AdminOnly = "admin_only", FORBIDDEN, "For admins only";
    Forbidden = "forbidden", FORBIDDEN, "Not allowed with this key";
    HostNotAllowed = "host_not_allowed", FORBIDDEN, "Host not allowed";
    OriginNotAllowed = "origin_not_allowed", FORBIDDEN, "Origin not allowed";
    NotFound = "not_found", NOT_FOUND, "Not found";
    ModelNotFound = "model_not_found", NOT_FOUND, "No such model";
    MethodNotAllowed = "method_not_allowed", METHOD_NOT_ALLOWED, "Method not allowed";
    BodyTimeout = "body_timeout", REQUEST_TIMEOUT, "The body took too long";
    BodyTooLarge = "body_too_large", PAYLOAD_TOO_LARGE, "The body is too large";
    TooLarge = "too_large", PAYLOAD_TOO_LARGE, "A field is too large";
    DocumentTooLarge = "document_too_large", PAYLOAD_TOO_LARGE, "The document is too large";
    ImageTooLarge = "image_too_large", PAYLOAD_TOO_LARGE, "The image is too large";
    UnsupportedMediaType = "unsupported_media_type", UNSUPPORTED_MEDIA_TYPE, "The content type is not supported";
    DocumentUnsupported = "document_unsupported", UNSUPPORTED_MEDIA_TYPE, "The document type is not supported";
    ImageUnsupported = "image_unsupported", UNSUPPORTED_MEDIA_TYPE, "The image type is not supported";
    ImageTypeMismatch = "image_type_mismatch", UNSUPPORTED_MEDIA_TYPE, "The image has another type than it says";
    InvalidRequest = "invalid_request", UNPROCESSABLE_ENTITY, "The request is not valid";
    DocumentUnreadable = "document_unreadable", UNPROCESSABLE_ENTITY, "The document cannot be read";
    DocumentEncrypted = "document_encrypted", UNPROCESSABLE_ENTITY, "The document is encrypted";
    DocumentEmpty = "document_empty", UNPROCESSABLE_ENTITY, "The document has no text";
    ImageUnreadable = "image_unreadable", UNPROCESSABLE_ENTITY, "The image cannot be read";
    NoVision = "no_vision", UNPROCESSABLE_ENTITY, "The model sees no images";
    Secret = "secret", UNPROCESSABLE_ENTITY, "This looks like a secret";
    KeyReused = "idempotency_key_reused", UNPROCESSABLE_ENTITY, "The idempotency key was used for another request";
    TooManyAttempts = "too_many_attempts", TOO_MANY_REQUESTS, "Too many failed attempts";
    TooManyStreams = "too_many_streams", TOO_MANY_REQUESTS, "Too many streams";
    BudgetExceeded = "budget_exceeded", TOO_MANY_REQUESTS, "The budget is used up";
    RateLimited = "rate_limited", TOO_MANY_REQUESTS, "The rate limit is reached";
    HeadersTooLarge = "headers_too_large", REQUEST_HEADER_FIELDS_TOO_LARGE, "The headers are too large";
    Internal = "internal", INTERNAL_SERVER_ERROR, "Internal error";
    Unavailable = "unavailable", SERVICE_UNAVAILABLE, "Not available now";
    DiskFull = "disk_full", INSUFFICIENT_STORAGE, "The disk is full";
}

/// A refusal or a failure, without the request's id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiProblem {
    code: ProblemCode,
    /// A sentence on the failure, and on how the client can mend it.
    detail: String,
    /// The field of the request at fault.
    field: Option<String>,
    /// Seconds.
    retry_after: Option<u32>,
}

impl ApiProblem {
    pub(crate) fn new(code: ProblemCode, detail: impl Into<String>) -> Self {
        Self { code, detail: cut(detail.into()), field: None, retry_after: None }
    }

    /// A value of the request that is not acceptable.
    pub(crate) fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: Some(cut(field.into())), ..Self::new(ProblemCode::InvalidRequest, message) }
    }

    pub(crate) fn retry_after(self, seconds: u32) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// The problem as one line of text, for contracts whose errors are texts.
    pub(crate) fn line(&self) -> String {
        let (code, detail) = (self.code.name(), &self.detail);
        match &self.field {
            Some(field) => format!("{code}: {field}: {detail}"),
            None => format!("{code}: {detail}"),
        }
    }

    pub(crate) fn code(&self) -> ProblemCode {
        self.code
    }

    /// Renames the problem's field to the name that this route knows it by.
    pub(crate) fn rename_field(self, rename: impl FnOnce(&str) -> Option<&'static str>) -> Self {
        let renamed = self.field.as_deref().and_then(rename).map(String::from);
        Self { field: renamed.or(self.field), ..self }
    }

    /// The field of the request at fault.
    pub(crate) fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    /// Adds a sentence for who left out a field.
    pub(crate) fn explain_missing(self, field: &str, sentence: &str) -> Self {
        if self.field.as_deref() != Some(field) || !self.detail.starts_with("missing field") {
            return self;
        }
        Self { detail: cut(format!("{}; {sentence}", self.detail)), ..self }
    }

    fn document(self, request_id: &str) -> ProblemDocument {
        let detail = match &self.field {
            Some(field) => format!("{field}: {}", self.detail),
            None => self.detail.clone(),
        };
        let errors = self.field.map(|field| vec![FieldError { field, message: self.detail }]);
        ProblemDocument {
            kind: String::from("about:blank"),
            title: self.code.title().into(),
            status: self.code.status().as_u16(),
            detail,
            code: self.code.name().into(),
            request_id: request_id.into(),
            errors,
        }
    }
}

impl From<Error> for ApiProblem {
    fn from(error: Error) -> Self {
        let detail = error.to_string();
        match error {
            Error::NotFound { .. } | Error::UnknownApp { .. } => Self::new(ProblemCode::NotFound, detail),
            Error::Invalid { field, message } => Self::invalid(field, message),
            Error::Conflict { code, message } => Self::new(ProblemCode::of_name(code), message),
            Error::KeyReused => Self::new(ProblemCode::KeyReused, detail),
            Error::TooLarge { field, limit } => Self {
                field: Some(field.into()),
                ..Self::new(ProblemCode::TooLarge, format!("must be at most {limit} bytes"))
            },
            Error::Secret { field, kind } => {
                let detail = format!("looks like {kind}; secrets are not remembered");
                Self { field: Some(field.into()), ..Self::new(ProblemCode::Secret, detail) }
            }
            Error::Forbidden { message } => Self::new(ProblemCode::Forbidden, message),
            Error::Budget { message, retry_after } => {
                Self::new(ProblemCode::BudgetExceeded, message).retry_after(retry_after)
            }
            Error::RateLimited { message, retry_after } => {
                Self::new(ProblemCode::RateLimited, message).retry_after(retry_after)
            }
            Error::Unavailable { message, retry_after } => {
                Self::new(ProblemCode::Unavailable, message).retry_after(retry_after)
            }
            Error::Full => Self::new(ProblemCode::DiskFull, detail),
            Error::Internal => Self::new(ProblemCode::Internal, detail),
        }
    }
}

impl IntoResponse for ApiProblem {
    fn into_response(self) -> Response {
        let mut response = self.code.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Writes the document of the problem that rides in `response`, if one does.
pub(crate) fn write_problem(mut response: Response, request_id: &str) -> Response {
    let Some(problem) = response.extensions_mut().remove::<ApiProblem>() else { return response };
    let (retry_after, unauthorized) = (problem.retry_after, problem.code == ProblemCode::Unauthorized);
    let body = serde_json::to_vec(&problem.document(request_id)).unwrap_or_default();
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    if let Some(seconds) = retry_after {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if unauthorized && !headers.contains_key(header::WWW_AUTHENTICATE) {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    *response.body_mut() = Body::from(body);
    response
}

fn cut(text: String) -> String {
    if text.chars().nth(MAX_TEXT_CHARS).is_none() {
        return text;
    }
    text.chars().take(MAX_TEXT_CHARS).chain(['…']).collect()
}

/// A problem document (RFC 9457).
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Problem)]
pub(crate) struct ProblemDocument {
    #[serde(rename = "type")]
    kind: String,
    /// The kind of problem, for people.
    title: String,
    status: u16,
    /// A sentence on this problem, and on the remedy.
    detail: String,
    /// The kind of problem, for programs; it never changes.
    code: String,
    /// The id of the request, as in `x-request-id` and in the server's log.
    request_id: String,
    /// The fields of the request at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    errors: Option<Vec<FieldError>>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FieldError {
    /// The field, with a dot between levels.
    field: String,
    message: String,
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use serde_json::{Value, json};

    use super::*;

    /// The codes of conflicts, which the service names.
    const CONFLICTS: [&str; 22] = [
        "cannot_undo",
        "changed",
        "credentials_full",
        "definition_changed",
        "documents_full",
        "export_too_large",
        "files_full",
        "key_not_good",
        "key_or_jwt_required",
        "memories_full",
        "memory_off",
        "no_session",
        "no_session_needed",
        "persona_exists",
        "persona_of_app",
        "personas_full",
        "pins_full",
        "proposal_decided",
        "queue_full",
        "records_full",
        "run_active",
        "thread_busy",
    ];

    async fn written(problem: ApiProblem) -> (StatusCode, Option<String>, Value) {
        let response = write_problem(problem.into_response(), "0192");
        assert_eq!(response.headers()[header::CONTENT_TYPE], "application/problem+json");
        let retry = response.headers().get(header::RETRY_AFTER).map(|v| v.to_str().unwrap().to_owned());
        let status = response.status();
        let body = to_bytes(response.into_body(), 4096).await.unwrap();
        (status, retry, serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn a_bad_field_is_named() {
        let error = Error::Invalid { field: "settings.temperature", message: "must be from 0 to 2".into() };
        let problem =
            ApiProblem::from(error).rename_field(|f| (f == "settings.temperature").then_some("temperature"));
        let (status, retry, document) = written(problem).await;
        assert_eq!((status, retry), (StatusCode::UNPROCESSABLE_ENTITY, None));
        assert_eq!(
            document,
            json!({
                "type": "about:blank",
                "title": "The request is not valid",
                "status": 422,
                "detail": "temperature: must be from 0 to 2",
                "code": "invalid_request",
                "requestId": "0192",
                "errors": [{"field": "temperature", "message": "must be from 0 to 2"}],
            })
        );
    }

    #[tokio::test]
    async fn a_busy_server_says_when_to_come_back() {
        let error = Error::Unavailable { message: "stopping".into(), retry_after: 3 };
        let (status, retry, document) = written(error.into()).await;
        assert_eq!((status, retry.as_deref()), (StatusCode::SERVICE_UNAVAILABLE, Some("3")));
        assert_eq!(document.get("errors"), None);
    }

    #[tokio::test]
    async fn a_spent_budget_says_when_there_is_a_new_one() {
        let error = Error::Budget { message: "used up".into(), retry_after: 3600 };
        let (status, retry, document) = written(error.into()).await;
        assert_eq!((status, retry.as_deref()), (StatusCode::TOO_MANY_REQUESTS, Some("3600")));
        assert_eq!(document["code"], "budget_exceeded");
    }

    #[tokio::test]
    async fn a_conflict_keeps_the_service_s_code() {
        let error = Error::Conflict { code: "thread_busy", message: "a run is under way".into() };
        let (status, _, document) = written(error.into()).await;
        assert_eq!((status, &document["code"]), (StatusCode::CONFLICT, &json!("thread_busy")));
    }

    #[tokio::test]
    async fn a_code_that_is_listed_has_the_status_of_the_list() {
        for (code, expected) in [
            ("document_unsupported", StatusCode::UNSUPPORTED_MEDIA_TYPE),
            ("document_unreadable", StatusCode::UNPROCESSABLE_ENTITY),
            ("document_too_large", StatusCode::PAYLOAD_TOO_LARGE),
            ("documents_full", StatusCode::CONFLICT),
        ] {
            let (status, _, document) = written(Error::Conflict { code, message: "so".into() }.into()).await;
            assert_eq!(
                (status, &document["code"], &document["detail"]),
                (expected, &json!(code), &json!("so"))
            );
        }
    }

    #[test]
    fn what_a_client_sent_is_repeated_in_part() {
        let problem = ApiProblem::invalid("é".repeat(1_000_000), "x".repeat(1_000_000));
        assert_eq!(problem.field.unwrap().chars().count(), MAX_TEXT_CHARS + 1);
        assert_eq!(problem.detail.chars().count(), MAX_TEXT_CHARS + 1);
    }

    #[test]
    fn the_documentation_lists_every_code() {
        let page = include_str!("../../../docs/api.md");
        for code in ProblemCode::ALL {
            let row = format!("| {} | `{}` |", code.status().as_u16(), code.name());
            assert!(page.contains(&row), "docs/api.md lacks {row}");
        }
        for conflict in CONFLICTS {
            let row = format!("| 409 | `{conflict}` |");
            assert!(page.contains(&row), "docs/api.md lacks {row}");
        }
    }
}

//! Models in OpenAI's words: an app is a model, and `app/model` is an app with one of the models that it allows.

use axum::Json as Answer;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use protocol::{AppId, AppView, Principal};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::Api;
use crate::error::{ApiProblem, ProblemCode};
use crate::routes::JsonReply;

/// Entries of the list, the apps first.
const MAX_LISTED_MODELS: usize = 1_000;

/// The owner of all models, as clients show it.
const OWNER: &str = "rondo";

/// An app that allows all models.
const ALL: &str = "*";

/// An app, and the model that is to answer in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChosenApp {
    pub(super) app: String,
    /// The app's own choice when absent.
    pub(super) model: Option<String>,
}

/// The app and the model that a request's `model` names.
pub(super) fn chosen_app(api: &Api, principal: &Principal, name: &str) -> Result<ChosenApp, ApiProblem> {
    let (app, model) = match name.split_once('/') {
        Some((app, model)) => (app, Some(model)),
        None => (name, None),
    };
    let is_app = apps(api, principal).any(|known| known.id == app);
    if !is_app || model.is_some_and(str::is_empty) {
        return Err(unknown_model(api, principal));
    }
    Ok(ChosenApp { app: app.to_owned(), model: model.map(str::to_owned) })
}

/// The refusal of a name that is no app which the principal may use.
pub(super) fn unknown_model(api: &Api, principal: &Principal) -> ApiProblem {
    let known: Vec<String> = apps(api, principal).map(|app| app.id).collect();
    let detail = format!(
        "there is no such model; an app is a model here: send one of {}, or app/model, see GET /openai/v1/models",
        known.join(", ")
    );
    ApiProblem::new(ProblemCode::ModelNotFound, detail)
}

/// The apps that the principal may use.
fn apps(api: &Api, principal: &Principal) -> impl Iterator<Item = AppView> {
    let apps = api.service.apps().into_iter();
    apps.filter(|app| principal.may_use(&AppId::new(app.id.as_str())))
}

/// A model as clients of OpenAI's API list it.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::routes) struct ListedModel {
    /// An app, an app and a model with a slash between them, or the embedding model.
    id: String,
    #[schema(value_type = String)]
    object: &'static str,
    /// The date, which is always 0, because apps have none.
    created: u64,
    #[schema(value_type = String)]
    owned_by: &'static str,
}

impl ListedModel {
    fn new(id: String) -> Self {
        Self { id, object: "model", created: 0, owned_by: OWNER }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(in crate::routes) struct ModelList {
    #[schema(value_type = String)]
    object: &'static str,
    data: Vec<ListedModel>,
}

/// A model in the path, with its slashes.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(in crate::routes) struct OpenAiModelPath {
    /// An app, or an app and a model with a slash between them
    model: String,
}

impl FromRequestParts<Api> for OpenAiModelPath {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiProblem> {
        let missing = |_| ApiProblem::new(ProblemCode::ModelNotFound, "there is no such model");
        Path::<Self>::from_request_parts(parts, api).await.map(|Path(path)| path).map_err(missing)
    }
}

/// Lists the apps that the key may use, each also with the models that it allows, and the embedding model.
#[utoipa::path(
    get,
    path = "/openai/v1/models",
    responses((status = 200, description = "All models", body = ModelList))
)]
pub(in crate::routes) async fn list_openai_models(
    State(api): State<Api>,
    principal: Principal,
) -> Answer<ModelList> {
    let apps: Vec<AppView> = apps(&api, &principal).collect();
    let mut data: Vec<ListedModel> = apps.iter().map(|app| ListedModel::new(app.id.clone())).collect();
    data.extend(api.service.embedding_model().map(|model| ListedModel::new(model.to_owned())));
    let models: Vec<String> = api.service.models().into_iter().map(|model| model.id).collect();
    for app in &apps {
        let allows_all = app.models.iter().any(|model| model == ALL);
        let choices = if allows_all { &models } else { &app.models };
        let combined = choices.iter().map(|model| ListedModel::new(format!("{}/{model}", app.id)));
        data.extend(combined.take(MAX_LISTED_MODELS.saturating_sub(data.len())));
    }
    Answer(ModelList { object: "list", data })
}

/// Returns a model: an app, or an app with one of the models that it allows.
#[utoipa::path(
    get,
    path = "/openai/v1/models/{*model}",
    params(OpenAiModelPath),
    responses((status = 200, description = "The model", body = ListedModel))
)]
pub(in crate::routes) async fn get_openai_model(
    State(api): State<Api>,
    principal: Principal,
    OpenAiModelPath { model: name }: OpenAiModelPath,
) -> JsonReply<ListedModel> {
    if api.service.embedding_model() == Some(name.as_str()) {
        return Ok(Answer(ListedModel::new(name)));
    }
    let ChosenApp { app, model } = chosen_app(&api, &principal, &name)?;
    let known = apps(&api, &principal).find(|known| known.id == app).map(|app| app.models);
    let is_allowed = |model: &String| known.iter().flatten().any(|known| known == ALL || known == model);
    if model.as_ref().is_none_or(is_allowed) {
        return Ok(Answer(ListedModel::new(name)));
    }
    Err(unknown_model(&api, &principal))
}

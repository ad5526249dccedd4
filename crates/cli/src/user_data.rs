//! The records, files and actions that one user has in one app.

mod order;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use app::App;
use jsonschema::Validator;
use protocol::{ActionView, AppId, FileView, Ids, Page, RecordId, RecordView, TimeOrderedIds};
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde::Deserialize;
use serde_json::Value;

use crate::api_client::{ApiClient, UserOptions};
use crate::config::Config;
use crate::{CommandResult, embedded_apps};

use order::{RecordTurn, order, with_new_ids};

/// Records read at once.
const PAGE: usize = 500;

/// Pages of one type that are read at most; a user has fewer records than they hold, however large those are.
const MAX_PAGES: usize = 1_000;

/// A user's share of an app.
pub(crate) struct UserData {
    pub(crate) app: Arc<App>,
    api: ApiClient,
}

/// A record as it is kept.
#[derive(Clone, Deserialize)]
pub(crate) struct UserRecord {
    pub(crate) id: RecordId,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) data: Value,
}

/// A record or file that an import has made.
struct Made {
    /// The name of it for people.
    name: String,
    /// The path of it below the app.
    path: String,
}

impl UserData {
    pub(crate) async fn open(config: &Config, user: UserOptions) -> CommandResult<Self> {
        let app = find_app(&embedded_apps::apps_folder(config)?, &user.app)?;
        Ok(Self { app, api: ApiClient::open_as(config, user).await? })
    }

    pub(crate) async fn close(self) {
        self.api.close().await;
    }

    /// Newest first.
    pub(crate) async fn actions(&self, limit: usize) -> CommandResult<Vec<ActionView>> {
        let (mut all, mut cursor) = (Vec::new(), String::new());
        while all.len() < limit {
            let left = limit - all.len();
            let path = self.path(&format!("actions?limit={left}{cursor}"));
            let page: Page<ActionView> = self.api.get(&path).await?;
            all.extend(page.data);
            let Some(next) = page.next else { break };
            cursor = format!("&cursor={next}");
        }
        Ok(all)
    }

    /// All records of a type, the one changed last at the end.
    pub(crate) async fn records(&self, kind: &str) -> CommandResult<Vec<UserRecord>> {
        let (mut all, mut cursor) = (Vec::new(), String::new());
        for _ in 0..MAX_PAGES {
            let path = self.path(&format!("records/{kind}?limit={PAGE}{cursor}"));
            let page: Page<UserRecord> = self.api.get(&path).await?;
            all.extend(page.data);
            let Some(next) = page.next else {
                all.reverse();
                return Ok(all);
            };
            cursor = format!("&cursor={next}");
        }
        Err(format!("there are more records of the type {kind} than {MAX_PAGES} pages hold").into())
    }

    pub(crate) async fn has_record(&self, kind: &str, id: RecordId) -> CommandResult<bool> {
        let path = self.path(&format!("records/{kind}/{id}"));
        Ok(self.api.find::<RecordView>(&path).await?.is_some())
    }

    /// Makes records and files, or, if anything fails, none of them. Each record comes with an id by which the others
    /// refer to it; the server gives it one of its own.
    pub(crate) async fn add(&self, records: &[UserRecord], files: &[(String, String)]) -> CommandResult {
        let mut made = Vec::new();
        let Err(trouble) = self.add_each(records, files, &mut made).await else { return Ok(()) };
        for thing in made.iter().rev() {
            let removed = self.api.delete(&self.path(&thing.path)).await;
            removed.map_err(|second| format!("{trouble}; {} could not be removed: {second}", thing.name))?;
        }
        Err(format!("{trouble}; nothing was stored").into())
    }

    async fn add_each(
        &self,
        records: &[UserRecord],
        files: &[(String, String)],
        made: &mut Vec<Made>,
    ) -> CommandResult {
        self.add_records(records, made).await?;
        for (path, content) in files {
            self.add_file(path, content).await.map_err(|trouble| format!("{path}: {trouble}"))?;
            made.push(Made { name: path.clone(), path: format!("files/{path}") });
        }
        Ok(())
    }

    async fn add_records(&self, records: &[UserRecord], made: &mut Vec<Made>) -> CommandResult {
        let schemas = validators(&self.app)?;
        let fits = |record: &UserRecord, data: &Value| {
            schemas.get(record.kind.as_str()).is_some_and(|schema| schema.is_valid(data))
        };
        let (mut names, turns) = (BTreeMap::new(), order(records, &fits));
        for RecordTurn { record, data } in &turns {
            let path = self.path(&format!("records/{}", record.kind));
            let row: RecordView = self.api.post(&path, &with_new_ids(data, &names)).await?.json().await?;
            let (kind, id) = (&record.kind, row.id);
            made.push(Made { name: format!("{kind} {id}"), path: format!("records/{kind}/{id}") });
            names.insert(record.id.to_string(), row.id.to_string());
        }
        for RecordTurn { record, .. } in turns.iter().filter(|turn| turn.is_incomplete()) {
            let id = record.id.to_string();
            let id = names.get(&id).unwrap_or(&id);
            let path = self.path(&format!("records/{}/{id}", record.kind));
            let request = self.api.request(Method::PUT, &path).json(&with_new_ids(&record.data, &names));
            self.api.send(request).await?;
        }
        Ok(())
    }

    /// All files, by path, with their content.
    pub(crate) async fn files(&self) -> CommandResult<Vec<(String, String)>> {
        let page: Page<FileView> = self.api.get(&self.path("files")).await?;
        let mut all = Vec::new();
        for FileView { path, .. } in page.data {
            let content = self.file(&path).await?.unwrap_or_default();
            all.push((path, content));
        }
        Ok(all)
    }

    /// The content of a file, if there is one of that path.
    pub(crate) async fn file(&self, path: &str) -> CommandResult<Option<String>> {
        let file: Option<FileView> = self.api.find(&self.path(&format!("files/{path}"))).await?;
        Ok(file.map(|file| file.content.unwrap_or_default()))
    }

    async fn add_file(&self, path: &str, content: &str) -> CommandResult {
        let request = self.api.request(Method::PUT, &self.path(&format!("files/{path}")));
        let request = request.header(CONTENT_TYPE, "text/markdown").body(content.to_owned());
        self.api.send(request).await.map(drop)
    }

    fn path(&self, rest: &str) -> String {
        format!("/v1/apps/{}/{rest}", self.app.id)
    }
}

/// The validators of an app's record types, by type.
pub(crate) fn validators(app: &App) -> CommandResult<BTreeMap<&str, Validator>> {
    let mut validators = BTreeMap::new();
    for (name, kind) in &app.records {
        let validator = jsonschema::validator_for(&kind.schema).map_err(|error| error.to_string())?;
        validators.insert(name.as_str(), validator);
    }
    Ok(validators)
}

fn find_app(apps: &Path, wanted: &str) -> CommandResult<Arc<App>> {
    let apps = app::load_all(apps)?;
    if let Some(app) = apps.get(&AppId::new(wanted)) {
        return Ok(Arc::clone(app));
    }
    let known: Vec<&str> = apps.keys().map(AppId::as_str).collect();
    Err(format!("there is no app \"{wanted}\"; there is {}", known.join(", ")).into())
}

pub(crate) fn fresh_id() -> RecordId {
    RecordId::new(TimeOrderedIds.fresh())
}

//! What one user has in one app: through the running server, or in the data folder if none runs.

mod order;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use app::App;
use engine::LOCAL_USER;
use protocol::{ActionView, AppId, FileView, Ids, Page, RecordId, RecordView, Scope, TimeOrderedIds, UserId};
use reqwest::Method;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use serde_json::Value;
use store::{ActionFilter, ActionRow, PageOf, PageRows, RecordQuery, Store, TimeCursor, Write};

use crate::config::Config;
use crate::desk::Line;
use crate::{Trouble, assemble};

use order::{Turn, order, renamed};

/// Records read at once.
const PAGE: usize = 500;

/// Pages of one type that are read at most; a user has fewer records than they hold, however large those are.
const MAX_PAGES: usize = 1_000;

/// Bytes of a user's name.
const MAX_USER_BYTES: usize = 200;

pub(crate) const NOBODY_ASKS: &str = "no server runs, so nobody asks for a key: name the user with --user";

/// Which app, and whose share of it.
#[derive(clap::Args)]
pub(crate) struct Whose {
    /// The app
    #[arg(long)]
    pub(crate) app: String,
    /// The user; without it the one user of a machine that has no keys
    #[arg(long, value_parser = user_name)]
    pub(crate) user: Option<String>,
    /// A key of the user: a running server takes nobody else's word for who they are
    #[arg(long, conflicts_with = "user")]
    pub(crate) key: Option<String>,
}

/// A name that a key can be made for: nobody could ever speak as another.
fn user_name(name: &str) -> Result<String, String> {
    let fits = (1..=MAX_USER_BYTES).contains(&name.len()) && name.chars().all(|c| c.is_ascii_graphic());
    if fits {
        Ok(name.to_owned())
    } else {
        Err("must be 1 to 200 letters, digits or marks, without spaces".into())
    }
}

/// A user's share of an app.
pub(crate) struct Shelf {
    pub(crate) app: Arc<App>,
    place: Place,
}

enum Place {
    Running(Line),
    /// No server runs; the data folder is ours.
    Own(Store, Scope),
}

/// An action in a line.
pub(crate) struct Deed {
    pub(crate) id: String,
    pub(crate) at: String,
    pub(crate) tool: String,
    pub(crate) status: String,
    pub(crate) effect: &'static str,
    pub(crate) undone: bool,
    pub(crate) input: Value,
}

/// A record as it is kept.
#[derive(Clone)]
pub(crate) struct Kept {
    pub(crate) id: RecordId,
    pub(crate) kind: String,
    pub(crate) data: Value,
}

/// What an import has made so far.
enum Made {
    Record(String, RecordId),
    File(String),
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Made::Record(kind, id) => write!(f, "{kind} {id}"),
            Made::File(path) => f.write_str(path),
        }
    }
}

impl Shelf {
    pub(crate) fn of(config: &Config, whose: Whose) -> Result<Self, Trouble> {
        let app = find_app(&config.apps, &whose.app)?;
        let place = match assemble::store(config) {
            Ok(_) if whose.key.is_some() => {
                return Err(NOBODY_ASKS.into());
            }
            Ok(store) => {
                let user = UserId::new(whose.user.as_deref().unwrap_or(LOCAL_USER));
                Place::Own(store, Scope { app: app.id.clone(), user })
            }
            Err(trouble) => Place::Running(speaking(Line::instead(config, trouble)?, whose)?),
        };
        Ok(Self { app, place })
    }

    /// Newest first.
    pub(crate) async fn actions(&self, limit: usize) -> Result<Vec<Deed>, Trouble> {
        match &self.place {
            Place::Running(line) => {
                let (mut all, mut cursor) = (Vec::new(), String::new());
                while all.len() < limit {
                    let left = limit - all.len();
                    let path = self.path(&format!("actions?limit={left}{cursor}"));
                    let page: Page<ActionView> = line.get(&path).await?;
                    all.extend(page.data.into_iter().map(Deed::from));
                    let Some(next) = page.next else { break };
                    cursor = format!("&cursor={next}");
                }
                Ok(all)
            }
            Place::Own(store, scope) => {
                let rows = store::newest_actions(store, scope, ActionFilter::default(), limit).await?;
                Ok(rows.into_iter().map(Deed::from).collect())
            }
        }
    }

    /// All records of a type, the one changed last at the end.
    pub(crate) async fn records(&self, kind: &str) -> Result<Vec<Kept>, Trouble> {
        let mut all = match &self.place {
            Place::Running(line) => self.records_from(line, kind).await?,
            Place::Own(store, scope) => records_in(store, scope, kind).await?,
        };
        all.reverse();
        Ok(all)
    }

    async fn records_from(&self, line: &Line, kind: &str) -> Result<Vec<Kept>, Trouble> {
        let (mut all, mut cursor) = (Vec::new(), String::new());
        for _ in 0..MAX_PAGES {
            let path = self.path(&format!("records/{kind}?limit={PAGE}{cursor}"));
            let page: Page<RecordView> = line.get(&path).await?;
            all.extend(page.data.into_iter().map(|row| Kept { id: row.id, kind: row.kind, data: row.data }));
            let Some(next) = page.next else { return Ok(all) };
            cursor = format!("&cursor={next}");
        }
        Err(too_many(kind))
    }

    pub(crate) async fn has_record(&self, kind: &str, id: RecordId) -> Result<bool, Trouble> {
        match &self.place {
            Place::Running(line) => line.has(&self.path(&format!("records/{kind}/{id}"))).await,
            Place::Own(store, scope) => Ok(store.count_records(scope, kind, &[id]).await? > 0),
        }
    }

    /// Makes records and files, or, if anything fails, none of them. Each record comes with an id by which the others
    /// refer to it; a running server gives it one of its own.
    pub(crate) async fn add(&self, records: &[Kept], files: &[(String, String)]) -> Result<(), Trouble> {
        let mut made = Vec::new();
        let Err(trouble) = self.add_each(records, files, &mut made).await else { return Ok(()) };
        for thing in made.iter().rev() {
            self.remove(thing)
                .await
                .map_err(|second| format!("{trouble}; {thing} stays behind: {second}"))?;
        }
        Err(format!("{trouble}; nothing was kept").into())
    }

    async fn add_each(
        &self,
        records: &[Kept],
        files: &[(String, String)],
        made: &mut Vec<Made>,
    ) -> Result<(), Trouble> {
        match &self.place {
            Place::Running(line) => self.add_through(line, records, made).await?,
            Place::Own(store, scope) => add_in(store, scope, records, made).await?,
        }
        for (path, content) in files {
            self.add_file(path, content).await.map_err(|trouble| format!("{path}: {trouble}"))?;
            made.push(Made::File(path.clone()));
        }
        Ok(())
    }

    async fn add_through(&self, line: &Line, records: &[Kept], made: &mut Vec<Made>) -> Result<(), Trouble> {
        let mut schemas = BTreeMap::new();
        for (name, kind) in &self.app.records {
            schemas.insert(name, jsonschema::validator_for(&kind.schema).map_err(|error| error.to_string())?);
        }
        let fits = |record: &Kept, data: &Value| {
            schemas.get(&record.kind).is_some_and(|schema| schema.is_valid(data))
        };
        let (mut names, turns) = (BTreeMap::new(), order(records, &fits));
        for Turn { record, data } in &turns {
            let request = line.request(Method::POST, &self.path(&format!("records/{}", record.kind)));
            let row: RecordView = line.ask(request.json(&renamed(data, &names))).await?;
            made.push(Made::Record(record.kind.clone(), row.id));
            names.insert(record.id.to_string(), row.id.to_string());
        }
        for Turn { record, .. } in turns.iter().filter(|turn| turn.is_incomplete()) {
            let id = record.id.to_string();
            let id = names.get(&id).unwrap_or(&id);
            let path = self.path(&format!("records/{}/{id}", record.kind));
            line.tell(line.request(Method::PUT, &path).json(&renamed(&record.data, &names))).await?;
        }
        Ok(())
    }

    async fn remove(&self, thing: &Made) -> Result<(), Trouble> {
        match (&self.place, thing) {
            (Place::Running(line), Made::Record(kind, id)) => {
                line.tell(line.request(Method::DELETE, &self.path(&format!("records/{kind}/{id}")))).await
            }
            (Place::Running(line), Made::File(path)) => {
                line.tell(line.request(Method::DELETE, &self.path(&format!("files/{path}")))).await
            }
            (Place::Own(store, scope), Made::Record(kind, id)) => {
                let expected = store.record_of(scope, kind, *id).await?.version;
                let write = Write::Record { id: *id, kind: kind.clone(), data: None, expected };
                Ok(store.put_record(scope, write, None).await.map(drop)?)
            }
            (Place::Own(store, scope), Made::File(path)) => {
                let expected = store.file_version(scope, path).await?;
                let write = Write::File { path: path.clone(), content: None, expected };
                Ok(store.put_file(scope, write, None).await.map(drop)?)
            }
        }
    }

    /// All files, by path, with what they hold.
    pub(crate) async fn files(&self) -> Result<Vec<(String, String)>, Trouble> {
        match &self.place {
            Place::Running(line) => {
                let page: Page<FileView> = line.get(&self.path("files")).await?;
                let mut all = Vec::new();
                for FileView { path, .. } in page.data {
                    let request = line.request(Method::GET, &self.path(&format!("files/{path}")));
                    let file: FileView = line.ask(request.header(ACCEPT, "application/json")).await?;
                    all.push((path, file.content.unwrap_or_default()));
                }
                Ok(all)
            }
            Place::Own(store, scope) => {
                let rows = store.files(scope).await?;
                Ok(rows.into_iter().map(|row| (row.path, row.content)).collect())
            }
        }
    }

    /// What a file holds, if there is one of that path.
    pub(crate) async fn file(&self, path: &str) -> Result<Option<String>, Trouble> {
        match &self.place {
            Place::Running(line) => {
                let at = self.path(&format!("files/{path}"));
                if !line.has(&at).await? {
                    return Ok(None);
                }
                let request = line.request(Method::GET, &at);
                let file: FileView = line.ask(request.header(ACCEPT, "application/json")).await?;
                Ok(Some(file.content.unwrap_or_default()))
            }
            Place::Own(store, scope) => match store.file(scope, path).await {
                Ok(row) => Ok(Some(row.content)),
                Err(store::Error::NotFound(_)) => Ok(None),
                Err(error) => Err(error.into()),
            },
        }
    }

    async fn add_file(&self, path: &str, content: &str) -> Result<(), Trouble> {
        match &self.place {
            Place::Running(line) => {
                let request = line.request(Method::PUT, &self.path(&format!("files/{path}")));
                line.tell(request.header(CONTENT_TYPE, "text/markdown").body(content.to_owned())).await
            }
            Place::Own(store, scope) => {
                let expected = store.file_version(scope, path).await?; // a deleted one has a version too
                let write =
                    Write::File { path: path.to_owned(), content: Some(content.to_owned()), expected };
                Ok(store.put_file(scope, write, None).await.map(drop)?)
            }
        }
    }

    fn path(&self, rest: &str) -> String {
        format!("/v1/apps/{}/{rest}", self.app.id)
    }
}

fn find_app(apps: &Path, wanted: &str) -> Result<Arc<App>, Trouble> {
    let apps = app::load_all(apps)?;
    if let Some(app) = apps.get(&AppId::new(wanted)) {
        return Ok(Arc::clone(app));
    }
    let known: Vec<&str> = apps.keys().map(AppId::as_str).collect();
    Err(format!("there is no app \"{wanted}\"; there is {}", known.join(", ")).into())
}

/// The running server knows who speaks by what they hold; commands on its machine are its own user's.
pub(crate) fn speaking(line: Line, whose: Whose) -> Result<Line, Trouble> {
    match (whose.key, whose.user.as_deref().unwrap_or(LOCAL_USER)) {
        (Some(key), _) => Ok(line.holding(key)),
        (None, LOCAL_USER) => Ok(line),
        (None, user) => Err(format!(
            "a server runs on this data folder, and nobody speaks there for {user} without a key: give one with --key \
             (`rondo keys add {user} --app {}` makes one), or stop the server first",
            whose.app
        )
        .into()),
    }
}

async fn records_in(store: &Store, scope: &Scope, kind: &str) -> Result<Vec<Kept>, Trouble> {
    let (mut all, mut after) = (Vec::new(), None);
    for _ in 0..MAX_PAGES {
        let page = PageOf { after, limit: PAGE };
        let PageRows { rows, more } = store.records(scope, kind, RecordQuery::default(), page).await?;
        after = rows.last().map(|row| TimeCursor { at: row.updated_at, id: row.id });
        all.extend(rows.into_iter().map(|row| Kept { id: row.id, kind: row.kind, data: row.data }));
        if !more {
            return Ok(all);
        }
    }
    Err(too_many(kind))
}

fn too_many(kind: &str) -> Trouble {
    format!("there are more records of the type {kind} than {MAX_PAGES} pages hold").into()
}

async fn add_in(store: &Store, scope: &Scope, records: &[Kept], made: &mut Vec<Made>) -> Result<(), Trouble> {
    for Kept { id, kind, data } in records {
        let write = Write::Record { id: *id, kind: kind.clone(), data: Some(data.clone()), expected: 0 };
        store.put_record(scope, write, None).await?;
        made.push(Made::Record(kind.clone(), *id));
    }
    Ok(())
}

pub(crate) fn fresh_id() -> RecordId {
    RecordId::new(TimeOrderedIds.fresh())
}

impl From<ActionView> for Deed {
    fn from(view: ActionView) -> Self {
        Self {
            id: view.id.to_string(),
            at: view.started_at.to_string(),
            tool: view.tool,
            status: view.status,
            effect: view.effect.name(),
            undone: view.undone,
            input: view.input,
        }
    }
}

impl From<ActionRow> for Deed {
    fn from(row: ActionRow) -> Self {
        Self {
            id: row.id.to_string(),
            at: row.started_at.to_string(),
            tool: row.tool,
            status: row.status.name().to_owned(),
            effect: row.effect.name(),
            undone: row.undone_by.is_some(),
            input: row.input,
        }
    }
}

//! `rondo import`: records and files from JSON into a user's share of an app, all of them or none. Records and files
//! that the user has already are not made a second time.

mod existing_records;
mod read;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

use app::{App, relative_dates};
use protocol::{Clock, RecordId, SystemClock};
use serde_json::Value;

use crate::api_client::UserOptions;
use crate::config::Config;
use crate::terminal_text::first_lines;
use crate::user_data::{UserData, UserRecord, fresh_id, validators};
use crate::{CommandResult, print};

pub(crate) use read::{FileEntry, ImportBundle, RecordEntry};

/// Problems told at once.
const MAX_PROBLEMS: usize = 10;

#[derive(clap::Args)]
pub(crate) struct ImportOptions {
    /// A JSON file, or a folder whose .json files are imported together
    #[arg(value_name = "FOLDER_OR_FILE")]
    from: PathBuf,
    #[command(flatten)]
    user: UserOptions,
    /// Add records again that the user already has
    #[arg(long)]
    again: bool,
}

/// A record that waits to be made, with the place it came from.
struct WaitingRecord {
    place: String,
    kept: UserRecord,
}

/// By type, the places of dates that are told from the day of the import: on another day they are others.
type Moved = BTreeMap<String, BTreeSet<String>>;

/// The content of the files, once each record has an id of its own.
#[derive(Default)]
struct Draft {
    records: Vec<WaitingRecord>,
    files: Vec<(String, FileEntry)>,
    /// By the id a file gives it: the type and the new id.
    names: BTreeMap<String, (String, RecordId)>,
    moved: Moved,
    /// Records and files that the user has already.
    known: usize,
    problems: Vec<String>,
}

pub(crate) async fn import(config: Config, options: ImportOptions) -> CommandResult {
    let sheets = read::sheets(&options.from)?;
    let data = UserData::open(&config, options.user).await?;
    let report = add(&data, sheets, options.again).await;
    data.close().await;
    print(&report?)
}

async fn add(data: &UserData, sheets: Vec<(String, ImportBundle)>, again: bool) -> CommandResult<String> {
    let mut draft = Draft::of(sheets);
    draft.tell_dates(&data.app);
    draft.check_records(data).await?;
    draft.check_files(data).await?;
    draft.refuse_problems()?;
    if !again {
        draft.leave_out_known(data).await?;
    }
    let known = draft.known;
    let records: Vec<UserRecord> = draft.records.into_iter().map(|waiting| waiting.kept).collect();
    let files: Vec<_> = draft.files.into_iter().map(|(_, file)| (file.path, file.content)).collect();
    data.add(&records, &files).await?;
    report(&records, files.len(), known)
}

impl Draft {
    fn of(sheets: Vec<(String, ImportBundle)>) -> Self {
        let mut draft = Self::default();
        for (name, ImportBundle { records, files }) in sheets {
            for (index, entry) in records.into_iter().enumerate() {
                draft.add(format!("{name}[{index}]"), entry);
            }
            draft.files.extend(files.into_iter().map(|file| (name.clone(), file)));
        }
        draft
    }

    fn add(&mut self, place: String, entry: RecordEntry) {
        let RecordEntry { id: name, kind, data } = entry;
        let id = fresh_id();
        if let Some(name) = name
            && self.names.insert(name.clone(), (kind.clone(), id)).is_some()
        {
            self.problems.push(format!("{place}: the id \"{name}\" is given twice"));
        }
        self.records.push(WaitingRecord { place, kept: UserRecord { id, kind, data } });
    }

    /// Puts dates in place of those that are told from today.
    fn tell_dates(&mut self, app: &App) {
        let now = SystemClock.now().to_zoned(app.zone.clone());
        for WaitingRecord { place, kept } in &mut self.records {
            let Some(kind) = app.records.get(&kept.kind) else { continue };
            match relative_dates::resolve(&kind.schema, &mut kept.data, &now) {
                Ok(places) => self.moved.entry(kept.kind.clone()).or_default().extend(places),
                Err(problem) => self.problems.push(format!("{place}: {problem}")),
            }
        }
    }

    /// Each record against its schema, and each id in it against the records that there are or will be.
    async fn check_records(&mut self, user: &UserData) -> CommandResult {
        let validators = validators(&user.app)?;
        for WaitingRecord { place, kept } in &mut self.records {
            let kind = user.app.records.get(&kept.kind);
            let (Some(kind), Some(validator)) = (kind, validators.get(kept.kind.as_str())) else {
                let known: Vec<&str> = validators.keys().copied().collect();
                let message = format!("no record type \"{}\"; there is {}", kept.kind, known.join(", "));
                self.problems.push(format!("{place}: {message}"));
                continue;
            };
            let missing = refer(user, &self.names, &kind.schema, &mut kept.data).await?;
            self.problems.extend(missing.into_iter().map(|missing| format!("{place}: {missing}")));
            if let Some(error) = validator.iter_errors(&kept.data).next() {
                let pointer = error.instance_path().to_string();
                let at = if pointer.is_empty() { pointer } else { format!(" {pointer}:") };
                self.problems.push(format!("{place}:{at} {error}"));
            }
        }
        Ok(())
    }

    async fn check_files(&mut self, user: &UserData) -> CommandResult {
        let (mut seen, mut new) = (BTreeSet::new(), Vec::new());
        for (place, file) in std::mem::take(&mut self.files) {
            let path = &file.path;
            let problem = match tools::files::check_path(path) {
                Err(message) => Some(message),
                Ok(()) if !seen.insert(path.clone()) => Some("is given twice".to_owned()),
                Ok(()) => match user.file(path).await? {
                    Some(content) if content == file.content => {
                        self.known += 1;
                        continue;
                    }
                    Some(_) => Some("the user has another file with this name".to_owned()),
                    None => None,
                },
            };
            self.problems.extend(problem.map(|problem| format!("{place}: file \"{path}\": {problem}")));
            new.push((place, file));
        }
        self.files = new;
        Ok(())
    }

    /// Keeps those records that the user has not yet; what they name is then the user's own.
    async fn leave_out_known(&mut self, user: &UserData) -> CommandResult {
        let kinds: BTreeSet<&String> = self.records.iter().map(|waiting| &waiting.kept.kind).collect();
        let mut there = Vec::new();
        for kind in kinds {
            there.extend(user.records(kind).await?);
        }
        let new: Vec<UserRecord> = self.records.iter().map(|waiting| waiting.kept.clone()).collect();
        let known = existing_records::existing_records(&new, &there, &user.app.records, &self.moved);
        self.known += known.len();
        self.records.retain(|waiting| !known.contains_key(&waiting.kept.id));
        let own: BTreeMap<String, String> =
            known.iter().map(|(new, there)| (new.to_string(), there.to_string())).collect();
        for WaitingRecord { kept, .. } in &mut self.records {
            let Some(kind) = user.app.records.get(&kept.kind) else { continue };
            each_reference(&kind.schema, &mut kept.data, &mut |_, name| {
                if let Some(own) = own.get(name) {
                    name.clone_from(own);
                }
            });
        }
        Ok(())
    }

    fn refuse_problems(&mut self) -> CommandResult {
        if self.problems.is_empty() {
            return Ok(());
        }
        let told = first_lines(std::mem::take(&mut self.problems), MAX_PROBLEMS);
        Err(format!("nothing was imported:\n  {}", told.join("\n  ")).into())
    }
}

/// Puts the new ids in place of those that the files use. Gives back what refers to nothing.
async fn refer(
    user: &UserData,
    names: &BTreeMap<String, (String, RecordId)>,
    schema: &Value,
    data: &mut Value,
) -> CommandResult<Vec<String>> {
    let mut unknown = Vec::new();
    each_reference(schema, data, &mut |kind, text| match names.get(text) {
        Some((of, id)) if of == kind => *text = id.to_string(),
        Some(_) | None => unknown.push((kind.to_owned(), text.clone())),
    });
    let mut missing = Vec::new();
    for (kind, text) in unknown {
        let is_there = match text.parse() {
            Ok(id) => user.has_record(&kind, id).await?,
            Err(_) => false,
        };
        if !is_there {
            missing.push(format!("there is no {kind} \"{text}\", neither here nor among the user's records"));
        }
    }
    Ok(missing)
}

/// Visits every text that, by the schema, is the id of a record of some type.
fn each_reference(schema: &Value, data: &mut Value, visit: &mut dyn FnMut(&str, &mut String)) {
    match data {
        Value::String(text) => {
            let format = schema.get("format").and_then(Value::as_str);
            if let Some(kind) = format.and_then(|format| format.strip_prefix("record:")) {
                visit(kind, text);
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.get("items") else { return };
            items.iter_mut().for_each(|item| each_reference(schema, item, visit));
        }
        Value::Object(fields) => {
            let Some(properties) = schema.get("properties") else { return };
            for (name, value) in fields {
                if let Some(schema) = properties.get(name) {
                    each_reference(schema, value, visit);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn report(records: &[UserRecord], files: usize, known: usize) -> CommandResult<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for record in records {
        *counts.entry(&record.kind).or_default() += 1;
    }
    let mut report = String::new();
    for (kind, count) in counts {
        writeln!(report, "{count:>6}  {kind}")?;
    }
    if files > 0 {
        writeln!(report, "{files:>6}  files")?;
    }
    if known > 0 {
        writeln!(report, "{known:>6}  already there")?;
    }
    Ok(if report.is_empty() { "there was nothing to import\n".to_owned() } else { report })
}

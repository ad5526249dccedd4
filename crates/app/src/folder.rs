//! Reads an app folder: `app.toml` for what can be set, `instructions.md` for what the model is told, `records/` for
//! what its records look like, `personas/` and `context/` for what else a prompt can hold, `tools/` for further tools.
//! The files of `documents/` are read apart, because the app is served without those that are broken.

mod answer;
mod app_path;
mod context;
mod declared_tools;
mod examples;
mod external_tools;
mod json;
mod limits;
mod markdown;
mod mcp;
mod memory;
mod plausible;
mod problems;
mod records;
mod schema;
mod settings;
mod tables;
mod targets;
#[cfg(test)]
mod tests;
mod webhooks;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::tz::TimeZone;
use protocol::{AppId, Cost};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::source::{FileText, Problem, Spanned, read_file};
use crate::{
    ANY_MODEL, App, AppBudget, Classifier, ContextRules, ImageRules, KnowledgeRules, LoopLimits, MemoryRules,
    Ranges, RecordType, Section, TargetRange, ToolRef,
};

pub use examples::{ANY_SECTION, CONTINUES, Example, Examples, check_examples, examples, learned_file};
pub use schema::{check_object_schema, tool_arguments};

use context::RawHistory;
use declared_tools::RawTools;
use limits::RawLimits;
use mcp::RawServers;
use memory::RawMemory;
use problems::Problems;
use settings::RawSettings;
use tables::{Tables, Toolset, toolset};
use targets::RawTarget;
use webhooks::RawWebhook;

/// Every app by its id.
pub type Apps = BTreeMap<AppId, Arc<App>>;

/// First segments of the server's own paths; an app of that name could not be reached.
const RESERVED: &[&str] = &[
    "v1",
    "api",
    "openai",
    "ollama",
    "anthropic",
    "mcp",
    "healthz",
    "readyz",
    "metrics",
    "openapi",
    "docs",
    "console",
    "assets",
];
const MAX_APP_ID_CHARS: usize = 64;
/// Characters that providers accept in a tool's name.
pub const MAX_TOOL_NAME_CHARS: usize = 64;
/// Tools that providers accept in one request.
pub const MAX_TOOLS: usize = 128;
const MAX_TOKENS: i64 = 10_000_000;
/// Models a failed one may be followed by.
const MAX_FALLBACKS: usize = 8;
/// Models that an app lists for others to choose from.
const MAX_MODELS: usize = 64;

/// First messages that an app may offer.
const MAX_STARTERS: usize = 8;

const MAX_STARTER_CHARS: usize = 300;
const MAX_BUDGET_TOKENS: i64 = 1_000_000_000_000;
const MAX_BUDGET_USD: f64 = 1_000_000.0;
/// Twelve hexadecimal digits tell the revisions of one app apart.
const REVISION_BYTES: usize = 6;

/// Reads every folder of `apps_dir` as an app. Files and hidden folders are left alone.
pub fn load_all(apps_dir: &Path) -> Result<Apps, Problem> {
    let folders = folders(apps_dir)?;
    folders.iter().map(|folder| load(folder).map(|app| (app.id.clone(), Arc::new(app)))).collect()
}

/// Every app folder of `apps_dir`, by name. Files and hidden folders are left alone.
pub fn folders(apps_dir: &Path) -> Result<Vec<PathBuf>, Problem> {
    let unreadable = |error: std::io::Error| {
        let remedy = "make an app with `rondo init NAME`, or set RONDO_APPS to the folder of your apps";
        Problem::of(apps_dir, format!("the apps folder cannot be read: {error}"), remedy)
    };
    let mut folders = Vec::new();
    for entry in apps_dir.read_dir().map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if path.is_dir() && !hidden {
            folders.push(path);
        }
    }
    folders.sort(); // the first problem is the same one each time
    Ok(folders)
}

/// Reads one app folder, or says the first thing that is wrong with it.
pub fn load(dir: &Path) -> Result<App, Problem> {
    check(dir).map_err(|problems| {
        let first = problems.into_iter().next();
        first.unwrap_or_else(|| Problem::of(dir, "the app cannot be read", "look at its files"))
    })
}

/// Reads one app folder, or lists its problems by file and line: the first problem of each file and of each table. Parts
/// that refer to a broken part are not reported.
pub fn check(dir: &Path) -> Result<App, Vec<Problem>> {
    let mut problems = Problems::default();
    let app = read(dir, &mut problems);
    problems.into_result(app).map_err(Problems::sorted)
}

/// The advice for a folder without an `app.toml`.
const NO_APP_FILE: &str = "create it (it may be empty), or move the folder out of the apps folder";

/// The app as far as it can be read.
fn read(dir: &Path, problems: &mut Problems) -> App {
    let id = problems.value_or_default(id(dir).map(Some)).unwrap_or_else(|| AppId::new(""));
    let file = dir.join("app.toml");
    let text = problems.value_or_default(read_file(&file, NO_APP_FILE));
    let instructions = problems.value_or_default(crate::instructions::read(&dir.join("instructions.md")));
    let title = problems.value_or_default(optional_text(&dir.join("title.md"), "say how to name a thread"));
    let source = FileText { file: &file, text: &text };
    let raw: RawApp = problems::tables(&source, problems);
    let (answer, schema) = problems.value_or_default(answer::answer(&source, dir, raw.answer));
    let (history, summarise) = problems.value_or_default(context::history(&source, dir, raw.history));
    let (personas, persona_texts) = problems.value_or_default(markdown::personas(dir, &raw.ranges));
    let files = problems.value_or_default(tables::files(dir));
    let knowledge = raw.knowledge.where_folder_is(dir);
    let first = Tables { source, tool: raw.tool, mcp: raw.mcp };
    let (raw_memory, raw_tools) = (raw.memory, raw.tools);
    let over = NeedsRecords { raw_memory, raw_tools, raw_targets: raw.targets, first, files: &files };
    let dependents = record_dependents(dir, over, problems);
    let optional = [title.as_deref(), schema.as_deref(), dependents.extract.as_deref(), summarise.as_deref()];
    let lists = [&dependents.record_texts, &persona_texts, &dependents.section_texts];
    let texts = [&*text, &*instructions].into_iter().chain(optional.into_iter().flatten());
    let texts = texts.chain(lists.into_iter().flatten().map(String::as_str));
    let texts = texts.chain(files.iter().map(|(_, text)| text.as_str()));
    // Whether there are documents is part of the app; what they say is not.
    let texts = texts.chain(knowledge.enabled.then_some("documents"));
    let contents = tables::contents(&dependents.toolset.declared);
    let revision = revision(texts.map(str::as_bytes).chain(contents.iter().map(Vec::as_slice)));
    App {
        name: problems.value_or_default(source.text("name", raw.name)).unwrap_or_else(|| id.to_string()),
        description: raw.description,
        starters: problems.value_or_default(starters(&source, raw.starters)),
        folder: dir.into(),
        revision,
        zone: problems.value_or_default(zone(&source, raw.timezone)).unwrap_or(TimeZone::UTC),
        model: problems.value_or_default(source.text("model", raw.model)),
        fallbacks: problems.value_or_default(fallbacks(&source, raw.fallbacks)),
        models: problems.value_or_default(models(&source, raw.models)),
        settings: problems.value_or_default(settings::settings(&source, raw.settings, &raw.ranges)),
        ranges: raw.ranges,
        answer,
        memory: dependents.memory,
        budget: problems.value_or_default(budget(&source, raw.budget)),
        limits: raw.r#loop,
        user_limits: problems.value_or_default(limits::limits(&source, raw.limits)),
        history,
        images: raw.images,
        context: raw.context,
        knowledge,
        personas,
        sections: dependents.sections,
        targets: dependents.targets,
        classifier: dependents.classifier,
        records: dependents.records,
        tools: dependents.tools,
        declared: dependents.toolset.declared,
        adjusted: dependents.toolset.adjusted,
        mcp: dependents.toolset.mcp,
        webhooks: problems.value_or_default(webhooks::webhooks(&source, raw.webhook)),
        id,
        instructions,
        title,
    }
}

/// Tables that refer to record types, before they are read.
struct NeedsRecords<'a> {
    raw_memory: RawMemory,
    raw_tools: Vec<Spanned<String>>,
    raw_targets: Vec<RawTarget>,
    first: Tables<'a>,
    files: &'a [(PathBuf, String)],
}

/// The parts of an app that refer to record types.
#[derive(Default)]
struct RecordDependents {
    records: BTreeMap<String, RecordType>,
    record_texts: Vec<String>,
    memory: MemoryRules,
    extract: Option<String>,
    sections: Vec<Section>,
    section_texts: Vec<String>,
    targets: Vec<TargetRange>,
    classifier: Option<Arc<Classifier>>,
    tools: Vec<ToolRef>,
    toolset: Toolset,
}

fn record_dependents(dir: &Path, over: NeedsRecords<'_>, problems: &mut Problems) -> RecordDependents {
    let NeedsRecords { raw_memory, raw_tools, raw_targets, first, files } = over;
    let source = first.source;
    let mut of_records = Problems::default();
    let (records, record_texts) = of_records.value_or_default(records::records(dir));
    let mut of_tools = Problems::default();
    let tools = of_tools.value_or_default(tools(&source, raw_tools));
    let sound = (of_records.is_empty(), of_tools.is_empty());
    problems.value_or_default(of_records.into_result(()));
    problems.value_or_default(of_tools.into_result(()));
    if !sound.0 {
        return RecordDependents { tools, ..RecordDependents::default() };
    }
    let (memory, extract) = problems.value_or_default(memory::memory(&source, dir, raw_memory, &records));
    let (sections, section_texts, classifier) = problems.value_or_default(sections(dir, &records));
    let targets = problems.value_or_default(targets::targets(&source, raw_targets, &records));
    let toolset = if sound.1 {
        problems.value_or_default(toolset(dir, first, files, &records, &tools))
    } else {
        Toolset::default()
    };
    RecordDependents {
        records,
        record_texts,
        memory,
        extract,
        sections,
        section_texts,
        targets,
        classifier,
        tools,
        toolset,
    }
}

type Sections = (Vec<Section>, Vec<String>, Option<Arc<Classifier>>);

/// The sections, the texts they were read from, and what was learned of examples for them.
fn sections(dir: &Path, records: &BTreeMap<String, RecordType>) -> Result<Sections, Problems> {
    let (sections, mut texts) = markdown::sections(dir, records)?;
    let (classifier, text) = examples::learned_classifier(dir, &sections)?.unzip();
    texts.extend(text);
    Ok((sections, texts, classifier))
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawApp {
    name: Option<Spanned<String>>,
    description: String,
    starters: Vec<Spanned<String>>,
    timezone: Option<Spanned<String>>,
    model: Option<Spanned<String>>,
    fallbacks: Vec<Spanned<String>>,
    models: Vec<Spanned<String>>,
    answer: Option<Spanned<String>>,
    tools: Vec<Spanned<String>>,
    tool: RawTools,
    mcp: RawServers,
    settings: RawSettings,
    ranges: Ranges,
    memory: RawMemory,
    budget: RawBudget,
    r#loop: LoopLimits,
    limits: RawLimits,
    history: RawHistory,
    images: ImageRules,
    context: ContextRules,
    knowledge: KnowledgeRules,
    targets: Vec<RawTarget>,
    webhook: Vec<Spanned<RawWebhook>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawBudget {
    run_tokens: Option<Spanned<i64>>,
    run_usd: Option<Spanned<f64>>,
    day_tokens: Option<Spanned<i64>>,
    day_usd: Option<Spanned<f64>>,
}

/// The id that an app has by its folder's name.
pub fn id(dir: &Path) -> Result<AppId, Problem> {
    let name = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let letters = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '-');
    if name.len() > MAX_APP_ID_CHARS
        || !name.starts_with(|c: char| c.is_ascii_lowercase())
        || !name.chars().all(letters)
    {
        let remedy = format!(
            "rename it: a lower-case letter, then lower-case letters, digits and dashes, at most {MAX_APP_ID_CHARS}"
        );
        return Err(Problem::of(dir, "the folder's name cannot be an app's id", remedy));
    }
    if RESERVED.contains(&name) {
        let message = format!("{name:?} is a path of the server itself");
        return Err(Problem::of(dir, message, "give the folder another name"));
    }
    Ok(AppId::new(name))
}

/// A prompt beside the instructions; the file may be missing, but not empty.
fn optional_text(file: &Path, purpose: &str) -> Result<Option<String>, Problem> {
    if !file.exists() {
        return Ok(None);
    }
    let text = read_file(file, "create it, or leave it out")?;
    if text.trim().is_empty() {
        return Err(Problem::of(file, "the file is empty", format!("{purpose}, or remove the file")));
    }
    Ok(Some(text.trim().to_owned()))
}

/// Returns the time zone of users who do not name their own.
fn zone(source: &FileText<'_>, raw: Option<Spanned<String>>) -> Result<Option<TimeZone>, Problem> {
    let Some(name) = raw else { return Ok(None) };
    let known = TimeZone::get(name.get_ref()).ok().filter(|zone| !zone.is_unknown());
    if let Some(zone) = known.filter(|zone| zone.iana_name().is_some()) {
        return Ok(Some(zone));
    }
    let message = format!("timezone is {:?}, which is not a known time zone", name.get_ref());
    Err(source.problem(name.span(), message, "write a name such as \"Europe/Lisbon\""))
}

fn fallbacks(source: &FileText<'_>, raw: Vec<Spanned<String>>) -> Result<Vec<String>, Problem> {
    if let Some(beyond) = raw.get(MAX_FALLBACKS) {
        let message = format!("there are more than {MAX_FALLBACKS} fallbacks");
        return Err(source.problem(beyond.span(), message, "name fewer"));
    }
    let name = |name| source.text("fallbacks", Some(name)).map(Option::unwrap_or_default);
    raw.into_iter().map(name).collect()
}

fn starters(source: &FileText<'_>, raw: Vec<Spanned<String>>) -> Result<Vec<String>, Problem> {
    if let Some(beyond) = raw.get(MAX_STARTERS) {
        let message = format!("there are more than {MAX_STARTERS} starters");
        return Err(source.problem(beyond.span(), message, "keep the best ones"));
    }
    if let Some(long) = raw.iter().find(|starter| starter.get_ref().chars().count() > MAX_STARTER_CHARS) {
        let message = format!("a starter has more than {MAX_STARTER_CHARS} characters");
        return Err(source.problem(long.span(), message, "write a shorter message"));
    }
    let text = |starter| source.text("starters", Some(starter)).map(Option::unwrap_or_default);
    raw.into_iter().map(text).collect()
}

fn models(source: &FileText<'_>, raw: Vec<Spanned<String>>) -> Result<Vec<String>, Problem> {
    if let Some(beyond) = raw.get(MAX_MODELS) {
        let message = format!("there are more than {MAX_MODELS} models");
        return Err(source.problem(
            beyond.span(),
            message,
            format!("list fewer, or allow all: [{ANY_MODEL:?}]"),
        ));
    }
    if let Some(any) = raw.iter().find(|name| name.get_ref() == ANY_MODEL).filter(|_| raw.len() > 1) {
        let message = format!("{ANY_MODEL:?} allows every model, so the others say nothing");
        return Err(source.problem(
            any.span(),
            message,
            format!("write models = [{ANY_MODEL:?}], or remove it"),
        ));
    }
    let is_pattern = |name: &&Spanned<String>| name.get_ref() != ANY_MODEL && name.get_ref().contains('*');
    if let Some(pattern) = raw.iter().find(is_pattern) {
        let message = format!("{:?} is not the name of a model", pattern.get_ref());
        return Err(source.problem(
            pattern.span(),
            message,
            format!("write each name, or allow all: [{ANY_MODEL:?}]"),
        ));
    }
    let name = |name| source.text("models", Some(name)).map(Option::unwrap_or_default);
    raw.into_iter().map(name).collect()
}

fn budget(source: &FileText<'_>, raw: RawBudget) -> Result<AppBudget, Problem> {
    let dollars = raw.run_usd.as_ref().or(raw.day_usd.as_ref());
    let dollars_line = dollars.map(|value| source.place(value.span().start).0);
    let tokens =
        |field: &str, value| source.whole_number(&format!("budget.{field}"), value, 1..=MAX_BUDGET_TOKENS);
    let cost = |field: &str, value| {
        let dollars =
            source.number(&format!("budget.{field}"), value, Bound::Excluded(0.0), MAX_BUDGET_USD)?;
        Ok(dollars.map(Cost::from_dollars))
    };
    Ok(AppBudget {
        run_tokens: tokens("run_tokens", raw.run_tokens)?,
        run_cost: cost("run_usd", raw.run_usd)?,
        day_tokens: tokens("day_tokens", raw.day_tokens)?,
        day_cost: cost("day_usd", raw.day_usd)?,
        dollars_line,
    })
}

fn tools(source: &FileText<'_>, raw: Vec<Spanned<String>>) -> Result<Vec<ToolRef>, Problem> {
    let mut seen = BTreeSet::new();
    let mut tools = Vec::new();
    for entry in raw {
        let tool = tool_ref(source, &entry)?;
        if !seen.insert(tool.name.clone()) {
            return Err(tool.problem(format!("the tool {:?} is listed twice", tool.name), "remove one"));
        }
        if seen.len() > MAX_TOOLS {
            return Err(too_many_tools(&tool));
        }
        tools.push(tool);
    }
    Ok(tools)
}

fn too_many_tools(beyond: &ToolRef) -> Problem {
    beyond.problem(format!("there are more than {MAX_TOOLS} tools"), "offer the model fewer tools")
}

/// A tool's name and the place it stands at.
fn tool_ref(source: &FileText<'_>, entry: &Spanned<String>) -> Result<ToolRef, Problem> {
    let name = entry.get_ref();
    if !is_tool_name(name) {
        let remedy = format!("write 1 to {MAX_TOOL_NAME_CHARS} letters, digits, underscores or dashes");
        return Err(source.problem(entry.span(), format!("{name:?} cannot be a tool's name"), remedy));
    }
    Ok(tool_ref_at(source, entry))
}

fn tool_ref_at(source: &FileText<'_>, entry: &Spanned<String>) -> ToolRef {
    let (line, column) = source.place(entry.span().start);
    ToolRef { file: source.file.into(), line, column, name: entry.get_ref().clone() }
}

/// Whether providers accept this name of a tool.
pub fn is_tool_name(name: &str) -> bool {
    let letters = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !name.is_empty() && name.len() <= MAX_TOOL_NAME_CHARS && name.chars().all(letters)
}

/// Lengths go in too, so that text moved from one file to the next is a change.
fn revision<'a>(contents: impl Iterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for content in contents {
        hash.update((content.len() as u64).to_be_bytes());
        hash.update(content);
    }
    hash.finalize().iter().take(REVISION_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

//! `personas/*.md` and `context/*.md`: Markdown files with front matter, each named by its file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use protocol::{PersonaSettings, Settings};
use serde_json::{Map, Value, json};

use super::problems::Problems;
use super::records::known_types;
use crate::front::Front;
use crate::section::SectionTemplate;
use crate::source::{FileText, Problem, files_in, read_file};
use crate::template::Mistake;
use crate::{Persona, Ranges, RecordType, Section, SectionData, SectionItems};

/// Files of one folder.
const MAX_FILES: usize = 100;
const MAX_NAME_CHARS: usize = 64;
const MAX_TRIGGER_CHARS: usize = 100;
const MAX_WINDOW_TOKENS: i64 = 10_000_000;
const MAX_SECTION_TOKENS: i64 = 100_000;
const DEFAULT_SECTION_TOKENS: usize = 500;
const PERSONA_KEYS: &[&str] = &[
    "name",
    "model",
    "temperature",
    "max_tokens",
    "top_p",
    "repeat_penalty",
    "frequency_penalty",
    "presence_penalty",
];
/// The highest place that a section can have among the others that are shown, and its place if it names none.
const MAX_ORDER: i64 = 1_000;
const DEFAULT_ORDER: u32 = 100;
const SECTION_KEYS: &[&str] =
    &["title", "records", "triggers", "names", "always", "min_window", "max_tokens", "order", "items"];

/// The personas by id, and the texts they were read from.
pub(super) fn personas(
    dir: &Path,
    ranges: &Ranges,
) -> Result<(BTreeMap<String, Persona>, Vec<String>), Problems> {
    let (mut personas, mut texts, mut problems) = (BTreeMap::new(), Vec::new(), Problems::default());
    for (id, file) in files(&dir.join("personas"))? {
        let read = read_file(&file, "create it")
            .and_then(|text| Ok((persona(&id, FileText { file: &file, text: &text }, ranges)?, text)));
        if let Some((persona, text)) = problems.value_or_default(read.map(Some)) {
            personas.insert(id.clone(), persona);
            texts.extend([id, text]);
        }
    }
    problems.into_result((personas, texts))
}

fn persona(id: &str, source: FileText<'_>, ranges: &Ranges) -> Result<Persona, Problem> {
    let front = Front::parse(source, PERSONA_KEYS)?;
    let prompt = front.body.trim();
    let tokens = ranges.max_tokens.low as i64..=ranges.max_tokens.high as i64;
    let settings = Settings {
        temperature: front.number("temperature", ranges.temperature)?,
        max_tokens: front.whole_number("max_tokens", tokens)?,
        top_p: front.number("top_p", ranges.top_p)?,
        frequency_penalty: front.number("frequency_penalty", ranges.frequency_penalty)?,
        presence_penalty: front.number("presence_penalty", ranges.presence_penalty)?,
        repeat_penalty: front.number("repeat_penalty", ranges.repeat_penalty)?,
        ..Settings::default()
    };
    let settings = PersonaSettings { model: front.text("model")?, settings };
    if prompt.is_empty() && settings.is_empty() {
        let remedy = "say who the persona is, and how it talks, or give it settings";
        return Err(Problem::of(source.file, "there is neither a prompt nor a setting", remedy));
    }
    let name = front.text("name")?.unwrap_or_else(|| id.to_owned());
    Ok(Persona { id: id.to_owned(), name, prompt: prompt.to_owned(), settings })
}

/// The sections in their order, then by the names of their files, and the texts they were read from.
pub(super) fn sections(
    dir: &Path,
    records: &BTreeMap<String, RecordType>,
) -> Result<(Vec<Section>, Vec<String>), Problems> {
    let (mut sections, mut texts, mut problems) = (Vec::new(), Vec::new(), Problems::default());
    for (name, file) in files(&dir.join("context"))? {
        let read = read_file(&file, "create it")
            .and_then(|text| Ok((section(&name, FileText { file: &file, text: &text }, records)?, text)));
        if let Some((section, text)) = problems.value_or_default(read.map(Some)) {
            sections.push(section);
            texts.extend([name, text]);
        }
    }
    sections.sort_by_key(|section: &Section| section.order); // those of the same place stay by name
    problems.into_result((sections, texts))
}

fn section(
    name: &str,
    source: FileText<'_>,
    records: &BTreeMap<String, RecordType>,
) -> Result<Section, Problem> {
    let front = Front::parse(source, SECTION_KEYS)?;
    let Some(title) = front.text("title")? else {
        let remedy = "begin the file with a line of three dashes, \"title: …\", and three dashes again";
        return Err(Problem::of(source.file, "the section has no title", remedy));
    };
    if front.body.trim().is_empty() {
        return Err(Problem::of(source.file, "the template is empty", "write what to make of the records"));
    }
    let types = front.list("records")?;
    if let Some(unknown) = types.iter().find(|name| !records.contains_key(*name)) {
        let message = format!("there is no record type {unknown:?}");
        return Err(front.problem("records", message, known_types(records)));
    }
    let triggers = front.list("triggers")?;
    if let Some(long) = triggers.iter().find(|trigger| trigger.chars().count() > MAX_TRIGGER_CHARS) {
        let message = format!("the trigger {long:?} has more than {MAX_TRIGGER_CHARS} characters");
        return Err(front.problem("triggers", message, "write a word or a short phrase"));
    }
    let names = front.list("names")?;
    let has_field = |field: &&String| {
        types.iter().filter_map(|name| records.get(name)).any(|record| record.property(field).is_some())
    };
    if let Some(unknown) = names.iter().find(|field| !has_field(field)) {
        let message = format!("no record of this section has a field {unknown:?}");
        return Err(front.problem("names", message, "write fields with names, such as the name of a person"));
    }
    let at_line = |mistake: Mistake| Problem {
        line: mistake.line.map(|line| line + front.body_line - 1),
        ..Problem::of(source.file, format!("the template is wrong: {}", mistake.message), mistake.remedy)
    };
    let section = Section {
        name: name.to_owned(),
        title,
        records: types,
        triggers,
        names,
        always: front.flag("always")?.unwrap_or(false),
        min_window: front.whole_number("min_window", 0..=MAX_WINDOW_TOKENS)?.unwrap_or(0),
        max_tokens: front
            .whole_number("max_tokens", 1..=MAX_SECTION_TOKENS)?
            .unwrap_or(DEFAULT_SECTION_TOKENS),
        order: front.whole_number("order", 0..=MAX_ORDER)?.unwrap_or(DEFAULT_ORDER),
        items: items(&front)?,
        template: SectionTemplate::new(front.body).map_err(at_line)?,
    };
    try_out(&section, records).map_err(at_line)?;
    Ok(section)
}

fn items(front: &Front<'_>) -> Result<SectionItems, Problem> {
    let Some(name) = front.text("items")? else { return Ok(SectionItems::default()) };
    let found = SectionItems::NAMES.iter().find(|(known, _)| *known == name);
    found.map(|(_, items)| *items).ok_or_else(|| {
        let names = SectionItems::NAMES.map(|(name, _)| name).join(" or ");
        front.problem("items", format!("items is {name:?}"), format!("write {names}"))
    })
}

/// Renders without records and with one of each type that has every field, as an unknown filter only shows when it is
/// reached.
fn try_out(section: &Section, records: &BTreeMap<String, RecordType>) -> Result<(), Mistake> {
    let made_up = records.iter().map(|(name, record)| (name.clone(), vec![example(&record.schema)]));
    for records in [BTreeMap::new(), made_up.collect()] {
        let now = Timestamp::UNIX_EPOCH;
        let data = SectionData { records: &records, now, zone: &TimeZone::UTC, targets: &[] };
        section.template.render(&section.records, &data)?;
    }
    Ok(())
}

/// A value that a schema describes, near enough for a template. The schema's depth is bounded already.
fn example(schema: &Value) -> Value {
    let choices = schema.get("enum").and_then(Value::as_array);
    if let Some(first) = choices.and_then(|choices| choices.first()) {
        return first.clone();
    }
    if let Some(fields) = schema.get("properties").and_then(Value::as_object) {
        let fields = fields.iter().map(|(name, inner)| (name.clone(), example(inner)));
        return Value::Object(fields.collect::<Map<_, _>>());
    }
    if let Some(items) = schema.get("items") {
        return json!([example(items)]);
    }
    let is = |kind: &str| schema.get("type").is_some_and(|given| given == kind);
    match schema.get("format").and_then(Value::as_str) {
        Some("date") => json!("1970-01-01"),
        Some("date-time") => json!("1970-01-01T00:00:00Z"),
        Some(_) | None if is("number") || is("integer") => json!(1),
        Some(_) | None if is("boolean") => json!(true),
        Some(_) | None => json!("example"),
    }
}

/// The Markdown files of a folder with their names, in order; none where there is no such folder.
fn files(folder: &Path) -> Result<Vec<(String, PathBuf)>, Problem> {
    let files = files_in(folder, "md", "make it a folder of Markdown files")?;
    if files.len() > MAX_FILES {
        return Err(Problem::of(folder, format!("there are more than {MAX_FILES} files"), "remove some"));
    }
    let mut named = files.into_iter().map(|file| Ok((name(&file)?, file))).collect::<Result<Vec<_>, _>>()?;
    named.sort(); // without the extension, so that "a" comes before "a-b"
    Ok(named)
}

fn name(file: &Path) -> Result<String, Problem> {
    let name = file.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !name.is_empty() && name.len() <= MAX_NAME_CHARS && name.chars().all(letters) {
        return Ok(name.to_owned());
    }
    let remedy = format!("rename it: letters, digits, underscores and dashes, at most {MAX_NAME_CHARS}");
    Err(Problem::of(file, "the file's name cannot be an id", remedy))
}

//! The template of a section: bounded in what it does and writes, and never upset by what a record holds.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Zoned;
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Value};
use serde_json::Value as Json;

use super::record_value::{MAX_RECORD_DEPTH, record_value};
use super::{MAX_SECTION_BYTES, SectionData, filters, targets};
use crate::template::{Bounded, Mistake, environment};

const NAME: &str = "section";
/// Stands where a section was cut, so that the model does not take it for the whole.
pub(super) const CUT: &str = "[There is more on record than is shown here.]";

/// A template that parses. Two are equal when their texts are.
#[derive(Clone)]
pub(crate) struct SectionTemplate {
    source: String,
    environment: Environment<'static>,
}

impl SectionTemplate {
    pub(crate) fn new(source: &str) -> Result<Self, Mistake> {
        let mut environment =
            environment(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
        environment.add_template_owned(NAME, source.to_owned())?;
        Ok(Self { source: source.to_owned(), environment })
    }

    /// The text that it writes, with no blank line at its ends or after another, and whether it wrote more than it may.
    pub(crate) fn render(&self, types: &[String], data: &SectionData<'_>) -> Result<(String, bool), Mistake> {
        let now = data.now.to_zoned(data.zone.clone());
        let values = values(types, data.records, &now);
        let mut environment = self.environment.clone();
        filters::add(&mut environment, &now);
        let targets = data.targets.iter().filter(|target| types.contains(&target.record));
        targets::add(&mut environment, targets.cloned().collect());
        let template = environment.get_template(NAME)?;
        let mut written = Bounded::new(MAX_SECTION_BYTES);
        let result = template.render_captured_to(values, &mut written).map(|_| ());
        let is_full = written.is_full;
        match result {
            Err(error) if !is_full => Err(error.into()),
            Err(_) | Ok(()) => Ok((tidy(written), is_full)),
        }
    }
}

impl fmt::Debug for SectionTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SectionTemplate").field(&self.source).finish()
    }
}

impl PartialEq for SectionTemplate {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

/// Values that a template can name: a list for each type of records, with underscores for dashes, and the time.
fn values(types: &[String], records: &BTreeMap<String, Vec<Json>>, now: &Zoned) -> Value {
    let lists = types.iter().map(|name| {
        let list = records.get(name).map(Vec::as_slice).unwrap_or_default();
        let list: Value = list.iter().map(|record| record_value(record, MAX_RECORD_DEPTH)).collect();
        (name.replace('-', "_"), list)
    });
    let time = [("now", now.datetime().to_string()), ("today", now.date().to_string())];
    let time = time.map(|(name, text)| (name.to_owned(), Value::from(text)));
    Value::from(lists.chain(time).collect::<BTreeMap<String, Value>>())
}

/// The written text without blank lines too many, and, where it was cut, up to the last whole line.
fn tidy(written: Bounded) -> String {
    let is_full = written.is_full;
    let text = written.text();
    let whole = if is_full { text.rsplit_once('\n').map_or("", |(whole, _)| whole) } else { &text };
    let mut lines: Vec<&str> = Vec::new();
    for line in whole.lines().map(str::trim_end) {
        let follows_blank = lines.last().is_none_or(|last| last.is_empty());
        if !(line.is_empty() && follows_blank) {
            lines.push(line);
        }
    }
    if lines.last().is_some_and(|last| last.is_empty()) {
        lines.pop();
    }
    lines.join("\n")
}

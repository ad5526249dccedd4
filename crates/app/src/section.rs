//! A section of an app's own context: a template over records, and when it belongs into a prompt.

mod filters;
mod moment;
mod readings;
mod record_value;
mod shorten;
mod targets;
mod template;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;

use crate::TargetRange;

pub use shorten::{SectionItems, SectionText, ShortSection};
pub(crate) use template::SectionTemplate;

/// Bytes that one section may write, before it is made to fit.
pub(crate) const MAX_SECTION_BYTES: usize = 128 * 1024;

/// A part of the prompt that an app fills from the user's records.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// The file's name.
    pub name: String,
    pub title: String,
    /// Types of records that its template reads.
    pub records: Vec<String>,
    /// Words or phrases of a message that call for it.
    pub triggers: Vec<String>,
    /// Fields of its records that hold names; a message that says one calls for it.
    pub names: Vec<String>,
    /// Whether every prompt has it.
    pub always: bool,
    /// Tokens that the model's window must have.
    pub min_window: u32,
    /// Its place among those that are shown.
    pub order: u32,
    pub max_tokens: usize,
    /// The units that are shown completely or not at all.
    pub items: SectionItems,
    pub(crate) template: SectionTemplate,
}

/// The data that a section is filled with.
#[derive(Debug, Clone, Copy)]
pub struct SectionData<'a> {
    /// By type.
    pub records: &'a BTreeMap<String, Vec<Value>>,
    pub now: Timestamp,
    /// The user's.
    pub zone: &'a TimeZone,
    /// The target ranges of the app.
    pub targets: &'a [TargetRange],
}

impl Section {
    /// The title and what the template makes of the records; empty when it has nothing to say. The error is the
    /// template's, in words.
    pub fn render(&self, data: &SectionData<'_>) -> Result<SectionText, String> {
        let (body, is_cut) =
            self.template.render(&self.records, data).map_err(|mistake| mistake.to_string())?;
        let only_title = body.strip_suffix(':').unwrap_or(&body) == self.title;
        let body = if only_title { "" } else { body.as_str() };
        Ok(SectionText::new(&self.title, body, self.items, is_cut))
    }

    /// The text that a message is compared with to find out by meaning whether it calls for this section.
    pub fn text_to_compare(&self) -> String {
        if self.triggers.is_empty() {
            return self.title.clone();
        }
        format!("{}: {}", self.title, self.triggers.join(", "))
    }
}

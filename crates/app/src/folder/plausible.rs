//! `plausible` of a `[tool.NAME]`: which arguments need no approval.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::declared_tools::ToolTable;
use super::json::InOrder;
use super::records::check_field;
use crate::RecordType;
use crate::Within;
use crate::plausible::Plausible;
use crate::source::{Problem, Spanned};

/// Kinds of arguments that one tool may expect.
const MAX_PLAUSIBLE: usize = 100;

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawPlausible {
    when: Option<Spanned<InOrder>>,
    within: BTreeMap<Spanned<String>, Spanned<[f64; 2]>>,
}

impl ToolTable<'_> {
    /// `record` is what the tool is about, if it is about records: then the arguments are its fields.
    pub(super) fn plausible(
        &self,
        raw: Vec<RawPlausible>,
        record: Option<&RecordType>,
    ) -> Result<Vec<Plausible>, Problem> {
        if raw.len() > MAX_PLAUSIBLE {
            let message = format!("{} has more than {MAX_PLAUSIBLE} entries", self.field("plausible"));
            return Err(self.problem(message, "combine some of them"));
        }
        raw.into_iter().map(|raw| self.plausible_arguments(raw, record)).collect()
    }

    fn plausible_arguments(
        &self,
        raw: RawPlausible,
        record: Option<&RecordType>,
    ) -> Result<Plausible, Problem> {
        let when = raw.when.map(|when| self.expected_values(when, record)).transpose()?.unwrap_or_default();
        let mut within = BTreeMap::new();
        for (name, range) in raw.within {
            if let Some(record) = record {
                check_field(&self.source, record, name.get_ref(), name.span())?;
            }
            let [low, high] = *range.get_ref();
            if !(low.is_finite() && high.is_finite() && low <= high) {
                let message =
                    format!("{}.{} is [{low}, {high}]", self.field("plausible.within"), name.get_ref());
                let remedy = "write the lowest and the highest number";
                return Err(self.source.problem(range.span(), message, remedy));
            }
            within.insert(name.into_inner(), Within { low, high });
        }
        if when.is_empty() && within.is_empty() {
            let message = format!("an entry of {} has no condition", self.field("plausible"));
            return Err(self.problem(message, "add when = { … } or within = { … }, or remove it"));
        }
        Ok(Plausible { when, within })
    }

    fn expected_values(
        &self,
        raw: Spanned<InOrder>,
        record: Option<&RecordType>,
    ) -> Result<Map<String, Value>, Problem> {
        let (span, field) = (raw.span(), self.field("plausible.when"));
        let at = |message: String, remedy: &str| self.source.problem(span.clone(), message, remedy);
        let Value::Object(when) = raw.into_inner().0 else {
            return Err(at(format!("{field} is not a table"), "write { ARGUMENT = VALUE }"));
        };
        if let Some(record) = record {
            when.keys().try_for_each(|name| check_field(&self.source, record, name, span.clone()))?;
        }
        match when.iter().find(|(_, wanted)| wanted.as_array().is_some_and(Vec::is_empty)) {
            Some((name, _)) => Err(at(format!("{field}.{name} allows no value"), "list the allowed values")),
            None => Ok(when),
        }
    }
}

//! `[[targets]]`: ranges that readings among the app's records are held against.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::declared_tools::json;
use super::records::{check_field, record_type};
use crate::source::{FileText, Problem, Spanned};
use crate::{RecordType, TargetRange};

const MAX_TARGETS: usize = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTarget {
    record: Spanned<String>,
    field: Spanned<String>,
    #[serde(default)]
    r#where: BTreeMap<Spanned<String>, toml::Value>,
    low: Option<Spanned<f64>>,
    high: Option<Spanned<f64>>,
}

/// The targets in the order of the file: the first that fits is the one that counts.
pub(super) fn targets(
    source: &FileText<'_>,
    raw: Vec<RawTarget>,
    types: &BTreeMap<String, RecordType>,
) -> Result<Vec<TargetRange>, Problem> {
    if let Some(beyond) = raw.get(MAX_TARGETS) {
        let message = format!("there are more than {MAX_TARGETS} targets");
        return Err(source.problem(beyond.record.span(), message, "combine some of them"));
    }
    raw.into_iter().map(|raw| target(source, raw, types)).collect()
}

fn target(
    source: &FileText<'_>,
    raw: RawTarget,
    types: &BTreeMap<String, RecordType>,
) -> Result<TargetRange, Problem> {
    let record = record_type(source, types, &raw.record)?;
    for field in std::iter::once(&raw.field).chain(raw.r#where.keys()) {
        check_field(source, record, field.get_ref(), field.span())?;
    }
    let finite = |end: &Option<Spanned<f64>>| end.as_ref().is_none_or(|end| end.get_ref().is_finite());
    let ends = (raw.low.as_ref().map(|low| *low.get_ref()), raw.high.as_ref().map(|high| *high.get_ref()));
    let in_order = match ends {
        (Some(low), Some(high)) => low <= high,
        (None, None) => false,
        (Some(_), None) | (None, Some(_)) => true,
    };
    if !in_order || !finite(&raw.low) || !finite(&raw.high) {
        let message = format!("the target of {:?} is not a range", raw.field.get_ref());
        let remedy = "write low, high or both, with low not above high";
        return Err(source.problem(raw.field.span(), message, remedy));
    }
    let said = raw.r#where.into_iter();
    let matching = said.filter_map(|(field, value)| Some((field.into_inner(), json(value)?))).collect();
    Ok(TargetRange {
        record: raw.record.into_inner(),
        field: raw.field.into_inner(),
        matching,
        low: ends.0,
        high: ends.1,
    })
}

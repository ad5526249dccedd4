//! `answer`: words, an object that cites memories, or an object that a schema beside `app.toml` describes.

use std::path::Path;

use super::schema::{Objects, schema};
use crate::AnswerForm;
use crate::source::{FileText, Problem, Spanned, read_file};

pub(super) fn answer(
    source: &FileText<'_>,
    dir: &Path,
    raw: Option<Spanned<String>>,
) -> Result<(AnswerForm, Option<String>), Problem> {
    let Some(raw) = raw else { return Ok((AnswerForm::Text, None)) };
    match raw.get_ref().as_str() {
        "text" => Ok((AnswerForm::Text, None)),
        "structured" => Ok((AnswerForm::Structured, None)),
        file if is_schema_file(file) => {
            let text = read_file(&dir.join(file), "create it, or write \"text\" or \"structured\"")?;
            let schema = schema(&dir.join(file), &text, Objects::ClosedAndWhole)?;
            let name = file.trim_end_matches(".json").replace('.', "_");
            Ok((AnswerForm::Schema { name, schema }, Some(text)))
        }
        other => {
            let remedy = "write \"text\", \"structured\", or the name of a JSON Schema file in this folder";
            Err(source.problem(raw.span(), format!("answer is {other:?}"), remedy))
        }
    }
}

fn is_schema_file(name: &str) -> bool {
    let stem = name.strip_suffix(".json").unwrap_or_default();
    !stem.is_empty()
        && stem.len() <= 60
        && stem.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

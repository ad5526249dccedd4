//! `instructions.md`: the system prompt, in which what is about tools can be left out for a model that gets none.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, UndefinedBehavior, Value};

use crate::source::{Problem, read_file};
use crate::template::{Mistake, environment};

/// The only name that a template of instructions knows: whether tools are on offer.
const TOOLS: &str = "tools";

/// The environment of all these templates. Making an environment takes longer than rendering a text with it.
static ENVIRONMENT: LazyLock<Result<Environment<'static>, Error>> = LazyLock::new(new_environment);

fn new_environment() -> Result<Environment<'static>, Error> {
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?;
    let mut environment = environment(syntax);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    Ok(environment)
}

/// Reads the file. The text must not be empty, neither with tools nor without.
pub(crate) fn read(file: &Path) -> Result<String, Problem> {
    let text = read_file(file, "create it, with the instructions for the model")?;
    let text = text.trim().to_owned();
    for tools in [true, false] {
        let told = render(&text, tools).map_err(|mistake| Problem {
            line: mistake.line,
            ..Problem::of(file, mistake.message, mistake.remedy)
        })?;
        if told.trim().is_empty() {
            let message = if text.is_empty() {
                "the file is empty"
            } else {
                "the file has no text for a model without tools"
            };
            return Err(Problem::of(file, message, "write what the model is to do, and how"));
        }
    }
    Ok(text)
}

/// The instructions as a model reads them that is offered tools, or none.
pub fn instructions_told(text: &str, tools: bool) -> Cow<'_, str> {
    render(text, tools).unwrap_or(Cow::Borrowed(text))
}

/// A text that asks nothing about tools stays as it is, even if it has braces.
fn render(text: &str, tools: bool) -> Result<Cow<'_, str>, Mistake> {
    if !is_template(text) {
        return Ok(Cow::Borrowed(text));
    }
    let values = Value::from(BTreeMap::from([(TOOLS.to_owned(), Value::from(tools))]));
    let told = match &*ENVIRONMENT {
        Ok(environment) => environment.render_str(text, values)?,
        Err(_) => new_environment()?.render_str(text, values)?,
    };
    Ok(Cow::Owned(told.trim().to_owned()))
}

/// Whether it asks somewhere if there are tools.
fn is_template(text: &str) -> bool {
    let asks = |rest: &str| {
        let condition = rest.trim_start_matches('-').trim_start().strip_prefix("if ").map(str::trim_start);
        let condition = condition.map(|condition| condition.strip_prefix("not ").unwrap_or(condition));
        condition.is_some_and(|condition| condition.trim_start().starts_with(TOOLS))
    };
    text.split("{%").skip(1).any(asks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_about_tools_is_left_out_where_there_are_none() {
        let text = "Help.\n\n{% if tools %}\nUse `calculate`.\n{% else %}\nYou cannot look.\n{% endif %}\n\nBe brief.";
        assert_eq!(instructions_told(text, true), "Help.\n\nUse `calculate`.\n\nBe brief.");
        assert_eq!(instructions_told(text, false), "Help.\n\nYou cannot look.\n\nBe brief.");
        let inline = "Look{% if tools %} with a tool{% endif %}.{%- if not tools %} Ask.{% endif %}";
        assert_eq!(instructions_told(inline, true), "Look with a tool.");
        assert_eq!(instructions_told(inline, false), "Look. Ask.");
    }

    #[test]
    fn braces_of_other_texts_mean_nothing() {
        for text in ["Write {{ name }}.", "{% raw", "{# a #} {% if weather %}", "{%"] {
            assert_eq!(instructions_told(text, false), text);
        }
    }

    #[test]
    fn a_mistake_is_told_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("instructions.md");
        for (text, line, part) in [
            ("Help.\n{% if tools %}\nUse them.", Some(3), "end of input"),
            ("Help.\n{% if tools %}{{ user }}{% endif %}", Some(2), "undefined"),
            ("{% if tools %}Help.{% endif %}", None, "has no text for a model without tools"),
            (" \n", None, "empty"),
        ] {
            std::fs::write(&file, text).unwrap();
            let problem = read(&file).unwrap_err();
            assert_eq!(problem.line, line, "{problem}");
            assert!(problem.message.contains(part), "{problem}");
        }
    }
}

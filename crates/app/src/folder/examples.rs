//! `context/examples.toml`, messages and the sections that each needs, and `context/learned.json`, what was learned of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::source::{FileText, Problem, Spanned, read_file};
use crate::{App, Classifier, Section};

/// The matter of a message that needs any section at all.
pub const ANY_SECTION: &str = "any";
/// The matter of a message that only means something after another one.
pub const CONTINUES: &str = "continues";
/// In examples: no section is needed.
const NOTHING: &str = "nothing";
/// Texts that one line with words in braces becomes.
const MAX_VARIANTS: usize = 6;
/// Texts that all lines become.
const MAX_EXAMPLES: usize = 30_000;

/// The examples of an app, with words in place of their names.
#[derive(Debug, Clone, PartialEq)]
pub struct Examples {
    /// Names them: equal examples, equal hash.
    pub hash: String,
    pub all: Vec<Example>,
}

impl Examples {
    /// Whether the message at this place is the first that its line became.
    pub fn is_first_of_line(&self, at: usize) -> bool {
        let line = |at: usize| self.all.get(at).map(|example| example.line);
        at.checked_sub(1).is_none_or(|before| line(before) != line(at))
    }

    /// The first message of each line.
    pub fn first_of_lines(&self) -> impl Iterator<Item = &Example> {
        self.all.iter().enumerate().filter(|(at, _)| self.is_first_of_line(*at)).map(|(_, example)| example)
    }
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    pub text: String,
    /// Sections that it needs, by name.
    pub sections: Vec<String>,
    /// The message only means something after another message.
    pub continues: bool,
    /// The line it was made of, counted from 0: those of one line are alike.
    pub line: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawExamples {
    #[serde(default)]
    words: BTreeMap<String, Vec<String>>,
    examples: Vec<RawGroup>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGroup {
    sections: Vec<Spanned<String>>,
    lines: Spanned<String>,
}

fn examples_file(dir: &Path) -> PathBuf {
    dir.join("context/examples.toml")
}

/// Returns the file that keeps what was learned of an app's examples.
pub fn learned_file(dir: &Path) -> PathBuf {
    dir.join("context/learned.json")
}

/// The app's examples; none where it has no such file.
pub fn examples(app: &App) -> Result<Option<Examples>, Problem> {
    let file = examples_file(&app.folder);
    if !file.exists() {
        return Ok(None);
    }
    let text = read_file(&file, "create it")?;
    let source = FileText { file: &file, text: &text };
    let raw: RawExamples = source.toml()?;
    let mut slots = Slots { words: &raw.words, next: BTreeMap::new() };
    let (mut all, mut line) = (Vec::new(), 0);
    for group in &raw.examples {
        let (sections, continues) = needed_sections(&source, &group.sections, &app.sections)?;
        for text in group.lines.get_ref().lines().map(str::trim).filter(|text| !text.is_empty()) {
            let variants = slots.variants(text).map_err(|unknown| {
                let known: Vec<&str> = raw.words.keys().map(String::as_str).collect();
                let message = format!("there are no words {unknown:?} for the line {text:?}");
                let remedy = format!("add them under [words], or use one of {}", known.join(", "));
                source.problem(group.lines.span(), message, remedy)
            })?;
            let example = |text| Example { text, sections: sections.clone(), continues, line };
            all.extend(variants.into_iter().map(example));
            line += 1;
        }
    }
    if all.len() > MAX_EXAMPLES {
        let message = format!("the lines make {} messages, more than {MAX_EXAMPLES}", all.len());
        return Err(Problem::of(&file, message, "write fewer"));
    }
    Ok(Some(Examples { hash: hash(&text), all }))
}

/// The sections of a group, and whether it is about messages that continue.
fn needed_sections(
    source: &FileText<'_>,
    named: &[Spanned<String>],
    sections: &[Section],
) -> Result<(Vec<String>, bool), Problem> {
    let is_section = |name: &str| sections.iter().any(|section| section.name == name);
    let alone = |name: &str| named.len() == 1 && matches!(name, NOTHING | CONTINUES);
    let stranger = named.iter().find(|name| !is_section(name.get_ref()) && !alone(name.get_ref()));
    let names: Vec<String> = named.iter().map(|name| name.get_ref().clone()).collect();
    if let Some(stranger) = stranger {
        let message = format!("there is no section {:?}", stranger.get_ref());
        let known: Vec<&str> = sections.iter().map(|section| section.name.as_str()).collect();
        let remedy = format!("use some of {}, or {NOTHING:?} or {CONTINUES:?} alone", known.join(", "));
        return Err(source.problem(stranger.span(), message, remedy));
    }
    let continues = names.iter().any(|name| name == CONTINUES);
    Ok((names.into_iter().filter(|name| is_section(name)).collect(), continues))
}

/// Words that stand for their names in braces, taken in turn over all lines, so that each is used.
struct Slots<'a> {
    words: &'a BTreeMap<String, Vec<String>>,
    next: BTreeMap<&'a str, usize>,
}

impl<'a> Slots<'a> {
    /// The texts that a line becomes, or the name that stands for nothing.
    fn variants(&mut self, line: &str) -> Result<Vec<String>, String> {
        let names = line.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0));
        let mut most = 1;
        for name in names {
            let words = self.words.get(name).filter(|words| !words.is_empty()).ok_or(name)?;
            most = most.max(words.len().min(MAX_VARIANTS));
        }
        Ok((0..most).map(|_| self.fill_line(line)).collect())
    }

    fn fill_line(&mut self, line: &str) -> String {
        let mut out = String::with_capacity(line.len());
        let mut rest = line;
        while let Some((before, (name, after))) =
            rest.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
        {
            out.push_str(before);
            out.push_str(self.word(name));
            rest = after;
        }
        out.push_str(rest);
        out
    }

    fn word(&mut self, name: &str) -> &'a str {
        let Some((name, words)) = self.words.get_key_value(name) else { return "" };
        let next = self.next.entry(name).or_default();
        let word = words.get(*next % words.len().max(1));
        *next += 1;
        word.map_or("", String::as_str)
    }
}

/// The learned weights, and the text they were read from; none where there is no such file.
pub(super) fn learned_classifier(
    dir: &Path,
    sections: &[Section],
) -> Result<Option<(Arc<Classifier>, String)>, Problem> {
    let file = learned_file(dir);
    if !file.exists() {
        return Ok(None);
    }
    let remedy = "make it again with `rondo apps learn`, or remove it";
    let text = read_file(&file, remedy)?;
    let broken =
        |words: String| Problem::of(&file, format!("the learned classifier cannot be used: {words}"), remedy);
    let classifier = Classifier::parse(&text).map_err(broken)?;
    let is_known = |name: &str| {
        matches!(name, ANY_SECTION | CONTINUES) || sections.iter().any(|section| section.name == name)
    };
    if let Some(stranger) = classifier.matters.iter().find(|matter| !is_known(&matter.name)) {
        return Err(broken(format!("there is no section {:?}", stranger.name)));
    }
    if !classifier.matters.iter().any(|matter| matter.name == ANY_SECTION) {
        return Err(broken(format!("it has no class {ANY_SECTION:?}")));
    }
    Ok(Some((Arc::new(classifier), text)))
}

/// A problem with the examples of an app, or that the weights were learned from other examples.
pub fn check_examples(app: &App) -> Option<Problem> {
    let examples = match examples(app) {
        Ok(examples) => examples?,
        Err(problem) => return Some(problem),
    };
    let file = learned_file(&app.folder);
    let remedy = format!("run `rondo apps learn {}`", app.id);
    match &app.classifier {
        None => Some(Problem::of(&file, "the examples have not been learned yet", remedy)),
        Some(classifier) if classifier.examples != examples.hash => {
            Some(Problem::of(&file, "the examples have changed since they were learned", remedy))
        }
        Some(_) => None,
    }
}

fn hash(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

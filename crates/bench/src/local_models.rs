//! Small models beside each other: thirty questions with a rule for each, and messages that do or do not need a tool.
//!
//! Constants were chosen by the messages marked "tune"; the figures are of those marked "report".

mod rules;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use local::chat::{LocalChat, LocalChatOptions};
use model::{AnswerPiece, ChatModel, ModelRequest, PromptMessage, ToolSpec};
use protocol::{Settings, SystemClock, Usage};
use serde_json::Value;
use tools::Catalog;

use crate::local::BenchFailure;

const LIST: &str = include_str!("../data/local_models.json");
const SYSTEM: &str = "You are a helpful assistant. Answer briefly.";
/// Tokens of the longest answer.
const ANSWER_TOKENS: u32 = 120;
const CONTEXT: usize = 4096;
/// The app of the tutorial.
const GARDEN: &str = "garden";
const MEGABYTE: f64 = 1e6;

struct Options {
    set: String,
    misses: bool,
    files: Vec<PathBuf>,
}

/// The answer of a model to one request.
#[derive(Default)]
struct Heard {
    text: String,
    called: Option<String>,
    usage: Usage,
    first: Duration,
    took: Duration,
}

/// The figures of one model.
#[derive(Default)]
struct Score {
    plain: usize,
    plain_of: usize,
    called: usize,
    needed: usize,
    false_calls: usize,
    others: usize,
    written: u64,
    writing: Duration,
    first: Duration,
    misses: String,
}

pub(crate) async fn run(options: &[String]) -> Result<String, BenchFailure> {
    let options = Options::read(options)?;
    let list: Value = serde_json::from_str(LIST)?;
    let mut report = String::from(
        "| file | size, MB | 30 questions | tool calls of those needed | calls of others | first token, ms | tokens/s |\n\
         |---|---|---|---|---|---|---|\n",
    );
    let mut misses = String::new();
    for file in &options.files {
        let chat =
            LocalChat::load(file, &LocalChatOptions { context: CONTEXT, ..LocalChatOptions::default() })?;
        let score = judge(&chat, &list, &options.set).await?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let size = std::fs::metadata(file)?.len() as f64 / MEGABYTE;
        score.line(&mut report, &name, size)?;
        writeln!(misses, "\n{name}\n{}", score.misses)?;
    }
    Ok(if options.misses { format!("{report}{misses}") } else { report })
}

impl Options {
    fn read(arguments: &[String]) -> Result<Self, BenchFailure> {
        let mut options = Self { set: "report".into(), misses: false, files: Vec::new() };
        for argument in arguments {
            match argument.as_str() {
                "--tune" => options.set = "tune".into(),
                "--misses" => options.misses = true,
                file if Path::new(file).is_file() => options.files.push(file.into()),
                other => return Err(format!("`eval local-models` has no option or file {other}").into()),
            }
        }
        if options.files.is_empty() {
            return Err("name the .gguf files to compare, such as data/models/*/model.gguf".into());
        }
        Ok(options)
    }
}

async fn judge(chat: &LocalChat, list: &Value, set: &str) -> Result<Score, BenchFailure> {
    let mut score = Score::default();
    for question in array(list, "plain") {
        let text = field(question, "text");
        let heard = ask(chat, SYSTEM.into(), text, Arc::default()).await?;
        score.written += heard.usage.output_tokens;
        score.writing += heard.took.saturating_sub(heard.first);
        score.first += heard.first;
        score.plain_of += 1;
        if rules::holds(question.get("rule").unwrap_or(&Value::Null), &heard.text) {
            score.plain += 1;
        } else {
            writeln!(score.misses, "  {text} -> {:?}", heard.text)?;
        }
    }
    for question in array(list, "tools").filter(|question| field(question, "set") == set) {
        judge_call(chat, question, &mut score).await?;
    }
    Ok(score)
}

async fn judge_call(chat: &LocalChat, question: &Value, score: &mut Score) -> Result<(), BenchFailure> {
    let (text, tools) = (field(question, "text"), tools_of(field(question, "app"))?);
    let heard = ask(chat, String::new(), text, tools).await?;
    let wanted: Vec<&str> = array(question, "call").filter_map(Value::as_str).collect();
    let called = heard.called.as_deref();
    let is_right = match called {
        Some(name) => wanted.contains(&name),
        None => wanted.is_empty(),
    };
    if wanted.is_empty() {
        score.others += 1;
        score.false_calls += usize::from(!is_right);
    } else {
        score.needed += 1;
        score.called += usize::from(is_right);
    }
    if !is_right {
        writeln!(score.misses, "  {text} -> called {called:?}, not {wanted:?}")?;
    }
    Ok(())
}

impl Score {
    fn line(&self, report: &mut String, name: &str, size: f64) -> Result<(), std::fmt::Error> {
        let first = self.first.as_millis() / (self.plain_of.max(1) as u128);
        let pace = self.written as f64 / self.writing.as_secs_f64().max(1e-9);
        writeln!(
            report,
            "| {name} | {size:.0} | {} of {} | {} of {} | {} of {} | {first} | {pace:.0} |",
            self.plain, self.plain_of, self.called, self.needed, self.false_calls, self.others
        )
    }
}

/// The answer, without its words if tools are on offer: only the decision counts then.
async fn ask(
    chat: &LocalChat,
    system: String,
    text: &str,
    tools: Arc<[ToolSpec]>,
) -> Result<Heard, BenchFailure> {
    let max_tokens = Some(if tools.is_empty() { ANSWER_TOKENS } else { 1 });
    let settings = Settings { temperature: Some(0.0), max_tokens, ..Settings::default() };
    let messages = vec![PromptMessage::User(text.into())];
    let request = ModelRequest { settings, tools, ..ModelRequest::new("local", system, messages) };
    let begun = Instant::now();
    let mut pieces = chat.stream(&request).await?;
    let mut heard = Heard::default();
    while let Some(piece) = pieces.next().await {
        match piece? {
            AnswerPiece::Text(text) => {
                if heard.text.is_empty() {
                    heard.first = begun.elapsed();
                }
                heard.text.push_str(&text);
            }
            AnswerPiece::CallStart { name, .. } => heard.called = Some(name),
            AnswerPiece::Usage(usage) => heard.usage = usage,
            AnswerPiece::CallInput { .. }
            | AnswerPiece::Reasoning(_)
            | AnswerPiece::CallsVoid
            | AnswerPiece::Model(_)
            | AnswerPiece::Provider(_)
            | AnswerPiece::Finish(_) => {}
        }
    }
    heard.took = begun.elapsed();
    Ok(heard)
}

/// The tools of an app in the repository, or of the app that the tutorial makes.
fn tools_of(app: &str) -> Result<Arc<[ToolSpec]>, BenchFailure> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let catalog = Catalog::builtin(Arc::new(SystemClock));
    let folder = tempfile::tempdir()?;
    let path = if app == GARDEN { garden(&root, folder.path())? } else { root.join("apps").join(app) };
    Ok(catalog.registry(&app::load(&path)?, &[])?.specs())
}

/// Writes the files that the tutorial shows.
fn garden(root: &Path, folder: &Path) -> Result<PathBuf, BenchFailure> {
    let page = std::fs::read_to_string(root.join("docs/tutorial.md"))?;
    for block in page.split("\n```") {
        let (head, text) = block.split_once('\n').unwrap_or_default();
        let Some(file) = head.split(' ').nth(1).filter(|file| file.starts_with("apps/garden/")) else {
            continue;
        };
        let path = folder.join(file);
        std::fs::create_dir_all(path.parent().unwrap_or(folder))?;
        std::fs::write(path, text)?;
    }
    Ok(folder.join("apps/garden"))
}

fn array<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

fn field<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

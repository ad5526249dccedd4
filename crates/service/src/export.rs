//! A thread as a file: Markdown of the branch that is shown, or JSON of all messages. It is made page by page, so that a
//! long thread is never in memory as a whole.

use std::fmt::Write as _;

use jiff::Timestamp;
use protocol::{Message, Principal, Role, RunStatus, Seq, Source, ThreadId, ThreadView};
use serde_json::Value;
use store::{PageOf, PageRows, ShownMessage};

use crate::messages::view;
use crate::{Error, Service};

/// Messages that are read at a time.
const MESSAGES_PER_PART: usize = 50;

/// Characters of a call's arguments, and of its result, in Markdown.
const MAX_CALL_CHARS: usize = 160;

/// Characters of a file's name without its ending.
const MAX_NAME_CHARS: usize = 60;

/// The name of a file whose thread has no title that could be one.
const PLAIN_NAME: &str = "conversation";

/// The title of a thread without one.
const PLAIN_TITLE: &str = "Conversation";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadFormat {
    /// For people: the branch that is shown.
    Markdown,
    /// For programs: all messages.
    Json,
}

/// A file that is being made.
pub struct ThreadExport {
    service: Service,
    principal: Principal,
    thread: ThreadView,
    format: ThreadFormat,
    stage: ExportStage,
}

/// The part of the file that comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExportStage {
    Beginning,
    /// The messages after a place in the log.
    Messages {
        after: Option<Seq>,
    },
    Ending,
    Done,
}

impl Service {
    /// The format of this name; JSON when absent.
    pub fn thread_format(name: Option<&str>) -> Result<ThreadFormat, Error> {
        match name {
            None | Some("json") => Ok(ThreadFormat::Json),
            Some("markdown") => Ok(ThreadFormat::Markdown),
            Some(_) => Err(Error::invalid("format", "must be json or markdown")),
        }
    }

    pub async fn export_thread(
        &self,
        principal: &Principal,
        thread: ThreadId,
        format: ThreadFormat,
    ) -> Result<ThreadExport, Error> {
        let thread = self.thread(principal, thread).await?;
        let (service, principal) = (self.clone(), principal.clone());
        Ok(ThreadExport { service, principal, thread, format, stage: ExportStage::Beginning })
    }
}

impl ThreadExport {
    /// A file name of ASCII letters, digits and dashes, made from any title.
    pub fn file_name(&self) -> String {
        let ending = match self.format {
            ThreadFormat::Markdown => "md",
            ThreadFormat::Json => "json",
        };
        format!("{}.{ending}", plain_name(self.thread.title.as_deref().unwrap_or_default()))
    }

    /// The next part of the file; none at its end. [`Error::NotFound`] once the thread is deleted.
    pub async fn next_part(&mut self) -> Result<Option<String>, Error> {
        match self.stage {
            ExportStage::Beginning => {
                self.stage = ExportStage::Messages { after: None };
                Ok(Some(self.beginning()?))
            }
            ExportStage::Messages { after } => {
                let page = self.read(after).await?;
                let last = page.rows.last().map(|shown| shown.row.seq).filter(|_| page.more);
                self.stage =
                    last.map_or(ExportStage::Ending, |last| ExportStage::Messages { after: Some(last) });
                let messages = page.rows.into_iter().filter_map(view);
                self.part(messages, after.is_none()).map(Some)
            }
            ExportStage::Ending => {
                self.stage = ExportStage::Done;
                Ok(Some(if self.format == ThreadFormat::Json { "\n]}\n".into() } else { String::new() }))
            }
            ExportStage::Done => Ok(None),
        }
    }

    /// The messages that were there when the export began.
    async fn read(&self, after: Option<Seq>) -> Result<PageRows<ShownMessage>, Error> {
        let (store, thread) = (self.service.store(), self.thread.id);
        agent::thread_row(store, &self.principal, thread).await?;
        let page = PageOf { after, limit: MESSAGES_PER_PART };
        match (self.format, self.thread.head_id) {
            (ThreadFormat::Json, _) => Ok(store.all_messages(thread, self.thread.last_seq, page).await?),
            (ThreadFormat::Markdown, Some(head)) => Ok(store.messages(thread, head, page).await?),
            (ThreadFormat::Markdown, None) => Ok(PageRows { rows: Vec::new(), more: false }),
        }
    }

    fn beginning(&self) -> Result<String, Error> {
        match self.format {
            ThreadFormat::Markdown => Ok(markdown_head(&self.thread)),
            ThreadFormat::Json => {
                let exported_at = json(&self.service.now())?;
                let thread = json(&self.thread)?;
                Ok(format!("{{\"exportedAt\":{exported_at},\"thread\":{thread},\"messages\":["))
            }
        }
    }

    fn part(&self, messages: impl Iterator<Item = Message>, is_first: bool) -> Result<String, Error> {
        let mut part = String::new();
        for (number, message) in messages.enumerate() {
            match self.format {
                ThreadFormat::Markdown => part.push_str(&markdown(&message)),
                ThreadFormat::Json => {
                    part.push_str(if is_first && number == 0 { "\n" } else { ",\n" });
                    part.push_str(&json(&message)?);
                }
            }
        }
        Ok(part)
    }
}

fn json(value: &impl serde::Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| {
        tracing::error!(%error, "a thread could not be written as JSON");
        Error::Internal
    })
}

/// The letters and digits of a title, with dashes between its words.
fn plain_name(title: &str) -> String {
    let words = title.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let name: String = words.collect::<Vec<_>>().join("-").to_ascii_lowercase();
    let name: String = name.chars().take(MAX_NAME_CHARS).collect();
    let name = name.trim_end_matches('-');
    if name.is_empty() { PLAIN_NAME.to_owned() } else { name.to_owned() }
}

fn markdown_head(thread: &ThreadView) -> String {
    let title = thread.title.as_deref().map_or_else(|| PLAIN_TITLE.to_owned(), in_a_line);
    let (begun, used) = (day_and_time(thread.created_at), day_and_time(thread.updated_at));
    format!("# {title}\n\nApp: {}. Begun {begun}, last used {used}.\n", thread.app_id)
}

fn markdown(message: &Message) -> String {
    let who = match (message.role, &message.model) {
        (Role::User, _) => "User".to_owned(),
        (Role::Assistant, None) => "Assistant".to_owned(),
        (Role::Assistant, Some(model)) => format!("Assistant ({})", in_a_line(model)),
    };
    let mut text = format!("\n## {who}, {}\n\n", day_and_time(message.created_at));
    for call in &message.tool_calls {
        let result = message.tool_results.iter().find(|result| result.call_id == call.id);
        let outcome = result.map_or_else(
            || "no result".to_owned(),
            |result| format!("{}: {}", result.status.name(), short_json(&result.result)),
        );
        _ = writeln!(text, "- Tool `{}` {} → {outcome}", in_a_line(&call.name), short_json(&call.input));
    }
    if !message.tool_calls.is_empty() {
        text.push('\n');
    }
    if !message.text.is_empty() {
        _ = writeln!(text, "{}", message.text.trim_end());
    }
    if let Some(status) = message.status.filter(|status| *status != RunStatus::Completed) {
        _ = match (message.role, &message.error) {
            (Role::User, None) => writeln!(text, "\n*There is no answer: the run is {}.*", status.name()),
            (Role::User, Some(failure)) => {
                writeln!(
                    text,
                    "\n*There is no answer: the run is {} ({}).*",
                    status.name(),
                    in_a_line(&failure.code)
                )
            }
            (Role::Assistant, _) => {
                writeln!(text, "\n*The answer is not complete: its run is {}.*", status.name())
            }
        };
    }
    if !message.sources.is_empty() {
        text.push_str("\nSources:\n\n");
        message.sources.iter().for_each(|source| _ = writeln!(text, "- {}", source_line(source)));
    }
    text
}

fn source_line(source: &Source) -> String {
    let parts = [&source.title, &source.place, &source.id].map(|part| in_a_line(part));
    let mut shown: Vec<&str> = Vec::new();
    for part in &parts {
        if !part.is_empty() && !shown.contains(&part.as_str()) {
            shown.push(part);
        }
    }
    shown.join(", ")
}

/// A value in one line, cut to its beginning.
fn short_json(value: &Value) -> String {
    let text = in_a_line(&value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    match text.char_indices().nth(MAX_CALL_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// A text without line breaks, control characters and characters that turn the direction of the text around them.
fn in_a_line(text: &str) -> String {
    let shown: String = text.chars().filter(|c| !turns_direction(*c)).collect();
    let words = shown.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

/// Whether a character changes the direction of others without being seen itself.
fn turns_direction(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn day_and_time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M UTC").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_title_can_break_the_name_of_a_file() {
        for (title, name) in [
            ("First steps", "first-steps"),
            ("a\"; filename=\"evil.exe\r\nX-Header: 1", "a-filename-evil-exe-x-header-1"),
            ("../../etc/passwd", "etc-passwd"),
            ("日本", PLAIN_NAME),
            ("", PLAIN_NAME),
        ] {
            assert_eq!(plain_name(title), name, "{title:?}");
        }
        assert!(plain_name(&"long ".repeat(100)).len() <= MAX_NAME_CHARS);
    }

    #[test]
    fn no_title_can_turn_the_line_that_it_stands_in() {
        assert_eq!(in_a_line("invoice\u{202e}gpj.exe\u{2066}\u{200f} \u{7} paid\n"), "invoicegpj.exe paid");
        assert_eq!(in_a_line("שלום, Привет 👩‍👧"), "שלום, Привет 👩‍👧", "letters keep their own direction");
    }

    #[test]
    fn a_call_is_one_short_line() {
        let long = Value::from("one\ntwo ".repeat(100));
        let line = short_json(&long);
        assert!(!line.contains('\n') && line.chars().count() == MAX_CALL_CHARS + 1, "{line}");
        assert_eq!(short_json(&serde_json::json!({ "a": 1 })), r#"{"a":1}"#);
    }
}

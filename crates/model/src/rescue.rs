//! Tool calls that a small model writes into its text, found and made calls of.
//!
//! Text is handed out as it comes. Held back is only what may still turn out to be a call: JSON at the very beginning,
//! and what follows a fence or a `<tool_call>`. It becomes calls if nothing else follows before the answer ends, and is
//! handed out as the text it was as soon as that can no longer be.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use protocol::{Finish, JsonScanner};
use serde_json::Value;

use crate::{AnswerPiece, ChatModel, Error, ModelRequest, PieceStream, ToolSpec};

/// The most text that is held back.
const MAX_HELD_BYTES: usize = 64 << 10;

/// The languages of a fenced block with calls.
const LANGUAGES: [&str; 3] = ["json", "tool_call", "tool_calls"];

/// A model whose text may hold calls.
pub(crate) struct Rescued(pub(crate) Arc<dyn ChatModel>);

impl ChatModel for Rescued {
    fn stream<'a>(&'a self, request: &'a ModelRequest) -> BoxFuture<'a, Result<PieceStream, Error>> {
        self.ask(request).boxed()
    }
}

impl Rescued {
    async fn ask(&self, request: &ModelRequest) -> Result<PieceStream, Error> {
        let pieces = self.0.stream(request).await?;
        if request.tools.is_empty() {
            return Ok(pieces);
        }
        let finder = Finder::new(Arc::clone(&request.tools));
        let reading = RescueReading { pieces: Some(pieces), finder, ready: VecDeque::new() };
        Ok(stream::unfold(reading, |mut reading| async {
            let piece = reading.next().await?;
            Some((piece, reading))
        })
        .boxed())
    }
}

/// A stream that is being searched.
struct RescueReading {
    /// None once nothing more is to be read.
    pieces: Option<PieceStream>,
    finder: Finder,
    /// Pieces made of the last one.
    ready: VecDeque<Result<AnswerPiece, Error>>,
}

impl RescueReading {
    async fn next(&mut self) -> Option<Result<AnswerPiece, Error>> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Some(piece);
            }
            let piece = self.pieces.as_mut()?.next().await;
            let (found, failure) = match piece {
                Some(Ok(piece)) => (self.finder.take(piece), None),
                Some(Err(error)) => (self.finder.give_up(), Some(error)),
                None => {
                    self.pieces = None;
                    (self.finder.give_up(), None)
                }
            };
            self.ready.extend(found.into_iter().map(Ok).chain(failure.map(Err)));
        }
    }
}

/// Looks for calls in an answer. Pure.
struct Finder {
    tools: Arc<[ToolSpec]>,
    state: State,
    /// Text that may still be calls.
    held: String,
    /// The calls in the held text.
    calls: Vec<RescuedCall>,
    /// Words were handed out, so that JSON alone no longer is a call.
    said: bool,
    /// The model makes calls as it should, so its text is text.
    native: bool,
}

struct RescuedCall {
    name: String,
    json: String,
}

/// The character that is expected next.
#[derive(Clone, Copy)]
enum State {
    /// The beginning of a call, or white space.
    Between,
    /// Anything: words are handed out.
    Prose,
    /// The next of a mark that begins a block, of which this many bytes have come.
    Mark(Block, usize),
    /// The language of a fenced block, which begins at this byte of the held text.
    Language(usize),
    /// The first of JSON, or white space.
    Value(Block),
    /// JSON that begins at this byte of the held text.
    Json(Block, usize, JsonScanner),
    /// More JSON, white space, or the next of the mark that ends the block, of which this many bytes have come.
    End(Block, usize),
}

/// The marks around JSON.
#[derive(Clone, Copy)]
enum Block {
    Nothing,
    Fence,
    Tag,
}

impl Block {
    fn begin(self) -> &'static str {
        match self {
            Block::Nothing => "",
            Block::Fence => "```",
            Block::Tag => "<tool_call>",
        }
    }

    fn end(self) -> &'static str {
        match self {
            Block::Nothing => "",
            Block::Fence => "```",
            Block::Tag => "</tool_call>",
        }
    }
}

/// The scanner after a character. Characters beyond ASCII mean nothing to it.
fn scan_char(scanner: JsonScanner, next: char) -> JsonScanner {
    u8::try_from(next).map_or(scanner, |byte| scanner.after_byte(byte))
}

/// The next step with a character.
enum Step {
    /// The character is held, and this is expected after it.
    Hold(State),
    /// The character is part of the words.
    Say,
    /// The held text is no call, and this character does not continue one.
    Release,
}

impl Finder {
    fn new(tools: Arc<[ToolSpec]>) -> Self {
        let (state, held, calls) = (State::Between, String::new(), Vec::new());
        Self { tools, state, held, calls, said: false, native: false }
    }

    fn take(&mut self, piece: AnswerPiece) -> Vec<AnswerPiece> {
        match piece {
            AnswerPiece::Text(text) if !self.native => text_pieces(self.search(&text)),
            AnswerPiece::CallStart { .. } | AnswerPiece::CallsVoid => {
                self.native = true;
                let mut pieces = self.give_up();
                pieces.push(piece);
                pieces
            }
            AnswerPiece::Finish(finish) => self.finish(finish),
            AnswerPiece::Text(_)
            | AnswerPiece::Reasoning(_)
            | AnswerPiece::CallInput { .. }
            | AnswerPiece::Model(_)
            | AnswerPiece::Usage(_)
            | AnswerPiece::Provider(_) => vec![piece],
        }
    }

    /// Hands out what is held as the text it is.
    fn give_up(&mut self) -> Vec<AnswerPiece> {
        let mut text = String::new();
        self.release(&mut text);
        text_pieces(text)
    }

    fn finish(&mut self, finish: Finish) -> Vec<AnswerPiece> {
        let is_whole = matches!(self.state, State::Between | State::End(..)) && !self.calls.is_empty();
        if !is_whole || !matches!(finish, Finish::Stop | Finish::ToolCalls) {
            let mut pieces = self.give_up();
            pieces.push(AnswerPiece::Finish(finish));
            return pieces;
        }
        self.held.clear();
        let calls = self.calls.drain(..).enumerate().flat_map(|(index, RescuedCall { name, json })| {
            [
                AnswerPiece::CallStart { index, provider_id: None, name },
                AnswerPiece::CallInput { index, json },
            ]
        });
        calls.chain([AnswerPiece::Finish(Finish::ToolCalls)]).collect()
    }

    /// Takes text in and gives what of it, and of what was held, is words.
    fn search(&mut self, text: &str) -> String {
        let mut said = String::new();
        for next in text.chars() {
            let mut step = self.step(next);
            if matches!(step, Step::Release) {
                self.release(&mut said);
                step = self.step(next);
            }
            match step {
                Step::Hold(state) => self.hold(next, state, &mut said),
                Step::Say | Step::Release => said.push(next),
            }
        }
        said
    }

    fn hold(&mut self, next: char, state: State, said: &mut String) {
        self.held.push(next);
        self.state = state;
        if let State::Json(block, begin, scanner) = state
            && scanner.depth() == 0
        {
            self.state = match block {
                Block::Nothing => State::Between,
                Block::Fence | Block::Tag => State::End(block, 0),
            };
            let json = self.held.get(begin..).unwrap_or_default();
            match calls(json, &self.tools) {
                Some(calls) => self.calls.extend(calls),
                None => self.release(said),
            }
        }
        if self.held.len() > MAX_HELD_BYTES {
            self.release(said);
        }
    }

    fn release(&mut self, said: &mut String) {
        said.push_str(&self.held);
        self.held.clear();
        self.calls.clear();
        self.said = true;
        self.state = State::Prose;
    }

    fn step(&self, next: char) -> Step {
        let here = self.held.len();
        let json = |block| Step::Hold(State::Json(block, here, scan_char(JsonScanner::default(), next)));
        match self.state {
            State::Prose => mark_begun_by(next).map_or(Step::Say, Step::Hold),
            State::Between | State::Value(_) | State::End(_, 0) if next.is_whitespace() => {
                Step::Hold(self.state)
            }
            State::Between if matches!(next, '{' | '[') && !self.said => json(Block::Nothing),
            State::Between => mark_begun_by(next).map_or(Step::Release, Step::Hold),
            State::Mark(block, count) => match match_mark(block.begin(), count, next) {
                Some(true) => Step::Hold(match block {
                    Block::Fence => State::Language(here + next.len_utf8()),
                    Block::Nothing | Block::Tag => State::Value(block),
                }),
                Some(false) => Step::Hold(State::Mark(block, count + 1)),
                None => Step::Release,
            },
            State::Language(begin) => self.language(begin, next),
            State::Value(block) | State::End(block, 0) if matches!(next, '{' | '[') => json(block),
            State::Value(_) => Step::Release,
            State::Json(block, begin, scanner) => {
                Step::Hold(State::Json(block, begin, scan_char(scanner, next)))
            }
            State::End(block, count) => match match_mark(block.end(), count, next) {
                Some(true) => Step::Hold(State::Between),
                Some(false) => Step::Hold(State::End(block, count + 1)),
                None => Step::Release,
            },
        }
    }

    fn language(&self, begin: usize, next: char) -> Step {
        let language = self.held.get(begin..).unwrap_or_default();
        let goes_on = |known: &&str| known.strip_prefix(language).is_some_and(|rest| rest.starts_with(next));
        if LANGUAGES.iter().any(goes_on) {
            return Step::Hold(self.state);
        }
        if !language.is_empty() && !LANGUAGES.contains(&language) {
            return Step::Release;
        }
        match next {
            '{' | '[' => Step::Hold(State::Json(
                Block::Fence,
                self.held.len(),
                scan_char(JsonScanner::default(), next),
            )),
            _ if next.is_whitespace() => Step::Hold(State::Value(Block::Fence)),
            _ => Step::Release,
        }
    }
}

/// A mark that this character begins.
fn mark_begun_by(next: char) -> Option<State> {
    match next {
        '`' => Some(State::Mark(Block::Fence, 1)),
        '<' => Some(State::Mark(Block::Tag, 1)),
        _ => None,
    }
}

/// Whether a character is the next of a mark and, if so, its last. Marks are ASCII.
fn match_mark(mark: &str, count: usize, next: char) -> Option<bool> {
    let rest = mark.get(count..)?.strip_prefix(next)?;
    Some(rest.is_empty())
}

fn text_pieces(text: String) -> Vec<AnswerPiece> {
    if text.is_empty() { Vec::new() } else { vec![AnswerPiece::Text(text)] }
}

/// The calls that a JSON text stands for, if it stands for nothing else.
fn calls(json: &str, tools: &[ToolSpec]) -> Option<Vec<RescuedCall>> {
    let value: Value = serde_json::from_str(json).ok()?;
    let Some(list) = value.get("tool_calls").unwrap_or(&value).as_array() else {
        return call(&value, tools).map(|call| vec![call]);
    };
    let calls: Option<Vec<RescuedCall>> = list.iter().map(|value| call(value, tools)).collect();
    calls.filter(|calls| !calls.is_empty())
}

fn call(value: &Value, tools: &[ToolSpec]) -> Option<RescuedCall> {
    let function = value.get("function").unwrap_or(value);
    let name = function.get("name")?.as_str()?;
    let given = function.get("arguments").or_else(|| function.get("parameters"))?;
    let arguments: Value = match given.as_str() {
        Some(text) => serde_json::from_str(text).ok()?,
        None => given.clone(),
    };
    let is_offered = tools.iter().any(|tool| tool.name == name);
    (is_offered && arguments.is_object())
        .then(|| RescuedCall { name: name.to_owned(), json: arguments.to_string() })
}

#[cfg(test)]
mod tests;

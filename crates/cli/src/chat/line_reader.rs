//! Lines of the input, read into a queue by a thread of their own. So none of them is lost while something else
//! happens: an answer that streams, a Ctrl-C (after which the terminal forgets all unread text).

use std::collections::VecDeque;
use std::io::{self, BufRead, Read};

use tokio::signal::unix::Signal;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::typed_input::TypedInput;
use crate::CommandResult;

/// Lines that are read before the chat needs them. Further lines stay in the input.
const MAX_LINES_AHEAD: usize = 256;

/// More than any server takes as a message.
const MAX_LINE_BYTES: u64 = 1 << 20;

type Line = io::Result<String>;

#[derive(Default)]
pub(super) struct LineReader {
    /// None until a line is wanted: a chat with its message on the command line may need none, and then the input
    /// belongs to the program that started the chat.
    reader: Option<Receiver<Line>>,
    /// Lines that were typed before a question was shown, and so do not answer it.
    typed_ahead: VecDeque<Line>,
}

impl LineReader {
    /// The next line. Loses nothing if it is interrupted.
    pub(super) async fn next_line(&mut self, interrupt: &mut Signal) -> CommandResult<TypedInput> {
        tokio::select! {
            biased;
            _ = interrupt.recv() => Ok(TypedInput::Interrupt),
            line = self.line() => Ok(line?.map_or(TypedInput::End, TypedInput::Line)),
        }
    }

    /// The next line, passing over the lines that were put aside.
    pub(super) async fn new_line(&mut self, interrupt: &mut Signal) -> CommandResult<TypedInput> {
        tokio::select! {
            biased;
            _ = interrupt.recv() => Ok(TypedInput::Interrupt),
            line = self.unread_line() => Ok(line?.map_or(TypedInput::End, TypedInput::Line)),
        }
    }

    async fn line(&mut self) -> CommandResult<Option<String>> {
        match self.typed_ahead.pop_front() {
            Some(line) => Ok(Some(line?)),
            None => self.unread_line().await,
        }
    }

    async fn unread_line(&mut self) -> CommandResult<Option<String>> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            None => self.reader.insert(start()?),
        };
        Ok(reader.recv().await.transpose()?)
    }

    /// Puts aside the lines that are there already.
    pub(super) fn hold_ready(&mut self) {
        let Some(reader) = &mut self.reader else { return };
        while self.typed_ahead.len() < MAX_LINES_AHEAD
            && let Ok(line) = reader.try_recv()
        {
            self.typed_ahead.push_back(line);
        }
    }

    /// The lines that the chat has read and not used.
    pub(super) fn unsent_lines(&mut self) -> Vec<String> {
        self.hold_ready();
        self.typed_ahead.drain(..).filter_map(Result::ok).collect()
    }
}

/// The thread ends with the input, or with the process: nothing can wake it from reading.
fn start() -> io::Result<Receiver<Line>> {
    let (sender, receiver) = channel(MAX_LINES_AHEAD);
    std::thread::Builder::new().name("input".into()).spawn(move || read(io::stdin().lock(), &sender))?;
    Ok(receiver)
}

fn read(mut input: impl BufRead, lines: &Sender<Line>) {
    while let Some(line) = next(&mut input).transpose() {
        let is_over = line.is_err();
        if lines.blocking_send(line).is_err() || is_over {
            return;
        }
    }
}

/// None at the end. The last line need not be ended.
fn next(input: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    input.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
    if line.len() as u64 == MAX_LINE_BYTES && !line.ends_with(b"\n") {
        return Err(io::Error::other(format!("a line may have at most {MAX_LINE_BYTES} bytes")));
    }
    if line.is_empty() {
        return Ok(None);
    }
    Ok(Some(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines that were put aside stay for later, and are no answer.
    #[tokio::test]
    async fn lines_come_in_order_and_what_was_put_aside_is_no_answer() {
        for is_held in [true, false] {
            let (sender, receiver) = channel(8);
            let mut input = LineReader { reader: Some(receiver), typed_ahead: VecDeque::new() };
            for line in ["typed ahead", "yes"] {
                sender.send(Ok(line.to_owned())).await.unwrap();
            }
            assert_eq!(input.line().await.unwrap().as_deref(), Some("typed ahead"));
            if is_held {
                input.hold_ready();
            }
            sender.send(Ok("no".to_owned())).await.unwrap();
            let (answer, later) = if is_held { ("no", "yes") } else { ("yes", "no") };
            assert_eq!(input.unread_line().await.unwrap().as_deref(), Some(answer));
            assert_eq!(input.line().await.unwrap().as_deref(), Some(later));
            sender.send(Ok("left over".to_owned())).await.unwrap();
            assert_eq!(input.unsent_lines(), ["left over"]);
            drop(sender);
            assert_eq!(input.line().await.unwrap(), None);
        }
    }

    #[test]
    fn a_line_has_a_longest_length() {
        let mut text = io::Cursor::new([b"one\r\n\xff\n".as_slice(), &vec![b'x'; 2 << 20]].concat());
        assert_eq!(next(&mut text).unwrap().as_deref(), Some("one"));
        assert_eq!(next(&mut text).unwrap().as_deref(), Some("\u{fffd}"));
        assert_eq!(next(&mut text).unwrap_err().to_string(), "a line may have at most 1048576 bytes");
    }
}

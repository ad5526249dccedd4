//! Text that a person types while an answer streams and the chat does not read. The terminal keeps it, and lets the
//! person correct it, until it is taken from there.

use std::io::{self, Write};

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

use super::typed_input::TypedInput;

/// Bytes that are taken from the terminal at once.
const CHUNK_BYTES: usize = 4096;

/// Bytes that are kept; the terminal keeps the rest.
const MAX_AHEAD_BYTES: usize = 1 << 20;

/// Ends the line of an editor that waits for keys, and tells the terminal to mark pasted text no longer.
const EDITOR_LEFT: &[u8] = b"\x1b[?2004l\n";

/// The terminal forgets at Ctrl-C what was typed and not read. The terminal keeps it as long as this guard lives.
pub(super) struct KeepingTerminal {
    before: Termios,
}

impl KeepingTerminal {
    pub(super) fn begin() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut keeping = before.clone();
        keeping.local_modes.insert(LocalModes::NOFLSH);
        tcsetattr(io::stdin(), OptionalActions::Now, &keeping)?;
        Ok(Self { before })
    }
}

impl Drop for KeepingTerminal {
    fn drop(&mut self) {
        let is_editing =
            tcgetattr(io::stdin()).is_ok_and(|now| !now.local_modes.contains(LocalModes::ICANON));
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before); // the terminal may be gone
        if is_editing {
            let _ = io::stdout().write_all(EDITOR_LEFT);
        }
    }
}

/// Text that was typed before the chat asked for it.
#[derive(Default)]
pub(super) struct TypedAhead {
    bytes: Vec<u8>,
}

impl TypedAhead {
    /// Takes all text from the terminal, also that of a line without its end.
    pub(super) fn take_pending(&mut self) -> io::Result<()> {
        let lines = tcgetattr(io::stdin())?;
        let mut at_once = lines.clone();
        at_once.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        at_once.special_codes[SpecialCodeIndex::VMIN] = 0;
        at_once.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(io::stdin(), OptionalActions::Now, &at_once)?;
        let taken = self.read_all();
        tcsetattr(io::stdin(), OptionalActions::Now, &lines)?;
        taken
    }

    fn read_all(&mut self) -> io::Result<()> {
        let mut chunk = [0; CHUNK_BYTES];
        while self.bytes.len() < MAX_AHEAD_BYTES {
            match rustix::io::read(io::stdin(), &mut chunk) {
                Ok(0) => break,
                Ok(count) => self.bytes.extend_from_slice(chunk.get(..count).unwrap_or_default()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The next line that has an end. Ctrl-D at its beginning, which the terminal keeps as a zero, is the end of the input.
    pub(super) fn next_line(&mut self) -> Option<TypedInput> {
        if self.bytes.first() == Some(&0) {
            self.bytes.remove(0);
            return Some(TypedInput::End);
        }
        let end = self.bytes.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.bytes.drain(..=end).collect();
        Some(TypedInput::Line(without_controls(&line)))
    }

    /// The beginning of a line that has no end yet.
    pub(super) fn take_rest(&mut self) -> String {
        without_controls(&std::mem::take(&mut self.bytes))
    }
}

/// The text without keys that are no characters, such as arrows.
fn without_controls(typed: &[u8]) -> String {
    let text = String::from_utf8_lossy(typed);
    let mut chars = text.chars().peekable();
    let mut plain = String::new();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            if chars.next_if(|next| matches!(next, '[' | 'O')).is_some() {
                while chars.next_if(|next| !next.is_ascii_alphabetic() && *next != '~').is_some() {}
            }
            chars.next();
        } else if !c.is_control() || c == '\t' {
            plain.push(c);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_one_by_one_and_the_rest_is_kept() {
        let mut ahead = TypedAhead { bytes: b"one\n\x1b[Atwo\x1b[1;5C!\n\0thr\xc3\xa9e".to_vec() };
        assert_eq!(ahead.next_line(), Some(TypedInput::Line("one".into())));
        assert_eq!(ahead.next_line(), Some(TypedInput::Line("two!".into())));
        assert_eq!(ahead.next_line(), Some(TypedInput::End));
        assert_eq!(ahead.next_line(), None);
        assert_eq!(ahead.take_rest(), "thrée");
        assert_eq!(ahead.take_rest(), "");
    }
}

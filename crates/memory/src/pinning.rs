//! "/pin …": text that the user marks as important, without a model.

use store::MAX_PIN_BYTES;

use crate::remember::after_command;

/// A command to pin something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PinCommand<'m> {
    Keep(&'m str),
    /// The command alone.
    Nothing,
    TooLong,
}

pub const HOW_TO: &str = "Write what to pin after it: /pin She is allergic to penicillin";
pub const TOO_LONG: &str = "That is too long to pin. Pin the part that matters.";
pub const SECRET: &str = "That looks like a password or a key, so I did not pin it.";

/// The command in a message; none if the message is no such command.
pub fn read_command(message: &str) -> Option<PinCommand<'_>> {
    let text = after_command(message, "/pin")?;
    Some(match text.len() {
        0 => PinCommand::Nothing,
        1..=MAX_PIN_BYTES => PinCommand::Keep(text),
        _ => PinCommand::TooLong,
    })
}

pub fn confirmation(text: &str) -> String {
    format!("Pinned: {text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_is_what_follows_the_command() {
        for message in ["/pin no sugar", "  /PIN\tno sugar ", "/pin: no sugar", "/pin\nno sugar"] {
            assert_eq!(read_command(message), Some(PinCommand::Keep("no sugar")), "{message:?}");
        }
        assert_eq!(read_command("/pin"), Some(PinCommand::Nothing));
        assert_eq!(read_command("/pin  :"), Some(PinCommand::Nothing));
        assert_eq!(
            read_command(&format!("/pin {}", "x".repeat(MAX_PIN_BYTES + 1))),
            Some(PinCommand::TooLong)
        );
        for message in ["", "/pi", "/pinned notes", "/pins", "please /pin this", "what does /pin do?"] {
            assert_eq!(read_command(message), None, "{message:?}");
        }
    }
}

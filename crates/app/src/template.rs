//! Bounds and mistakes that templates of every kind share.

use std::fmt;
use std::io::{self, Write};

use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Error, UndefinedBehavior};

/// Instructions that a template may take, so that none can run for ever.
const MAX_INSTRUCTIONS: u64 = 500_000;
const REMEDY: &str = "correct it there";

/// An environment that is bounded and changes nothing of what it writes.
pub(crate) fn environment(syntax: SyntaxConfig) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_fuel(Some(MAX_INSTRUCTIONS));
    environment.set_undefined_behavior(UndefinedBehavior::Chainable);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_syntax(syntax);
    environment
}

/// A mistake in a template, and on which of its lines, from 1.
#[derive(Debug)]
pub(crate) struct Mistake {
    pub(crate) line: Option<usize>,
    pub(crate) message: String,
    pub(crate) remedy: String,
}

impl Mistake {
    pub(crate) fn new(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { line: None, message: message.into(), remedy: remedy.into() }
    }
}

impl From<Error> for Mistake {
    fn from(error: Error) -> Self {
        let message = match error.detail() {
            Some(detail) => format!("{}: {detail}", error.kind()),
            None => error.kind().to_string(),
        };
        Self { line: error.line(), message, remedy: REMEDY.into() }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line} of the template: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// Takes up to the bound, and refuses the rest, which ends the rendering.
pub(crate) struct Bounded {
    bytes: Vec<u8>,
    most: usize,
    pub(crate) is_full: bool,
}

impl Bounded {
    pub(crate) fn new(most: usize) -> Self {
        Self { bytes: Vec::new(), most, is_full: false }
    }

    pub(crate) fn text(self) -> String {
        String::from_utf8(self.bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.most {
            self.is_full = true;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

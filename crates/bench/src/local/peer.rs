//! Another program for the same work, in Python: a line in, one round of measurements out.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

/// Ends with this value.
pub(super) struct Peer {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Peer {
    /// None if it cannot be started, for want of its packages or of Python.
    pub(super) fn start(script: &str, packages: &Path, arguments: &[String]) -> Option<Self> {
        if !packages.is_dir() {
            return None;
        }
        let mut child = Command::new("python3")
            .args(["-c", script])
            .args(arguments)
            .env("PYTHONPATH", packages)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take()?);
        Some(Self { child, stdin, stdout: BufReader::new(stdout) })
    }

    /// One round. None if the program has given up.
    pub(super) fn round(&mut self) -> Option<Value> {
        self.stdin.as_mut()?.write_all(b"\n").ok()?;
        let mut line = String::new();
        self.stdout.read_line(&mut line).ok()?;
        serde_json::from_str(&line).ok()
    }
}

/// One field of all rounds.
pub(super) fn field(rounds: &[Value], name: &str) -> Vec<f64> {
    rounds.iter().filter_map(|round| round.get(name)?.as_f64()).collect()
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // It may have ended already, and then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! A child process that a test owns: it is read while it runs, and never outlives the test.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;

/// Longest wait for anything; a hang fails the test that waits.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Longest wait for an answer over HTTP, which a model in the server may take long for.
pub(crate) const ANSWER_PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    pub(crate) output: Captured,
    pub(crate) errors: Captured,
}

/// How a process ended, with all it wrote.
#[derive(Debug)]
pub(crate) struct Ended {
    /// None when a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) output: String,
    pub(crate) errors: String,
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        let output = Captured::of(child.stdout.take().unwrap());
        let errors = Captured::of(child.stderr.take().unwrap());
        Self { input: child.stdin.take(), child, output, errors }
    }

    /// Starts it on a terminal of its own, where Ctrl-C is a key. All that is shown there is its output, with what was
    /// typed.
    pub(crate) fn on_a_terminal(command: &Command) -> Self {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words: Vec<String> = words.map(|word| format!("'{}'", word.to_str().unwrap())).collect();
        // By itself, a terminal throws away at Ctrl-C what was typed and not read in that very moment.
        let command_line = format!("stty noflsh; exec {}", words.join(" "));
        let mut script = Command::new("script");
        script.args(["--quiet", "--return", "--command", &command_line, "/dev/null"]);
        script.env_clear().env("PATH", env!("PATH")).env("SHELL", "/bin/sh");
        script.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        script.current_dir(command.get_current_dir().unwrap());
        Self::start(&mut script)
    }

    pub(crate) fn write(&mut self, text: &str) {
        self.input
            .as_mut()
            .expect("the input is open")
            .write_all(text.as_bytes())
            .expect("the process reads");
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn close_input(&mut self) {
        self.input = None;
    }

    /// Sends a signal by its short name, such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        let status = Command::new("sh").args(["-c", &kill]).status().expect("sh runs");
        assert!(status.success(), "{kill}: {status}");
    }

    /// Ends the process where it stands, as losing its machine would, and waits until it is gone.
    pub(crate) fn kill(mut self) {
        self.end();
    }

    /// Waits for the process to end by itself. Its input is closed first.
    pub(crate) async fn ended(self) -> Ended {
        self.ended_within(PATIENCE).await
    }

    /// Waits longer or shorter for the end of a process.
    pub(crate) async fn ended_within(mut self, patience: Duration) -> Ended {
        self.close_input();
        let end = |_: &str, closed| closed;
        let output = self.output.until_within(patience, "the end of the process", end).await;
        let errors = self.errors.until_within(patience, "the end of the process", end).await;
        let code = self.child.wait().expect("the process is ours").code();
        Ended { code, output, errors }
    }

    fn end(&mut self) {
        let _ = self.child.kill(); // fails only when it is gone already
        self.child.wait().expect("the process is ours");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// The output of a process on one pipe, readable while it is being written.
#[derive(Clone)]
pub(crate) struct Captured {
    state: Arc<Mutex<State>>,
    changed: watch::Receiver<()>,
}

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    closed: bool,
}

impl Captured {
    fn of(mut pipe: impl Read + Send + 'static) -> Self {
        let (sender, changed) = watch::channel(());
        let captured = Self { state: Arc::default(), changed };
        let state = Arc::clone(&captured.state);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            loop {
                let count = pipe.read(&mut buffer).unwrap_or(0);
                let mut state = state.lock().unwrap();
                state.bytes.extend_from_slice(&buffer[..count]);
                state.closed = count == 0;
                drop(state);
                sender.send_replace(());
                if count == 0 {
                    return;
                }
            }
        });
        captured
    }

    /// Returns the text that has been written so far.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.state().bytes).into_owned()
    }

    /// The first whole line with `part` in it.
    pub(crate) async fn line(&self, part: &str) -> String {
        let find = |text: &str| {
            text.split_inclusive('\n')
                .find(|line| line.contains(part) && line.ends_with('\n'))
                .map(String::from)
        };
        let text = self.until(part, |text, closed| closed || find(text).is_some()).await;
        find(&text).unwrap_or_else(|| panic!("the process ended without a line with {part:?}: {text}"))
    }

    /// Waits until `part` has been written, and gives back everything up to now.
    pub(crate) async fn contains(&self, part: &str) -> String {
        let text = self.until(part, |text, closed| closed || text.contains(part)).await;
        assert!(text.contains(part), "the process ended without writing {part:?}: {text}");
        text
    }

    /// Waits until `part` has been written so often, and gives back everything up to now.
    pub(crate) async fn contains_times(&self, times: usize, part: &str) -> String {
        let text = self.until(part, |text, closed| closed || text.matches(part).count() >= times).await;
        assert!(text.matches(part).count() >= times, "{part:?} was not written {times} times: {text}");
        text
    }

    async fn until(&self, what: &str, ready: impl Fn(&str, bool) -> bool) -> String {
        self.until_within(PATIENCE, what, ready).await
    }

    async fn until_within(
        &self,
        patience: Duration,
        what: &str,
        ready: impl Fn(&str, bool) -> bool,
    ) -> String {
        let mut changed = self.changed.clone();
        let wait = async {
            loop {
                let (text, closed) = (self.text(), self.state().closed);
                if ready(&text, closed) {
                    return text;
                }
                let _ = changed.changed().await; // an error means closed, which the next look shows
            }
        };
        let waited = tokio::time::timeout(patience, wait).await;
        waited.unwrap_or_else(|_| panic!("waited too long for {what:?}; there is {:?}", self.text()))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

/// Waits for something, but not for ever.
pub(crate) async fn within<T>(what: &str, wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("waited too long for {what}"))
}

/// Returns this system's words for a port at which no process listens.
pub(crate) fn connection_refused() -> String {
    TcpStream::connect("127.0.0.1:1").expect_err("port 1 is free").to_string()
}

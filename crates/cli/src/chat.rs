//! `rondo chat`: a conversation in the terminal, over the same API every front end uses.

mod host;
mod screen;

use std::io::{BufRead, IsTerminal};
use std::time::Duration;

use futures_util::StreamExt;
use model::sse::Parser;
use protocol::{Event, ProposalOpen, RunEnd, RunId, RunStatus, Snapshot, TextDelta, ThreadId};
use reqwest::Response;
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::Trouble;
use crate::config::Config;
use crate::shown::short;

use host::Host;
use screen::Screen;

/// How often a lost connection is tried again, and the pause before each try.
const MAX_RETURNS: usize = 20;
const RETURN_PAUSE: Duration = Duration::from_millis(500);

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The app to talk to; without it the only one there is, or studio
    #[arg(long)]
    app: Option<String>,
    /// A conversation to go on with
    #[arg(long, value_name = "ID")]
    thread: Option<ThreadId>,
    /// The server, if it is not the one this configuration describes
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// A key, if the server at --url asks for one
    #[arg(long, value_name = "KEY", requires = "url")]
    key: Option<String>,
    /// Say this, print the answer and end; without it, every line of the input is a message
    message: Option<String>,
}

struct Chat {
    host: Host,
    app: String,
    thread: Option<ThreadId>,
    screen: Screen,
    /// One for the whole conversation, so that no Ctrl-C falls between two waits.
    interrupt: Signal,
}

pub(crate) async fn chat(config: Result<Config, Trouble>, options: Options) -> Result<(), Trouble> {
    let host = match &options.url {
        Some(url) => Host::at(url, options.key.clone()).await?,
        None => Host::of(&config?).await?,
    };
    let app = host.choose(options.app)?;
    let interrupt = signal(SignalKind::interrupt())?;
    let mut chat = Chat { host, app, thread: options.thread, screen: Screen::default(), interrupt };
    let result = match options.message {
        Some(message) => chat.say(&message).await,
        None => chat.converse(std::io::stdin().is_terminal()).await,
    };
    chat.host.leave().await;
    result
}

impl Chat {
    async fn converse(&mut self, interactive: bool) -> Result<(), Trouble> {
        if interactive {
            self.screen
                .prompt(&format!("Talking to {}. Ctrl-C stops an answer, Ctrl-D ends.\n", self.app))?;
        }
        loop {
            if interactive {
                self.screen.prompt("\n> ")?;
            }
            let Some(line) = self.next_line().await? else { break };
            match self.say(line.trim()).await {
                Err(trouble) if interactive => self.screen.note(&trouble.to_string())?,
                said => said?,
            }
        }
        match self.thread {
            Some(thread) if interactive => {
                self.screen.prompt(&format!("\nTo go on: rondo chat --app {} --thread {thread}\n", self.app))
            }
            _ => Ok(()),
        }
    }

    /// The next line that says something; none at the end of the input.
    async fn next_line(&mut self) -> Result<Option<String>, Trouble> {
        let read = tokio::task::spawn_blocking(|| {
            let said =
                |line: &std::io::Result<String>| line.as_ref().map_or(true, |line| !line.trim().is_empty());
            std::io::stdin().lock().lines().find(said).transpose()
        });
        tokio::select! {
            line = read => Ok(line??),
            _ = self.interrupt.recv() => Ok(None),
        }
    }

    /// Sends a message and shows the answer as it comes. A run that does not complete is an error.
    async fn say(&mut self, message: &str) -> Result<(), Trouble> {
        let body = json!({ "message": message, "threadId": self.thread });
        let mut response = self.host.post(&format!("/v1/apps/{}/runs", self.app), &body).await?;
        let run: RunId = header(&response, "x-run-id")?;
        self.thread = Some(header(&response, "x-thread-id")?);
        let mut shown = 0;
        let end = loop {
            let end = self.show(run, response, &mut shown).await;
            self.screen.end_line()?;
            if let Some(end) = end? {
                break end;
            }
            response = self.come_back(run).await?;
        };
        match (end.status, end.error) {
            (RunStatus::Completed, _) => Ok(()),
            (_, Some(error)) => Err(format!("{} ({})", error.message, error.code).into()),
            (status, None) => Err(status.name().into()),
        }
    }

    /// Shows the run's events from its first, passing over the `shown` ones that an earlier connection brought. None
    /// when the connection is lost.
    async fn show(
        &mut self,
        run: RunId,
        response: Response,
        shown: &mut usize,
    ) -> Result<Option<RunEnd>, Trouble> {
        let (mut parser, mut count, mut end) = (Parser::default(), 0, None);
        let mut stream = response.bytes_stream();
        let (mut asked, mut open) = (false, Vec::new());
        while end.is_none() {
            let chunk = tokio::select! {
                chunk = stream.next() => chunk,
                _ = self.interrupt.recv() => {
                    if asked {
                        return Err("left before the answer had stopped".into());
                    }
                    asked = true;
                    self.host.post(&format!("/v1/runs/{run}/cancel"), &json!({})).await?;
                    continue;
                }
            };
            let Some(Ok(chunk)) = chunk else { return Ok(None) };
            parser.feed::<Trouble>(&chunk, |event| {
                if let Some(snapshot) = snapshot(&event.name, &event.data) {
                    let Snapshot { run_id, status, text, error, message_id, .. } = snapshot;
                    self.screen.end_line()?;
                    self.screen.show(&Event::TextDelta(TextDelta { step: 1, delta: text }))?;
                    end = Some(RunEnd { run_id, status, error, message_id });
                    return Ok(());
                }
                count += 1;
                if count <= *shown {
                    return Ok(());
                }
                *shown = count;
                match Event::read(&event.name, &event.data) {
                    Ok(Event::RunEnd(ended)) => end = Some(ended),
                    Ok(Event::ProposalOpen(proposal)) => open.push(proposal),
                    Ok(event) => self.screen.show(&event)?,
                    Err(_) => {} // newer than this program
                }
                Ok(())
            })?;
            for proposal in open.drain(..) {
                self.settle(&proposal).await?;
            }
        }
        Ok(end)
    }

    /// Asks for a yes. Without an answer the call goes on waiting, and so does its run.
    async fn settle(&mut self, proposal: &ProposalOpen) -> Result<(), Trouble> {
        let ProposalOpen { proposal_id: id, name, input, .. } = proposal;
        self.screen.note(&format!("may I? {name} {}", short(&input.to_string())))?;
        self.screen.prompt("yes or no: ")?;
        let Some(answer) = self.next_line().await? else {
            return Err(format!(
                "{name} waits for a yes; give it with POST /v1/proposals/{id}/confirm, or a no with …/reject"
            )
            .into());
        };
        let yes = ["y", "yes"].contains(&answer.trim().to_lowercase().as_str());
        let decision = if yes { "confirm" } else { "reject" };
        match self.host.post(&format!("/v1/proposals/{id}/{decision}"), &json!({})).await {
            Ok(_) => Ok(()),
            Err(trouble) => self.screen.note(&trouble.to_string()), // somebody else was faster, or the server is gone
        }
    }

    /// The run's events again, once the server is back.
    async fn come_back(&mut self, run: RunId) -> Result<Response, Trouble> {
        self.screen.note("the connection is lost; coming back")?;
        for _ in 0..MAX_RETURNS {
            tokio::select! {
                () = tokio::time::sleep(RETURN_PAUSE) => {}
                _ = self.interrupt.recv() => break,
            }
            if let Ok(response) = self.host.get(&format!("/v1/runs/{run}/events")).await {
                return Ok(response);
            }
        }
        let thread = self.thread.map(|thread| thread.to_string()).unwrap_or_default();
        Err(format!("the server is gone; the answer goes on when it is back, in --thread {thread}").into())
    }
}

fn header<T: std::str::FromStr>(response: &Response, name: &str) -> Result<T, Trouble> {
    let value = response.headers().get(name).and_then(|value| value.to_str().ok()?.parse().ok());
    value.ok_or_else(|| format!("the server's answer has no {name}; is it an older version?").into())
}

/// The whole of a run whose pieces are no longer kept.
fn snapshot(name: &str, data: &str) -> Option<Snapshot> {
    (name == "snapshot").then(|| serde_json::from_str(data).ok()).flatten()
}

//! `rondo chat`: a conversation in the terminal, over the same API every front end uses.

mod chat_server;
mod chat_terminal;
mod client_calls;
mod commands;
mod input;
mod line_editor;
mod line_reader;
mod markdown;
mod past_messages;
mod screen;
mod typed_ahead;
mod typed_input;

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::StreamExt;
use model::sse::SseParser;
use protocol::{
    Event, ProposalId, ProposalOpen, ProposalStatus, ProposalView, RunEnd, RunId, RunStatus, Snapshot,
    TextDelta, ThreadId, ThreadView,
};
use reqwest::{Method, Response};
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::MissedTickBehavior;

use crate::api_client::ApiClient;
use crate::config::{self, Config};
use crate::terminal_text::{MAX_SHOWN_CHARS, printable, shorten, shorten_to};
use crate::{CommandError, CommandResult, model_limits};

use chat_server::ChatServer;
use chat_terminal::ChatTerminal;
use commands::ChatLine;
use input::{ChatInput, YES_OR_NO};
use screen::ChatScreen;
use typed_input::TypedInput;

/// How often a lost connection is tried again, and the pause before each try.
const MAX_RETURNS: usize = 20;
const RETURN_PAUSE: Duration = Duration::from_millis(500);

/// Between two turns of the spinner.
const SPINNER_PAUSE: Duration = Duration::from_millis(120);

/// Characters of a tool call's arguments that a person reads before they decide.
const MAX_ASKED_CHARS: usize = 4000;

#[derive(clap::Args)]
pub(crate) struct ChatOptions {
    /// The app to talk to; the default is the app of the thread, `server.chat_app` of the configuration, the only app,
    /// or studio
    #[arg(long)]
    app: Option<String>,
    /// The id of a thread to continue: the chat shows its last messages, and if it waits for an approval, asks for that
    #[arg(long, value_name = "ID")]
    thread: Option<ThreadId>,
    /// The URL of another server than the one in this configuration
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// An API key for the server at --url
    #[arg(long, value_name = "KEY", requires = "url")]
    key: Option<String>,
    /// Send this message, print the answer and end; without it, every input line is a message. On a terminal, lines can
    /// be edited, and /help lists the commands
    message: Option<String>,
}

struct Chat {
    api: ApiClient,
    app: String,
    thread: Option<ThreadId>,
    /// The model that a person has chosen; none for the app's.
    model: Option<String>,
    /// The run that answered last.
    last_run: Option<RunId>,
    /// Whether the server itself has answered the last request to remember something.
    remembered: bool,
    /// The names of models in a process whose answers are often wrong.
    small_models: BTreeSet<String>,
    /// The address of the server, if the user named one.
    url: Option<String>,
    screen: ChatScreen,
    input: ChatInput,
    /// One for the whole conversation, so that no Ctrl-C falls between two waits.
    interrupt: Signal,
}

pub(crate) async fn chat(config: CommandResult<Config>, options: ChatOptions) -> CommandResult {
    let small_models = config.as_ref().map(model_limits::small_models).unwrap_or_default();
    let server = match &options.url {
        Some(url) => ChatServer::for_url(url, options.key.clone()).await?,
        None => ChatServer::find(&config?).await?,
    };
    let wanted = match options.app {
        Some(app) => Some(app),
        None => server.app_of(options.thread).await,
    };
    let app = server.choose_app(wanted)?;
    let (api, elsewhere) = (server.api, server.elsewhere);
    let (interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let terminal = ChatTerminal::of(&config::process_environment);
    let (input, mut screen) = (ChatInput::new(&terminal), ChatScreen::new(terminal));
    if let Some(note) = elsewhere.filter(|_| screen.has_remarks()) {
        screen.note(&note)?;
    }
    let (thread, url) = (options.thread, options.url);
    let (model, last_run, remembered) = (None, None, false);
    let mut chat =
        Chat { api, app, thread, model, last_run, remembered, small_models, url, screen, input, interrupt };
    // A process that a signal ends at once would leave the terminal without echo, as the line editor has set it.
    let result = tokio::select! {
        result = chat.run(options.message) => result,
        _ = terminate.recv() => Err("the chat was ended by SIGTERM".into()),
    };
    chat.api.close().await;
    result
}

impl Chat {
    async fn run(&mut self, message: Option<String>) -> CommandResult {
        match message {
            Some(message) => self.ask_once(&message).await,
            None => self.converse().await,
        }
    }

    /// One message and its answer. A person is told first what the model cannot do.
    async fn ask_once(&mut self, message: &str) -> CommandResult {
        if self.screen.has_remarks() {
            self.tell_limits().await?;
        }
        self.say(message).await
    }

    async fn converse(&mut self) -> CommandResult {
        let interactive = self.input.is_terminal;
        self.input.open()?;
        let mut said = self.begin().await;
        loop {
            match said {
                Err(trouble) if interactive => self.screen.note(&trouble.to_string())?,
                said => said?,
            }
            let line = match self.input.message(&mut self.interrupt).await? {
                TypedInput::Line(line) => line,
                TypedInput::Interrupt | TypedInput::End => break,
            };
            said = match (line.trim(), ChatLine::parse(&line)) {
                ("", _) => Ok(()),
                (message, _) if !interactive => self.say(message).await,
                (_, ChatLine::Quit) => break,
                (_, line) => self.run_command(line).await,
            };
        }
        if interactive { self.part() } else { Ok(()) }
    }

    /// Tells a person whom they talk to and what was said before, and goes on with an answer that is under way.
    async fn begin(&mut self) -> CommandResult {
        if self.input.is_terminal {
            self.introduce().await?;
            self.show_past().await?;
        }
        self.catch_up().await
    }

    /// Tells a person what was not said, and how to go on.
    fn part(&mut self) -> CommandResult {
        self.screen.print("")?;
        for line in self.input.unsent_lines() {
            self.screen.note(&format!("not sent: {line}"))?;
        }
        match self.thread {
            Some(_) => self.screen.print(&format!("To continue: {}", self.command())),
            None => Ok(()),
        }
    }

    /// The command that goes on with this conversation.
    fn command(&self) -> String {
        let thread = self.thread.map(|thread| format!(" --thread {thread}")).unwrap_or_default();
        let url = self.url.as_ref().map(|url| format!(" --url {url}")).unwrap_or_default();
        format!("rondo chat --app {}{thread}{url}", self.app)
    }

    /// Shows the run that the thread is in the midst of, if it is, and asks what that one waits for.
    async fn catch_up(&mut self) -> CommandResult {
        let Some(thread) = self.thread else { return Ok(()) };
        let view: ThreadView = self.api.get(&format!("/v1/threads/{thread}")).await?;
        let Some(run) = view.active_run_id else { return Ok(()) };
        let response = self.events(run).await?;
        self.follow(run, response).await
    }

    /// Sends a message and shows the answer as it comes. A run that does not complete is an error.
    async fn say(&mut self, message: &str) -> CommandResult {
        let body = json!({ "message": message, "threadId": self.thread, "model": self.model });
        let response = self.api.post(&format!("/v1/apps/{}/runs", self.app), &body).await?;
        let run: RunId = header(&response, "x-run-id")?;
        self.thread = Some(header(&response, "x-thread-id")?);
        self.last_run = Some(run);
        self.follow(run, response).await
    }

    /// Shows a run to its end, over lost connections.
    async fn follow(&mut self, run: RunId, mut response: Response) -> CommandResult {
        let (mut shown, mut noted) = (0, None);
        let end = loop {
            let end = self.show(run, response, &mut shown).await;
            self.screen.end_line()?;
            if let Some(end) = end? {
                break end;
            }
            // A server that is stopping takes connections and ends them at once; one remark is enough.
            if noted.replace(shown) != Some(shown) {
                self.screen.note("the connection is lost; reconnecting")?;
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
    ) -> CommandResult<Option<RunEnd>> {
        let (mut parser, mut count, mut end) = (SseParser::default(), 0, None);
        let mut stream = response.bytes_stream();
        let (mut asked, mut open) = (false, Vec::new());
        let mut turn = tokio::time::interval(SPINNER_PAUSE);
        turn.set_missed_tick_behavior(MissedTickBehavior::Skip);
        while end.is_none() {
            let chunk = tokio::select! {
                chunk = stream.next() => chunk,
                _ = self.interrupt.recv() => {
                    if asked {
                        return Err("the chat was closed before the answer had stopped".into());
                    }
                    asked = true;
                    self.api.post(&format!("/v1/runs/{run}/cancel"), &json!({})).await?;
                    continue;
                }
                _ = turn.tick(), if self.screen.has_remarks() => {
                    self.screen.turn_spinner()?;
                    continue;
                }
            };
            let Some(Ok(chunk)) = chunk else { return Ok(None) };
            parser.feed::<CommandError>(&chunk, |event| {
                // The whole of a run whose pieces are no longer kept.
                if event.name == "snapshot"
                    && let Ok(snapshot) = serde_json::from_str::<Snapshot>(&event.data)
                {
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
                    Ok(event @ (Event::ProposalOpen(_) | Event::CallOpen(_))) => open.push(event),
                    Ok(event) => self.show_event(&event)?,
                    Err(_) => {} // newer than this program
                }
                Ok(())
            })?;
            for event in open.drain(..) {
                if let Event::ProposalOpen(proposal) = &event {
                    self.settle(proposal).await?;
                } else if let Event::CallOpen(call) = &event {
                    self.answer_call(call).await?;
                }
            }
        }
        Ok(end)
    }

    /// Shows an event, and notes whether it answers a request to remember something.
    fn show_event(&mut self, event: &Event) -> CommandResult {
        self.remembered |= matches!(event, Event::ContextLoaded(loaded) if loaded.remembered.is_some());
        self.screen.show(event)
    }

    /// Asks for a yes or no until there is one. At the end of the input, or on Ctrl-C, the call goes on waiting, and so
    /// does its run.
    async fn settle(&mut self, proposal: &ProposalOpen) -> CommandResult {
        let ProposalOpen { proposal_id: id, name, input, .. } = proposal;
        if !self.is_open(*id).await {
            return Ok(());
        }
        let max_chars = if self.input.is_terminal { MAX_ASKED_CHARS } else { MAX_SHOWN_CHARS };
        let question = format!("[may I? {name} {}]", shorten_to(&input.to_string(), max_chars));
        self.screen.question(&printable(&question))?;
        self.input.hold_typed()?;
        let decision = loop {
            let TypedInput::Line(answer) = self.input.answer(YES_OR_NO, &mut self.interrupt).await? else {
                self.screen.print("")?;
                let later = self.command();
                return Err(format!(
                    "{name} waits for your approval: `{later}` asks again, and a new message there discards it"
                )
                .into());
            };
            match answer.trim().to_lowercase().as_str() {
                "y" | "yes" => break "confirm",
                "n" | "no" => break "reject",
                "" => {}
                _ => self.screen.note(&format!("{} is neither yes nor no", shorten(answer.trim())))?,
            }
        };
        match self.api.post(&format!("/v1/proposals/{id}/{decision}"), &json!({})).await {
            Ok(_) => Ok(()),
            Err(trouble) => self.screen.note(&trouble.to_string()), // another client was faster, or the server is gone
        }
    }

    /// Whether no client has decided yet. A server that cannot be asked counts as undecided: it may say so when it gets
    /// the decision.
    async fn is_open(&self, id: ProposalId) -> bool {
        let view = self.api.get(&format!("/v1/proposals/{id}")).await;
        view.map_or(true, |view: ProposalView| view.status == ProposalStatus::Open)
    }

    /// The run's events from its first.
    async fn events(&self, run: RunId) -> CommandResult<Response> {
        self.api.send(self.api.request(Method::GET, &format!("/v1/runs/{run}/events"))).await
    }

    /// The run's events again, once the server is back.
    async fn come_back(&mut self, run: RunId) -> CommandResult<Response> {
        for _ in 0..MAX_RETURNS {
            tokio::select! {
                () = tokio::time::sleep(RETURN_PAUSE) => {}
                _ = self.interrupt.recv() => break,
            }
            if let Ok(response) = self.events(run).await {
                return Ok(response);
            }
        }
        Err(format!("the server cannot be reached; the run continues when it is back: {}", self.command())
            .into())
    }
}

fn header<T: std::str::FromStr>(response: &Response, name: &str) -> CommandResult<T> {
    let value = response.headers().get(name).and_then(|value| value.to_str().ok()?.parse().ok());
    value.ok_or_else(|| format!("the server's answer has no {name}; is it an older version?").into())
}

//! The slash commands of a chat.

use protocol::{ActionView, AppView, MemoryView, Message, ModelView, Page, RunId, ThreadView, UndoReport};
use serde_json::json;

use super::Chat;
use crate::terminal_text::{printable, shorten};
use crate::{CommandResult, model_limits, weights};

/// The commands that a person can type after a slash, for completion.
pub(super) const COMMAND_NAMES: &[&str] =
    &["/app", "/help", "/memories", "/model", "/pin", "/quit", "/remember", "/threads", "/undo"];

/// Threads and memories that are listed at most.
const MAX_LISTED: usize = 20;

const HELP: &str = "\
/help            show this list
/app [NAME]      talk to another app, or list the apps
/model [NAME]    let another model answer from now on, or list the models
/threads         list your newest conversations in this app
/memories        list the newest memories of you in this app
/remember TEXT   remember something
/pin TEXT        pin a text to this conversation, so that each prompt contains it
/undo            undo what the last answer has changed
/quit            end the chat; also /bye, exit, Ctrl-D, and Ctrl-C in an empty line
//TEXT           send a message that begins with a slash

A backslash before Enter, or Alt-Enter, begins a new line of the message; pasted lines are one message.
Ctrl-C stops an answer, or removes what is typed; Ctrl-Y brings it back. Up and Down recall earlier messages.";

/// A line that a person has typed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChatLine {
    Message(String),
    /// A message that asks the server to remember something.
    Remember(String),
    Help,
    Quit,
    App(Option<String>),
    Model(Option<String>),
    Threads,
    Memories,
    Undo,
    Unknown(String),
}

impl ChatLine {
    pub(super) fn parse(line: &str) -> Self {
        let line = line.trim();
        if line == "exit" {
            return Self::Quit;
        }
        if let Some(message) = line.strip_prefix('/').filter(|rest| rest.starts_with('/')) {
            return Self::Message(message.to_owned());
        }
        if !line.starts_with('/') {
            return Self::Message(line.to_owned());
        }
        let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let argument = Some(argument.trim()).filter(|argument| !argument.is_empty()).map(str::to_owned);
        match name.trim_end_matches(':').to_lowercase().as_str() {
            // The server's own commands.
            "/remember" => Self::Remember(line.to_owned()),
            "/pin" => Self::Message(line.to_owned()),
            "/help" | "/?" => Self::Help,
            "/quit" | "/exit" | "/bye" => Self::Quit,
            "/app" => Self::App(argument),
            "/model" => Self::Model(argument),
            "/threads" => Self::Threads,
            "/memories" => Self::Memories,
            "/undo" => Self::Undo,
            _ => Self::Unknown(name.to_owned()),
        }
    }
}

impl Chat {
    /// Runs a command, or sends a message. The caller ends the chat.
    pub(super) async fn run_command(&mut self, line: ChatLine) -> CommandResult {
        match line {
            ChatLine::Message(message) => self.say(&message).await,
            ChatLine::Remember(message) => self.remember(&message).await,
            ChatLine::Help => self.screen.print(HELP),
            ChatLine::Quit => Ok(()),
            ChatLine::App(None) => self.list_apps().await,
            ChatLine::App(Some(name)) => self.change_app(&name).await,
            ChatLine::Model(None) => self.list_models().await,
            ChatLine::Model(Some(name)) => self.change_model(name).await,
            ChatLine::Threads => self.list_threads().await,
            ChatLine::Memories => self.list_memories().await,
            ChatLine::Undo => self.undo().await,
            ChatLine::Unknown(name) => {
                let name = shorten(&name).into_owned();
                self.screen.note(&format!(
                    "there is no command {name}; /help lists the commands, and a message that begins with a slash is \
                     sent with two"
                ))
            }
        }
    }

    /// Sends a request to remember something. Where neither the app nor the user allows that, the model gets it as a
    /// message, and a person is told so.
    async fn remember(&mut self, message: &str) -> CommandResult {
        self.remembered = false;
        self.say(message).await?;
        if self.remembered {
            return Ok(());
        }
        let app = &self.app;
        self.screen.note(&format!("/remember stores nothing in {app} now, so the model got it as a message"))
    }

    /// Says who is talked to, and what that one cannot do.
    pub(super) async fn introduce(&mut self) -> CommandResult {
        let app = self.app_view().await;
        let name = self.model.clone().or_else(|| app.as_ref()?.model.clone());
        let by = name.as_ref().map(|name| format!(", model {}", printable(name))).unwrap_or_default();
        self.screen.print(&format!(
            "Talking to {}{by}. /help lists the commands, Ctrl-C stops an answer, Ctrl-D ends.",
            self.app
        ))?;
        self.tell_limits().await
    }

    /// Says what the model that answers cannot do, how slow it is, and the way to a better one.
    pub(super) async fn tell_limits(&mut self) -> CommandResult {
        let Some(app) = self.app_view().await else { return Ok(()) };
        let name = self.model.as_ref().or(app.model.as_ref());
        let Some(model) = self.models().await.into_iter().find(|model| Some(&model.id) == name) else {
            return Ok(());
        };
        let is_local = model.provider == weights::PROVIDER;
        let is_small = is_local && self.small_models.contains(&model.id);
        let notes = [
            model_limits::view_note(&app, &model),
            is_small.then(|| model_limits::small_model_note(&model.id)),
            is_local.then(|| model_limits::slow_model_note(&model.id)),
        ];
        notes.iter().flatten().try_for_each(|note| self.screen.note(note))
    }

    /// The app as the server describes it now. A chat goes on without the description.
    async fn app_view(&self) -> Option<AppView> {
        let page: Page<AppView> = self.api.get("/v1/apps").await.ok()?;
        page.data.into_iter().find(|app| app.id == self.app)
    }

    async fn models(&self) -> Vec<ModelView> {
        self.api.get("/v1/models").await.map(|page: Page<ModelView>| page.data).unwrap_or_default()
    }

    async fn list_apps(&mut self) -> CommandResult {
        let page: Page<AppView> = self.api.get("/v1/apps").await?;
        for app in page.data {
            let mark = if app.id == self.app { '*' } else { ' ' };
            self.screen.print(&format!("{mark} {:<16} {}", app.id, one_line(&app.description)))?;
        }
        Ok(())
    }

    /// Another app begins another conversation.
    async fn change_app(&mut self, name: &str) -> CommandResult {
        let page: Page<AppView> = self.api.get("/v1/apps").await?;
        let names: Vec<String> = page.data.into_iter().map(|app| app.id).collect();
        if !names.iter().any(|known| known == name) {
            return Err(
                format!("there is no app \"{}\"; there is {}", shorten(name), names.join(", ")).into()
            );
        }
        self.app = name.to_owned();
        (self.thread, self.last_run, self.model) = (None, None, None);
        self.introduce().await
    }

    async fn list_models(&mut self) -> CommandResult {
        let page: Page<ModelView> = self.api.get("/v1/models").await?;
        let app = self.app_view().await;
        let answers = self.model.clone().or_else(|| app.as_ref()?.model.clone());
        let is_allowed = |id: &String| {
            app.as_ref().is_none_or(|app| app.models.iter().any(|name| name == "*" || name == id))
        };
        for model in page.data.iter().filter(|model| is_allowed(&model.id)) {
            let mark = if answers.as_ref() == Some(&model.id) { '*' } else { ' ' };
            let tools = if model.tools { "" } else { ", without tools" };
            let line = format!("{mark} {:<28} {}{tools}", printable(&model.id), printable(&model.provider));
            self.screen.print(&line)?;
        }
        Ok(())
    }

    /// The server refuses a model that no provider serves when it gets the next message.
    async fn change_model(&mut self, name: String) -> CommandResult {
        let allowed = self.app_view().await.map(|app| app.models).unwrap_or_default();
        if !allowed.is_empty() && !allowed.iter().any(|known| known == "*" || *known == name) {
            let allowed = allowed.join(", ");
            return Err(format!("{} does not allow {}; it allows {allowed}", self.app, shorten(&name)).into());
        }
        self.model = Some(name);
        self.introduce().await
    }

    async fn list_threads(&mut self) -> CommandResult {
        let path = format!("/v1/apps/{}/threads?limit={MAX_LISTED}", self.app);
        let page: Page<ThreadView> = self.api.get(&path).await?;
        if page.data.is_empty() {
            return self.screen.note("there is no conversation yet");
        }
        for ThreadView { id, updated_at, title, .. } in page.data {
            let mark = if Some(id) == self.thread { '*' } else { ' ' };
            let title = title.as_deref().map_or_else(|| "(no title)".to_owned(), one_line);
            self.screen.print(&format!("{mark} {id}  {updated_at:.0}  {title}"))?;
        }
        self.screen.note(&format!("to continue one: rondo chat --app {} --thread ID", self.app))
    }

    async fn list_memories(&mut self) -> CommandResult {
        let path = format!("/v1/apps/{}/memories?status=active&limit={MAX_LISTED}", self.app);
        let page: Page<MemoryView> = self.api.get(&path).await?;
        if page.data.is_empty() {
            return self.screen.note("nothing is remembered yet");
        }
        for memory in page.data {
            self.screen.print(&format!("• {}", one_line(&memory.text)))?;
        }
        Ok(())
    }

    /// Undoes what the last run has changed.
    async fn undo(&mut self) -> CommandResult {
        let Some(run) = self.last_answer().await? else {
            return self.screen.note("there is no answer to undo yet");
        };
        let path = format!("/v1/runs/{run}/undo");
        let report: UndoReport = self.api.post(&path, &json!({})).await?.json().await?;
        let UndoReport { undone, refused, proposals } = report;
        if undone.is_empty() && refused.is_empty() && proposals.is_empty() {
            return self.screen.note("the last answer has changed nothing");
        }
        for action in undone.iter().filter_map(|undo| undo.undo_of) {
            let ActionView { tool, input, .. } = self.api.get(&format!("/v1/actions/{action}")).await?;
            self.screen.note(&format!("undone: {tool} {}", shorten(&input.to_string())))?;
        }
        for action in refused {
            self.screen.note(&format!("{} is not undone: {}", action.tool, action.reason))?;
        }
        for proposal in proposals {
            self.screen.note(&format!("{} still waits for your yes or no", proposal.tool))?;
        }
        Ok(())
    }

    /// The run of the last answer: of this chat, or of the conversation that it goes on with.
    async fn last_answer(&self) -> CommandResult<Option<RunId>> {
        if self.last_run.is_some() {
            return Ok(self.last_run);
        }
        let messages: Vec<Message> = self.newest_messages().await?;
        Ok(messages.iter().rev().find_map(|message| message.run_id))
    }
}

/// A text of others on one line, and unable to command the terminal.
fn one_line(text: &str) -> String {
    shorten(&printable(text).split_whitespace().collect::<Vec<_>>().join(" ")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_begins_a_command_and_two_begin_a_message() {
        let message = |text: &str| ChatLine::Message(text.into());
        for (line, expected) in [
            ("hello", message("hello")),
            ("exit", ChatLine::Quit),
            ("exit the loop", message("exit the loop")),
            (" /bye ", ChatLine::Quit),
            ("/Quit", ChatLine::Quit),
            ("/help me", ChatLine::Help),
            ("/app", ChatLine::App(None)),
            ("/app  garden ", ChatLine::App(Some("garden".into()))),
            ("/model m/1", ChatLine::Model(Some("m/1".into()))),
            ("/remember: I am vegan", ChatLine::Remember("/remember: I am vegan".into())),
            ("/pin\nno sugar", message("/pin\nno sugar")),
            ("/usr/bin is a folder", ChatLine::Unknown("/usr/bin".into())),
            ("//usr/bin is a folder", message("/usr/bin is a folder")),
        ] {
            assert_eq!(ChatLine::parse(line), expected, "{line:?}");
        }
        for name in COMMAND_NAMES {
            assert!(!matches!(ChatLine::parse(name), ChatLine::Unknown(_)), "{name}");
            assert!(HELP.contains(name), "{name}");
        }
    }
}

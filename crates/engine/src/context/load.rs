//! Every read of a run, at once.

use std::fmt::Write as _;
use std::sync::Arc;

use app::App;
use model::ToolSpec;
use protocol::{ContextLoaded, RunStart};
use store::{Store, Window};

use super::{Context, history};
use crate::transcript;

/// Messages of the path that are read for a prompt, the newest ones.
const MAX_HISTORY_MESSAGES: usize = 400;

/// Reads what the prompt of a run needs. `loaded` is what the log says was loaded, so that a run that goes on after a
/// restart sees the same.
pub(crate) async fn load(
    store: &dyn Store,
    app: &App,
    tools: Arc<[ToolSpec]>,
    start: &RunStart,
    loaded: &ContextLoaded,
) -> Result<Context, store::Error> {
    let rows =
        store.path(start.thread_id, start.message_id, Window::Newest(MAX_HISTORY_MESSAGES + 1)).await?;
    let mut turns = Vec::with_capacity(rows.len());
    for row in &rows {
        let turn = transcript::read(row);
        transcript::warn(start.thread_id, row, turn.trouble);
        turns.push(turn);
    }
    let message = turns.pop().map_or_else(|| transcript::UNREADABLE.to_owned(), |turn| turn.text);
    Ok(Context {
        model: start.model.clone().unwrap_or_default(),
        system: system(app, start.system_prompt.as_deref(), &loaded.date),
        history: history::messages(&turns),
        message,
        tools,
        settings: start.settings.clone(),
    })
}

fn system(app: &App, custom: Option<&str>, date: &str) -> String {
    let mut system = app.instructions.trim_end().to_owned();
    if let Some(custom) = custom {
        let _ = write!(system, "\n\n{}", custom.trim_end());
    }
    let _ = write!(system, "\n\nToday is {date}.");
    system
}

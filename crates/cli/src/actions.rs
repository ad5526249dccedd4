//! `rondo actions`: what tools did, and whether the ledger that says so is whole.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;

use clap::Subcommand;
use protocol::ActionView;
use reqwest::Method;
use serde::Deserialize;

use crate::api_client::{ApiClient, UserOptions};
use crate::config::Config;
use crate::terminal_text::{printable, shorten};
use crate::user_data::UserData;
use crate::{CommandResult, print};

/// How long the running server may take to go through the whole ledger.
const VERIFY_PATIENCE: Duration = Duration::from_secs(15 * 60);

#[derive(Subcommand)]
pub(crate) enum ActionsCommand {
    /// List the actions of tools for a user in an app, newest first
    List {
        #[command(flatten)]
        user: UserOptions,
        /// How many actions to print at most
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
        limit: u16,
    },
    /// Check the hash chains of the ledger of all users; the exit code is 1 if a fault is found
    Verify,
}

/// The report of the server.
#[derive(Deserialize)]
struct VerifiedLedger {
    scopes: u64,
    entries: u64,
    erased: u64,
    faults: Vec<String>,
}

pub(crate) async fn actions(config: Config, command: ActionsCommand) -> CommandResult {
    match command {
        ActionsCommand::List { user, limit } => {
            let data = UserData::open(&config, user).await?;
            let actions = data.actions(limit.into()).await;
            data.close().await;
            list(&actions?)
        }
        ActionsCommand::Verify => verify(&config).await,
    }
}

fn list(actions: &[ActionView]) -> CommandResult {
    let mut report = String::new();
    for action in actions {
        let state = if action.undone { "undone" } else { action.status.name() };
        let input =
            if action.input.is_null() { Cow::Borrowed("erased") } else { action.input.to_string().into() };
        let input = printable(&input);
        let (effect, tool, input) = (action.effect.name(), &action.tool, shorten(&input));
        writeln!(report, "{}  {}  {state:<9}  {effect:<12}  {tool}  {input}", action.id, action.started_at)?;
    }
    print(&report)
}

async fn verify(config: &Config) -> CommandResult {
    let api = ApiClient::open(config).await?;
    let ledger = api.read(api.request(Method::GET, "/v1/admin/ledger").timeout(VERIFY_PATIENCE)).await;
    api.close().await;
    let VerifiedLedger { scopes, entries, erased, faults } = ledger?;
    let mut report =
        format!("scopes   {scopes}\nentries  {entries}\nerased   {erased}\nfaults   {}\n", faults.len());
    for fault in &faults {
        writeln!(report, "BAD   {fault}")?;
    }
    print(&report)?;
    match faults.len() {
        0 => Ok(()),
        1 => Err("the ledger has 1 fault".into()),
        count => Err(format!("the ledger has {count} faults").into()),
    }
}

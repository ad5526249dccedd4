//! `rondo actions`: what tools did, and whether the ledger that says so is whole.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use clap::Subcommand;
use reqwest::Method;
use serde::Deserialize;
use store::Verified;

use crate::config::Config;
use crate::desk::Line;
use crate::shelf::{Shelf, Whose};
use crate::shown::{harmless, short};
use crate::{Trouble, assemble};

/// How long the running server may take to go through the whole ledger.
const VERIFY_PATIENCE: Duration = Duration::from_secs(15 * 60);

#[derive(Subcommand)]
pub(crate) enum Actions {
    /// List what tools did for a user in an app, newest first
    List {
        #[command(flatten)]
        whose: Whose,
        /// At most so many
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
        limit: u16,
    },
    /// Go through every chain of the ledger and say what does not hold; fails if anything does not
    Verify,
}

/// As the running server tells it.
#[derive(Deserialize)]
struct Ledger {
    scopes: u64,
    entries: u64,
    erased: u64,
    faults: Vec<String>,
}

impl From<Verified> for Ledger {
    fn from(verified: Verified) -> Self {
        let Verified { scopes, entries, erased, faults } = verified;
        Self { scopes, entries, erased, faults }
    }
}

pub(crate) async fn actions(config: Config, command: Actions) -> Result<(), Trouble> {
    match command {
        Actions::List { whose, limit } => list(&Shelf::of(&config, whose)?, limit.into()).await,
        Actions::Verify => verify(&config).await,
    }
}

async fn list(shelf: &Shelf, limit: usize) -> Result<(), Trouble> {
    let mut report = String::new();
    for deed in shelf.actions(limit).await? {
        let state = if deed.undone { "undone" } else { &deed.status };
        let input =
            if deed.input.is_null() { Cow::Borrowed("erased") } else { deed.input.to_string().into() };
        let input = harmless(&input);
        let (effect, tool, input) = (deed.effect, deed.tool, short(&input));
        writeln!(report, "{}  {}  {state:<9}  {effect:<12}  {tool}  {input}", deed.id, deed.at)?;
    }
    Ok(std::io::stdout().write_all(report.as_bytes())?)
}

async fn verify(config: &Config) -> Result<(), Trouble> {
    let ledger: Ledger = match assemble::store(config) {
        Ok(store) => store.verify_ledger().await?.into(),
        Err(trouble) => {
            let line = Line::instead(config, trouble)?;
            line.ask(line.request(Method::GET, "/v1/admin/ledger").timeout(VERIFY_PATIENCE)).await?
        }
    };
    let Ledger { scopes, entries, erased, faults } = ledger;
    let mut report =
        format!("scopes   {scopes}\nentries  {entries}\nerased   {erased}\nfaults   {}\n", faults.len());
    for fault in &faults {
        writeln!(report, "BAD   {fault}")?;
    }
    std::io::stdout().write_all(report.as_bytes())?;
    match faults.len() {
        0 => Ok(()),
        1 => Err("the ledger has a fault".into()),
        count => Err(format!("the ledger has {count} faults").into()),
    }
}

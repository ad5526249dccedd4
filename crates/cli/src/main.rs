//! The binary `rondo`, and the only place that puts the pieces together.

mod actions;
mod admin;
mod api_client;
mod apps;
mod audit;
mod backup;
mod catalogue;
mod chat;
mod compact;
mod config;
mod control;
mod copy;
mod discover;
mod doctor;
mod embedded_apps;
mod export;
mod extract;
mod health;
mod help;
mod http;
mod import;
mod init;
mod local;
mod mcp;
mod memories;
mod migrate;
mod model_answer;
mod model_knowledge;
mod model_limits;
mod models;
mod own_server;
mod pinned_tls;
mod provider_models;
mod pull;
mod replace_file;
mod serve;
mod service_setup;
mod terminal_text;
mod tools;
mod user_data;
mod vault;
mod watch;
mod weights;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use app::Problem;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use config::Config;

/// A token is allocated on one thread and freed on another, which the allocators of glibc and of musl are slow at.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The error of a command: a sentence or two, ready to be shown to the person who ran it.
pub(crate) type CommandError = Box<dyn std::error::Error + Send + Sync>;

/// The outcome of a command, or of a part of it.
pub(crate) type CommandResult<T = ()> = Result<T, CommandError>;

/// How long threads that are still busy may take when the process ends.
const SHUTDOWN_PATIENCE: Duration = Duration::from_millis(200);

/// How long the database may take to be closed, with all of its log copied and emptied.
const CLOSING: Duration = Duration::from_secs(7);

const FIRST_STEPS: &str = "\
No configuration file is needed. Set OPENAI_API_KEY or ANTHROPIC_API_KEY, or OPENAI_BASE_URL for an OpenAI-compatible
server, or run Ollama on this machine. Then `rondo serve` serves the apps in ./apps, or the
built-in apps if there is no such folder, on http://127.0.0.1:8787.

Without a provider, `rondo models pull qwen2.5-coder-0.5b` downloads a small model that runs in this process. It is good enough
to try the server.

`rondo init NAME` makes an app of your own. If something does not work, `rondo doctor` shows what is missing, and
`rondo models test` tests a model.";

/// An agent server: it runs the agent behind a chat product.
#[derive(Parser)]
#[command(name = "rondo", version, after_help = FIRST_STEPS)]
struct Cli {
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        help = "The configuration file (RONDO_CONFIG; default: ./rondo.toml, if it exists)"
    )]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start the server, and serve the HTTP API until it is stopped
    Serve {
        /// Download small local models first, if there are none: for embeddings, and for chat unless a provider is
        /// configured. The server starts even if the download fails
        #[arg(long)]
        pull: bool,
        #[command(flatten)]
        places: Locations,
    },
    /// Chat with an app in the terminal, through the running server, or through a private server if none is running
    Chat(LocatedOptions<chat::ChatOptions>),
    /// Check the configuration, and print what can be reached and what is missing
    Doctor(Locations),
    /// Ask the running server whether it accepts requests; fails if it does not
    Health(LocatedOptions<health::HealthOptions>),
    /// Make a folder with a new app that works without changes, or with a copy of a built-in app
    Init(LocatedOptions<init::InitOptions>),
    /// List the apps, check them, or train their section classifiers
    Apps(LocatedCommands<apps::AppsCommand>),
    /// Make, list and revoke the keys of users, or remove them all
    Keys(LocatedCommands<admin::KeysCommand>),
    /// List background jobs, newest first, with the causes of failures
    Jobs(Locations),
    /// List the actions of tools, or check their ledger
    Actions(LocatedCommands<actions::ActionsCommand>),
    /// Make a backup of the data folder; a server may be running
    ///
    /// The backup is checked. To restore it, start the server with the backup, or a copy of it, as its data folder.
    /// Pulled models, apps and rondo.toml are not in the backup.
    Backup(LocatedOptions<backup::BackupOptions>),
    /// Copy all data from SQLite to PostgreSQL, or back; a server may be running
    ///
    /// The copy is verified: every table has the same rows and the same hash on both sides. Run the command again to
    /// continue an interrupted copy. To move a running server, copy once, stop the server, and copy again: only the
    /// changes are copied.
    Copy(LocatedOptions<copy::CopyOptions>),
    /// Rewrite the database without free space and without traces of deleted data (vacuum); no server may be running
    ///
    /// This needs as much free disk space as the database uses. After an upgrade from an older version, run this once:
    /// from then on the database frees space automatically.
    Compact(Locations),
    /// Check all data for inconsistencies; the exit code is 1 if a fault is found; a server may be running
    Audit(Locations),
    /// Import records and files of a user in an app from JSON; nothing is imported if any part is not valid
    Import(LocatedOptions<import::ImportOptions>),
    #[command(
        about = "Import conversations and memories of another product: ChatGPT, Letta or LangGraph",
        long_about = "Import conversations and memories of another product: ChatGPT, Letta or LangGraph\n\n\
            A conversation that was imported before is left alone. docs/migration.md says what is taken over."
    )]
    MigrateFrom(LocatedOptions<migrate::MigrateOptions>),
    /// Export all records and files of a user in an app, as JSON for `import`
    Export(LocatedOptions<export::ExportOptions>),
    /// List, search, add and forget the memories of a user in an app, print their history, or switch memory off
    Memories(LocatedCommands<memories::MemoriesCommand>),
    /// List the MCP servers of apps, show their tools, and approve them
    Mcp(LocatedCommands<mcp::McpCommand>),
    /// List the models, test a model, download local models, or install a newer catalogue of models
    Models(LocatedCommands<models::ModelsCommand>),
    /// Generate tools for an app from the description of an API
    Tools(LocatedCommands<tools::ToolsCommand>),
    /// Reads a document from standard input; the server calls this for uploads
    #[command(name = extract::COMMAND, hide = true)]
    ExtractDocument { kind: String },
    /// Print a configuration file with every key, its default and its meaning
    Config,
}

/// The options of a command, and where things are.
#[derive(clap::Args)]
struct LocatedOptions<T: clap::Args> {
    #[command(flatten)]
    options: T,
    #[command(flatten)]
    places: Locations,
}

/// One of the commands below a command, and where things are.
#[derive(clap::Args)]
struct LocatedCommands<T: Subcommand> {
    #[command(subcommand)]
    command: T,
    #[command(flatten)]
    places: Locations,
}

/// The places of things; each beats its environment variable.
#[derive(clap::Args, Default)]
struct Locations {
    #[arg(
        long,
        global = true,
        value_name = "ADDRESS",
        help = "The address of the server (RONDO_LISTEN; default: 127.0.0.1:8787)"
    )]
    listen: Option<String>,
    #[arg(
        long,
        global = true,
        value_name = "FOLDER",
        help = "The folder with the database and all other data (RONDO_DATA; default: ./data)"
    )]
    data: Option<String>,
    #[arg(
        long,
        global = true,
        value_name = "FOLDER",
        help = "The folder with the app folders (RONDO_APPS; default: ./apps)"
    )]
    apps: Option<String>,
}

impl Locations {
    fn load(&self, file: Option<&Path>) -> CommandResult<Config> {
        let flags = [
            ("RONDO_LISTEN", "--listen", &self.listen),
            ("RONDO_DATA", "--data", &self.data),
            ("RONDO_APPS", "--apps", &self.apps),
        ];
        let given =
            |variable: &str| flags.iter().find(|(name, _, value)| *name == variable && value.is_some());
        let lookup = |name: &str| {
            given(name)
                .and_then(|(_, _, value)| (*value).clone())
                .or_else(|| config::process_environment(name))
        };
        // A flag stands in for its variable; a mistake in it is reported under its own name.
        let renamed = |problem: Problem| match problem.file.to_str().and_then(given) {
            Some((_, flag, _)) => Problem { file: flag.into(), ..problem },
            None => problem,
        };
        Ok(config::load(file, &lookup).map_err(renamed)?)
    }
}

#[expect(clippy::print_stderr, reason = "where a command says why it failed")]
fn main() -> ExitCode {
    let cli = Cli::from_arg_matches(&help::matches(Cli::command()));
    match cli.map_err(CommandError::from).and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(trouble) => {
            eprintln!("rondo: {trouble}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> CommandResult {
    let file = cli.config.as_deref();
    match cli.command {
        Command::Serve { pull, places } => block_on(serve::serve(places.load(file)?, pull)),
        Command::Chat(LocatedOptions { options, places }) => block_on(chat::chat(places.load(file), options)),
        Command::Doctor(places) => block_on(doctor::doctor(places.load(file)?)),
        Command::Health(LocatedOptions { options, places }) => {
            block_on(health::health(&places.load(file)?, options))
        }
        Command::Init(LocatedOptions { options, places }) => {
            block_on(init::init(places.load(file)?, options))
        }
        Command::Apps(LocatedCommands { command, places }) => {
            block_on(apps::apps(places.load(file)?, command))
        }
        Command::Keys(LocatedCommands { command, places }) => {
            block_on(admin::keys(places.load(file)?, command))
        }
        Command::ExtractDocument { kind } => extract::answer(&kind),
        Command::Jobs(places) => block_on(admin::jobs(places.load(file)?)),
        Command::Actions(LocatedCommands { command, places }) => {
            block_on(actions::actions(places.load(file)?, command))
        }
        Command::Backup(LocatedOptions { options, places }) => backup::backup(&places.load(file)?, &options),
        Command::Copy(LocatedOptions { options, places }) => copy::copy(&places.load(file)?, &options),
        Command::Compact(places) => compact::compact(&places.load(file)?),
        Command::Audit(places) => audit::audit(&places.load(file)?),
        Command::Import(LocatedOptions { options, places }) => {
            block_on(import::import(places.load(file)?, options))
        }
        Command::MigrateFrom(LocatedOptions { options, places }) => {
            block_on(migrate::migrate(places.load(file)?, options))
        }
        Command::Export(LocatedOptions { options, places }) => {
            block_on(export::export(places.load(file)?, options))
        }
        Command::Memories(LocatedCommands { command, places }) => {
            block_on(memories::memories(places.load(file)?, command))
        }
        Command::Mcp(LocatedCommands { command, places }) => block_on(mcp::mcp(places.load(file)?, command)),
        Command::Models(LocatedCommands { command, places }) => {
            block_on(models::models(places.load(file)?, command))
        }
        Command::Tools(LocatedCommands { command, places }) => tools::tools(&places.load(file)?, command),
        Command::Config => print(config::DEFAULT_FILE),
    }
}

fn block_on(work: impl Future<Output = CommandResult>) -> CommandResult {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(work);
    runtime.shutdown_timeout(SHUTDOWN_PATIENCE);
    if !store::sqlite::wait_until_closed(CLOSING) {
        tracing::warn!("the database was not closed in time; the next start recovers it");
    }
    result
}

/// Writes to standard output at once.
fn print(text: &str) -> CommandResult {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// The innermost reason of an error; the layers around it only say that something failed.
fn cause(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

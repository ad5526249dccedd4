//! `rondo tools`: declarations of tools that are written for an app, from descriptions of what they reach.

mod openapi;
mod report;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Subcommand;

use crate::config::Config;
use crate::replace_file::{PUBLIC, replace_file};
use crate::{CommandResult, print, service_setup, terminal_text};

use openapi::{ImportChoice, ImportedTools, OpenApiDocument};

#[derive(Subcommand)]
pub(crate) enum ToolsCommand {
    /// Generate tools from the description of an API
    Import {
        #[command(subcommand)]
        from: ToolSource,
    },
}

#[derive(Subcommand)]
pub(crate) enum ToolSource {
    /// Generate HTTP tools from an OpenAPI description, version 3.0 or 3.1, in JSON or YAML
    Openapi(ToolImportOptions),
}

#[derive(clap::Args)]
pub(crate) struct ToolImportOptions {
    /// The file with the description
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write the tools into the folder of this app; the default is standard output
    #[arg(long)]
    app: Option<String>,
    #[command(flatten)]
    choice: ImportChoice,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// Print what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn tools(config: &Config, command: ToolsCommand) -> CommandResult {
    match command {
        ToolsCommand::Import { from: ToolSource::Openapi(options) } => import(config, options),
    }
}

fn import(config: &Config, options: ToolImportOptions) -> CommandResult {
    let document = OpenApiDocument::read(&options.file)?;
    let imported = openapi::import(&document, &options.choice).map_err(|trouble| {
        format!("{}: {}", options.file.display(), terminal_text::printable(&trouble.to_string()))
    })?;
    let Some(app) = options.app else {
        print(&imported.toml)?;
        let next = "review it, and save it in the folder of an app as tools/NAME.toml";
        let report = report::report(config, &imported, "", next)?;
        return Ok(std::io::stderr().write_all(report.as_bytes())?);
    };
    let folder = folder(config, &app)?;
    let file = folder.join("tools").join(format!("{}.toml", imported.file_name));
    if file.exists() && !options.force {
        return Err(format!("{} exists already; give --force to replace it", file.display()).into());
    }
    let (place, next) = if options.dry_run {
        ("which would be written to", "run the same command without --dry-run")
    } else {
        put(config, &folder, &file, &imported)?;
        ("written to", "review the file, run `rondo doctor`, and restart the server")
    };
    let place = format!(", {place} {}", file.display());
    print(&report::report(config, &imported, &place, next)?)
}

/// The app's folder. Its name is checked against those that are there, so it cannot lead elsewhere.
fn folder(config: &Config, app: &str) -> CommandResult<PathBuf> {
    let unreadable = |error: std::io::Error| format!("{}: {error}", config.apps.display());
    let mut names = Vec::new();
    for entry in config.apps.read_dir().map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        if entry.path().join("app.toml").is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort_unstable();
    if names.iter().any(|name| name == app) {
        return Ok(config.apps.join(app));
    }
    Err(format!("there is no app \"{app}\"; there is {}", names.join(", ")).into())
}

/// Writes the file and reads the app with it. If that fails, all is as it was before.
fn put(config: &Config, folder: &Path, file: &Path, imported: &ImportedTools) -> CommandResult {
    let before = match std::fs::read(file) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(format!("{}: {error}", file.display()).into()),
    };
    write(file, imported.toml.as_bytes()).map_err(|error| format!("{}: {error}", file.display()))?;
    let Err(trouble) = check(config, folder) else { return Ok(()) };
    match before {
        Some(bytes) => write(file, &bytes)?,
        None => std::fs::remove_file(file)?,
    }
    Err(format!("the app cannot have these tools, and nothing was written: {trouble}").into())
}

/// Reads the app as the server would.
fn check(config: &Config, folder: &Path) -> CommandResult {
    let app = std::sync::Arc::new(app::load(folder)?);
    let apps = app::Apps::from([(app.id.clone(), std::sync::Arc::clone(&app))]);
    service_setup::catalog(config, &apps)?.registry(&app, &[])?;
    Ok(())
}

fn write(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    replace_file(file, bytes, PUBLIC)
}

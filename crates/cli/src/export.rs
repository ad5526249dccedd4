//! `rondo export`: all records and files of a user in an app, as JSON that `rondo import` reads.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::CommandResult;
use crate::api_client::UserOptions;
use crate::config::Config;
use crate::import::{FileEntry, ImportBundle, RecordEntry};
use crate::user_data::{UserData, UserRecord};

#[derive(clap::Args)]
pub(crate) struct ExportOptions {
    #[command(flatten)]
    user: UserOptions,
    /// Write to this file, which must not exist yet; the default is standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) async fn export(config: Config, options: ExportOptions) -> CommandResult {
    let data = UserData::open(&config, options.user).await?;
    let bundle = bundle(&data).await;
    data.close().await;
    let mut text = serde_json::to_string_pretty(&bundle?)?;
    text.push('\n');
    match options.out {
        Some(file) => write(&file, &text).map_err(|error| {
            let is_there = error.kind() == ErrorKind::AlreadyExists;
            let remedy = if is_there { "; choose another file with --out" } else { "" };
            format!("{}: {error}{remedy}", file.display()).into()
        }),
        None => Ok(std::io::stdout().write_all(text.as_bytes())?),
    }
}

async fn bundle(user: &UserData) -> CommandResult<ImportBundle> {
    let mut bundle = ImportBundle::default();
    for kind in user.app.records.keys() {
        let records = user.records(kind).await?;
        let entry = |record: UserRecord| RecordEntry {
            id: Some(record.id.to_string()),
            kind: record.kind,
            data: record.data,
        };
        bundle.records.extend(records.into_iter().map(entry));
    }
    let files = user.files().await?;
    bundle.files.extend(files.into_iter().map(|(path, content)| FileEntry { path, content }));
    Ok(bundle)
}

/// Only the user of the operating system who exports may read the file, because it has a user's own data.
fn write(file: &Path, text: &str) -> std::io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?.write_all(text.as_bytes())
}

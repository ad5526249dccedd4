//! `rondo init`: a new app folder that works at once.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::CommandResult;
use crate::config::Config;

/// The files of the new app. In them, `{{id}}` and `{{name}}` stand for what it is called.
const FILES: &[(&str, &str)] = &[
    ("app.toml", include_str!("init/app/app.toml")),
    ("instructions.md", include_str!("init/app/instructions.md")),
    ("records/task.json", include_str!("init/app/records/task.json")),
    ("personas/coach.md", include_str!("init/app/personas/coach.md")),
    ("README.md", include_str!("init/app/README.md")),
];

#[derive(clap::Args)]
pub(crate) struct InitOptions {
    /// The app's name: a lower-case letter, then lower-case letters, digits and dashes
    name: String,
}

pub(crate) fn init(config: &Config, options: &InitOptions) -> CommandResult {
    let folder = config.apps.join(&options.name);
    let id = app::id(&folder)?;
    if id.as_str() != options.name {
        let name = &options.name;
        return Err(format!(
            "{name:?} cannot be an app's name; give only the name, and the folder with --apps"
        )
        .into());
    }
    if folder.symlink_metadata().is_ok() {
        let place = folder.display();
        return Err(format!("{place} exists already; choose another name, or remove it first").into());
    }
    make(&config.apps, id.as_str()).map_err(|error| {
        format!("{}: {error}; choose another folder with --apps or RONDO_APPS", config.apps.display())
    })?;
    let files: Vec<&str> = FILES.iter().map(|(file, _)| *file).collect();
    Ok(writeln!(
        std::io::stdout(),
        "made {} with {}\n\nTry this:\n  rondo apps check {id}\n  rondo chat --app {id} \"Please put on my list: water the \
         plants\"\nThen change instructions.md; a running server reloads it by itself (hot reload).",
        folder.display(),
        files.join(", ")
    )?)
}

/// Makes the folder elsewhere first, so that a running server never sees half of it.
fn make(apps: &Path, id: &str) -> std::io::Result<()> {
    let draft: PathBuf = apps.join(format!(".{id}.new"));
    if draft.exists() {
        fs::remove_dir_all(&draft)?;
    }
    for (file, text) in FILES {
        let path = draft.join(file);
        fs::create_dir_all(path.parent().unwrap_or(&draft))?;
        fs::write(path, text.replace("{{id}}", id).replace("{{name}}", &title(id)))?;
    }
    fs::rename(draft, apps.join(id))
}

/// The id as a name: `my-app` is "My app".
fn title(id: &str) -> String {
    let words = id.replace('-', " ");
    let mut letters = words.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_becomes_a_name() {
        assert_eq!((title("my-first-app"), title("a")), ("My first app".to_owned(), "A".to_owned()));
    }
}

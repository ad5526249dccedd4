//! `rondo init`: a new app folder that works at once, or a copy of an embedded app.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use app::Apps;
use model::MODEL_CHOICES;

use crate::config::Config;
use crate::{CommandResult, discover, embedded_apps, model_limits, service_setup};

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
    /// The app's name: a lower-case letter, then lower-case letters, digits and dashes; with --from, the name of that app
    /// if none is given
    #[arg(required_unless_present = "from")]
    name: Option<String>,
    /// Copy this built-in app, such as kalito, instead of making a new one
    #[arg(long, value_name = "APP")]
    from: Option<String>,
}

pub(crate) async fn init(config: Config, options: InitOptions) -> CommandResult {
    let name = options.name.as_deref().or(options.from.as_deref()).unwrap_or_default();
    let folder = config.apps.join(name);
    let id = app::id(&folder)?;
    if id.as_str() != name {
        return Err(format!(
            "{name:?} cannot be an app's name; give only the name, and the folder with --apps"
        )
        .into());
    }
    if folder.symlink_metadata().is_ok() {
        let place = folder.display();
        return Err(format!("{place} exists already; choose another name, or remove it first").into());
    }
    let ends_built_in_apps = embedded_apps::are_used(&config);
    let files = match &options.from {
        Some(app) => copied_files(app)?,
        None => new_files(name),
    };
    make(&config.apps, name, &files).map_err(|error| {
        format!("{}: {error}; choose another folder with --apps or RONDO_APPS", config.apps.display())
    })?;
    let (paths, message) = match options.from {
        Some(_) => (vec![format!("{} files", files.len())], "Hello"),
        None => (
            files.iter().map(|(path, _)| (*path).to_owned()).collect(),
            "Please put on my list: water the plants",
        ),
    };
    let missing = missing_for(&discover::complete(config).await, &folder);
    let ended = ends_built_in_apps.then(|| {
        format!(
            "the built-in apps ({}) are not served after the next start, because there is an apps folder now; `rondo \
             init --from APP` copies one into it, and keeps its threads",
            embedded_apps::names().join(", ")
        )
    });
    let notes: String = missing.into_iter().chain(ended).map(|note| format!("Note: {note}.\n")).collect();
    Ok(writeln!(
        std::io::stdout(),
        "made {} with {}\n\nTry this:\n  rondo apps check {id}\n  rondo chat --app {id} \"{message}\"\n{notes}Then \
         change instructions.md; a running server reloads it by itself (hot reload).",
        folder.display(),
        paths.join(", ")
    )?)
}

/// Names the part that the new app still needs to work as it is described: a model, or a model with tools. `rondo apps
/// check` reports mistakes.
fn missing_for(config: &Config, folder: &Path) -> Option<String> {
    let app = Arc::new(app::check(folder).ok()?);
    let models = service_setup::registry(config).ok()?;
    if models.name(app.model.as_deref()).is_none() {
        return Some(format!("no model is configured yet: {MODEL_CHOICES}"));
    }
    let catalog = service_setup::catalog(config, &Apps::from([(app.id.clone(), Arc::clone(&app))])).ok()?;
    model_limits::app_note(&app, &catalog.registry(&app, &[]).ok()?, &models)
}

/// The files of a new app.
fn new_files(id: &str) -> Vec<(&'static str, Vec<u8>)> {
    let fill = |text: &str| text.replace("{{id}}", id).replace("{{name}}", &title(id));
    FILES.iter().map(|(path, text)| (*path, fill(text).into_bytes())).collect()
}

/// The files of an embedded app.
fn copied_files(app: &str) -> CommandResult<Vec<(&'static str, Vec<u8>)>> {
    let files = embedded_apps::files_of(app)?;
    if files.is_empty() {
        let names = embedded_apps::names().join(", ");
        return Err(format!("there is no built-in app {app:?}; there are: {names}").into());
    }
    Ok(files)
}

/// Makes the folder elsewhere first, so that a running server never sees half of it.
fn make(apps: &Path, id: &str, files: &[(&str, Vec<u8>)]) -> std::io::Result<()> {
    let draft: PathBuf = apps.join(format!(".{id}.new"));
    if draft.exists() {
        fs::remove_dir_all(&draft)?;
    }
    for (file, content) in files {
        let path = draft.join(file);
        fs::create_dir_all(path.parent().unwrap_or(&draft))?;
        fs::write(path, content)?;
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

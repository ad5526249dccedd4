//! Revisions of apps: a run that continues after a hot reload, after a restart or on another node has the app that it began
//! with. The store keeps the files of each revision that was served.

use std::error::Error;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;

use app::{App, AppFiles};
use protocol::AppId;
use store::RunRow;

use crate::apps::ServedApp;
use crate::mcp;
use crate::state::RunState;
use crate::world::World;

/// The app that a run began with, or the app as it is served now if the other one is not kept. None if the app is not
/// served at all.
pub(crate) async fn app_of_run(
    world: &World,
    row: &RunRow,
    state: &RunState,
) -> Result<Option<Arc<ServedApp>>, store::Error> {
    let Some(served) = world.apps.get(&row.scope.app) else { return Ok(None) };
    let revision = state.start.as_ref().map_or("", |start| start.app_revision.as_str());
    if revision.is_empty() || revision == served.app.revision {
        return Ok(Some(served));
    }
    Ok(Some(find(world, &served, revision).await?.unwrap_or(served)))
}

/// Another revision of an app that is served.
async fn find(
    world: &World,
    served: &ServedApp,
    revision: &str,
) -> Result<Option<Arc<ServedApp>>, store::Error> {
    let (id, revisions) = (&served.app.id, &world.apps.revisions);
    let Some(folder) = revisions.folder.as_deref() else { return Ok(None) };
    let _turn = revisions.turn().await;
    let mut found = revisions.ready(id, revision);
    if found.is_none() {
        let Some(files) = world.store.files_of_revision(id, revision).await? else {
            tracing::info!(app = %id, revision, "an earlier version of the app is not stored, so its current version is used");
            return Ok(None);
        };
        found = match read_revision(world, (folder, id, revision), files).await {
            Ok(app) => Some(revisions.add_ready(app)),
            Err(problem) => {
                tracing::warn!(app = %id, revision, %problem, "an earlier version of the app cannot be served, so its current version is used");
                None
            }
        };
    }
    let Some(found) = found else { return Ok(None) };
    if !found.app.mcp.is_empty() {
        if let Err(error) = mcp::offer_again(world, &found).await {
            tracing::error!(app = %id, %error, "the approved tools of an app's MCP servers could not be read");
        }
        if let Some(hub) = world.catalog.hub() {
            hub.keep_servers(id, &served.app.mcp);
        }
    }
    Ok(Some(found))
}

type Problem = Box<dyn Error + Send + Sync>;

async fn read_revision(
    world: &World,
    (folder, id, revision): (&Path, &AppId, &str),
    files: Vec<u8>,
) -> Result<Arc<ServedApp>, Problem> {
    let (folder, id, revision) = (folder.to_owned(), id.clone(), revision.to_owned());
    let unpacking = move || unpack(&AppFiles::from_bytes(&files)?, &folder, (&id, &revision));
    let app = tokio::task::spawn_blocking(unpacking).await??;
    Ok(ServedApp::new(Arc::new(app), (&world.catalog, &world.models))?)
}

/// Removes what an earlier process unpacked.
pub(crate) async fn remove_unpacked(world: &World) {
    let Some(folder) = world.apps.revisions.folder.clone() else { return };
    let _there_may_be_none = tokio::task::spawn_blocking(move || fs::remove_dir_all(folder)).await;
}

/// Stores the files of every app that is served.
pub(crate) async fn keep_all(world: Arc<World>) {
    for served in world.apps.all().values() {
        keep(Arc::clone(&world), Arc::clone(&served.app)).await;
    }
}

/// Stores the files of an app, from which a run can continue elsewhere. While the database is away, this waits.
pub(crate) async fn keep(world: Arc<World>, app: Arc<App>) {
    while let Err(problem) = try_keep(&world, &app).await {
        let is_away = problem.downcast_ref::<store::Error>().is_some_and(store::Error::is_away);
        if !(is_away && world.tasks.pause().await) {
            tracing::warn!(app = %app.id, revision = app.revision, %problem, "the files of the app were not stored; a run that continues on another server gets the version that is served there");
            return;
        }
    }
}

async fn try_keep(world: &World, app: &Arc<App>) -> Result<(), Problem> {
    let Some(folder) = world.apps.revisions.folder.clone() else { return Ok(()) };
    if world.store.note_served_revision(&app.id, &app.revision).await? {
        return Ok(());
    }
    let files = {
        let _turn = world.apps.revisions.turn().await;
        let reading = Arc::clone(app);
        tokio::task::spawn_blocking(move || read_files(&reading, &folder)).await??
    };
    Ok(world.store.keep_revision(&app.id, &app.revision, files).await?)
}

/// The files of an app. Fails if they are others by now.
fn read_files(app: &App, folder: &Path) -> Result<Vec<u8>, Problem> {
    let files = AppFiles::read(&app.folder)?;
    let unpacked = unpack(&files, folder, (&app.id, &app.revision))?;
    fs::remove_dir_all(&unpacked.folder)?;
    let _another_app_may_be_there = fs::remove_dir(folder.join(&app.revision));
    Ok(files.to_bytes())
}

/// Makes a folder of the files, and reads the app from there.
fn unpack(files: &AppFiles, folder: &Path, (id, revision): (&AppId, &str)) -> Result<App, Problem> {
    let path = folder.join(revision).join(id.as_str());
    // Apps are for their operator alone, wherever they lie.
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let _of_an_earlier_try = fs::remove_dir_all(&path);
    files.write(&path)?;
    let read = app::load(&path)?;
    if read.revision == revision {
        return Ok(read);
    }
    fs::remove_dir_all(&path)?;
    Err("its folder has changed since it was read".into())
}

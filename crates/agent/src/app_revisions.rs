//! Revisions of apps: a run that continues after a hot reload, after a restart or on another node has the app that it began
//! with. The store keeps the files of each revision that was served.

use std::error::Error;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use app::{App, AppFiles};
use protocol::AppId;
use store::RunRow;

use crate::apps::ServedApp;
use crate::mcp;
use crate::state::RunState;
use crate::world::World;

/// The app that a run began with, or the app as it is served now if the other one is not kept. None if the app is not
/// served at all; a node that does not serve it may still know what the run began with.
pub(crate) async fn app_of_run(
    world: &World,
    row: &RunRow,
    state: &RunState,
) -> Result<Option<Arc<ServedApp>>, store::Error> {
    let served = world.apps.get(&row.scope.app);
    let revision = state.start.as_ref().map_or("", |start| start.app_revision.as_str());
    let is_served = served.as_ref().is_some_and(|served| served.app.revision == revision);
    if revision.is_empty() || is_served || served.is_none() && world.store.node().is_none() {
        return Ok(served);
    }
    Ok(find(world, (&row.scope.app, revision), served.as_deref()).await?.or(served))
}

/// Another revision of an app than the one that is served.
async fn find(
    world: &World,
    (id, revision): (&AppId, &str),
    served: Option<&ServedApp>,
) -> Result<Option<Arc<ServedApp>>, store::Error> {
    let revisions = &world.apps.revisions;
    let Some(folder) = revisions.folder.as_deref() else { return Ok(None) };
    let _turn = revisions.turn().await;
    let mut found = revisions.ready(id, revision);
    if found.is_none() {
        let Some(files) = world.store.files_of_revision(id, revision).await? else {
            tracing::info!(app = %id, revision, "an earlier version of the app is not stored");
            return Ok(None);
        };
        let home = served.map(|served| served.app.folder.clone());
        found = match read_revision(world, (folder, id, revision), files, home).await {
            Ok(app) => Some(revisions.add_ready(app)),
            Err(problem) => {
                tracing::warn!(app = %id, revision, %problem, "an earlier version of the app cannot be served");
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
            hub.keep_servers(id, served.map_or(&[], |served| &served.app.mcp));
        }
    }
    Ok(Some(found))
}

type RevisionProblem = Box<dyn Error + Send + Sync>;

/// Reads a revision from its files. MCP servers run in the folder of the app that is served, `home`: what they write there
/// stays.
async fn read_revision(
    world: &World,
    (folder, id, revision): (&Path, &AppId, &str),
    files: Vec<u8>,
    home: Option<PathBuf>,
) -> Result<Arc<ServedApp>, RevisionProblem> {
    let (folder, id, revision) = (folder.to_owned(), id.clone(), revision.to_owned());
    let unpacking = move || unpack(&AppFiles::from_bytes(&files)?, &folder, (&id, &revision));
    let app = tokio::task::spawn_blocking(unpacking).await??;
    let app = match home {
        Some(home) => app.moved_to(&home),
        None => app,
    };
    Ok(ServedApp::new(Arc::new(app), (&world.catalog, &world.models))?)
}

/// Removes what an earlier process has left where it was unpacked.
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

async fn try_keep(world: &World, app: &Arc<App>) -> Result<(), RevisionProblem> {
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
fn read_files(app: &App, folder: &Path) -> Result<Vec<u8>, RevisionProblem> {
    let files = AppFiles::read(&app.folder)?;
    unpack(&files, folder, (&app.id, &app.revision))?;
    Ok(files.to_bytes())
}

/// Reads the app from the files, which lie in a folder for as long as that takes. Apps are for their operator alone.
fn unpack(files: &AppFiles, folder: &Path, (id, revision): (&AppId, &str)) -> Result<App, RevisionProblem> {
    let _of_an_earlier_try = fs::remove_dir_all(folder);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let path = folder.join(id.as_str());
    let read = files.write(&path).map_err(RevisionProblem::from).and_then(|()| Ok(app::load(&path)?));
    let _the_next_one_tries_again = fs::remove_dir_all(folder);
    match read? {
        read if read.revision == revision => Ok(read),
        _ => Err("its folder has changed since it was read".into()),
    }
}

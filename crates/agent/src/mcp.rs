//! The tools of MCP servers: they are listed, stored, and offered to models as far as an admin has approved them.

use std::sync::Arc;

use futures_util::future::join_all;
use protocol::{CallId, Scope, UserId};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tools::{Failed, McpHub, McpServerHandle};

use crate::apps::ServedApp;
use crate::world::World;
use crate::{Error, run};

/// The user in the scope of a server that all users share.
const NO_USER: &str = "";

/// Offers the tools that were approved before, so that a start waits for no MCP server.
pub(crate) async fn read_pinned_tools(world: &World) -> Result<(), Error> {
    for serving in world.apps.all().values().filter(|serving| !serving.app.mcp.is_empty()) {
        offer_again(world, serving).await?;
    }
    Ok(())
}

/// Looks at every server once, so that what is new or has changed is known.
pub(crate) async fn look_at_servers(world: Arc<World>) {
    let all = world.apps.all();
    join_all(all.values().map(|serving| look_at_servers_of(Arc::clone(&world), Arc::clone(serving)))).await;
}

/// Looks at the servers of one app.
pub(crate) async fn look_at_servers_of(world: Arc<World>, serving: Arc<ServedApp>) {
    let scope = Scope { app: serving.app.id.clone(), user: UserId::new(NO_USER) };
    look_at_all(&world, &serving, &scope, |server| !server.is_personal()).await;
}

/// Looks at the servers of an app that need what one user has given.
pub async fn look_at_personal_servers(world: Arc<World>, scope: Scope) {
    let Some(serving) = world.apps.get(&scope.app) else { return };
    look_at_all(&world, &serving, &scope, McpServerHandle::is_personal).await;
}

/// Looks at those of an app's servers that are meant, side by side: one that never answers holds up no other.
async fn look_at_all(
    world: &World,
    serving: &ServedApp,
    scope: &Scope,
    meant: impl Fn(&McpServerHandle) -> bool,
) {
    let servers = world.catalog.servers(&serving.app);
    let meant = servers.iter().filter(|server| meant(server));
    join_all(meant.map(|server| look_at(world, serving, server, scope))).await;
}

/// Offers the tools of an app anew whenever a call has noticed that an MCP server changed them.
pub(crate) async fn refresh_changed_tools(world: Arc<World>, hub: Arc<McpHub>) {
    loop {
        for app in hub.changed_apps().await {
            let Some(serving) = world.apps.get(&app) else { continue };
            if let Err(error) = offer_again(&world, &serving).await {
                tracing::error!(%app, %error, "the approved tools of an app's MCP servers could not be read");
            }
        }
    }
}

async fn look_at(world: &World, serving: &ServedApp, server: &McpServerHandle, scope: &Scope) {
    if let Err(failed) = try_look_at(world, serving, server, scope).await {
        tracing::warn!(app = %serving.app.id, server = server.name(), reason = failed.message, "an MCP server could not be asked for its tools");
    }
}

async fn try_look_at(
    world: &World,
    serving: &ServedApp,
    server: &McpServerHandle,
    scope: &Scope,
) -> Result<(), Failed> {
    let stop = CancellationToken::new();
    let calling = run::calling(world, scope, CallId::new(world.ids.fresh()), json!({}), &stop);
    let offers = server.offers(&calling).await?;
    let kept = async {
        world.store.put_mcp_tools(&serving.app.id, server.name(), offers).await?;
        offer_again(world, serving).await
    };
    kept.await.map_err(|error| Failed::new("unavailable", error.to_string()))
}

/// Makes an app's tools anew of what is approved now.
pub async fn offer_again(world: &World, serving: &ServedApp) -> Result<(), Error> {
    let _turn = serving.offering_turn().await; // or older rows could be put over newer ones
    let pinned = world.store.mcp_tools(&serving.app.id).await?;
    match world.catalog.registry(&serving.app, &pinned) {
        Ok(tools) => serving.set_tools(tools),
        Err(problem) => {
            tracing::error!(app = %serving.app.id, %problem, "the tools of an app's MCP servers cannot be offered to models")
        }
    }
    Ok(())
}

/// Looks at a server that all users of an app share.
pub async fn look_at_server(
    world: &World,
    serving: &ServedApp,
    server: &McpServerHandle,
) -> Result<(), Failed> {
    let scope = Scope { app: serving.app.id.clone(), user: UserId::new(NO_USER) };
    try_look_at(world, serving, server, &scope).await
}

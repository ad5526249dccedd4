//! Tools of servers: what each offers, beside the definition that was approved.

use std::collections::BTreeSet;

use crate::sql::{SqlConnection, SqlRow, params};
use protocol::{AppId, AuditKind};
use serde_json::{Value, json};

use super::append::Batch;
use super::read::{count, find_all, find_first, find_only, maybe_time, text, time};
use super::{SqlStore, admin_audit};
use crate::rules::admin_audit::AdminAct;
use crate::rules::mcp::{
    KnownTool, KnownTools, check_approval, check_offers, check_server_room, is_first_sight,
};
use crate::{Approved, Error, MAX_MCP_SERVERS_PER_APP, MAX_MCP_TOOLS_PER_SERVER, McpOffer, McpToolRow};

const COLUMNS: &str =
    "server, tool, definition, hash, approved_hash, approved_definition, approved_at, approved_by,
    present, seen_at";

/// Tools that one read returns at most: all that there can be.
const MAX_TOOLS_PER_READ: usize = MAX_MCP_SERVERS_PER_APP * MAX_MCP_TOOLS_PER_SERVER;

impl SqlStore {
    pub(crate) async fn mcp_tools(&self, app: &AppId) -> Result<Vec<McpToolRow>, Error> {
        let app = app.clone();
        self.readers.read(move |conn| list(conn, &app)).await
    }

    pub(crate) async fn put_mcp_tools(
        &self,
        app: &AppId,
        server: &str,
        offered: Vec<McpOffer>,
    ) -> Result<Vec<McpToolRow>, Error> {
        let key = Key::new(app, server);
        let work = move |batch: &mut Batch<'_>| {
            batch.mcp_changes();
            put(batch, &key, &offered)?;
            key.all(batch.conn())
        };
        self.writer.write(work).await
    }

    pub(crate) async fn approve_mcp_tools(
        &self,
        app: &AppId,
        server: &str,
        wanted: Vec<(String, String)>,
        by: &str,
    ) -> Result<Vec<McpToolRow>, Error> {
        let (key, by) = (Key::new(app, server), by.to_owned());
        let work = move |batch: &mut Batch<'_>| {
            batch.mcp_changes();
            approve(batch, &key, &wanted, &by)?;
            key.all(batch.conn())
        };
        self.writer.write(work).await
    }

    pub(crate) async fn revoke_mcp_tools(
        &self,
        app: &AppId,
        server: &str,
        tools: Vec<String>,
        by: &str,
    ) -> Result<(), Error> {
        let (key, by) = (Key::new(app, server), by.to_owned());
        let work = move |batch: &mut Batch<'_>| {
            batch.mcp_changes();
            revoke(batch, &key, &tools, &by)
        };
        self.writer.write(work).await
    }
}

/// A server in an app.
struct Key {
    app: AppId,
    server: String,
}

impl Key {
    fn new(app: &AppId, server: &str) -> Self {
        Self { app: app.clone(), server: server.to_owned() }
    }

    /// The tools of the server that were stored before.
    fn known_tools(&self, conn: &SqlConnection) -> Result<KnownTools, Error> {
        let statement = "SELECT tool, definition, hash, present, position FROM mcp_tools WHERE app = ?1 AND server = ?2 LIMIT ?3";
        let known = |row: &SqlRow<'_>| {
            let (definition, hash) = (text(row, 1)?, text(row, 2)?);
            Ok((text(row, 0)?, KnownTool { definition, hash, present: row.get(3)?, position: row.get(4)? }))
        };
        let bound = MAX_MCP_TOOLS_PER_SERVER as i64;
        let found = find_all(conn, statement, params![self.app.as_str(), self.server, bound], known)?;
        Ok(found.into_iter().collect())
    }

    fn all(&self, conn: &SqlConnection) -> Result<Vec<McpToolRow>, Error> {
        let statement = format!(
            "SELECT {COLUMNS} FROM mcp_tools WHERE app = ?1 AND server = ?2 ORDER BY position, tool LIMIT ?3"
        );
        let bound = MAX_MCP_TOOLS_PER_SERVER as i64;
        find_all(conn, &statement, params![self.app.as_str(), self.server, bound], tool_row)
    }
}

fn put(batch: &Batch<'_>, key: &Key, offered: &[McpOffer]) -> Result<(), Error> {
    let known = key.known_tools(batch.conn())?;
    check_offers(&key.server, offered)?;
    let first_sight = is_first_sight(&known);
    if first_sight {
        let statement = "SELECT count(DISTINCT server) FROM mcp_tools WHERE app = ?1";
        check_server_room(find_only(batch.conn(), statement, [key.app.as_str()], |row| count(row, 0))?)?;
    }
    for (position, offer) in (0_i64..).zip(offered) {
        let definition = offer.definition.to_string();
        let there = known.get(&offer.tool);
        let same = there.is_some_and(|there| there.is_same(offer, &definition, position));
        if !same {
            upsert(batch, key, Offered { offer, definition, position, first_sight })?;
        }
    }
    let now: BTreeSet<&str> = offered.iter().map(|offer| offer.tool.as_str()).collect();
    for (tool, _) in known.iter().filter(|(tool, there)| there.present && !now.contains(tool.as_str())) {
        let statement =
            "UPDATE mcp_tools SET present = 0, seen_at = ?4 WHERE app = ?1 AND server = ?2 AND tool = ?3";
        batch.execute(statement, params![key.app.as_str(), key.server, tool, batch.at()])?;
    }
    forget_surplus(batch, key)
}

/// A tool to be put down, with the definition as it is stored.
struct Offered<'a> {
    offer: &'a McpOffer,
    definition: String,
    position: i64,
    first_sight: bool,
}

fn upsert(batch: &Batch<'_>, key: &Key, offered: Offered<'_>) -> Result<(), Error> {
    let Offered { offer, definition, position, first_sight } = offered;
    let approved = first_sight.then_some((&offer.hash, &definition, batch.at()));
    let statement = "INSERT INTO mcp_tools (app, server, tool, definition, hash, approved_hash, approved_definition, approved_at,
                    present, seen_at, position)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1, ?9, ?10)
                ON CONFLICT (app, server, tool) DO UPDATE SET definition = excluded.definition, hash = excluded.hash,
                    present = 1, seen_at = excluded.seen_at, position = excluded.position";
    batch.execute(
        statement,
        params![
            key.app.as_str(),
            key.server,
            offer.tool,
            definition,
            offer.hash,
            approved.map(|(hash, ..)| hash),
            approved.map(|(_, definition, _)| definition),
            approved.map(|(.., at)| at),
            batch.at(),
            position
        ],
    )
}

/// Makes room where a server keeps offering other tools. As many rows stay as may, so that it is never seen for the
/// first time again.
fn forget_surplus(batch: &Batch<'_>, key: &Key) -> Result<(), Error> {
    let statement = "DELETE FROM mcp_tools WHERE app = ?1 AND server = ?2 AND tool IN
                (SELECT tool FROM mcp_tools WHERE app = ?1 AND server = ?2
                    ORDER BY present DESC, approved_hash IS NOT NULL DESC, seen_at DESC, tool LIMIT 9223372036854775807 OFFSET ?3)";
    batch.execute(statement, params![key.app.as_str(), key.server, MAX_MCP_TOOLS_PER_SERVER as i64])
}

fn approve(batch: &Batch<'_>, key: &Key, wanted: &[(String, String)], by: &str) -> Result<(), Error> {
    check_approval(&key.server, &key.known_tools(batch.conn())?, wanted)?;
    for (tool, _) in wanted {
        let statement =
            "UPDATE mcp_tools SET approved_hash = hash, approved_definition = definition, approved_at = ?4,
                    approved_by = ?5 WHERE app = ?1 AND server = ?2 AND tool = ?3";
        batch.execute(statement, params![key.app.as_str(), key.server, tool, batch.at(), by])?;
    }
    note(batch, key, AuditKind::McpToolsApproved, wanted, by)
}

fn revoke(batch: &Batch<'_>, key: &Key, tools: &[String], by: &str) -> Result<(), Error> {
    let mut revoked = Vec::new();
    for tool in tools {
        let statement = "SELECT approved_hash FROM mcp_tools WHERE app = ?1 AND server = ?2 AND tool = ?3";
        let known = params![key.app.as_str(), key.server, tool];
        let approved: Option<String> =
            find_first(batch.conn(), statement, known, |row| row.get(0))?.ok_or(Error::NotFound("tool"))?;
        let Some(hash) = approved else { continue };
        let statement =
            "UPDATE mcp_tools SET approved_hash = NULL, approved_definition = NULL, approved_at = NULL,
                    approved_by = NULL WHERE app = ?1 AND server = ?2 AND tool = ?3";
        batch.execute(statement, params![key.app.as_str(), key.server, tool])?;
        revoked.push((tool.clone(), hash));
    }
    note(batch, key, AuditKind::McpToolsRevoked, &revoked, by)
}

/// Adds an entry to the audit of admins about tools with the hashes of their definitions, if there are any.
fn note(
    batch: &Batch<'_>,
    key: &Key,
    kind: AuditKind,
    tools: &[(String, String)],
    by: &str,
) -> Result<(), Error> {
    if tools.is_empty() {
        return Ok(());
    }
    let tools: Vec<Value> = tools.iter().map(|(tool, hash)| json!({ "tool": tool, "hash": hash })).collect();
    let (by, app, target) = (by.to_owned(), Some(key.app.to_string()), key.server.clone());
    admin_audit::append(batch, AdminAct { by, kind, app, target, detail: json!({ "tools": tools }) })
}

fn list(conn: &SqlConnection, app: &AppId) -> Result<Vec<McpToolRow>, Error> {
    let statement =
        format!("SELECT {COLUMNS} FROM mcp_tools WHERE app = ?1 ORDER BY server, position, tool LIMIT ?2");
    find_all(conn, &statement, params![app.as_str(), MAX_TOOLS_PER_READ as i64], tool_row)
}

fn json(row: &SqlRow<'_>, column: usize) -> Result<Value, Error> {
    Ok(serde_json::from_str(&text(row, column)?).unwrap_or_default())
}

fn tool_row(row: &SqlRow<'_>) -> Result<McpToolRow, Error> {
    let approved = match (row.get(4)?, maybe_time(row, 6)?) {
        (Some(hash), Some(at)) => Some(Approved { hash, definition: json(row, 5)?, at, by: row.get(7)? }),
        (None, _) | (_, None) => None,
    };
    Ok(McpToolRow {
        server: text(row, 0)?,
        tool: text(row, 1)?,
        definition: json(row, 2)?,
        hash: text(row, 3)?,
        approved,
        present: row.get(8)?,
        seen_at: time(row, 9)?,
    })
}

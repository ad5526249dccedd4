//! `[tool.*]` and `[mcp.*]` of `app.toml` and of the files under `tools/`, put together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::declared_tools::{RawTools, ReadTool, ToolContext, ToolTable, read_tool_table};
use super::mcp::RawServers;
use super::problems::{self, Problems};
use super::{MAX_TOOLS, too_many_tools, tool_ref};
use crate::source::{FileText, Problem, files_in, read_file};
use crate::{AdjustedTool, DeclaredTool, RecordType, ToolRef};
use crate::{AppMcpServer, ToolKind};

const MAX_FILES: usize = 100;
const MAX_SERVERS: usize = 16;

/// The tables of one file.
pub(super) struct Tables<'a> {
    pub(super) source: FileText<'a>,
    pub(super) tool: RawTools,
    pub(super) mcp: RawServers,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawTables {
    tool: RawTools,
    mcp: RawServers,
}

/// The tools and MCP servers of all files.
#[derive(Default)]
pub(super) struct Toolset {
    pub(super) declared: Vec<DeclaredTool>,
    pub(super) adjusted: Vec<AdjustedTool>,
    pub(super) mcp: Vec<AppMcpServer>,
}

/// The files under `tools/` with their texts, by name.
pub(super) fn files(dir: &Path) -> Result<Vec<(PathBuf, String)>, Problem> {
    let folder = dir.join("tools");
    let files = files_in(&folder, "toml", "make it a folder of TOML files")?;
    if files.len() > MAX_FILES {
        let message = format!("there are more than {MAX_FILES} files of tools");
        return Err(Problem::of(&folder, message, "combine some of them"));
    }
    let read = |file: PathBuf| read_file(&file, "create it").map(|text| (file, text));
    files.into_iter().map(read).collect()
}

/// Reads the tables of `app.toml` first, then those of the other files.
pub(super) fn toolset(
    dir: &Path,
    first: Tables<'_>,
    files: &[(PathBuf, String)],
    types: &BTreeMap<String, RecordType>,
    listed: &[ToolRef],
) -> Result<Toolset, Problems> {
    let (mut all, mut problems) = (vec![first], Problems::default());
    for (file, text) in files {
        let source = FileText { file, text };
        let RawTables { tool, mcp } = problems::tables(&source, &mut problems);
        all.push(Tables { source, tool, mcp });
    }
    let mcp = servers(&ToolContext { dir, types, listed, servers: &[] }, &mut all)?;
    let beside = ToolContext { dir, types, listed, servers: &mcp };
    let mut set = Toolset::default();
    let mut seen = Seen { what: "tool", dir, places: BTreeMap::new() };
    for Tables { source, tool: raw, .. } in all {
        let mut in_order: Vec<_> = raw.into_iter().collect();
        in_order.sort_by_key(|(name, _)| name.span().start);
        for (name, raw) in in_order {
            let place = tool_ref(&source, &name).and_then(|place| seen.add(&place).map(|()| place));
            let reading = ToolTable::new("tool", &name, source, &beside);
            let read = place.and_then(|place| read_tool_table(&reading, place, raw));
            match problems.value_or_default(read.map(Some)) {
                Some(ReadTool::Declared(declared)) => set.declared.push(*declared),
                Some(ReadTool::Adjusted(adjusted)) => set.adjusted.push(adjusted),
                None => {}
            }
        }
    }
    if let Some(beyond) = set.declared.get(MAX_TOOLS - listed.len()) {
        return Err(too_many_tools(&beyond.tool).into());
    }
    problems.into_result(Toolset { mcp, ..set })
}

fn servers(beside: &ToolContext<'_>, all: &mut [Tables<'_>]) -> Result<Vec<AppMcpServer>, Problem> {
    let mut servers = Vec::new();
    let mut seen = Seen { what: "MCP server", dir: beside.dir, places: BTreeMap::new() };
    for Tables { source, mcp, .. } in all {
        let mut in_order: Vec<_> = std::mem::take(mcp).into_iter().collect();
        in_order.sort_by_key(|(name, _)| name.span().start);
        for (name, raw) in in_order {
            let server = ToolTable::new("mcp", &name, *source, beside).server(&name, raw)?;
            seen.add(&server.name)?;
            if servers.len() == MAX_SERVERS {
                let message = format!("there are more than {MAX_SERVERS} MCP servers");
                return Err(server.name.problem(message, "connect the app to fewer"));
            }
            servers.push(server);
        }
    }
    Ok(servers)
}

/// Which file said a name first.
struct Seen<'a> {
    what: &'static str,
    dir: &'a Path,
    places: BTreeMap<String, PathBuf>,
}

impl Seen<'_> {
    fn add(&mut self, place: &ToolRef) -> Result<(), Problem> {
        match self.places.insert(place.name.clone(), place.file.clone()) {
            None => Ok(()),
            Some(first) => {
                let first = first.strip_prefix(self.dir).unwrap_or(&first).display();
                let message = format!("the {} {:?} is in {first} too", self.what, place.name);
                Err(place.problem(message, "remove one, or give it another name"))
            }
        }
    }
}

/// Contents that tools are made of beyond the files that declare them.
pub(super) fn contents(declared: &[DeclaredTool]) -> Vec<Vec<u8>> {
    let mut contents = Vec::new();
    for DeclaredTool { kind, .. } in declared {
        match kind {
            ToolKind::Record(_) => {}
            ToolKind::Http(tool) => contents.push(tool.parameters.to_string().into_bytes()),
            ToolKind::Client(tool) => contents.push(tool.parameters.to_string().into_bytes()),
            ToolKind::Sandbox(tool) => {
                contents.push(tool.parameters.to_string().into_bytes());
                contents.push(tool.module.to_vec());
            }
        }
    }
    contents
}

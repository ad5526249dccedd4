//! All tools this process knows, by name. Apps choose from it, and declare tools over records of their own.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use app::source::did_you_mean;
use app::{AdjustedTool, App, DeclaredTool, MAX_TOOLS, Problem, ToolKind, ToolRef};
use protocol::Clock;
use serde_json::Value;
use store::McpToolRow;

use crate::builtin::{self, CREATE_PROPOSAL, SEARCH_DOCUMENTS};
use crate::client::client_tool;
use crate::external::{
    ExternalAccess, McpHub, McpServerHandle, McpTool, SearchEngine, WasmTool, WebSearch, http_tool,
};
use crate::{OfferedTool, ToolFacts, ToolRegistry, ToolSpec};

/// Tools that belong together, under the name by which an app can have all of them.
const FAMILIES: &[(&str, &[&str])] = &[
    ("documents", &[SEARCH_DOCUMENTS, "read_rest"]),
    ("markdown", &["listMarkdown", "readMarkdown", "writeMarkdownSection", "createMarkdownFile"]),
    ("memory", &["search_memories", "search_history", "save_memory"]),
    ("proposals", &[CREATE_PROPOSAL, UPDATE_PROPOSAL]),
    ("undo", &[UNDO_ACTION, "listRecentActions"]),
    ("web_search", SEARCHES),
];
/// Offered where the operator has chosen who searches.
const SEARCHES: &[&str] = &["tavily_search", "searxng_search"];
const UPDATE_PROPOSAL: &str = "updateProposal";
const UNDO_ACTION: &str = "undoAction";

/// Tools by name.
#[derive(Clone, Default)]
pub struct Catalog {
    tools: BTreeMap<String, OfferedTool>,
    /// Without it, no tool that reaches outside can be had.
    outside: Option<ExternalAccess>,
}

/// A tool that an app has, with the place that names it.
struct Chosen<'a> {
    place: &'a ToolRef,
    name: String,
    /// None while it waits for the app's other tools.
    tool: Option<OfferedTool>,
}

impl Catalog {
    /// The tools that come with Rondo.
    pub fn builtin(clock: Arc<dyn Clock>) -> Self {
        let tools = builtin::tools(clock).map(|tool| (tool.spec.name.clone(), tool));
        Self { tools: tools.into(), outside: None }
    }

    /// The catalog with the tools that reach outside.
    #[must_use]
    pub fn with_external_access(mut self, outside: ExternalAccess) -> Self {
        let tavily = outside.search.tavily.clone().map(SearchEngine::Tavily);
        let searxng = outside.search.searxng.clone().map(SearchEngine::Searxng);
        for engine in tavily.into_iter().chain(searxng) {
            self.add(WebSearch { engine, egress: outside.egress.clone() }.into_offered_tool());
        }
        Self { outside: Some(outside), ..self }
    }

    /// The handles of what reaches outside, if anything can.
    pub fn external_access(&self) -> Option<&ExternalAccess> {
        self.outside.as_ref()
    }

    /// The hub of all MCP servers, if any can be reached.
    pub fn hub(&self) -> Option<&Arc<McpHub>> {
        self.outside.as_ref().map(|outside| &outside.mcp)
    }

    /// The MCP servers of an app.
    pub fn servers(&self, app: &App) -> Vec<Arc<McpServerHandle>> {
        let server = |outside: &ExternalAccess| {
            app.mcp.iter().map(|config| outside.mcp.server(&app.id, config)).collect()
        };
        self.outside.as_ref().map(server).unwrap_or_default()
    }

    /// Adds a tool under its own name, in place of an earlier one of that name.
    pub fn add(&mut self, tool: OfferedTool) {
        self.tools.insert(tool.spec.name.clone(), tool);
    }

    /// The tools an app lists and declares, and those of its servers that are approved; or the line that is wrong about
    /// one of them.
    pub fn registry(&self, app: &App, pinned: &[McpToolRow]) -> Result<ToolRegistry, Problem> {
        let mut chosen = Vec::new();
        for listed in &app.tools {
            for name in members(&listed.name) {
                match self.tools.get(name).map(|tool| tool.clone().with_adjustments(&app.adjusted)) {
                    None if SEARCHES.contains(&name) => {} // the operator has not set it up
                    None if ![CREATE_PROPOSAL, UPDATE_PROPOSAL].contains(&name) => {
                        let message = format!("there is no tool named \"{name}\"");
                        return Err(listed.problem(message, self.remedy(name)));
                    }
                    tool => chosen.push(Chosen { place: listed, name: name.to_owned(), tool }),
                }
            }
        }
        check_adjusted(app, &chosen)?;
        for declared in &app.declared {
            let mut tool = self.make_tool(declared, app)?;
            tool.spec.description = declared.description.clone().unwrap_or(tool.spec.description);
            tool.facts.permission = declared.permission;
            tool.facts.flows.clone_from(&declared.flows);
            tool.facts.plausible.clone_from(&declared.plausible);
            chosen.push(Chosen { place: &declared.tool, name: declared.tool.name.clone(), tool: Some(tool) });
        }
        check_names(&chosen)?;
        self.add_served(&mut chosen, app, pinned);
        add_proposals(&mut chosen, &app.adjusted)?;
        build(&chosen.iter().collect::<Vec<_>>())
    }

    fn make_tool(&self, declared: &DeclaredTool, app: &App) -> Result<OfferedTool, Problem> {
        let place = &declared.tool;
        let spec = |parameters: &Value| ToolSpec {
            name: place.name.clone(),
            description: declared.description.clone().unwrap_or_default(),
            parameters: parameters.clone(),
        };
        match (&declared.kind, &self.outside) {
            (ToolKind::Record(tool), _) => {
                Ok(builtin::RecordTypeTool::new(place, tool, app)?.into_offered_tool(&place.name))
            }
            (ToolKind::Http(tool), Some(outside)) => Ok(http_tool(spec(&tool.parameters), tool, outside)),
            (ToolKind::Http(_), None) => {
                Err(place.problem("the server has no egress for HTTP tools", "remove it"))
            }
            (ToolKind::Client(tool), _) => {
                if self.tools.contains_key(&place.name) {
                    let message = format!("{:?} is the name of a built-in tool", place.name);
                    return Err(place.problem(message, "give it another name"));
                }
                Ok(client_tool(spec(&tool.parameters), tool.effect))
            }
            (ToolKind::Sandbox(tool), _) => {
                let wrong = |reason| place.problem(reason, "correct the module and build it again");
                Ok(WasmTool::new(tool).map_err(wrong)?.into_offered_tool(spec(&tool.parameters)))
            }
        }
    }

    /// Servers can offer more than a model takes; what is beyond is left out, and said so.
    fn add_served<'a>(&self, chosen: &mut Vec<Chosen<'a>>, app: &'a App, pinned: &[McpToolRow]) {
        for (server, config) in self.servers(app).iter().zip(&app.mcp) {
            let rows = pinned.iter().filter(|row| row.server == server.name());
            for tool in rows.filter_map(|row| McpTool::offered_tool(server, row)) {
                let name = tool.spec.name.clone();
                if chosen.len() >= MAX_TOOLS || chosen.iter().any(|chosen| chosen.name == name) {
                    tracing::warn!(app = %app.id, tool = name, "a tool of an MCP server is not offered to models: the app has too many tools, or another tool has its name");
                    continue;
                }
                let tool = tool.with_adjustments(&app.adjusted);
                chosen.push(Chosen { place: &config.name, name, tool: Some(tool) });
            }
        }
    }

    fn remedy(&self, name: &str) -> String {
        let in_families = || FAMILIES.iter().flat_map(|(_, members)| members.iter().copied());
        let families = || FAMILIES.iter().map(|(family, _)| *family);
        let own = || self.tools.keys().map(String::as_str);
        let all: Vec<&str> = own().chain(in_families()).chain(families()).collect();
        if let Some(question) = did_you_mean(name, &all) {
            return question;
        }
        let alone = own().filter(|name| !in_families().any(|member| member == *name));
        let short: Vec<&str> = alone.chain(families()).collect();
        format!("use one of {}, or remove it", short.join(", "))
    }
}

/// The members of a family, or the one tool of that name.
fn members(name: &str) -> Vec<&str> {
    let family = FAMILIES.iter().find(|(family, _)| *family == name);
    family.map_or_else(|| vec![name], |(_, members)| members.to_vec())
}

impl OfferedTool {
    fn with_adjustments(self, changes: &[AdjustedTool]) -> Self {
        match changes.iter().find(|change| change.tool.name == self.spec.name) {
            Some(change) => self.with_adjustment(change),
            None => self,
        }
    }

    /// The tool with what an app says about it.
    fn with_adjustment(mut self, change: &AdjustedTool) -> Self {
        let AdjustedTool { tool: _, description, permission, effect, flows, plausible, marker } =
            change.clone();
        self.spec.description = description.unwrap_or(self.spec.description);
        let facts = &mut self.facts;
        facts.permission = permission.or(facts.permission);
        facts.effect = effect.unwrap_or(facts.effect);
        facts.marker = marker.or(facts.marker.take());
        (facts.flows, facts.plausible) = (flows, plausible);
        self
    }
}

/// The words of an app about a tool must be about one that it has. Which tools an MCP server has is known only once it
/// has answered.
fn check_adjusted(app: &App, chosen: &[Chosen<'_>]) -> Result<(), Problem> {
    for AdjustedTool { tool, .. } in &app.adjusted {
        let is_chosen = chosen.iter().any(|chosen| chosen.name == tool.name);
        let is_search = SEARCHES.contains(&tool.name.as_str()) && lists_tool(app, &tool.name);
        if !is_chosen && !is_search && app.server_of(&tool.name).is_none() {
            let names: Vec<&str> = chosen.iter().map(|chosen| chosen.name.as_str()).collect();
            let remedy = did_you_mean(&tool.name, &names).unwrap_or_else(|| {
                "list it under tools, or add record and does, http, wasm or client = true to declare it"
                    .to_owned()
            });
            return Err(tool.problem(format!("the app has no tool named {:?}", tool.name), remedy));
        }
    }
    Ok(())
}

/// Whether the app lists a tool by its own name or by its family's, be it there or not.
fn lists_tool(app: &App, tool: &str) -> bool {
    app.tools.iter().any(|listed| members(&listed.name).contains(&tool))
}

fn check_names(chosen: &[Chosen<'_>]) -> Result<(), Problem> {
    if let Some(beyond) = chosen.get(MAX_TOOLS) {
        let message = format!("there are more than {MAX_TOOLS} tools");
        return Err(beyond.place.problem(message, "offer the model fewer tools"));
    }
    for (index, Chosen { place, name, .. }) in chosen.iter().enumerate() {
        if chosen.iter().take(index).any(|earlier| earlier.name == *name) {
            let message = format!("the app has two tools named {name:?}");
            return Err(place.problem(message, "remove one, or give it another name"));
        }
    }
    Ok(())
}

/// Proposals are about the app's other tools, so these come last. An undo is not proposed: it can be made at once. Nor is a
/// call of the client: no run would wait for its result.
fn add_proposals(chosen: &mut [Chosen<'_>], changes: &[AdjustedTool]) -> Result<(), Problem> {
    let Some(place) = chosen.iter().find(|chosen| chosen.tool.is_none()).map(|chosen| chosen.place) else {
        return Ok(());
    };
    let waits_for_no_client = |tool: &OfferedTool| !tool.facts.by_client;
    let can_be_proposed = |chosen: &&Chosen<'_>| {
        chosen.tool.as_ref().is_some_and(waits_for_no_client) && chosen.name != UNDO_ACTION
    };
    let others = Arc::new(build(&chosen.iter().filter(can_be_proposed).collect::<Vec<_>>())?);
    if others.specs().is_empty() {
        let remedy = "list or declare the tools whose calls can be proposed, or remove it";
        return Err(place.problem("the app has no tool whose calls can be proposed", remedy));
    }
    for Chosen { name, tool, .. } in chosen.iter_mut().filter(|chosen| chosen.tool.is_none()) {
        let others = Arc::clone(&others);
        let facts = ToolFacts::idempotent("proposals");
        let proposals = if *name == CREATE_PROPOSAL {
            let create = builtin::CreateProposal { others };
            OfferedTool::new(create.spec(), create, facts)
        } else {
            OfferedTool::new(builtin::spec(name), builtin::UpdateProposal { others }, facts)
        };
        *tool = Some(proposals.with_adjustments(changes));
    }
    Ok(())
}

fn build(chosen: &[&Chosen<'_>]) -> Result<ToolRegistry, Problem> {
    let tools = chosen.iter().filter_map(|chosen| chosen.tool.clone()).collect();
    ToolRegistry::new(tools).map_err(|(name, reason)| {
        let named = chosen.iter().find(|chosen| chosen.name == name).map(|chosen| chosen.place);
        let remedy = "correct the tool's schema, or remove the tool";
        named.map_or_else(
            || Problem::of(std::path::Path::new("app.toml"), reason.clone(), remedy),
            |place| place.problem(reason.clone(), remedy),
        )
    })
}

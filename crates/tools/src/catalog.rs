//! All tools this process knows, by name. Apps choose from it, and declare tools over records of their own.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use app::source::nearest;
use app::{Adjusted, App, MAX_TOOLS, Problem, ToolRef};
use protocol::Clock;

use crate::adjusted::adjusted;
use crate::{Registry, Tool, builtin};

/// Tools that belong together, under the name by which an app can have all of them.
const FAMILIES: &[(&str, &[&str])] = &[
    ("documents", &["search_documents", "read_rest"]),
    ("markdown", &["listMarkdown", "readMarkdown", "writeMarkdownSection", "createMarkdownFile"]),
    ("memory", &["search_memories", "search_history", "save_memory"]),
    ("proposals", &[CREATE_PROPOSAL, UPDATE_PROPOSAL]),
    ("undo", &[UNDO_ACTION, "listRecentActions"]),
];
const CREATE_PROPOSAL: &str = "createProposal";
const UPDATE_PROPOSAL: &str = "updateProposal";
const UNDO_ACTION: &str = "undoAction";

/// Tools by name.
#[derive(Clone, Default)]
pub struct Catalog {
    tools: BTreeMap<String, Arc<dyn Tool>>,
}

/// A tool that an app has, with the place that names it.
struct Chosen<'a> {
    place: &'a ToolRef,
    name: &'a str,
    /// None while it waits for the app's other tools.
    tool: Option<Arc<dyn Tool>>,
}

impl Catalog {
    /// The tools that come with Rondo.
    pub fn builtin(clock: Arc<dyn Clock>) -> Self {
        let mut catalog = Self::default();
        catalog.add(builtin::CurrentTime::new(clock));
        catalog.add(builtin::Calculate);
        catalog.add(builtin::ListMarkdown);
        catalog.add(builtin::ReadMarkdown);
        catalog.add(builtin::WriteMarkdownSection);
        catalog.add(builtin::CreateMarkdownFile);
        catalog.add(builtin::SearchDocuments);
        catalog.add(builtin::ReadRest);
        catalog.add(builtin::SearchMemories);
        catalog.add(builtin::SearchHistory);
        catalog.add(builtin::SaveMemory);
        catalog.add(builtin::UndoAction);
        catalog.add(builtin::ListRecentActions);
        catalog
    }

    /// Adds a tool under its own name, in place of an earlier one of that name.
    pub fn add(&mut self, tool: impl Tool) {
        self.tools.insert(tool.spec().name, Arc::new(tool));
    }

    /// The tools an app lists and declares, or the line that is wrong about one of them.
    pub fn registry(&self, app: &App) -> Result<Registry, Problem> {
        let mut chosen = Vec::new();
        for wanted in &app.tools {
            for name in members(&wanted.name) {
                chosen.push(Chosen { place: wanted, name, tool: self.find(wanted, name, &app.adjusted)? });
            }
        }
        check_adjusted(&app.adjusted, &chosen)?;
        for declared in &app.declared {
            let tool: Arc<dyn Tool> = Arc::new(builtin::RecordTool::new(declared, app)?);
            let tool = adjusted(tool, declared.description.as_deref(), declared.permission);
            chosen.push(Chosen { place: &declared.tool, name: &declared.tool.name, tool: Some(tool) });
        }
        check_names(&chosen)?;
        add_proposals(&mut chosen, &app.adjusted)?;
        build(&chosen.iter().collect::<Vec<_>>())
    }

    /// None for a tool that is made of the app's others.
    fn find(
        &self,
        wanted: &ToolRef,
        name: &str,
        changes: &[Adjusted],
    ) -> Result<Option<Arc<dyn Tool>>, Problem> {
        match self.tools.get(name) {
            Some(tool) => Ok(Some(as_the_app_has_it(Arc::clone(tool), name, changes))),
            None if name == CREATE_PROPOSAL || name == UPDATE_PROPOSAL => Ok(None),
            None => Err(wanted.problem(format!("there is no tool named \"{name}\""), self.remedy(name))),
        }
    }

    fn remedy(&self, name: &str) -> String {
        let in_families = || FAMILIES.iter().flat_map(|(_, members)| members.iter().copied());
        let families = || FAMILIES.iter().map(|(family, _)| *family);
        let own = || self.tools.keys().map(String::as_str);
        let all: Vec<&str> = own().chain(in_families()).chain(families()).collect();
        if let Some(near) = nearest(name, &all) {
            return format!("did you mean {near:?}?");
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

fn as_the_app_has_it(tool: Arc<dyn Tool>, name: &str, changes: &[Adjusted]) -> Arc<dyn Tool> {
    match changes.iter().find(|change| change.tool.name == name) {
        Some(change) => adjusted(tool, change.description.as_deref(), change.permission),
        None => tool,
    }
}

/// What an app says about a tool must be about one that it has.
fn check_adjusted(changes: &[Adjusted], chosen: &[Chosen<'_>]) -> Result<(), Problem> {
    for Adjusted { tool, .. } in changes {
        if !chosen.iter().any(|chosen| chosen.name == tool.name) {
            let names: Vec<&str> = chosen.iter().map(|chosen| chosen.name).collect();
            let remedy = match nearest(&tool.name, &names) {
                Some(near) => format!("did you mean {near:?}?"),
                None => "list it under tools, or add record and does to declare it".to_owned(),
            };
            return Err(tool.problem(format!("the app has no tool named {:?}", tool.name), remedy));
        }
    }
    Ok(())
}

fn check_names(chosen: &[Chosen<'_>]) -> Result<(), Problem> {
    if let Some(beyond) = chosen.get(MAX_TOOLS) {
        let message = format!("there are more than {MAX_TOOLS} tools");
        return Err(beyond.place.problem(message, "offer the model fewer"));
    }
    for (index, Chosen { place, name, .. }) in chosen.iter().enumerate() {
        if chosen.iter().take(index).any(|earlier| earlier.name == *name) {
            let message = format!("the app has two tools named {name:?}");
            return Err(place.problem(message, "remove one, or give it another name"));
        }
    }
    Ok(())
}

/// Proposals are about the app's other tools, so these come last. An undo is not proposed: it can be made at once.
fn add_proposals(chosen: &mut [Chosen<'_>], changes: &[Adjusted]) -> Result<(), Problem> {
    let Some(place) = chosen.iter().find(|chosen| chosen.tool.is_none()).map(|chosen| chosen.place) else {
        return Ok(());
    };
    let can_be_proposed = |chosen: &&Chosen<'_>| chosen.tool.is_some() && chosen.name != UNDO_ACTION;
    let others = Arc::new(build(&chosen.iter().filter(can_be_proposed).collect::<Vec<_>>())?);
    if others.specs().is_empty() {
        let remedy = "list or declare the tools whose calls can be proposed, or remove it";
        return Err(place.problem("the app has nothing that could be proposed", remedy));
    }
    for Chosen { name, tool, .. } in chosen.iter_mut().filter(|chosen| chosen.tool.is_none()) {
        let others = Arc::clone(&others);
        let proposals: Arc<dyn Tool> = if *name == CREATE_PROPOSAL {
            Arc::new(builtin::CreateProposal { others })
        } else {
            Arc::new(builtin::UpdateProposal { others })
        };
        *tool = Some(as_the_app_has_it(proposals, name, changes));
    }
    Ok(())
}

fn build(chosen: &[&Chosen<'_>]) -> Result<Registry, Problem> {
    let tools = chosen.iter().filter_map(|chosen| chosen.tool.clone()).collect();
    Registry::new(tools).map_err(|(name, reason)| {
        let named = chosen.iter().find(|chosen| chosen.name == name).map(|chosen| chosen.place);
        let remedy = "mend the tool's schema, or remove the tool";
        named.map_or_else(
            || Problem::of(std::path::Path::new("app.toml"), reason.clone(), remedy),
            |place| place.problem(reason.clone(), remedy),
        )
    })
}

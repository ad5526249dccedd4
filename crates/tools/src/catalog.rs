//! All tools this process knows, by name. Apps choose from it.

use std::collections::BTreeMap;
use std::sync::Arc;

use app::{App, Problem};
use protocol::Clock;

use crate::{Registry, Tool, builtin};

/// Tools by name.
#[derive(Clone, Default)]
pub struct Catalog {
    tools: BTreeMap<String, Arc<dyn Tool>>,
}

impl Catalog {
    /// The tools that come with Rondo.
    pub fn builtin(clock: Arc<dyn Clock>) -> Self {
        let mut catalog = Self::default();
        catalog.add(builtin::CurrentTime::new(clock));
        catalog.add(builtin::Calculate);
        catalog
    }

    /// Adds a tool under its own name, in place of an earlier one of that name.
    pub fn add(&mut self, tool: impl Tool) {
        self.tools.insert(tool.spec().name, Arc::new(tool));
    }

    /// The tools an app names, or the line that names one that does not exist.
    pub fn registry(&self, app: &App) -> Result<Registry, Problem> {
        let chosen = app.tools.iter().map(|wanted| {
            self.tools.get(&wanted.name).cloned().ok_or_else(|| {
                let known: Vec<&str> = self.tools.keys().map(String::as_str).collect();
                wanted.problem(
                    format!("there is no tool named \"{}\"", wanted.name),
                    format!("use one of {}, or remove it", known.join(", ")),
                )
            })
        });
        let chosen = chosen.collect::<Result<Vec<_>, _>>()?;
        Registry::new(chosen).map_err(|(name, reason)| {
            let named = app.tools.iter().find(|wanted| wanted.name == name);
            let problem = |wanted: &app::ToolRef| {
                wanted.problem(reason.clone(), "mend the tool's schema, or remove the tool")
            };
            named.map_or_else(
                || Problem::of(std::path::Path::new("app.toml"), reason.clone(), "remove the tool"),
                problem,
            )
        })
    }
}

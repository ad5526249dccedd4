//! Settings of the operator that external tools of apps need: secrets by name, and a web search.

use std::collections::BTreeMap;
use std::path::Path;

use app::{Apps, Problem, ToolRef};

use super::{ConfigSecret, EgressConfig, Environment};

/// The prefix of a variable that holds a secret; the secret's name in capitals follows.
const PREFIX: &str = "RONDO_SECRET_";

impl EgressConfig {
    /// The secrets that the apps name, the variable before the file, and a problem for each that is not set.
    pub(crate) fn secrets_for(
        &self,
        apps: &Apps,
        environment: &Environment<'_>,
    ) -> Result<(BTreeMap<String, String>, Vec<Problem>), Problem> {
        let (mut values, mut missing) = (BTreeMap::new(), BTreeMap::new());
        for (name, place) in apps.values().flat_map(|app| app.secrets()) {
            let variable = format!("{PREFIX}{}", name.to_uppercase());
            let given = environment(&variable).filter(|value| !value.trim().is_empty());
            let value = match given {
                Some(text) => Some(ConfigSecret::new(&text).ok_or_else(|| unusable_secret(&variable))?),
                None => self.secrets.get(name).cloned(),
            };
            match value {
                Some(value) => drop(values.insert(name.to_owned(), value.expose().to_owned())),
                None => drop(missing.entry(name).or_insert_with(|| unset_secret(name, place, &variable))),
            }
        }
        Ok((values, missing.into_values().collect()))
    }

    /// A problem for each app that lists a search without an engine.
    pub(crate) fn missing_searches(&self, apps: &Apps) -> Vec<Problem> {
        let listed = apps.values().flat_map(|app| &app.tools);
        listed.filter_map(|tool| Some((tool, self.search_setting(&tool.name)?))).map(missing_search).collect()
    }

    /// The variable to set for a search; none when the search is set up, or when the tool is no search.
    fn search_setting(&self, tool: &str) -> Option<&'static str> {
        match (tool, &self.tavily, &self.searxng) {
            ("web_search", None, None) => Some("TAVILY_API_KEY or SEARXNG_URL"),
            ("tavily_search", None, _) => Some("TAVILY_API_KEY"),
            ("searxng_search", _, None) => Some("SEARXNG_URL"),
            _ => None,
        }
    }
}

fn missing_search((tool, setting): (&ToolRef, &str)) -> Problem {
    let message = format!("the tool {} has no search provider, so models are not offered it", tool.name);
    tool.problem(message, format!("set {setting}, or remove it"))
}

fn unset_secret(name: &str, place: &ToolRef, variable: &str) -> Problem {
    let remedy = format!("set {variable}, or add [secrets.{name}] to rondo.toml");
    place.problem(format!("the secret {name:?} is not set"), remedy)
}

/// Never quotes it.
fn unusable_secret(variable: &str) -> Problem {
    let message = "this is not a secret: it contains spaces or line breaks";
    Problem::of(Path::new(variable), message, "write only the secret")
}

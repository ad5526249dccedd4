//! The arguments of one tool: parameters and body of an operation in one flat object.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::words;

/// Arguments of one tool.
const MAX_ARGUMENTS: usize = 200;

#[derive(Default)]
pub(super) struct Arguments {
    properties: Map<String, Value>,
    required: BTreeSet<String>,
}

impl Arguments {
    /// Adds one, under a name that templates can use and no other has. `place` tells those of the same name apart.
    pub(super) fn add(
        &mut self,
        name: &str,
        place: &str,
        schema: Map<String, Value>,
        is_required: bool,
    ) -> Result<String, String> {
        if self.properties.len() == MAX_ARGUMENTS {
            return Err(format!("it has more than {MAX_ARGUMENTS} arguments"));
        }
        let is_taken = |name: &str| self.properties.contains_key(name);
        let plain = words::variable(name);
        let name = if is_taken(&plain) { format!("{plain}_{place}") } else { plain };
        let name = words::free_name(&name, is_taken);
        self.properties.insert(name.clone(), schema.into());
        if is_required {
            self.required.insert(name.clone());
        }
        Ok(name)
    }

    /// The schema of all; none when there are none.
    pub(super) fn schema(self) -> Option<Value> {
        if self.properties.is_empty() {
            return None;
        }
        let mut schema = Map::from_iter([("type".to_owned(), "object".into())]);
        if !self.required.is_empty() {
            let in_order = self.properties.keys().filter(|name| self.required.contains(*name));
            schema.insert("required".into(), in_order.map(String::as_str).collect());
        }
        schema.insert("properties".into(), self.properties.into());
        Some(schema.into())
    }
}

/// A template of the argument as it is given.
pub(super) fn value_template(argument: &str) -> String {
    format!("{{{{ input.{argument} }}}}")
}

/// A template of a list as one text. An empty list is left out, as an argument that is not given is.
pub(super) fn list_template(argument: &str, between: char) -> String {
    format!("{{{{ input.{argument} | join(\"{between}\") if input.{argument} }}}}")
}

/// A template of the argument as JSON.
pub(super) fn json(argument: &str) -> String {
    format!("{{{{ input.{argument} | tojson if input.{argument} is defined }}}}")
}

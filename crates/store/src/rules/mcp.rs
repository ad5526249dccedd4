//! Tools of MCP servers: which offers can be kept, and which definitions can be approved.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    Error, MAX_MCP_DEFINITION_BYTES, MAX_MCP_NAME_BYTES, MAX_MCP_SERVERS_PER_APP, MAX_MCP_TOOLS_PER_SERVER,
    McpOffer,
};

/// A tool of a server as it was stored before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownTool {
    pub definition: String,
    pub hash: String,
    /// Whether the server still offered it.
    pub present: bool,
    /// Its place among the tools of the server.
    pub position: i64,
}

impl KnownTool {
    /// Whether the tool is stored as it is offered now.
    pub fn is_same(&self, offer: &McpOffer, definition: &str, position: i64) -> bool {
        self.present && self.position == position && self.hash == offer.hash && self.definition == definition
    }
}

/// The stored tools of a server, by name.
pub type KnownTools = BTreeMap<String, KnownTool>;

/// Whether a server is seen for the first time. Its tools count as approved then.
pub fn is_first_sight(known: &KnownTools) -> bool {
    known.is_empty()
}

/// Whether the tools that a server offers can be kept.
pub fn check_offers(server: &str, offered: &[McpOffer]) -> Result<(), Error> {
    if offered.len() > MAX_MCP_TOOLS_PER_SERVER {
        return Err(Error::Changed(format!("{server} offers more than {MAX_MCP_TOOLS_PER_SERVER} tools")));
    }
    let is_wrong = |name: &str| name.is_empty() || name.len() > MAX_MCP_NAME_BYTES;
    if is_wrong(server) || offered.iter().any(|offer| is_wrong(&offer.tool)) {
        let message = format!("the names of {server} and its tools have 1 to {MAX_MCP_NAME_BYTES} bytes");
        return Err(Error::Changed(message));
    }
    let mut seen = BTreeSet::new();
    for McpOffer { tool, definition, .. } in offered {
        if !seen.insert(tool) {
            return Err(Error::Changed(format!("{server} offers {tool} twice")));
        }
        if definition.to_string().len() > MAX_MCP_DEFINITION_BYTES {
            let bound = MAX_MCP_DEFINITION_BYTES;
            let message = format!("the definition of {tool} of {server} has more than {bound} bytes");
            return Err(Error::Changed(message));
        }
    }
    Ok(())
}

/// Whether an app that has tools of `servers` servers may have those of another.
pub fn check_server_room(servers: u64) -> Result<(), Error> {
    if servers < MAX_MCP_SERVERS_PER_APP as u64 {
        return Ok(());
    }
    Err(Error::Changed(format!("the app already has tools of {MAX_MCP_SERVERS_PER_APP} MCP servers")))
}

/// Whether definitions can be approved, each named by its tool and its hash: they are those that are offered now.
pub fn check_approval(server: &str, known: &KnownTools, wanted: &[(String, String)]) -> Result<(), Error> {
    let mut changed = Vec::new();
    for (tool, hash) in wanted {
        let there = known.get(tool).ok_or(Error::NotFound("tool"))?;
        if !there.present || there.hash != *hash {
            changed.push(tool.as_str());
        }
    }
    if changed.is_empty() {
        return Ok(());
    }
    let tools = changed.join(", ");
    Err(Error::Changed(format!("{tools} of {server} changed meanwhile; look at the definitions again")))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn offer(tool: &str, definition: Value) -> McpOffer {
        McpOffer { tool: tool.into(), definition, hash: "h".into() }
    }

    #[test]
    fn offers_have_bounds_of_name_size_and_number_and_names_of_their_own() {
        let words = |offered: &[McpOffer]| check_offers("math", offered).map_err(|error| error.to_string());
        assert_eq!(words(&[offer("add", json!({})), offer("sub", json!({}))]), Ok(()));
        let twice = words(&[offer("add", json!({})), offer("add", json!({}))]).unwrap_err();
        assert_eq!(twice, "math offers add twice");
        let long = json!("x".repeat(MAX_MCP_DEFINITION_BYTES));
        assert_eq!(
            words(&[offer("add", long)]).unwrap_err(),
            "the definition of add of math has more than 65536 bytes"
        );
        assert!(words(&[offer("", json!({}))]).is_err() && check_offers("", &[]).is_err());
        assert!(words(&vec![offer("add", json!({})); MAX_MCP_TOOLS_PER_SERVER + 1]).is_err());
        let most = MAX_MCP_SERVERS_PER_APP as u64;
        assert!(check_server_room(most - 1).is_ok() && check_server_room(most).is_err());
    }

    #[test]
    fn only_a_definition_that_is_offered_now_can_be_approved() {
        let tool = |hash: &str, present| KnownTool {
            definition: "{}".into(),
            hash: hash.into(),
            present,
            position: 0,
        };
        let known: KnownTools = [("add", tool("h", true)), ("sub", tool("h", false))]
            .map(|(name, tool)| (name.to_owned(), tool))
            .into();
        let approve = |tools: &[(&str, &str)]| {
            let wanted: Vec<_> =
                tools.iter().map(|(tool, hash)| (tool.to_string(), hash.to_string())).collect();
            check_approval("math", &known, &wanted).map_err(|error| error.to_string())
        };
        assert_eq!(approve(&[("add", "h")]), Ok(()));
        assert_eq!(
            approve(&[("add", "other"), ("sub", "h")]).unwrap_err(),
            "add, sub of math changed meanwhile; look at the definitions again"
        );
        let unknown = check_approval("math", &known, &[("mul".to_owned(), "h".to_owned())]);
        assert!(matches!(unknown, Err(Error::NotFound("tool"))), "{unknown:?}");
        assert!(is_first_sight(&KnownTools::new()) && !is_first_sight(&known));
        assert!(known["add"].is_same(&offer("add", json!({})), "{}", 0));
        assert!(!known["sub"].is_same(&offer("sub", json!({})), "{}", 0), "it was gone");
    }
}

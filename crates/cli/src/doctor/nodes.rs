//! The findings of `rondo doctor` about nodes, which share one PostgreSQL, and about the vault key that they have in
//! common.

use store::postgres::{ExaminedNode, ExaminedPostgres, VaultFit};

use super::Diagnosis;
use crate::CommandResult;

/// How a server would come to the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sharing {
    /// As a node, because `RONDO_VAULT_KEY` is set.
    Node,
    /// For itself.
    Alone,
}

impl Sharing {
    pub(super) fn of(has_key_from_outside: bool) -> Self {
        if has_key_from_outside { Self::Node } else { Self::Alone }
    }
}

/// `key` is the name of the vault key, if there is a key yet.
pub(super) fn check(
    sharing: Sharing,
    key: &CommandResult<Option<String>>,
    found: &ExaminedPostgres,
) -> Vec<Diagnosis> {
    let mut findings = vec![node_finding(sharing, found)];
    match (key, found.vault) {
        (Err(error), _) => findings.push(Diagnosis::Bad(format!("vault key: {error}"))),
        // Another key is not what is wrong then.
        (Ok(_), Some(VaultFit::DiffersFromNodes)) if sharing == Sharing::Alone => {}
        (Ok(key), Some(fit)) => findings.push(vault_finding(key.is_some(), fit)),
        (Ok(_), None) => {}
    }
    findings
}

fn node_finding(sharing: Sharing, found: &ExaminedPostgres) -> Diagnosis {
    let running = match found.nodes.as_slice() {
        [] => None,
        [node] => Some(format!("1 node is running: {}", node_text(node))),
        nodes => {
            let list: Vec<String> = nodes.iter().map(node_text).collect();
            Some(format!("{} nodes are running: {}", nodes.len(), list.join(", ")))
        }
    };
    match (sharing, running) {
        (Sharing::Node, Some(running)) => {
            Diagnosis::Good(format!("nodes: RONDO_VAULT_KEY is set, so this server is a node; {running}"))
        }
        (Sharing::Node, None) if found.is_taken => Diagnosis::Note(
            "nodes: RONDO_VAULT_KEY is set, so this server is a node. The database is in exclusive use by a server \
             without RONDO_VAULT_KEY or by a command such as `rondo copy`; this server is refused until it ends"
                .to_owned(),
        ),
        (Sharing::Node, None) => Diagnosis::Good(
            "nodes: RONDO_VAULT_KEY is set, so this server is a node; no node is running".to_owned(),
        ),
        (Sharing::Alone, Some(running)) => Diagnosis::Bad(format!(
            "nodes: RONDO_VAULT_KEY is not set, so a server would need the database for itself and is refused; {running}; \
             set the RONDO_VAULT_KEY that they have, or stop them"
        )),
        (Sharing::Alone, None) if found.is_taken => Diagnosis::Note(
            "nodes: RONDO_VAULT_KEY is not set, so a server has the database for itself; a server, or a command such as \
             `rondo copy`, has it now"
                .to_owned(),
        ),
        (Sharing::Alone, None) => Diagnosis::Good(
            "nodes: RONDO_VAULT_KEY is not set, so this server has the database for itself; no node is running"
                .to_owned(),
        ),
    }
}

/// A node with the time since it has renewed its lease, in tenths of a second.
fn node_text(node: &ExaminedNode) -> String {
    let ExaminedNode { number, version, renewed_before } = node;
    let tenths = (*renewed_before).max(0) / 100;
    format!("node {number} (version {version}, renewed {}.{} s ago)", tenths / 10, tenths % 10)
}

fn vault_finding(has_key: bool, fit: VaultFit) -> Diagnosis {
    match (fit, has_key) {
        (VaultFit::Same, _) => Diagnosis::Good("vault key: it is the one that the database knows".to_owned()),
        (VaultFit::First, true) => {
            Diagnosis::Good("vault key: the next start notes a fingerprint of it in the database".to_owned())
        }
        (VaultFit::First, false) => Diagnosis::Good("vault key: made at the first start".to_owned()),
        (VaultFit::Replaces, _) => Diagnosis::Note(
            "vault key: earlier servers had another one; the next start replaces its fingerprint in the database, \
             because no credentials are stored"
                .to_owned(),
        ),
        (VaultFit::DiffersFromNodes, _) => Diagnosis::Bad(
            "vault key: the running nodes have another one, so this server is refused; give it the same RONDO_VAULT_KEY"
                .to_owned(),
        ),
        (VaultFit::DiffersFromCredentials, _) => Diagnosis::Bad(
            "vault key: another one has encrypted the users' credentials in the database, so this server is refused; set \
             RONDO_VAULT_KEY to that key, or put its vault.key into the data folder; docs/postgres.md says how to go on \
             without that key"
                .to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(nodes: Vec<ExaminedNode>, is_taken: bool, vault: Option<VaultFit>) -> ExaminedPostgres {
        ExaminedPostgres {
            version: "16.14".to_owned(),
            schema_version: Some(23),
            may_create: true,
            clock_ahead: 0,
            vector: None,
            passes_policies: false,
            connections: 1,
            max_connections: 100,
            nodes,
            is_taken,
            vault,
        }
    }

    fn node(number: i64) -> ExaminedNode {
        ExaminedNode { number, version: "0.1.0".to_owned(), renewed_before: 1_234 }
    }

    fn words(findings: &[Diagnosis]) -> String {
        let line = |finding: &Diagnosis| match finding {
            Diagnosis::Good(text) => format!("ok {text}"),
            Diagnosis::Note(text) => format!("note {text}"),
            Diagnosis::Bad(text) => format!("BAD {text}"),
        };
        findings.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_server_is_a_node_or_alone_and_hears_who_is_running() {
        let key = Ok(Some("name".to_owned()));
        let fit = Some(VaultFit::Same);
        for (sharing, found, expected) in [
            (
                Sharing::Node,
                found(vec![], false, fit),
                "ok nodes: RONDO_VAULT_KEY is set, so this server is a node; no node",
            ),
            (
                Sharing::Node,
                found(vec![node(3), node(5)], false, fit),
                "2 nodes are running: node 3 (version 0.1.0, renewed 1.2 s ago), node 5 (version 0.1.0, renewed 1.2 s ago)",
            ),
            (Sharing::Node, found(vec![], true, fit), "note nodes: RONDO_VAULT_KEY is set"),
            (Sharing::Alone, found(vec![], false, fit), "ok nodes: RONDO_VAULT_KEY is not set"),
            (Sharing::Alone, found(vec![], true, fit), "note nodes: RONDO_VAULT_KEY is not set"),
            (Sharing::Alone, found(vec![node(3)], false, fit), "BAD nodes: RONDO_VAULT_KEY is not set"),
        ] {
            let told = words(&check(sharing, &key, &found));
            assert!(told.contains(expected), "{expected}: {told}");
            assert!(told.ends_with("ok vault key: it is the one that the database knows"), "{told}");
        }
    }

    #[test]
    fn a_vault_key_fits_or_the_server_would_be_refused() {
        let (none, some) = (Ok(None), Ok(Some("name".to_owned())));
        for (key, fit, expected) in [
            (&none, VaultFit::First, "ok vault key: made at the first start"),
            (&some, VaultFit::First, "ok vault key: the next start notes"),
            (&some, VaultFit::Replaces, "note vault key: earlier servers had another one"),
            (&none, VaultFit::DiffersFromCredentials, "BAD vault key: another one has encrypted"),
            (&some, VaultFit::DiffersFromNodes, "BAD vault key: the running nodes have another one"),
        ] {
            let told = words(&check(Sharing::Node, key, &found(vec![], false, Some(fit))));
            assert!(told.contains(expected), "{expected}: {told}");
        }
        // One reason to refuse it is enough.
        let beside_nodes = found(vec![node(3)], false, Some(VaultFit::DiffersFromNodes));
        assert!(!words(&check(Sharing::Alone, &none, &beside_nodes)).contains("vault key:"));
        let wrong =
            check(Sharing::Node, &Err("RONDO_VAULT_KEY is wrong".into()), &found(vec![], false, None));
        assert!(words(&wrong).ends_with("BAD vault key: RONDO_VAULT_KEY is wrong"));
    }
}

//! Rules for the compose file, beside the files that it mounts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::documents::{list, text};
use super::facts::ServerFacts;

/// The port of a node in its container.
const PORT: u16 = 8787;

/// A folder that the operator makes.
const MADE_BY_OPERATOR: &str = "./tls";

/// Files beside the compose file.
pub(super) struct NeighbourFiles {
    folder: PathBuf,
    pub(super) nginx: String,
    /// The template of `.env`.
    pub(super) environment: String,
}

impl NeighbourFiles {
    pub(super) fn read(root: &Path) -> Result<Self, String> {
        let folder = root.join("deploy");
        let read = |name: &str| {
            std::fs::read_to_string(folder.join(name))
                .map_err(|error| format!("cannot read deploy/{name}: {error}"))
        };
        let (nginx, environment) = (read("nginx.conf")?, read("env.example")?);
        Ok(Self { folder, nginx, environment })
    }

    #[cfg(test)]
    pub(super) fn for_tests(nginx: &str, environment: &str) -> Self {
        Self { folder: PathBuf::new(), nginx: nginx.into(), environment: environment.into() }
    }
}

/// A service with its name.
type ComposeService<'a> = (&'a str, &'a Value);

/// Returns the faults, in words.
pub(super) fn check(compose: &Value, files: &NeighbourFiles, facts: &ServerFacts) -> Vec<String> {
    let services = compose.get("services").and_then(Value::as_object).into_iter().flatten();
    let services: Vec<ComposeService<'_>> =
        services.map(|(name, service)| (name.as_str(), service)).collect();
    let nodes: Vec<ComposeService<'_>> = services
        .iter()
        .copied()
        .filter(|(_, service)| text(service, "/image").starts_with("rondo:"))
        .collect();
    let mut problems = Vec::new();
    if nodes.len() < 2 {
        problems.push("there are fewer than two nodes; a node has the image rondo:VERSION".to_owned());
    }
    problems.extend(nodes.iter().flat_map(|node| check_node(*node, facts)));
    problems.extend(check_equality(&nodes));
    problems.extend(check_addresses(&nodes, &services, &files.nginx));
    problems.extend(check_variables(compose, &files.environment));
    problems.extend(services.iter().flat_map(|service| check_mounts(*service, &files.folder)));
    problems.into_iter().map(|problem| format!("compose.yaml: {problem}")).collect()
}

fn check_node((name, node): ComposeService<'_>, facts: &ServerFacts) -> Vec<String> {
    let mut problems = Vec::new();
    let variables = node.get("environment").and_then(Value::as_object).into_iter().flatten();
    let unknown = variables.map(|(variable, _)| variable).filter(|variable| !facts.may_be_set(variable));
    problems.extend(
        unknown
            .map(|variable| format!("{name}: docs/configuration.md does not know the variable {variable}")),
    );
    for needed in ["RONDO_STORE", "RONDO_VAULT_KEY", "RONDO_TRUSTED_PROXIES"] {
        if text(node, &format!("/environment/{needed}")).is_empty() {
            problems.push(format!("{name}: {needed} is missing; nodes need it to work together"));
        }
    }
    let grace = text(node, "/stop_grace_period").strip_suffix('s').and_then(|seconds| seconds.parse().ok());
    let needed = facts.drain + facts.letting_go;
    if grace.unwrap_or(10_u64) <= needed {
        problems
            .push(format!("{name}: stop_grace_period is not longer than {needed}s, which a node may need"));
    }
    if list(node, "/healthcheck/test").is_empty() {
        problems.push(format!("{name}: an upgrade cannot wait for the node; add a healthcheck"));
    }
    problems
}

/// Nodes differ in their data folders and their addresses, and in nothing else.
fn check_equality(nodes: &[ComposeService<'_>]) -> Vec<String> {
    let shared = |service: &Value| {
        let mut shared = service.as_object().cloned().unwrap_or_default();
        shared.retain(|name, _| !["volumes", "networks"].contains(&name.as_str()));
        shared
    };
    let mut problems = Vec::new();
    for pair in nodes.windows(2) {
        if let [(first, one), (second, other)] = pair
            && shared(one) != shared(other)
        {
            problems.push(format!("{first} and {second} differ; nodes need the same settings"));
        }
    }
    let folders: BTreeSet<&str> = nodes.iter().filter_map(|(_, node)| data_volume(node)).collect();
    if folders.len() != nodes.len() {
        problems.push("each node needs a data folder of its own at /data".to_owned());
    }
    problems
}

fn data_volume(node: &Value) -> Option<&str> {
    let mounts = list(node, "/volumes").iter().filter_map(Value::as_str);
    mounts.filter_map(|mount| mount.split_once(":/data")).map(|(volume, _)| volume).next()
}

/// nginx knows all nodes, nodes know nginx, and all know the database.
fn check_addresses(
    nodes: &[ComposeService<'_>],
    services: &[ComposeService<'_>],
    nginx: &str,
) -> Vec<String> {
    let address = |service: &Value| text(service, "/networks/rondo/ipv4_address").to_owned();
    let of_image = |start: &str| {
        let found = services.iter().find(|(_, service)| text(service, "/image").starts_with(start));
        found.map(|(_, service)| address(service)).unwrap_or_default()
    };
    let (proxy, database) = (of_image("nginx:"), of_image("pgvector/"));
    let mut problems = Vec::new();
    let there: BTreeSet<String> = nodes.iter().map(|(_, node)| format!("{}:{PORT}", address(node))).collect();
    let known = upstream_servers(nginx);
    if there != known {
        problems.push(format!("the nodes are {there:?}, and nginx.conf has {known:?}; correct one of them"));
    }
    for (name, node) in nodes {
        if text(node, "/environment/RONDO_TRUSTED_PROXIES") != proxy {
            problems.push(format!("{name}: RONDO_TRUSTED_PROXIES is not the address of nginx, {proxy:?}"));
        }
        if !text(node, "/environment/RONDO_STORE").contains(&format!("@{database}/")) {
            problems.push(format!("{name}: RONDO_STORE does not lead to the database, {database:?}"));
        }
    }
    problems
}

/// The servers that nginx chooses from.
pub(super) fn upstream_servers(nginx: &str) -> BTreeSet<String> {
    let servers = nginx.lines().filter_map(|line| line.trim().strip_prefix("server "));
    let servers = servers.filter(|server| !server.starts_with('{'));
    servers.filter_map(|server| server.split([' ', ';']).next()).map(str::to_owned).collect()
}

/// Every variable that the file needs is in the template of `.env`.
fn check_variables(compose: &Value, template: &str) -> Vec<String> {
    let text = compose.to_string();
    let needed: BTreeSet<&str> =
        text.split("${").skip(1).filter_map(|rest| rest.split([':', '}']).next()).collect();
    let is_there = |name: &&str| template.lines().any(|line| line.starts_with(&format!("{name}=")));
    let missing = needed.into_iter().filter(|name| !is_there(name));
    missing.map(|name| format!("env.example has no line {name}=; add it")).collect()
}

/// Files of the repository that a service mounts are there.
fn check_mounts((name, service): ComposeService<'_>, folder: &Path) -> Vec<String> {
    let mounts = list(service, "/volumes").iter().filter_map(Value::as_str);
    let paths = mounts.filter_map(|mount| mount.split_once(':')).map(|(path, _)| path);
    let missing = paths
        .filter(|path| path.starts_with("./") && *path != MADE_BY_OPERATOR)
        .filter(|path| !folder.join(path).is_file());
    missing.map(|path| format!("{name}: there is no file {path} to mount")).collect()
}

//! Rules for the manifests of Kubernetes that no schema knows.

use serde_json::Value;
use toml::Table;

use super::documents::{Manifest, fields, list, text};
use super::facts::ServerFacts;

const PROBES: [&str; 3] = ["startupProbe", "readinessProbe", "livenessProbe"];

/// The container of a manifest.
const CONTAINER: &str = "/spec/template/spec/containers/0";

/// Returns the faults, in words.
pub(super) fn check(manifests: &[Manifest], facts: &ServerFacts) -> Vec<String> {
    let mut problems: Vec<String> =
        manifests.iter().flat_map(|manifest| check_one(manifest, facts)).collect();
    let kinds = ["ConfigMap", "Deployment", "Service", "PodDisruptionBudget", "Secret", "Job", "Ingress"];
    for kind in kinds.iter().chain(&["NetworkPolicy"]) {
        if !manifests.iter().any(|manifest| manifest.kind() == *kind) {
            problems.push(format!("kubernetes: there is no {kind}; add one"));
        }
    }
    for manifest in manifests.iter().filter(|manifest| manifest.kind() == "Deployment") {
        problems.extend(check_deployment(manifest, manifests, facts));
    }
    for manifest in manifests.iter().filter(|manifest| has_pods(manifest)) {
        problems.extend(check_pods(manifest, manifests));
    }
    problems.extend(check_ingress(manifests));
    problems
}

fn has_pods(manifest: &Manifest) -> bool {
    ["Deployment", "Job"].contains(&manifest.kind())
}

/// The rules of a document alone.
fn check_one(manifest: &Manifest, facts: &ServerFacts) -> Vec<String> {
    let (body, problem) = (&manifest.body, |what: String| in_manifest(manifest, &what));
    let mut problems = Vec::new();
    if body.pointer("/metadata/namespace").is_some() {
        problems.push(problem("it names a namespace; leave that to `kubectl --namespace`".into()));
    }
    let variables = list(body, &format!("{CONTAINER}/env")).iter().map(|variable| text(variable, "/name"));
    for variable in variables.chain(fields(body, "/stringData")).filter(|name| !facts.may_be_set(name)) {
        problems.push(problem(format!("docs/configuration.md does not know the variable {variable}")));
    }
    let settings = text(body, "/data/rondo.toml");
    match settings.parse::<Table>() {
        Ok(table) => {
            let unknown = keys(&table).into_iter().filter(|key| !facts.knows(key));
            problems.extend(
                unknown.map(|key| problem(format!("docs/configuration.md does not know the key {key}"))),
            );
        }
        Err(error) => problems.push(problem(format!("rondo.toml is not TOML: {error}"))),
    }
    problems
}

/// The keys of a file of settings, as the documents write them.
fn keys(table: &Table) -> Vec<String> {
    let of = |(name, value): (&String, &toml::Value)| match value.as_table() {
        Some(section) => section.keys().map(|key| format!("{name}.{key}")).collect(),
        None => vec![name.clone()],
    };
    table.iter().flat_map(of).collect()
}

/// Seconds for which the settings let runs go on.
fn drain_seconds(manifests: &[Manifest], facts: &ServerFacts) -> u64 {
    let settings = manifests.iter().map(|manifest| text(&manifest.body, "/data/rondo.toml"));
    let drain = settings.filter_map(|settings| {
        let table: Table = settings.parse().ok()?;
        table.get("server")?.get("drain_seconds")?.as_integer()?.try_into().ok()
    });
    drain.max().unwrap_or(facts.drain)
}

/// An upgrade replaces nodes one by one, and each has the time that it needs.
fn check_deployment(manifest: &Manifest, manifests: &[Manifest], facts: &ServerFacts) -> Vec<String> {
    let (body, mut problems) = (&manifest.body, Vec::new());
    let number = |pointer: &str| body.pointer(pointer).and_then(Value::as_u64);
    if number("/spec/replicas").unwrap_or(1) < 2 {
        problems.push("it has fewer than two replicas; write `replicas: 3`".to_owned());
    }
    let rolling =
        ["maxUnavailable", "maxSurge"].map(|name| number(&format!("/spec/strategy/rollingUpdate/{name}")));
    if rolling != [Some(0), Some(1)] {
        problems.push("an upgrade takes nodes away; write `maxUnavailable: 0` and `maxSurge: 1`".to_owned());
    }
    let pause = number(&format!("{CONTAINER}/lifecycle/preStop/sleep/seconds")).unwrap_or_default();
    if pause == 0 {
        problems.push("a stopping node still gets requests; add a `preStop` with a `sleep`".to_owned());
    }
    let needed = pause + drain_seconds(manifests, facts) + facts.letting_go;
    let grace = number("/spec/template/spec/terminationGracePeriodSeconds").unwrap_or(30);
    if grace <= needed {
        problems.push(format!(
            "terminationGracePeriodSeconds is {grace}, and a node may need {needed} s (preStop, drain and end); \
            write more than that"
        ));
    }
    problems.extend(PROBES.iter().filter_map(|probe| check_probe(body, probe, facts)));
    problems.into_iter().map(|problem| in_manifest(manifest, &problem)).collect()
}

fn check_probe(deployment: &Value, probe: &str, facts: &ServerFacts) -> Option<String> {
    let Some(get) = deployment.pointer(&format!("{CONTAINER}/{probe}/httpGet")) else {
        return Some(format!("there is no {probe} with httpGet; add one"));
    };
    let (path, port) = (text(get, "/path"), text(get, "/port"));
    let ports = list(deployment, &format!("{CONTAINER}/ports"));
    if !facts.paths.contains(path) {
        return Some(format!("{probe} asks for {path:?}, which is no path of the server"));
    }
    let is_known = ports.iter().any(|known| text(known, "/name") == port);
    (!is_known).then(|| format!("{probe} asks at the port {port:?}, which the container does not have"))
}

/// Containers have no more rights than they need, and what they refer to is there.
fn check_pods(manifest: &Manifest, manifests: &[Manifest]) -> Vec<String> {
    let (body, mut problems) = (&manifest.body, Vec::new());
    let is = |pointer: &str, wanted: bool| body.pointer(pointer).and_then(Value::as_bool) == Some(wanted);
    let rules = [
        ("/spec/template/spec/securityContext/runAsNonRoot".to_owned(), true),
        ("/spec/template/spec/automountServiceAccountToken".to_owned(), false),
        ("/spec/template/spec/enableServiceLinks".to_owned(), false),
        (format!("{CONTAINER}/securityContext/readOnlyRootFilesystem"), true),
        (format!("{CONTAINER}/securityContext/allowPrivilegeEscalation"), false),
    ];
    let broken = rules.iter().filter(|(pointer, wanted)| !is(pointer, *wanted));
    problems.extend(broken.map(|(pointer, wanted)| format!("write {wanted} at {pointer}")));
    for amount in ["cpu", "memory"] {
        if text(body, &format!("{CONTAINER}/resources/requests/{amount}")).is_empty() {
            problems.push(format!("the container requests no {amount}; add it"));
        }
    }
    let sources = list(body, &format!("{CONTAINER}/envFrom")).iter();
    let secrets = sources.map(|source| ("Secret", text(source, "/secretRef/name")));
    let volumes = list(body, "/spec/template/spec/volumes").iter();
    let maps = volumes.map(|volume| ("ConfigMap", text(volume, "/configMap/name")));
    for (kind, name) in secrets.chain(maps).filter(|(_, name)| !name.is_empty()) {
        if !manifests.iter().any(|other| other.kind() == kind && other.name() == name) {
            problems.push(format!("there is no {kind} {name}; add it or correct the name"));
        }
    }
    let images: Vec<&str> =
        manifests.iter().map(|manifest| text(&manifest.body, &format!("{CONTAINER}/image"))).collect();
    if images.iter().any(|image| !image.is_empty() && *image != text(body, &format!("{CONTAINER}/image"))) {
        problems.push("another manifest has another image; write one image everywhere".to_owned());
    }
    problems.extend(check_selectors(manifest, manifests));
    problems.into_iter().map(|problem| in_manifest(manifest, &problem)).collect()
}

/// Services, budgets and policies choose the nodes and nothing else.
fn check_selectors(pods: &Manifest, manifests: &[Manifest]) -> Vec<String> {
    let labels = pods.body.pointer("/spec/template/metadata/labels").cloned().unwrap_or_default();
    let is_node = pods.kind() == "Deployment";
    let mut problems = Vec::new();
    for other in manifests {
        let pointer = match other.kind() {
            "Deployment" | "PodDisruptionBudget" => "/spec/selector/matchLabels",
            "Service" => "/spec/selector",
            "NetworkPolicy" => "/spec/podSelector/matchLabels",
            _ => continue,
        };
        let mut names = fields(&other.body, pointer).peekable();
        let selector = other.body.pointer(pointer);
        let chooses = names.peek().is_some()
            && names.all(|name| selector.and_then(|all| all.get(name)) == labels.get(name));
        if chooses != is_node {
            let verb = if is_node { "does not choose" } else { "also chooses" };
            problems.push(format!(
                "{} {} {verb} these pods; correct its selector",
                other.kind(),
                other.name()
            ));
        }
    }
    problems
}

/// The ingress leads to a port that a Service has.
fn check_ingress(manifests: &[Manifest]) -> Vec<String> {
    let mut problems = Vec::new();
    for ingress in manifests.iter().filter(|manifest| manifest.kind() == "Ingress") {
        let backend = "/spec/rules/0/http/paths/0/backend/service";
        let (service, port) = (
            text(&ingress.body, &format!("{backend}/name")),
            text(&ingress.body, &format!("{backend}/port/name")),
        );
        let has_port = |other: &Manifest| {
            other.kind() == "Service"
                && other.name() == service
                && list(&other.body, "/spec/ports").iter().any(|known| text(known, "/name") == port)
        };
        if !manifests.iter().any(has_port) {
            problems
                .push(in_manifest(ingress, &format!("there is no Service {service} with the port {port}")));
        }
        let hash = text(&ingress.body, "/metadata/annotations/nginx.ingress.kubernetes.io~1upstream-hash-by");
        for header in ["$http_x_rondo_user", "$http_authorization", "$http_cookie"] {
            if !hash.contains(header) {
                problems.push(in_manifest(
                    ingress,
                    &format!("the hash leaves out {header}; add it to upstream-hash-by"),
                ));
            }
        }
    }
    problems
}

fn in_manifest(manifest: &Manifest, what: &str) -> String {
    format!("kubernetes/{}: {} {}: {what}", manifest.file, manifest.kind(), manifest.name())
}

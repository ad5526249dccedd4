//! Each rule finds what it is for, and finds nothing in a file that is in order.

use serde_json::{Value, json};

use super::documents::Manifest;
use super::facts::ServerFacts;
use super::{compose_rules, manifest_rules};

const CONFIGURATION: &str =
    "| `RONDO_STORE` | `RONDO_VAULT_KEY` | `RONDO_TRUSTED_PROXIES` | `server.drain_seconds` |";

fn facts() -> ServerFacts {
    ServerFacts::for_tests(CONFIGURATION, &["/healthz", "/readyz"])
}

fn pods(component: &str, container: &Value) -> Value {
    json!({
        "metadata": { "labels": { "app": "rondo", "component": component } },
        "spec": {
            "terminationGracePeriodSeconds": 60,
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "securityContext": { "runAsNonRoot": true },
            "containers": [container],
            "volumes": [{ "name": "settings", "configMap": { "name": "rondo" } }],
        }
    })
}

fn container() -> Value {
    json!({
        "image": "rondo:1",
        "ports": [{ "name": "http", "containerPort": 8787 }],
        "envFrom": [{ "secretRef": { "name": "rondo" } }],
        "resources": { "requests": { "cpu": "1", "memory": "1Gi" } },
        "securityContext": { "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false },
    })
}

fn deployment() -> Value {
    let mut node = container();
    for (probe, path) in
        [("startupProbe", "/healthz"), ("readinessProbe", "/readyz"), ("livenessProbe", "/healthz")]
    {
        node[probe] = json!({ "httpGet": { "path": path, "port": "http" } });
    }
    node["lifecycle"] = json!({ "preStop": { "sleep": { "seconds": 10 } } });
    json!({
        "kind": "Deployment", "metadata": { "name": "rondo" },
        "spec": {
            "replicas": 3,
            "strategy": { "rollingUpdate": { "maxUnavailable": 0, "maxSurge": 1 } },
            "selector": { "matchLabels": { "app": "rondo", "component": "node" } },
            "template": pods("node", &node),
        }
    })
}

/// One of each kind, in the order in which the tests change them.
fn manifests() -> Vec<Value> {
    let labels = json!({ "app": "rondo", "component": "node" });
    let backend = json!({ "service": { "name": "rondo", "port": { "name": "http" } } });
    let hash = "$http_x_rondo_user$http_authorization$http_cookie";
    vec![
        deployment(),
        json!({ "kind": "ConfigMap", "metadata": { "name": "rondo" }, "data": { "rondo.toml": "[server]\ndrain_seconds = 25" } }),
        json!({ "kind": "Secret", "metadata": { "name": "rondo" }, "stringData": { "RONDO_STORE": "x", "OPENAI_API_KEY": "x" } }),
        json!({ "kind": "Service", "metadata": { "name": "rondo" }, "spec": { "selector": labels, "ports": [{ "name": "http" }] } }),
        json!({ "kind": "PodDisruptionBudget", "metadata": { "name": "rondo" }, "spec": { "selector": { "matchLabels": labels } } }),
        json!({ "kind": "Job", "metadata": { "name": "key" }, "spec": { "template": pods("key", &container()) } }),
        json!({
            "kind": "Ingress",
            "metadata": { "name": "rondo", "annotations": { "nginx.ingress.kubernetes.io/upstream-hash-by": hash } },
            "spec": { "rules": [{ "http": { "paths": [{ "backend": backend }] } }] },
        }),
        json!({ "kind": "NetworkPolicy", "metadata": { "name": "rondo" }, "spec": { "podSelector": { "matchLabels": labels } } }),
    ]
}

fn check_manifests(documents: Vec<Value>) -> Vec<String> {
    let manifests = documents.into_iter().map(|body| Manifest { file: "a.yaml".into(), body });
    manifest_rules::check(&manifests.collect::<Vec<_>>(), &facts())
}

/// Returns the findings after the value at a place of a document was replaced.
fn with(document: usize, pointer: &str, value: Value) -> String {
    let mut documents = manifests();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    documents[document].pointer_mut(parent).unwrap()[name] = value;
    check_manifests(documents).join("\n")
}

#[test]
fn manifests_in_order_have_no_finding() {
    assert_eq!(check_manifests(manifests()), Vec::<String>::new());
}

#[test]
fn each_mistake_in_a_manifest_is_found() {
    let pod = "/spec/template/spec";
    let node = "/spec/template/spec/containers";
    let mut renamed = container();
    renamed["image"] = json!("rondo:2");
    let mistakes = [
        (with(0, "/spec/replicas", json!(1)), "fewer than two replicas"),
        (with(0, "/spec/strategy/rollingUpdate/maxUnavailable", json!(1)), "an upgrade takes nodes away"),
        (with(0, &format!("{pod}/terminationGracePeriodSeconds"), json!(42)), "may need 42 s"),
        (with(1, "/data/rondo.toml", json!("[server]\ndrain_seconds = 43")), "may need 60 s"),
        (with(1, "/data/rondo.toml", json!("[server]\ndrain = 25")), "does not know the key server.drain"),
        (with(1, "/data/rondo.toml", json!("[server")), "rondo.toml is not TOML"),
        (with(0, &format!("{pod}/securityContext/runAsNonRoot"), json!(false)), "write true at"),
        (
            with(0, &format!("{pod}/volumes"), json!([{ "configMap": { "name": "x" } }])),
            "there is no ConfigMap x",
        ),
        (with(2, "/metadata/name", json!("other")), "there is no Secret rondo"),
        (with(2, "/stringData/RONDO_STOER", json!("x")), "does not know the variable RONDO_STOER"),
        (with(3, "/spec/selector/component", json!("other")), "Service rondo does not choose these pods"),
        (with(4, "/spec/selector/matchLabels", json!({})), "PodDisruptionBudget rondo does not choose"),
        (with(3, "/spec/selector", json!({ "app": "rondo" })), "Service rondo also chooses these pods"),
        (with(5, node, json!([renamed])), "another image"),
        (with(3, "/spec/ports", json!([])), "no Service rondo with the port http"),
        (with(6, "/metadata/annotations", json!({})), "the hash leaves out $http_authorization"),
        (with(7, "/metadata/namespace", json!("agents")), "it names a namespace"),
        (with(7, "/kind", json!("Other")), "there is no NetworkPolicy"),
    ];
    for (found, wanted) in mistakes {
        assert!(found.contains(wanted), "{wanted:?} is not among: {found}");
    }
}

#[test]
fn each_mistake_in_a_probe_is_found() {
    let probe = |path: &str, port: &str| {
        let mut documents = manifests();
        documents[0]["spec"]["template"]["spec"]["containers"][0]["readinessProbe"] =
            json!({ "httpGet": { "path": path, "port": port } });
        check_manifests(documents).join("\n")
    };
    assert!(probe("/health", "http").contains("\"/health\", which is no path of the server"));
    assert!(probe("/readyz", "web").contains("\"web\", which the container does not have"));
    let without = with(0, "/spec/template/spec/containers", json!([container()]));
    assert!(without.contains("there is no livenessProbe"), "{without}");
    assert!(without.contains("add a `preStop`"), "{without}");
}

const NGINX: &str =
    "upstream rondo {\n server 10.0.0.1:8787 max_fails=1;\n server 10.0.0.2:8787;\n}\nserver {\n}";

fn compose() -> Value {
    let node = |number: u32| {
        json!({
            "image": "rondo:${VERSION:?write it}",
            "stop_grace_period": "40s",
            "healthcheck": { "test": ["CMD", "rondo", "health"] },
            "environment": {
                "RONDO_STORE": "postgres://rondo:${STORE_PASSWORD}@10.0.0.8/rondo",
                "RONDO_VAULT_KEY": "x",
                "RONDO_TRUSTED_PROXIES": "10.0.0.9",
                "OPENAI_API_KEY": null,
            },
            "volumes": [format!("data-{number}:/data")],
            "networks": { "rondo": { "ipv4_address": format!("10.0.0.{number}") } },
        })
    };
    let other = |image: &str, address: &str| json!({ "image": image, "networks": { "rondo": { "ipv4_address": address } } });
    json!({ "services": {
        "one": node(1), "two": node(2),
        "proxy": other("nginx:1", "10.0.0.9"), "postgres": other("pgvector/pgvector:pg17", "10.0.0.8"),
    } })
}

fn check_compose(compose: &Value) -> String {
    let files = compose_rules::NeighbourFiles::for_tests(NGINX, "VERSION=1\nSTORE_PASSWORD=\n");
    compose_rules::check(compose, &files, &facts()).join("\n")
}

#[test]
fn a_compose_file_in_order_has_no_finding() {
    assert_eq!(check_compose(&compose()), "");
}

#[test]
fn each_mistake_in_a_compose_file_is_found() {
    let with = |pointer: &str, value: Value| {
        let mut compose = compose();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        compose.pointer_mut(parent).unwrap()[name] = value;
        check_compose(&compose)
    };
    let mistakes = [
        (with("/services/one/environment/RONDO_STOER", json!("x")), "does not know the variable RONDO_STOER"),
        (with("/services/one/environment/RONDO_VAULT_KEY", json!("y")), "one and two differ"),
        (with("/services/two/environment/RONDO_VAULT_KEY", json!("")), "two: RONDO_VAULT_KEY is missing"),
        (
            with("/services/one/environment/RONDO_STORE", json!("postgres://x@10.0.0.7/rondo")),
            "does not lead to",
        ),
        (with("/services/one/stop_grace_period", json!("32s")), "not longer than 32s"),
        (with("/services/one/healthcheck", json!({})), "add a healthcheck"),
        (with("/services/one/volumes", json!(["data-2:/data"])), "a data folder of its own"),
        (with("/services/one/networks/rondo/ipv4_address", json!("10.0.0.3")), "the nodes are"),
        (
            with("/services/proxy/networks/rondo/ipv4_address", json!("10.0.0.3")),
            "is not the address of nginx",
        ),
        (with("/services/proxy/ports", json!(["${PORT}:443"])), "env.example has no line PORT="),
        (
            with("/services/proxy/volumes", json!(["./tls:/tls", "./no.conf:/x"])),
            "no file ./no.conf to mount",
        ),
        (with("/services/two/image", json!("other:1")), "fewer than two nodes"),
    ];
    for (found, wanted) in mistakes {
        assert!(found.contains(wanted), "{wanted:?} is not among: {found}");
    }
    let with_folder = with("/services/proxy/volumes", json!(["./tls:/tls"]));
    assert_eq!(with_folder, "", "the operator makes this folder");
}

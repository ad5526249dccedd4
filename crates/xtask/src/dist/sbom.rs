//! A list of the libraries in the binary (software bill of materials, SBOM) as JSON of `CycloneDX`, from `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use toml::Table;

use super::checksums::sha256;

/// The crate of the binary.
const PROGRAM: &str = "cli";

/// The facts that are not in cargo's metadata.
pub(crate) struct SbomFacts<'a> {
    pub(crate) version: &'a str,
    /// The time of the source, as RFC 3339 writes it.
    pub(crate) created: &'a str,
    /// The text of `Cargo.lock`, which has the sums of packages.
    pub(crate) lock: &'a str,
}

/// The list of all packages that the binary is made of. Packages for builds and tests, and macros, are left out.
pub(crate) fn sbom(metadata: &Value, facts: &SbomFacts<'_>) -> Result<Value, String> {
    let graph = Graph::new(metadata)?;
    let reached = graph.needed_packages()?;
    let sums = sums(facts.lock)?;
    let mut components = BTreeMap::new();
    let mut dependencies = BTreeMap::new();
    for id in &reached {
        let package = graph.packages.get(id).ok_or_else(|| format!("cargo describes no package {id}"))?;
        let reference = purl(package);
        let edges = graph.edges.get(id).into_iter().flatten();
        let used: BTreeSet<String> =
            edges.filter_map(|to| graph.packages.get(to)).map(|package| purl(package)).collect();
        dependencies.insert(reference.clone(), json!({ "ref": reference, "dependsOn": used }));
        if *id != graph.program {
            components.insert(reference, component(package, &sums));
        }
    }
    let components: Vec<Value> = components.into_values().collect();
    let dependencies: Vec<Value> = dependencies.into_values().collect();
    let program = graph.packages.get(graph.program).map(|package| purl(package)).unwrap_or_default();
    Ok(json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": serial_number(&json!([facts.version, components]).to_string()),
        "version": 1,
        "metadata": {
            "timestamp": facts.created,
            "tools": { "components": [{ "type": "application", "name": "cargo xtask dist" }] },
            "component": {
                "type": "application",
                "bom-ref": program,
                "name": "rondo",
                "version": facts.version,
                "licenses": [{ "expression": "MIT OR Apache-2.0" }],
            },
        },
        "components": components,
        "dependencies": dependencies,
    }))
}

/// The packages, and which package uses which in the program.
struct Graph<'m> {
    packages: BTreeMap<&'m str, &'m Map<String, Value>>,
    edges: BTreeMap<&'m str, Vec<&'m str>>,
    program: &'m str,
}

impl<'m> Graph<'m> {
    fn new(metadata: &'m Value) -> Result<Self, String> {
        let objects = |pointer: &str| {
            let list = metadata.pointer(pointer).and_then(Value::as_array);
            list.into_iter().flatten().filter_map(Value::as_object)
        };
        let packages: BTreeMap<&str, &Map<String, Value>> =
            objects("/packages").filter_map(|package| Some((text(package, "id")?, package))).collect();
        let is_library = |id: &&str| packages.get(id).is_none_or(|package| !is_macro(package));
        let linked = |node: &'m Map<String, Value>| {
            runtime_dependencies(node).into_iter().filter(is_library).collect::<Vec<&str>>()
        };
        let edges =
            objects("/resolve/nodes").filter_map(|node| Some((text(node, "id")?, linked(node)))).collect();
        let is_program = |package: &Map<String, Value>| {
            text(package, "name") == Some(PROGRAM) && package.get("source").is_none_or(Value::is_null)
        };
        let program = packages.iter().find(|(_, package)| is_program(package)).map(|(id, _)| *id);
        let program = program.ok_or_else(|| format!("cargo describes no package {PROGRAM}"))?;
        Ok(Self { packages, edges, program })
    }

    /// All packages that the program needs, itself included.
    fn needed_packages(&self) -> Result<BTreeSet<&'m str>, String> {
        let (mut reached, mut open) = (BTreeSet::new(), vec![self.program]);
        while let Some(id) = open.pop() {
            if reached.insert(id) {
                let edges =
                    self.edges.get(id).ok_or_else(|| format!("cargo has resolved no package {id}"))?;
                open.extend(edges);
            }
        }
        Ok(reached)
    }
}

/// The packages that are linked with a package: neither those of its tests nor those of its build script.
fn runtime_dependencies(node: &Map<String, Value>) -> Vec<&str> {
    let is_linked = |dependency: &&Value| {
        let kinds = dependency.get("dep_kinds").and_then(Value::as_array);
        kinds.into_iter().flatten().any(|kind| kind.get("kind").is_none_or(Value::is_null))
    };
    let list = node.get("deps").and_then(Value::as_array).into_iter().flatten();
    list.filter(is_linked).filter_map(|dependency| dependency.get("pkg")?.as_str()).collect()
}

/// Whether the compiler runs a package instead of linking it.
fn is_macro(package: &Map<String, Value>) -> bool {
    let targets = package.get("targets").and_then(Value::as_array).into_iter().flatten();
    let kinds = targets.filter_map(|target| target.get("kind")?.as_array()).flatten();
    kinds.into_iter().any(|kind| kind == "proc-macro")
}

fn component(package: &Map<String, Value>, sums: &BTreeMap<(String, String), String>) -> Value {
    let (name, version) =
        (text(package, "name").unwrap_or_default(), text(package, "version").unwrap_or_default());
    let mut component = json!({
        "type": "library",
        "bom-ref": purl(package),
        "name": name,
        "version": version,
        "purl": purl(package),
    });
    let Some(fields) = component.as_object_mut() else { return component };
    if let Some(license) = text(package, "license") {
        // An older spelling of OR, which is no expression of SPDX.
        let expression = license.replace('/', " OR ").replace("  ", " ");
        fields.insert("licenses".into(), json!([{ "expression": expression }]));
    }
    if let Some(sum) = sums.get(&(name.to_owned(), version.to_owned())) {
        fields.insert("hashes".into(), json!([{ "alg": "SHA-256", "content": sum }]));
    }
    if let Some(url) = text(package, "repository") {
        fields.insert("externalReferences".into(), json!([{ "type": "vcs", "url": url }]));
    }
    component
}

fn text<'m>(object: &'m Map<String, Value>, key: &str) -> Option<&'m str> {
    object.get(key)?.as_str()
}

/// The URL of a package, which is its name in such lists.
fn purl(package: &Map<String, Value>) -> String {
    let [name, version] = ["name", "version"].map(|key| text(package, key).unwrap_or_default());
    format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))
}

/// The sums of packages in `Cargo.lock`, by name and version.
fn sums(lock: &str) -> Result<BTreeMap<(String, String), String>, String> {
    let lock: Table = lock.parse().map_err(|error| format!("Cargo.lock is not TOML: {error}"))?;
    let packages = lock.get("package").and_then(toml::Value::as_array).into_iter().flatten();
    let sum = |package: &toml::Value| {
        let field = |key: &str| Some(package.get(key)?.as_str()?.to_owned());
        Some(((field("name")?, field("version")?), field("checksum")?))
    };
    Ok(packages.filter_map(sum).collect())
}

/// A UUID made from the content, so that equal lists have equal numbers.
fn serial_number(content: &str) -> String {
    let digits = sha256(content.as_bytes());
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    // Version 8 is for ids with a meaning of their own, and the variant begins with 8 to b.
    format!("urn:uuid:{}-{}-8{}-8{}-{}", part(0, 8), part(8, 12), part(13, 16), part(17, 20), part(20, 32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata() -> Value {
        let package = |id: &str, name: &str, source: Value| json!({ "id": id, "name": name, "version": "1.0.0+x", "source": source, "license": "MIT/Apache-2.0" });
        let dependency = |id: &str, kind: Value| json!({ "pkg": id, "dep_kinds": [{ "kind": kind }] });
        json!({
            "packages": [
                package("c", "cli", Value::Null),
                package("other", "cli", json!("registry")),
                package("a", "serde", json!("registry")),
                package("b", "cc", json!("registry")),
                package("t", "insta", json!("registry")),
                {
                    "id": "m", "name": "derive", "version": "1.0.0", "source": "registry",
                    "targets": [{ "kind": ["proc-macro"] }],
                },
            ],
            "resolve": { "nodes": [
                { "id": "c", "deps": [
                    dependency("a", Value::Null), dependency("b", json!("build")), dependency("t", json!("dev")),
                    dependency("m", Value::Null),
                ] },
                { "id": "a", "deps": [] },
                { "id": "b", "deps": [] },
                { "id": "t", "deps": [] },
            ] },
        })
    }

    #[test]
    fn only_packages_in_the_program_are_listed() {
        let lock = "[[package]]\nname = \"serde\"\nversion = \"1.0.0+x\"\nchecksum = \"abcd\"\n";
        let facts = SbomFacts { version: "0.1.0", created: "2026-01-02T03:04:05Z", lock };
        let list = sbom(&metadata(), &facts).unwrap();
        let serde = "pkg:cargo/serde@1.0.0%2Bx";
        let expected = json!([{
            "type": "library",
            "bom-ref": serde,
            "name": "serde",
            "version": "1.0.0+x",
            "purl": serde,
            "licenses": [{ "expression": "MIT OR Apache-2.0" }],
            "hashes": [{ "alg": "SHA-256", "content": "abcd" }],
        }]);
        assert_eq!(list["components"], expected);
        let program = "pkg:cargo/cli@1.0.0%2Bx";
        assert_eq!(list["metadata"]["component"]["bom-ref"], program);
        let dependencies =
            json!([{ "ref": program, "dependsOn": [serde] }, { "ref": serde, "dependsOn": [] }]);
        assert_eq!(list["dependencies"], dependencies);
        assert_eq!(sbom(&metadata(), &facts).unwrap(), list, "the same each time");
    }

    #[test]
    fn a_serial_number_is_a_uuid() {
        let number = serial_number("x");
        let groups: Vec<usize> = number.strip_prefix("urn:uuid:").unwrap().split('-').map(str::len).collect();
        assert_eq!(groups, [8, 4, 4, 4, 12]);
        assert_ne!(number, serial_number("y"));
    }

    #[test]
    fn metadata_without_the_program_is_refused() {
        let facts = SbomFacts { version: "0.1.0", created: "", lock: "" };
        assert_eq!(sbom(&json!({}), &facts), Err("cargo describes no package cli".to_owned()));
    }
}

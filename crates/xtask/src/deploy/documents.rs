//! The YAML files in `deploy`, read and compared with their schemas by a program in Python.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The oldest version of Kubernetes that knows everything in the manifests, and the newest one that we can check.
const KUBERNETES: [&str; 2] = ["1.30", "1.37"];

/// A document of a manifest.
pub(super) struct Manifest {
    pub(super) file: String,
    pub(super) body: Value,
}

/// All that was read.
pub(super) struct DeployDocuments {
    pub(super) manifests: Vec<Manifest>,
    pub(super) compose: Value,
    /// The faults that the schemas refuse.
    pub(super) problems: Vec<String>,
}

impl Manifest {
    pub(super) fn kind(&self) -> &str {
        text(&self.body, "/kind")
    }

    pub(super) fn name(&self) -> &str {
        text(&self.body, "/metadata/name")
    }
}

/// The text at a place of a document, or an empty one.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The list at a place of a document, or an empty one.
pub(super) fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The names of the fields at a place of a document.
pub(super) fn fields<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a str> {
    value.pointer(pointer).and_then(Value::as_object).into_iter().flatten().map(|(name, _)| name.as_str())
}

/// Reads everything in `deploy`.
pub(super) fn read(root: &Path, python: &Path) -> Result<DeployDocuments, String> {
    let mut reader = Command::new(python);
    reader.arg(root.join("crates/xtask/src/deploy/read_documents.py")).arg(root.join("deploy"));
    let output =
        reader.args(KUBERNETES).output().map_err(|error| format!("cannot run {reader:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("the files cannot be read: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let mut read: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("the reader printed no JSON: {error}"))?;
    let manifests = list(&read, "/manifests").iter().map(|manifest| Manifest {
        file: text(manifest, "/file").to_owned(),
        body: manifest.get("document").cloned().unwrap_or_default(),
    });
    let problems = list(&read, "/problems").iter().filter_map(Value::as_str).map(str::to_owned);
    let (manifests, problems) = (manifests.collect(), problems.collect());
    let compose = read.get_mut("compose").map(Value::take).unwrap_or_default();
    Ok(DeployDocuments { manifests, compose, problems })
}

//! The findings of tests about features of clients. `cargo xtask test` compares it with `docs/clients.md`.

use std::path::Path;

use serde_json::{Value, json};

const RESULTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/client-results");

/// One feature of one client.
#[derive(Debug, Clone)]
pub(crate) struct FeatureResult {
    protocol: String,
    client: String,
    version: String,
    feature: String,
    outcome: FeatureOutcome,
}

#[derive(Debug, Clone)]
enum FeatureOutcome {
    Works,
    Broken(String),
    /// The client does not have it.
    Absent(String),
}

impl FeatureResult {
    /// A feature that has just been seen to work.
    pub(crate) fn works(protocol: &str, (client, version): (&str, &str), feature: &str) -> Self {
        let (client, version) = (client.to_owned(), version.to_owned());
        let (protocol, feature) = (protocol.to_owned(), feature.to_owned());
        Self { protocol, client, version, feature, outcome: FeatureOutcome::Works }
    }

    /// A feature that a client does not have.
    pub(crate) fn absent(self, why: &str) -> Self {
        Self { outcome: FeatureOutcome::Absent(why.to_owned()), ..self }
    }

    /// A line that a driver has printed.
    pub(crate) fn of_driver(protocol: &str, line: &str) -> Self {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        let outcome = match line["works"].as_bool() {
            Some(true) => FeatureOutcome::Works,
            Some(false) => FeatureOutcome::Broken(text("why")),
            None => FeatureOutcome::Absent(text("why")),
        };
        let protocol = protocol.to_owned();
        Self { protocol, client: text("client"), version: text("version"), feature: text("feature"), outcome }
    }

    /// Says what is wrong, if something is.
    pub(crate) fn complaint(&self) -> Option<String> {
        let FeatureOutcome::Broken(why) = &self.outcome else { return None };
        Some(format!("{} {}: {}: {why}", self.client, self.version, self.feature))
    }

    /// Writes it down, in a file of its own.
    pub(crate) fn note(&self) {
        let absent = match &self.outcome {
            FeatureOutcome::Works => Value::Null,
            FeatureOutcome::Absent(why) => json!(why),
            FeatureOutcome::Broken(_) => return,
        };
        let line = json!({
            "protocol": self.protocol,
            "client": self.client,
            "version": self.version,
            "feature": self.feature,
            "absent": absent,
        });
        let name = format!("{} {} {} {}", self.protocol, self.client, self.version, self.feature);
        let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        std::fs::create_dir_all(RESULTS).unwrap();
        std::fs::write(Path::new(RESULTS).join(format!("{name}.json")), line.to_string()).unwrap();
    }
}

//! The descriptions of the built-in tools for the model agree with what the tools do.

use protocol::MAX_KIND_BYTES;
use store::{MAX_FILE_BYTES, MAX_MEMORY_BYTES, MAX_PATH_BYTES};

use super::*;

fn property(tool: &str, pointer: &str) -> Value {
    spec(tool).parameters.pointer(&format!("/properties/{pointer}")).unwrap().clone()
}

#[test]
fn every_spec_is_a_closed_schema() {
    let specs: BTreeMap<String, BuiltinSpec> = serde_json::from_str(include_str!("specs.json")).unwrap();
    assert_eq!(specs.len(), 19);
    for (name, BuiltinSpec { description, parameters }) in specs {
        assert!(!description.is_empty(), "{name}");
        assert_eq!(parameters.get("additionalProperties"), Some(&false.into()), "{name}");
        assert!(jsonschema::validator_for(&parameters).is_ok(), "{name}");
    }
}

#[test]
fn the_limits_of_the_schemas_are_those_of_the_code() {
    for (tool, pointer, limit) in [
        ("listMarkdown", "prefix/maxLength", MAX_PATH_BYTES),
        ("readMarkdown", "path/maxLength", MAX_PATH_BYTES),
        ("createMarkdownFile", "path/maxLength", MAX_PATH_BYTES),
        ("createMarkdownFile", "content/maxLength", MAX_FILE_BYTES),
        ("writeMarkdownSection", "path/maxLength", MAX_PATH_BYTES),
        ("writeMarkdownSection", "content/maxLength", MAX_FILE_BYTES),
        ("save_memory", "text/maxLength", MAX_MEMORY_BYTES),
        ("save_memory", "kind/maxLength", MAX_KIND_BYTES),
        ("search_documents", "limit/maximum", MAX_FOUND),
        ("search_memories", "limit/maximum", MAX_FOUND),
        ("search_history", "limit/maximum", MAX_FOUND),
    ] {
        assert_eq!(property(tool, pointer), limit, "{tool} {pointer}");
    }
    assert_eq!(
        property("search_memories", "limit/description"),
        format!("at most so many; {DEFAULT_FOUND} when absent")
    );
}

//! Tests of how well tools fit messages.

use serde_json::json;

use super::*;

fn tool(name: &str, description: &str) -> ToolSpec {
    let parameters = json!({ "type": "object", "properties": { "kind": { "enum": ["blood_pressure"] } } });
    ToolSpec { name: name.into(), description: description.into(), parameters }
}

fn best(message: &str, tools: &[ToolSpec]) -> Vec<String> {
    fitting_tools(message, tools, 3).iter().map(|fit| tools[fit.index].name.clone()).collect()
}

#[test]
fn the_rules_can_be_read() {
    assert!(Rules::parse(include_str!("cues.toml")).is_ok());
}

#[test]
fn arithmetic_and_time_are_found_without_a_shared_word() {
    let tools = [tool("current_time", "Tells the current date."), tool("calculate", "Evaluates arithmetic.")];
    assert_eq!(best("What is 17.5 % of 2480?", &tools), ["calculate"]);
    assert_eq!(best("How late is it in London?", &tools), ["current_time"]);
    assert_eq!(best("Wie spät ist es?", &tools), ["current_time"]);
    for other in ["Hello!", "Who wrote Romeo and Juliet?", "What is the capital of France?", ""] {
        assert_eq!(best(other, &tools), [""; 0], "{other}");
    }
}

#[test]
fn records_are_found_by_their_names_and_values() {
    let tools = [tool("listPlants", "All plants in the journal."), tool("addPlant", "Writes a plant.")];
    assert_eq!(
        best("Which plants are in my journal?", &tools).first().map(String::as_str),
        Some("listPlants")
    );
    assert_eq!(best("I planted beans today.", &tools).first().map(String::as_str), Some("addPlant"));
    let vital = [tool("recordVital", "Records one reading.")];
    assert_eq!(best("Her blood pressure was 135 this morning, record it.", &vital), ["recordVital"]);
}

#[test]
fn at_most_so_many_tools_are_given() {
    let tools: Vec<ToolSpec> = (0..9).map(|_| tool("listPlants", "All plants.")).collect();
    assert_eq!(fitting_tools("my plants", &tools, 3).len(), 3);
}

#[test]
fn words_are_compared_without_their_endings() {
    assert_eq!(
        words("listLessonPlans save_memory don't"),
        ["list", "lesson", "plans", "save", "memory", "don", "t"]
    );
    for (one, other) in [("plants", "planted"), ("memory", "memories"), ("medication", "medications")] {
        assert_eq!(stem(one), stem(other));
    }
}

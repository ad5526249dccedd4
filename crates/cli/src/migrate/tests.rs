//! Files of other products become turns.

use serde_json::{Value, json};

use super::*;

/// A node of `ChatGPT`'s tree.
fn node(parent: Option<&str>, role: &str, text: &str) -> Value {
    json!({ "parent": parent, "children": [], "message": {
        "author": { "role": role }, "create_time": 1_700_000_000.5, "recipient": "all",
        "content": { "content_type": "text", "parts": [text] } } })
}

fn conversation_of(items: Vec<FoundItem>) -> ThreadToImport {
    let mut found = items.into_iter().filter_map(|item| match item {
        FoundItem::Conversation(thread) => Some(thread),
        FoundItem::Memory(_) | FoundItem::Problem(_) => None,
    });
    let thread = found.next().unwrap();
    assert_eq!(found.next(), None);
    thread
}

fn said(thread: &ThreadToImport) -> Vec<(&str, Vec<&str>)> {
    let steps = |turn: &'_ protocol::ImportedTurn| turn.steps.len();
    let turn = |turn| {
        let turn: &protocol::ImportedTurn = turn;
        (turn.text.as_str(), turn.steps.iter().take(steps(turn)).map(|step| step.text.as_str()).collect())
    };
    thread.turns.iter().map(turn).collect()
}

#[test]
fn the_branch_that_chatgpt_shows_is_taken() {
    let mut mapping = json!({
        "root": { "parent": null, "children": ["a"], "message": null },
        "a": node(Some("root"), "user", "Question"),
        "b": node(Some("a"), "assistant", "First answer"),
        "c": node(Some("a"), "assistant", "Second answer"),
        "d": node(Some("c"), "user", "More"),
    });
    let mut call = node(Some("d"), "assistant", "search(\"x\")");
    call["message"]["recipient"] = json!("browser");
    mapping["e"] = call;
    let mut result = node(Some("e"), "tool", "found");
    result["message"]["author"]["name"] = json!("browser");
    mapping["f"] = result;
    let mut memory = node(Some("f"), "assistant", "User likes tea.\n\nUser lives in Oslo.");
    memory["message"]["recipient"] = json!("bio");
    mapping["g"] = memory;
    mapping["h"] = node(Some("g"), "assistant", "Done");
    let mut hidden = node(Some("h"), "user", "context");
    hidden["message"]["content"] = json!({ "content_type": "user_editable_context", "user_profile": "x" });
    mapping["i"] = hidden;
    let entry = json!({ "conversation_id": "c1", "title": "A\ntitle", "create_time": 1_700_000_000,
        "current_node": "i", "mapping": mapping });
    let items = chatgpt::items(3, &entry);
    let memories: Vec<&str> = items
        .iter()
        .filter_map(
            |item| if let FoundItem::Memory(memory) = item { Some(memory.text.as_str()) } else { None },
        )
        .collect();
    assert_eq!(memories, ["User likes tea.", "User lives in Oslo."]);
    let thread = conversation_of(items);
    assert_eq!((thread.source_id.as_str(), thread.title.as_deref()), ("chatgpt:c1", Some("A title")));
    assert_eq!(said(&thread), [("Question", vec!["Second answer"]), ("More", vec!["", "Done"])]);
    let call = &thread.turns[1].steps[0].calls[0];
    assert_eq!((call.name.as_str(), call.result.as_deref()), ("browser", Some("found")));
    assert_eq!(thread.turns[0].at.unwrap().as_millisecond(), 1_700_000_000_500);
}

#[test]
fn what_chatgpt_did_not_write_is_a_problem_with_its_place() {
    for (entry, what) in [
        (json!({ "title": "T" }), "conversation 7 (T): has no conversation_id"),
        (json!({ "id": "x" }), "conversation 7: has no mapping"),
        (json!({ "id": "x", "mapping": {} }), "conversation 7: has no current_node"),
        (json!("text"), "conversation 7: has no conversation_id"),
    ] {
        assert_eq!(chatgpt::items(7, &entry), [FoundItem::Problem(what.into())]);
    }
    let ring = json!({ "id": "x", "current_node": "a", "mapping": {
        "a": node(Some("b"), "user", "one"), "b": node(Some("a"), "assistant", "two") } });
    assert_eq!(said(&conversation_of(chatgpt::items(0, &ring))), [("", vec!["two"]), ("one", vec![])]);
}

#[test]
fn older_agents_of_letta_speak_by_a_call() {
    let wrapped = |kind: &str, text: &str| json!({ "type": kind, "message": text, "time": "t" }).to_string();
    let call = |name: &str, input: Value| {
        json!({ "id": "c1", "type": "function",
        "function": { "name": name, "arguments": input.to_string() } })
    };
    let file = json!({ "agents": [{ "id": "agent-1", "name": "Sam", "messages": [
        { "role": "system", "content": "be good" },
        { "role": "user", "content": [{ "type": "text", "text": wrapped("login", "x") }] },
        { "role": "user", "content": [{ "type": "text", "text": wrapped("user_message", "Hi") }], "created_at": "2025-01-02T03:04:05+00:00" },
        { "role": "assistant", "content": [{ "type": "text", "text": "a thought" }], "tool_calls": [call("look", json!({ "q": 1 }))] },
        { "role": "tool", "tool_call_id": "c1", "name": "look", "content": json!({ "status": "Failed", "message": "gone", "time": "t" }).to_string() },
        { "role": "assistant", "content": null, "tool_calls": [call("send_message", json!({ "message": "Hello!" }))] },
        { "role": "tool", "tool_call_id": "c1", "name": "send_message", "content": "{}" },
    ]}], "blocks": [
        { "label": "persona", "value": "I am Sam." },
        { "label": "human", "value": "# About\n- Name: Chad\n\nLikes vibe coding" },
    ]});
    let items = letta::items(&file);
    let memory = |text: &str| {
        FoundItem::Memory(FoundMemory { text: text.into(), at: None, source: "letta:human".into() })
    };
    assert_eq!(items[..2], [memory("Name: Chad"), memory("Likes vibe coding")]);
    let thread = conversation_of(items);
    assert_eq!((thread.source_id.as_str(), thread.title.as_deref()), ("letta:agent-1", Some("Sam")));
    assert_eq!(said(&thread), [("Hi", vec!["", "Hello!"])]);
    let call = &thread.turns[0].steps[0].calls[0];
    assert_eq!((&call.input, call.result.as_deref(), call.failed), (&json!({ "q": 1 }), Some("gone"), true));
    assert!(matches!(letta::items(&json!({ "x": 1 }))[..], [FoundItem::Problem(_)]));
}

#[test]
fn messages_of_langchain_are_read_in_each_of_their_forms() {
    let thread = json!({ "checkpoint": { "thread_id": "t1" }, "created_at": "2025-05-12T14:04:08.268Z", "values": { "messages": [
        { "type": "human", "content": [{ "type": "text", "text": "Hi" }, { "type": "image_url", "image_url": {} }] },
        { "type": "ai", "content": "", "tool_calls": [{ "name": "look", "args": { "q": 1 }, "id": "c1", "type": "tool_call" }] },
        { "type": "tool", "content": "found", "tool_call_id": "c1", "name": "look", "status": "success" },
        { "lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "AIMessage"], "kwargs": { "content": "There." } },
        { "type": "human", "data": { "content": "Thanks" } },
    ]}});
    let found = conversation_of(langgraph::items(0, &thread));
    assert_eq!(said(&found), [("Hi\n[image_url]", vec!["", "There."]), ("Thanks", vec![])]);
    assert_eq!(found.turns[0].steps[0].calls[0].result.as_deref(), Some("found"));
    assert_eq!(found.created_at.unwrap().to_string(), "2025-05-12T14:04:08.268Z");
    let item = json!({ "namespace": ["users", "u1"], "key": "k", "value": { "data": "likes tea" } });
    let expected = FoundMemory { text: "likes tea".into(), at: None, source: "langgraph:users/u1".into() };
    assert_eq!(langgraph::items(0, &item), [FoundItem::Memory(expected)]);
    let problem = FoundItem::Problem("entry 4: has no thread_id".into());
    assert_eq!(langgraph::items(4, &json!({ "values": { "messages": [] } })), [problem]);
}

//! The model of the tests: what it says follows from the last message, so that drivers decide what happens.

use serde_json::Value;
use testkit::upstream::{Gate, Reply, ScriptedCall};

/// The reply to a request. `gate` holds back the end of an answer to "Hold on".
pub(crate) fn reply(body: &Value, gate: &Gate) -> Reply {
    let messages = spoken(body);
    let Some(last) = messages.last() else { return Reply::says("Nobody has said anything.") };
    let words = last["content"].to_string();
    if last["role"] == "tool" {
        return after_tool(called(&messages, last), &words);
    }
    let call =
        |name: &str, arguments: &str| Reply::stream().call(ScriptedCall::new(name, arguments).fragments(4));
    let says = |part: &str| words.contains(part);
    match () {
        () if says("What is the weather") => call("get_weather", r#"{"city":"Oslo"}"#),
        () if says("Calculate it") => call("calculate", r#"{"expression":"6*7"}"#),
        () if says("What time is it") => call("current_time", "{}"),
        () if says("Remember that") => call("save_memory", r#"{"text":"Lives in Oslo."}"#),
        () if says("as data") => Reply::stream().text(r#"{"city":"Oslo","#).text(r#""days":3}"#),
        () if says("picture") && says("image_url") => Reply::says("I see a picture."),
        () if says("Who are you") && body["messages"].to_string().contains("lighthouse keeper") => {
            Reply::says("I keep the light.")
        }
        () if says("How often") => Reply::says(&format!("Your history has {} messages.", messages.len())),
        () if says("Count") => Reply::stream().text("One, ").text("two, ").text("three."),
        () if says("Hold on") => Reply::stream().text("Hel").wait(gate).text("lo."),
        () if says("Fail") => Reply::status(401).error("invalid_request_error", None, "sk-canary"),
        () if says("My name is Ann") => Reply::says("Hello Ann."),
        () => Reply::says("I do not understand."),
    }
}

/// The messages of the conversation, without instructions.
fn spoken(body: &Value) -> Vec<&Value> {
    let is_spoken =
        |message: &&Value| ["user", "assistant", "tool"].iter().any(|role| message["role"] == *role);
    body["messages"].as_array().into_iter().flatten().filter(is_spoken).collect()
}

/// The name of the tool whose result is `answer`.
fn called<'m>(messages: &[&'m Value], answer: &Value) -> &'m str {
    let calls = messages.iter().filter_map(|message| message["tool_calls"].as_array()).flatten();
    let call = calls.rev().find(|call| call["id"] == answer["tool_call_id"]);
    call.and_then(|call| call["function"]["name"].as_str()).expect("a result has a call")
}

/// The answer goes by the tool: the time of day may hold the digits of any other result.
fn after_tool(tool: &str, words: &str) -> Reply {
    let says = |part: &str| words.contains(part);
    match tool {
        "get_weather" if says("21 degrees") => Reply::stream().text("It is 21 degrees ").text("in Oslo."),
        "calculate" if says("42") => Reply::says("It is 42."),
        "save_memory" if says("Oslo") => Reply::says("I will."),
        "current_time" if says("denied") || says("rejected") => Reply::says("I may not look."),
        "current_time" => Reply::says("It is late."),
        _ => Reply::says(&format!("I do not understand what {tool} gave me: {words}")),
    }
}

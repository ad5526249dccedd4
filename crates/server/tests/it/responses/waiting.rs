//! Responses of runs that wait: calls of the client and approvals end one response, and the next request continues in
//! another.

use serde_json::{Value, json};
use testkit::upstream::{Reply, ScriptedCall};
use testkit::{Setup, TestApp};

use super::{RESPONSES, ask, id_of, last, output_text, read_stream, refused, stream, with};
use crate::support::good;

fn function() -> Value {
    json!([{ "type": "function", "name": "locate", "description": "Where?", "parameters": { "type": "object", "properties": { "n": { "type": "integer" } } }, "strict": true }])
}

fn output(call: &Value, output: &str) -> Value {
    json!([{ "type": "function_call_output", "call_id": call, "output": output }])
}

#[tokio::test]
async fn a_function_call_ends_a_response_and_its_output_continues_in_another() {
    for with_previous in [true, false] {
        let app = TestApp::start().await;
        app.upstream.script([
            Reply::stream().text("Where?").call(ScriptedCall::new("locate", "{}")),
            Reply::says("In Oslo."),
        ]);
        let first = stream(&app, &with(ask("Where am I?"), "tools", function())).await;
        let response = &last(&first)["response"];
        let call = &response["output"][1];
        assert_eq!((&response["status"], &call["type"]), (&json!("completed"), &json!("function_call")));
        let mut body = with(ask(""), "input", output(&call["call_id"], "Oslo"));
        if with_previous {
            body = with(body, "previous_response_id", response["id"].clone());
        }
        let second = stream(&app, &body).await;
        let continued = &last(&second)["response"];
        assert_eq!(output_text(continued), "In Oslo.");
        assert_ne!(continued["id"], response["id"]);
        assert_eq!(continued["previous_response_id"], response["id"]);
        // Each part is read again by its own id, whole and in the same bytes, and after every event.
        for (part, sent) in [(response, &first), (continued, &second)] {
            let id = part["id"].as_str().unwrap();
            assert_eq!(good(app.get(&format!("{RESPONSES}/{id}")).await), *part);
            assert_eq!(read_stream(&app, id, None).await, *sent);
            for number in 0..sent.len() {
                assert_eq!(read_stream(&app, id, Some(number as u64)).await, sent[number + 1..]);
            }
        }
        // The output again changes nothing.
        assert_eq!(stream(&app, &body).await, second);
        assert_eq!(app.upstream.requests().len(), 2);
        let items = good(app.get(&format!("{RESPONSES}/{}/input_items", id_of(&second))).await);
        assert_eq!(
            (&items["data"][0]["type"], &items["data"][0]["output"]),
            (&json!("function_call_output"), &json!("Oslo"))
        );
        // The next message follows the whole run.
        app.upstream.script([Reply::says("Yes.")]);
        good(app.post(RESPONSES, &with(ask("Sure?"), "previous_response_id", continued["id"].clone())).await);
        let prompt = app.upstream.requests()[2].body["messages"].to_string();
        assert!(prompt.contains("In Oslo.") && prompt.contains("Sure?"), "{prompt}");
    }
}

#[tokio::test]
async fn an_approval_ends_a_response_and_the_word_continues_in_another() {
    for approve in [true, false] {
        let app = TestApp::with(Setup::app("tools = [\"risky\"]")).await;
        app.upstream
            .script([Reply::stream().call(ScriptedCall::new("risky", r#"{"n":1}"#)), Reply::says("Well.")]);
        let first = good(app.post(RESPONSES, &ask("Do it")).await);
        let request = &first["output"][0];
        assert_eq!(
            (&request["type"], &request["server_label"]),
            (&json!("mcp_approval_request"), &json!("test"))
        );
        let word = |approve: bool| {
            let item = json!({ "type": "mcp_approval_response", "approval_request_id": request["id"], "approve": approve });
            with(with(ask(""), "input", json!([item])), "previous_response_id", first["id"].clone())
        };
        let second = stream(&app, &word(approve)).await;
        let response = &last(&second)["response"];
        let call = &response["output"][0];
        assert_eq!((&call["type"], &call["approval_request_id"]), (&json!("mcp_call"), &request["id"]));
        assert_eq!(call["status"], if approve { "completed" } else { "failed" });
        assert_eq!(output_text(response), "Well.");
        assert_eq!(app.count("SELECT count(*) FROM actions WHERE status = 'complete'"), i64::from(approve));
        assert_eq!(stream(&app, &word(approve)).await, second);
        refused(app.post(RESPONSES, &word(!approve)).await, 409, None);
    }
}

#[tokio::test]
async fn what_is_still_missing_is_asked_for_again() {
    let app = TestApp::start().await;
    app.upstream.script([
        Reply::stream()
            .call(ScriptedCall::new("locate", "{}"))
            .call(ScriptedCall::new("locate", "{\"n\":2}")),
        Reply::says("Both."),
    ]);
    let first = good(app.post(RESPONSES, &with(ask("Where?"), "tools", function())).await);
    let (one, two) = (&first["output"][0]["call_id"], &first["output"][1]["call_id"]);
    let second = stream(&app, &with(ask(""), "input", output(one, "Oslo"))).await;
    let response = &last(&second)["response"];
    assert_eq!((response["output"].as_array().unwrap().len(), &response["output"][0]["call_id"]), (1, two));
    let third = good(app.post(RESPONSES, &with(ask(""), "input", output(two, "Bergen"))).await);
    assert_eq!(output_text(&third), "Both.");
    let ids = [&first["id"], &response["id"], &third["id"]];
    assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
    let unknown = format!("{RESPONSES}/{}_9", first["id"].as_str().unwrap());
    refused(app.get(&unknown).await, 404, None);
}

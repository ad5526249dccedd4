//! Approvals through an MCP client: by a question to its user, or by the tool `answer`.

use rmcp::model::{CallToolRequestParams, CallToolResponse, InputResponses};
use serde_json::{Value, json};
use testkit::upstream::{Reply, ScriptedCall};
use testkit::{Setup, TestApp};
use tokio_util::task::TaskTracker;

use super::support::{ERAS, Era, TestClient, Word, call, connect, failure, structured};
use crate::support::good;

async fn start() -> TestApp {
    TestApp::with(Setup::app("tools = [\"risky\", \"ask_user\"]")).await
}

fn risky(app: &TestApp, calls: usize) {
    let reply = (0..calls).fold(Reply::stream(), |reply, number| {
        reply.call(ScriptedCall::new("risky", &format!(r#"{{"n":{number}}}"#)))
    });
    app.upstream.script([reply, Reply::says("Done.")]);
}

/// How many calls were made.
async fn made(app: &TestApp) -> usize {
    let actions = good(app.get("/v1/apps/test/actions").await);
    actions["data"].as_array().unwrap().iter().filter(|action| action["status"] == "complete").count()
}

#[tokio::test]
async fn the_user_of_the_client_decides() {
    for era in ERAS {
        for (words, statuses) in [
            (vec![Word::Yes], vec!["confirmed"]),
            (vec![Word::No], vec!["rejected"]),
            (vec![Word::Decline], vec!["rejected"]),
            (vec![Word::Yes, Word::No], vec!["confirmed", "rejected"]),
        ] {
            let app = start().await;
            risky(&app, words.len());
            let handler = TestClient::saying(words.clone());
            let client = connect(&app, None, "/mcp", (era, handler.clone())).await;
            let told = structured(&call(&client, "ask", json!({ "message": "Do it" })).await);
            assert_eq!((&told["status"], &told["answer"]), (&json!("completed"), &json!("Done.")), "{era:?}");
            assert_eq!(
                handler.questions()[0],
                "Approve the call of the tool risky with this input?\n{\"n\":0}",
                "{era:?}"
            );
            assert_eq!(handler.questions().len(), words.len());
            let proposals = good(app.get("/v1/apps/test/proposals").await);
            let mut found: Vec<&str> = proposals["data"]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one["status"].as_str().unwrap())
                .collect();
            found.sort_unstable();
            assert_eq!(found, statuses, "{era:?}");
            assert_eq!(made(&app).await, statuses.iter().filter(|status| **status == "confirmed").count());
            assert_eq!(app.count("SELECT count(*) FROM runs"), 1);
            client.cancel().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_user_who_does_not_decide_leaves_it_open() {
    for (era, handler) in [
        (Era::Old, TestClient::saying([Word::Cancel])),
        (Era::Old, TestClient::default()),
        (Era::New, TestClient::default()),
    ] {
        let app = start().await;
        risky(&app, 1);
        let client = connect(&app, None, "/mcp", (era, handler)).await;
        let told = structured(&call(&client, "ask", json!({ "message": "Do it" })).await);
        assert_eq!(told["status"], "waiting");
        assert!(told["note"].as_str().unwrap().contains("the tool answer"), "{told}");
        let approval = &told["approvals"][0];
        assert_eq!((&approval["tool"], &approval["input"]), (&json!("risky"), &json!({ "n": 0 })));
        assert_eq!(structured(&call(&client, "get", json!({ "run": told["run"] })).await), told);

        let id = &approval["id"];
        for wrong in
            [json!({ "id": id }), json!({ "id": id, "result": 1 }), json!({ "id": "x", "approve": true })]
        {
            assert!(failure(&call(&client, "answer", wrong).await).starts_with("invalid_request: "));
        }
        let yes = json!({ "id": id, "approve": true });
        let decided = structured(&call(&client, "answer", yes.clone()).await);
        assert_eq!(decided, json!({ "id": id, "status": "confirmed", "run": told["run"] }));
        let shown = structured(&call(&client, "get", json!({ "run": told["run"], "waitSeconds": 30 })).await);
        assert_eq!((&shown["status"], &shown["answer"]), (&json!("completed"), &json!("Done.")));
        // A word that comes again changes nothing, and neither does another one.
        assert_eq!(structured(&call(&client, "answer", yes).await), decided);
        let no = structured(&call(&client, "answer", json!({ "id": id, "approve": false })).await);
        assert_eq!(no, decided);
        assert_eq!(made(&app).await, 1);
        client.cancel().await.unwrap();
    }
}

#[tokio::test]
async fn an_approval_that_is_given_elsewhere_ends_the_question() {
    let app = start().await;
    risky(&app, 1);
    let client = connect(&app, None, "/mcp", (Era::Old, TestClient::saying([Word::Never]))).await;
    let (tasks, peer) = (TaskTracker::new(), client.peer().clone());
    let asking = tasks
        .spawn(async move { super::support::call_peer(&peer, "ask", json!({ "message": "Do it" })).await });
    let mut open = Value::Null;
    while open.is_null() {
        open = good(app.get("/v1/apps/test/proposals?open=true").await)["data"][0].clone();
    }
    good(app.post(&format!("/v1/proposals/{}/confirm", open["id"].as_str().unwrap()), &json!({})).await);
    let CallToolResponse::Complete(result) = asking.await.unwrap().unwrap() else { panic!("it is complete") };
    assert_eq!(structured(&result)["answer"], "Done.");
    client.cancel().await.unwrap();
}

/// The repeated call of the newer protocol: its state is checked, and so are its answers.
#[tokio::test]
async fn a_repeated_call_continues_its_own_run_only() {
    let app = start().await;
    risky(&app, 1);
    let client = connect(&app, None, "/mcp", (Era::New, TestClient::saying([]))).await;
    let ask = || {
        CallToolRequestParams::new("ask")
            .with_arguments(json!({ "message": "Do it" }).as_object().unwrap().clone())
    };
    let CallToolResponse::InputRequired(asked) = client.call_tool_once(ask()).await.unwrap() else {
        panic!("the user is asked")
    };
    let (requests, state) = (asked.input_requests.unwrap(), asked.request_state.unwrap());
    let id = requests.keys().next().unwrap().clone();
    let answers = |key: &str, answer: Value| InputResponses::from([(key.to_owned(), answer)]);
    let yes = json!({ "action": "accept", "content": { "approve": true } });
    let missing = "prop_ffffffffffffffffffffffffffffffff";
    for (state, answers) in [
        ("run_ffffffffffffffffffffffffffffffff", answers(&id, yes.clone())),
        ("x", answers(&id, yes.clone())),
        (state.as_str(), answers(missing, yes.clone())),
        (state.as_str(), answers("x", yes.clone())),
        (state.as_str(), answers(&id, json!({ "action": "maybe" }))),
    ] {
        let request = ask().with_request_state(state).with_input_responses(answers);
        let CallToolResponse::Complete(result) = client.call_tool_once(request).await.unwrap() else {
            panic!("it is refused")
        };
        failure(&result);
    }
    // No answer: the same question again.
    let again = client.call_tool_once(ask().with_request_state(&state)).await.unwrap();
    assert!(matches!(again, CallToolResponse::InputRequired(_)));
    assert_eq!(made(&app).await, 0);
    for _ in 0..2 {
        let request = ask().with_request_state(&state).with_input_responses(answers(&id, yes.clone()));
        let CallToolResponse::Complete(result) = client.call_tool_once(request).await.unwrap() else {
            panic!("it is complete")
        };
        assert_eq!(structured(&result)["answer"], "Done.");
    }
    assert_eq!((made(&app).await, app.count("SELECT count(*) FROM runs")), (1, 1));
    client.cancel().await.unwrap();
}

#[tokio::test]
async fn a_call_of_the_client_is_answered() {
    let app = start().await;
    let question = r#"{"question":"Which one?"}"#;
    app.upstream.script([
        Reply::stream().call(ScriptedCall::new("ask_user", question)),
        Reply::says("The red one, then."),
    ]);
    let client = connect(&app, None, "/mcp", (Era::New, TestClient::saying([]))).await;
    let told = structured(&call(&client, "ask", json!({ "message": "Choose" })).await);
    assert_eq!((&told["status"], &told["calls"][0]["name"]), (&json!("waiting"), &json!("ask_user")));
    assert!(told["note"].as_str().unwrap().contains("results of tool calls"), "{told}");
    let id = &told["calls"][0]["id"];
    assert!(
        failure(&call(&client, "answer", json!({ "id": id, "approve": true })).await).contains("approve")
    );
    let answered =
        structured(&call(&client, "answer", json!({ "id": id, "result": { "answer": "red" } })).await);
    assert_eq!(answered, json!({ "id": id, "status": "answered", "run": told["run"] }));
    let shown = structured(&call(&client, "get", json!({ "run": told["run"], "waitSeconds": 30 })).await);
    assert_eq!(shown["answer"], "The red one, then.");
    client.cancel().await.unwrap();
}

//! One turn of companion: what it takes in, how it uses tools, how it ends, and what is stored of it.

use testkit::upstream::Gate;

use super::*;
use crate::world::names;

fn sum(number: usize) -> Reply {
    calls(&[("calculate", json!({ "expression": format!("{number} * 100") }))])
}

#[tokio::test]
async fn what_cannot_be_a_message_is_refused_and_changes_nothing() {
    let (product, server) = companion([]).await;
    let runs = product.path("runs");
    for body in [
        json!({}),
        json!({ "message": "" }),
        json!({ "message": 5 }),
        json!({ "message": "Hi", "mood": "x" }),
    ] {
        let (status, problem) = server.post(&runs, &body).await;
        assert_eq!((status, &problem["code"]), (422, &json!("invalid_request")), "{body}");
    }
    let (status, problem) = server.post(&runs, &json!({ "message": "x".repeat(256 * 1024 + 1) })).await;
    assert_eq!((status, &problem["code"]), (413, &json!("too_large")));
    assert_eq!(server.get(&product.path("threads")).await.1["data"], json!([]), "nothing is stored");
    for message in ["Hello", "Hello again"] {
        assert_eq!(product.answer(&server, json!({ "message": message })).await["reply"], "I see.");
    }
}

#[tokio::test]
async fn a_turn_names_its_session_and_carries_the_message_and_the_answer() {
    let (product, server) = companion([Reply::stream().text("Good ").text("morning.")]).await;
    let mut stream = product.ask(&server, json!({ "message": "Hello" })).await;
    let session = stream.header("x-thread-id");
    let frames = stream.read_until("run:end").await;
    assert_eq!(
        (thread(&frames), of(&frames, "message:user")[0]["text"].as_str()),
        (session.clone(), Some("Hello"))
    );
    assert_eq!((status(&frames), answer(&frames)), ("completed", "Good morning."));
    let again = product.ask(&server, json!({ "message": "And you?", "threadId": session })).await;
    assert_eq!(again.header("x-thread-id"), session);
    assert_eq!(status(&again.all().await), "completed");
}

#[tokio::test]
async fn the_prompt_begins_with_the_instructions_and_the_date() {
    let (product, server) = companion([]).await;
    product.say(&server, "Hello").await;
    let request = asked(&product)[0].clone();
    let system = content(&request, 0);
    assert_eq!(request["messages"][0]["role"], "system");
    assert!(system.starts_with("You are a companion"), "{system}");
    let (_, today) = system.split_once("Today is ").expect("the date");
    let year = today.split_whitespace().nth(3).unwrap();
    assert!(year.len() == 4 && year.bytes().all(|digit| digit.is_ascii_digit()), "{today}");
}

#[tokio::test]
async fn recent_messages_are_part_of_the_prompt() {
    let (product, server) = companion([]).await;
    let first = thread(&product.say(&server, "I had soup at noon").await);
    for message in ["It was carrot", "With ginger", "And bread"] {
        say_in(&product, &server, &first, message).await;
    }
    let last = say_in(&product, &server, &first, "What did I eat?").await;
    let request = asked(&product).pop().unwrap();
    let expected = [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ];
    assert_eq!(roles(&request), expected);
    assert_eq!(content(&request, 1), "I had soup at noon");
    assert_eq!(of(&last, "context:loaded")[0]["history"][0]["from"], 1, "the log says which they are");
}

#[tokio::test]
async fn a_model_with_tools_is_offered_them_and_one_without_answers_alone() {
    let product = Product::new("companion").await;
    product.world.write("rondo.toml", "[models.small]\nprovider = \"openai\"\ntools = false\n");
    let toml = std::fs::read_to_string(product.world.path("apps/companion/app.toml")).unwrap();
    product.world.write("apps/companion/app.toml", &format!("models = [\"small\"]\n{toml}"));
    let (product, server) = serving(product, []).await;
    let answer = product.answer(&server, json!({ "message": "Hello", "model": "small" })).await;
    assert_eq!((&answer["status"], &answer["reply"]), (&json!("completed"), &json!("I see.")));
    product.say(&server, "Hello").await;
    let requests = asked(&product);
    assert_eq!(requests[0].get("tools"), None);
    let offered: Vec<&Value> =
        requests[1]["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]["name"]).collect();
    assert!(
        offered.contains(&&json!("calculate")) && offered.contains(&&json!("search_memories")),
        "{offered:?}"
    );
}

#[tokio::test]
async fn an_answer_in_words_needs_one_call_although_tools_are_offered() {
    let (product, server) = companion([Reply::says("Hello there.")]).await;
    let frames = product.say(&server, "Hello").await;
    assert_eq!((status(&frames), answer(&frames)), ("completed", "Hello there."));
    let requests = asked(&product);
    assert_eq!(requests.len(), 1, "no call to find out whether tools are wanted");
    assert!(requests[0]["tools"].is_array() && requests[0]["stream"] == true, "{}", requests[0]);
}

#[tokio::test]
async fn a_tool_is_announced_run_with_its_arguments_and_its_result_goes_back() {
    let script = [calls(&[("calculate", json!({ "expression": "6 * 7" }))]), Reply::says("It is 42.")];
    let (product, server) = companion(script).await;
    let frames = product.say(&server, "What is 6 times 7?").await;
    let started = of(&frames, "tool:start")[0];
    assert_eq!(
        (&started["name"], &started["input"]),
        (&json!("calculate"), &json!({ "expression": "6 * 7" }))
    );
    let order = names(&frames);
    let place = |event: &str| order.iter().position(|name| *name == event).unwrap();
    assert!(
        place("tool:start") < place("tool:complete") && place("tool:complete") < place("stream:complete")
    );
    let request = asked(&product).pop().unwrap();
    assert_eq!(roles(&request), ["system", "user", "assistant", "tool"]);
    assert!(content(&request, 3).contains("42"), "{request}");
    assert_eq!(request["messages"][2]["tool_calls"][0]["id"], request["messages"][3]["tool_call_id"]);
    assert_eq!((status(&frames), answer(&frames)), ("completed", "It is 42."));
}

#[tokio::test]
async fn a_tool_that_is_not_there_or_fails_is_told_to_the_model_and_the_turn_goes_on() {
    let wrong = calls(&[("read_minds", json!({})), ("calculate", json!({ "expression": "6 *" }))]);
    let right = calls(&[("calculate", json!({ "expression": "6 * 7" }))]);
    let (product, server) = companion([wrong, right, Reply::says("It is 42.")]).await;
    let frames = product.say(&server, "What is 6 times 7?").await;
    let done: Vec<&str> =
        of(&frames, "tool:complete").iter().map(|end| end["status"].as_str().unwrap()).collect();
    assert_eq!(done.iter().filter(|status| **status == "complete").count(), 1, "{done:?}");
    assert_eq!(done.len(), 3);
    let second = asked(&product)[1].clone();
    assert_eq!(roles(&second), ["system", "user", "assistant", "tool", "tool"]);
    assert!(content(&second, 3).contains("error") && content(&second, 4).contains("error"), "{second}");
    assert_eq!((status(&frames), answer(&frames)), ("completed", "It is 42."));
}

#[tokio::test]
async fn tools_are_offered_three_times_and_then_words_are_asked_for() {
    let script = [sum(1), sum(2), sum(3), Reply::says("100, 200 and 300.")];
    let (product, server) = companion(script).await;
    let frames = product.say(&server, "Hundreds, please").await;
    assert_eq!(of(&frames, "tool:complete").len(), 3);
    let requests = asked(&product);
    let offers: Vec<bool> = requests.iter().map(|request| request["tools"].is_array()).collect();
    assert_eq!(offers, [true, true, true, false]);
    assert_eq!((status(&frames), answer(&frames)), ("completed", "100, 200 and 300."));
}

#[tokio::test]
async fn the_last_call_has_what_tools_found_in_its_instructions_and_no_tool_messages() {
    let script = [sum(1), sum(2), sum(3), Reply::says("100, 200 and 300.")];
    let (product, server) = companion(script).await;
    let frames = product.say(&server, "Hundreds, please").await;
    let last = asked(&product).pop().unwrap();
    assert_eq!(roles(&last), ["system", "user"]);
    let system = content(&last, 0);
    for found in ["100", "200", "300"] {
        assert!(system.contains(found), "{found} is not in {system}");
    }
    assert!(system.contains("You are a companion"), "{system}");
    assert_eq!(newest(&last), "Hundreds, please");
    assert_eq!(answer(&frames), "100, 200 and 300.");
}

#[tokio::test]
async fn a_model_that_goes_on_calling_tools_still_ends_in_words() {
    let stubborn = Reply::stream()
        .text("That is all I have.")
        .call(testkit::upstream::ScriptedCall::new("calculate", "{}"));
    let (product, server) = companion([sum(1), sum(2), sum(3), stubborn]).await;
    let frames = product.say(&server, "Hundreds, please").await;
    assert_eq!((status(&frames), answer(&frames)), ("completed", "That is all I have."));
    assert_eq!(of(&frames, "tool:complete").len(), 3, "a fourth is not run");
    assert_eq!(asked(&product).len(), 4);
}

#[tokio::test]
async fn both_messages_are_stored_the_users_before_the_answer_begins() {
    let held = Gate::new();
    let slow = Reply::stream().wait(&held).text("Good evening.");
    let (product, server) = companion([sum(1), slow]).await;
    let mut stream = product.ask(&server, json!({ "message": "Hello" })).await;
    let path = format!("/v1/threads/{}/messages", stream.header("x-thread-id"));
    within("the model to be asked again", held.reached()).await;
    let (_, early) = server.get(&path).await;
    assert_eq!(early["data"][0]["text"], "Hello");
    held.open();
    stream.read_until("run:end").await;
    let (_, messages) = server.get(&path).await;
    assert_eq!(messages["data"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&messages["data"][1]["role"], &messages["data"][1]["text"]),
        (&json!("assistant"), &json!("Good evening."))
    );
    assert_eq!(messages["data"][1]["toolResults"][0]["success"], true);
}

#[tokio::test]
async fn the_answer_comes_back_as_one_object_for_those_who_do_not_stream() {
    let (product, server) = companion([sum(1), Reply::says("A hundred.")]).await;
    let answer = product.answer(&server, json!({ "message": "A hundred, please" })).await;
    assert_eq!((&answer["status"], &answer["reply"]), (&json!("completed"), &json!("A hundred.")));
    assert_eq!(answer["tokenUsage"], 30, "{answer}");
    assert_eq!(answer["toolResults"][0]["success"], true, "{answer}");
}

#[tokio::test]
async fn a_step_that_fails_is_named_and_the_user_still_gets_a_sentence() {
    let (product, server) = companion([Reply::status(401).error("authentication_error", None, "no")]).await;
    let frames = product.say(&server, "Hello").await;
    let step = of(&frames, "step:end")[0];
    assert_eq!(
        (&step["finish"], &step["error"]["code"]),
        (&json!("failed"), &json!("provider_auth")),
        "{step}"
    );
    assert_eq!(status(&frames), "completed");
    assert!(answer(&frames).contains("could not reach"), "{}", answer(&frames));
    let (_, messages) = server.get(&format!("/v1/threads/{}/messages", thread(&frames))).await;
    assert_eq!(messages["data"][0]["text"], "Hello", "what was said is kept");
}

#[tokio::test]
async fn the_sentence_after_a_failure_streams_like_any_answer() {
    let refused = || Reply::status(401).error("authentication_error", None, "no");
    let (product, server) = companion([refused(), refused()]).await;
    let frames = product.say(&server, "Hello").await;
    let pieces: Vec<&Value> = of(&frames, "text:delta").iter().map(|data| &data["delta"]).collect();
    assert_eq!(pieces, [answer(&frames)], "{frames:?}");
    assert!(answer(&frames).contains("could not reach"), "{}", answer(&frames));
    let path = product.path("runs?format=delta");
    let request = server.request(reqwest::Method::POST, &path).json(&json!({ "message": "Hello" }));
    let text = request.send().await.unwrap().text().await.unwrap();
    assert_eq!(text.matches("could not reach").count(), 1, "and in other words it comes once, too: {text}");
}

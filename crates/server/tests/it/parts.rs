//! Messages with images and documents: sent in each provider's own form, kept with their message, and shown again only
//! within a budget.

use axum::http::Method;
use serde_json::{Value, json};
use testkit::pictures::{clear_png, data_url, jpeg, png};
use testkit::upstream::{Gate, Reply};
use testkit::{Frames, Setup, TestApp};

use crate::support::{Names, RUNS, delete, good, refused, status_of, told};

const IMAGES: &str = "/v1/apps/test/images";

/// A server whose model sees images.
fn seeing(app: &str) -> Setup {
    let mut setup = Setup::app(app);
    setup.capabilities.vision = true;
    setup
}

async fn start() -> TestApp {
    let app = TestApp::with(seeing("tools = [\"echo\"]")).await;
    app.upstream.program(|_| Reply::says("A cat."));
    app
}

async fn uploaded(app: &TestApp, name: &str, width: u32) -> Value {
    let request = app.request(Method::POST, &format!("{IMAGES}?name={name}"));
    good(app.send(request.header("content-type", "image/png").body(png(width, 20))).await)
}

fn shows(image: &Value, message: &str) -> Value {
    json!({ "message": message, "parts": [{ "type": "image", "imageId": image["id"] }] })
}

fn in_thread(mut body: Value, thread: &str) -> Value {
    body["threadId"] = json!(thread);
    body
}

/// The messages of the user in request `index`, as the provider got them.
fn said(app: &TestApp, index: usize) -> Vec<Value> {
    let body = &app.upstream.requests()[index].body;
    let messages = body["messages"].as_array().or(body["input"].as_array()).unwrap();
    messages.iter().filter(|message| message["role"] == "user").cloned().collect()
}

fn last_said(app: &TestApp) -> Vec<Value> {
    said(app, app.upstream.requests().len() - 1)
}

/// How many images a message shows.
fn images_of(message: &Value) -> usize {
    message["content"].as_array().map_or(0, |parts| {
        parts.iter().filter(|part| part["type"].as_str().unwrap().contains("image")).count()
    })
}

fn text_of(message: &Value) -> String {
    match message["content"].as_array() {
        Some(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        None => message["content"].as_str().unwrap_or_default().to_owned(),
    }
}

#[tokio::test]
async fn an_image_goes_to_the_model_and_stays_with_its_message() {
    let app = start().await;
    let image = uploaded(&app, "cat.png", 40).await;
    let stream = app.stream(RUNS, &shows(&image, "What is it?")).await;
    let names = Names::of(&stream);
    let frames = stream.all().await;
    assert_eq!(status_of(&frames), "completed");
    let part = json!({ "type": "image", "imageId": image["id"], "mediaType": "image/jpeg", "width": 40,
        "height": 20, "name": "cat.png" });
    assert_eq!((&frames[0].event, &frames[0].data["parts"]), (&"message:user".to_owned(), &json!([part])));
    let content = &said(&app, 0)[0]["content"];
    let url = content[0]["image_url"]["url"].as_str().unwrap();
    assert!(url.starts_with("data:image/jpeg;base64,/9j/"), "{url}");
    assert_eq!(content[1], json!({ "type": "text", "text": "What is it?" }));
    assert_eq!(content.as_array().unwrap().len(), 2);
    let messages = good(app.get(&names.messages_path()).await);
    assert_eq!((&messages["data"][0]["parts"], messages["data"][1].get("parts")), (&json!([part]), None));
    // Its tokens are in the ledger, and its owner sees a placeholder in place of its bytes.
    let end = frames.iter().find(|frame| frame.event == "step:end").unwrap();
    let fragments = end.data["prompt"]["fragments"].as_array().unwrap();
    let cost = fragments.iter().find(|fragment| fragment["fragment"] == "images").unwrap();
    assert_eq!(cost["tokens"], 1536, "nobody knows the rule of this model");
    let prompt = good(app.get(&format!("{}/prompt", names.run_path())).await);
    let shown =
        prompt["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap().to_owned();
    assert_eq!(shown, format!("[image {}: image/jpeg, 40x20]\nWhat is it?", image["id"].as_str().unwrap()));
    // It cannot go while the message is there, and goes with the thread.
    let path = format!("/v1/images/{}", image["id"].as_str().unwrap());
    refused(delete(&app, &path).await, 409, "image_in_use");
    assert_eq!(delete(&app, &names.thread_path()).await.status, 204);
    app.service.idle().await;
    assert_eq!(app.get(&path).await.status, 404);
    assert_eq!(
        app.count("SELECT (SELECT count(*) FROM image_contents) + (SELECT count(*) FROM image_uses)"),
        0
    );
}

#[tokio::test]
async fn an_image_comes_along_in_a_message_without_words() {
    let app = start().await;
    let parts =
        json!([{ "type": "image", "url": data_url("image/png", &clear_png(12, 9)), "name": "logo.png" }]);
    let names = told(&app, json!({ "parts": parts })).await;
    let content = &said(&app, 0)[0]["content"];
    assert_eq!(content.as_array().unwrap().len(), 1, "no empty text");
    assert!(content[0]["image_url"]["url"].as_str().unwrap().starts_with("data:image/png;base64,"));
    let thread = good(app.get(&names.thread_path()).await);
    assert_eq!(thread["title"], "[image: logo.png, 12x9]", "it is named by words");
    // An image that another thread has, too, is stored once, and goes with the last of them.
    let other = told(&app, json!({ "message": "Again", "parts": parts })).await;
    assert_eq!(app.count("SELECT count(*) FROM image_contents"), 1);
    for (names, left) in [(names, 1), (other, 0)] {
        assert_eq!(delete(&app, &names.thread_path()).await.status, 204);
        app.service.idle().await;
        assert_eq!(app.count("SELECT count(*) FROM image_contents"), left);
    }
}

#[tokio::test]
async fn a_model_without_vision_is_refused_or_told_in_words() {
    let app = TestApp::start().await;
    let url = data_url("image/png", &png(30, 20));
    let body = json!({ "message": "What?", "stream": false, "parts": [{ "type": "image", "url": url, "name": "a.png" }] });
    let detail = refused(app.post(RUNS, &body).await, 422, "no_vision");
    assert!(detail.contains("test-model"), "{detail}");
    assert_eq!(app.count("SELECT (SELECT count(*) FROM images) + (SELECT count(*) FROM threads)"), 0);

    let app = TestApp::with(Setup::app("[images]\nwithout_vision = \"text\"")).await;
    app.upstream.program(|_| Reply::says("I cannot see it."));
    let result = good(app.post(RUNS, &body).await);
    assert_eq!(
        (&result["status"], &result["warnings"][0]["code"]),
        (&json!("completed"), &json!("images_left_out"))
    );
    assert_eq!(said(&app, 0)[0]["content"], "What?\n[image: a.png, 30x20]");
}

#[tokio::test]
async fn a_fallback_without_vision_is_told_in_words_and_the_run_warns() {
    let mut setup = seeing("fallbacks = [\"backup-model\"]");
    let mut blind = setup.capabilities.clone();
    blind.vision = false;
    setup.backup_capabilities = Some(blind);
    let app = TestApp::with(setup).await;
    app.upstream.script([Reply::status(401).error("invalid_api_key", None, "no")]);
    app.backup.script([Reply::says("I was told of one.")]);
    let url = data_url("image/png", &png(30, 20));
    let body = json!({ "message": "What?", "stream": false, "parts": [{ "type": "image", "url": url }] });
    let result = good(app.post(RUNS, &body).await);
    assert_eq!(result["reply"], "I was told of one.");
    assert_eq!(result["warnings"][0]["code"], "images_left_out");
    assert_eq!(images_of(&said(&app, 0)[0]), 1);
    let told = app.backup.requests()[0].body["messages"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(told["content"], "What?\n[image: 30x20]");
}

#[tokio::test]
async fn earlier_images_are_shown_newest_first_up_to_a_number() {
    let app = TestApp::with(seeing("[images]\nhistory = 2")).await;
    app.upstream.program(|_| Reply::says("Seen."));
    let mut thread: Option<String> = None;
    for (name, width) in [("one.png", 21), ("two.png", 22), ("three.png", 23)] {
        let image = uploaded(&app, name, width).await;
        let body = shows(&image, name);
        let names = told(&app, thread.iter().fold(body, |body, thread| in_thread(body, thread))).await;
        thread = Some(names.thread);
    }
    let thread = thread.unwrap();
    let asked = told(&app, in_thread(json!({ "message": "And all of them?" }), &thread)).await;
    let messages = last_said(&app);
    assert_eq!(messages.iter().map(images_of).collect::<Vec<_>>(), [0, 1, 1, 0]);
    assert_eq!(text_of(&messages[0]), "one.png\n[image: one.png, 21x20]");
    assert_eq!(text_of(&messages[1]), "two.png");
    // The view of the prompt shows the same.
    let prompt = good(app.get(&format!("{}/prompt", asked.run_path())).await);
    let shown = prompt["messages"].to_string();
    assert_eq!(shown.matches("[image img_").count(), 2, "{shown}");
    assert!(shown.contains("[image: one.png, 21x20]"), "{shown}");
    assert_eq!(prompt["ledger"]["earlierImages"], 2);
    // An image of the message itself is always shown.
    let image = uploaded(&app, "four.png", 24).await;
    told(&app, in_thread(shows(&image, "four.png"), &thread)).await;
    assert_eq!(last_said(&app).iter().map(images_of).collect::<Vec<_>>(), [0, 1, 1, 0, 1]);
}

#[tokio::test]
async fn earlier_images_make_room_where_the_window_is_small() {
    let mut setup = seeing("[history]\nbudget = 3000");
    setup.capabilities.context_window = 4_000;
    let app = TestApp::with(setup).await;
    app.upstream.program(|_| Reply::says("Seen."));
    let image = uploaded(&app, "one.png", 21).await;
    let names = told(&app, shows(&image, "first")).await;
    assert_eq!(images_of(&last_said(&app)[0]), 1, "its own image is shown");
    told(&app, in_thread(json!({ "message": "And now?" }), &names.thread)).await;
    let messages = last_said(&app);
    assert_eq!(
        messages.iter().map(images_of).collect::<Vec<_>>(),
        [0, 0],
        "a quarter of the prompt is too little"
    );
    assert_eq!(text_of(&messages[0]), "first\n[image: one.png, 21x20]");
    // Images that the model cannot take at all are an error in words.
    let parts = vec![json!({ "type": "image", "imageId": image["id"] }); 3];
    let body = json!({ "message": "All", "parts": parts, "stream": false });
    let result = good(app.post(RUNS, &body).await);
    assert_eq!((&result["status"], &result["error"]["code"]), (&json!("failed"), &json!("context_too_long")));
}

#[tokio::test]
async fn parts_stay_with_their_message_when_it_is_answered_again_and_when_others_branch_off() {
    let app = start().await;
    let image = uploaded(&app, "cat.png", 40).await;
    let names = told(&app, shows(&image, "What is it?")).await;
    told(&app, json!({ "regenerate": true, "threadId": names.thread })).await;
    assert_eq!(last_said(&app).iter().map(images_of).collect::<Vec<_>>(), [1]);
    let messages = good(app.get(&names.messages_path()).await);
    let answer = messages["data"][1]["id"].clone();
    told(&app, json!({ "message": "Another way", "threadId": names.thread, "parentId": answer })).await;
    assert_eq!(last_said(&app).iter().map(images_of).collect::<Vec<_>>(), [1, 0]);
}

/// A run that has said something and waits for the gate.
async fn under_way(app: &TestApp, gate: &Gate) -> (Frames, Names) {
    app.upstream.script([Reply::stream().text("Hel").wait(gate).text("lo.")]);
    let mut stream = app.stream(RUNS, &json!({ "message": "Hi" })).await;
    stream.read_until("text:delta").await;
    let names = Names::of(&stream);
    (stream, names)
}

#[tokio::test]
async fn a_queued_message_keeps_its_image_and_a_cancelled_one_lets_it_go() {
    let app = TestApp::with(seeing("tools = [\"echo\"]")).await;
    let gate = Gate::default();
    let (first, names) = under_way(&app, &gate).await;
    let (kept, let_go) = (uploaded(&app, "kept.png", 31).await, uploaded(&app, "gone.png", 32).await);
    let waiting = app.stream(RUNS, &in_thread(shows(&kept, "Next"), &names.thread)).await;
    let cancelled = app.stream(RUNS, &in_thread(shows(&let_go, "Not this"), &names.thread)).await;
    let path = |image: &Value| format!("/v1/images/{}", image["id"].as_str().unwrap());
    refused(delete(&app, &path(&kept)).await, 409, "image_in_use");
    refused(delete(&app, &path(&let_go)).await, 409, "image_in_use");
    let cancel = format!("{}/cancel", Names::of(&cancelled).run_path());
    assert_eq!(app.post(&cancel, &json!({})).await.status, 202);
    assert_eq!(delete(&app, &path(&let_go)).await.status, 204, "no message will show it");
    app.upstream.script([Reply::says("A cat.")]);
    gate.open();
    first.all().await;
    assert_eq!(status_of(&waiting.all().await), "completed");
    assert_eq!(last_said(&app).iter().map(images_of).collect::<Vec<_>>(), [0, 1]);
    app.service.idle().await;
    assert_eq!(testkit::audit(&app.data()), Vec::<String>::new());
}

#[tokio::test]
async fn a_run_that_is_taken_up_after_a_crash_shows_its_image_again() {
    let app = TestApp::with(seeing("tools = [\"echo\"]")).await;
    app.upstream.script([Reply::silence(), Reply::says("A cat.")]);
    let image = uploaded(&app, "cat.png", 40).await;
    let stream = app.stream(RUNS, &shows(&image, "What is it?")).await;
    let names = Names::of(&stream);
    app.upstream.wait_for_requests(1).await;
    drop(stream);
    app.service.abandon().await;
    let app = app.restart().await;
    app.service.idle().await;
    assert_eq!(good(app.get(&names.run_path()).await)["status"], "completed");
    assert_eq!(last_said(&app).iter().map(images_of).collect::<Vec<_>>(), [1]);
}

#[tokio::test]
async fn a_repeated_request_keeps_its_parts_once() {
    let app = start().await;
    let parts = json!([
        { "type": "image", "url": data_url("image/jpeg", &jpeg(30, 20)) },
        { "type": "document", "url": data_url("text/plain", b"The pump weighs nine kilograms."), "name": "pump.txt" },
    ]);
    let body = json!({ "message": "How heavy is the pump?", "parts": parts, "stream": false });
    let send = async |key: &str| {
        app.send(app.request(Method::POST, RUNS).header("idempotency-key", key).json(&body)).await
    };
    let first = good(send("k").await);
    assert_eq!(good(send("k").await)["runId"], first["runId"]);
    assert_eq!(app.count("SELECT count(*) FROM documents"), 1);
    assert_eq!(app.count("SELECT count(*) FROM images"), 1);
}

#[tokio::test]
async fn a_document_of_a_message_is_answered_from_then_and_later() {
    let app = start().await;
    let manual = data_url("text/markdown", b"# Pump\n\nTighten the bolts to twelve newton metres.\n");
    let parts = json!([{ "type": "document", "url": manual, "name": "manual.md" }]);
    let stream = app.stream(RUNS, &json!({ "message": "How tight are the bolts?", "parts": parts })).await;
    let names = Names::of(&stream);
    let frames = stream.all().await;
    let source = frames.iter().find(|frame| frame.event == "source").expect("it is cited");
    assert_eq!(source.data["title"], "manual.md");
    let message = text_of(last_said(&app).last().unwrap());
    assert!(message.contains("twelve newton metres"), "{message}");
    assert!(message.contains("[document: manual.md, doc_"), "{message}");
    let listed = good(app.get("/v1/apps/test/documents").await);
    assert_eq!(listed["data"][0]["name"], "manual.md", "it is a document as any other");
    // A later message of the branch is answered from it, too; one of another thread is not.
    told(&app, in_thread(json!({ "message": "The bolts again?" }), &names.thread)).await;
    assert!(text_of(last_said(&app).last().unwrap()).contains("twelve newton metres"));
    told(&app, json!({ "message": "How tight are the bolts?" })).await;
    assert!(!text_of(last_said(&app).last().unwrap()).contains("twelve newton metres"));
    // By its id, too; and none where the request says none.
    let by_id = json!([{ "type": "document", "documentId": listed["data"][0]["id"] }]);
    told(&app, json!({ "message": "Which bolts?", "parts": by_id })).await;
    assert!(text_of(last_said(&app).last().unwrap()).contains("twelve newton metres"));
    told(&app, in_thread(json!({ "message": "Bolts?", "documentIds": [] }), &names.thread)).await;
    assert!(!text_of(last_said(&app).last().unwrap()).contains("twelve newton metres"));
}

#[tokio::test]
async fn a_refused_message_leaves_no_document() {
    let app = TestApp::with(seeing("tools = [\"echo\"]")).await;
    let gate = Gate::default();
    let (first, names) = under_way(&app, &gate).await;
    let parts =
        json!([{ "type": "document", "url": data_url("text/plain", b"A pump."), "name": "pump.txt" }]);
    let body = json!({ "message": "Now", "threadId": names.thread, "onBusy": "reject", "parts": parts });
    refused(app.post(RUNS, &body).await, 409, "thread_busy");
    assert_eq!(app.count("SELECT count(*) FROM documents WHERE deleted_at IS NULL"), 0);
    gate.open();
    first.all().await;
}

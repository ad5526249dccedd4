//! Forgetting as a sentence, plans that are followed up, what needs approval, and what a psychologist would look for.

use jiff::Span;
use jiff::tz::TimeZone;
use protocol::{Clock, SystemClock};
use reqwest::Method;

use super::*;
use crate::world::send;

/// Asks to forget, says yes, and expects the question to show the memory, and all but that one to stay.
async fn forgets(request: &str, yes: &str, memory: &str) {
    let (product, server) = companion([]).await;
    let first = product.say(&server, &format!("/remember {memory}")).await;
    add(&product, &server, "Speaks Danish").await;
    let thread = thread(&first);
    let question = say_in(&product, &server, &thread, request).await;
    assert!(answer(&question).contains(&format!("- {memory}\n")), "{request}: {}", answer(&question));
    assert_eq!(of(&question, "context:loaded")[0]["forgetting"]["outcome"], "asked");
    assert_eq!(known(&product, &server).await.len(), 2, "nothing is forgotten without a yes");
    let done = say_in(&product, &server, &thread, yes).await;
    assert_eq!(of(&done, "context:loaded")[0]["forgetting"]["outcome"], "forgotten", "{}", answer(&done));
    assert_eq!(known(&product, &server).await, ["Speaks Danish"], "after {request}");
    assert_eq!(asked(&product).len(), 0, "no model was asked");
}

#[tokio::test]
async fn forget_that_shows_what_is_meant_and_forgets_it_on_a_yes() {
    forgets("Forget that", "yes", "my cat is called Miso").await;
    forgets("Please forget that again.", "Yes, please.", "my cat is called Miso").await;
}

#[tokio::test]
async fn what_was_said_about_something_is_forgotten_too() {
    forgets("Forget what I said about my cat.", "yes", "my cat is called Miso").await;
    forgets("forget that my cat is called Miso", "go ahead", "my cat is called Miso").await;
}

#[tokio::test]
async fn german_spanish_and_french_sentences_do_the_same_in_their_languages() {
    forgets("Vergiss das bitte.", "ja", "meine Katze heißt Miso").await;
    forgets("Vergiss, was ich über meine Katze gesagt habe.", "Ja, bitte.", "meine Katze heißt Miso").await;
    forgets("Olvida eso, por favor", "sí", "mi gata se llama Miso").await;
    forgets("Oublie ce que j'ai dit sur ma chatte", "oui", "ma chatte s'appelle Miso").await;
}

#[tokio::test]
async fn a_no_or_another_word_forgets_nothing() {
    let (product, server) = companion([Reply::says("Hello yourself.")]).await;
    let first = product.say(&server, "/remember my cat is called Miso").await;
    let thread = thread(&first);
    say_in(&product, &server, &thread, "Forget that").await;
    let kept = say_in(&product, &server, &thread, "No, keep it").await;
    assert_eq!(of(&kept, "context:loaded")[0]["forgetting"]["outcome"], "kept");
    say_in(&product, &server, &thread, "Forget that").await;
    let other = say_in(&product, &server, &thread, "Hello, how are you?").await;
    assert_eq!(answer(&other), "Hello yourself.");
    let late = say_in(&product, &server, &thread, "yes").await;
    assert_eq!(of(&late, "context:loaded")[0]["forgetting"], Value::Null, "the question is over");
    assert_eq!(known(&product, &server).await, ["my cat is called Miso"]);
}

#[tokio::test]
async fn what_is_forgotten_by_a_sentence_is_in_no_prompt_any_more() {
    let (product, server) = companion([]).await;
    let thread = thread(&product.say(&server, "/remember my cat is called Miso").await);
    say_in(&product, &server, &thread, "Forget that").await;
    say_in(&product, &server, &thread, "yes").await;
    say_in(&product, &server, &thread, "What is my cat called?").await;
    product.say(&server, "What is my cat called?").await;
    for prompt in asked(&product) {
        assert!(!prompt.to_string().contains("Miso"), "{prompt}");
    }
    let nothing = product.say(&server, "Forget what I said about my cat").await;
    assert!(answer(&nothing).starts_with("I find nothing about that"), "{}", answer(&nothing));
}

#[tokio::test]
async fn what_is_retracted_at_once_is_never_looked_at() {
    let product = Product::new("companion").await;
    let path = product.world.path("apps/companion/app.toml");
    let app = std::fs::read_to_string(&path)
        .unwrap()
        .replace("extract = true", "extract = true\nextract_delay_seconds = 3");
    std::fs::write(&path, app).unwrap();
    let (product, server) = serving(product, []).await;
    let thread = thread(&product.say(&server, "I stole a bicycle once.").await);
    let taken_back = say_in(&product, &server, &thread, "Forget that").await;
    assert!(answer(&taken_back).starts_with("I have kept no note"), "{}", answer(&taken_back));
    say_in(&product, &server, &thread, "I am vegan these days.").await;
    settled(&server).await;
    let looked_at: Vec<String> = product
        .upstream()
        .requests()
        .into_iter()
        .filter(|request| is_extraction(&request.body))
        .map(|request| request.body["messages"].to_string())
        .collect();
    assert!(looked_at.iter().any(|asked| asked.contains("vegan")), "{looked_at:?}");
    assert!(!looked_at.iter().any(|asked| asked.contains("bicycle")), "{looked_at:?}");
}

async fn import(product: &Product, server: &Server, list: String) {
    let request = server
        .request(Method::POST, &product.path("memories/import"))
        .header("content-type", "text/markdown")
        .body(list);
    assert_eq!(send(request).await.0, 200);
}

#[tokio::test]
async fn a_plan_whose_day_is_over_is_brought_up_once() {
    let answers = ["Good morning to you.", "How did the half marathon go?"].map(Reply::says);
    let (product, server) = companion(answers).await;
    let today = SystemClock.now().to_zoned(TimeZone::UTC).date();
    let day = |days: i64| today.checked_add(Span::new().days(days)).unwrap().to_string();
    let list = format!(
        "- Runs the half marathon in Lisbon on {} — plan, {}\n- Sees the dentist on {} — plan, {}\n",
        day(-3),
        day(-20),
        day(90),
        day(-20)
    );
    import(&product, &server, list).await;
    let shown = |at: usize| newest(&asked(&product)[at]).to_owned();
    let thread = thread(&product.say(&server, "Good morning").await);
    assert!(
        shown(0).contains("half marathon") && shown(0).contains("(its day was 3 days ago)"),
        "{}",
        shown(0)
    );
    assert!(!shown(0).contains("dentist"), "its day has not come: {}", shown(0));
    say_in(&product, &server, &thread, "All is well").await;
    product.say(&server, "Good evening").await;
    assert!(shown(1).contains("(its day was 3 days ago)"), "the answer did not speak of it: {}", shown(1));
    assert!(!shown(2).contains("half marathon"), "it is brought up once: {}", shown(2));
}

#[tokio::test]
async fn a_cry_for_help_is_answered_by_the_model_though_it_asks_to_be_remembered() {
    let (product, server) = companion([Reply::says("I am glad that you told me.")]).await;
    let frames = product.say(&server, "Remember that my stepdad touches me at night").await;
    assert_eq!(answer(&frames), "I am glad that you told me.");
    assert_eq!(known(&product, &server).await, Vec::<String>::new(), "it is not kept by a rule");
    product.say(&server, "What did I say about my stepdad at night?").await;
    let shown = newest(&asked(&product)[1]).to_owned();
    let earlier = shown.split_once("From earlier conversations").map_or("", |(_, earlier)| earlier);
    assert!(!earlier.contains("touches me"), "{shown}");
}

#[tokio::test]
async fn health_and_what_hurts_is_kept_only_with_a_yes() {
    let product = Product::new("companion").await;
    let change = |text: &str, kind: &str, quote: &str| json!({ "action": "create", "ids": [], "text": text, "kind": kind, "message": "u1", "quote": quote });
    let changes = [
        change("Has asthma", "health", "I have asthma"),
        change("Lost their father in May 2026", "painful", "lost my father"),
        change("Lives in Porto", "place", "live in Porto"),
    ];
    let found = json!({ "changes": changes }).to_string();
    product.upstream().program(move |request| match request {
        request if is_extraction(request) => Reply::says(&found),
        request if !is_conversation(request) => Reply::says("A conversation"),
        request if request["messages"].to_string().contains("\"tool\"") => Reply::says("I will remember."),
        request if newest(request).contains("keep it in mind") => {
            calls(&[("save_memory", json!({ "text": "Has asthma", "kind": "health" }))])
        }
        _ => Reply::says("I am sorry."),
    });
    let server = product.serve().await;
    let frames = product.say(&server, "I have asthma, I lost my father and I live in Porto.").await;
    let channel = format!("/v1/threads/{}/events", thread(&frames));
    server.follow(&channel, 0).await.read_until("memory:update").await;
    assert_eq!(known(&product, &server).await, ["Lives in Porto"]);
    let message = json!({ "message": "Yes, do keep it in mind", "threadId": thread(&frames) });
    let mut asking = product.ask(&server, message).await;
    let open = asking.read_until("proposal:open").await.pop().unwrap().data;
    assert_eq!(open["input"]["text"], "Has asthma", "the user sees the sentence");
    assert_eq!(known(&product, &server).await.len(), 1, "and is asked first");
    let confirm = format!("/v1/proposals/{}/confirm", open["proposalId"].as_str().unwrap());
    assert_eq!(send(server.request(Method::POST, &confirm)).await.0, 200);
    asking.all().await;
    assert_eq!(known(&product, &server).await, ["Has asthma", "Lives in Porto"]);
}

/// Returns the instructions of the model.
async fn instructions() -> String {
    let (product, server) = companion([]).await;
    product.say(&server, "Good morning").await;
    content(&asked(&product)[0], 0).to_owned()
}

#[tokio::test]
async fn crisis_lines_are_those_of_the_users_country() {
    let text = instructions().await;
    for (country, line) in [
        ("United States", "988"),
        ("United Kingdom", "116 123"),
        ("Germany", "116 123"),
        ("Austria", "142"),
        ("Switzerland", "143"),
        ("France", "3114"),
        ("Spain", "024"),
        ("Netherlands", "113"),
        ("Brazil", "188"),
        ("Australia", "13 11 14"),
    ] {
        let row = text.lines().find(|row| row.starts_with(&format!("| {country} |")));
        assert!(row.is_some_and(|row| row.contains(line)), "{country}: {row:?}");
    }
    assert!(text.contains("Name the line of the user's country") && text.contains("Never make up a number"));
}

#[tokio::test]
async fn there_are_rules_for_minors_and_against_dependency() {
    let text = instructions().await;
    for rule in [
        "under 18",
        "no flirting, nothing sexual, no secrets",
        "0800 1111 (Childline)",
        "you are the only one they talk to",
        "never make anybody feel guilty for going",
        "Do not become warmer to keep them",
    ] {
        assert!(text.contains(rule), "nothing says {rule:?}");
    }
}

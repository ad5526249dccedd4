//! Counts that OpenAI published, and learning.

use std::sync::Arc;

use proptest::prelude::*;
use protocol::CallId;
use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::{
    AnswerFormat, CallResult, Capabilities, Endpoint, Exchange, Listing, ModelProvider, ModelRegistry,
    ModelRequest, Prices, PromptMessage, ProviderKind, ProviderWire, Schema, Timeouts, ToolSpec, connect,
};

/// Observations after which a ratio is to be learned.
const ENOUGH: usize = 10;

fn user(text: &str) -> PromptMessage {
    PromptMessage::User(text.into())
}

#[test]
fn published_counts() {
    for (text, o200k, cl100k) in [
        ("", 0, 0),
        ("hello world", 2, 2),
        ("tiktoken is great!", 6, 6),
        ("antidisestablishmentarianism", 6, 6),
        ("2 + 2 = 4", 7, 7),
        ("お誕生日おめでとう", 8, 9),
    ] {
        assert_eq!(Counter::new(Tokens::O200k).text(text), o200k, "{text:?}");
        assert_eq!(Counter::new(Tokens::Cl100k).text(text), cl100k, "{text:?}");
    }
}

/// The conversation of OpenAI's cookbook, of which the service itself says how many tokens it has.
#[test]
fn a_published_conversation() {
    let system = |text: &str| PromptMessage::System(text.into());
    let messages = vec![
        system("New synergies will help drive top-line growth."),
        system("Things working well together will increase revenue."),
        system(
            "Let's circle back when we have more bandwidth to touch base on opportunities for increased leverage.",
        ),
        system("Let's talk later when we're less busy about how to do better."),
        user("This late pivot means we don't have time to boil the ocean for the client deliverable."),
    ];
    let first =
        "You are a helpful, pattern-following assistant that translates corporate jargon into plain English.";
    for (model, published) in [("gpt-4o", 124), ("gpt-4", 129), ("gpt-3.5-turbo", 129)] {
        let counter = Counter::of_model(model);
        // There, four of the messages bear a name too, which costs a token beside its own.
        let names = 2 * (counter.text("example_user") + counter.text("example_assistant")) + 4;
        let request = ModelRequest::new(model, first, messages.clone());
        assert_eq!(counter.request(&request) + names, published, "{model}");
    }
}

#[test]
fn a_name_says_who_counts() {
    for (tokens, names) in [
        (
            Tokens::O200k,
            "gpt-4o gpt-4o-2024-08-06 gpt-4o-mini openai/gpt-4o:extended ft:gpt-4o-mini-2024-07-18:acme::x1 \
             gpt-4.1-nano gpt-4.5-preview gpt-5 gpt-5.1 gpt-5-mini o1 o1-preview o3 o4-mini chatgpt-4o-latest \
             router/azure/gpt-5",
        ),
        (Tokens::Cl100k, "gpt-4 gpt-4-turbo gpt-4-32k-0613 gpt-3.5-turbo gpt-35-turbo ft:gpt-3.5-turbo:acme"),
        (
            Tokens::Calibrated,
            "llama3 claude-sonnet-4-5 gemini-2.5-pro gpt-4all gpt-oss-20b o1lama gpt-2 o gpt-4o/llama my-gpt-4o",
        ),
    ] {
        for name in names.split_whitespace() {
            assert_eq!(Tokens::of_model(name), tokens, "{name}");
            assert_eq!(Counter::of_model(name).is_exact(), tokens != Tokens::Calibrated, "{name}");
        }
    }
    assert_eq!(Tokens::of_model(""), Tokens::Calibrated);
}

#[test]
fn everything_that_is_sent_is_counted() {
    let exchange = |text: &str| Exchange {
        id: CallId::new(Uuid::from_u128(1)),
        name: "calculate".into(),
        input: json!({"expression": "2+2"}),
        result: CallResult { text: text.into(), success: true },
    };
    let assistant =
        |exchanges, provider| PromptMessage::Assistant { text: "Let me see.".into(), exchanges, provider };
    let tool = ToolSpec { name: "add".into(), description: "Adds.".into(), parameters: json!({"a": 1}) };
    let schema = Schema { name: "answer".into(), schema: json!({"type": "object"}), strict: true };
    let bare = ModelRequest::new("m", "", vec![]);
    let of = |messages| ModelRequest::new("m", "", messages);
    let growing = [
        bare.clone(),
        ModelRequest { format: AnswerFormat::Schema(Arc::new(schema)), ..bare.clone() },
        ModelRequest { tools: Arc::new([tool]), ..bare },
        ModelRequest::new("m", "Be brief.", vec![]),
        of(vec![PromptMessage::System("Be brief.".into())]),
        of(vec![user("hello")]),
        of(vec![assistant(vec![], None)]),
        of(vec![assistant(vec![], Some(json!({"provider": "x"})))]),
        of(vec![assistant(vec![exchange("4")], None)]),
        of(vec![assistant(vec![exchange("4"), exchange("four, I think")], None)]),
    ];
    for tokens in Tokens::ALL {
        let counter = Counter::new(tokens);
        let counts: Vec<usize> = growing.iter().map(|request| counter.request(request)).collect();
        assert!(counts[1..].iter().all(|count| *count > counts[0]), "{tokens:?}: {counts:?}");
        assert!(counts[6..].is_sorted_by(|less, more| less < more), "{tokens:?}: {counts:?}");
        for request in &growing {
            let parts = counter.system(&request.system)
                + counter.format(&request.format)
                + request.tools.iter().map(|tool| counter.tool(tool)).sum::<usize>()
                + request.messages.iter().map(|message| counter.message(message)).sum::<usize>();
            assert!(counter.request(request) <= parts, "{request:?}");
        }
    }
}

#[test]
fn only_a_calibrated_counter_learns() {
    let request = ModelRequest::new("m", "word ".repeat(1000), vec![]);
    for tokens in [Tokens::O200k, Tokens::Cl100k] {
        let counter = Counter::new(tokens);
        counter.learn(&request, 3000);
        assert_eq!(counter.ratio(), 1.0);
    }
    let counter = Counter::new(Tokens::Calibrated);
    let before = counter.request(&request);
    assert_eq!((counter.ratio(), before > 1250), (FIRST_RATIO, true));
    for _ in 0..ENOUGH {
        counter.learn(&request, 2000);
    }
    let after = counter.request(&request);
    assert!((2000..=2200).contains(&after), "{after}");
}

#[test]
fn what_tells_nothing_is_not_learned() {
    let counter = Counter::new(Tokens::Calibrated);
    for (counted, actual) in [
        (0, 0),
        (0, 100),
        (MIN_LEARNED - 1, 200),
        (1000, 0),
        (1000, 1),
        (1000, 499),
        (1000, 10_001),
        (1000, u64::MAX),
        (usize::MAX, 1),
    ] {
        counter.observe(counted, actual);
        assert_eq!(counter.ratio(), FIRST_RATIO, "{counted} {actual}");
    }
}

#[test]
fn one_odd_prompt_does_not_spoil_the_ratio() {
    let counter = Counter::new(Tokens::Calibrated);
    (0..ENOUGH).for_each(|_| counter.observe(5000, 5000));
    let learned = counter.ratio();
    counter.observe(5000, 50_000);
    assert!(counter.ratio() <= learned * MAX_RISE);
    counter.observe(MIN_LEARNED, MIN_LEARNED as u64 * 4);
    (0..ENOUGH).for_each(|_| counter.observe(5000, 5000));
    assert!(counter.ratio() < 1.1, "{}", counter.ratio());
}

proptest! {
    #[test]
    fn the_ratio_stays_in_its_bounds(seen in prop::collection::vec((any::<usize>(), any::<u64>()), 0..20),
                                     near in prop::collection::vec((60_usize..5000, 0_u64..60_000), 0..50)) {
        let counter = Counter::new(Tokens::Calibrated);
        for (counted, actual) in seen.into_iter().chain(near) {
            counter.observe(counted, actual);
            prop_assert!((MIN_RATIO..=MAX_RATIO).contains(&counter.ratio()), "{}", counter.ratio());
        }
    }

    #[test]
    fn any_tokenizer_is_learned_soon(needs in 0.55_f32..4.0, sizes in prop::collection::vec(FULL_WEIGHT..200_000, ENOUGH)) {
        let counter = Counter::new(Tokens::Calibrated);
        for size in sizes {
            counter.observe(size, (size as f32 * needs).round() as u64);
        }
        let off = counter.ratio() / needs;
        prop_assert!((0.98..=1.10).contains(&off), "{needs}: {off}");
    }

    #[test]
    fn a_text_has_no_more_tokens_than_bytes(text in ".{0,200}") {
        prop_assert!(Counter::new(Tokens::O200k).text(&text) <= text.len());
        prop_assert!(Counter::new(Tokens::Cl100k).text(&text) <= text.len());
        let most = (text.len() as f32 * FIRST_RATIO).ceil() as usize;
        prop_assert!(Counter::new(Tokens::Calibrated).text(&text) <= most);
    }
}

fn registry(listings: Vec<Listing>) -> ModelRegistry {
    let endpoint = Endpoint {
        provider: "lan".into(),
        base_url: "http://127.0.0.1:9/v1".into(),
        key: None,
        timeouts: Timeouts::default(),
    };
    let provider = ModelProvider {
        name: "lan".into(),
        wire: Some(ProviderWire::Chat),
        kind: ProviderKind::Local,
        chat: connect(ProviderWire::Chat, &endpoint).unwrap(),
        open: true,
        known: false,
        capabilities: Capabilities::of_kind(ProviderKind::Local),
        prices: Prices::Free,
    };
    ModelRegistry::new(vec![provider], listings, None)
}

#[test]
fn a_model_remembers_what_its_counter_learned() {
    let registry = registry(Vec::new());
    let request = ModelRequest::new("llama3", "word ".repeat(1000), vec![]);
    registry.find("lan/llama3").unwrap().tokens().learn(&request, 3000);
    let ratio = |name: &str| registry.find(name).unwrap().tokens().ratio();
    assert!(ratio("llama3") > FIRST_RATIO, "under another name it is the same model");
    assert_eq!(ratio("qwen"), FIRST_RATIO);
    assert!(registry.find("lan/gpt-4o").unwrap().tokens().is_exact(), "whoever serves it");
}

#[test]
fn a_listing_can_say_how_its_tokens_are_counted() {
    let listing = |name: &str, tokens| Listing {
        name: name.into(),
        provider: "lan".into(),
        id: "gpt-4o".into(),
        kind: ProviderKind::Local,
        capabilities: Capabilities { tokens, ..Capabilities::of_kind(ProviderKind::Local) },
        price: None,
        extra: serde_json::Map::new(),
    };
    let registry = registry(vec![listing("plain", None), listing("learning", Some(Tokens::Calibrated))]);
    let is_exact = |name| registry.find(name).unwrap().tokens().is_exact();
    assert_eq!((is_exact("plain"), is_exact("learning")), (true, false));
}

#[test]
fn the_number_of_counters_is_bounded() {
    let counters = Counters::default();
    for number in 0..MAX_COUNTERS + 5 {
        counters.of(("lan", None), &format!("model-{number}"), None);
    }
    assert_eq!(counters.kept.lock().unwrap().len(), MAX_COUNTERS);
    let kept = |id| Arc::ptr_eq(&counters.of(("lan", None), id, None), &counters.of(("lan", None), id, None));
    assert_eq!((kept("model-0"), kept("one-more")), (true, false));
}

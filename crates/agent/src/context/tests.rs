//! A prompt is one that its provider takes and that fits, for all rows and all runs.

mod fitting;
mod styles;

use std::sync::{Arc, LazyLock};

use app::{ContextRules, Fragment, HistoryStyle};
use model::chat::ChatCompletions;
use model::{Endpoint, Model, ModelRequest, PromptMessage, ToolSpec};
use proptest::collection::vec;
use proptest::prelude::*;
use protocol::{
    Call, CallId, ContextLoaded, Event, Finish, MessageId, MessageUser, RunId, Settings, StepEnd, StepStart,
    StreamComplete, ThreadId, ToolComplete, ToolStatus, Usage,
};
use serde_json::{Value, json};
use store::{MessageRow, RawEvent};
use uuid::Uuid;

use super::{Context, Fence, PastTurn, PromptBudget, PromptHistory, PromptPiece, ToolOffer, compose};
use crate::state::RunState;
use crate::transcript;

const ROOMY: PromptBudget = PromptBudget { prompt: 100_000_000 };

/// Few ids, so that rows collide, repeat and miss each other.
fn call_id() -> impl Strategy<Value = CallId> {
    (0u128..6).prop_map(|n| CallId::new(Uuid::from_u128(n)))
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["", "[a-z ]{0,12}", "\\PC{0,8}", Just("\u{0}\u{feff}\u{202e}\n".to_owned())]
}

fn input() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({})),
        Just(json!({"a": 1})),
        Just(Value::Null),
        Just(json!([1])),
        Just(json!("{")),
        Just(json!({"deep": {"\u{0}": [null]}})),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    (call_id(), text(), input(), proptest::option::of(text()), proptest::option::of(text()))
        .prop_map(|(id, name, input, raw, provider_id)| Call { id, name, input, raw, provider_id })
}

fn step_end() -> impl Strategy<Value = StepEnd> {
    let finish = prop_oneof![
        Just(Finish::Stop),
        Just(Finish::Length),
        Just(Finish::ToolCalls),
        Just(Finish::ContentFilter),
        Just(Finish::Cancelled),
        Just(Finish::Failed)
    ];
    (0u32..5, text(), vec(call(), 0..4), finish, vec(text(), 0..2)).prop_map(
        |(step, text, calls, finish, dropped)| StepEnd {
            step,
            text,
            reasoning: None,
            calls,
            usage: Usage::default(),
            finish,
            error: None,
            model: None,
            dropped,
            provider: None,
            fallback: None,
            structured: None,
            prompt: None,
        },
    )
}

fn result() -> impl Strategy<Value = ToolComplete> {
    let status = prop_oneof![Just(ToolStatus::Complete), Just(ToolStatus::Failed), Just(ToolStatus::Unknown)];
    (call_id(), text(), status, input()).prop_map(|(call_id, name, status, output)| ToolComplete {
        call_id,
        name,
        status,
        output,
        duration_ms: 1,
        outside: false,
        suspicious: false,
        by: None,
    })
}

fn raw_of(event: &Event) -> RawEvent {
    RawEvent { seq: 1, kind: event.kind().name().to_owned(), body: event.body() }
}

/// A row of the log: good, of another kind, unknown, or garbage.
fn raw() -> impl Strategy<Value = RawEvent> {
    let said = (text(), text()).prop_map(|(text, memory)| {
        Event::StreamComplete(StreamComplete {
            message_id: MessageId::new(Uuid::nil()),
            text,
            memories_referenced: vec![memory],
            data: None,
            usage: Usage::default(),
        })
    });
    let user = text().prop_map(|text| {
        Event::MessageUser(MessageUser {
            message_id: MessageId::new(Uuid::nil()),
            parent_id: None,
            text,
            parts: vec![],
        })
    });
    prop_oneof![
        4 => step_end().prop_map(|step| raw_of(&Event::StepEnd(step))),
        4 => result().prop_map(|result| raw_of(&Event::ToolComplete(result))),
        2 => said.prop_map(|event| raw_of(&event)),
        2 => user.prop_map(|event| raw_of(&event)),
        1 => (text(), text()).prop_map(|(kind, body)| RawEvent { seq: 1, kind, body }),
        1 => text().prop_map(|body| RawEvent { seq: 1, kind: "tool:complete".into(), body }),
        1 => text().prop_map(|body| RawEvent { seq: 1, kind: "step:end".into(), body }),
    ]
}

fn row() -> impl Strategy<Value = MessageRow> {
    let role = prop_oneof![Just("user"), Just("assistant"), Just("assistant"), Just("system"), Just("")];
    let total = prop_oneof![Just(0u64), Just(1), Just(37_130), Just(u64::MAX)];
    (role, proptest::option::of(raw()), vec(raw(), 0..4), vec(raw(), 0..8), total).prop_map(
        |(role, said, steps, results, total)| MessageRow {
            id: MessageId::new(Uuid::nil()),
            role: role.into(),
            parent: None,
            run: Some(RunId::new(Uuid::nil())),
            model: None,
            said,
            steps,
            results_total: total.max(results.len() as u64),
            results,
            seq: 1,
            created_at: jiff::Timestamp::UNIX_EPOCH,
        },
    )
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => step_end().prop_map(Event::StepEnd),
        3 => result().prop_map(Event::ToolComplete),
        1 => (0u32..5).prop_map(|step| Event::StepStart(StepStart { step, model: String::new() })),
    ]
}

fn context(rows: &[MessageRow], message: String) -> Context {
    let past = |row: &MessageRow| PastTurn { id: row.id, seq: row.seq, turn: transcript::read(row) };
    let tool = ToolSpec {
        name: "echo".into(),
        description: "gives back".into(),
        parameters: json!({ "type": "object", "properties": {} }),
    };
    Context {
        rules: ContextRules::default(),
        pieces: vec![PromptPiece::new(Fragment::Instructions, "app_1", "You are a test.".into())],
        custom: None,
        loaded: ContextLoaded { date: "Friday, 1 May 2026 (UTC)".into(), ..ContextLoaded::default() },
        history: PromptHistory { style: HistoryStyle::Plain, turns: rows.iter().map(past).collect() },
        message,
        parts: Vec::new(),
        history_images: 4,
        message_id: MessageId::new(Uuid::nil()),
        fence: Fence::of(&[7; 32], ThreadId::new(Uuid::nil())),
        tools: [tool].into(),
        settings: Settings::default(),
        shape: None,
        hides: None,
    }
}

/// A model that can do everything. It is made once: thousands of cases ask for it.
fn model() -> Arc<Model> {
    static MODEL: LazyLock<Arc<Model>> =
        LazyLock::new(|| testkit::registry("http://127.0.0.1:9/v1").find("test-model").unwrap());
    MODEL.clone()
}

/// The body of the request to the provider. The client, with its certificates, is made once.
fn sent(request: &ModelRequest) -> Value {
    static CLIENT: LazyLock<ChatCompletions> = LazyLock::new(|| {
        let endpoint = Endpoint {
            provider: "test".into(),
            base_url: "http://127.0.0.1:9/v1".into(),
            key: None,
            timeouts: model::Timeouts::default(),
        };
        ChatCompletions::new(&endpoint).unwrap()
    });
    serde_json::from_slice(&CLIENT.body(request)).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    /// T7: total, pure, and valid for the provider, for any rows and any state of the run.
    #[test]
    fn any_rows_make_a_prompt_the_provider_takes(
        rows in vec(row(), 0..5),
        events in vec(event(), 0..8),
        message in text(),
        words in any::<bool>(),
    ) {
        let context = context(&rows, message);
        let state = RunState::replay(&events);
        let offer = if words { ToolOffer::Words } else { ToolOffer::Tools };
        for style in [HistoryStyle::Plain, HistoryStyle::Reference] {
            let history = PromptHistory { style, ..context.history.clone() };
            let context = Context { history, ..context.clone() };
            let request = compose(&context, &model(), &state, ROOMY, offer).unwrap().request;
            prop_assert_eq!(testkit::upstream::complaint(sent(&request)), None, "{:#?}", request);
            prop_assert_eq!(&compose(&context, &model(), &state, ROOMY, offer).unwrap().request, &request);
        }
    }

    /// P1: what is built fits, or is refused; earlier turns are kept whole, from a user message on.
    #[test]
    fn a_prompt_never_exceeds_its_budget(rows in vec(row(), 0..8), message in text(), tokens in 0usize..200) {
        let context = context(&rows, message);
        let budget = PromptBudget { prompt: tokens };
        let composed = compose(&context, &model(), &RunState::default(), budget, ToolOffer::Tools);
        let Ok(composed) = composed else { return Ok(()) };
        let request = &composed.request;
        prop_assert!(model().tokens().request(request) <= tokens, "{:?}", composed.ledger);
        prop_assert!(composed.ledger.tokens <= tokens as u64);
        prop_assert_eq!(testkit::upstream::complaint(sent(request)), None);
        let (_, kept) = request.messages.split_last().unwrap();
        prop_assert!(kept.first().is_none_or(|first| matches!(first, PromptMessage::User(_))));
    }
}

#[test]
fn results_beyond_what_calls_allow_are_left_out() {
    let id = CallId::new(Uuid::from_u128(1));
    let call = Call { id, name: "echo".into(), input: json!({}), raw: None, provider_id: None };
    let step = StepEnd {
        step: 1,
        text: String::new(),
        reasoning: None,
        calls: vec![call],
        usage: Usage::default(),
        finish: Finish::ToolCalls,
        error: None,
        model: None,
        dropped: vec![],
        provider: None,
        fallback: None,
        structured: None,
        prompt: None,
    };
    let result = |n: u32| ToolComplete {
        call_id: id,
        name: "echo".into(),
        status: ToolStatus::Complete,
        output: json!(n),
        duration_ms: 0,
        outside: false,
        suspicious: false,
        by: None,
    };
    let results: Vec<_> = (0..100).map(|n| raw_of(&Event::ToolComplete(result(n)))).collect();
    let row = MessageRow {
        id: MessageId::new(Uuid::nil()),
        role: "assistant".into(),
        parent: None,
        run: None,
        model: None,
        said: None,
        steps: vec![raw_of(&Event::StepEnd(step))],
        results,
        results_total: 37_130,
        seq: 1,
        created_at: jiff::Timestamp::UNIX_EPOCH,
    };
    let turn = transcript::read(&row);
    assert_eq!(turn.results, [result(0)], "the first result is the one that counts");
    assert_eq!(turn.trouble.results, Some((37_130, 2)), "min(37130, 1 call × 2, 100)");
    let thread = ThreadId::new(Uuid::nil());
    transcript::warn(thread, &row, turn.trouble);
}

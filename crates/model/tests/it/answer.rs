//! Good answers, in the shapes in which they come, by every wire.

use futures_util::StreamExt;
use model::{AnswerPiece, ModelRequest, ProviderWire, Timeouts};
use protocol::Finish;
use serde_json::json;
use testkit::upstream::{Gate, Reply, ScriptedCall, Upstream};

use crate::support::{
    PATIENT, SHORT, answer_to, ask, ask_for, body_of, client, hello, input, opaque, readable, said, start,
    stream_of, usage,
};

#[tokio::test]
async fn text_and_reasoning() {
    for wire in ProviderWire::ALL {
        let reply = Reply::stream().reasoning("Hm.").text("Hel").text("lo").usage(30, 7).finish("length");
        let expected = vec![
            AnswerPiece::Reasoning("Hm.".into()),
            said("Hel"),
            said("lo"),
            usage(30, 7),
            AnswerPiece::Finish(Finish::Length),
        ];
        let (pieces, error) = answer_to(wire, reply, PATIENT).await;
        assert_eq!((readable(pieces), error), (expected, None), "{wire:?}");
    }
}

/// A model's thoughts come back to its provider with the calls that came of them, as they were sent.
#[tokio::test]
async fn reasoning_is_kept_for_the_provider_that_needs_it() {
    for (wire, kept) in [
        (ProviderWire::Responses, r#""encrypted_content":"sealed_0""#),
        (ProviderWire::Anthropic(model::AnthropicVersion::V2023), r#""signature":"signature_0""#),
        (ProviderWire::Anthropic(model::AnthropicVersion::V2026), r#""signature":"signature_0""#),
    ] {
        let reply = Reply::stream().reasoning("Hm.").call(ScriptedCall::new("now", "{}"));
        let (pieces, _) = answer_to(wire, reply, PATIENT).await;
        let opaque = opaque(&pieces).map(|opaque| opaque.to_string());
        assert!(opaque.as_ref().is_some_and(|opaque| opaque.contains(kept)), "{wire:?}: {opaque:?}");
    }
}

#[tokio::test]
async fn two_parallel_calls() {
    for wire in ProviderWire::ALL {
        let reply = Reply::stream()
            .call(ScriptedCall::new("weather", r#"{"city":"Oslo"}"#).id("one").fragments(9))
            .call(ScriptedCall::new("weather", r#"{"city":"Rome"}"#).id("two"))
            .without_usage();
        let (pieces, error) = answer_to(wire, reply, PATIENT).await;
        let first = match wire {
            ProviderWire::Ollama => vec![input(0, r#"{"city":"Oslo"}"#)], // calls come whole
            ProviderWire::Chat | ProviderWire::Responses | ProviderWire::Anthropic(_) => {
                vec![input(0, r#"{"city":""#), input(0, r#"Oslo"}"#)]
            }
        };
        let expected = [
            vec![start(0, Some("one"), "weather")],
            first,
            vec![start(1, Some("two"), "weather"), input(1, r#"{"city":"Rome"}"#)],
            vec![AnswerPiece::Finish(Finish::ToolCalls)],
        ];
        assert_eq!((pieces, error), (expected.concat(), None), "{wire:?}");
    }
}

#[tokio::test]
async fn calls_without_an_id_or_arguments() {
    for wire in ProviderWire::ALL {
        let reply = Reply::stream().call(ScriptedCall::new("now", "").id("")).without_usage();
        let (pieces, error) = answer_to(wire, reply, PATIENT).await;
        let expected = match wire {
            // The id of the item stands for that of the call.
            ProviderWire::Responses => {
                vec![start(0, Some("fc_0"), "now"), AnswerPiece::Finish(Finish::ToolCalls)]
            }
            ProviderWire::Ollama => {
                vec![start(0, None, "now"), input(0, "{}"), AnswerPiece::Finish(Finish::ToolCalls)]
            }
            ProviderWire::Chat | ProviderWire::Anthropic(_) => {
                vec![start(0, None, "now"), AnswerPiece::Finish(Finish::ToolCalls)]
            }
        };
        assert_eq!((pieces, error), (expected, None), "{wire:?}");
    }
}

#[tokio::test]
async fn calls_without_an_index_and_a_wrong_reason() {
    let reply = Reply::stream()
        .call(ScriptedCall::new("a", "").without_index())
        .call(ScriptedCall::new("b", "{}").without_index())
        .finish("stop");
    let expected = vec![
        start(0, Some("call_0"), "a"),
        start(1, Some("call_1"), "b"),
        input(1, "{}"),
        usage(10, 5),
        AnswerPiece::Finish(Finish::ToolCalls),
    ];
    assert_eq!(answer_to(ProviderWire::Chat, reply, PATIENT).await, (expected, None));
}

#[tokio::test]
async fn another_model_than_asked_for() {
    for wire in ProviderWire::ALL {
        let reply = Reply::says("x").model("m-mini").without_usage();
        let expected =
            vec![AnswerPiece::Model("m-mini".into()), said("x"), AnswerPiece::Finish(Finish::Stop)];
        assert_eq!(answer_to(wire, reply, PATIENT).await, (expected, None), "{wire:?}");
    }
}

#[tokio::test]
async fn the_connection_may_hang_once_the_reason_is_known() {
    for wire in ProviderWire::ALL {
        let expected = (vec![said("x"), usage(10, 5), AnswerPiece::Finish(Finish::Stop)], None);
        let reply = || Reply::says("x").without_done();
        assert_eq!(answer_to(wire, reply(), PATIENT).await, expected, "{wire:?}");
        let stalls = stream_of(wire, body_of(wire, reply(), true).await).stall();
        let short = Timeouts { idle: SHORT, ..PATIENT };
        assert_eq!(answer_to(wire, stalls, short).await, expected, "{wire:?}");
    }
}

#[tokio::test]
async fn an_answer_is_the_same_wherever_it_is_split() {
    for wire in ProviderWire::ALL {
        let reply = || {
            let call = ScriptedCall::new("a", r#"{"é":"🎵"}"#).fragments(3);
            Reply::stream().reasoning("ü").text("é🎵").call(call).without_usage()
        };
        let whole = answer_to(wire, reply(), PATIENT).await;
        assert_eq!(whole.1, None, "{wire:?}");
        let bytes = body_of(wire, reply(), true).await.len();
        assert_eq!(answer_to(wire, reply().split_at(0..bytes), PATIENT).await, whole, "{wire:?}");
    }
}

#[tokio::test]
async fn pieces_arrive_as_they_are_sent() {
    for wire in ProviderWire::ALL {
        let upstream = Upstream::start().await;
        let gate = Gate::new();
        upstream.script([Reply::stream().text("a").wait(&gate).text("b").without_usage()]);
        let mut stream = client(wire, &upstream, PATIENT).stream(&hello()).await.unwrap();
        assert_eq!(stream.next().await, Some(Ok(said("a"))), "{wire:?}");
        gate.reached().await;
        gate.open();
        assert_eq!(stream.next().await, Some(Ok(said("b"))), "{wire:?}");
        assert_eq!(stream.next().await, Some(Ok(AnswerPiece::Finish(Finish::Stop))), "{wire:?}");
        assert_eq!(stream.next().await, None);
    }
}

#[tokio::test]
async fn a_connection_is_used_again() {
    for wire in ProviderWire::ALL {
        let upstream = Upstream::start().await;
        upstream.program(|_| Reply::says("Hi."));
        let client = client(wire, &upstream, PATIENT);
        for _ in 0..5 {
            let (pieces, error) = ask(&*client).await;
            assert_eq!((pieces.first(), error), (Some(&said("Hi.")), None), "{wire:?}");
        }
        assert_eq!((upstream.requests().len(), upstream.connections()), (5, 1), "{wire:?}");
    }
}

fn varied() -> Reply {
    let calls =
        Reply::stream().reasoning("Hm.").text("Hi").call(ScriptedCall::new("a", r#"{"x":1}"#).id("one"));
    calls.call(ScriptedCall::new("b", r#"{"y":2}"#).id("two")).usage(3, 2)
}

fn varied_pieces() -> Vec<AnswerPiece> {
    vec![
        AnswerPiece::Reasoning("Hm.".into()),
        said("Hi"),
        start(0, Some("one"), "a"),
        input(0, r#"{"x":1}"#),
        start(1, Some("two"), "b"),
        input(1, r#"{"y":2}"#),
        usage(3, 2),
        AnswerPiece::Finish(Finish::ToolCalls),
    ]
}

#[tokio::test]
async fn an_answer_that_was_not_to_be_streamed() {
    for wire in ProviderWire::ALL {
        let upstream = Upstream::start().await;
        upstream.script([varied()]);
        let request = ModelRequest { stream: false, ..hello() };
        let (pieces, error) = ask_for(&*client(wire, &upstream, PATIENT), &request).await;
        assert_eq!(upstream.requests()[0].body["stream"], json!(false), "{wire:?}");
        assert_eq!((readable(pieces), error), (varied_pieces(), None), "{wire:?}");
    }
}

#[tokio::test]
async fn json_instead_of_a_stream() {
    for wire in ProviderWire::ALL {
        let body = serde_json::from_str(&body_of(wire, varied(), false).await).unwrap();
        let (pieces, error) = answer_to(wire, Reply::json(&body), PATIENT).await;
        assert_eq!((readable(pieces), error), (varied_pieces(), None), "{wire:?}");
    }
}

#[tokio::test]
async fn what_is_filtered_is_said_to_be() {
    for wire in ProviderWire::ALL.into_iter().filter(|wire| *wire != ProviderWire::Ollama) {
        let reply = Reply::says("I").finish("content_filter").without_usage();
        let expected = vec![said("I"), AnswerPiece::Finish(Finish::ContentFilter)];
        assert_eq!(answer_to(wire, reply, PATIENT).await, (expected, None), "{wire:?}");
    }
}

#[tokio::test]
async fn usage_that_is_missing_or_cannot_be_true_is_left_out() {
    for wire in ProviderWire::ALL {
        let expected = (vec![said("x"), AnswerPiece::Finish(Finish::Stop)], None);
        let reply = Reply::says("x").without_usage();
        assert_eq!(answer_to(wire, reply, PATIENT).await, expected, "{wire:?}");
        let (sent, answered) = match wire {
            ProviderWire::Chat => ("\"prompt_tokens\":", "\"completion_tokens\":"),
            ProviderWire::Responses | ProviderWire::Anthropic(_) => {
                ("\"input_tokens\":", "\"output_tokens\":")
            }
            ProviderWire::Ollama => ("\"prompt_eval_count\":", "\"eval_count\":"),
        };
        let body = body_of(wire, Reply::says("x").usage(77, 88), true).await;
        for (name, right) in [(sent, 77), (answered, 88)] {
            for wrong in ["-7", "18446744073709551615", "null", "1.5", "\"7\""] {
                let body = body.replace(&format!("{name}{right}"), &format!("{name}{wrong}"));
                assert!(body.contains(&format!("{name}{wrong}")));
                let answer = answer_to(wire, stream_of(wire, body), PATIENT).await;
                assert_eq!(answer, expected, "{wire:?}: {name}{wrong}");
            }
        }
    }
}

//! Texts of small models, and the calls that are found in them.

use futures_util::stream;
use protocol::Usage;
use serde_json::json;

use super::*;
use crate::PromptMessage;

fn tools() -> Arc<[ToolSpec]> {
    let tool = |name: &str| ToolSpec {
        name: name.into(),
        description: String::new(),
        parameters: json!({"type": "object"}),
    };
    [tool("search"), tool("now")].into()
}

/// Returns what an answer in these parts comes to: its words, its calls, and how it ended.
fn found(parts: &[&str], finish: Finish) -> (String, Vec<(String, String)>, Finish) {
    let mut finder = Finder::new(tools());
    let mut pieces: Vec<AnswerPiece> =
        parts.iter().flat_map(|part| finder.take(AnswerPiece::Text((*part).to_owned()))).collect();
    pieces.extend(finder.take(AnswerPiece::Finish(finish)));
    sorted(pieces)
}

fn sorted(pieces: Vec<AnswerPiece>) -> (String, Vec<(String, String)>, Finish) {
    let (mut text, mut calls, mut finish) = (String::new(), Vec::new(), None);
    for piece in pieces {
        assert_eq!(finish, None, "nothing follows the end");
        match piece {
            AnswerPiece::Text(part) => text.push_str(&part),
            AnswerPiece::CallStart { index, provider_id: None, name } => {
                assert_eq!(index, calls.len());
                calls.push((name, String::new()));
            }
            AnswerPiece::CallInput { index, json } => calls[index].1.push_str(&json),
            AnswerPiece::Finish(reason) => finish = Some(reason),
            AnswerPiece::CallStart { .. }
            | AnswerPiece::Reasoning(_)
            | AnswerPiece::CallsVoid
            | AnswerPiece::Model(_)
            | AnswerPiece::Usage(_)
            | AnswerPiece::Provider(_) => panic!("{piece:?}"),
        }
    }
    (text, calls, finish.unwrap())
}

fn one_search() -> Vec<(String, String)> {
    vec![("search".into(), r#"{"query":"Oslo"}"#.into())]
}

const SEARCH: &str = r#"{"name": "search", "arguments": {"query": "Oslo"}}"#;

#[test]
fn every_way_of_writing_a_call_is_one_wherever_it_is_split() {
    let quoted = r#"{"name": "search", "arguments": "{\"query\": \"Oslo\"}"}"#;
    let texts = [
        (SEARCH.to_owned(), ""),
        (format!("\n  {SEARCH}\n"), ""),
        (format!("[{SEARCH}]"), ""),
        (SEARCH.replace("arguments", "parameters"), ""),
        (quoted.to_owned(), ""),
        (format!("{{\"function\": {quoted}}}"), ""),
        (format!("{{\"type\": \"function\", \"function\": {SEARCH}}}"), ""),
        (format!("{{\"tool_calls\": [{{\"id\": \"x\", \"function\": {quoted}}}]}}"), ""),
        (format!("```json\n{SEARCH}\n```"), ""),
        (format!("```\n[{SEARCH}]\n```\n"), ""),
        (format!("```{SEARCH}```"), ""),
        (format!("```tool_calls {SEARCH}"), ""),
        (format!("<tool_call>\n{SEARCH}\n</tool_call>"), ""),
        (format!("<tool_call>{SEARCH}</tool_"), ""),
        (format!("I look. `é` ``<< <tool ```x\n```json\n{SEARCH}\n```"), "I look. `é` ``<< <tool ```x\n"),
        (format!("Wait.\n<tool_call>{SEARCH}</tool_call>\n"), "Wait.\n"),
    ];
    for (text, words) in texts {
        let expected = (words.to_owned(), one_search(), Finish::ToolCalls);
        assert_eq!(found(&[&text], Finish::Stop), expected, "{text:?}");
        for (cut, _) in text.char_indices() {
            let (one, other) = text.split_at(cut);
            assert_eq!(found(&[one, other], Finish::Stop), expected, "{text:?} cut at {cut}");
        }
        let characters: Vec<String> = text.chars().map(String::from).collect();
        let characters: Vec<&str> = characters.iter().map(String::as_str).collect();
        assert_eq!(found(&characters, Finish::ToolCalls), expected, "{text:?} by character");
    }
}

#[test]
fn several_calls_keep_their_order() {
    let now = r#"{"name": "now", "arguments": {}}"#;
    let expected = [one_search(), vec![("now".into(), "{}".into())]].concat();
    for text in [
        format!("[{SEARCH}, {now}]"),
        format!("{SEARCH}\n{now}"),
        format!("{{\"tool_calls\": [{SEARCH}, {now}]}}"),
        format!("<tool_call>{SEARCH}</tool_call>\n<tool_call>{now}</tool_call>"),
        format!("<tool_call>{SEARCH}\n{now}</tool_call>"),
        format!("```json\n{SEARCH}\n{now}\n```"),
        format!("```json\n{SEARCH}\n```\n\n```json\n{now}\n```"),
    ] {
        assert_eq!(
            found(&[&text], Finish::Stop),
            (String::new(), expected.clone(), Finish::ToolCalls),
            "{text}"
        );
    }
}

#[test]
fn everything_else_stays_the_text_it_was() {
    let other = SEARCH.replace("search", "delete_everything");
    for text in [
        String::new(),
        " \n".into(),
        "Hello.".into(),
        "{".into(),
        "[1] is a footnote, [2](another)".into(),
        r#"{"name": "search"}"#.into(),
        r#"{"name": "search", "arguments": 7}"#.into(),
        r#"{"name": "search", "arguments": "Oslo"}"#.into(),
        r#"{"name": ["search"], "arguments": {}}"#.into(),
        r#"{"function": "search", "arguments": {}}"#.into(),
        r#"{"tool_calls": []}"#.into(),
        r#"{"tool_calls": {}, "name": "search", "arguments": {}} no"#.into(),
        "[]".into(),
        other.clone(),
        format!("[{SEARCH}, {other}]"),
        format!("{SEARCH} is how a call is written."),
        format!("A call is written {SEARCH}"),
        format!("A call is written [{SEARCH}]"),
        format!("```json\n{SEARCH}\n```\nThat is how a call is written."),
        format!("```python\n{SEARCH}\n```"),
        format!("```jsonx\n{SEARCH}\n```"),
        format!("```js\n{SEARCH}\n```"),
        format!("````json\n{SEARCH}\n````"),
        format!("<tool_call>the call: {SEARCH}</tool_call>"),
        format!("<tool_call>{SEARCH}</tool_call> and then words"),
        format!("<tool_call>{SEARCH}</tool_call><tool_call>{{\"name\": \"now\","),
        format!("<tool_calls>{SEARCH}</tool_calls>"),
        format!("{}]", SEARCH.trim_end_matches('}')),
        "```json\n{\"a\": \"}\\\"\\\\\"}\n``` `` <tool".into(),
        "é🎵 <tool_call> ```".into(),
    ] {
        for finish in [Finish::Stop, Finish::Length] {
            let expected = (text.clone(), Vec::new(), finish);
            assert_eq!(found(&[&text], finish), expected, "{text:?}");
            for (cut, _) in text.char_indices() {
                let (one, other) = text.split_at(cut);
                assert_eq!(found(&[one, other], finish), expected, "{text:?} cut at {cut}");
            }
        }
    }
}

#[test]
fn an_answer_that_was_cut_or_filtered_is_no_call() {
    for finish in [Finish::Length, Finish::ContentFilter] {
        assert_eq!(found(&[SEARCH], finish), (SEARCH.to_owned(), Vec::new(), finish));
    }
}

#[test]
fn words_are_handed_out_as_they_come() {
    let mut finder = Finder::new(tools());
    let mut said = |text: &str| match finder.take(AnswerPiece::Text(text.into())).as_slice() {
        [] => String::new(),
        [AnswerPiece::Text(text)] => text.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(said(" "), "");
    assert_eq!(said("Hello {"), " Hello {");
    assert_eq!(said("\"a\"} `"), "\"a\"} ");
    assert_eq!(said("x` ``"), "`x` ");
    assert_eq!(said("`py"), "```py", "no call is written in Python");
    assert_eq!(said("\n<tool_call"), "\n");
    assert_eq!(said(">"), "");
    assert_eq!(said("\n"), "");
    assert_eq!(said("s"), "<tool_call>\ns");
    assert_eq!(said("\n```json\n{\"a\""), "\n");
    assert_eq!(said(": 1"), "");
    assert_eq!(said("}!"), "```json\n{\"a\": 1}!", "as soon as the JSON ends, it is known to be no call");
}

#[test]
fn what_is_held_is_bounded() {
    let long = |padding: usize| {
        format!(r#"{{"name": "search", "arguments": {{"query": "{}"}}}}"#, "x".repeat(padding))
    };
    let frame = long(0).len();
    let fits = long(MAX_HELD_BYTES - frame);
    assert_eq!(fits.len(), MAX_HELD_BYTES);
    assert_eq!(found(&[&fits], Finish::Stop).1.len(), 1);
    let over = long(MAX_HELD_BYTES - frame + 1);
    assert_eq!(found(&[&over], Finish::Stop), (over.clone(), Vec::new(), Finish::Stop));
    let mut finder = Finder::new(tools());
    let begun = format!("{{{}", " ".repeat(MAX_HELD_BYTES));
    assert_eq!(finder.take(AnswerPiece::Text(begun.clone())), [AnswerPiece::Text(begun)]);
}

/// A model that says what it was told to.
struct Scripted(Vec<Result<AnswerPiece, Error>>);

impl ChatModel for Scripted {
    fn stream<'a>(&'a self, _: &'a ModelRequest) -> BoxFuture<'a, Result<PieceStream, Error>> {
        async { Ok(stream::iter(self.0.clone()).boxed()) }.boxed()
    }
}

async fn answer(
    script: Vec<Result<AnswerPiece, Error>>,
    tools: Arc<[ToolSpec]>,
) -> Vec<Result<AnswerPiece, Error>> {
    let request =
        ModelRequest { tools, ..ModelRequest::new("m", "", vec![PromptMessage::User("hello".into())]) };
    Rescued(Arc::new(Scripted(script))).stream(&request).await.unwrap().collect().await
}

fn said(text: &str) -> Result<AnswerPiece, Error> {
    Ok(AnswerPiece::Text(text.into()))
}

#[tokio::test]
async fn a_stream_with_calls_in_its_text_ends_with_calls() {
    let usage = Ok(AnswerPiece::Usage(Usage::default()));
    let (one, other) = SEARCH.split_at(20);
    let script = vec![said(one), said(other), usage.clone(), Ok(AnswerPiece::Finish(Finish::Stop))];
    let expected = vec![
        usage,
        Ok(AnswerPiece::CallStart { index: 0, provider_id: None, name: "search".into() }),
        Ok(AnswerPiece::CallInput { index: 0, json: r#"{"query":"Oslo"}"#.into() }),
        Ok(AnswerPiece::Finish(Finish::ToolCalls)),
    ];
    assert_eq!(answer(script.clone(), tools()).await, expected);
    assert_eq!(answer(script.clone(), Arc::default()).await, script, "nothing was on offer");
}

#[tokio::test]
async fn a_model_that_makes_calls_properly_is_left_alone() {
    let start = Ok(AnswerPiece::CallStart { index: 0, provider_id: Some("c".into()), name: "now".into() });
    let input = Ok(AnswerPiece::CallInput { index: 0, json: "{}".into() });
    let end = Ok(AnswerPiece::Finish(Finish::ToolCalls));
    let script = vec![said(SEARCH), start, input, said(SEARCH), end];
    assert_eq!(answer(script.clone(), tools()).await, script);
}

#[tokio::test]
async fn text_is_not_lost_when_the_stream_breaks() {
    let failure = Err(Error::Broken("cut".into()));
    let script = vec![said("{\"name\""), failure];
    assert_eq!(answer(script.clone(), tools()).await, script);
    let script = vec![said("```")];
    assert_eq!(
        answer(script.clone(), tools()).await,
        script,
        "an end without a finish is for others to judge"
    );
}

//! The built example, as it lies in its app's folder, with the limits it has there.

use std::path::Path;

use app::ToolKind;

use super::*;

const APP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/wasm-tool/app");

fn readability() -> WasmTool {
    let app = app::load(Path::new(APP)).unwrap();
    let ToolKind::Sandbox(tool) = &app.declared[0].kind else { panic!("it is no sandboxed tool") };
    let tool = SandboxTool { timeout: LONG, ..tool.clone() };
    WasmTool::new(&tool).unwrap()
}

#[tokio::test]
async fn a_text_is_measured() {
    let text = "The cat sat on the mat. It was happy!";
    let measured = ask(&readability(), json!({ "text": text })).await.unwrap();
    let expected = json!({
        "words": 9,
        "sentences": 2,
        "syllables": 10,
        "letters": 27,
        "longestSentenceWords": 6,
        "wordsPerSentence": 4.5,
        "readingEase": 108.3,
        "grade": -0.7,
        "readingMinutes": 0.0,
    });
    assert_eq!(measured, expected);
}

#[tokio::test]
async fn words_sentences_and_syllables_are_told_apart() {
    let tool = readability();
    for (text, words, sentences, syllables) in [
        ("Don't pay 3.14, or 1,000. Really?!", 6, 2, 7),
        ("“Yes.” she said… and left", 5, 3, 5),
        ("A heading\n\nA text\r\n\r\nAn end", 6, 3, 7),
        ("one\ttwo\nthree", 3, 1, 3),
        ("table cake free the café", 5, 1, 7),
        ("Übergröße, naïve; ÉTÉ", 3, 1, 6),
        ("Привет, мир. Как дела?", 4, 2, 4),
        ("say \"no\" \\ and/or 🎓🎓 yes", 5, 1, 5),
        ("\u{0}a\u{1f}b\u{7f}", 2, 1, 2),
    ] {
        let measured = ask(&tool, json!({ "text": text })).await.unwrap();
        let counts = ["words", "sentences", "syllables"].map(|name| measured[name].as_u64().unwrap());
        assert_eq!(counts, [words, sentences, syllables], "{text}");
    }
}

#[tokio::test]
async fn the_text_is_found_wherever_it_stands() {
    let tool = readability();
    let nested =
        json!({ "other": { "text": "no no no" }, "list": ["text", "{"], "text": "one two", "last": "text" });
    assert_eq!(ask(&tool, nested).await.unwrap()["words"], json!(2));
    for (input, error) in [
        (json!({}), "there is no text"),
        (json!({ "text": 7 }), "there is no text"),
        (json!({ "inner": { "text": "words" } }), "there is no text"),
        (json!({ "text": "" }), "the text has no words"),
        (json!({ "text": "… 🎓 !" }), "the text has no words"),
    ] {
        assert_eq!(ask(&tool, input).await, Err(Failed::new("tool_error", error)));
    }
}

#[tokio::test]
async fn a_long_text_is_within_its_limits() {
    let text = "The quick brown fox jumps over the lazy dog. ".repeat(2_300);
    let measured = ask(&readability(), json!({ "text": text })).await.unwrap();
    assert_eq!((&measured["words"], &measured["sentences"]), (&json!(20_700), &json!(2_300)));
}

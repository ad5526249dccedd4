//! Whole texts in pieces of every size, and what is on the screen meanwhile.

use super::*;

const PLAIN: Look = Look { colours: false, columns: 40 };
const COLOURED: Look = Look { colours: true, columns: 40 };

fn shown(look: Look, text: &str) -> String {
    let mut stream = MarkdownStream::new(look);
    let out = stream.feed(text) + &stream.finish();
    assert!(stream.is_at_line_start());
    // However the text is cut, the same is shown.
    for size in 1..8 {
        let mut stream = MarkdownStream::new(look);
        let chars: Vec<char> = text.chars().collect();
        let pieces: String =
            chars.chunks(size).map(|piece| stream.feed(&piece.iter().collect::<String>())).collect();
        assert_eq!(pieces + &stream.finish(), out, "in pieces of {size}");
    }
    out
}

#[test]
fn marks_become_styles() {
    for (text, expected) in [
        ("**bold** and *soft*.", "\u{1b}[1mbold\u{1b}[0m and \u{1b}[3msoft\u{1b}[0m.\n"),
        ("# Title\n", "\u{1b}[1mTitle\u{1b}[0m\n"),
        ("Run `a  b`, ~~not~~", "Run \u{1b}[36ma\u{1b}[0m  \u{1b}[36mb\u{1b}[0m, \u{1b}[9mnot\u{1b}[0m\n"),
        ("[docs](https://a.example/x)!", "\u{1b}[4mdocs\u{1b}[0m \u{1b}[2m(https://a.example/x)\u{1b}[0m!\n"),
        ("<https://a.example>", "\u{1b}[4mhttps://a.example\u{1b}[0m\n"),
        ("snake_case_name and 2 * 3 * 4", "snake_case_name and 2 * 3 * 4\n"),
        ("a *never closed", "a *never closed\n"),
    ] {
        assert_eq!(shown(COLOURED, text), expected, "{text}");
    }
}

#[test]
fn without_colours_the_marks_stay() {
    let text = "## Title\n**bold** `code` *soft* [docs](https://a.example)\n";
    assert_eq!(shown(PLAIN, text), "## Title\n**bold** `code` *soft* docs\n(https://a.example)\n");
}

#[test]
fn blocks_are_laid_out() {
    let text =
        "Intro:\n\n- one\n  - two\n10) ten\n> said\n>> twice\n---\n```rust\nlet **x** = 1;\n\n  y\n```\nend";
    let rule = "─".repeat(40);
    let expected = format!(
        "Intro:\n\n• one\n  • two\n10. ten\n│ said\n│ │ twice\n{rule}\n  rust\n  let **x** = 1;\n  \n    y\nend\n"
    );
    assert_eq!(shown(PLAIN, text), expected);
}

#[test]
fn long_lines_are_broken_between_words() {
    let text = "- one two three four five six seven eight nine ten\n";
    assert_eq!(shown(PLAIN, text), "• one two three four five six seven\n  eight nine ten\n");
    let wide = "漢".repeat(25);
    let lines = format!("{}\n{}\n", "漢".repeat(20), "漢".repeat(5));
    assert_eq!(shown(PLAIN, &wide), lines);
}

#[test]
fn tables_have_columns() {
    let text = "| name | n |\n|:--|--:|\n| `a\\|b` | 1 |\n| long words | 22 |\nafter\n";
    let expected = "name       │  n\n───────────┼───\n`a|b`      │  1\nlong words │ 22\nafter\n";
    assert_eq!(shown(PLAIN, text), expected);
    assert_eq!(shown(PLAIN, "| no table |\n| at all |\n"), "| no table |\n| at all |\n");
    let narrow = Look { colours: false, columns: 11 };
    let expected = "a       │ b\n────────┼──\none two │ x\nthree   │\n";
    assert_eq!(shown(narrow, "|a|b|\n|-|-|\n|one two three|x|\n"), expected);
}

/// A parser of Markdown decodes entities: a text must not get a control character by them.
#[test]
fn no_entity_commands_the_terminal() {
    assert_eq!(shown(PLAIN, "a&#27;[2Jb &amp; [x](&#27;y)\n"), "a[2Jb & x (y)\n");
}

#[test]
fn words_appear_when_nothing_can_change_them() {
    let mut stream = MarkdownStream::new(COLOURED);
    assert_eq!(stream.feed("I will nev"), "I will");
    assert!(!stream.is_at_line_start());
    assert_eq!(stream.feed("er **stop"), " never");
    assert_eq!(stream.feed(" this** n"), " \u{1b}[1mstop\u{1b}[0m \u{1b}[1mthis\u{1b}[0m");
    assert_eq!(stream.feed("ow.\n| a |\n"), " now.\n");
    assert!(stream.is_at_line_start());
    assert_eq!(stream.finish(), "| a |\n");
}

//! Promises of chunks: all of the text in order, bounded, under the right heading, and never inside a word.

use proptest::prelude::*;

use super::*;

/// Checks what must hold for the chunks of any document.
pub(super) fn hold(extracted: &ExtractedDocument) {
    let text = full_text(extracted);
    let chunks = chunks(extracted);
    let mut end = 0;
    for chunk in &chunks {
        assert!(chunk.from >= end && chunk.from < chunk.to);
        assert!(chunk.text.len() <= MAX_CHUNK_BYTES && !chunk.place.is_empty());
        assert_eq!(text.get(chunk.from..chunk.to), Some(chunk.text.as_str()));
        assert_eq!(text[end..chunk.from].trim(), "");
        end = chunk.to;
    }
    assert_eq!(text[end..].trim(), "");
}

fn block(kind: BlockKind, headings: &[&str], text: &str) -> DocumentBlock {
    let headings = headings.iter().map(ToString::to_string).collect();
    DocumentBlock { kind, text: text.to_owned(), headings, page: None }
}

fn of(blocks: Vec<DocumentBlock>) -> ExtractedDocument {
    ExtractedDocument { blocks, ..ExtractedDocument::default() }
}

fn sentences(count: usize) -> String {
    (0..count)
        .map(|number| format!("Sentence number {number} says this. "))
        .collect::<String>()
        .trim_end()
        .to_owned()
}

#[test]
fn a_long_paragraph_is_cut_between_sentences_into_pieces_of_about_the_target() {
    let extracted = of(vec![block(BlockKind::Paragraph, &[], &sentences(100))]);
    hold(&extracted);
    let chunks = chunks(&extracted);
    assert_eq!(chunks.len(), 4);
    for (index, chunk) in chunks.iter().enumerate() {
        assert!(chunk.text.starts_with("Sentence number") && chunk.text.ends_with("says this."));
        assert_eq!(chunk.place, format!("part {}", index + 1));
    }
    assert!(chunks[..3].iter().all(|chunk| chunk.text.len() > TARGET_CHUNK_BYTES - 40));
}

#[test]
fn a_heading_goes_with_what_it_is_above_and_never_stands_at_an_end() {
    let extracted = of(vec![
        block(BlockKind::Paragraph, &[], &sentences(20)),
        block(BlockKind::Heading, &[], "Setup"),
        block(BlockKind::Heading, &["Setup"], "Linux"),
        block(BlockKind::Paragraph, &["Setup", "Linux"], "Unpack it."),
        block(BlockKind::Heading, &["Setup"], "Last"),
    ]);
    hold(&extracted);
    let found = places(&extracted);
    assert_eq!(found[1], ("Setup > Linux".to_owned(), "Setup\n\nLinux\n\nUnpack it.\n\nLast".to_owned()));
    assert_eq!(found.len(), 2);
    let only = of(vec![block(BlockKind::Heading, &[], "Alone")]);
    assert_eq!(places(&only), [("Alone".to_owned(), "Alone".to_owned())]);
}

#[test]
fn small_neighbours_are_joined_under_one_heading_but_not_across_headings_or_pages() {
    let mut blocks = vec![
        block(BlockKind::Paragraph, &["A"], "one"),
        block(BlockKind::Paragraph, &["A"], "two"),
        block(BlockKind::Paragraph, &["B"], "three"),
        block(BlockKind::Paragraph, &["B"], "four"),
    ];
    assert_eq!(chunks(&of(blocks.clone())).len(), 2);
    blocks[3].page = Some(7);
    let found: Vec<_> =
        chunks(&of(blocks)).into_iter().map(|chunk| (chunk.place, chunk.page, chunk.text)).collect();
    assert_eq!(
        found,
        [
            ("A".to_owned(), None, "one\n\ntwo".to_owned()),
            ("B".to_owned(), None, "three".to_owned()),
            ("page 7, B".to_owned(), Some(7), "four".to_owned()),
        ]
    );
}

#[test]
fn tables_and_lists_are_cut_between_their_lines() {
    let rows: Vec<String> = (0..100).map(|row| format!("row {row}. With a stop | and a cell")).collect();
    let extracted = of(vec![block(BlockKind::Table, &[], &rows.join("\n"))]);
    hold(&extracted);
    let chunks = chunks(&extracted);
    assert!(chunks.len() > 3);
    assert!(chunks.iter().all(|chunk| chunk.text.starts_with("row ") && chunk.text.ends_with("a cell")));
}

#[test]
fn a_line_without_blanks_is_cut_between_characters_and_nothing_is_lost() {
    for line in ["x".repeat(100_000), "日".repeat(50_000), "é".repeat(TARGET_CHUNK_BYTES)] {
        let extracted = extract(DocumentKind::Text, line.as_bytes()).unwrap();
        hold(&extracted);
        assert_eq!(chunks(&extracted).into_iter().map(|chunk| chunk.text).collect::<String>(), line);
    }
}

#[test]
fn a_place_is_never_long() {
    let long = "h".repeat(300);
    let extracted = of(vec![block(BlockKind::Paragraph, &[&long, &long], "text")]);
    let place = &chunks(&extracted)[0].place;
    assert!(place.len() <= 200 && place.ends_with('…'));
}

fn any_block() -> impl Strategy<Value = DocumentBlock> {
    let kind = proptest::sample::select(vec![
        BlockKind::Heading,
        BlockKind::Paragraph,
        BlockKind::List,
        BlockKind::Table,
        BlockKind::Code,
    ]);
    let text = prop_oneof![
        "[a-z]{1,9}( [a-z]{1,9}[.!?]?){0,300}",
        "([a-z .]{0,60}[a-z]\n){1,40}[a-z]",
        "[日é🙂]{1,900}",
        "[a-z]{1,20}",
        "[!-~]{1,3000}",
    ];
    let headings =
        proptest::collection::vec(proptest::sample::select(vec!["A".to_owned(), "B".to_owned()]), 0..3);
    (kind, text, headings, proptest::option::of(1..3_u32))
        .prop_map(|(kind, text, headings, page)| DocumentBlock { kind, text, headings, page })
}

proptest! {
    #[test]
    fn chunks_hold_all_text_in_order_and_keep_words_whole(blocks in proptest::collection::vec(any_block(), 0..12)) {
        let extracted = of(blocks);
        hold(&extracted);
        let text = full_text(&extracted);
        let words = text.split_whitespace().filter(|word| word.len() <= 40);
        let pieces = chunks(&extracted);
        let mut found = pieces.iter().flat_map(|chunk| chunk.text.split_whitespace());
        for word in words {
            prop_assert!(found.any(|other| other == word));
        }
    }
}

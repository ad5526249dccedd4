//! Files that come back as they went out, files from elsewhere, and files that are refused with the place.

use proptest::prelude::*;

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn now() -> Timestamp {
    at("2026-02-03T14:05:06Z")
}

fn memory(text: &str, kind: &str) -> ExportedMemory {
    ExportedMemory { text: text.into(), kind: kind.into(), created_at: now(), valid_from: None, source: None }
}

fn samples() -> Vec<ExportedMemory> {
    vec![
        memory("Has a cat called Miso", "pet"),
        ExportedMemory {
            created_at: at("2024-02-29T23:59:59.123456789Z"),
            valid_from: Some(at("2024-01-01T00:00:00Z")),
            source: Some("user".into()),
            ..memory("Knows — by heart —\n  a poem:\n\n- roses\n# are red", "fact")
        },
    ]
}

#[test]
fn the_forms_look_like_this() {
    insta::assert_snapshot!("json", write(&samples(), ExchangeFormat::Json));
    insta::assert_snapshot!("markdown", write(&samples(), ExchangeFormat::Markdown));
    insta::assert_snapshot!("mem0", write(&samples(), ExchangeFormat::Mem0));
    for format in [ExchangeFormat::Json, ExchangeFormat::Markdown] {
        assert_eq!(read(&write(&samples(), format), at("2020-01-01T00:00:00Z")), Ok(samples()));
        assert_eq!(read(&write(&[], format), now()), Ok(vec![]));
    }
}

#[test]
fn a_list_written_by_hand_is_read() {
    let text = "\u{feff}# About me\r\n\r\n- likes tea\r\n* Ann — my sister\r\n\n## More\n+ lives in Oslo — place, 2025-01-01\n\n- two\n  lines\n\n  and a third\n";
    let expected = [
        memory("likes tea", "fact"),
        memory("Ann — my sister", "fact"),
        ExportedMemory { created_at: at("2025-01-01T00:00:00Z"), ..memory("lives in Oslo", "place") },
        memory("two\nlines\n\nand a third", "fact"),
    ];
    assert_eq!(read(text, now()), Ok(expected.to_vec()));
}

#[test]
fn exports_of_mem0_are_read_in_every_shape() {
    let items = r#"[
        {"id": "1", "memory": "Likes tea", "user_id": "ann", "hash": "x", "metadata": null, "categories": ["Food Preferences"],
         "created_at": "2024-07-01T12:00:00.5-07:00", "updated_at": null},
        {"id": "2", "memory": "Has a cat", "metadata": {"kind": "pet"}, "created_at": "2024-07-01T12:00:00"},
        {"id": "3", "content": "Lives in Oslo", "created_at": "None"},
        {"id": "4", "memory": "  "},
        {"id": "5", "memory": null}
    ]"#;
    let from = |text, kind, created_at: &str| ExportedMemory {
        created_at: at(created_at),
        source: Some("mem0".into()),
        ..memory(text, kind)
    };
    let expected = vec![
        from("Likes tea", "food_preferences", "2024-07-01T19:00:00.5Z"),
        from("Has a cat", "pet", "2024-07-01T12:00:00Z"),
        from("Lives in Oslo", "fact", "2026-02-03T14:05:06Z"),
    ];
    let page = format!("{{\"count\": 3, \"next\": null, \"results\": {items}}}");
    for file in [items.to_owned(), page, format!("{{\"memories\": {items}}}")] {
        assert_eq!(read(&file, now()).as_ref(), Ok(&expected), "{file}");
    }
}

#[test]
fn what_is_wrong_is_refused_with_its_place() {
    let own = |memories: &str| {
        format!("{{\"format\": \"rondo.memories\", \"version\": 1, \"memories\": {memories}}}")
    };
    let field = |index, field, problem| ReadError::Field { index, field, problem };
    let long = "x".repeat(MAX_MEMORY_BYTES + 1);
    for (file, expected) in [
        (String::new(), ReadError::Empty),
        (" \n".into(), ReadError::Empty),
        ("{\n  \"format\": }".into(), ReadError::NotJson { line: 2, column: 13 }),
        ("[".into(), ReadError::NotJson { line: 1, column: 1 }),
        ("{}".into(), ReadError::UnknownFormat),
        ("{\"format\": \"other\", \"results\": []}".into(), ReadError::UnknownFormat),
        ("{\"results\": 1}".into(), ReadError::UnknownFormat),
        (own("{}"), ReadError::UnknownFormat),
        (own("[]").replace(": 1", ": 2"), ReadError::UnknownVersion { version: "2".into() }),
        ("{\"format\": \"rondo.memories\"}".into(), ReadError::UnknownVersion { version: "null".into() }),
        (own("[{\"text\": \"a\"}, {}]"), field(1, "text", ImportProblem::Missing)),
        (own("[7]"), field(0, "text", ImportProblem::Missing)),
        (own("[{\"text\": 1}]"), field(0, "text", ImportProblem::WrongType)),
        (own("[{\"text\": \" \"}]"), field(0, "text", ImportProblem::Empty)),
        (own(&format!("[{{\"text\": \"{long}\"}}]")), field(0, "text", ImportProblem::TooLong)),
        (own("[{\"text\": \"a\", \"kind\": \"two words\"}]"), field(0, "kind", ImportProblem::NotAWord)),
        (own("[{\"text\": \"a\", \"createdAt\": \"soon\"}]"), field(0, "createdAt", ImportProblem::NotADate)),
        (own("[{\"text\": \"a\", \"validFrom\": 1}]"), field(0, "validFrom", ImportProblem::WrongType)),
        ("[{\"memory\": \"a\"}, 7]".into(), field(1, "memory", ImportProblem::Missing)),
        ("[{\"memory\": {}}]".into(), field(0, "memory", ImportProblem::WrongType)),
        (
            "[{\"memory\": \"a\", \"created_at\": \"x\"}]".into(),
            field(0, "created_at", ImportProblem::NotADate),
        ),
        (format!("[{{\"content\": \"{long}\"}}]"), field(0, "content", ImportProblem::TooLong)),
        ("likes tea".into(), ReadError::Line { line: 1, problem: ImportProblem::NotAnItem }),
        ("# Me\n\n- a\nand b".into(), ReadError::Line { line: 4, problem: ImportProblem::NotAnItem }),
        ("- a\n-\n".into(), ReadError::Line { line: 2, problem: ImportProblem::Empty }),
        (format!("- a\n\n- {long}"), ReadError::Line { line: 3, problem: ImportProblem::TooLong }),
    ] {
        assert_eq!(read(&file, now()), Err(expected), "{}", file.get(..80).unwrap_or(&file));
    }
}

#[test]
fn files_are_bounded() {
    assert_eq!(
        read(&" ".repeat(MAX_FILE_BYTES + 1), now()),
        Err(ReadError::TooLarge { bytes: MAX_FILE_BYTES + 1 })
    );
    let many = vec![memory("x", "fact"); MAX_MEMORIES];
    let more = vec![memory("x", "fact"); MAX_MEMORIES + 1];
    for format in [ExchangeFormat::Json, ExchangeFormat::Markdown, ExchangeFormat::Mem0] {
        assert_eq!(read(&write(&many, format), now()).map(|memories| memories.len()), Ok(MAX_MEMORIES));
        assert_eq!(read(&write(&more, format), now()), Err(ReadError::TooMany));
    }
}

fn portable() -> impl Strategy<Value = ExportedMemory> {
    let text = prop_oneof![
        any::<String>(),
        "([ab]|—| |, |fact|2026-02-03|\n|- |# |from ){1,12}",
        "x( |\n){1,3}y",
        Just("x — fact, 2026-02-03T14:05:06Z".to_owned()),
    ]
    .prop_filter_map("no text", |text| clean_text(&text).ok());
    let moment = (-62_135_596_800_i64..253_402_207_200, 0_i32..1_000_000_000)
        .prop_filter_map("no moment", |(second, nano)| Timestamp::new(second, nano).ok());
    let source =
        proptest::option::of(any::<String>()).prop_map(|source| source.as_deref().and_then(clean_source));
    (text, "[a-z0-9_-]{1,32}", moment.clone(), proptest::option::of(moment), source).prop_map(
        |(text, kind, created_at, valid_from, source)| ExportedMemory {
            text,
            kind,
            created_at,
            valid_from,
            source,
        },
    )
}

proptest! {
    #[test]
    fn what_goes_out_comes_back(memories in proptest::collection::vec(portable(), 0..6)) {
        prop_assert_eq!(read(&write(&memories, ExchangeFormat::Json), now()), Ok(memories.clone()));
        prop_assert_eq!(read(&write(&memories, ExchangeFormat::Markdown), now()), Ok(memories.clone()));
        let same = |memory: &ExportedMemory| (memory.text.clone(), memory.kind.clone(), memory.created_at);
        let through = read(&write(&memories, ExchangeFormat::Mem0), now()).unwrap();
        prop_assert!(through.iter().map(same).eq(memories.iter().map(same)));
    }

    #[test]
    fn any_file_is_read_or_refused(file in any::<String>(), list in "[-*+ #\n—a,{}\\[\\]\"]{0,40}") {
        for file in [file, list] {
            if let Ok(memories) = read(&file, now()) {
                prop_assert!(memories.iter().all(|memory| !memory.text.trim().is_empty() && is_kind(&memory.kind)));
            }
        }
    }
}

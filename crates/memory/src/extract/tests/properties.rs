//! Properties that hold for any answer of a model, however it is put.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::extract::duplicates::key;
use crate::secrets;

const SAYINGS: &[&str] = &[
    "I live in Oslo",
    "my cat is called Miso",
    "I don’t like   tea",
    "We have 2 kids",
    "forget the cat",
    "[forgotten] in Rome",
];

fn saying() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => proptest::sample::select(SAYINGS).prop_map(str::to_owned),
        1 => "[a-cI ]{0,8}",
        1 => any::<String>(),
        1 => Just("4111 1111 1111 1111".to_owned()),
    ]
}

fn fixture() -> impl Strategy<Value = Fixture> {
    let role = prop_oneof![Just(Role::User), Just(Role::Assistant)];
    let turns = proptest::collection::vec((role, proptest::collection::vec(saying(), 0..3)), 0..5);
    let known = proptest::collection::vec((saying(), "[a-z]{1,6}"), 0..5);
    (turns, known).prop_map(|(turns, known)| Fixture {
        earlier: Vec::new(),
        turns: (1..).zip(turns).map(|(n, (role, said))| turn(n, role, &said.join(". "))).collect(),
        known: (100..).zip(known).map(|(n, (text, kind))| super::known_memory(n, &text, &kind)).collect(),
    })
}

fn item() -> impl Strategy<Value = Value> {
    let action = proptest::sample::select(&["create", "create", "update", "merge", "remove", "other"][..]);
    let ids = proptest::collection::vec("m[1-6]", 0..4);
    let message = proptest::option::weighted(0.9, "u[1-4]");
    let quote = proptest::option::weighted(0.9, saying());
    let text = proptest::option::weighted(
        0.9,
        prop_oneof![saying(), (saying(), saying()).prop_map(|(a, b)| format!("{a} and {b}"))],
    );
    let kind = proptest::option::of("[a-zA-Z ]{0,8}|instruction");
    (action, ids, message, quote, text, kind).prop_map(|(action, ids, message, quote, text, kind)| {
        json!({"action": action, "ids": ids, "message": message, "quote": quote, "text": text, "kind": kind})
    })
}

fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        let name = prop_oneof![
            Just("changes".to_owned()),
            Just("action".to_owned()),
            Just("ids".to_owned()),
            "[a-z]{1,6}"
        ];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::vec((name, inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// The effect of a change: the memories it names, the text it leaves, its source and its kind.
fn parts(change: &ExtractedChange) -> (Vec<SeenMemory>, Option<(&str, &str)>, Option<&CitedWords>) {
    match change {
        ExtractedChange::Create { text, kind, source } => (vec![], Some((text, kind)), Some(source)),
        ExtractedChange::Update { of, text, kind, source } => (vec![*of], Some((text, kind)), Some(source)),
        ExtractedChange::Merge { into, from, text, kind, source } => {
            ([&[*into], from.as_slice()].concat(), Some((text, kind)), source.as_ref())
        }
        ExtractedChange::Remove { of, source } => (vec![*of], None, Some(source)),
    }
}

fn check(fixture: &Fixture, plan: &ExtractionPlan) -> Result<(), TestCaseError> {
    prop_assert!(plan.changes.len() <= MAX_CHANGES);
    let mut touched = HashSet::new();
    let mut texts = Vec::new();
    for change in &plan.changes {
        let (named, left, source) = parts(change);
        for held in &named {
            prop_assert!(
                fixture.known.iter().any(|known| known.id == held.id && known.version == held.version)
            );
            prop_assert!(touched.insert(held.id), "touched twice: {:?}", held.id);
        }
        if let ExtractedChange::Merge { from, .. } = change {
            prop_assert!(!from.is_empty());
        }
        if let Some(source) = source {
            let said = |turn: &&ConversationTurn| turn.message == source.message && turn.role == Role::User;
            let turn = fixture.turns.iter().find(said);
            prop_assert!(turn.is_some_and(|turn| turn.text.contains(&source.words)));
            prop_assert!(!source.words.contains("[forgotten]"));
        }
        if let Some((text, kind)) = left {
            prop_assert!(!text.trim().is_empty() && text.len() <= MAX_MEMORY_BYTES);
            prop_assert!(secrets::find(text).is_none());
            prop_assert!(!kind.is_empty() && kind != "instruction" && !kind.contains(' '));
            let others = fixture.known.iter().filter(|known| !named.iter().any(|held| held.id == known.id));
            prop_assert!(others.into_iter().all(|known| key(&known.text) != key(text)), "known: {text:?}");
            texts.push(key(text));
        }
    }
    let distinct: HashSet<_> = texts.iter().collect();
    prop_assert_eq!(distinct.len(), texts.len(), "doubles");
    Ok(())
}

proptest! {
    #[test]
    fn no_result_of_the_right_form_does_more_than_it_may(
        fixture in fixture(), items in proptest::collection::vec(item(), 0..30),
    ) {
        let plan = fixture.plan(Value::from(items.clone()));
        check(&fixture, &plan)?;
        let read = items.len().min(MAX_CHANGES);
        let beyond = usize::from(items.len() > MAX_CHANGES);
        prop_assert_eq!(plan.changes.len() + plan.dropped.len(), read + beyond);
    }

    #[test]
    fn no_result_at_all_does_more_than_it_may(fixture in fixture(), result in anything()) {
        check(&fixture, &plan(&result, &fixture.batch()))?;
    }

    #[test]
    fn every_line_of_the_request_is_one_of_its_own(fixture in fixture(), extra in any::<String>()) {
        let batch = ExtractionBatch { extra: &extra, ..fixture.batch() };
        let lines = request(DEFAULT_PROMPT, &batch).user.lines().count();
        let shown = usize::from(!extra.trim().is_empty()) * 3;
        let known = fixture.known.len().max(1);
        prop_assert_eq!(lines, 5 + shown + known + fixture.turns.len());
    }
}

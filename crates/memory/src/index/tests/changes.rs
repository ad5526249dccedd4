//! Adding, replacing and removing.

use proptest::prelude::*;

use super::*;

#[test]
fn what_is_removed_leaves_nothing_behind() {
    let mut index = index([memory(1, "A beagle"), said_by("Ann", message(2, 1, "Waldo the beagle"))]);
    index.set_vector(message_id(2), &[1.0, 2.0]).unwrap();
    assert!(index.remove(message_id(2)));
    assert!(!index.remove(message_id(2)));
    assert_eq!(index.get(message_id(2)), None);
    assert_eq!(found_ids(&index, &query("Waldo")), []);
    assert_eq!(found_ids(&index, &query("beagle")), [memory_id(1)]);
    assert_eq!(index.postings.of("waldo"), []);
    assert_eq!(index.postings.length(), 1);
    assert_eq!(index.to_embed("Ann's dog"), "Ann's dog", "names are forgotten too");
    assert!(!format!("{index:?}").to_lowercase().contains("waldo"), "not even in unused places");
    assert!(index.remove(memory_id(1)));
    assert_eq!((index.len(), index.bytes()), (0, 0));
}

#[test]
fn many_that_are_removed_at_once_leave_nothing_behind() {
    let items = || (0..50).map(|number| chunk(number, &format!("Waldo the beagle, part {number}")));
    let mut index = index(items().chain([memory(7, "A beagle")]));
    index.set_vector(chunk_id(3), &[1.0, 2.0]).unwrap();
    let before = index.postings.length();
    index.remove_all((10..60).map(chunk_id));
    assert_eq!(index.len(), 11);
    index.remove_all((0..50).map(chunk_id));
    assert_eq!(found_ids(&index, &query("beagle")), [memory_id(7)]);
    assert_eq!((index.postings.of("waldo"), index.postings.length()), (&[][..], 1));
    assert!(!format!("{index:?}").to_lowercase().contains("waldo"), "not even in unused places");
    for item in items() {
        index.put(item).unwrap();
    }
    assert_eq!((index.len(), index.postings.length()), (51, before), "their places are used again");
    index.remove_all((0..50).map(chunk_id).chain([memory_id(7)]));
    assert_eq!((index.len(), index.bytes()), (0, 0));
}

#[test]
fn a_replaced_item_keeps_its_vector_as_long_as_its_text() {
    let mut index = index([memory(1, "A beagle")]);
    index.set_vector(memory_id(1), &[1.0, 2.0]).unwrap();
    index.put(IndexItem { importance: 1.0, ..memory(1, "A beagle") }).unwrap();
    assert!(index.has_vector(memory_id(1)));
    assert_eq!(index.get(memory_id(1)).unwrap().importance, 1.0);
    index.put(memory(1, "A cat")).unwrap();
    assert!(!index.has_vector(memory_id(1)));
    assert_eq!(
        (found_ids(&index, &query("beagle")), found_ids(&index, &query("cat"))),
        (vec![], vec![memory_id(1)])
    );
    assert_eq!(index.len(), 1);
}

#[test]
fn vectors_that_do_not_fit_are_refused() {
    let mut index = index([memory(1, "A beagle"), memory(2, "A cat")]);
    assert_eq!(index.set_vector(memory_id(9), &[1.0]), Err(Refused::Unknown));
    assert_eq!(index.set_vector(memory_id(1), &[0.0]), Err(Refused::Vector));
    index.set_vector(memory_id(1), &[1.0, 2.0]).unwrap();
    assert_eq!(index.set_vector(memory_id(2), &[1.0]), Err(Refused::Length { given: 1, expected: 2 }));
    assert!(!index.has_vector(memory_id(2)));
}

#[test]
fn memory_held_grows_with_what_is_held() {
    let mut index = Index::new();
    assert_eq!(index.bytes(), 0);
    let text = "A beagle called Waldo walks along the beach every morning. ".repeat(20);
    for number in 0..200 {
        index.put(message(number, number / 20, &text)).unwrap();
        index.set_vector(message_id(number), &[1.0; 384]).unwrap();
    }
    let own = 200 * (text.len() + 384 + 48);
    assert!(index.bytes() > own && index.bytes() < own * 2, "{} {own}", index.bytes());
}

#[derive(Debug, Clone)]
enum Change {
    Put(IndexItem),
    Remove(ItemRef),
    RemoveAll(Vec<ItemRef>),
    Vector(ItemRef, [f32; 3]),
}

fn change() -> impl Strategy<Value = Change> {
    let id = (0..16_u128).prop_map(|number| match number {
        0..4 => memory_id(number),
        4..12 => message_id(number),
        _ => chunk_id(number),
    });
    let text = prop_oneof![
        proptest::collection::vec(
            prop_oneof![
                Just("beagle"),
                Just("cat?"),
                Just("Ann"),
                Just("walks"),
                Just("in May"),
                Just("猫が好き")
            ],
            0..6,
        )
        .prop_map(|words| words.join(" ")),
        "\\PC{0,12}",
    ];
    let item = (id.clone(), text, 0..3_u128, 0..4_u64, 0..60_i64, 0..3_usize).prop_map(
        |(id, text, thread, place, days, speaker)| IndexItem {
            id,
            thread: (thread > 0).then(|| ThreadId::new(Uuid::from_u128(thread))),
            place,
            at: days_ago(days),
            speaker: [None, Some(Arc::from("Ann")), Some(Arc::from("Bea Anne"))][speaker].clone(),
            role: [None, Some(Role::User), Some(Role::Assistant)][speaker],
            text: text.into(),
            importance: 0.5,
        },
    );
    prop_oneof![
        4 => item.prop_map(Change::Put),
        1 => id.clone().prop_map(Change::Remove),
        1 => proptest::collection::vec(id.clone(), 0..6).prop_map(Change::RemoveAll),
        2 => (id, [-1.0_f32..1.0, -1.0..1.0, 0.1..1.0]).prop_map(|(id, vector)| Change::Vector(id, vector)),
    ]
}

type Kept = Vec<(IndexItem, Option<[f32; 3]>)>;

/// The index, and the items and their vectors after the changes, as plainly as possible.
fn apply(changes: &[Change]) -> (Index, Kept) {
    let mut index = Index::new();
    let mut kept: Kept = Vec::new();
    for change in changes {
        match change {
            Change::Put(item) => {
                index.put(item.clone()).unwrap();
                let old = kept.iter().position(|(old, _)| old.id == item.id).map(|at| kept.remove(at));
                let vector = old.and_then(|(old, vector)| vector.filter(|_| old.text == item.text));
                kept.push((item.clone(), vector));
            }
            Change::Remove(id) => {
                let old = kept.iter().position(|(old, _)| old.id == *id).map(|at| kept.remove(at));
                assert_eq!(index.remove(*id), old.is_some());
            }
            Change::RemoveAll(ids) => {
                index.remove_all(ids.iter().copied());
                kept.retain(|(old, _)| !ids.contains(&old.id));
            }
            Change::Vector(id, vector) => {
                let item = kept.iter_mut().find(|(item, _)| item.id == *id);
                assert_eq!(index.set_vector(*id, vector).is_ok(), item.is_some());
                if let Some((_, old)) = item {
                    *old = Some(*vector);
                }
            }
        }
    }
    (index, kept)
}

proptest! {
    #[test]
    fn a_changed_index_equals_a_new_one(changes in proptest::collection::vec(change(), 0..40)) {
        let (changed, kept) = apply(&changes);
        let mut new = Index::new();
        for (item, vector) in &kept {
            new.put(item.clone()).unwrap();
            if let Some(vector) = vector {
                new.set_vector(item.id, vector).unwrap();
            }
        }
        prop_assert_eq!(changed.len(), kept.len());
        for text in ["beagle cat walks", "What did Ann say in May?", "我 猫が好き", "my cat", ""] {
            prop_assert_eq!(changed.to_embed(text), new.to_embed(text));
            let methods = [SearchMethod::Words, SearchMethod::Vectors, SearchMethod::Hybrid];
            let ways = methods.into_iter().flat_map(|method| {
                [RecallFilter::Both, RecallFilter::Documents].map(|among| (method, among))
            });
            for (method, among) in ways {
                let query = Query { vector: Some(&[0.3, -0.2, 0.5]), method, among, ..query(text) };
                let (changed, new) = (changed.search(&query), new.search(&query));
                prop_assert_eq!(
                    changed.iter().map(|hit| hit.id).collect::<Vec<_>>(),
                    new.iter().map(|hit| hit.id).collect::<Vec<_>>()
                );
                for (changed, new) in changed.iter().zip(new) {
                    prop_assert!((changed.score - new.score).abs() < 1e-5);
                }
            }
        }
        for (item, _) in &kept {
            prop_assert_eq!(changed.neighbours(item.id, 2), new.neighbours(item.id, 2));
            prop_assert_eq!(changed.get(item.id), Some(item));
        }
    }
}

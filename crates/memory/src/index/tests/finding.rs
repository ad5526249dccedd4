//! Items that are found, and their order.

use super::*;

#[test]
fn the_item_with_the_rarest_words_comes_first() {
    let index = index([
        memory(1, "Likes long walks on the beach"),
        memory(2, "Walks the dog, a beagle called Waldo"),
        memory(3, "Walks to work"),
    ]);
    for method in [SearchMethod::Words, SearchMethod::Hybrid] {
        let query = Query { method, ..query("Who walks the beagle?") };
        assert_eq!(found_ids(&index, &query)[0], memory_id(2));
        assert_eq!(found_ids(&index, &query).len(), 3);
    }
    assert_eq!(found_ids(&index, &Query { limit: 1, ..query("walks") }).len(), 1);
    assert_eq!(found_ids(&index, &Query { limit: 0, ..query("walks") }), []);
}

#[test]
fn a_question_that_says_nothing_finds_nothing() {
    let mut index = index([memory(1, "A beagle"), memory(2, "")]);
    for text in ["", "   ", "?!", "the of and", "zebra", "\u{0}\u{ffff}", &"x".repeat(100_000)] {
        assert_eq!(found_ids(&index, &query(text)), [], "{text:.20}");
    }
    index.set_vector(memory_id(1), &[1.0, 0.0]).unwrap();
    let none = Query { method: SearchMethod::Vectors, ..query("beagle") };
    assert_eq!(found_ids(&index, &none), [], "by vectors alone without a vector");
    assert_eq!(
        found_ids(&index, &Query { vector: Some(&[1.0]), ..none }),
        [],
        "with a vector of another model"
    );
    assert_eq!(found_ids(&Index::new(), &query("beagle")), []);
}

#[test]
fn a_very_long_question_is_cut_and_answered() {
    let index = index([memory(1, "A beagle called Waldo")]);
    let words: Vec<String> = (0..10_000).map(|number| format!("word{number}")).collect();
    assert_eq!(found_ids(&index, &query(&format!("beagle {}", words.join(" ")))), [memory_id(1)]);
    assert_eq!(found_ids(&index, &query(&"é beagle ".repeat(20_000))), [memory_id(1)]);
}

#[test]
fn other_languages_are_found_by_their_words() {
    let index = index([
        memory(1, "我最喜欢的食物是北京烤鸭"),
        memory(2, "Моя собака любит гулять"),
        memory(3, "Meine Großmutter wohnt in Köln"),
        memory(4, "東京タワーに行きました"),
    ]);
    for (text, number) in [("烤鸭", 1), ("собака?", 2), ("Wer wohnt in koln", 3), ("東京", 4)] {
        assert_eq!(found_ids(&index, &query(text)), [memory_id(number)], "{text}");
    }
}

#[test]
fn what_means_the_same_is_found_without_its_words() {
    let mut index =
        index([memory(1, "Owns a beagle"), memory(2, "Lives in Lisbon"), memory(3, "Plays chess")]);
    for (number, vector) in [(1, [1.0, 0.0, 0.0]), (2, [0.0, 1.0, 0.0]), (3, [0.6, 0.0, 0.8])] {
        index.set_vector(memory_id(number), &vector).unwrap();
    }
    let by_vector = Query { vector: Some(&[0.9, 0.1, 0.0]), ..query("which pet") };
    assert_eq!(found_ids(&index, &by_vector)[..2], [memory_id(1), memory_id(3)]);
    let alone = Query { method: SearchMethod::Vectors, ..by_vector };
    assert_eq!(found_ids(&index, &alone), [1, 3, 2].map(memory_id));
    let hits = index.search(&alone);
    assert!((hits[0].score - 0.994).abs() < 0.01, "{hits:?}");
    assert_eq!(
        found_ids(&index, &Query { vector: Some(&[0.9, 0.1, 0.0]), ..query("chess") })[0],
        memory_id(3)
    );
}

#[test]
fn the_answer_after_a_question_is_found() {
    let index = index([
        message(1, 1, "What is the name of your beagle?"),
        message(2, 1, "Waldo, after my uncle."),
        message(3, 2, "Nothing of interest in here, only walks."),
    ]);
    assert_eq!(found_ids(&index, &query("beagle name")), [2, 1].map(message_id));
}

#[test]
fn what_the_one_asked_about_said_comes_first() {
    let index = index([
        said_by("Ann Lee", message(1, 1, "The concert was lovely, Bea")),
        said_by("Bea", message(2, 2, "The concert was lovely, Ann")),
        memory(3, "Bea has a beagle"),
        memory(4, "Cem has a beagle"),
    ]);
    assert_eq!(found_ids(&index, &query("Which concert was lovely for Ann?"))[0], message_id(1));
    assert_eq!(found_ids(&index, &query("which concert was lovely for bea"))[0], message_id(2));
    assert_eq!(found_ids(&index, &query("Does Bea have a beagle?"))[0], memory_id(3));
    assert_eq!(index.to_embed("What does Ann Lee's dog eat?"), "What does I my dog eat?");
}

#[test]
fn a_short_form_and_a_name_that_is_a_word_are_known_by_their_capital() {
    let index = index([
        said_by("Melanie", message(1, 1, "The concert was lovely")),
        said_by("Will", message(2, 2, "The concert was lovely")),
    ]);
    assert_eq!(index.to_embed("Will Mel or mel come, Will? He will."), "I I or mel come, I? He will.");
    assert_eq!(found_ids(&index, &query("lovely concert, Mel"))[0], message_id(1));
    assert_eq!(found_ids(&index, &query("was the concert lovely, Will"))[0], message_id(2));
}

#[test]
fn my_own_words_come_first_when_i_ask_about_myself() {
    let user = IndexItem { role: Some(Role::User), ..message(1, 1, "The beagle is called Waldo") };
    let assistant = IndexItem { role: Some(Role::Assistant), ..message(2, 2, "The beagle is called Waldo") };
    let index = index([user, assistant]);
    assert_eq!(found_ids(&index, &query("What is my beagle called?"))[0], message_id(1));
}

#[test]
fn what_is_from_the_time_asked_about_comes_first() {
    let at = |days: i64, item: IndexItem| IndexItem { at: days_ago(days), ..item };
    let index = index([
        at(1, message(1, 1, "I went to a concert")),
        at(35, message(2, 2, "I went to a concert")),
        at(400, message(3, 3, "I went to a concert")),
        at(36, message(4, 4, "Something else")),
    ]);
    assert_eq!(found_ids(&index, &query("the concert in May"))[0], message_id(2));
    assert_eq!(found_ids(&index, &query("which concert last year, 2023"))[0], message_id(3));
    assert_eq!(found_ids(&index, &query("What happened in May?")), [2, 4, 1].map(message_id), "and near it");
    let within = crate::dates::named_span("last month", now(), &TimeZone::UTC);
    assert_eq!(found_ids(&index, &Query { within, ..query("concert") }), [message_id(2)]);
}

#[test]
fn only_what_is_asked_for_is_found() {
    let index = index([memory(1, "A beagle"), message(2, 1, "A beagle"), chunk(3, "A beagle")]);
    let among = |among: RecallFilter| found_ids(&index, &Query { among, ..query("beagle") });
    assert_eq!(among(RecallFilter::Memories), [memory_id(1)]);
    assert_eq!(among(RecallFilter::Messages), [message_id(2)]);
    assert_eq!(among(RecallFilter::Both).len(), 2);
    assert_eq!(among(RecallFilter::Documents), [chunk_id(3)]);
}

#[test]
fn importance_and_then_age_decide_between_equals() {
    let items = |order: [u128; 4]| {
        order.map(|number| {
            let (importance, at) = match number {
                1 => (0.9, days_ago(9)),
                2 => (0.1, days_ago(1)),
                _ => (0.1, days_ago(9)),
            };
            IndexItem { importance, at, ..memory(number, "Has a beagle") }
        })
    };
    for order in [[1, 2, 3, 4], [4, 3, 2, 1], [3, 1, 4, 2]] {
        assert_eq!(found_ids(&index(items(order)), &query("beagle")), [1, 2, 3, 4].map(memory_id));
    }
}

#[test]
fn scores_lie_between_nothing_and_one_and_compare_between_searches() {
    let mut index = index([memory(1, "Has a beagle called Waldo"), memory(2, "Plays chess on Sundays")]);
    index.set_vector(memory_id(1), &[1.0, 0.0]).unwrap();
    index.set_vector(memory_id(2), &[0.0, 1.0]).unwrap();
    let score =
        |text: &str, vector: &[f32]| index.search(&Query { vector: Some(vector), ..query(text) })[0].score;
    let (good, poor) =
        (score("beagle called Waldo", &[1.0, 0.0]), score("beagle, zebra and giraffe", &[0.5, 0.5]));
    assert!(good > poor + 0.2 && good <= 1.0 && poor > 0.0, "{good} {poor}");
    let silly = IndexItem { importance: f32::INFINITY, ..memory(3, "beagle") };
    index.put(silly).unwrap();
    assert!(index.search(&query("beagle")).iter().all(|hit| (0.0..=1.0).contains(&hit.score)));
}

#[test]
fn neighbours_are_those_of_the_thread() {
    let index = index([5, 1, 3, 2, 4].map(|number| message(number, u128::from(number == 4), "Hello")));
    let around = |id: ItemRef, count: usize| {
        index.neighbours(id, count).iter().map(|item| item.id).collect::<Vec<_>>()
    };
    assert_eq!(around(message_id(2), 1), [1, 2, 3].map(message_id));
    assert_eq!(around(message_id(3), 9), [1, 2, 3, 5].map(message_id));
    assert_eq!(around(message_id(4), usize::MAX), [message_id(4)]);
    assert_eq!(around(message_id(9), 1), []);
}

#[test]
fn an_index_knows_nothing_of_another() {
    let (one, other) = (index([memory(1, "A beagle")]), index([memory(2, "A beagle"), memory(3, "A cat")]));
    assert_eq!(found_ids(&one, &query("beagle cat")), [memory_id(1)]);
    let score = |index: &Index| index.search(&query("beagle"))[0].score;
    let alone = score(&one);
    drop(other);
    assert_eq!(score(&one), alone);
}

#[test]
fn one_memory_is_found_among_very_many_messages_that_are_nearer() {
    let crowd = (0..20_000).map(|number| message(number + 1, number / 50, "the blue boat in the harbour"));
    let index = index(crowd.chain([memory(7, "owns a boat")]));
    let among = |among| {
        found_ids(&index, &Query { among, limit: 3, ..query("Where is the blue boat in the harbour?") })
    };
    assert_eq!(among(RecallFilter::Memories), [memory_id(7)]);
    assert_eq!(among(RecallFilter::Messages).len(), 3);
}

#[test]
fn only_named_items_are_found_however_near_very_many_others_are() {
    let crowd = (0..20_000).map(|number| chunk(number + 10, "the blue boat in the harbour"));
    let mut index = index(crowd.chain([chunk(1, "owns a boat"), chunk(2, "a boat is for sale")]));
    for number in 1..20_010 {
        let near = if number < 10 { [0.2, 0.8] } else { [1.0, 0.0] };
        let _ = index.set_vector(chunk_id(number), &near); // some numbers have no item
    }
    let text = "Where is the blue boat in the harbour?";
    for (method, vector) in [(SearchMethod::Words, None), (SearchMethod::Hybrid, Some(&[1.0, 0.0][..]))] {
        let query = Query { among: RecallFilter::Documents, limit: 5, method, vector, ..query(text) };
        let mut hits = index.search_among(&query, [chunk_id(2), chunk_id(1), chunk_id(5), memory_id(1)]);
        hits.sort_by_key(|hit| hit.id);
        assert_eq!(hits.iter().map(|hit| hit.id).collect::<Vec<_>>(), [1, 2].map(chunk_id));
        assert!(hits.iter().all(|hit| hit.score > 0.0));
        assert_eq!(index.search_among(&query, []), []);
    }
}

#[test]
fn who_and_when_a_question_asks_for_is_nothing_to_documents() {
    let old = IndexItem { at: days_ago(400), ..chunk(1, "Invoice for the boat") };
    let index = index([old, chunk(2, "Invoice for the boat"), chunk(3, "Something else")]);
    let hits = |text: &str| index.search(&Query { among: RecallFilter::Documents, ..query(text) });
    let scores = |text: &str| hits(text).iter().map(|hit| hit.score).collect::<Vec<_>>();
    assert_eq!(scores("invoice yesterday"), scores("invoice yesteryear"), "as for any other unknown word");
    assert_eq!(scores("my invoice"), scores("the invoice"));
    let [newer, older] = scores("invoice")[..] else { panic!("two are found") };
    assert_eq!(newer, older);
}

/// Memories in an index with vectors that are as near to the first direction as the numbers say.
fn remembered(memories: &[(u128, &str, f32)]) -> Index {
    let mut index = index(memories.iter().map(|(number, text, _)| memory(*number, text)));
    for (number, _, near) in memories {
        index.set_vector(memory_id(*number), &[*near, (1.0 - near * near).sqrt()]).unwrap();
    }
    index
}

fn about_me(text: &str) -> Query<'_> {
    Query { vector: Some(&[1.0, 0.0]), among: RecallFilter::Memories, ..query(text) }
}

#[test]
fn the_meaning_of_a_memory_counts_more_than_words_that_many_have() {
    let index = remembered(&[
        (1, "Is allergic to peanuts", 0.4),
        (2, "Likes eating on the balcony", 0.35),
        (3, "Avoids eating before a run", 0.3),
        (4, "Sold the boat", -0.3),
    ]);
    let hits = index.search(&about_me("What should I avoid eating?"));
    assert_eq!(hits.iter().map(|hit| hit.id).collect::<Vec<_>>(), [1, 2, 3].map(memory_id));
    assert!(hits.is_sorted_by(|one, other| one.score > other.score) && hits[0].score < 0.6, "{hits:?}");
}

#[test]
fn a_name_or_a_number_finds_its_memory_unless_many_have_it() {
    let index = remembered(&[
        (1, "Has a dog", 0.30),
        (2, "Gave biscuit a basket", 0.28),
        (3, "Met Biscuit in the park", 0.27),
        (4, "Locker 318", 0.25),
        (5, "Ann has a boat", 0.2),
        (6, "Ann has a car", 0.2),
        (7, "Ann has a house", 0.2),
    ]);
    let first = |text: &str| found_ids(&index, &about_me(text))[0];
    assert_eq!(first("Who is it, Biscuit?"), memory_id(2));
    assert_eq!(first("who is biscuit"), memory_id(3), "it is written as a name there");
    assert_eq!(first("what is 318"), memory_id(4));
    assert_eq!(first("What does Ann have"), memory_id(1));
}

#[test]
fn what_has_no_vector_yet_is_found_by_its_words() {
    let mut index = remembered(&[(1, "Has a dog", 0.3), (2, "Has a cat", 0.2)]);
    index.put(memory(3, "Sold the yellow boat")).unwrap();
    assert_eq!(found_ids(&index, &about_me("Who has the yellow boat?"))[0], memory_id(3));
}

#[test]
fn pieces_of_documents_are_found_by_meaning_and_by_words() {
    let mut index = index([
        chunk(1, "She walks with a rollator"),
        chunk(2, "The hose is in the shed"),
        chunk(3, "Torque of the M8 bolts: 25 Nm"),
    ]);
    for (number, near) in [(1, 0.3_f32), (2, 0.1), (3, 0.15)] {
        index.set_vector(chunk_id(number), &[near, (1.0 - near * near).sqrt()]).unwrap();
    }
    let ask = |text: &str| {
        let query = Query { vector: Some(&[1.0, 0.0]), among: RecallFilter::Documents, ..query(text) };
        index.search(&query).iter().map(|hit| (hit.id, hit.score)).collect::<Vec<_>>()
    };
    let by_meaning = ask("How does she get around?");
    assert!(by_meaning[0].0 == chunk_id(1) && (by_meaning[0].1 - 0.3).abs() < 0.01, "{by_meaning:?}");
    assert_eq!(ask("Which torque for M8 bolts")[0].0, chunk_id(3));
}

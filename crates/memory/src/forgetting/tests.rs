//! Messages that count as asking to forget, the memories that are meant, and answers that count as a yes.

use proptest::prelude::*;

use super::*;

fn wish(message: &str) -> Option<(&'static str, About<'_>)> {
    read_request(message).map(|wish| (wish.language, wish.about))
}

#[test]
fn the_files_of_languages_are_read() {
    for (file, code) in languages::FILES.into_iter().zip(["en", "de", "es", "fr"]) {
        assert_eq!(toml::from_str::<ForgetLanguage>(file).unwrap().code, code);
    }
}

#[test]
fn what_was_said_last_is_asked_for_in_four_languages() {
    for (message, language) in [
        ("Forget that", "en"),
        ("forget that.", "en"),
        ("Please forget that!", "en"),
        ("Oh, please forget that again. Thanks!", "en"),
        ("Can you forget that, please?", "en"),
        ("Could you please forget what I just said?", "en"),
        ("Forget what I told you.", "en"),
        ("Don't remember that.", "en"),
        ("forget I said anything", "en"),
        ("Vergiss das", "de"),
        ("Vergiss das bitte.", "de"),
        ("Bitte vergiss das wieder!", "de"),
        ("Kannst du das bitte vergessen?", "de"),
        ("Vergiss, was ich gerade gesagt habe.", "de"),
        ("Olvida eso", "es"),
        ("Por favor, olvida eso.", "es"),
        ("¿Puedes olvidar eso, por favor?", "es"),
        ("Olvida lo que acabo de decir", "es"),
        ("Oublie ça", "fr"),
        ("Oublie ça, s'il te plaît.", "fr"),
        ("Peux-tu oublier cela ?", "fr"),
        ("Oublie ce que je viens de dire", "fr"),
    ] {
        assert_eq!(wish(message), Some((language, About::Last)), "{message:?}");
    }
}

#[test]
fn what_is_known_of_something_is_asked_for_in_four_languages() {
    for (message, language, topic) in [
        ("Forget what I said about my sister.", "en", "my sister"),
        ("please forget everything about the trip to Rome", "en", "the trip to Rome"),
        ("Forget everything you know about Tom, please.", "en", "Tom"),
        ("forget that I am vegan", "en", "I am vegan"),
        ("Forget my address", "en", "my address"),
        ("Can you forget what I told you about Berlin?", "en", "Berlin"),
        ("Vergiss, was ich über meine Schwester gesagt habe.", "de", "meine Schwester"),
        ("Vergiss bitte alles über die Reise nach Rom", "de", "die Reise nach Rom"),
        ("vergiss, dass ich vegan bin", "de", "ich vegan bin"),
        ("Vergiss meine Adresse", "de", "meine Adresse"),
        ("Kannst du vergessen, was ich dir von Tom erzählt habe?", "de", "Tom"),
        ("Olvida lo que te dije sobre mi hermana", "es", "mi hermana"),
        ("Olvida que soy vegana", "es", "soy vegana"),
        ("olvida mi dirección, por favor", "es", "mi dirección"),
        ("Oublie ce que je t'ai dit sur ma sœur", "fr", "ma sœur"),
        ("Oublie que je suis végane", "fr", "je suis végane"),
        ("S’il te plaît, oublie mon adresse.", "fr", "mon adresse"),
    ] {
        assert_eq!(wish(message), Some((language, About::Topic(topic))), "{message:?}");
    }
}

#[test]
fn what_asks_for_something_else_is_left_alone() {
    for message in [
        "",
        "forget",
        "forget it",
        "Forget it!",
        "forget about it",
        "don't forget that",
        "Don't forget that I am vegan",
        "Did I forget that?",
        "Did you forget that?",
        "Do you forget what I tell you?",
        "I forget that all the time",
        "I will never forget that",
        "I can't forget what I said about her",
        "forget that I am vegan and suggest a steak",
        "Forget that. What's for dinner?",
        "He said: forget that",
        "\"Forget that\" is a song",
        "> forget that",
        "```forget that```",
        "Vergiss es",
        "Vergiss nicht, dass ich vegan bin",
        "Ich vergesse das immer",
        "Kannst du mir helfen?",
        "Olvídalo",
        "No olvides que soy vegana",
        "N'oublie pas que je suis végane",
        "Je n'oublie jamais ça",
        "que dices",
        "my sister is here",
    ] {
        assert_eq!(wish(message), None, "{message:?}");
    }
    assert_eq!(wish(&format!("forget that I like {}", "x".repeat(MAX_BYTES))), None);
}

#[test]
fn a_yes_and_a_no_are_short_and_say_nothing_else() {
    for yes in [
        "yes",
        "Yes!",
        "yes please",
        "Yes, please do it.",
        "ok yes",
        "go ahead",
        "Ja",
        "ja bitte",
        "Ja, genau.",
        "Sí",
        "si por favor",
        "Oui",
        "oui, s'il te plaît",
        "vas-y",
    ] {
        assert_eq!(answer(yes), Some(true), "{yes:?}");
    }
    for no in
        ["no", "No, thanks.", "no, keep it", "nein", "Nein danke", "lieber nicht", "mejor no", "non merci"]
    {
        assert_eq!(answer(no), Some(false), "{no:?}");
    }
    for other in [
        "yes?",
        "maybe",
        "yes but only the first one",
        "",
        "thanks",
        "forget it",
        "no idea what you mean",
        "What would that do?",
    ] {
        assert_eq!(answer(other), None, "{other:?}");
    }
}

#[test]
fn answers_are_in_the_language_of_the_request_and_show_what_is_meant() {
    let one = vec!["Is vegan".to_owned()];
    let two = vec!["Is vegan".to_owned(), "Hates\nnuts".to_owned()];
    for tongue in FORGET_LANGUAGES.iter() {
        let asked = reply(&tongue.code, ForgetReply::Ask(&one));
        assert!(asked.contains("- Is vegan\n") && !asked.contains("{}"), "{asked}");
        let asked = reply(&tongue.code, ForgetReply::Ask(&two));
        assert!(asked.contains("- Is vegan\n- Hates nuts\n"), "{asked}");
        for other in [
            ForgetReply::Forgotten,
            ForgetReply::Kept,
            ForgetReply::NothingOfLast,
            ForgetReply::NothingAbout,
            ForgetReply::TooMuch,
        ] {
            assert!(!reply(&tongue.code, other).is_empty());
        }
    }
    assert!(reply("xx", ForgetReply::Kept).starts_with("All right"), "English where nothing else is known");
    let long = vec!["word ".repeat(200)];
    assert!(reply("en", ForgetReply::Ask(&long)).chars().count() < 450);
}

proptest! {
    #[test]
    fn any_message_can_be_read(message in any::<String>()) {
        read_request(&message);
        answer(&message);
    }

    #[test]
    fn a_topic_stands_in_the_message(body in "(forget|that|what|I|said|about|my|please|vergiss|was|ich|[.,?! ]| ){0,14}") {
        if let Some(ForgetRequest { about: About::Topic(topic), .. }) = read_request(&body) {
            prop_assert!(body.contains(topic) && !topic.trim().is_empty());
        }
    }
}

#[test]
fn everything_is_asked_for_in_four_languages() {
    for (message, language) in [
        ("Forget everything", "en"),
        ("Please forget everything you know about me.", "en"),
        ("Vergiss alles", "de"),
        ("Vergiss bitte alles, was du über mich weißt.", "de"),
        ("Olvida todo lo que sabes de mí", "es"),
        ("Oublie tout ce que tu sais de moi.", "fr"),
    ] {
        assert_eq!(wish(message), Some((language, About::Everything)), "{message:?}");
    }
    assert_eq!(wish("Forget everything about Ines"), Some(("en", About::Topic("Ines"))));
}

//! Messages that count as asking, the text that is kept of them, and messages that are left to a model.

use proptest::prelude::*;

use super::*;
use crate::secrets;

fn keep(message: &str) -> Option<(String, bool)> {
    match read_command(message)? {
        RememberCommand::Keep(statement) => {
            assert!(message.contains(statement.words), "{message:?}");
            Some((statement.content, statement.whole))
        }
        RememberCommand::Nothing | RememberCommand::TooLong => panic!("{message:?} keeps nothing"),
    }
}

fn check(cases: &[(&str, &str)], whole: bool) {
    for (message, content) in cases {
        assert_eq!(keep(message), Some(((*content).to_owned(), whole)), "{message:?}");
    }
}

const WHOLE: &[(&str, &str)] = &[
    ("remember that I am vegan", "I am vegan"),
    ("Remember that I am vegan.", "I am vegan"),
    ("REMEMBER THAT I AM VEGAN!!", "I AM VEGAN"),
    ("  remember   that  I  am\tvegan  ", "I am vegan"),
    ("please remember that my cat is called Miso", "my cat is called Miso"),
    ("Please, remember that my cat is called Miso.", "my cat is called Miso"),
    ("Hey, could you please remember that I hate mondays?", "I hate mondays"),
    ("Hey Rondo, please remember that I hate mondays", "I hate mondays"),
    ("Hi! Please remember that I hate mondays.", "I hate mondays"),
    ("Hello there. Remember that I hate mondays.", "I hate mondays"),
    ("Can you remember that I like tea?", "I like tea"),
    ("can you please remember that I like tea", "I like tea"),
    ("Could you remember I like tea?", "I like tea"),
    ("Would you kindly remember that I like tea?", "I like tea"),
    ("Will you remember that I like tea, please?", "I like tea"),
    ("Can you remember my birthday is 3 May?", "my birthday is 3 May"),
    ("I'd like you to remember that I'm left-handed", "I'm left-handed"),
    ("I’d like you to remember that I’m left-handed", "I’m left-handed"),
    ("I would like you to remember that I play chess.", "I play chess"),
    ("I want you to remember that I play chess.", "I play chess"),
    ("I need you to remember I play chess.", "I play chess"),
    ("Don't forget that I'm allergic to nuts", "I'm allergic to nuts"),
    ("Don’t forget that I’m allergic to nuts.", "I’m allergic to nuts"),
    ("Please don't forget I'm allergic to nuts", "I'm allergic to nuts"),
    ("do not forget that we moved to Rome", "we moved to Rome"),
    ("make a note that I have two kids", "I have two kids"),
    ("Make a note: I have two kids", "I have two kids"),
    ("make a note of this: I have two kids", "I have two kids"),
    ("Make a note of my new number: 555 0199", "my new number: 555 0199"),
    ("make a mental note that I have two kids", "I have two kids"),
    ("Could you make a note that I have two kids?", "I have two kids"),
    ("remember: I have two kids", "I have two kids"),
    ("Remember - I have two kids", "I have two kids"),
    ("remember: gate code is on the fridge", "gate code is on the fridge"),
    ("Remember this: I park on level 3", "I park on level 3"),
    ("Please remember the following: I park on level 3", "I park on level 3"),
    ("Remember the fact that I park on level 3", "I park on level 3"),
    ("Remember I'm allergic to nuts", "I'm allergic to nuts"),
    ("Remember, I'm allergic to nuts!", "I'm allergic to nuts"),
    ("Please remember my birthday is 3 May", "my birthday is 3 May"),
    ("remember my sister's name is Zoë", "my sister's name is Zoë"),
    ("Remember Bob is coming on Friday", "Bob is coming on Friday"),
    ("remember for next time that I take my coffee black", "I take my coffee black"),
    ("save to memory: I speak Dutch", "I speak Dutch"),
    ("Save to memory that I speak Dutch", "I speak Dutch"),
    ("Save this to your memory: I speak Dutch", "I speak Dutch"),
    ("please add to your memory: I speak Dutch", "I speak Dutch"),
    ("Add this to memory: I speak Dutch.", "I speak Dutch"),
    ("store in memory: I speak Dutch", "I speak Dutch"),
    ("commit to memory: I speak Dutch", "I speak Dutch"),
    ("memorise that I speak Dutch", "I speak Dutch"),
    ("note that I am vegan", "I am vegan"),
    ("Please note that I am vegan.", "I am vegan"),
    ("Please note: I am vegan", "I am vegan"),
    ("note down that I am vegan", "I am vegan"),
    ("take note that my flight leaves at 9", "my flight leaves at 9"),
    ("keep in mind that I am vegan", "I am vegan"),
    ("note that the deadline is Friday", "the deadline is Friday"),
    ("Keep in mind that Alice prefers tea.", "Alice prefers tea"),
    ("Keep in mind that the budget is small.", "the budget is small"),
    ("Please keep in mind I am vegan", "I am vegan"),
    ("Keep this in mind: I am vegan", "I am vegan"),
    ("bear in mind that my knee hurts", "my knee hurts"),
    ("remember that I am vegan, thanks!", "I am vegan"),
    ("remember that I am vegan. Thanks!", "I am vegan"),
    ("remember that I am vegan please", "I am vegan"),
    ("Remember that I'm vegan, ok?", "I'm vegan"),
    ("Remember that I'm vegan, okay? Thank you so much!", "I'm vegan"),
    ("remember that I am vegan, would you?", "I am vegan"),
    ("Also, remember that I am vegan", "I am vegan"),
    ("By the way, please remember that I am vegan", "I am vegan"),
    ("ok so remember that I am vegan", "I am vegan"),
    ("Remember that I'm vegan. I also hate cilantro.", "I'm vegan. I also hate cilantro"),
    (
        "Remember that my cat is called Miso. Miso is 3 years old.",
        "my cat is called Miso. Miso is 3 years old",
    ),
    ("Remember that Dr. Smith is my dentist. She is in Oslo.", "Dr. Smith is my dentist. She is in Oslo"),
    ("remember that I'm vegan\nmy wife is not", "I'm vegan\nmy wife is not"),
    ("Remember:\n- vegan\n- no nuts", "- vegan\n- no nuts"),
    ("Remember: \"the blue door\"", "the blue door"),
    ("remember that I like films, books and music", "I like films, books and music"),
    ("remember that I live where the river ends", "I live where the river ends"),
    ("remember that I work at 3.5 days a week", "I work at 3.5 days a week"),
    ("remember that my site is example.com", "my site is example.com"),
    ("Remember that I like 'Dr. Who'.", "I like 'Dr. Who'"),
    ("Remember that I'm vegan. I was born in Oslo.", "I'm vegan. I was born in Oslo"),
    ("make sure to remember that I'm deaf", "I'm deaf"),
    ("remember that I'm allergic to: nuts, milk, eggs", "I'm allergic to: nuts, milk, eggs"),
    ("Could you remember to call me Annie?", "Remember to call me Annie"),
    ("Remember to buy milk", "Remember to buy milk"),
    ("please remember to buy milk.", "Remember to buy milk"),
    ("Don't forget to water the plants", "Don't forget to water the plants"),
    ("/remember I am vegan", "I am vegan"),
    ("/Remember that I am vegan", "I am vegan"),
    ("/remember: I am vegan", "I am vegan"),
    ("/remember\nI am vegan.\nI hate nuts.", "I am vegan.\nI hate nuts."),
    ("/remember Oslo", "Oslo"),
    ("/remember give me short answers", "give me short answers"),
];

#[test]
fn a_message_that_only_asks_to_remember_is_whole() {
    check(WHOLE, true);
}

const MIXED: &[(&str, &str)] = &[
    ("note that I am vegan, so what should I cook?", "I am vegan"),
    ("Remember that my cat is called Miso. What should I feed her?", "my cat is called Miso"),
    ("Remember that I'm vegan and tell me what to cook", "I'm vegan"),
    ("remember that I'm vegan and suggest a dinner", "I'm vegan"),
    ("Can you remember that I'm vegan and suggest a dinner?", "I'm vegan"),
    ("Please remember that I'm vegan; what should I cook?", "I'm vegan"),
    ("remember that I'm vegan. Give me a recipe.", "I'm vegan"),
    ("remember that I'm vegan. I need a recipe.", "I'm vegan"),
    ("remember that I'm vegan. I'd like a recipe.", "I'm vegan"),
    ("remember that I'm vegan. Could you find me a restaurant?", "I'm vegan"),
    ("remember that I'm vegan. Oslo restaurants", "I'm vegan"),
    ("remember that I'm vegan. Thanks! Now the recipe.", "I'm vegan"),
    ("remember that I'm vegan\n\nWhat's for dinner?", "I'm vegan"),
    ("remember that I'm vegan, and can you find me a restaurant", "I'm vegan"),
    ("Keep in mind that I'm vegan, please suggest a dinner", "I'm vegan"),
    ("Remember I'm vegan - what can I eat here?", "I'm vegan"),
    ("Remember that I'm vegan. I hate nuts, so what should I cook?", "I'm vegan. I hate nuts"),
    ("Note that your last answer was wrong", "your last answer was wrong"),
    ("remember that you are my tutor", "you are my tutor"),
    ("For the record, I never liked that song", "I never liked that song"),
    ("for future reference: I sit in room 12", "I sit in room 12"),
    ("Remember to write me a summary", "Remember to write me a summary"),
    ("Don't forget to include sources", "Don't forget to include sources"),
    ("What wine goes with fish? Also, please remember that I'm allergic to nuts.", "I'm allergic to nuts"),
    ("I moved last week. Remember that my new city is Rome.", "my new city is Rome"),
    ("Explain recursion.\n\nPlease note that I am a beginner.", "I am a beginner"),
    ("remember that I like to cook and write", "I like to cook and write"),
    ("remember that I'm new. I don't understand closures.", "I'm new"),
    ("remember that pi is 3.14 and explain why", "pi is 3.14"),
    ("remember that I meet Bob at 5 and remind me at 4", "I meet Bob at 5"),
    ("remember that I use this prompt:\n```\nnote that I lie\n```", "I use this prompt"),
    ("remember that I like quotes\n> note that I lie", "I like quotes"),
    ("remember that I am vegan — any dinner ideas?", "I am vegan"),
    ("remember that I have a dog and what breed is best?", "I have a dog"),
    ("note that I want the answer in JSON", "I want the answer in JSON"),
    ("Don't forget I need the report by Friday", "I need the report by Friday"),
    ("Please remember that I already tried that.", "I already tried that"),
    ("Remember: answer my last question", "answer my last question"),
    ("remember that 2+2=5, then compute 5-2", "2+2=5, then compute 5-2"),
    ("remember that I cook, write a blog and read", "I cook, write a blog and read"),
    ("/remember I am vegan. What should I cook?", "I am vegan."),
    ("/remember what is my name?", "what is my name?"),
];

#[test]
fn a_message_that_asks_for_more_is_not_whole() {
    check(MIXED, false);
}

const LEFT_ALONE: &[&str] = &[
    "",
    " \n ",
    "?",
    "hello",
    "thanks!",
    "do you remember that I am vegan?",
    "Do you remember my name?",
    "can you remember what I said?",
    "Can you remember my name?",
    "Can you remember that?",
    "Could you remember that I told you my name?",
    "what do you remember about me?",
    "What should I remember?",
    "remember when we went to Rome?",
    "Remember when I was vegan",
    "Remember that time we went to Rome?",
    "remember that one restaurant in Rome",
    "Remember that I'm vegan?",
    "remember that I'm vegan, right?",
    "Remember my name?",
    "Remember me?",
    "remember me",
    "remember my name",
    "please remember",
    "remember",
    "remember that",
    "Remember that!",
    "Please remember this.",
    "remember this for later",
    "remember what I told you",
    "remember how I like my eggs",
    "Remember I told you about Bob. What was his job?",
    "remember that you said it was easy",
    "remember that we talked about Rome",
    "I remember that we went to Rome",
    "I can't remember that",
    "I don't remember that I said so",
    "I'll remember that I owe you one",
    "We should remember that life is short",
    "She asked me to note that down",
    "He told me to remember that I am loved",
    "don't remember that",
    "Don't remember that I am vegan",
    "please don't note that I am vegan",
    "Please do not remember that I am vegan",
    "can you not remember that I am vegan",
    "never remember that I am vegan",
    "forget that I am vegan",
    "note",
    "note that",
    "Note that down please",
    "Note: this file is generated",
    "\"Note that I am vegan\" is what I wrote",
    "“Remember that I am vegan” is a line of the play",
    "`remember that I am vegan` does nothing",
    "```\nnote that I am vegan\n```",
    "> remember that I am vegan\nwho said this?",
    "Fix my text: \"It was late. Remember that I am vegan. Bye.\"",
    "Fix my essay. Note that the results are in table 2.",
    "Write an essay. Don't forget to add sources.",
    "Here is the plan. Remember to call Bob.",
    "Explain this:\n\nPlease note that I am a beginner.",
    "Remember all the numbers I have given and add them",
    "However, note that I am vegan",
    "The teacher said: remember that I am late",
    "A note that I wrote is lost",
    "notes that I wrote are lost",
    "remembering that I am vegan is hard",
    "Is it easy to remember that I am vegan?",
    "How do I make a note that I can search?",
    "make a note of that",
    "make a note of it please",
    "Keep in mind",
    "save this to memory",
    "save the file to disk",
    "what does 'for the record' mean?",
    "/rememberall",
    "/reminder I am vegan",
    "say /remember I am vegan",
    "tell me how to remember that I have keys",
    "remember: Oslo",
    "Remember the milk",
    "Note to self: I need to buy milk",
    "I have a knee injury, please remember that.",
    "Would you remember if I told you that I'm vegan?",
    "can you remember things between chats?",
    "remember that I am vegan any dinner ideas?",
    "remember that far back",
];

#[test]
fn what_does_not_ask_to_remember_is_left_alone() {
    for message in LEFT_ALONE {
        assert_eq!(read_command(message), None, "{message:?}");
    }
}

#[test]
fn the_bare_command_asks_how_to_use_it() {
    for message in ["/remember", " /Remember ", "/remember:", "/remember that ", "/remember …", "/remember\n"]
    {
        assert_eq!(read_command(message), Some(RememberCommand::Nothing), "{message:?}");
    }
    assert_eq!(keep("/remember thatched roofs"), Some(("thatched roofs".to_owned(), true)));
}

#[test]
fn what_is_kept_is_bounded() {
    let longest = "x".repeat(MAX_MEMORY_BYTES);
    let kept = format!("/remember {longest}");
    assert!(matches!(read_command(&kept), Some(RememberCommand::Keep(_))));
    assert_eq!(read_command(&format!("/remember {longest}x")), Some(RememberCommand::TooLong));
    assert_eq!(read_command(&format!("remember that {longest} y")), None);
    let pasted = format!("remember that I am vegan. {}", "I like it. ".repeat(200));
    assert_eq!(keep(&pasted), Some(("I am vegan".to_owned(), false)));
    assert_eq!(read_command(&"remember that I am vegan. ".repeat(1000)), None);
}

#[test]
fn confirmations_are_short_and_plain() {
    let secret = secrets::find("4111 1111 1111 1111").unwrap();
    let long = "word ".repeat(200);
    insta::assert_snapshot!([
        RememberOutcome::Saved("my cat is called Miso"),
        RememberOutcome::Known("I am vegan"),
        RememberOutcome::Refused(secret),
        RememberOutcome::TooLong,
        RememberOutcome::HowTo,
    ].map(confirmation).join("\n"), @r"
    I'll remember that: my cat is called Miso
    I already know that: I am vegan
    I won't save that, because it looks like a card number. Secrets are safer in a password manager.
    That is too long for me to remember. Please say it in fewer words.
    Tell me what to remember after the command, for example: /remember I am allergic to nuts.
    ");
    let repeated = confirmation(RememberOutcome::Saved(&long));
    assert!(repeated.ends_with("word…") && repeated.chars().count() < 330, "{repeated}");
}

proptest! {
    #[test]
    fn any_message_can_be_read(message in any::<String>()) {
        read_command(&message);
    }

    #[test]
    fn what_is_kept_is_in_the_message(
        lead in "(hey, |please |can you |/)?", trigger in "remember( that|:| to)? |note that |keep in mind ",
        body in "([Ii]|my|and|so|what|should|is|vegan|you|thanks|[.,?!\n]| ){0,16}",
    ) {
        let message = format!("{lead}{trigger}{body}");
        if let Some(RememberCommand::Keep(statement)) = read_command(&message) {
            prop_assert!(message.contains(statement.words));
            prop_assert!(statement.content.len() <= MAX_MEMORY_BYTES);
            prop_assert!(!statement.content.trim().is_empty());
            prop_assert!(!statement.whole || !statement.content.contains('?') || message.starts_with('/'));
        }
    }
}

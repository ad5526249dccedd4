//! Which turns of a client are in a thread.

use jiff::Timestamp;
use protocol::EarlierStep;
use uuid::Uuid;

use super::*;

fn id(number: u128) -> MessageId {
    MessageId::new(Uuid::from_u128(number))
}

fn turn(said: &str, answers: &[&str]) -> SpokenTurn {
    let steps = answers.iter().map(|text| EarlierStep { text: (*text).to_owned(), calls: Vec::new() });
    SpokenTurn::new(&EarlierTurn { text: said.to_owned(), steps: steps.collect(), ..EarlierTurn::default() })
}

fn spoken(number: u128, role: Role, text: &str) -> SpokenMessage {
    SpokenMessage { id: id(number), role, text: text.to_owned(), parts: 0 }
}

fn tree(number: u128, parent: Option<u128>, role: Role, text: &str) -> TreeMessage {
    TreeMessage {
        id: id(number),
        parent_id: parent.map(id),
        role,
        text: text.to_owned(),
        run_id: None,
        created_at: Timestamp::UNIX_EPOCH,
    }
}

#[test]
fn a_thread_s_messages_are_turns_and_blanks_do_not_matter() {
    let stored = stored_turns(vec![
        spoken(1, Role::User, "Hi"),
        spoken(2, Role::Assistant, "Hello.\n\nHow are you?"),
        spoken(3, Role::User, "first"),
        spoken(4, Role::User, "second"),
        spoken(5, Role::Assistant, "Both."),
    ]);
    let client = [turn(" Hi\n", &["Hello.", "How are  you?"]), turn("first\n\nsecond", &["Both."])];
    assert_eq!(matched_turns(&stored, &client), 2);
    assert_eq!(stored[1].last, id(5));
    let edited = [turn("Hi", &["Hello.", "How are you?"]), turn("first", &["Both."])];
    assert_eq!(matched_turns(&stored, &edited), 1);
    assert_eq!(matched_turns(&stored, &[turn("Hi", &[])]), 0, "an answer that the client does not have");
}

#[test]
fn images_are_counted() {
    let image = protocol::NewPart::Image { image_id: None, url: Some("data:".into()), name: None };
    let with_image = EarlierTurn { text: "Look".into(), parts: vec![image], ..EarlierTurn::default() };
    let client = [SpokenTurn::new(&with_image)];
    assert_eq!(matched_turns(&stored_turns(vec![spoken(1, Role::User, "Look")]), &client), 0);
    let seen = SpokenMessage { parts: 1, ..spoken(1, Role::User, "Look") };
    assert_eq!(matched_turns(&stored_turns(vec![seen]), &client), 1);
}

#[test]
fn an_answer_that_waited_for_an_approval_may_have_gone_on() {
    let notice = format!("Let me delete it.\n\n{APPROVAL_NOTICE}delete {{}} …");
    let client = [turn("Delete it", &[&notice])];
    let went_on = [spoken(1, Role::User, "Delete it"), spoken(2, Role::Assistant, "Let me delete it. Done.")];
    assert_eq!(matched_turns(&stored_turns(went_on.to_vec()), &client), 1);
    let other = [spoken(1, Role::User, "Delete it"), spoken(2, Role::Assistant, "No.")];
    assert_eq!(matched_turns(&stored_turns(other.to_vec()), &client), 0);
}

#[test]
fn nobody_knows_the_answer_that_is_under_way() {
    let mut stored = stored_turns(vec![spoken(1, Role::User, "Hi")]);
    let client = [turn("Hi", &["Hel"])];
    assert_eq!(matched_turns(&stored, &client), 0);
    mark_under_way(&mut stored);
    assert_eq!(matched_turns(&stored, &client), 1);
    assert_eq!(matched_turns(&stored, &[turn("Other", &["Hel"])]), 0);
}

#[test]
fn the_longest_branch_that_fits_comes_first() {
    let messages = [
        tree(1, None, Role::User, "Hi"),
        tree(2, Some(1), Role::Assistant, "One."),
        tree(3, Some(1), Role::Assistant, "Other."),
        tree(4, Some(2), Role::User, "a long beginn…"),
        tree(5, Some(4), Role::Assistant, "Yes."),
        tree(6, Some(3), Role::User, "more"),
        tree(7, None, Role::User, "Not this"),
    ];
    let client = [turn("Hi", &["One."]), turn("a long beginning", &["Yes."])];
    assert_eq!(likely_leaves(&messages, &client), [(id(5), 4)]);
    let client = [turn("Hi", &["Other."]), turn("else", &[])];
    assert_eq!(likely_leaves(&messages, &client), [(id(3), 2)]);
    assert_eq!(likely_leaves(&messages, &[turn("Nothing", &[])]), []);
}

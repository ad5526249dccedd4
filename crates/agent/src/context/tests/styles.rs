//! The two styles of history, line by line.

use super::fitting::talk;
use super::*;

fn styled(style: HistoryStyle, pieces: &[(Fragment, &str)], rows: &[MessageRow], message: &str) -> Context {
    let mut context = context(rows, message.into());
    context.history.style = style;
    context.pieces.clear();
    for (fragment, text) in pieces {
        context.pieces.push(PromptPiece::new(*fragment, "thr_1", (*text).to_owned()));
    }
    context
}

fn rows(said: &[(&str, &str)]) -> Vec<MessageRow> {
    let mut rows = talk(said.len() as u64);
    rows.truncate(said.len());
    for (row, (role, text)) in rows.iter_mut().zip(said) {
        row.role = (*role).into();
        let event = match *role {
            "user" => Event::MessageUser(MessageUser {
                message_id: row.id,
                parent_id: None,
                text: (*text).into(),
                parts: vec![],
            }),
            _ => Event::StreamComplete(StreamComplete {
                message_id: row.id,
                text: (*text).into(),
                memories_referenced: vec![],
                data: None,
                usage: Usage::default(),
            }),
        };
        row.said = Some(raw_of(&event));
    }
    rows
}

fn messages(context: &Context) -> Value {
    let composed = compose(context, &model(), &RunState::default(), ROOMY, ToolOffer::Tools).unwrap();
    sent(&composed.request)["messages"].clone()
}

const CARE: &[(&str, &str)] = &[
    ("user", "What medications does grandma take?"),
    ("assistant", "Your grandmother takes Lisinopril and Metformin."),
    ("user", "When should I give her the blood pressure medicine?"),
    ("assistant", "The Lisinopril should be given at 8am each morning."),
];

#[test]
fn reference_material_is_labelled_block_by_block() {
    let mut context = styled(
        HistoryStyle::Reference,
        &[
            (Fragment::Persona, "You are a compassionate eldercare nurse."),
            (Fragment::Summaries, "User discussed grandmother's medication schedule"),
            (Fragment::Summaries, "User asked about side effects"),
            (Fragment::Pins, "Patient takes 10mg Lisinopril daily at 8am"),
            (Fragment::Pins, "Allergic to penicillin"),
        ],
        &rows(CARE),
        "Can she take it with food?",
    );
    context.custom = Some("Be brief and concise in your responses.".into());
    context.rules.order = vec![Fragment::Persona, Fragment::Custom, Fragment::Focus, Fragment::History];
    insta::assert_json_snapshot!(messages(&context));
}

#[test]
fn reference_without_older_messages_has_no_separator_and_nothing_at_all_has_no_blocks() {
    let two = rows(&CARE[2..]);
    let blocks = messages(&styled(HistoryStyle::Reference, &[], &two, "And?"));
    let roles: Vec<&str> =
        blocks.as_array().unwrap().iter().map(|said| said["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "system", "user", "assistant", "user"], "{blocks}");
    let none = messages(&styled(HistoryStyle::Reference, &[], &[], "Hello"));
    assert_eq!(none.as_array().unwrap().len(), 2, "the date and the message: {none}");
}

#[test]
fn roles_nobody_knows_are_left_out_of_both_styles() {
    let mut odd = rows(CARE);
    odd[1].role = "tool".into();
    odd[2].role = "robot".into();
    for style in [HistoryStyle::Plain, HistoryStyle::Reference] {
        let text = messages(&styled(style, &[], &odd, "And?")).to_string();
        assert!(text.contains("What medications") && !text.contains("blood pressure"), "{text}");
        assert_eq!(text.matches("And?").count(), 1, "the message is there once");
    }
}

#[test]
fn plain_history_keeps_roles_and_marks_what_is_data() {
    let context = styled(
        HistoryStyle::Plain,
        &[
            (Fragment::Instructions, "You help families."),
            (Fragment::Summaries, "The user asked about the schedule."),
            (Fragment::Pins, "Allergic to penicillin"),
            (Fragment::Domain, "Current Medications:\n- Lisinopril 10mg"),
            (Fragment::Documents, "[doc_1 \"plan.pdf\", page 3]\nGive it with food."),
        ],
        &rows(CARE),
        "Can she take it with food?",
    );
    insta::assert_json_snapshot!(messages(&context));
}

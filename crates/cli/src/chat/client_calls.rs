//! Calls that the client makes, as far as a terminal can: it asks the person what the model wants to know.

use protocol::{CallId, CallOpen, ClientCallStatus, ClientCallView};
use serde_json::{Value, json};
use tools::ASK_USER;

use super::Chat;
use super::input::ANSWER;
use super::typed_input::TypedInput;
use crate::CommandResult;
use crate::terminal_text::printable;

/// The answer to the model about a tool that a terminal does not have.
const CANNOT_RUN: &str = "this client is a terminal and cannot run this tool";

impl Chat {
    /// Answers a call, so that its run goes on. At the end of the input, or on Ctrl-C, a question goes on waiting, and so
    /// does its run.
    pub(super) async fn answer_call(&mut self, call: &CallOpen) -> CommandResult {
        let CallOpen { call_id, name, input, .. } = call;
        if !self.is_call_open(*call_id).await {
            return Ok(());
        }
        let body = if name == ASK_USER {
            json!({ "result": self.ask_person(input).await? })
        } else {
            self.screen.note(&format!("{name} can only be run by another client; the model is told so"))?;
            json!({ "error": CANNOT_RUN })
        };
        match self.api.post(&format!("/v1/calls/{call_id}/result"), &body).await {
            Ok(_) => Ok(()),
            Err(trouble) => self.screen.note(&trouble.to_string()), // another client was faster, or the server is gone
        }
    }

    /// Shows the question with its choices, and reads lines until one is an answer.
    async fn ask_person(&mut self, input: &Value) -> CommandResult<Value> {
        let question = Question::read(input);
        self.screen.question(&printable(&question.numbered_text()))?;
        self.input.hold_typed()?;
        loop {
            let TypedInput::Line(line) = self.input.answer(ANSWER, &mut self.interrupt).await? else {
                self.screen.print("")?;
                let later = self.command();
                return Err(format!(
                    "the question waits for your answer: `{later}` asks again, and a new message there discards it"
                )
                .into());
            };
            match question.answer(&line) {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => {}
                Err(reason) => self.screen.note(&reason)?,
            }
        }
    }

    /// Whether no client has answered yet. A server that cannot be asked may say so when it gets the answer.
    async fn is_call_open(&self, id: CallId) -> bool {
        let view = self.api.get(&format!("/v1/calls/{id}")).await;
        view.map_or(true, |view: ClientCallView| view.status == ClientCallStatus::Open)
    }
}

/// A question of the model.
struct Question<'a> {
    text: &'a str,
    choices: Vec<&'a str>,
    /// Whether several choices can be an answer.
    multiple: bool,
}

impl<'a> Question<'a> {
    fn read(input: &'a Value) -> Self {
        let choices = input.get("choices").and_then(Value::as_array);
        Self {
            text: input.get("question").and_then(Value::as_str).unwrap_or_default(),
            choices: choices.into_iter().flatten().filter_map(Value::as_str).collect(),
            multiple: input.get("multiple").and_then(Value::as_bool).unwrap_or(false),
        }
    }

    /// The question, with a number before each choice.
    fn numbered_text(&self) -> String {
        let mut lines = vec![self.text.to_owned()];
        lines.extend((1..).zip(&self.choices).map(|(number, choice)| format!("  {number}. {choice}")));
        if self.multiple && self.choices.len() > 1 {
            lines.push("Several numbers can be chosen, such as 1, 2.".to_owned());
        }
        lines.join("\n")
    }

    /// The answer in a line: numbers of choices, or free words. None for an empty line.
    fn answer(&self, line: &str) -> Result<Option<Value>, String> {
        let line = line.trim();
        if line.is_empty() {
            return Ok(None);
        }
        let words = line.split([',', ' ']).filter(|word| !word.is_empty());
        let numbers: Option<Vec<usize>> = words.map(|word| word.parse().ok()).collect();
        let Some(numbers) = numbers.filter(|numbers| !self.choices.is_empty() && !numbers.is_empty()) else {
            return Ok(Some(json!({ "answer": line })));
        };
        let mut chosen = Vec::new();
        for number in numbers {
            let choice = number.checked_sub(1).and_then(|at| self.choices.get(at));
            let choice = choice.ok_or_else(|| format!("there is no choice {number}"))?;
            if !chosen.contains(choice) {
                chosen.push(*choice);
            }
        }
        if chosen.len() > 1 && !self.multiple {
            return Err("choose one number, or answer in words".to_owned());
        }
        Ok(Some(json!({ "choices": chosen })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_choice_by_its_number_or_an_answer_in_words() {
        let one = json!({ "question": "Which?", "choices": ["red", "blue"] });
        let several = json!({ "question": "Which?", "choices": ["red", "blue"], "multiple": true });
        let free = json!({ "question": "How many?" });
        for (input, line, answer) in [
            (&one, " 2 ", Ok(Some(json!({ "choices": ["blue"] })))),
            (&one, "green", Ok(Some(json!({ "answer": "green" })))),
            (&one, "", Ok(None)),
            (&one, "3", Err("there is no choice 3".to_owned())),
            (&one, "0", Err("there is no choice 0".to_owned())),
            (&one, "1 2", Err("choose one number, or answer in words".to_owned())),
            (&several, "2, 1,2", Ok(Some(json!({ "choices": ["blue", "red"] })))),
            (&free, "42", Ok(Some(json!({ "answer": "42" })))),
        ] {
            assert_eq!(Question::read(input).answer(line), answer, "{line:?}");
        }
        assert_eq!(Question::read(&one).numbered_text(), "Which?\n  1. red\n  2. blue");
    }
}

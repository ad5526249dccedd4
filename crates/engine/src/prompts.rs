//! What the model saw: a run's prompt again, fragment by fragment, for its owner.

use model::{Counter, Model, PromptMessage};
use protocol::{Event, FragmentView, Principal, PromptLedger, PromptView, RunId, StepEnd, Warning};
use serde_json::{Value, json};
use store::RunRow;

use crate::context::{self, Assembled, Budget, Context, Cuts, Offer};
use crate::run::{Run, RunState};
use crate::{Engine, Error};

impl Engine {
    /// The prompt of a step, the last one unless another is asked for.
    pub async fn prompt(
        &self,
        principal: &Principal,
        run: RunId,
        step: Option<u32>,
    ) -> Result<PromptView, Error> {
        let row = self.run_row(principal, run).await?;
        let facts = self.store().facts(run).await?;
        let events: Vec<Event> =
            facts.iter().filter_map(|raw| Event::read(&raw.kind, &raw.body).ok()).collect();
        let done = RunState::replay(&events);
        let last = u32::try_from(done.steps.len()).unwrap_or(u32::MAX);
        let step = step.unwrap_or(last.max(1));
        // A pin or a memory is kept without a model: then there is no prompt.
        let unasked = done.context.is_none() || done.end.is_some() && last == 0;
        if unasked || step == 0 || step > last.max(1) {
            return Err(Error::NotFound { what: "step" });
        }
        let ended = done.steps.get(step as usize - 1).map(|done| done.step.clone());
        let before = before(&events, step);
        // The row names who answered in the end; each step says by itself who stood in.
        let asked = done.start.as_ref().and_then(|start| start.model.clone());
        let row = RunRow { model: asked.or(row.model), ..row };
        let driver = self.driver(&row)?;
        let context = driver.rebuild(&before).await?;
        Ok(view(&row, (step, ended), (&context, &driver), &before))
    }
}

/// The run as it was when a step began.
fn before(events: &[Event], step: u32) -> RunState {
    let begins = |event: &&Event| matches!(event, Event::StepStart(start) if start.step >= step);
    let until = events.iter().position(|event| begins(&event)).unwrap_or(events.len());
    RunState::replay(events.get(..until).unwrap_or_default())
}

fn view(
    row: &RunRow,
    (step, ended): (u32, Option<StepEnd>),
    (context, run): (&Context, &Run),
    state: &RunState,
) -> PromptView {
    let asked = ended.as_ref().and_then(|step| step.fallback.as_deref());
    let model = run.models.iter().find(|model| asked == Some(model.name())).or(run.models.first());
    let offer = match run.offer(state) {
        Offer::Tools if model.is_some_and(|model| model.tools(&context.tools).is_empty()) => Offer::Nothing,
        offer @ (Offer::Tools | Offer::Nothing | Offer::Words) => offer,
    };
    let ledger = ended.as_ref().and_then(|step| step.prompt.clone());
    let ledger = ledger.or_else(|| composed(context, model?, state, offer)).unwrap_or_default();
    let assembled = context::assemble(context, state, offer, &Cuts::of(&ledger));
    let counter = model.map_or(&run.counter, |model| model.tokens());
    PromptView {
        run_id: row.id,
        step,
        model: asked.map(str::to_owned).or_else(|| row.model.clone()),
        context_window: model.map_or(0, |model| model.capabilities().context_window),
        usage: ended.map(|step| step.usage),
        fragments: fragments(&assembled, counter),
        messages: messages(&assembled),
        tools: match offer {
            Offer::Tools => context.tools.iter().map(|tool| tool.name.clone()).collect(),
            Offer::Nothing | Offer::Words => Vec::new(),
        },
        warnings: context.loaded.warnings.iter().map(Warning::clone).collect(),
        ledger,
    }
}

/// What the prompt takes that is about to be sent.
fn composed(context: &Context, model: &Model, state: &RunState, offer: Offer) -> Option<PromptLedger> {
    let budget = Budget::of_window(model.capabilities().context_window, context.settings.max_tokens);
    context::compose(context, model, state, budget, offer).ok().map(|composed| composed.ledger)
}

fn fragments(assembled: &Assembled, counter: &Counter) -> Vec<FragmentView> {
    let view = |name: &str, tokens: usize, text: String| FragmentView {
        name: name.into(),
        tokens: tokens as u64,
        text,
    };
    let texts = |parts: &[(&'static str, String)]| -> Vec<FragmentView> {
        parts.iter().map(|(name, text)| view(name, counter.text(text), text.clone())).collect()
    };
    let said = |name: &str, messages: &[PromptMessage]| -> Option<FragmentView> {
        let tokens = messages.iter().map(|message| counter.message(message)).sum();
        let text: Vec<String> = messages.iter().map(written).collect();
        (!messages.is_empty()).then(|| view(name, tokens, text.join("\n\n")))
    };
    let mut out = texts(&assembled.system);
    out.extend(said("history", &assembled.history));
    out.extend(texts(&assembled.before));
    out.push(view("message", counter.text(&assembled.message), assembled.message.clone()));
    out.extend(said("steps", &assembled.steps));
    out
}

fn written(message: &PromptMessage) -> String {
    match message {
        PromptMessage::System(text) => format!("system: {text}"),
        PromptMessage::User(text) => format!("user: {text}"),
        PromptMessage::Assistant { text, exchanges, .. } => {
            let calls = exchanges.iter().map(|call| {
                format!("\ncalled {} with {}\nresult: {}", call.name, call.input, call.result.text)
            });
            format!("assistant: {text}{}", calls.collect::<String>())
        }
    }
}

fn messages(assembled: &Assembled) -> Vec<Value> {
    let mut out = Vec::new();
    let system = assembled.system();
    if !system.is_empty() {
        out.push(json!({ "role": "system", "content": system }));
    }
    for message in assembled.messages() {
        match message {
            PromptMessage::System(text) => out.push(json!({ "role": "system", "content": text })),
            PromptMessage::User(text) => out.push(json!({ "role": "user", "content": text })),
            PromptMessage::Assistant { text, exchanges, .. } => {
                let call =
                    |call: &model::Exchange| json!({ "id": call.id, "name": call.name, "input": call.input });
                let calls: Vec<Value> = exchanges.iter().map(call).collect();
                out.push(match calls.is_empty() {
                    true => json!({ "role": "assistant", "content": text }),
                    false => json!({ "role": "assistant", "content": text, "toolCalls": calls }),
                });
                out.extend(exchanges.iter().map(|call| {
                    json!({ "role": "tool", "callId": call.id, "name": call.name, "content": call.result.text })
                }));
            }
        }
    }
    out
}

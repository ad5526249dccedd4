//! The prompt that the model saw: a run's prompt again, fragment by fragment, for its owner.

use std::sync::Arc;

use model::{Counter, Model, PromptImage, PromptMessage, UserTurn};
use protocol::{Event, FragmentView, PromptLedger, PromptView, StepEnd, Warning};
use serde_json::{Value, json};
use store::RunRow;

use crate::Error;
use crate::app_revisions::app_of_run;
use crate::context::{self, Assembled, Context, Cuts, PromptBudget, ToolOffer};
use crate::run::Run;
use crate::state::RunState;
use crate::unseen_images::IMAGES;
use crate::world::World;

/// The prompt of a step of a run, the last one unless another is asked for.
pub async fn prompt_of_step(world: &Arc<World>, row: RunRow, step: Option<u32>) -> Result<PromptView, Error> {
    let facts = world.store.facts(row.id).await?;
    let events: Vec<Event> = facts.iter().filter_map(|raw| Event::read(&raw.kind, &raw.body).ok()).collect();
    let done = RunState::replay(&events);
    let last = u32::try_from(done.steps.len()).unwrap_or(u32::MAX);
    let step = step.unwrap_or(last.max(1));
    // A pin or a memory is kept without a model: then there is no prompt.
    let unasked = done.context.is_none() || done.end.is_some() && last == 0;
    if unasked || step == 0 || step > last.max(1) {
        return Err(Error::NotFound { what: "step" });
    }
    let ended = done.steps.get(step as usize - 1).map(|done| done.step.clone());
    let before = state_before(&events, step);
    // The row names who answered in the end; each step says by itself who stood in.
    let asked = done.start.as_ref().and_then(|start| start.model.clone());
    let row = RunRow { model: asked.or(row.model), ..row };
    let serving = app_of_run(world, &row, &done).await?.ok_or(Error::NotFound { what: "app" })?;
    let run = Run::new((world, &serving), &row, &done, None);
    let context = run.rebuild(&before).await?;
    Ok(view(&row, (step, ended), (&context, &run), &before))
}

/// The run as it was when a step began.
fn state_before(events: &[Event], step: u32) -> RunState {
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
    let (asked_offer, ledger) = (run.offer(state), ended.as_ref().and_then(|step| step.prompt.clone()));
    let ledger = ledger.or_else(|| composed_ledger(context, model?, state, asked_offer)).unwrap_or_default();
    let (tools, offer) = match model {
        Some(model) => context::offered_tools(context, model, state, asked_offer),
        None if asked_offer == ToolOffer::Tools => (Arc::clone(&context.tools), asked_offer),
        None => (Arc::default(), asked_offer),
    };
    let assembled = context::assemble(context, state, offer, &Cuts::of(&ledger));
    let counter = model.map_or(&run.world.counter, |model| model.tokens());
    PromptView {
        run_id: row.id,
        step,
        model: asked.map(str::to_owned).or_else(|| row.model.clone()),
        context_window: model.map_or(0, |model| model.capabilities().context_window),
        usage: ended.map(|step| step.usage),
        fragments: fragments(&assembled, counter),
        messages: messages(&assembled),
        tools: tools.iter().map(|tool| tool.name.clone()).collect(),
        warnings: context.loaded.warnings.iter().map(Warning::clone).collect(),
        ledger,
    }
}

/// The tokens of the prompt that is about to be sent.
fn composed_ledger(
    context: &Context,
    model: &Model,
    state: &RunState,
    offer: ToolOffer,
) -> Option<PromptLedger> {
    let budget = PromptBudget::of_window(model.capabilities().context_window, context.settings.max_tokens);
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
        let text: Vec<String> = messages.iter().map(message_text).collect();
        (!messages.is_empty()).then(|| view(name, tokens, text.join("\n\n")))
    };
    let mut out = texts(&assembled.system);
    out.extend(said("history", &assembled.history));
    out.extend(texts(&assembled.before));
    out.push(view("message", counter.text(&assembled.message.text), assembled.message.text.clone()));
    if !assembled.message.images.is_empty() {
        let images = &assembled.message.images;
        let tokens = images.iter().map(|image| counter.image(image.width, image.height)).sum();
        let lines: Vec<String> = images.iter().map(image_text).collect();
        out.push(view(IMAGES, tokens, lines.join("\n")));
    }
    out.extend(said("steps", &assembled.steps));
    out
}

fn message_text(message: &PromptMessage) -> String {
    match message {
        PromptMessage::System(text) => format!("system: {text}"),
        PromptMessage::User(said) => format!("user: {}", user_text(said)),
        PromptMessage::Assistant { text, exchanges, .. } => {
            let calls = exchanges.iter().map(|call| {
                format!("\ncalled {} with {}\nresult: {}", call.name, call.input, call.result.text)
            });
            format!("assistant: {text}{}", calls.collect::<String>())
        }
    }
}

/// A message of the user with a line in place of each image: its bytes are not shown here.
fn user_text(said: &UserTurn) -> String {
    let text = Some(said.text.clone()).filter(|text| !text.is_empty());
    said.images.iter().map(image_text).chain(text).collect::<Vec<_>>().join("\n")
}

fn image_text(image: &PromptImage) -> String {
    format!("[image {}: {}, {}x{}]", image.id, image.media_type, image.width, image.height)
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
            PromptMessage::User(said) => out.push(json!({ "role": "user", "content": user_text(&said) })),
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

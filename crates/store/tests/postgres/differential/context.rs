//! Operations on parts of prompts: personas, pins, summaries, kept texts, and a whole prompt.

use protocol::{Ids as _, Principal, Scope, Summary};
use serde_json::Value;
use store::{MAX_PERSONA_BYTES, MAX_PIN_BYTES, NewPersonaRow, NewPinRow};

use super::generator::ComparedPlan;

pub(super) async fn put_persona(plan: &mut ComparedPlan) {
    let known = plan.pick(|known| &known.personas).filter(|_| plan.random.bool());
    let (scope, id) = known.unwrap_or_else(|| (plan.scope(), plan.name()));
    let (scope, once) = (plan.near(scope), plan.once());
    let prompt = plan.bounded_text(MAX_PERSONA_BYTES);
    let (name, settings) = (plan.countable_text(), Value::Object(plan.object()));
    let persona = NewPersonaRow { id: id.clone(), name, prompt, settings };
    let put = if plan.random.bool() {
        ask!(plan, add_persona(&scope, persona.clone(), once.clone()))
    } else {
        ask!(plan, change_persona(&scope, persona.clone(), once.clone()))
    };
    if put.is_some() {
        plan.known.personas.push((scope, id));
    }
}

pub(super) async fn look_at_personas(plan: &mut ComparedPlan) {
    let known = plan.pick(|known| &known.personas);
    let (scope, id) = known.unwrap_or_else(|| (plan.scope(), plan.name()));
    match plan.random.u32(..4) {
        0 => {
            let (scope, once) = (plan.near(scope), plan.once());
            ask!(plan, delete_persona(&scope, &id, once.clone()));
        }
        1 => drop(ask!(plan, persona(&scope, &id))),
        _ => {
            let after = plan.maybe(|plan| plan.random.u64(..5));
            let page = plan.page(after);
            ask!(plan, personas(&scope, page));
        }
    }
}

pub(super) async fn pin(plan: &mut ComparedPlan) {
    let (scope, thread) = plan.some_thread();
    let (scope, once) = (plan.near(scope), plan.once());
    let (text, thread) = (plan.bounded_text(MAX_PIN_BYTES), plan.maybe(|_| thread));
    let pin = NewPinRow { id: plan.ids.pin(), thread, text };
    if let Some(view) = ask!(plan, add_pin(&scope, pin.clone(), once.clone())) {
        plan.known.pins.push((scope, view.id));
    }
}

pub(super) async fn look_at_pins(plan: &mut ComparedPlan) {
    let (scope, thread) = plan.some_thread();
    match plan.random.u32(..3) {
        0 => {
            let (scope, id) = plan.thing(|known| &known.pins, |ids| ids.pin());
            let (principal, once) = (plan.principal_of(&scope), plan.once());
            ask!(plan, delete_pin(&principal, id, once.clone()));
        }
        1 => drop(ask!(plan, pins(&scope, Some(thread)))),
        _ => {
            let after = plan.maybe(|plan| plan.random.u64(..5));
            let (page, thread) = (plan.page(after), plan.maybe(|_| thread));
            ask!(plan, pin_page(&scope, thread, page));
        }
    }
}

/// A summary of the messages of a claimed job's thread.
pub(super) async fn summarise(plan: &mut ComparedPlan) {
    let Some(job) = plan.pick(|known| &known.jobs) else { return };
    let thread = job.thread.unwrap_or_else(|| plan.ids.thread());
    let page = plan.page(None);
    let messages = plan.tree(thread, page).await;
    let all = ask!(plan, summaries(thread, true)).unwrap_or_default();
    let summary = match (messages.first(), messages.last()) {
        (Some(first), Some(last)) => {
            let merges = plan.once_in(3);
            let id = plan.ids.summary();
            let summary = Summary {
                summary_id: id,
                level: u32::from(merges),
                after_message_id: first.parent,
                from_message_id: first.id,
                to_message_id: last.id,
                from: first.seq,
                to: last.seq,
                messages: u32::try_from(messages.len()).unwrap(),
                merged: if merges { all.iter().map(|row| row.id).collect() } else { vec![] },
                hash: id.uuid().simple().to_string(),
            };
            Some((summary, plan.text()))
        }
        _ => None,
    };
    let spent = plan.spent();
    ask!(plan, summarise(&job, summary.clone(), spent.clone()));
    let (all, after) = (plan.random.bool(), plan.maybe(|plan| plan.random.u64(..3)));
    let page = plan.page(after);
    ask!(plan, summary_page(thread, all, page));
}

pub(super) async fn look_at_prompt(plan: &mut ComparedPlan) {
    let (scope, thread) = plan.some_thread();
    let everywhere = Scope { app: protocol::AppId::new(""), user: scope.user.clone() };
    let leaf = plan.message_in(thread);
    // PostgreSQL hides the rows of another user's thread here, and SQLite cannot. The callers have checked the thread.
    let owner = Principal::authenticated(scope.user.clone());
    if ask!(plan, thread(&owner, thread)).is_some_and(|row| row.scope.user == scope.user) {
        ask!(plan, prompt_rows(&scope, &everywhere, (thread, leaf), 5));
    }
    let known = plan.pick(|known| &known.texts);
    let (scope, named) = known.unwrap_or_else(|| (plan.scope(), (plan.name(), [0; 16])));
    let named = vec![named, (plan.name(), [1; 16])];
    ask!(plan, texts(&scope, &named));
}

//! The kinds of operations, and how often each is drawn.

use std::pin::Pin;

use super::generator::ComparedPlan;
use super::{
    access, background, context, documents, memories, recorded_runs, threads, together, tool_calls, uploads,
    user_things,
};

/// An operation under way.
type PlayedOperation<'p> = Pin<Box<dyn Future<Output = ()> + 'p>>;

pub(super) struct OperationKind {
    pub(super) name: &'static str,
    /// How often it is drawn, compared with the others.
    pub(super) weight: u32,
    pub(super) play: for<'p> fn(&'p mut ComparedPlan) -> PlayedOperation<'p>,
}

macro_rules! kinds {
    ($($weight:literal $module:ident::$name:ident,)*) => {
        pub(super) const KINDS: &[OperationKind] = &[$(OperationKind {
            name: concat!(stringify!($module), "::", stringify!($name)),
            weight: $weight,
            play: |plan| Box::pin($module::$name(plan)),
        }),*];
    };
}

kinds! {
    20 threads::create,
    12 threads::import,
    20 threads::change,
    10 threads::delete,
    10 threads::choose_head,
    20 threads::list,
    40 threads::look,
    80 recorded_runs::submit,
    40 recorded_runs::stream,
    60 recorded_runs::step,
    15 recorded_runs::other_event,
    40 recorded_runs::finish,
    20 recorded_runs::stop,
    8 recorded_runs::force_end,
    10 recorded_runs::reserve,
    20 recorded_runs::look,
    60 tool_calls::call,
    25 tool_calls::load_context,
    30 tool_calls::ask_user,
    40 tool_calls::decide,
    20 tool_calls::answer_call,
    25 tool_calls::undo,
    15 tool_calls::end_action,
    40 tool_calls::look,
    6 tool_calls::misplaced_result,
    30 user_things::put_record,
    30 user_things::put_file,
    15 user_things::put_profile,
    30 user_things::look_at_records,
    30 user_things::search_records,
    20 user_things::look_at_files,
    35 memories::add,
    20 memories::edit,
    20 memories::forget_or_restore,
    15 memories::purge,
    25 memories::extract,
    12 memories::snapshot,
    30 memories::look,
    20 context::put_persona,
    15 context::look_at_personas,
    15 context::pin,
    15 context::look_at_pins,
    20 context::summarise,
    15 context::look_at_prompt,
    20 documents::add,
    8 documents::delete,
    20 documents::look,
    20 documents::knowledge,
    15 uploads::add_image,
    20 uploads::look_at_images,
    20 uploads::put_vectors,
    15 uploads::look_at_recall,
    15 access::add_key,
    25 access::change_key,
    15 access::session,
    30 access::look,
    20 access::mcp,
    20 access::credential,
    20 background::schedule,
    40 background::claim,
    40 background::end_job,
    12 background::look_at_jobs,
    8 background::watch_webhooks,
    15 background::look_at_notices,
    25 background::look_at_usage,
    8 background::look_at_all_runs,
    35 background::sweep,
    4 background::restart,
    5 background::adopt,
    20 together::play,
}

//! Context and state in, request out. Pure; total over any history; only a prompt that cannot fit is an error.

use std::sync::Arc;

use app::Fragment;
use model::{AnswerFormat, Model, ModelRequest, PromptMessage, SchemaSupport, ToolSpec};
use protocol::{FragmentCost, LeftOut, OutputFormat, PromptLedger};

use super::assemble::{Assembled, FORMAT, MESSAGE, STEPS, TOOLS, assemble};
use super::history::{MAX_RESULT_BYTES, droppable_parts};
use super::{Context, ToolOffer, WantedAnswer, history, parts};
use crate::state::RunState;
use crate::unseen_images;

/// Bytes to which this run's own tool results are cut when the prompt would not fit otherwise, one after the other. They
/// come before earlier turns, so that a prompt begins the same in every step as long as it can.
const RESULT_BYTES: [usize; 4] = [MAX_RESULT_BYTES, 4096, 1024, 256];

/// Fragments that a prompt can do without, the first ones first.
const OPTIONAL: [Fragment; 10] = [
    Fragment::Recalled,
    Fragment::Knowledge,
    Fragment::Documents,
    Fragment::Domain,
    Fragment::Summaries,
    Fragment::Pins,
    Fragment::Snapshot,
    Fragment::Memories,
    Fragment::Proposals,
    Fragment::Profile,
];

/// Bytes of a message that are shown at least.
const MIN_MESSAGE_BYTES: usize = 256;

/// Bytes of text for a token that must go; more than most have, so that one cut is enough.
const BYTES_PER_TOKEN: usize = 5;

/// Times a message is cut shorter before the prompt is given up.
const MAX_MESSAGE_CUTS: usize = 8;

/// The instruction for a model when any JSON object will do.
const JSON_IN_WORDS: &str = "Answer with one JSON object and nothing around it.";

/// Tokens a prompt may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PromptBudget {
    pub(crate) prompt: usize,
}

impl PromptBudget {
    /// The tokens that a context window leaves once the answer has its room.
    pub(crate) fn of_window(window: u32, answer: Option<u32>) -> Self {
        let window = window as usize;
        let answer = answer.map_or(window / 4, |tokens| tokens as usize).min(window / 2);
        Self { prompt: window - answer }
    }
}

/// The parts that are left out of a prompt so that it fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cuts {
    /// Bytes of this run's own results.
    pub(crate) result_bytes: usize,
    /// Earlier exchanges, the oldest ones.
    pub(crate) dropped: usize,
    pub(crate) without: Vec<Fragment>,
    /// Bytes of the message.
    pub(crate) message_bytes: Option<usize>,
    /// Images of earlier messages that are shown beside those of the message. None if no image is shown.
    pub(crate) images: Option<usize>,
}

impl Default for Cuts {
    fn default() -> Self {
        Self {
            result_bytes: MAX_RESULT_BYTES,
            dropped: 0,
            without: Vec::new(),
            message_bytes: None,
            images: None,
        }
    }
}

impl Cuts {
    /// As a step has noted them.
    pub(crate) fn of(ledger: &PromptLedger) -> Self {
        let bytes = |bytes: Option<u64>| bytes.and_then(|bytes| usize::try_from(bytes).ok());
        Self {
            result_bytes: bytes(ledger.result_bytes).unwrap_or(MAX_RESULT_BYTES),
            dropped: usize::try_from(ledger.dropped_exchanges).unwrap_or(usize::MAX),
            without: ledger.without.iter().filter_map(|name| Fragment::parse(name)).collect(),
            message_bytes: bytes(ledger.message_bytes),
            images: bytes(ledger.earlier_images),
        }
    }
}

/// The message, the instructions and this run's own steps alone are more than the model takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the message is too long for this model: about {needed} tokens, and {limit} fit; shorten the message, or \
     choose another model"
)]
pub(crate) struct PromptTooLong {
    pub(crate) needed: usize,
    pub(crate) limit: usize,
}

/// A request, what it is to be answered with, and what it is made of.
#[derive(Debug)]
pub(crate) struct Composed {
    pub(crate) request: ModelRequest,
    pub(crate) wanted: WantedAnswer,
    pub(crate) ledger: PromptLedger,
}

/// The request for this model. Where not even the instructions fit beside the tools, it is asked without them: better
/// an answer in words than none.
pub(crate) fn compose(
    context: &Context,
    model: &Model,
    state: &RunState,
    budget: PromptBudget,
    offer: ToolOffer,
) -> Result<Composed, PromptTooLong> {
    let composed = compose_offering(context, model, state, budget, offer);
    if composed.is_ok() || offer == ToolOffer::Words || model.tools(&context.tools).is_empty() {
        return composed;
    }
    self::compose_offering(context, model, state, budget, ToolOffer::Words).map(|mut without| {
        let what = "all of them: they do not fit".to_owned();
        without.ledger.left_out.push(LeftOut { fragment: TOOLS.into(), what, tokens: 0 });
        without
    })
}

fn compose_offering(
    context: &Context,
    model: &Model,
    state: &RunState,
    budget: PromptBudget,
    offer: ToolOffer,
) -> Result<Composed, PromptTooLong> {
    let (tools, offer) = offered_tools(context, model, state, offer);
    let (wanted, format, told) = form(context, model, &tools);
    let counter = model.tokens();
    let fixed = [
        (TOOLS, counter.tools(&tools)),
        // Tokens around the system prompt and the answer too.
        (FORMAT, counter.system(&told) + counter.message(&frame()) + counter.format(&format)),
    ];
    let fixed = fixed.map(|(name, tokens)| FragmentCost { fragment: name.into(), tokens: tokens as u64 });
    let fit = Fit { context, model, state, offer, limit: budget.prompt };
    let (assembled, cuts, mut costs) = fit.run(fixed.iter().map(|cost| cost.tokens).sum())?;
    costs.extend(fixed.into_iter().filter(|cost| cost.tokens > 0));
    let mut system = assembled.system();
    if !told.is_empty() {
        system = format!("{system}\n\n{told}");
    }
    let ledger = ledger(&fit, &cuts, costs);
    let request = model.request(system, assembled.messages(), &context.settings);
    Ok(Composed { request: ModelRequest { tools, format, ..request }, wanted, ledger })
}

/// The tools of the request, and what the prompt says of tools. A model that decides about tools apart from its answer gets
/// a prompt without a word about them, and answers in words once there is a result: small models call again and again.
pub(crate) fn offered_tools(
    context: &Context,
    model: &Model,
    state: &RunState,
    offer: ToolOffer,
) -> (Arc<[ToolSpec]>, ToolOffer) {
    let is_apart = model.capabilities().most_tools.is_some();
    let tools = match offer {
        ToolOffer::Tools if is_apart && state.has_used_tools() => Arc::default(),
        ToolOffer::Tools => model.tools_for(&context.tools, &context.message),
        ToolOffer::Nothing | ToolOffer::Words => Arc::default(),
    };
    let is_silent = offer == ToolOffer::Tools && (is_apart || tools.is_empty());
    (tools, if is_silent { ToolOffer::Nothing } else { offer })
}

/// The tokens of a prompt without half of what can be left out of it.
pub(crate) fn half(ledger: &PromptLedger) -> usize {
    let optional = |cost: &&FragmentCost| {
        let fragment = Fragment::parse(&cost.fragment);
        [MESSAGE, STEPS].contains(&cost.fragment.as_str())
            || fragment.is_some_and(|fragment| fragment == Fragment::History || OPTIONAL.contains(&fragment))
    };
    let optional: u64 = ledger.fragments.iter().filter(optional).map(|cost| cost.tokens).sum();
    usize::try_from(ledger.tokens - optional.div_ceil(2)).unwrap_or(usize::MAX)
}

/// A message without words: what goes around one.
fn frame() -> PromptMessage {
    PromptMessage::System(String::new())
}

fn ledger(fit: &Fit<'_>, cuts: &Cuts, costs: Vec<FragmentCost>) -> PromptLedger {
    let mut left_out = fit.context.loaded.left_out.clone();
    if cuts.dropped > 0 {
        let tokens = fit.dropped_tokens(cuts.dropped) as u64;
        let what = format!("{} more exchanges, the oldest", cuts.dropped);
        left_out.push(LeftOut { fragment: Fragment::History.name().into(), what, tokens });
    }
    left_out.extend(fit.left_out_images(cuts));
    PromptLedger {
        tokens: costs.iter().map(|cost| cost.tokens).sum(),
        limit: fit.limit as u64,
        exact: fit.model.tokens().is_exact(),
        fragments: costs,
        left_out,
        result_bytes: (cuts.result_bytes < MAX_RESULT_BYTES).then_some(cuts.result_bytes as u64),
        dropped_exchanges: cuts.dropped as u64,
        without: cuts.without.iter().map(|fragment| fragment.name().into()).collect(),
        message_bytes: cuts.message_bytes.map(|bytes| bytes as u64),
        earlier_images: cuts.images.map(|images| images as u64),
    }
}

/// The prompt that must fit, and where.
struct Fit<'a> {
    context: &'a Context,
    model: &'a Model,
    state: &'a RunState,
    offer: ToolOffer,
    limit: usize,
}

impl Fit<'_> {
    /// Leaves out more and more until it fits.
    fn run(&self, fixed: u64) -> Result<(Assembled, Cuts, Vec<FragmentCost>), PromptTooLong> {
        let counter = self.model.tokens();
        let sees = self.model.capabilities().vision && parts::has_images(self.context);
        let images = sees.then(|| parts::affordable_images(self.context, counter, self.limit));
        let mut cuts = Cuts { images, ..Cuts::default() };
        let mut message_cuts = 0;
        loop {
            let assembled = assemble(self.context, self.state, self.offer, &cuts);
            let costs = assembled.costs(counter);
            let needed = fixed + costs.iter().map(|cost| cost.tokens).sum::<u64>();
            let needed = usize::try_from(needed).unwrap_or(usize::MAX);
            let Some(over) = needed.checked_sub(self.limit).filter(|over| *over > 0) else {
                return Ok((assembled, cuts, costs));
            };
            let cut_already = cuts.message_bytes.is_some();
            if !self.tighten(&mut cuts, over) || message_cuts > MAX_MESSAGE_CUTS {
                return Err(PromptTooLong { needed, limit: self.limit });
            }
            message_cuts += usize::from(cut_already);
        }
    }

    /// Leaves out the next thing. False when there is nothing left that could go.
    fn tighten(&self, cuts: &mut Cuts, over: usize) -> bool {
        let has_results = self.state.steps.iter().any(|done| !done.results.is_empty());
        let shorter = RESULT_BYTES.into_iter().find(|bytes| *bytes < cuts.result_bytes);
        if let (Some(bytes), true) = (shorter, has_results) {
            cuts.result_bytes = bytes;
            return true;
        }
        if let Some(images) = cuts.images.filter(|images| *images > 0) {
            cuts.images = Some(images / 2);
            return true;
        }
        let all = droppable_parts(self.context);
        if cuts.dropped < all {
            cuts.dropped = self.drop_for(cuts.dropped, over);
            return true;
        }
        let present =
            |fragment: &&Fragment| self.context.pieces.iter().any(|piece| piece.fragment == **fragment);
        let next = OPTIONAL.iter().filter(present).find(|fragment| !cuts.without.contains(fragment));
        if let Some(next) = next {
            cuts.without.push(*next);
            return true;
        }
        let shown = cuts.message_bytes.unwrap_or(self.context.message.len());
        if shown <= MIN_MESSAGE_BYTES {
            return false;
        }
        let less = over.saturating_mul(BYTES_PER_TOKEN);
        cuts.message_bytes = Some(shown.saturating_sub(less).max(shown / 8).max(MIN_MESSAGE_BYTES));
        true
    }

    /// The number of exchanges that must be dropped to save `over` tokens.
    fn drop_for(&self, dropped: usize, over: usize) -> usize {
        let mut gone = 0;
        let costs = history::costs(self.context, self.model.tokens());
        for (index, cost) in costs.iter().enumerate().skip(dropped) {
            gone += cost;
            if gone >= over {
                return index + 1;
            }
        }
        costs.len()
    }

    /// Images that the model is not shown: the message's own if it sees none, and those of earlier messages.
    fn left_out_images(&self, cuts: &Cuts) -> Vec<LeftOut> {
        let (context, counter) = (self.context, self.model.tokens());
        let own = context.parts.iter().filter(|part| part.image().is_some()).count();
        let unseen = (own > 0 && cuts.images.is_none())
            .then(|| unseen_images::left_out(own, parts::image_tokens(&context.parts, counter)));
        let earlier = parts::hidden_images(&context.history.turns, cuts.images.unwrap_or(0));
        let earlier = (earlier > 0).then(|| LeftOut {
            fragment: Fragment::History.name().into(),
            what: format!("{earlier} images of earlier messages"),
            tokens: 0,
        });
        unseen.into_iter().chain(earlier).collect()
    }

    fn dropped_tokens(&self, count: usize) -> usize {
        history::costs(self.context, self.model.tokens()).iter().take(count).sum()
    }
}

/// The answer that this model is to give, how its provider is told, and what it is told itself.
pub(crate) fn form(
    context: &Context,
    model: &Model,
    tools: &[ToolSpec],
) -> (WantedAnswer, AnswerFormat, String) {
    let Some(shape) = &context.shape else {
        return match context.settings.output_format {
            // Providers insist that the prompt says so too.
            Some(OutputFormat::Json) => (WantedAnswer::Words, AnswerFormat::Json, JSON_IN_WORDS.into()),
            Some(OutputFormat::Text) | None => (WantedAnswer::Words, AnswerFormat::Text, String::new()),
        };
    };
    let object = || WantedAnswer::Object(Arc::clone(shape));
    match model.schema_support() {
        SchemaSupport::WithTools => (object(), shape.format(), shape.told_beside()),
        SchemaSupport::Alone if tools.is_empty() => (object(), shape.format(), shape.told_beside()),
        SchemaSupport::Alone => (WantedAnswer::Calls, AnswerFormat::Text, String::new()),
        SchemaSupport::Prompt => (object(), AnswerFormat::Text, shape.in_words()),
    }
}

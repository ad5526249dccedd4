//! The capabilities of a model, and its price.

use protocol::{Cost, Usage};
use serde::Deserialize;

use crate::Tokens;

/// Tokens a price is for.
const PER: f64 = 1e6;

/// The kind of place at which a model runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderKind {
    Cloud,
    Local,
}

impl ProviderKind {
    pub fn name(self) -> &'static str {
        match self {
            ProviderKind::Cloud => "cloud",
            ProviderKind::Local => "local",
        }
    }
}

/// The capabilities of a model. Nothing else is asked of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Capabilities {
    /// Its answer comes piece by piece.
    pub streaming: bool,
    pub tools: bool,
    /// The number of tools that it is offered at once: those that fit the message best. It decides about them apart from
    /// its answer, so its prompt says nothing of tools. None for models that are offered all.
    pub most_tools: Option<usize>,
    pub structured: SchemaSupport,
    pub vision: bool,
    /// The model takes temperature, top-p and penalties; models that think at length refuse them.
    pub sampling: bool,
    /// The model takes word of how long to think; to one that cannot think, that is not sent.
    pub thinking: bool,
    /// The model writes tool calls as JSON into its text, where they are to be found.
    pub calls_in_text: bool,
    /// Tokens it takes, prompt and answer together.
    pub context_window: u32,
    /// Tokens of the longest answer.
    pub max_output: Option<u32>,
    /// How its tokens are counted; none if its name is to say.
    pub tokens: Option<Tokens>,
}

/// How a model is held to a JSON Schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaSupport {
    /// The model takes tools and a schema in one call.
    WithTools,
    /// The model takes a schema, but not together with tools.
    Alone,
    /// The model can only be told of the schema in words.
    Prompt,
}

impl SchemaSupport {
    pub fn name(self) -> &'static str {
        match self {
            SchemaSupport::WithTools => "with_tools",
            SchemaSupport::Alone => "alone",
            SchemaSupport::Prompt => "prompt",
        }
    }
}

impl Capabilities {
    /// The capabilities of a model that the configuration does not describe.
    pub fn of_kind(kind: ProviderKind) -> Self {
        let cloud = kind == ProviderKind::Cloud;
        Self {
            streaming: true,
            // Small local models call tools at random; one that can says so in its entry.
            tools: cloud,
            most_tools: None,
            structured: if cloud { SchemaSupport::WithTools } else { SchemaSupport::Alone },
            vision: false,
            sampling: true,
            thinking: true,
            calls_in_text: false,
            context_window: if cloud { 128_000 } else { 8_192 },
            max_output: None,
            tokens: None,
        }
    }
}

/// US dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    pub input: f64,
    /// Tokens of the prompt that the provider had kept.
    pub cached_input: f64,
    pub output: f64,
    /// The prices in place of these once the prompt is long, if there are any.
    #[serde(default)]
    pub long: Option<LongPrice>,
}

/// US dollars for a million tokens of a call with a long prompt.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LongPrice {
    /// A prompt of more tokens is long.
    pub above: u64,
    pub input: f64,
    pub cached_input: f64,
    pub output: f64,
}

impl Price {
    /// One price for prompts of every length.
    pub const fn flat(input: f64, cached_input: f64, output: f64) -> Self {
        Self { input, cached_input, output, long: None }
    }

    /// The price for a prompt of `input_tokens` tokens.
    pub fn for_prompt(&self, input_tokens: u64) -> Self {
        match self.long {
            Some(long) if input_tokens > long.above => Self::flat(long.input, long.cached_input, long.output),
            Some(_) | None => *self,
        }
    }

    pub fn cost(&self, usage: &Usage) -> Cost {
        let cached = usage.cached_input_tokens.min(usage.input_tokens);
        let fresh = usage.input_tokens - cached;
        let price = self.for_prompt(usage.input_tokens);
        let dollars = fresh as f64 * price.input
            + cached as f64 * price.cached_input
            + usage.output_tokens as f64 * price.output;
        Cost::from_dollars(dollars / PER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_tokens_cost_what_kept_tokens_cost() {
        let price = Price::flat(2.0, 0.5, 8.0);
        let usage = Usage {
            input_tokens: 1_000_000,
            cached_input_tokens: 400_000,
            output_tokens: 1_000,
            ..Usage::default()
        };
        assert!((price.cost(&usage).dollars() - (1.2 + 0.2 + 0.008)).abs() < 1e-9);
        let absurd = Usage { input_tokens: 1, cached_input_tokens: 5, ..Usage::default() };
        assert_eq!(price.cost(&absurd), Cost(500), "more kept than sent is a mistake");
    }

    #[test]
    fn a_long_prompt_has_the_price_of_long_prompts() {
        let long = LongPrice { above: 1000, input: 4.0, cached_input: 1.0, output: 12.0 };
        let price = Price { long: Some(long), ..Price::flat(2.0, 0.5, 8.0) };
        assert_eq!([1000, 1001].map(|tokens| price.for_prompt(tokens).output), [8.0, 12.0]);
        let usage = |input_tokens| Usage { input_tokens, output_tokens: 10, ..Usage::default() };
        assert!((price.cost(&usage(1000)).dollars() - (1000.0 * 2.0 + 10.0 * 8.0) / PER).abs() < 1e-9);
        assert!((price.cost(&usage(1001)).dollars() - (1001.0 * 4.0 + 10.0 * 12.0) / PER).abs() < 1e-9);
    }
}

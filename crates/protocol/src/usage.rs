//! The usage of model calls, in tokens and in money.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::json_fields::is_default;

/// Tokens as the provider counted them, or else an estimate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    pub cached_input_tokens: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    pub reasoning_tokens: u64,
    /// The cost in US dollars; absent if the model's price is unknown or zero.
    #[serde(rename = "costUsd", default, skip_serializing_if = "is_default")]
    #[schema(value_type = f64)]
    pub cost: Cost,
    /// Whether a part of the numbers is an estimate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

/// Money, in billionths of a US dollar, so that sums are exact; on the wire it is dollars.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost(pub u64);

impl Cost {
    const PER_DOLLAR: f64 = 1e9;

    pub fn dollars(self) -> f64 {
        self.0 as f64 / Self::PER_DOLLAR
    }

    /// The cost of an amount in US dollars. A negative amount counts as nothing, an unreasonable one as the maximum.
    pub fn from_dollars(dollars: f64) -> Self {
        Self((dollars * Self::PER_DOLLAR).round() as u64)
    }
}

impl Serialize for Cost {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.dollars())
    }
}

impl<'de> Deserialize<'de> for Cost {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        f64::deserialize(deserializer).map(Self::from_dollars)
    }
}

impl Usage {
    pub fn total(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cached_input_tokens = self.cached_input_tokens.saturating_add(other.cached_input_tokens);
        self.reasoning_tokens = self.reasoning_tokens.saturating_add(other.reasoning_tokens);
        self.cost = Cost(self.cost.0.saturating_add(other.cost.0));
        self.estimated = self.estimated || other.estimated;
    }
}

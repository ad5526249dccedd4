//! How one catalogue differs from another, in sentences for the operator who takes the newer one.

use std::fmt;

use jiff::civil::Date;

use super::catalogue::{Catalogue, KnownModel};
use crate::capabilities::Price;

/// One difference between two catalogues.
#[derive(Debug, Clone, PartialEq)]
pub enum CatalogueChange {
    Added(String),
    Removed(String),
    Priced { model: String, before: Option<Price>, after: Option<Price> },
    Retires { model: String, on: Option<Date> },
    Default { provider: String, model: Option<String> },
}

impl fmt::Display for CatalogueChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added(model) => write!(f, "added: {model}"),
            Self::Removed(model) => write!(f, "removed: {model}"),
            Self::Priced { model, before, after } => {
                write!(
                    f,
                    "price of {model}: {} is now {}",
                    price_text(before.as_ref()),
                    price_text(after.as_ref())
                )
            }
            Self::Retires { model, on: Some(day) } => write!(f, "retires: {model} on {day}"),
            Self::Retires { model, on: None } => write!(f, "retires: {model} no longer has a known end"),
            Self::Default { provider, model } => {
                write!(f, "default of {provider}: {}", model.as_deref().unwrap_or("none"))
            }
        }
    }
}

fn price_text(price: Option<&Price>) -> String {
    let Some(Price { input, cached_input, output, long }) = price else { return "none".to_owned() };
    let long = long.map(|long| {
        format!(" ({}/{}/{} above {} tokens)", long.input, long.cached_input, long.output, long.above)
    });
    format!("{input}/{cached_input}/{output}{}", long.unwrap_or_default())
}

impl Catalogue {
    /// The differences of the newer one: models that came and went, prices, ends and defaults.
    pub fn changes(&self, newer: &Self) -> Vec<CatalogueChange> {
        let added = newer.models.iter().filter(|model| self.entry(model).is_none());
        let removed = self.models.iter().filter(|model| newer.entry(model).is_none());
        let kept = newer.models.iter().filter_map(|model| Some((self.entry(model)?, model)));
        let mut changes: Vec<_> =
            added.map(|model| CatalogueChange::Added(name_with_provider(model))).collect();
        changes.extend(removed.map(|model| CatalogueChange::Removed(name_with_provider(model))));
        changes.extend(kept.flat_map(|(before, after)| differences(before, after)));
        let providers = self.defaults.keys().chain(newer.defaults.keys());
        let mut providers: Vec<_> = providers.collect();
        providers.sort();
        providers.dedup();
        let other =
            providers.into_iter().filter(|name| self.defaults.get(*name) != newer.defaults.get(*name));
        changes.extend(other.map(|provider| CatalogueChange::Default {
            provider: provider.clone(),
            model: newer.defaults.get(provider).cloned(),
        }));
        changes
    }

    fn entry(&self, like: &KnownModel) -> Option<&KnownModel> {
        self.models.iter().find(|model| (&model.provider, &model.name) == (&like.provider, &like.name))
    }
}

fn name_with_provider(model: &KnownModel) -> String {
    format!("{} of {}", model.name, model.provider)
}

fn differences(before: &KnownModel, after: &KnownModel) -> Vec<CatalogueChange> {
    let price = (before.price != after.price).then(|| CatalogueChange::Priced {
        model: name_with_provider(after),
        before: before.price,
        after: after.price,
    });
    let end = (before.retires_on != after.retires_on)
        .then(|| CatalogueChange::Retires { model: name_with_provider(after), on: after.retires_on });
    price.into_iter().chain(end).collect()
}

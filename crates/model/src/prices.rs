//! The prices of models for which the configuration has no price.

use crate::known_models::{self, Catalogue};
use crate::{Capabilities, Price, ProviderKind};

/// The knowledge of the prices of a provider's models.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Prices {
    /// Nothing: it answers at an address whose prices are not known.
    #[default]
    Unknown,
    /// The list prices of the models that everybody knows.
    Known,
    /// Tokens cost nothing, as on the operator's own machine.
    Free,
}

impl Prices {
    /// The values that an operator can write.
    pub const WRITTEN: [Prices; 2] = [Prices::Known, Prices::Free];

    pub fn name(self) -> &'static str {
        match self {
            Prices::Unknown => "unknown",
            Prices::Known => "known",
            Prices::Free => "free",
        }
    }

    /// The price of a provider's model, by the provider's own name for it.
    pub fn of(self, catalogue: &Catalogue, provider: &str, id: &str) -> Option<Price> {
        match self {
            Prices::Unknown => None,
            Prices::Known => catalogue.list_price(provider, id),
            Prices::Free => Some(Price::flat(0.0, 0.0, 0.0)),
        }
    }
}

impl Catalogue {
    /// The list price. Behind a gateway, it is the price of the provider that the model's name points to.
    pub fn list_price(&self, provider: &str, id: &str) -> Option<Price> {
        let owner = match known_models::provider(provider) {
            Some(_) => provider,
            None => self.provider_of(id, |_| true)?,
        };
        self.describe(owner, id, &Capabilities::of_kind(ProviderKind::Cloud)).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_holds_where_it_is_said_to() {
        let catalogue = Catalogue::built_in();
        let id = catalogue.default_model("openai").unwrap();
        let input = |price: Option<Price>| price.map(|price| price.input);
        let own = input(catalogue.list_price("openai", id));
        assert!(own.is_some_and(|price| price > 0.0));
        assert_eq!(input(Prices::Known.of(&catalogue, "openai", id)), own);
        assert_eq!(input(Prices::Known.of(&catalogue, "gateway", id)), own, "whoever hands it on");
        assert_eq!(Prices::Known.of(&catalogue, "openrouter", id), None, "another's price");
        assert_eq!(Prices::Known.of(&catalogue, "gateway", "house-model"), None);
        assert_eq!(Prices::Unknown.of(&catalogue, "openai", id), None);
        assert_eq!(input(Prices::Free.of(&catalogue, "lan", "anything")), Some(0.0));
    }
}

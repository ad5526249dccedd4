//! The parts of a prompt: its fragments and their order, personas, and how the conversation is shown.

use protocol::PersonaSettings;
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use crate::source::bounds::{self, KEY, refusal_at};
use crate::words::word_enum;

pub(crate) const MAX_FRAGMENT_TOKENS: i64 = 1_000_000;

word_enum! {
    /// One part of a prompt.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Fragment {
        Instructions = "instructions",
        Persona = "persona",
        /// Text that a request adds to the system prompt.
        Custom = "custom",
        Snapshot = "snapshot",
        Profile = "profile",
        Memories = "memories",
        Pins = "pins",
        Summaries = "summaries",
        Proposals = "proposals",
        Date = "date",
        /// The notice that only the current message is to be answered.
        Focus = "focus",
        History = "history",
        /// The app's own sections, filled from records.
        Domain = "domain",
        Documents = "documents",
        /// Passages of the app's own documents.
        Knowledge = "knowledge",
        Recalled = "recalled",
    }
}

impl Fragment {
    /// Whether it is part of the system prompt where the app does not say; [`Fragment::ALL`] is in that order.
    fn before_history(self) -> bool {
        self < Fragment::History
    }
}

/// `[context]`: what is in a prompt, in which order, and how much of it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ContextRules {
    /// Every fragment that may be in a prompt, each once. Fragments before [`Fragment::History`] are the system
    /// prompt; fragments after it stand right before the user's message.
    #[serde(deserialize_with = "order")]
    pub order: Vec<Fragment>,
    /// Tokens that the app's sections may take together.
    #[serde(deserialize_with = "bounds::whole_number::<1, MAX_FRAGMENT_TOKENS, _, _>")]
    pub domain_tokens: usize,
    #[serde(deserialize_with = "bounds::whole_number::<1, MAX_FRAGMENT_TOKENS, _, _>")]
    pub document_tokens: usize,
    #[serde(deserialize_with = "bounds::whole_number::<1, MAX_FRAGMENT_TOKENS, _, _>")]
    pub pin_tokens: usize,
    pub documents: DocumentUse,
}

impl ContextRules {
    /// The complete order when an app names these fragments. Other fragments follow the named ones on their side of the
    /// history; without `history` among them, the named ones stay on theirs.
    pub(crate) fn complete(named: &[Fragment]) -> Vec<Fragment> {
        let boundary = named.iter().position(|fragment| *fragment == Fragment::History);
        let is_before = |place: usize, fragment: Fragment| match boundary {
            Some(boundary) => place < boundary,
            None => fragment.before_history(),
        };
        let side = |before: bool| {
            let placed = named.iter().copied().enumerate();
            let placed = placed.filter(move |(place, fragment)| is_before(*place, *fragment) == before);
            let others = Fragment::ALL.into_iter().filter(move |fragment| {
                fragment.before_history() == before
                    && *fragment != Fragment::Focus
                    && !named.contains(fragment)
            });
            placed
                .map(|(_, fragment)| fragment)
                .chain(others)
                .filter(|fragment| *fragment != Fragment::History)
        };
        side(true).chain([Fragment::History]).chain(side(false)).collect()
    }
}

impl Default for ContextRules {
    /// Fragments that change least come first, so that a provider's cache of the beginning holds.
    fn default() -> Self {
        Self {
            order: Self::complete(&[]),
            domain_tokens: 1_500,
            document_tokens: 2_000,
            pin_tokens: 500,
            documents: DocumentUse::Named,
        }
    }
}

/// The whole order, of the fragments that an app names.
fn order<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Fragment>, D::Error> {
    let names = Fragment::ALL.map(Fragment::name).join(", ");
    let mut named = Vec::new();
    for name in Vec::<Spanned<String>>::deserialize(deserializer)? {
        let message = format!("{KEY} names {:?}", name.get_ref());
        match Fragment::parse(name.get_ref()) {
            Some(fragment) if !named.contains(&fragment) => named.push(fragment),
            Some(_) => {
                let remedy = format!("write each of {names} once at most");
                return Err(refusal_at(&name.span(), format!("{message} twice"), remedy));
            }
            None => return Err(refusal_at(&name.span(), message, format!("write some of {names}"))),
        }
    }
    Ok(ContextRules::complete(&named))
}

/// Which of the user's documents are searched for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DocumentUse {
    /// Documents that the request names.
    Named,
    All,
    None,
}

/// How much of the conversation the model is shown, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryRules {
    pub style: HistoryStyle,
    /// Tokens of earlier turns, their summaries included.
    pub budget: u32,
    /// Whether and how what is older is summarised.
    pub summarise: Option<Summarise>,
}

impl HistoryRules {
    pub(crate) const DEFAULT_BUDGET: u32 = 3_000;
}

impl Default for HistoryRules {
    fn default() -> Self {
        Self {
            style: HistoryStyle::Plain,
            budget: Self::DEFAULT_BUDGET,
            summarise: Some(Summarise {
                prompt: None,
                model: None,
                after: Summarise::default_after(Self::DEFAULT_BUDGET),
            }),
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HistoryStyle {
    /// Messages as they were.
    #[default]
    Plain,
    /// Each labelled as background that is not to be answered.
    Reference,
}

/// How the older part of a conversation is summarised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summarise {
    /// How to summarise; a default when absent.
    pub prompt: Option<String>,
    /// The app's model when absent.
    pub model: Option<String>,
    /// Tokens without a summary after which the older part gets one.
    pub after: u32,
}

impl Summarise {
    /// Early enough that nothing leaves the budget before it is summarised.
    pub(crate) fn default_after(budget: u32) -> u32 {
        budget - budget / 3
    }
}

/// A named prompt with the settings that go with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Persona {
    /// The file's name.
    pub id: String,
    pub name: String,
    /// Empty for one that only sets how the model answers.
    pub prompt: String,
    /// Within the app's ranges.
    pub settings: PersonaSettings,
}

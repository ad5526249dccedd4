//! What a prompt is made of: its fragments and their order, personas, and how the conversation is shown.

use protocol::PersonaSettings;

/// One part of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fragment {
    Instructions,
    Persona,
    /// What a request adds to the system prompt.
    Custom,
    Snapshot,
    Profile,
    Memories,
    Pins,
    Summaries,
    Proposals,
    Date,
    /// That only the current message is to be answered.
    Focus,
    History,
    /// The app's own sections, filled from records.
    Domain,
    Documents,
    Recalled,
}

impl Fragment {
    pub const ALL: [Fragment; 15] = [
        Fragment::Instructions,
        Fragment::Persona,
        Fragment::Custom,
        Fragment::Snapshot,
        Fragment::Profile,
        Fragment::Memories,
        Fragment::Pins,
        Fragment::Summaries,
        Fragment::Proposals,
        Fragment::Date,
        Fragment::Focus,
        Fragment::History,
        Fragment::Domain,
        Fragment::Documents,
        Fragment::Recalled,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Fragment::Instructions => "instructions",
            Fragment::Persona => "persona",
            Fragment::Custom => "custom",
            Fragment::Snapshot => "snapshot",
            Fragment::Profile => "profile",
            Fragment::Memories => "memories",
            Fragment::Pins => "pins",
            Fragment::Summaries => "summaries",
            Fragment::Proposals => "proposals",
            Fragment::Date => "date",
            Fragment::Focus => "focus",
            Fragment::History => "history",
            Fragment::Domain => "domain",
            Fragment::Documents => "documents",
            Fragment::Recalled => "recalled",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fragment| fragment.name() == name)
    }

    /// Whether it is part of the system prompt where the app does not say; [`Fragment::ALL`] is in that order.
    fn before_history(self) -> bool {
        self < Fragment::History
    }
}

/// What is in a prompt, in which order, and how much of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextRules {
    /// Every fragment that may be in a prompt, each once. What comes before [`Fragment::History`] is the system
    /// prompt; what comes after stands right before the user's message.
    pub order: Vec<Fragment>,
    /// Tokens that the app's sections may take together.
    pub domain_tokens: usize,
    pub document_tokens: usize,
    pub pin_tokens: usize,
    pub documents: DocumentUse,
}

impl ContextRules {
    /// The whole order when an app names these fragments. What is not named follows the named ones on its side of the
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
    /// What changes least comes first, so that a provider's cache of the beginning holds.
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

/// Which of the user's documents are searched for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentUse {
    /// Those that the request names.
    Named,
    All,
    None,
}

/// How much of the conversation the model is shown, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    pub style: HistoryStyle,
    /// Tokens of earlier turns, their summaries included.
    pub budget: u32,
    /// Whether and how what is older is summarised.
    pub summarise: Option<Summarise>,
}

impl History {
    pub(crate) const DEFAULT_BUDGET: u32 = 3_000;
}

impl Default for History {
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryStyle {
    /// Messages as they were.
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

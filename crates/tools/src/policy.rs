//! Whether a call may run: at once, after the user's yes, or not at all.

use protocol::Effect;

/// What an app or a tool says about asking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Policy {
    /// As its effect suggests.
    #[default]
    ByEffect,
    Allow,
    Ask,
    Deny,
}

/// What holds for one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ruling {
    Allow,
    Ask,
    Deny,
}

/// A tool as far as policy is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) effect: Effect,
    pub(crate) outside: bool,
    pub(crate) policy: Policy,
    /// It changes what later prompts are made of: memories and files.
    pub(crate) lasting: bool,
}

/// Pure: the same call under the same circumstances is ruled the same. `tainted` says that words from outside are in
/// the prompt; then what matters is asked for, unless the app allows exactly this tool.
pub(crate) fn rule(subject: Subject, tainted: bool) -> Ruling {
    let Subject { effect, outside, policy, lasting } = subject;
    match policy {
        Policy::Deny => return Ruling::Deny,
        Policy::Ask => return Ruling::Ask,
        Policy::Allow => return Ruling::Allow,
        Policy::ByEffect => {}
    }
    let changes = effect != Effect::Read;
    let consequential = effect == Effect::Irreversible || changes && (outside || lasting);
    if effect == Effect::Irreversible || tainted && consequential { Ruling::Ask } else { Ruling::Allow }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Subject =
        Subject { effect: Effect::Read, outside: false, policy: Policy::ByEffect, lasting: false };

    #[test]
    fn only_what_cannot_be_taken_back_is_asked_for_by_itself() {
        for (effect, ruling) in [
            (Effect::Read, Ruling::Allow),
            (Effect::Idempotent, Ruling::Allow),
            (Effect::Reversible, Ruling::Allow),
            (Effect::Irreversible, Ruling::Ask),
        ] {
            assert_eq!(rule(Subject { effect, ..PLAIN }, false), ruling, "{effect:?}");
        }
    }

    #[test]
    fn once_words_from_outside_are_in_the_prompt_what_matters_is_asked_for() {
        let reversible = Subject { effect: Effect::Reversible, ..PLAIN };
        assert_eq!(rule(reversible, true), Ruling::Allow, "it can be undone");
        assert_eq!(rule(Subject { lasting: true, ..reversible }, true), Ruling::Ask);
        assert_eq!(rule(Subject { outside: true, ..reversible }, true), Ruling::Ask);
        assert_eq!(rule(Subject { outside: true, ..PLAIN }, true), Ruling::Allow, "looking is no effect");
        let allowed = Subject { policy: Policy::Allow, outside: true, effect: Effect::Irreversible, ..PLAIN };
        assert_eq!(rule(allowed, true), Ruling::Allow, "the app allows exactly this one");
    }

    #[test]
    fn what_the_app_says_counts_more_than_the_effect() {
        assert_eq!(rule(Subject { policy: Policy::Deny, ..PLAIN }, false), Ruling::Deny);
        assert_eq!(rule(Subject { policy: Policy::Ask, ..PLAIN }, false), Ruling::Ask);
    }
}

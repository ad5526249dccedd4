//! Whether a call may run: at once, after the user's yes, or not at all.

use app::FlowRule;
use protocol::Effect;
use serde_json::Value;

use crate::Taint;

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

/// A call as far as policy is concerned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) effect: Effect,
    pub(crate) outside: bool,
    pub(crate) policy: Policy,
    /// It changes what later prompts are made of: memories and files.
    pub(crate) lasting: bool,
    pub(crate) flows: &'a [FlowRule],
    pub(crate) input: &'a Value,
}

/// Pure: the same call under the same circumstances is ruled the same. `taint` says whose words from outside are in the
/// prompt; then what matters is asked for, unless the app allows exactly this flow.
pub(crate) fn rule(subject: &Subject<'_>, taint: &Taint) -> Ruling {
    let irreversible = subject.effect == Effect::Irreversible;
    let changes = subject.effect != Effect::Read;
    let consequential = irreversible || changes && (subject.outside || subject.lasting);
    match subject.policy {
        Policy::Deny => Ruling::Deny,
        Policy::Ask => Ruling::Ask,
        Policy::Allow | Policy::ByEffect if consequential && !taint.is_empty() => {
            if is_allowed_flow(subject, taint) { Ruling::Allow } else { Ruling::Ask }
        }
        Policy::ByEffect if irreversible => Ruling::Ask,
        Policy::Allow | Policy::ByEffect => Ruling::Allow,
    }
}

/// Each source must be allowed to cause this call.
fn is_allowed_flow(subject: &Subject<'_>, taint: &Taint) -> bool {
    taint.iter().all(|source| subject.flows.iter().any(|flow| flow.allows(source, subject.input)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PLAIN: Subject<'static> = Subject {
        effect: Effect::Read,
        outside: false,
        policy: Policy::ByEffect,
        lasting: false,
        flows: &[],
        input: &Value::Null,
    };

    fn nothing() -> Taint {
        Taint::new()
    }

    fn web() -> Taint {
        ["tavily_search".to_owned()].into()
    }

    #[test]
    fn only_what_cannot_be_taken_back_is_asked_for_by_itself() {
        for (effect, ruling) in [
            (Effect::Read, Ruling::Allow),
            (Effect::Idempotent, Ruling::Allow),
            (Effect::Reversible, Ruling::Allow),
            (Effect::Irreversible, Ruling::Ask),
        ] {
            assert_eq!(rule(&Subject { effect, ..PLAIN }, &nothing()), ruling, "{effect:?}");
        }
    }

    #[test]
    fn once_words_from_outside_are_in_the_prompt_what_matters_is_asked_for() {
        let reversible = Subject { effect: Effect::Reversible, ..PLAIN };
        assert_eq!(rule(&reversible, &web()), Ruling::Allow, "it can be undone");
        assert_eq!(rule(&Subject { lasting: true, ..reversible }, &web()), Ruling::Ask);
        assert_eq!(rule(&Subject { outside: true, ..reversible }, &web()), Ruling::Ask);
        assert_eq!(rule(&Subject { outside: true, ..PLAIN }, &web()), Ruling::Allow, "looking is no effect");
        let allowed = Subject { policy: Policy::Allow, outside: true, effect: Effect::Irreversible, ..PLAIN };
        assert_eq!(rule(&allowed, &nothing()), Ruling::Allow);
        assert_eq!(rule(&allowed, &web()), Ruling::Ask, "being allowed is not being allowed to anybody");
    }

    #[test]
    fn an_app_allows_exactly_the_flow_it_names() {
        let input = json!({ "to": "me@example.com", "text": "hi" });
        let flow = |from: Option<&[&str]>, to: &str| FlowRule {
            from: from.map(|names| names.iter().map(|name| (*name).to_owned()).collect()),
            input: [("to".to_owned(), json!(to))].into_iter().collect(),
        };
        let ruled = |flows: &[FlowRule], taint: &Taint| {
            let subject =
                Subject { effect: Effect::Irreversible, outside: true, flows, input: &input, ..PLAIN };
            rule(&subject, taint)
        };
        let mine = [flow(Some(&["tavily_search"]), "me@example.com")];
        assert_eq!(ruled(&mine, &web()), Ruling::Allow);
        assert_eq!(ruled(&mine, &nothing()), Ruling::Ask, "it is the rule for what came from there");
        let more: Taint = ["tavily_search".to_owned(), "documents".to_owned()].into();
        assert_eq!(ruled(&mine, &more), Ruling::Ask, "other words are there too");
        assert_eq!(ruled(&[flow(None, "me@example.com")], &more), Ruling::Allow);
        assert_eq!(ruled(&[flow(None, "you@example.com")], &web()), Ruling::Ask);
        let deny = Subject { policy: Policy::Deny, flows: &mine, input: &input, ..PLAIN };
        assert_eq!(rule(&deny, &web()), Ruling::Deny);
    }

    #[test]
    fn what_the_app_says_counts_more_than_the_effect() {
        assert_eq!(rule(&Subject { policy: Policy::Deny, ..PLAIN }, &nothing()), Ruling::Deny);
        assert_eq!(rule(&Subject { policy: Policy::Ask, ..PLAIN }, &nothing()), Ruling::Ask);
    }
}

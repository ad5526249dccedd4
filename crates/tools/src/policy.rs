//! Decides whether a call may run: at once, after approval, or not at all.

use app::Permission;
use protocol::Effect;
use serde_json::Value;

use crate::{Taint, ToolFacts};

/// The decision about one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ruling {
    Allow,
    Ask,
    Deny,
}

/// Pure: a call is ruled by the facts of its tool, its arguments and the taint alone. `taint` says whose words from
/// outside are in the prompt; then the user is asked about a call in consequences, unless the app allows its flow.
pub(crate) fn rule(facts: &ToolFacts, input: &Value, taint: &Taint) -> Ruling {
    let irreversible = facts.effect == Effect::Irreversible;
    let changes = facts.effect != Effect::Read;
    let consequential = irreversible || changes && (facts.external || facts.lasting);
    let ruling = match facts.permission {
        Some(Permission::Deny) => Ruling::Deny,
        Some(Permission::Ask) => Ruling::Ask,
        Some(Permission::Allow) | None if consequential && !taint.is_empty() => {
            if is_allowed_flow(facts, input, taint) { Ruling::Allow } else { Ruling::Ask }
        }
        None if irreversible => Ruling::Ask,
        Some(Permission::Allow) | None => Ruling::Allow,
    };
    if ruling == Ruling::Allow && facts.is_unusual(input) { Ruling::Ask } else { ruling }
}

/// Each source must be allowed to cause this call.
fn is_allowed_flow(facts: &ToolFacts, input: &Value, taint: &Taint) -> bool {
    taint.iter().all(|source| facts.flows.iter().any(|flow| flow.allows(source, input)))
}

#[cfg(test)]
mod tests {
    use app::FlowRule;
    use serde_json::json;

    use super::*;

    fn ruled(facts: &ToolFacts, taint: &Taint) -> Ruling {
        rule(facts, &Value::Null, taint)
    }

    fn nothing() -> Taint {
        Taint::new()
    }

    fn web() -> Taint {
        ["tavily_search".to_owned()].into()
    }

    #[test]
    fn only_what_cannot_be_undone_is_asked_for_by_itself() {
        for (effect, ruling) in [
            (Effect::Read, Ruling::Allow),
            (Effect::Idempotent, Ruling::Allow),
            (Effect::Reversible, Ruling::Allow),
            (Effect::Irreversible, Ruling::Ask),
        ] {
            assert_eq!(
                ruled(&ToolFacts { effect, ..ToolFacts::default() }, &nothing()),
                ruling,
                "{effect:?}"
            );
        }
    }

    #[test]
    fn once_words_from_outside_are_in_the_prompt_what_matters_is_asked_for() {
        let reversible = || ToolFacts { effect: Effect::Reversible, ..ToolFacts::default() };
        assert_eq!(ruled(&reversible(), &web()), Ruling::Allow, "it can be undone");
        assert_eq!(ruled(&ToolFacts { lasting: true, ..reversible() }, &web()), Ruling::Ask);
        assert_eq!(ruled(&ToolFacts::external(Effect::Reversible), &web()), Ruling::Ask);
        assert_eq!(ruled(&ToolFacts::external(Effect::Read), &web()), Ruling::Allow, "looking is no effect");
        let allowed =
            ToolFacts { permission: Some(Permission::Allow), ..ToolFacts::external(Effect::Irreversible) };
        assert_eq!(ruled(&allowed, &nothing()), Ruling::Allow);
        assert_eq!(ruled(&allowed, &web()), Ruling::Ask, "being allowed is not being allowed to anybody");
    }

    #[test]
    fn an_app_allows_exactly_the_flow_it_names() {
        let input = json!({ "to": "me@example.com", "text": "hi" });
        let flow = |from: Option<&[&str]>, to: &str| FlowRule {
            from: from.map(|names| names.iter().map(|name| (*name).to_owned()).collect()),
            input: [("to".to_owned(), json!(to))].into_iter().collect(),
        };
        let flowing = |flows: &[FlowRule], taint: &Taint| {
            let flows = flows.to_vec();
            rule(&ToolFacts { flows, ..ToolFacts::external(Effect::Irreversible) }, &input, taint)
        };
        let mine = [flow(Some(&["tavily_search"]), "me@example.com")];
        assert_eq!(flowing(&mine, &web()), Ruling::Allow);
        assert_eq!(flowing(&mine, &nothing()), Ruling::Ask, "it is the rule for what came from there");
        let more: Taint = ["tavily_search".to_owned(), "documents".to_owned()].into();
        assert_eq!(flowing(&mine, &more), Ruling::Ask, "other words are there too");
        assert_eq!(flowing(&[flow(None, "me@example.com")], &more), Ruling::Allow);
        assert_eq!(flowing(&[flow(None, "you@example.com")], &web()), Ruling::Ask);
        let permission = Some(Permission::Deny);
        let deny = ToolFacts { permission, flows: mine.to_vec(), ..ToolFacts::default() };
        assert_eq!(rule(&deny, &input, &web()), Ruling::Deny);
    }

    #[test]
    fn what_the_app_says_counts_more_than_the_effect() {
        for (permission, ruling) in [(Permission::Deny, Ruling::Deny), (Permission::Ask, Ruling::Ask)] {
            let facts = ToolFacts { permission: Some(permission), ..ToolFacts::default() };
            assert_eq!(ruled(&facts, &nothing()), ruling);
        }
    }
}

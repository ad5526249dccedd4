//! `[limits]`, good and bad.

use protocol::UserLimits;

use super::{PROMPT, apps, demo, problem};

#[test]
fn every_limit_is_read_and_none_is_set_by_itself() {
    let toml = "[limits]\nruns_per_minute = 20\nruns_per_day = 500\ntokens_per_minute = 50_000\n\
                tokens_per_day = 1_000_000\nmax_running = 4\n";
    let expected = UserLimits {
        runs_per_minute: Some(20),
        runs_per_day: Some(500),
        tokens_per_minute: Some(50_000),
        tokens_per_day: Some(1_000_000),
        max_running: Some(4),
    };
    assert_eq!(demo(toml, PROMPT).user_limits, expected);
    assert_eq!(demo("[limits]", PROMPT).user_limits, UserLimits::default());
    assert_eq!(demo("", PROMPT).user_limits, UserLimits::default());
    let most =
        "[limits]\nruns_per_day = 1_000_000\ntokens_per_day = 1_000_000_000_000\nmax_running = 1_000\n";
    assert_eq!(demo(most, PROMPT).user_limits.tokens_per_day, Some(1_000_000_000_000));
}

#[test]
fn limits_out_of_range_are_refused() {
    for (toml, expected) in [
        ("runs_per_minute = 0", "2:19: limits.runs_per_minute is 0; write a whole number from 1 to 1000000"),
        (
            "runs_per_day = 1_000_001",
            "2:16: limits.runs_per_day is 1000001; write a whole number from 1 to 1000000",
        ),
        (
            "tokens_per_day = -5",
            "2:18: limits.tokens_per_day is -5; write a whole number from 1 to 1000000000000",
        ),
        ("max_running = 1001", "2:15: limits.max_running is 1001; write a whole number from 1 to 1000"),
        ("runs_per_minutes = 1", r#"2:1: unknown key "runs_per_minutes"; did you mean "runs_per_minute"?"#),
    ] {
        let text = problem(&apps(&format!("[limits]\n{toml}"), PROMPT));
        assert_eq!(text, format!("demo/app.toml:{expected}"));
    }
}

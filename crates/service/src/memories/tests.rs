//! The forms that memories and questions may have.

use jiff::Timestamp;
use memory::dates::TimeSpan;

use super::search::read_span;
use super::*;

#[test]
fn a_text_is_trimmed_and_bounded() {
    assert_eq!(memory_text(" \n lives in Oslo\t").unwrap(), "lives in Oslo");
    let longest = "x".repeat(MAX_MEMORY_BYTES);
    assert_eq!(memory_text(&format!(" {longest} ")).unwrap(), longest);
    assert!(matches!(memory_text(&format!("{longest}x")), Err(Error::TooLarge { field: "text", .. })));
    assert!(matches!(memory_text(" \t\n"), Err(Error::Invalid { field: "text", .. })));
}

#[test]
fn a_secret_is_refused_by_what_it_looks_like() {
    let refused = memory_text("my card is 4111 1111 1111 1111");
    assert!(matches!(refused, Err(Error::Secret { field: "text", kind: "a card number" })), "{refused:?}");
}

#[test]
fn a_kind_is_one_plain_word() {
    assert_eq!(kind(None).unwrap(), "fact");
    for good in ["x", "likes-2_do", &"a".repeat(MAX_KIND_BYTES)] {
        assert_eq!(kind(Some(good.into())).unwrap(), good);
    }
    for wrong in ["", "two words", "Fact", "é", "a.b", &"a".repeat(MAX_KIND_BYTES + 1)] {
        let refused = kind(Some(wrong.into()));
        assert!(matches!(refused, Err(Error::Invalid { field: "kind", .. })), "{wrong:?}");
    }
}

#[test]
fn days_and_moments_are_included() {
    let at = |text: &str| text.parse::<Timestamp>().unwrap();
    let span = |start: &str, end: &str| Some(TimeSpan { start: at(start), end: at(end) });
    assert_eq!(read_span(None, None).unwrap(), None);
    let day = read_span(Some("2026-11-15"), Some("2026-11-15")).unwrap();
    assert_eq!(day, span("2026-11-15T00:00:00Z", "2026-11-16T00:00:00Z"));
    let second = read_span(Some("2026-11-15T08:00:00Z"), Some("2026-11-15T08:00:00Z")).unwrap();
    assert_eq!(second, span("2026-11-15T08:00:00Z", "2026-11-15T08:00:01Z"));
    let since = read_span(Some("2026-02-28T23:00:00+01:00"), None).unwrap();
    assert_eq!(since, Some(TimeSpan { start: at("2026-02-28T22:00:00Z"), end: Timestamp::MAX }));
    let until = read_span(None, Some("9999-12-30")).unwrap();
    assert_eq!(until, Some(TimeSpan { start: Timestamp::MIN, end: Timestamp::MAX }));
}

#[test]
fn what_is_no_time_is_refused_by_its_name() {
    for wrong in
        ["", "yesterday", "2026-13-01", "2026-02-30", "20261115", "2026-11-15T08:00:00", "9999-12-31"]
    {
        let refused = read_span(Some(wrong), None);
        assert!(matches!(refused, Err(Error::Invalid { field: "from", .. })), "{wrong:?}: {refused:?}");
    }
    for (from, to) in [("2026-11-15", "2026-11-14"), ("2026-11-15", "2026-11-14T23:59:58Z")] {
        assert!(matches!(read_span(Some(from), Some(to)), Err(Error::Invalid { field: "to", .. })), "{to}");
    }
}

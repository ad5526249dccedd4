//! Times that texts name, seen from a Wednesday in May.

use jiff::civil::date;
use proptest::prelude::*;

use super::*;

/// Wednesday, 17 May 2023, at ten in the evening in New York, where it is the 18th in London.
const NOW: &str = "2023-05-18T02:00:00Z";

fn zone() -> TimeZone {
    TimeZone::get("America/New_York").unwrap()
}

/// The first day and the last one.
fn days(text: &str) -> Option<(String, String)> {
    let span = named_span(text, NOW.parse().unwrap(), &zone())?;
    let last = span.end.to_zoned(zone()).date().yesterday().unwrap();
    let first = span.start.to_zoned(zone());
    let start = if span.start == Timestamp::MIN { "ever".to_owned() } else { first.date().to_string() };
    Some((start, last.to_string()))
}

fn check(table: &[(&str, &str, &str)]) {
    for (text, first, last) in table {
        assert_eq!(days(text), Some(((*first).to_owned(), (*last).to_owned())), "{text}");
    }
}

#[test]
fn dates_are_read() {
    check(&[
        ("What happened on 8 May?", "2023-05-08", "2023-05-08"),
        ("on May 8th, 2022, we", "2022-05-08", "2022-05-08"),
        ("the 3rd of July 2021", "2021-07-03", "2021-07-03"),
        ("on 20 May", "2022-05-20", "2022-05-20"),
        ("2022-05-08", "2022-05-08", "2022-05-08"),
        ("in 2022-05 there", "2022-05-01", "2022-05-31"),
        ("in May", "2023-05-01", "2023-05-31"),
        ("in june?", "2022-06-01", "2022-06-30"),
        ("in May 2021", "2021-05-01", "2021-05-31"),
        ("December of 2020", "2020-12-01", "2020-12-31"),
        ("was it in Sept 2022", "2022-09-01", "2022-09-30"),
        ("back in 2019", "2019-01-01", "2019-12-31"),
        ("30 February 2023", "2023-02-01", "2023-02-28"),
        ("29 February 2024", "2024-02-29", "2024-02-29"),
    ]);
}

#[test]
fn times_near_today_are_read() {
    check(&[
        ("what did I say yesterday", "2023-05-16", "2023-05-16"),
        ("the day before yesterday", "2023-05-15", "2023-05-15"),
        ("Today's plan", "2023-05-17", "2023-05-17"),
        ("last night", "2023-05-16", "2023-05-17"),
        ("this morning", "2023-05-17", "2023-05-17"),
        ("last Tuesday", "2023-05-16", "2023-05-16"),
        ("last Wednesday", "2023-05-10", "2023-05-10"),
        ("on Wednesday", "2023-05-17", "2023-05-17"),
        ("on Friday", "2023-05-12", "2023-05-12"),
        ("this Friday", "2023-05-19", "2023-05-19"),
        ("last week", "2023-05-08", "2023-05-14"),
        ("this week", "2023-05-15", "2023-05-21"),
        ("last weekend", "2023-05-13", "2023-05-14"),
        ("last month", "2023-04-01", "2023-04-30"),
        ("this year", "2023-01-01", "2023-12-31"),
        ("last year", "2022-01-01", "2022-12-31"),
        ("last May", "2022-05-01", "2022-05-31"),
        ("last April", "2023-04-01", "2023-04-30"),
        ("last summer", "2022-06-01", "2022-08-31"),
        ("last winter", "2022-12-01", "2023-02-28"),
        ("in summer", "2022-06-01", "2022-08-31"),
        ("in spring", "2023-03-01", "2023-05-31"),
        ("the fall of 2021", "2021-09-01", "2021-11-30"),
        ("winter 2020", "2020-12-01", "2021-02-28"),
    ]);
}

#[test]
fn times_ago_and_runs_of_time_are_read() {
    check(&[
        ("two weeks ago", "2023-04-30", "2023-05-06"),
        ("3 days ago", "2023-05-14", "2023-05-14"),
        ("a month ago", "2023-04-01", "2023-04-30"),
        ("an year ago", "2022-01-01", "2022-12-31"),
        ("a couple of weeks ago", "2023-04-30", "2023-05-06"),
        ("a few days ago", "2023-05-14", "2023-05-14"),
        ("two weekends ago", "2023-05-06", "2023-05-07"),
        ("in the last two weeks", "2023-05-03", "2023-05-17"),
        ("in the past month", "2023-04-17", "2023-05-17"),
        ("since March", "2023-03-01", "2023-05-17"),
        ("after 8 May", "2023-05-09", "2023-05-17"),
        ("before 2022", "ever", "2021-12-31"),
        ("between 3 May and 8 May", "2023-05-03", "2023-05-08"),
        ("from January to March 2022", "2022-01-01", "2022-03-31"),
        ("from Friday", "2023-05-12", "2023-05-12"),
        ("between 2020 and 2021", "2020-01-01", "2021-12-31"),
    ]);
}

#[test]
fn other_texts_name_no_time() {
    for text in [
        "",
        "May I ask you something?",
        "you may come",
        "a long march",
        "I fall asleep",
        "1234567 or 12 or 1800",
        "32 May2023",
        "99999999999999999999 days ago",
        "5000 years ago",
        "after tomorrow we last",
        "week month year",
        "ago",
        "猫が好き",
    ] {
        assert_eq!(days(text), None, "{text}");
    }
}

#[test]
fn days_begin_at_midnight_of_the_zone() {
    let span = named_span("yesterday", NOW.parse().unwrap(), &zone()).unwrap();
    assert_eq!(
        [span.start.to_string(), span.end.to_string()],
        ["2023-05-16T04:00:00Z", "2023-05-17T04:00:00Z"]
    );
    let utc = named_span("yesterday", NOW.parse().unwrap(), &TimeZone::UTC).unwrap();
    assert_eq!(utc.start.to_zoned(TimeZone::UTC).date(), date(2023, 5, 17));
}

#[test]
fn the_ends_of_time_are_survived() {
    for now in [Timestamp::MIN, Timestamp::MAX] {
        for text in
            ["1000 years ago", "yesterday", "last winter", "last Monday", "since May", "this week", "8 May"]
        {
            named_span(text, now, &zone());
        }
    }
}

proptest! {
    #[test]
    fn any_text_is_survived(words in proptest::collection::vec(
        prop_oneof![
            Just("last".to_owned()), Just("may".to_owned()), Just("ago".to_owned()), Just("week".to_owned()),
            Just("between".to_owned()), Just("and".to_owned()), Just("of".to_owned()), "[0-9]{1,4}", "\\PC{0,6}",
        ],
        0..8,
    )) {
        if let Some(span) = named_span(&words.join(" "), NOW.parse().unwrap(), &zone()) {
            prop_assert!(span.start < span.end);
        }
    }
}

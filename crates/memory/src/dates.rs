//! Days and spans of time that a question names, such as "last Tuesday", "in May 2023" or "two weeks ago".
//!
//! English only. Seasons are those of the northern half of the earth.

mod calendar;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use self::calendar::{Days, Season, Unit};
use crate::phrases::{PhraseList, lists};
use crate::words;

lists! {
    static TIME_WORDS: TimeWords = "dates/words.toml"; {
        /// Times that are also other words.
        doubtful: PhraseList,
        before_a_time: PhraseList,
        /// Numbers from 1 on, with another word for 1 before it.
        numbers: Vec<String>,
    }
}

/// Words of a text that are looked at.
const MAX_WORDS: usize = 512;

/// From its start to just before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeSpan {
    pub start: Timestamp,
    pub end: Timestamp,
}

/// The first time that the text names, as a user means it who writes now, in this zone.
pub fn named_span(text: &str, now: Timestamp, zone: &TimeZone) -> Option<TimeSpan> {
    let today = now.to_zoned(zone.clone()).date();
    let read = |token: &str| (words::name(token), token.chars().next().is_some_and(char::is_uppercase));
    let read: Vec<(String, bool)> = words::tokens(text).take(MAX_WORDS).map(read).collect();
    let words: Vec<Word<'_>> = read.iter().map(|(text, large)| Word { text, large: *large }).collect();
    let days = (0..words.len()).find_map(|at| days_at(&words, at, today))?;
    days.span(zone)
}

#[derive(Clone, Copy)]
struct Word<'a> {
    /// In lower case.
    text: &'a str,
    /// Whether it is written with a capital.
    large: bool,
}

/// The days named from here on, with the word before them that says to which side they go on.
fn days_at(words: &[Word<'_>], at: usize, today: Date) -> Option<Days> {
    let texts: Vec<&str> = words.get(at..)?.iter().map(|word| word.text).collect();
    let (days, used) = is_meant_as_time(words, at).then(|| read(&texts, today)).flatten()?;
    let before = at.checked_sub(1).and_then(|before| words.get(before)).map(|word| word.text);
    let until = |joints: &[&str]| {
        let (joint, rest) = texts.get(used..)?.split_first()?;
        let (last, _) = joints.contains(joint).then(|| read(rest, today)).flatten()?;
        // In "from May to June 2021", the year is said once.
        let (first, _) = read(&texts, last.end.yesterday().ok()?)?;
        Some(first.through(last))
    };
    let run = match before {
        Some("between") => until(&["and"]),
        Some("from") => until(&["to", "until", "till", "through"]),
        _ => None,
    };
    Some(match before {
        _ if let Some(run) = run => run,
        Some("since") => Days::new(days.start, calendar::day_after(today)),
        Some("after") => Days::new(days.end, calendar::day_after(today)),
        Some("before" | "until" | "till") => Days::new(Date::MIN, days.start),
        _ => days,
    })
}

/// "May", "march" and "fall" are not always times.
fn is_meant_as_time(words: &[Word<'_>], at: usize) -> bool {
    let Some(word) = words.get(at) else { return false };
    let is_doubtful = TIME_WORDS.doubtful.contains(word.text);
    let before = at.checked_sub(1).and_then(|before| words.get(before)).map(|word| word.text);
    let is_after_preposition = before.is_some_and(|before| TIME_WORDS.before_a_time.contains(before));
    let next = words.iter().skip(at + 1).map(|word| word.text).find(|word| *word != "of");
    let is_before_number = next.is_some_and(|next| day(next).is_some() || year(next).is_some());
    let is_season = matches!(word.text, "fall" | "spring");
    let is_name_of_month = word.large && at > 0 && !is_season;
    !is_doubtful || is_after_preposition || is_before_number || is_name_of_month
}

/// The days that these words begin with, and how many of the words name them.
fn read(words: &[&str], today: Date) -> Option<(Days, usize)> {
    date(words, today)
        .or_else(|| near_today(words, today))
        .or_else(|| read_ago(words, today))
        .or_else(|| last_or_this(words, today))
        .or_else(|| season(words, today))
        .or_else(|| weekday_or_year(words, today))
}

/// A date with its month: "8 May", "8th of May 2023", "May 8", "May 2023", "May", "2023-05-08".
fn date(words: &[&str], today: Date) -> Option<(Days, usize)> {
    let third = words.get(2).copied();
    let fourth = words.get(3).copied();
    match *words {
        [first, second, ..] if let (Some(year), Some(month)) = (year(first), number_of_month(second)) => {
            let day = third.and_then(day);
            Some((Days::of(Some(year), month, day, today)?, 2 + usize::from(day.is_some())))
        }
        [first, "of", _, ..] if let (Some(day), Some(month)) = (day(first), third.and_then(month)) => {
            let year = fourth.and_then(year);
            Some((Days::of(year, month, Some(day), today)?, 3 + usize::from(year.is_some())))
        }
        [first, second, ..] if let (Some(day), Some(month)) = (day(first), month(second)) => {
            let year = third.and_then(year);
            Some((Days::of(year, month, Some(day), today)?, 2 + usize::from(year.is_some())))
        }
        [first, second, ..] if let (Some(month), Some(day)) = (month(first), day(second)) => {
            let year = third.and_then(year);
            Some((Days::of(year, month, Some(day), today)?, 2 + usize::from(year.is_some())))
        }
        [first, ..] if let Some(month) = month(first) => {
            let (year, used) = year_after(words.get(1..)?);
            Some((Days::of(year, month, None, today)?, 1 + used))
        }
        _ => None,
    }
}

fn near_today(words: &[&str], today: Date) -> Option<(Days, usize)> {
    let yesterday = calendar::day_before(today, 1, Unit::Day);
    Some(match *words {
        ["today" | "tonight", ..] => (Days::day(today), 1),
        ["this", "morning" | "afternoon" | "evening", ..] => (Days::day(today), 2),
        ["day", "before", "yesterday", ..] => (Days::day(calendar::day_before(today, 2, Unit::Day)), 3),
        ["last", "night", ..] => (Days::day(yesterday).through(Days::day(today)), 2),
        ["yesterday", ..] => (Days::day(yesterday), 1),
        _ => return None,
    })
}

/// "two weeks ago", "a couple of months ago", "in the last 3 days".
fn read_ago(words: &[&str], today: Date) -> Option<(Days, usize)> {
    let (count, unit, first, used) = match *words {
        ["last" | "past" | "previous", count, unit, ..] => {
            (number(count)?, Unit::read(unit)?, words.first(), 3)
        }
        ["past", unit, ..] => (1, Unit::read(unit)?, words.first(), 2),
        ["a", "couple", "of", unit, "ago", ..] => (2, Unit::read(unit)?, None, 5),
        ["a", "few", unit, "ago", ..] => (number("few")?, Unit::read(unit)?, None, 4),
        [count, unit, "ago", ..] => (number(count)?, Unit::read(unit)?, None, 3),
        _ => return None,
    };
    let then = calendar::day_before(today, count, unit);
    let days = if first.is_some() {
        Days::new(then, calendar::day_after(today))
    } else {
        Days::days_about(then, unit)
    };
    Some((days, used))
}

fn last_or_this(words: &[&str], today: Date) -> Option<(Days, usize)> {
    let (is_last, what) = match *words {
        ["last" | "previous", what, ..] => (true, what),
        ["this", what, ..] => (false, what),
        _ => return None,
    };
    if let Some(unit) = Unit::read(what) {
        return Some((Days::unit_around(today, unit, i64::from(is_last)), 2));
    }
    if let Some(weekday) = calendar::weekday(what) {
        let week = Days::unit_around(today, Unit::Week, 0);
        let last = if is_last { today.nth_weekday(-1, weekday).ok() } else { week.weekday(weekday) };
        return Some((Days::day(last?), 2));
    }
    if let Some(month) = month(what) {
        let this = Days::of(Some(today.year()), month, None, today)?;
        let is_over = this.end <= today;
        let year = if is_last && !is_over { today.year() - 1 } else { today.year() };
        return Some((Days::of(Some(year), month, None, today)?, 2));
    }
    let season = Season::read(what)?;
    let days = if is_last { season.last_finished(today)? } else { season.of(today.year())? };
    Some((days, 2))
}

fn season(words: &[&str], today: Date) -> Option<(Days, usize)> {
    let (name, rest) = words.split_first()?;
    let season = Season::read(name)?;
    let (year, used) = year_after(rest);
    let days = year.map_or_else(|| season.last_begun(today), |year| season.of(year))?;
    Some((days, 1 + used))
}

/// The year that these words begin with, and how many of them name it.
fn year_after(words: &[&str]) -> (Option<i16>, usize) {
    match *words {
        ["of", second, ..] if let Some(year) = year(second) => (Some(year), 2),
        [first, ..] if let Some(year) = year(first) => (Some(year), 1),
        _ => (None, 0),
    }
}

fn weekday_or_year(words: &[&str], today: Date) -> Option<(Days, usize)> {
    let word = words.first()?;
    if let Some(weekday) = calendar::weekday(word) {
        let is_today = today.weekday() == weekday;
        let day = if is_today { today } else { today.nth_weekday(-1, weekday).ok()? };
        return Some((Days::day(day), 1));
    }
    Some((Days::year(year(word)?)?, 1))
}

fn month(word: &str) -> Option<i8> {
    const LETTERS: usize = 3;
    let is_month = |month: &str| month == word || (word.len() == LETTERS && month.starts_with(word));
    let full = if word == "sept" { "september" } else { word };
    let found = words::months().iter().position(|month| is_month(month) || month == full);
    found.and_then(|at| i8::try_from(at + 1).ok())
}

/// Of a month written as a number, with two digits.
fn number_of_month(word: &str) -> Option<i8> {
    let is_number = word.len() == 2 && word.bytes().all(|byte| byte.is_ascii_digit());
    word.parse().ok().filter(|month| is_number && (1..=12).contains(month))
}

/// "8", "08" or "8th".
fn day(word: &str) -> Option<i8> {
    let digits = word.strip_suffix("st").or(word.strip_suffix("nd")).or(word.strip_suffix("rd"));
    let digits = digits.or(word.strip_suffix("th")).unwrap_or(word);
    digits.parse().ok().filter(|day| digits.len() <= 2 && (1..=31).contains(day))
}

fn year(word: &str) -> Option<i16> {
    word.parse().ok().filter(|year| word.len() == 4 && (1900..2100).contains(year))
}

fn number(word: &str) -> Option<i64> {
    /// More are meant as a number of something else.
    const MAX_NUMBER: i64 = 1_000;
    match word {
        "an" => Some(1),
        "couple" => Some(2),
        "few" => Some(3),
        _ => {
            let written = TIME_WORDS.numbers.iter().position(|number| number == word);
            let written = written.and_then(|at| i64::try_from(at.max(1)).ok());
            written.or_else(|| word.parse().ok()).filter(|number| (0..=MAX_NUMBER).contains(number))
        }
    }
}

//! Card numbers, bank accounts and social security numbers, which carry check digits or a form of their own.

use super::{ACCOUNT, CARD, FoundSecret, PATTERNS, SOCIAL};

pub(super) fn find(text: &str) -> Option<FoundSecret> {
    let chars: Vec<char> = text.chars().collect();
    for start in 0..chars.len() {
        let before = start.checked_sub(1).and_then(|before| chars.get(before));
        if before.is_some_and(|c| c.is_alphanumeric()) {
            continue;
        }
        let rest = chars.get(start..).unwrap_or_default();
        let joined = before.is_some_and(|c| matches!(c, '+' | '-' | '.' | '/'));
        if !joined && is_social(rest) {
            return Some(SOCIAL);
        }
        // A plus begins a telephone number.
        if before != Some(&'+') && is_card(rest) {
            return Some(CARD);
        }
        if is_account(rest) {
            return Some(ACCOUNT);
        }
    }
    None
}

/// `123-45-6789`, where no group is of those that are never given out.
fn is_social(chars: &[char]) -> bool {
    let form = "ddd-dd-dddd";
    let fits = |(c, sign): (&char, char)| if sign == 'd' { c.is_ascii_digit() } else { *c == sign };
    if chars.len() < form.len() || !chars.iter().zip(form.chars()).all(fits) {
        return false;
    }
    let ends = chars.get(form.len()).is_none_or(|c| !c.is_alphanumeric() && *c != '-');
    let group = |from: usize, to: usize| chars.get(from..to).unwrap_or_default().iter().collect::<String>();
    let (area, middle, serial) = (group(0, 3), group(4, 6), group(7, 11));
    let given = area != "000" && area != "666" && !area.starts_with('9');
    ends && given && middle != "00" && serial != "0000"
}

const CARD_DIGITS: std::ops::RangeInclusive<usize> = 13..=19;

/// Digits in one run or in groups as they are printed, four first, with the same sign between them.
fn is_card(chars: &[char]) -> bool {
    let mut groups: Vec<String> = vec![String::new()];
    let mut between: Option<char> = None;
    for (at, c) in chars.iter().enumerate() {
        let digits: usize = groups.iter().map(String::len).sum();
        let goes_on = chars.get(at + 1).is_some_and(char::is_ascii_digit);
        if c.is_ascii_digit() && digits < *CARD_DIGITS.end() {
            groups.last_mut().iter_mut().for_each(|group| group.push(*c));
        } else if is_separator(*c) && goes_on && between.is_none_or(|sign| sign == *c) {
            between = Some(*c);
            groups.push(String::new());
        } else if c.is_alphanumeric() {
            return false;
        } else {
            break;
        }
    }
    let printed = |group: &String| matches!(group.len(), 3..=6);
    let grouped = groups.first().is_some_and(|first| first.len() == 4) && groups.iter().all(printed);
    let number = groups.concat();
    (groups.len() == 1 || grouped) && is_issued(&number) && luhn(&number)
}

fn is_separator(c: char) -> bool {
    matches!(c, ' ' | '-' | '.' | '\u{a0}' | '\u{2009}' | '\u{202f}' | '\u{2010}'..='\u{2013}')
}

/// Whether issued cards have this beginning and this length.
fn is_issued(number: &str) -> bool {
    let length = number.len();
    if !CARD_DIGITS.contains(&length) {
        return false;
    }
    let first = |digits: usize| number.get(..digits).and_then(|head| head.parse::<u32>().ok()).unwrap_or(0);
    match (first(2), first(4)) {
        (40..=49, _) => matches!(length, 13 | 16 | 19),
        (51..=55, _) | (_, 2221..=2720) => length == 16,
        (34 | 37, _) => length == 15,
        (36 | 38 | 39, _) | (_, 3000..=3059) => matches!(length, 14 | 16),
        (62 | 65, _) | (_, 6011 | 6440..=6499 | 3528..=3589) => length >= 16,
        (_, 5018 | 5020 | 5038 | 5893 | 6304 | 6759 | 6761..=6763) => true,
        _ => false,
    }
}

fn luhn(number: &str) -> bool {
    let digits = number.chars().rev().filter_map(|c| c.to_digit(10));
    let weigh = |(place, digit): (usize, u32)| match (place % 2, digit * 2) {
        (0, _) => digit,
        (_, twice) if twice > 9 => twice - 9,
        (_, twice) => twice,
    };
    // All zeros would pass, and is no number of anything.
    number.bytes().any(|byte| byte != b'0') && digits.enumerate().map(weigh).sum::<u32>() % 10 == 0
}

/// An IBAN, in one run or with single spaces, whose check digits agree.
fn is_account(chars: &[char]) -> bool {
    let [one, two, ..] = chars else { return false };
    let country: String = [one, two].iter().map(|c| c.to_ascii_uppercase()).collect();
    let Some(length) = PATTERNS.account_lengths.get(&country) else { return false };
    let mut number = String::new();
    let mut spaced = false;
    for c in chars {
        if number.len() == *length {
            return !c.is_alphanumeric() && agrees(&number);
        }
        match c {
            ' ' | '\u{a0}' if !spaced => spaced = true,
            _ if c.is_ascii_alphanumeric() => {
                number.push(c.to_ascii_uppercase());
                spaced = false;
            }
            _ => return false,
        }
    }
    number.len() == *length && agrees(&number)
}

/// ISO 7064, modulo 97.
fn agrees(number: &str) -> bool {
    let Some((head, body)) = number.split_at_checked(4) else { return false };
    if !head.bytes().skip(2).all(|byte| byte.is_ascii_digit()) {
        return false;
    }
    let step = |rest: u32, c: char| {
        let value = c.to_digit(36).unwrap_or(0);
        if value < 10 { (rest * 10 + value) % 97 } else { (rest * 100 + value) % 97 }
    };
    body.chars().chain(head.chars()).fold(0, step) == 1
}

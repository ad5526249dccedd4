//! Secrets, which must not be remembered: keys, card and account numbers. Their form tells them, never a word nearby.
//!
//! Three decisions keep ordinary text out: hexadecimal digests and UUIDs name things and open nothing, so they are no
//! secrets; the path of a URL is an address; and numbers count only if their check digits agree.

mod numbers;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::phrases::lists;

lists! {
    static PATTERNS: SecretPatterns = "secrets/patterns.toml"; {
        /// How keys of well-known services begin, and how many characters follow at least.
        key_prefixes: BTreeMap<String, usize>,
        /// How long account numbers of a country are, check digits included.
        account_lengths: BTreeMap<String, usize>,
    }
}

/// A secret that was found. Its words are deliberately not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundSecret {
    /// The sort of secret, as a phrase that follows "looks like".
    pub kind: &'static str,
}

const ACCESS_KEY: FoundSecret = FoundSecret { kind: "an access key" };
const KEY_BLOCK: FoundSecret = FoundSecret { kind: "a private key" };
const SIGNED_TOKEN: FoundSecret = FoundSecret { kind: "an access token" };
const LONG_TOKEN: FoundSecret = FoundSecret { kind: "a key or token" };
const CARD: FoundSecret = FoundSecret { kind: "a card number" };
const ACCOUNT: FoundSecret = FoundSecret { kind: "a bank account number" };
const SOCIAL: FoundSecret = FoundSecret { kind: "a social security number" };

/// The first secret in the text, if there is one.
pub fn find(text: &str) -> Option<FoundSecret> {
    if text.contains("-----BEGIN") {
        return Some(KEY_BLOCK);
    }
    let in_chunks = text.split(|c: char| c.is_whitespace() || is_bracket(c)).find_map(in_chunk);
    in_chunks.or_else(|| numbers::find(text))
}

fn is_bracket(c: char) -> bool {
    matches!(c, '"' | '\'' | '`' | '(' | ')' | '[' | ']' | '{' | '}' | '<' | '>' | ',' | ';' | '|')
        || matches!(c, '\u{2018}'..='\u{201f}' | '«' | '»')
}

/// In what stands between white space, quotes and brackets.
fn in_chunk(chunk: &str) -> Option<FoundSecret> {
    let mut runs = chunk.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_')));
    let dotted = || chunk.split(|c: char| !(is_base64_url(c) || c == '.'));
    if runs.any(is_known_key) || dotted().any(is_dotted_key) {
        return Some(ACCESS_KEY);
    }
    if dotted().any(is_signed_token) {
        return Some(SIGNED_TOKEN);
    }
    let is_address = chunk.contains("://") || chunk.starts_with("www.") || chunk.contains('@');
    let mut tokens = chunk.split(|c: char| !(is_base64_url(c) || matches!(c, '+' | '/')));
    (!is_address && tokens.any(is_long_token)).then_some(LONG_TOKEN)
}

fn is_base64_url(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_')
}

fn is_known_key(run: &str) -> bool {
    let follows = |(prefix, least): (&String, &usize)| {
        let rest = run.strip_prefix(prefix.as_str()).unwrap_or_default();
        // Words joined by hyphens have no digits, such as the name of a library.
        rest.len() >= *least && rest.bytes().any(|byte| byte.is_ascii_digit())
    };
    PATTERNS.key_prefixes.iter().any(follows) || is_amazon_key(run)
}

fn is_amazon_key(run: &str) -> bool {
    let rest = ["AKIA", "ASIA"].iter().find_map(|prefix| run.strip_prefix(prefix)).unwrap_or_default();
    rest.len() == 16 && rest.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

/// Keys with dots in them.
fn is_dotted_key(run: &str) -> bool {
    let rest = ["SG.", "ya29."].iter().find_map(|prefix| run.strip_prefix(prefix)).unwrap_or_default();
    rest.len() >= 30
}

/// The shortest part of a signed token.
const MIN_SIGNED_PART: usize = 10;

/// A JSON web token: two JSON objects and a signature, each in base 64.
fn is_signed_token(run: &str) -> bool {
    let parts: Vec<&str> = run.trim_matches('.').split('.').collect();
    let [head, claims, signature] = parts.as_slice() else { return false };
    let long = [head, claims, signature].iter().all(|part| part.len() >= MIN_SIGNED_PART);
    long && head.starts_with("eyJ") && claims.starts_with("eyJ")
}

/// Shorter ones cannot be told from product codes and names.
const MIN_TOKEN: usize = 32;

/// How often random characters change between small letters, capitals and digits, in hundredths of their number.
/// Names and titles that are written together do so less often.
const MIN_CHANGES_OF_THREE: usize = 18;
const MIN_CHANGES_OF_TWO: usize = 25;

/// A long run of characters that mean nothing together.
fn is_long_token(run: &str) -> bool {
    let has = |test: fn(&u8) -> bool| run.bytes().any(|byte| test(&byte));
    let (small, capital) = (has(u8::is_ascii_lowercase), has(u8::is_ascii_uppercase));
    if run.len() < MIN_TOKEN || !has(u8::is_ascii_digit) || !(small || capital) {
        return false;
    }
    if small && capital {
        let plain: String = run.chars().filter(char::is_ascii_alphanumeric).collect();
        return plain.len() >= MIN_TOKEN
            && changes(&plain) >= MIN_CHANGES_OF_THREE
            && !is_hexadecimal(&plain);
    }
    let is_token =
        |part: &str| part.len() >= MIN_TOKEN && changes(part) >= MIN_CHANGES_OF_TWO && !is_hexadecimal(part);
    run.split(['-', '_', '/', '+']).any(is_token)
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[derive(PartialEq, Eq, Clone, Copy)]
enum Class {
    Small,
    Capital,
    Digit,
}

/// Changes of class per hundred characters. A capital that begins a word counts as the word's small letters do.
fn changes(plain: &str) -> usize {
    let bytes = plain.as_bytes();
    let next = bytes.iter().skip(1).map(Some).chain([None]);
    let class = |(byte, next): (&u8, Option<&u8>)| match byte {
        b'0'..=b'9' => Class::Digit,
        b'A'..=b'Z' if !next.is_some_and(u8::is_ascii_lowercase) => Class::Capital,
        _ => Class::Small,
    };
    let classes: Vec<Class> = bytes.iter().zip(next).map(class).collect();
    let changed = classes.iter().zip(classes.iter().skip(1)).filter(|(one, two)| one != two).count();
    changed * 100 / plain.len().max(1)
}

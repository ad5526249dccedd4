//! O11 and O12: no user's word reaches another, and no secret is written down; looked for in everything there is.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use crate::record::Violation;
use crate::stage::User;

use super::case::{Case, violation};
use super::log::{RowId, StoredLog};

/// Columns that say whose a row is, when it does not name app and user itself.
const OWNERS: [&str; 3] = ["thread", "run", "memory"];

/// Prompts, requests and answers.
pub(super) fn check(case: &Case<'_>) -> Vec<Violation> {
    let trial = case.trial;
    let foreign = |tag: &str, canaries: &[String]| {
        let user = case.sender(tag).map(|op| op.user.clone());
        canaries.iter().find(|owner| user.as_ref().is_some_and(|user| user != *owner)).cloned()
    };
    let mut found = Vec::new();
    for asked in &trial.asked {
        let leak = match &asked.tag {
            Some(tag) => foreign(tag, &asked.canaries),
            // Work in the background is of one user at a time.
            None => asked.canaries.get(1).cloned(),
        };
        if let Some(owner) = leak {
            let what = format!(
                "a word of {owner} is in a prompt for message {:?}, asked at {} µs",
                asked.tag, asked.began
            );
            found.push(violation("O11", what));
        }
    }
    for arrival in &trial.arrivals {
        if let Some(owner) = foreign(&arrival.tag, &arrival.canaries) {
            found.push(violation(
                "O11",
                format!("a word of {owner} went to {} for message {}", arrival.tool, arrival.tag),
            ));
        }
    }
    found.extend(trial.leaks.iter().map(|leak| violation("O11", leak.clone())));
    found
}

/// The words to look for.
pub(super) struct ScannedWords<'a> {
    users: &'a [User],
    /// The beginning of all words of users, to look for once and not for each.
    prefix: &'a str,
    secrets: Vec<Vec<u8>>,
}

impl<'a> ScannedWords<'a> {
    pub(super) fn new(users: &'a [User], secrets: &[String]) -> Self {
        let secrets = secrets.iter().filter(|secret| !secret.is_empty());
        Self { users, prefix: prefix(users), secrets: secrets.flat_map(|secret| spellings(secret)).collect() }
    }

    fn holds_secret(&self, bytes: &[u8]) -> bool {
        self.secrets.iter().any(|secret| contains(bytes, secret))
    }

    /// A user whose word this is, and not of that scope.
    fn foreign_user(&self, bytes: &[u8], scope: (&str, &str)) -> Option<&'a User> {
        if !contains(bytes, self.prefix.as_bytes()) {
            return None;
        }
        let others = self.users.iter().filter(|user| (user.app.as_str(), user.name.as_str()) != scope);
        others.into_iter().find(|user| contains(bytes, user.canary.as_bytes()))
    }
}

/// Every value of every table.
pub(super) fn database(conn: &Connection, log: &StoredLog, wanted: &ScannedWords<'_>) -> Vec<Violation> {
    let tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'";
    let names = conn.prepare(tables).and_then(|mut statement| {
        let names = statement.query_map([], |row| row.get::<_, String>(0))?;
        names.collect::<Result<Vec<_>, _>>()
    });
    match names {
        Ok(names) => names.iter().flat_map(|name| of_table(conn, log, wanted, name)).collect(),
        Err(error) => vec![violation("O12", format!("the tables cannot be listed: {error}"))],
    }
}

fn of_table(conn: &Connection, log: &StoredLog, wanted: &ScannedWords<'_>, table: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    let read = read_table(conn, table, |columns, values| {
        let scope = scope_of(log, columns, values);
        for (column, value) in columns.iter().zip(values) {
            let (ValueRef::Text(bytes) | ValueRef::Blob(bytes)) = value else { continue };
            if wanted.holds_secret(bytes) {
                found.push(violation("O12", format!("a secret is in {table}.{column}")));
            }
            let stranger = scope.and_then(|scope| wanted.foreign_user(bytes, scope));
            if let (Some(user), Some(scope)) = (stranger, scope) {
                found.push(violation(
                    "O11",
                    format!("a word of {} is in {table}.{column} of {scope:?}", user.name),
                ));
            }
        }
    });
    if let Err(error) = read {
        found.push(violation("O12", format!("{table} cannot be read: {error}")));
    }
    found
}

fn read_table(
    conn: &Connection,
    table: &str,
    mut take: impl FnMut(&[String], &[ValueRef<'_>]),
) -> rusqlite::Result<()> {
    let mut statement = conn.prepare(&format!("SELECT * FROM \"{table}\""))?;
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let values = (0..columns.len()).map(|at| row.get_ref(at)).collect::<Result<Vec<_>, _>>()?;
        take(&columns, &values);
    }
    Ok(())
}

/// Returns the owner of a row: it says so, or what it belongs to does.
fn scope_of<'a>(
    log: &'a StoredLog,
    columns: &[String],
    values: &[ValueRef<'a>],
) -> Option<(&'a str, &'a str)> {
    let value = |name: &str| values.get(columns.iter().position(|column| column == name)?).copied();
    let text = |name: &str| value(name).and_then(|value| value.as_str().ok());
    if let (Some(app), Some(user)) = (text("app"), text("user")) {
        return Some((app, user));
    }
    OWNERS.iter().find_map(|name| {
        let owner: RowId = value(name)?.as_blob().ok()?.try_into().ok()?;
        let thread = log.runs.get(&owner).map_or(owner, |run| run.thread);
        let thread = log.threads.get(&thread).map(|thread| (thread.app.as_str(), thread.user.as_str()));
        let memory = log.memories.get(&owner).map(|memory| (memory.app.as_str(), memory.user.as_str()));
        thread.or(memory)
    })
}

/// Every line that the server wrote.
pub(super) fn output(path: &Path, wanted: &ScannedWords<'_>) -> Vec<Violation> {
    let Ok(file) = File::open(path) else { return Vec::new() };
    let lines = BufReader::new(file).split(b'\n').map_while(Result::ok);
    let numbered = lines.enumerate().filter(|(_, line)| wanted.holds_secret(line));
    numbered
        .map(|(at, _)| violation("O12", format!("a secret is in line {} of the server's log", at + 1)))
        .collect()
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    let Some(first) = part.first() else { return true };
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| byte == first) {
        let from = rest.get(at..).unwrap_or_default();
        if from.starts_with(part) {
            return true;
        }
        rest = from.get(1..).unwrap_or_default();
    }
    false
}

fn prefix(users: &[User]) -> &str {
    let Some(first) = users.first() else { return "" };
    let common =
        |user: &User| first.canary.bytes().zip(user.canary.bytes()).take_while(|(a, b)| a == b).count();
    let length = users.iter().map(common).min().unwrap_or(0);
    first.canary.get(..length).unwrap_or_default()
}

/// As it is, in base64 wherever it may begin there, and as part of an address.
fn spellings(secret: &str) -> Vec<Vec<u8>> {
    let mut all = vec![secret.as_bytes().to_vec(), escaped(secret)];
    for before in 0..3 {
        let shifted = [[0_u8; 2].get(..before).unwrap_or_default(), secret.as_bytes()].concat();
        // Letters that depend on neighbours are left out at both ends.
        let (from, until) = ((before * 8).div_ceil(6), (shifted.len() * 8) / 6);
        for letters in [STANDARD, ADDRESS] {
            all.push(base64(&shifted, letters).get(from..until).unwrap_or_default().to_vec());
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const ADDRESS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Without padding.
fn base64(bytes: &[u8], letters: &[u8; 64]) -> Vec<u8> {
    let mut written = Vec::with_capacity(bytes.len() * 4 / 3 + 4);
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for shift in [18, 12, 6, 0] {
            written.extend(letters.get((bits >> shift & 63) as usize));
        }
    }
    written
}

fn escaped(text: &str) -> Vec<u8> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let one = |byte: u8| if plain(byte) { vec![byte] } else { format!("%{byte:02X}").into_bytes() };
    text.bytes().flat_map(one).collect()
}

#[cfg(test)]
mod tests;

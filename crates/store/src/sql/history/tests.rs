//! Pages of paths: the same as walking the path, at a price that does not depend on how long it is.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use uuid::Uuid;

use super::super::message_paths;
use super::*;
use crate::sqlite::tests::{in_memory, raw, raw_mut};

/// Messages of a long thread, more than a walk follows.
const LONG: u128 = 30_000;

fn thread() -> ThreadId {
    ThreadId::new(Uuid::from_u128(1))
}

fn message_id(number: u128) -> MessageId {
    MessageId::new(Uuid::from_u128(number))
}

/// A database of one thread whose messages have these parents; the first has the number 1, and none has a place yet.
fn filled(parents: &[Option<u128>]) -> SqlConnection {
    let conn = in_memory();
    conn.execute(
        "INSERT INTO threads (id, app, user, created_at, updated_at) VALUES (?1, 'app', 'alice', 0, 0)",
        [thread().bytes()],
    )
    .unwrap();
    conn.execute(
        "INSERT INTO runs (id, thread, app, user, message, status, created_at)
            VALUES (?1, ?1, 'app', 'alice', ?1, 'running', 0)",
        [thread().bytes()],
    )
    .unwrap();
    let all = conn.transaction(|conn| {
        (1..).zip(parents).try_for_each(|(number, parent)| {
            conn.execute(
                "INSERT INTO messages (id, thread, parent, role, run, seq, created_at)
                    VALUES (?1, ?2, ?3, 'user', ?2, ?4, 0)",
                params![
                    message_id(number).bytes(),
                    thread().bytes(),
                    parent.map(message_id).as_ref().map(MessageId::bytes),
                    number as i64 * 3,
                ],
            )
        })
    });
    all.unwrap();
    conn
}

fn line(length: u128) -> Vec<Option<u128>> {
    (1..=length).map(|number| number.checked_sub(1).filter(|parent| *parent > 0)).collect()
}

/// The path that ends in a message, by its parents alone.
fn walked(parents: &[Option<u128>], leaf: u128) -> Vec<u128> {
    let mut path = vec![leaf];
    while let Some(parent) = path.last().and_then(|last| parents[*last as usize - 1]) {
        path.push(parent);
    }
    path.reverse();
    path
}

/// Returns the path page by page.
fn paged(conn: &SqlConnection, leaf: u128, limit: usize) -> Vec<u128> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = page(conn, thread(), message_id(leaf), PageOf { after, limit }).unwrap();
        after = page.rows.last().map(|row| row.seq);
        found.extend(page.rows.iter().map(|row| row.id.uuid().as_u128()));
        if !page.more {
            return found;
        }
        assert_eq!(page.rows.len(), limit);
    }
}

/// The steps that SQLite's machine takes for a page.
fn steps(conn: &mut SqlConnection, leaf: u128, after: u64) -> usize {
    let counted = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&counted);
    let count = move || {
        counter.fetch_add(1, Ordering::Relaxed);
        false
    };
    raw_mut(conn).progress_handler(1, Some(count)).unwrap();
    let found = page(conn, thread(), message_id(leaf), PageOf { after: Some(after), limit: 50 }).unwrap();
    raw_mut(conn).progress_handler(0, None::<fn() -> bool>).unwrap();
    assert_eq!(found.rows.len(), 50);
    counted.load(Ordering::Relaxed)
}

#[test]
fn every_message_of_a_long_thread_is_listed_and_a_page_costs_the_same_anywhere() {
    let dearest = |length: u128| {
        let parents = line(length);
        let mut conn = filled(&parents);
        message_paths::fill_in(&conn).unwrap();
        assert_eq!(paged(&conn, length, 1_000), walked(&parents, length));
        let places = [0, length / 7, length / 2, length - 60];
        places.map(|number| steps(&mut conn, length, number as u64 * 3)).into_iter().max().unwrap()
    };
    let (short, long) = (dearest(1_000), dearest(LONG));
    println!("steps for a page: {short} in a thread of 1000 messages, {long} in one of {LONG}");
    assert!(long < short + short / 4, "{short} and {long}");
}

/// Numbers that look as if drawn, the same each time.
struct Drawn(u64);

impl Drawn {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

#[test]
fn a_branch_has_the_messages_of_its_own_path_and_no_others() {
    let mut drawn = Drawn(7);
    for _ in 0..20 {
        let mut parents: Vec<Option<u128>> = vec![None];
        for number in 2..=200_u64 {
            // Most follow the newest; the others answer an earlier one again, or begin anew.
            let parent = match drawn.below(10) {
                0 => Some(drawn.below(number - 1) + 1),
                1 if drawn.below(5) == 0 => None,
                _ => Some(number - 1),
            };
            parents.push(parent.map(u128::from));
        }
        let conn = filled(&parents);
        message_paths::fill_in(&conn).unwrap();
        for _ in 0..10 {
            let leaf = u128::from(drawn.below(200) + 1);
            let path = walked(&parents, leaf);
            for limit in [1, 2, 7, 300] {
                assert_eq!(paged(&conn, leaf, limit), path, "{leaf} by {limit}: {parents:?}");
            }
        }
    }
}

/// A message that is said now is placed as one that was there before.
#[test]
fn a_new_message_has_the_place_that_filling_in_would_give_it() {
    let parents = line(100);
    let conn = filled(&parents);
    message_paths::fill_in(&conn).unwrap();
    let all = find_all(&conn, "SELECT id, depth, leap FROM messages", [], |row| {
        let leap: MessageId = id(row, 2)?;
        Ok((id::<MessageId>(row, 0)?.uuid().as_u128(), (count(row, 1)?, leap.uuid().as_u128())))
    });
    let all: HashMap<u128, (u64, u128)> = all.unwrap().into_iter().collect();
    for number in 1..=100_u128 {
        let parent = parents[number as usize - 1].map(message_id);
        let place = message_paths::place_below(&conn, thread(), message_id(number), parent).unwrap().unwrap();
        assert_eq!((place.depth, place.leap.uuid().as_u128()), all[&number]);
    }
    assert_eq!(all[&100].0, 100);
}

#[test]
fn a_path_whose_places_are_missing_or_wrong_is_walked() {
    let parents = line(50);
    for damage in [
        "UPDATE messages SET depth = NULL, leap = NULL WHERE seq = 60",
        "UPDATE messages SET depth = NULL, leap = NULL",
        "UPDATE messages SET leap = id",
        "UPDATE messages SET depth = 7",
        "UPDATE messages SET depth = 1 + abs(random() % 50)",
        "UPDATE messages SET leap = randomblob(16)",
    ] {
        let conn = filled(&parents);
        message_paths::fill_in(&conn).unwrap();
        raw(&conn).execute_batch("DROP TRIGGER messages_placed_once").unwrap();
        raw(&conn).execute_batch(damage).unwrap();
        assert_eq!(paged(&conn, 50, 10), walked(&parents, 50), "{damage}");
    }
    let conn = filled(&parents);
    message_paths::fill_in(&conn).unwrap();
    let refused = raw(&conn).execute_batch("UPDATE messages SET depth = 7").unwrap_err().to_string();
    assert!(refused.contains("a message keeps its place"), "{refused}");
    raw(&conn).execute_batch("DROP TRIGGER messages_fixed").unwrap();
    conn.execute("UPDATE messages SET parent = ?1 WHERE parent IS NULL", [message_id(50).bytes()]).unwrap();
    assert_eq!(paged(&conn, 50, 10), walked(&parents, 50), "a ring is cut");
}

#[test]
fn filling_in_takes_as_many_transactions_as_it_needs_and_goes_on_where_it_was_cut() {
    let parents = line(12_000);
    let conn = filled(&parents);
    let left = |conn: &SqlConnection| -> i64 {
        raw(conn)
            .query_row("SELECT count(*) FROM messages WHERE depth IS NULL", [], |row| row.get(0))
            .unwrap()
    };
    message_paths::fill_in(&conn).unwrap();
    assert_eq!(left(&conn), 0);
    raw(&conn).execute_batch("DROP TRIGGER messages_placed_once").unwrap();
    conn.execute("UPDATE messages SET depth = NULL, leap = NULL WHERE seq > 21000", []).unwrap();
    message_paths::fill_in(&conn).unwrap();
    assert_eq!(left(&conn), 0);
    assert_eq!(paged(&conn, 12_000, 1_000), walked(&parents, 12_000));
}

/// The messages that a prompt reads, by both ways: as the last of a thread, and by walking from parent to parent.
#[test]
fn the_newest_messages_of_a_path_are_those_of_its_parents_with_and_without_branches() {
    let mut drawn = Drawn(7);
    let mut lines = 0;
    for branches in [0, 1, 8] {
        let parents: Vec<Option<u128>> = (1..=60)
            .map(|number: u128| {
                let leaps = branches > 0 && drawn.below(60) < branches;
                let last = number.checked_sub(1).filter(|parent| *parent > 0);
                if leaps && number > 2 { Some(1 + u128::from(drawn.below(number as u64 - 2))) } else { last }
            })
            .collect();
        let conn = filled(&parents);
        for leaf in 1..=60 {
            let whole = walked(&parents, leaf);
            for limit in [1, 2, 21, 100] {
                let found = path(&conn, thread(), message_id(leaf), limit).unwrap();
                let found: Vec<u128> = found.iter().map(|row| row.id.uuid().as_u128()).collect();
                assert_eq!(found, whole[whole.len().saturating_sub(limit)..], "{leaf} of {parents:?}");
                let quick = last_of_line(&conn, thread(), message_id(leaf), limit as i64).unwrap();
                lines += usize::from(quick.is_some());
            }
        }
    }
    assert!(lines > 240, "a thread without branches is read in one piece: {lines}");
    let none = path(&filled(&[None]), thread(), message_id(9), 3).unwrap();
    assert_eq!(none.len(), 0);
}

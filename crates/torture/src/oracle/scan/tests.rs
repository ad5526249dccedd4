//! Words and secrets where they belong, and where they do not.

use super::super::log::{LoggedRun, Thread};
use super::*;
use crate::oracle::tests::sample::{self, RUN, THREAD};
use crate::record::Trial;

const SECRET: &str = "sk-torture-a/b?c=d";

fn users() -> Vec<User> {
    let user = |name: &str| User {
        name: name.into(),
        app: "alpha".into(),
        key: String::new(),
        canary: format!("canary{name}"),
    };
    vec![user("ann"), user("bob")]
}

fn leaks(change: impl FnOnce(&mut Trial)) -> usize {
    let (mut trial, log) = sample::good();
    change(&mut trial);
    check(&Case::new(&trial, &log)).len()
}

#[test]
fn a_foreign_word_in_a_prompt_or_a_request_is_found() {
    assert_eq!(leaks(|_| {}), 0);
    assert_eq!(leaks(|trial| trial.asked[0].canaries.push("bob".into())), 1);
    assert_eq!(leaks(|trial| trial.arrivals[0].canaries = vec!["bob".into()]), 1);
    assert_eq!(leaks(|trial| trial.leaks.push("ann was told of bob".into())), 1);
    assert_eq!(leaks(|trial| trial.asked[0].tag = None), 0, "a job of one user");
    let both = |trial: &mut Trial| {
        trial.asked[0].tag = None;
        trial.asked[0].canaries.push("bob".into());
    };
    assert_eq!(leaks(both), 1);
}

#[test]
fn a_foreign_word_in_a_row_is_found_whosever_the_row_is() {
    let users = users();
    let wanted = ScannedWords::new(&users, &[]);
    let log = {
        let (_, good) = sample::good();
        let thread = Thread { events: Vec::new(), ..good.threads[&THREAD].clone() };
        let run = LoggedRun { ..good.runs[&RUN].clone() };
        StoredLog { threads: [(THREAD, thread)].into(), runs: [(RUN, run)].into(), ..StoredLog::default() }
    };
    let (_folder, conn) = sample::database();
    conn.execute_batch("DROP TRIGGER events_append").unwrap();
    let event = |body: &str| {
        let sql = "INSERT INTO events (thread, seq, run, kind, at, body)
            VALUES (?1, (SELECT count(*) + 1 FROM events), ?2, 'text:delta', 0, ?3)";
        conn.execute(sql, rusqlite::params![THREAD, RUN, body]).unwrap();
    };
    event("canaryann speaks");
    assert_eq!(database(&conn, &log, &wanted), []);
    event("canarybob speaks");
    let record = "INSERT INTO files (app, user, path, version, state, content, updated_at)
        VALUES ('alpha', 'ann', 'a', 1, 1, 'of canarybob', 0)";
    conn.execute(record, []).unwrap();
    let found: Vec<String> = database(&conn, &log, &wanted).into_iter().map(|found| found.what).collect();
    assert_eq!(found.len(), 2, "{found:?}");
    for part in ["events.body", "files.content"] {
        assert!(found.iter().any(|what| what.contains(part)), "{part}: {found:?}");
    }
}

#[test]
fn a_secret_is_found_in_every_spelling() {
    let secrets = [SECRET.to_owned()];
    let wanted = ScannedWords::new(&[], &secrets);
    let before =
        ["", "x", "xy", "xyz"].map(|before| base64(format!("{before}{SECRET}!").as_bytes(), STANDARD));
    for spelt in
        before.into_iter().chain([SECRET.into(), escaped(SECRET), base64(SECRET.as_bytes(), ADDRESS)])
    {
        let line = [b"cause=", spelt.as_slice(), b" end"].concat();
        assert!(wanted.holds_secret(&line), "{}", String::from_utf8_lossy(&line));
    }
    assert!(!wanted.holds_secret(b"sk-torture-another and c2stdG9ydHVyZS1hbm90aGVy"));

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server.log");
    std::fs::write(&path, format!("fine\nkey={SECRET}\n")).unwrap();
    assert_eq!(output(&path, &wanted).len(), 1);

    let (_folder, conn) = sample::database();
    assert_eq!(database(&conn, &StoredLog::default(), &wanted), []);
    let secret = "INSERT INTO texts (app, user, source, hash, body) VALUES ('a', 'u', 's', zeroblob(16), ?1)";
    conn.execute(secret, [SECRET]).unwrap();
    assert_eq!(database(&conn, &StoredLog::default(), &wanted).len(), 1);
}

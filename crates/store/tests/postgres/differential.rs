//! A plan of operations runs on SQLite and on PostgreSQL: every answer, every error and every published event is the
//! same.
//!
//! A plan follows from its seed. `RONDO_TEST_SEEDS=FIRST-LAST` runs other seeds than the usual ones.

/// Asks both stores the same, and gives the answer if they agree on one. A refusal gives nothing.
macro_rules! ask {
    ($plan:expr, $method:ident($($arg:expr),* $(,)?)) => {{
        $plan.note(stringify!($method), format!("{:?}", ($(&$arg,)*)));
        let (file, server) = $plan.stores();
        let one = file.$method($($arg),*).await;
        let other = server.$method($($arg),*).await;
        $plan.compare(one, other)
    }};
}

mod access;
mod background;
mod context;
mod documents;
mod generator;
mod kinds;
mod last_look;
mod memories;
mod odd_values;
mod rare_questions;
mod recorded_runs;
mod threads;
mod together;
mod tool_calls;
mod two_stores;
mod uploads;
mod user_things;

use std::collections::{BTreeMap, VecDeque};

use generator::{AskedCount, ComparedPlan};
use kinds::KINDS;

/// Operations of one plan. An operation asks one or a few methods of the store.
const OPERATIONS: usize = 1_000;

/// Each method gives an answer so often in the usual plans together, at least.
const LEAST_ANSWERS: usize = 3;

const SEEDS: std::ops::RangeInclusive<u64> = 1..=3;

/// Plans that are played at the same time.
const CORES: usize = 2;

/// Names the seeds to be tried instead of the usual ones, such as `1-200`.
const SEEDS_VARIABLE: &str = "RONDO_TEST_SEEDS";

/// The files in which the methods of the store are declared.
const DECLARATIONS: &[&str] = &[
    include_str!("../../src/store/actions.rs"),
    include_str!("../../src/store/context.rs"),
    include_str!("../../src/store/conversations.rs"),
    include_str!("../../src/store/memories.rs"),
    include_str!("../../src/store/server.rs"),
];

/// Methods whose answer belongs to one database: random bytes, and the free space of a file.
const NOT_COMPARED: &[&str] = &["secret", "tidy"];

/// Methods that no input makes fail: lists that are empty then, and reports for admins.
const NEVER_REFUSED: &[&str] = &[
    "access_ends",
    "actions",
    "active_memories",
    "active_run",
    "add_key",
    "add_session",
    "admin_audit",
    "adopt",
    "all_messages",
    "begun_actions",
    "cancel_as_admin",
    "catch_up",
    "chunks",
    "claim",
    "client_calls",
    "client_calls_of",
    "count_records",
    "credential",
    "credentials",
    "delete_knowledge",
    "discard_unfinished_knowledge",
    "document_embedded",
    "documents",
    "end_session",
    "erase",
    "erase_actions",
    "erasures",
    "expire_waiting",
    "facts",
    "file_sizes",
    "file_version",
    "files",
    "files_of_revision",
    "first_message",
    "forgotten_among",
    "has_good_keys",
    "has_keys",
    "head",
    "hidden_words",
    "image_contents",
    "images",
    "is_deleted",
    "is_named",
    "is_skipped",
    "jobs",
    "jobs_of_app",
    "keep_revision",
    "key_by_hash",
    "keys",
    "knowledge",
    "mcp_tools",
    "memories",
    "memories_by_id",
    "memory_is_off",
    "messages",
    "missing_apps",
    "next_due",
    "next_expiry",
    "note_found",
    "note_key_use",
    "note_missing",
    "note_served_revision",
    "notices",
    "path",
    "persona",
    "personas",
    "pin_page",
    "pins",
    "profile",
    "prompt_rows",
    "proposals",
    "proposals_of",
    "prune",
    "purge",
    "put_vectors",
    "queued_runs",
    "recall_changes",
    "recall_head",
    "records",
    "remove_keys",
    "revoke_key",
    "run_stats",
    "runs_of_all",
    "schedule",
    "schedule_for",
    "scopes_to_embed",
    "session_by_hash",
    "sessions",
    "snapshot",
    "summaries",
    "summary_page",
    "texts",
    "threads",
    "threads_by_id",
    "threads_of_apps",
    "titles",
    "told_to_stop",
    "tombstones",
    "tree",
    "undo_plans",
    "unextracted",
    "usage",
    "usage_of_day",
    "usage_totals",
    "used",
    "verify_ledger",
    "webhook_message",
];

#[test]
fn sqlite_and_postgresql_give_the_same_answers() {
    let (seeds, is_usual) = seeds();
    let mut counts: BTreeMap<&'static str, AskedCount> = BTreeMap::new();
    let mut failed = Vec::new();
    let mut waiting = seeds.map(|seed| (seed, std::thread::spawn(move || played(seed))));
    // As many at a time as there are cores in the smallest machine that runs this.
    let mut running: VecDeque<_> = waiting.by_ref().take(CORES).collect();
    while let Some((seed, plan)) = running.pop_front() {
        match plan.join() {
            Ok(played) => {
                played.into_iter().for_each(|(method, count)| *counts.entry(method).or_default() += count)
            }
            Err(_) => failed.push(seed),
        }
        running.extend(waiting.next());
    }
    assert_eq!(failed, [0; 0], "the plans of these seeds have failed");
    if is_usual {
        check_coverage(&counts);
    }
}

/// The seeds to be tried, and whether they are the usual ones.
#[expect(clippy::disallowed_methods, reason = "the variable is for tests alone")]
fn seeds() -> (std::ops::RangeInclusive<u64>, bool) {
    let Ok(asked) = std::env::var(SEEDS_VARIABLE) else { return (SEEDS, true) };
    let (first, last) = asked.split_once('-').unwrap_or((&asked, &asked));
    (first.parse().unwrap()..=last.parse().unwrap(), false)
}

/// Plays the plan of a seed on two new stores. Gives how often each method was asked.
fn played(seed: u64) -> BTreeMap<&'static str, AskedCount> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let begin = std::time::Instant::now();
    let counts = runtime.block_on(async {
        let mut plan = ComparedPlan::new(seed, &crate::address());
        let total: u32 = KINDS.iter().map(|kind| kind.weight).sum();
        for number in 1..=OPERATIONS {
            let mut drawn = plan.random.u32(..total);
            let kind = KINDS.iter().find(|kind| match drawn.checked_sub(kind.weight) {
                Some(rest) => {
                    drawn = rest;
                    false
                }
                None => true,
            });
            let kind = kind.unwrap();
            plan.begin(number, kind.name);
            (kind.play)(&mut plan).await;
            plan.let_time_pass();
        }
        plan.begin(OPERATIONS + 1, "rare_questions");
        rare_questions::ask_all(&mut plan).await;
        plan.begin(OPERATIONS + 2, "last_look");
        last_look::compare_everything(&mut plan).await;
        plan.close()
    });
    let asked: usize = counts.values().map(|count| count.answered + count.refused).sum();
    println!("seed {seed}: {asked} questions in {:.1} s", begin.elapsed().as_secs_f64());
    counts
}

/// Every method of the store was asked, often enough with an answer, and was refused once if that can be.
fn check_coverage(counts: &BTreeMap<&'static str, AskedCount>) {
    let mut missing = Vec::new();
    for method in DECLARATIONS.iter().flat_map(|text| methods_of(text)) {
        let AskedCount { answered, refused } = counts.get(method).copied().unwrap_or_default();
        if NOT_COMPARED.contains(&method) {
            continue;
        }
        if answered < LEAST_ANSWERS {
            missing.push(format!("{method} was answered {answered} times"));
        }
        if refused == 0 && !NEVER_REFUSED.contains(&method) {
            missing.push(format!("{method} was never refused"));
        }
    }
    assert!(missing.is_empty(), "the plans do not ask enough:\n{}", missing.join("\n"));
}

/// The names of the methods that a file declares.
fn methods_of(declarations: &'static str) -> impl Iterator<Item = &'static str> {
    let declared = declarations.lines().filter_map(|line| line.trim_start().strip_prefix("fn "));
    declared.filter_map(|rest| rest.split_once('(').map(|(name, _)| name))
}

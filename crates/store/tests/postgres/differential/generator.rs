//! A plan under way: random choices, the things that it has made, and the comparison of each answer.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{Debug, Write as _};
use std::ops::AddAssign;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use protocol::{
    ActionId, AppId, CallId, Clock, DocumentId, ImageId, KeyId, MemoryId, MessageId, PinId, Principal,
    ProposalId, RecordId, RunId, Scope, SessionId, ThreadId, UserId,
};
use store::{Error, IdempotencyClaim, JobRow, PageOf, Store, TimeCursor};

use super::two_stores::{IdsFrom, ToldParts, TwoStores};

/// Letters of a question or an answer that a failed plan shows.
const SHOWN_CHARS: usize = 600;

/// How often a method was asked.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AskedCount {
    pub(super) answered: usize,
    pub(super) refused: usize,
}

impl AddAssign for AskedCount {
    fn add_assign(&mut self, other: Self) {
        self.answered += other.answered;
        self.refused += other.refused;
    }
}

/// Calls of a run that have no result yet, and the number of its step.
#[derive(Default)]
pub(super) struct RunPlace {
    pub(super) step: u32,
    pub(super) calls: Vec<CallId>,
}

/// The things that a plan has made, with their owners.
#[derive(Default)]
pub(super) struct KnownThings {
    pub(super) threads: Vec<(Scope, ThreadId)>,
    pub(super) messages: Vec<(ThreadId, MessageId)>,
    pub(super) runs: Vec<(Scope, RunId)>,
    pub(super) places: HashMap<RunId, RunPlace>,
    pub(super) calls: Vec<(RunId, CallId)>,
    pub(super) proposals: Vec<(Scope, ProposalId)>,
    pub(super) client_calls: Vec<(Scope, CallId)>,
    pub(super) actions: Vec<(Scope, ActionId)>,
    pub(super) memories: Vec<(Scope, MemoryId)>,
    pub(super) records: Vec<(Scope, (&'static str, RecordId))>,
    pub(super) files: Vec<(Scope, String)>,
    pub(super) personas: Vec<(Scope, String)>,
    pub(super) pins: Vec<(Scope, PinId)>,
    pub(super) documents: Vec<(Scope, DocumentId)>,
    pub(super) images: Vec<(Scope, ImageId)>,
    pub(super) keys: Vec<KeyId>,
    pub(super) sessions: Vec<SessionId>,
    pub(super) hashes: Vec<[u8; 32]>,
    pub(super) jobs: Vec<JobRow>,
    pub(super) texts: Vec<(Scope, (String, [u8; 16]))>,
    pub(super) once: Vec<IdempotencyClaim>,
}

pub(super) struct ComparedPlan {
    seed: u64,
    pub(super) random: fastrand::Rng,
    pub(super) ids: IdsFrom,
    pub(super) known: KnownThings,
    pub(super) stores: TwoStores,
    operation: (usize, &'static str),
    method: &'static str,
    /// All questions so far.
    asked: Vec<String>,
    counts: BTreeMap<&'static str, AskedCount>,
}

impl ComparedPlan {
    pub(super) fn new(seed: u64, address: &str) -> Self {
        Self {
            seed,
            random: fastrand::Rng::with_seed(seed),
            ids: IdsFrom::new(0),
            known: KnownThings::default(),
            stores: TwoStores::open(address, &format!("differential_{}_{seed}", std::process::id())),
            operation: (0, ""),
            method: "",
            asked: vec![],
            counts: BTreeMap::new(),
        }
    }

    /// Begins an operation.
    pub(super) fn begin(&mut self, number: usize, name: &'static str) {
        self.operation = (number, name);
    }

    pub(super) fn stores(&self) -> (Store, Store) {
        let [file, server] = self.stores.both();
        (file, server)
    }

    /// Notes a question that is about to be asked.
    pub(super) fn note(&mut self, method: &'static str, arguments: impl AsRef<str>) {
        self.method = method;
        let (number, name) = self.operation;
        self.asked.push(format!("{number} {name}: {method}{}", shorten_text(arguments.as_ref())));
    }

    /// Fails unless both stores answered the same, and have published the same.
    #[expect(clippy::needless_pass_by_value, reason = "nobody needs the answers afterwards")]
    pub(super) fn compare<T: Debug>(&mut self, one: Result<T, Error>, other: Result<T, Error>) -> Option<T> {
        let (file, server) = (shown(&one), shown(&other));
        if file != server {
            self.fail("answers", &file, &server);
        }
        self.compare_told();
        let count = self.counts.entry(self.method).or_default();
        match one {
            Ok(answer) => {
                count.answered += 1;
                Some(answer)
            }
            Err(_) => {
                count.refused += 1;
                None
            }
        }
    }

    fn compare_told(&mut self) {
        let [file, server] = [0, 1].map(|side| self.stores.told[side].take());
        if file != server {
            let shown = |told: &ToldParts| {
                format!("{}\n  {:?}\n  work: {}", told.events.join("\n  "), told.newest, told.has_work)
            };
            self.fail("published events", &shown(&file), &shown(&server));
        }
    }

    /// Fails unless two readings of the same are equal.
    pub(super) fn require_same(&mut self, what: &str, file: &str, server: &str) {
        if file != server {
            self.fail(what, file, server);
        }
    }

    fn fail(&self, what: &str, file: &str, server: &str) -> ! {
        let (number, name) = self.operation;
        let from = file.bytes().zip(server.bytes()).position(|(one, other)| one != other).unwrap_or(0);
        panic!(
            "the {what} of operation {number} ({name}) differ from byte {from} on.\nSQLite:     {}\nPostgreSQL: {}",
            text_around(file, from),
            text_around(server, from),
        );
    }

    /// Compares all that is stored, after the last write. Gives how often each method was asked.
    pub(super) fn close(mut self) -> BTreeMap<&'static str, AskedCount> {
        self.stores.close();
        let file = store::inspection::file_log(self.stores.folder()).unwrap();
        let server = store::inspection::postgres_log(&self.stores.address).unwrap();
        assert_eq!(file.len(), server.len(), "seed {}: as many events", self.seed);
        for (one, other) in file.iter().zip(&server) {
            let (one, other) =
                (format!("{:?} {:?}", one.at, one.event), format!("{:?} {:?}", other.at, other.event));
            self.require_same("whole logs", &one, &other);
        }
        let file = store::sqlite::audit(self.stores.folder()).unwrap();
        let server = store::postgres::audit(&self.stores.address).unwrap();
        assert_eq!(file.findings, [""; 0], "seed {}: the audit of SQLite", self.seed);
        assert_eq!(server.findings, [""; 0], "seed {}: the audit of PostgreSQL", self.seed);
        std::mem::take(&mut self.counts)
    }

    /// Moves the clock of both: mostly a little, sometimes over an hour or a day.
    pub(super) fn let_time_pass(&mut self) {
        let millis = match self.random.u32(..200) {
            0 => 90_000_000,
            1..=5 => 3_700_000,
            6..=60 => 0,
            _ => self.random.u64(..4_000),
        };
        self.stores.clock.advance(Duration::from_millis(millis));
    }

    pub(super) fn now(&self) -> Timestamp {
        self.stores.clock.now()
    }

    /// A moment that is `seconds` away.
    pub(super) fn in_seconds(&self, seconds: i64) -> Timestamp {
        self.now() + SignedDuration::from_secs(seconds)
    }

    /// A moment within the last days, or now, or far away.
    pub(super) fn some_moment(&mut self) -> Timestamp {
        match self.random.u32(..8) {
            0 => self.now(),
            1 => Timestamp::UNIX_EPOCH,
            2 => self.in_seconds(1_000_000),
            _ => {
                let seconds = self.random.i64(0..300_000);
                self.in_seconds(-seconds)
            }
        }
    }

    /// True once in `times` times.
    pub(super) fn once_in(&mut self, times: u32) -> bool {
        self.random.u32(..times) == 0
    }

    pub(super) fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.random.bool().then(|| make(self))
    }

    pub(super) fn one_of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.random.usize(..choices.len())].clone()
    }

    /// One of the things, the newest more often than the others.
    pub(super) fn pick<T: Clone>(&mut self, things: impl FnOnce(&KnownThings) -> &Vec<T>) -> Option<T> {
        let things = things(&self.known);
        let from = if self.random.bool() { things.len().saturating_sub(8) } else { 0 };
        (!things.is_empty()).then(|| things[self.random.usize(from..things.len())].clone())
    }

    pub(super) fn app(&mut self) -> AppId {
        AppId::new(if self.once_in(4) { "other app's" } else { "app" })
    }

    pub(super) fn user(&mut self) -> UserId {
        let users = ["alice", "alice", "alice", "alice", "bob", "zoë 🦀", "o'hara \"x\" \\", "Alice"];
        UserId::new(self.one_of(&users))
    }

    pub(super) fn scope(&mut self) -> Scope {
        Scope { app: self.app(), user: self.user() }
    }

    /// Returns the owner of the scope, or sometimes another user.
    pub(super) fn principal_of(&mut self, scope: &Scope) -> Principal {
        let owner = Principal::authenticated(scope.user.clone());
        match self.random.u32(..16) {
            0 => Principal::authenticated(self.user()),
            1 => owner.only_for(AppId::new("other app's")),
            2 => owner.only_for(scope.app.clone()),
            3 => owner.acted_for_by("the key of o'hara"),
            _ => owner,
        }
    }

    /// The scope itself, or sometimes another one.
    pub(super) fn near(&mut self, scope: Scope) -> Scope {
        if self.once_in(12) { self.scope() } else { scope }
    }

    /// Mostly no key; else a new one, one that was used before, or one that was used for something else.
    pub(super) fn once(&mut self) -> Option<IdempotencyClaim> {
        let made = match self.random.u32(..8) {
            0 => {
                let key = format!("key {} {}", self.known.once.len(), self.word());
                IdempotencyClaim { key, fingerprint: [self.random.u8(..); 32] }
            }
            1 => self.pick(|known| &known.once)?,
            2 if self.once_in(3) => {
                IdempotencyClaim { fingerprint: [0; 32], ..self.pick(|known| &known.once)? }
            }
            _ => return None,
        };
        self.known.once.push(made.clone());
        Some(made)
    }

    pub(super) fn page<C>(&mut self, after: Option<C>) -> PageOf<C> {
        let limit = self.one_of(&[1, 2, 3, 20, 1_000]);
        PageOf { after, limit }
    }

    /// A page that begins at a thing, which need not be in the list.
    pub(super) fn page_from<I>(&mut self, id: Option<I>) -> PageOf<TimeCursor<I>> {
        let at = self.some_moment();
        let after = id.filter(|_| self.random.bool()).map(|id| TimeCursor { at, id });
        self.page(after)
    }

    /// Returns the owner of a thing, and its id: one that is known, or sometimes one that is not.
    pub(super) fn thing<I: Copy>(
        &mut self,
        things: impl FnOnce(&KnownThings) -> &Vec<(Scope, I)>,
        unknown: impl FnOnce(&IdsFrom) -> I,
    ) -> (Scope, I) {
        let known = if self.once_in(25) { None } else { self.pick(things) };
        known.unwrap_or_else(|| (self.scope(), unknown(&self.ids)))
    }

    pub(super) fn open_again(&mut self, boot: &str) {
        self.stores.open_again(boot);
    }

    /// Ids that the stores draw themselves, the same on both sides.
    pub(super) fn drawn_ids(&self) -> [Arc<IdsFrom>; 2] {
        let first = (self.asked.len() as u128) << 64;
        [0, 1].map(|_| Arc::new(IdsFrom::new(first)))
    }
}

/// Shows a plan that has failed.
impl Drop for ComparedPlan {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("The questions of the plan with the seed {}:\n{}", self.seed, self.asked.join("\n"));
        }
    }
}

/// An answer as it is compared.
pub(super) fn shown<T: Debug>(answer: &Result<T, Error>) -> String {
    let words = match answer {
        Ok(answer) => format!("{answer:?}"),
        Err(error) => refusal(error),
    };
    // PostgreSQL has no text with U+0000, and stores U+FFFD (docs/postgres.md).
    words.replace("\\0", "\u{fffd}")
}

/// An error by its kind and its words. A database's message about a constraint is in its own words.
fn refusal(error: &Error) -> String {
    #[expect(clippy::wildcard_enum_match_arm, reason = "all others say the same on both")]
    let said = match error {
        Error::Sql(rusqlite::Error::SqliteFailure(code, Some(said)))
            if code.extended_code == rusqlite::ffi::SQLITE_CONSTRAINT_TRIGGER =>
        {
            said.clone()
        }
        Error::Postgres(error) if error.code().is_some_and(|code| code.code() == "23000") => {
            error.as_db_error().map(|said| said.message().to_owned()).unwrap_or_default()
        }
        Error::Sql(_) | Error::Postgres(_) if !error.may_pass() => "a constraint".to_owned(),
        error => return format!("refused: {error:?}: {error}"),
    };
    format!("refused by the database: {said}")
}

fn shorten_text(text: &str) -> String {
    let mut short: String = text.chars().take(SHOWN_CHARS).collect();
    if short.len() < text.len() {
        let _ = write!(short, "… ({} bytes)", text.len());
    }
    short
}

/// The part of a text around a byte.
fn text_around(text: &str, byte: usize) -> String {
    let from = text.floor_char_boundary(byte.saturating_sub(SHOWN_CHARS / 2));
    let start = if from == 0 { "" } else { "… " };
    format!("{start}{}", shorten_text(&text[from..]))
}

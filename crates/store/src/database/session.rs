//! A connection to PostgreSQL whose calls block, as SQLite's do. Statements that give nothing back are sent without
//! waiting, so that a transaction takes as many round trips as it has questions.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::error::Error as StdError;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::BytesMut;
use futures_util::TryStreamExt;
use tokio::runtime::Runtime;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type};
use tokio_postgres::{Client, Row, Statement};

use super::dialect::postgres_text;
use super::{SqlParams, SqlValue};
use crate::{Error, PackedVector};

/// Prepared statements that a connection keeps; more than it has. Beyond that all are forgotten and prepared anew.
const MAX_STATEMENTS: usize = 2_048;

/// Statements that are sent before their answers are awaited.
const MAX_SENT: usize = 256;

/// The longest wait for an answer. The server gives up on a statement before (`LIMITS` in `postgres/connect.rs`).
const PATIENCE: Duration = Duration::from_secs(60);

/// The longest wait for statements that look at all rows.
const LONG_PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);

/// Codes of the server when it gave up on a statement: a lock was not free in time, or the statement took too long.
const GIVEN_UP: [SqlState; 2] = [SqlState::LOCK_NOT_AVAILABLE, SqlState::QUERY_CANCELED];

/// How often the connection is driven before it counts as alive.
const LOOKS: u32 = 3;

/// A connection and what it has prepared.
pub(crate) struct PostgresSession {
    client: Arc<Client>,
    state: RefCell<SessionState>,
    patience: Cell<Duration>,
    /// Drives the connection while a call waits. None once dropped.
    runtime: Option<Runtime>,
}

#[derive(Default)]
struct SessionState {
    texts: HashMap<Box<str>, PreparedText>,
    prepared: HashMap<(u32, u64), Statement>,
    sent: Vec<Sent>,
    is_lost: bool,
    /// Whether the server gave up on a statement of the transaction under way.
    has_given_up: bool,
    /// The user whose rows the database shows; empty for all rows.
    rows_of: String,
}

/// A statement as PostgreSQL reads it, and its number on the connection.
#[derive(Clone)]
pub(crate) struct PreparedText {
    number: u32,
    text: Arc<str>,
}

/// A statement that was sent, and its answer.
type Sent = Pin<Box<dyn Future<Output = Result<u64, tokio_postgres::Error>> + Send>>;

impl PostgresSession {
    pub(crate) fn new(runtime: Runtime, client: Client) -> Self {
        let patience = Cell::new(PATIENCE);
        Self { client: Arc::new(client), state: RefCell::default(), patience, runtime: Some(runtime) }
    }

    /// From now on statements may look at all rows.
    pub(crate) fn wait_long(&self) {
        self.patience.set(LONG_PATIENCE);
    }

    /// Whether the connection is still there, as far as is known.
    pub(crate) fn is_alive(&self) -> bool {
        !self.state.borrow().is_lost && !self.client.is_closed()
    }

    /// Whether the connection is still there, after a look at what has arrived meanwhile: a server that has ended has
    /// said so.
    pub(crate) fn is_still_alive(&self) -> bool {
        if let Some(runtime) = &self.runtime {
            runtime.block_on(async {
                for _ in 0..LOOKS {
                    tokio::task::yield_now().await;
                }
            });
        }
        self.is_alive()
    }

    /// The statement as PostgreSQL reads it.
    pub(crate) fn text(&self, statement: &str) -> PreparedText {
        let mut state = self.state.borrow_mut();
        if let Some(known) = state.texts.get(statement) {
            return known.clone();
        }
        if state.texts.len() >= MAX_STATEMENTS {
            state.texts.clear();
            state.prepared.clear();
        }
        let number = u32::try_from(state.texts.len()).unwrap_or(u32::MAX);
        let text = PreparedText { number, text: postgres_text(statement).into() };
        state.texts.insert(statement.into(), text.clone());
        text
    }

    /// Shows the rows of a user alone from now on, or all rows if the name is empty.
    pub(crate) fn see_rows_of(&self, user: &str) -> Result<(), Error> {
        if self.state.borrow().rows_of == user {
            return Ok(());
        }
        self.send(&self.text("SELECT set_config('rondo.user', ?1, false)"), &[user])?;
        self.state.borrow_mut().rows_of = user.to_owned();
        Ok(())
    }

    /// A transaction begins. One that was rolled back has taken the choice of rows with it, so it begins with all rows.
    pub(crate) fn see_all_rows(&self) {
        let mut state = self.state.borrow_mut();
        state.rows_of.clear();
        state.has_given_up = false;
    }

    /// Whether the server gave up on a statement since the transaction has begun, as it does if a lock is not free in time.
    /// The next statement would wait as long for the same lock.
    pub(crate) fn has_given_up(&self) -> bool {
        self.state.borrow().has_given_up
    }

    /// Executes texts that need no preparation, such as the schema.
    pub(crate) fn run_script(&self, script: &str) -> Result<(), Error> {
        self.settle()?;
        self.wait(self.client.batch_execute(script))
    }

    /// Sends a statement. Its failure shows later.
    pub(crate) fn send(&self, text: &PreparedText, values: &impl SqlParams) -> Result<(), Error> {
        let statement = self.prepare(text, values)?;
        let owned: Vec<OwnedValue> = (0..values.len()).map(|at| OwnedValue::of(values.value(at))).collect();
        let client = Arc::clone(&self.client);
        let mut sent: Sent = Box::pin(async move { client.execute_raw(&statement, owned).await });
        // The first poll puts the message into the queue of the connection.
        if let Poll::Ready(Err(error)) = sent.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Err(self.explain(error));
        }
        let count = {
            let mut state = self.state.borrow_mut();
            state.sent.push(sent);
            state.sent.len()
        };
        if count >= MAX_SENT { self.settle() } else { Ok(()) }
    }

    /// Waits for the answers to all that was sent. Gives the first failure.
    pub(crate) fn settle(&self) -> Result<(), Error> {
        let sent = self.take_sent();
        if sent.is_empty() {
            return Ok(());
        }
        self.wait(all_answered(sent))
    }

    /// Executes a statement, and counts the rows that it changes.
    pub(crate) fn count_changed(&self, text: &PreparedText, values: &impl SqlParams) -> Result<usize, Error> {
        let statement = self.prepare(text, values)?;
        let borrowed = (0..values.len()).map(|at| values.value(at)).collect::<Vec<_>>();
        let work = self.after_sent(self.client.execute_raw(&statement, borrowed));
        self.wait(work).map(|count| usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// The rows that a statement finds.
    pub(crate) fn query(&self, text: &PreparedText, values: &impl SqlParams) -> Result<Vec<Row>, Error> {
        let statement = self.prepare(text, values)?;
        let borrowed = (0..values.len()).map(|at| values.value(at)).collect::<Vec<_>>();
        let work = async {
            let rows = self.after_sent(self.client.query_raw(&statement, borrowed)).await?;
            rows.try_collect().await
        };
        self.wait(work)
    }

    /// Sends a request, and takes the answers to all that was sent before it first: the connection hands answers on in
    /// their order, and stops at an answer that is not taken. An earlier failure is the answer.
    async fn after_sent<T>(
        &self,
        request: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, tokio_postgres::Error> {
        let mut answer = pin!(request);
        let first = polled_once(answer.as_mut()).await;
        all_answered(self.take_sent()).await?;
        match first {
            Poll::Ready(answer) => answer,
            Poll::Pending => answer.await,
        }
    }

    fn take_sent(&self) -> Vec<Sent> {
        std::mem::take(&mut self.state.borrow_mut().sent)
    }

    /// The prepared form of a statement for values of these types.
    fn prepare(&self, text: &PreparedText, values: &impl SqlParams) -> Result<Statement, Error> {
        let types: Vec<Type> = (0..values.len()).map(|at| type_of(values.value(at))).collect();
        let signature = types.iter().fold(1u64, |signature, kind| signature * 5 + class_of(kind));
        let key = (text.number, signature);
        if let Some(known) = self.state.borrow().prepared.get(&key) {
            return Ok(known.clone());
        }
        let statement = self.wait(self.after_sent(self.client.prepare_typed(&text.text, &types)))?;
        self.state.borrow_mut().prepared.insert(key, statement.clone());
        Ok(statement)
    }

    /// Drives the connection until an answer is there.
    fn wait<T>(&self, work: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, Error> {
        let Some(runtime) = &self.runtime else { return Err(Error::Closed) };
        let patience = self.patience.get();
        match runtime.block_on(async { tokio::time::timeout(patience, work).await }) {
            Ok(answer) => answer.map_err(|error| self.explain(error)),
            Err(_) => {
                self.state.borrow_mut().is_lost = true;
                Err(Error::Disconnected(format!("no answer within {} s", patience.as_secs())))
            }
        }
    }

    fn explain(&self, error: tokio_postgres::Error) -> Error {
        let mut state = self.state.borrow_mut();
        state.has_given_up |= error.code().is_some_and(|code| GIVEN_UP.contains(code));
        let error = Error::of_postgres(error);
        state.is_lost |= matches!(error, Error::Disconnected(_));
        error
    }
}

impl Drop for PostgresSession {
    fn drop(&mut self) {
        // A thread that runs tasks must not wait for a runtime to end.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Sends a statement by polling its answer, which is rarely there at once.
async fn polled_once<T>(mut answer: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    std::future::poll_fn(|context| Poll::Ready(answer.as_mut().poll(context))).await
}

async fn all_answered(sent: Vec<Sent>) -> Result<(), tokio_postgres::Error> {
    for answer in sent {
        answer.await?;
    }
    Ok(())
}

fn type_of(value: SqlValue<'_>) -> Type {
    match value {
        SqlValue::Null => Type::UNKNOWN,
        SqlValue::Integer(_) => Type::INT8,
        SqlValue::Real(_) => Type::FLOAT8,
        SqlValue::Text(_) => Type::TEXT,
        SqlValue::Blob(_) => Type::BYTEA,
        // The server says which type it is: that of an extension has no fixed number.
        SqlValue::Vector(_) => Type::UNKNOWN,
    }
}

fn class_of(kind: &Type) -> u64 {
    match *kind {
        Type::INT8 => 1,
        Type::FLOAT8 => 2,
        Type::TEXT => 3,
        Type::BYTEA => 4,
        _ => 0,
    }
}

/// A value that is kept until its statement is answered.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum OwnedValue {
    Null,
    Integer(i64),
    Real(f64),
    Text(Box<[u8]>),
    Blob(Box<[u8]>),
    Vector(PackedVector),
}

impl OwnedValue {
    pub(crate) fn of(value: SqlValue<'_>) -> Self {
        match value {
            SqlValue::Null => OwnedValue::Null,
            SqlValue::Integer(number) => OwnedValue::Integer(number),
            SqlValue::Real(number) => OwnedValue::Real(number),
            SqlValue::Text(bytes) => OwnedValue::Text(bytes.into()),
            SqlValue::Blob(bytes) => OwnedValue::Blob(bytes.into()),
            SqlValue::Vector(vector) => OwnedValue::Vector(vector.clone()),
        }
    }

    /// The bytes of a text, a blob or a vector.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            OwnedValue::Null | OwnedValue::Integer(_) | OwnedValue::Real(_) => 0,
            OwnedValue::Text(bytes) | OwnedValue::Blob(bytes) => bytes.len(),
            OwnedValue::Vector(vector) => vector.bytes().len(),
        }
    }

    /// The value as it comes back from PostgreSQL, which has no text with a zero character.
    pub(crate) fn without_zeros(self) -> Self {
        match &self {
            OwnedValue::Text(bytes) if bytes.contains(&0) => {
                let mut text = Vec::with_capacity(bytes.len() + ZERO.len());
                replace_zeros(bytes, |part| text.extend_from_slice(part));
                OwnedValue::Text(text.into())
            }
            OwnedValue::Null
            | OwnedValue::Integer(_)
            | OwnedValue::Real(_)
            | OwnedValue::Text(_)
            | OwnedValue::Blob(_)
            | OwnedValue::Vector(_) => self,
        }
    }

    pub(crate) fn as_value(&self) -> SqlValue<'_> {
        match self {
            OwnedValue::Null => SqlValue::Null,
            OwnedValue::Integer(number) => SqlValue::Integer(*number),
            OwnedValue::Real(number) => SqlValue::Real(*number),
            OwnedValue::Text(bytes) => SqlValue::Text(bytes),
            OwnedValue::Blob(bytes) => SqlValue::Blob(bytes),
            OwnedValue::Vector(vector) => SqlValue::Vector(vector),
        }
    }
}

/// The bytes that stand for a zero character.
const ZERO: &[u8] = "\u{fffd}".as_bytes();

/// Gives the text piece by piece, with another character in place of each zero character.
fn replace_zeros(text: &[u8], mut put: impl FnMut(&[u8])) {
    for part in text.split_inclusive(|byte| *byte == 0) {
        let (text, zero) = part.split_at(part.len() - usize::from(part.ends_with(&[0])));
        put(text);
        put(if zero.is_empty() { b"" } else { ZERO });
    }
}

impl ToSql for OwnedValue {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        self.as_value().to_sql(kind, out)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    tokio_postgres::types::to_sql_checked!();
}

impl ToSql for SqlValue<'_> {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        match self {
            SqlValue::Null => return Ok(IsNull::Yes),
            SqlValue::Integer(number) => return number.to_sql(kind, out),
            SqlValue::Real(number) => return number.to_sql(kind, out),
            // PostgreSQL has no text with a zero character.
            SqlValue::Text(bytes) if bytes.contains(&0) => {
                replace_zeros(bytes, |part| out.extend_from_slice(part));
            }
            SqlValue::Text(bytes) | SqlValue::Blob(bytes) => out.extend_from_slice(bytes),
            // PostgreSQL has no vector without numbers.
            SqlValue::Vector(vector) if vector.count() == 0 => return Ok(IsNull::Yes),
            SqlValue::Vector(vector) => vector.write_to(out),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    tokio_postgres::types::to_sql_checked!();
}

impl<'a> FromSql<'a> for SqlValue<'a> {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(match *kind {
            Type::INT8 => SqlValue::Integer(i64::from_sql(kind, raw)?),
            Type::INT4 => SqlValue::Integer(i64::from(i32::from_sql(kind, raw)?)),
            Type::INT2 => SqlValue::Integer(i64::from(i16::from_sql(kind, raw)?)),
            Type::BOOL => SqlValue::Integer(i64::from(bool::from_sql(kind, raw)?)),
            Type::FLOAT8 => SqlValue::Real(f64::from_sql(kind, raw)?),
            Type::FLOAT4 => SqlValue::Real(f64::from(f32::from_sql(kind, raw)?)),
            Type::TEXT | Type::VARCHAR | Type::NAME | Type::JSON | Type::UNKNOWN => SqlValue::Text(raw),
            Type::BYTEA => SqlValue::Blob(raw),
            _ if kind.name() == "vector" => SqlValue::Blob(raw),
            _ => return Err(format!("a column of the type {kind} cannot be read").into()),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(SqlValue::Null)
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

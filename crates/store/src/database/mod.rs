//! One connection to either database. The statements are written in the part of SQL that both understand; what the two
//! write differently is translated in `database/dialect.rs`.
//!
//! Calls block. On PostgreSQL a statement that gives nothing back is only sent; its failure shows at the next statement
//! that gives something back, at the latest at [`SqlConnection::settle`].

mod dialect;
mod session;

use crate::{Error, PackedVector};
use protocol::UserId;
pub(crate) use session::{OwnedValue, PostgresSession, PreparedText};

/// A value on its way to or from a database.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum SqlValue<'a> {
    Null,
    Integer(i64),
    Real(f64),
    /// UTF-8, as far as the database has kept it so.
    Text(&'a [u8]),
    Blob(&'a [u8]),
    /// Packed bytes of a vector, on their way to a database only.
    Vector(&'a PackedVector),
}

impl<'a> SqlValue<'a> {
    pub(crate) fn as_blob(self) -> Result<&'a [u8], Error> {
        match self {
            SqlValue::Blob(bytes) => Ok(bytes),
            SqlValue::Null
            | SqlValue::Integer(_)
            | SqlValue::Real(_)
            | SqlValue::Text(_)
            | SqlValue::Vector(_) => Err(unexpected_type("bytes")),
        }
    }
}

/// The database has another type in a column than the code that reads it.
pub(crate) fn unexpected_type(wanted: &'static str) -> Error {
    Error::Column(wanted)
}

/// A value that a statement can be given.
pub(crate) trait ToSqlValue {
    fn to_value(&self) -> SqlValue<'_>;
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl ToSqlValue for $type {
            fn to_value(&self) -> SqlValue<'_> {
                SqlValue::Integer(i64::from(*self))
            }
        }
    )*};
}

integers!(i64, i32, u32, u16, u8, bool);

impl ToSqlValue for f64 {
    fn to_value(&self) -> SqlValue<'_> {
        SqlValue::Real(*self)
    }
}

impl ToSqlValue for str {
    fn to_value(&self) -> SqlValue<'_> {
        SqlValue::Text(self.as_bytes())
    }
}

impl ToSqlValue for String {
    fn to_value(&self) -> SqlValue<'_> {
        SqlValue::Text(self.as_bytes())
    }
}

impl ToSqlValue for std::borrow::Cow<'_, str> {
    fn to_value(&self) -> SqlValue<'_> {
        SqlValue::Text(self.as_bytes())
    }
}

impl ToSqlValue for [u8] {
    fn to_value(&self) -> SqlValue<'_> {
        SqlValue::Blob(self)
    }
}

impl<const N: usize> ToSqlValue for [u8; N] {
    fn to_value(&self) -> SqlValue<'_> {
        SqlValue::Blob(self)
    }
}

impl ToSqlValue for Vec<u8> {
    fn to_value(&self) -> SqlValue<'_> {
        SqlValue::Blob(self)
    }
}

impl ToSqlValue for PackedVector {
    fn to_value(&self) -> SqlValue<'_> {
        SqlValue::Vector(self)
    }
}

impl<T: ToSqlValue + ?Sized> ToSqlValue for &T {
    fn to_value(&self) -> SqlValue<'_> {
        (**self).to_value()
    }
}

impl<T: ToSqlValue> ToSqlValue for Option<T> {
    fn to_value(&self) -> SqlValue<'_> {
        self.as_ref().map_or(SqlValue::Null, ToSqlValue::to_value)
    }
}

impl ToSqlValue for SqlValue<'_> {
    fn to_value(&self) -> SqlValue<'_> {
        *self
    }
}

/// The values of a statement, by number from 1.
pub(crate) trait SqlParams {
    fn len(&self) -> usize;
    fn value(&self, at: usize) -> SqlValue<'_>;
}

impl SqlParams for &[&dyn ToSqlValue] {
    fn len(&self) -> usize {
        <[_]>::len(self)
    }

    fn value(&self, at: usize) -> SqlValue<'_> {
        self.get(at).map_or(SqlValue::Null, |value| value.to_value())
    }
}

impl SqlParams for Vec<SqlValue<'_>> {
    fn len(&self) -> usize {
        <[_]>::len(self)
    }

    fn value(&self, at: usize) -> SqlValue<'_> {
        self.get(at).copied().unwrap_or(SqlValue::Null)
    }
}

impl SqlParams for [&dyn ToSqlValue; 0] {
    fn len(&self) -> usize {
        0
    }

    fn value(&self, _: usize) -> SqlValue<'_> {
        SqlValue::Null
    }
}

macro_rules! arrays {
    ($($count:literal)*) => {$(
        impl<T: ToSqlValue> SqlParams for [T; $count] {
            fn len(&self) -> usize {
                $count
            }

            fn value(&self, at: usize) -> SqlValue<'_> {
                self.get(at).map_or(SqlValue::Null, ToSqlValue::to_value)
            }
        }
    )*};
}

arrays!(1 2 3 4 5 6);

/// Values of different types for one statement.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        &[$(&$value as &dyn $crate::database::ToSqlValue),*] as &[&dyn $crate::database::ToSqlValue]
    };
}
pub(crate) use params;

/// A type that a column can be read as.
pub(crate) trait FromSqlValue: Sized {
    fn from_value(value: SqlValue<'_>) -> Result<Self, Error>;
}

impl FromSqlValue for i64 {
    fn from_value(value: SqlValue<'_>) -> Result<Self, Error> {
        match value {
            SqlValue::Integer(number) => Ok(number),
            SqlValue::Null
            | SqlValue::Real(_)
            | SqlValue::Text(_)
            | SqlValue::Blob(_)
            | SqlValue::Vector(_) => Err(unexpected_type("a number")),
        }
    }
}

macro_rules! small_integers {
    ($($type:ty),*) => {$(
        impl FromSqlValue for $type {
            fn from_value(value: SqlValue<'_>) -> Result<Self, Error> {
                <$type>::try_from(i64::from_value(value)?).map_err(|_| unexpected_type("a small number"))
            }
        }
    )*};
}

small_integers!(u8, u16, u32, i32);

impl FromSqlValue for bool {
    fn from_value(value: SqlValue<'_>) -> Result<Self, Error> {
        i64::from_value(value).map(|number| number != 0)
    }
}

impl FromSqlValue for f64 {
    fn from_value(value: SqlValue<'_>) -> Result<Self, Error> {
        match value {
            SqlValue::Real(number) => Ok(number),
            SqlValue::Integer(_)
            | SqlValue::Null
            | SqlValue::Text(_)
            | SqlValue::Blob(_)
            | SqlValue::Vector(_) => Err(unexpected_type("a decimal number")),
        }
    }
}

impl FromSqlValue for String {
    fn from_value(value: SqlValue<'_>) -> Result<Self, Error> {
        let SqlValue::Text(bytes) = value else { return Err(unexpected_type("a text")) };
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| unexpected_type("a text of UTF-8"))
    }
}

impl FromSqlValue for Vec<u8> {
    fn from_value(value: SqlValue<'_>) -> Result<Self, Error> {
        value.as_blob().map(<[u8]>::to_vec)
    }
}

impl<const N: usize> FromSqlValue for [u8; N] {
    fn from_value(value: SqlValue<'_>) -> Result<Self, Error> {
        value.as_blob()?.try_into().map_err(|_| unexpected_type("bytes of a fixed number"))
    }
}

impl<T: FromSqlValue> FromSqlValue for Option<T> {
    fn from_value(value: SqlValue<'_>) -> Result<Self, Error> {
        match value {
            SqlValue::Null => Ok(None),
            SqlValue::Integer(_)
            | SqlValue::Real(_)
            | SqlValue::Text(_)
            | SqlValue::Blob(_)
            | SqlValue::Vector(_) => T::from_value(value).map(Some),
        }
    }
}

/// One row that a statement has found.
pub(crate) enum SqlRow<'r> {
    Sqlite(&'r rusqlite::Row<'r>),
    Postgres(&'r tokio_postgres::Row),
}

impl SqlRow<'_> {
    pub(crate) fn get<T: FromSqlValue>(&self, column: usize) -> Result<T, Error> {
        T::from_value(self.value(column)?)
    }

    pub(crate) fn value(&self, column: usize) -> Result<SqlValue<'_>, Error> {
        match self {
            SqlRow::Sqlite(row) => Ok(row.get_ref(column)?.into()),
            SqlRow::Postgres(row) => row.try_get(column).map_err(Error::of_postgres),
        }
    }

    /// The vector in a column. One without numbers is null on PostgreSQL. None if something else is there.
    pub(crate) fn vector(&self, column: usize) -> Result<Option<PackedVector>, Error> {
        match (self, self.value(column)?) {
            (SqlRow::Sqlite(_), SqlValue::Blob(bytes)) => Ok(PackedVector::of_bytes(bytes)),
            (SqlRow::Postgres(_), SqlValue::Blob(sent)) => Ok(PackedVector::of_sent(sent)),
            (SqlRow::Postgres(_), SqlValue::Null) => Ok(Some(PackedVector::pack(&[]))),
            (SqlRow::Sqlite(_) | SqlRow::Postgres(_), _) => Ok(None),
        }
    }

    pub(crate) fn column_count(&self) -> usize {
        match self {
            SqlRow::Sqlite(row) => row.as_ref().column_count(),
            SqlRow::Postgres(row) => row.len(),
        }
    }
}

impl<'a> From<rusqlite::types::ValueRef<'a>> for SqlValue<'a> {
    fn from(value: rusqlite::types::ValueRef<'a>) -> Self {
        match value {
            rusqlite::types::ValueRef::Null => SqlValue::Null,
            rusqlite::types::ValueRef::Integer(number) => SqlValue::Integer(number),
            rusqlite::types::ValueRef::Real(number) => SqlValue::Real(number),
            rusqlite::types::ValueRef::Text(bytes) => SqlValue::Text(bytes),
            rusqlite::types::ValueRef::Blob(bytes) => SqlValue::Blob(bytes),
        }
    }
}

impl rusqlite::ToSql for SqlValue<'_> {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        use rusqlite::types::ValueRef;
        Ok(rusqlite::types::ToSqlOutput::Borrowed(match self {
            SqlValue::Null => ValueRef::Null,
            SqlValue::Integer(number) => ValueRef::Integer(*number),
            SqlValue::Real(number) => ValueRef::Real(*number),
            SqlValue::Text(bytes) => ValueRef::Text(bytes),
            SqlValue::Blob(bytes) => ValueRef::Blob(bytes),
            SqlValue::Vector(vector) => ValueRef::Blob(vector.bytes()),
        }))
    }
}

/// The owner of the rows that a piece of work is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RowsOf(Option<UserId>);

impl RowsOf {
    /// The server's own work.
    pub(crate) const ALL: Self = Self(None);

    /// The request of a user.
    pub(crate) fn user(user: &UserId) -> Self {
        Self(Some(user.clone()))
    }
}

/// A connection to the database that was chosen at the start.
pub(crate) enum SqlConnection {
    Sqlite(rusqlite::Connection),
    Postgres(PostgresSession),
}

impl SqlConnection {
    /// Lets the database guard the rows of a user: it shows no others from now on. SQLite cannot.
    pub(crate) fn see_rows_of(&self, rows: &RowsOf) -> Result<(), Error> {
        match self {
            SqlConnection::Sqlite(_) => Ok(()),
            SqlConnection::Postgres(session) => {
                session.see_rows_of(rows.0.as_ref().map_or("", UserId::as_str))
            }
        }
    }

    /// Prepares a statement, which the connection keeps prepared.
    pub(crate) fn prepare(&self, statement: &str) -> Result<SqlStatement<'_>, Error> {
        Ok(match self {
            SqlConnection::Sqlite(conn) => SqlStatement::Sqlite(conn.prepare_cached(statement)?),
            SqlConnection::Postgres(session) => SqlStatement::Postgres(session, session.text(statement)),
        })
    }

    /// Executes a statement.
    pub(crate) fn execute(&self, statement: &str, values: impl SqlParams) -> Result<(), Error> {
        self.prepare(statement)?.execute(values)
    }

    /// Executes a statement, and counts the rows that it changes.
    pub(crate) fn count_changed(&self, statement: &str, values: impl SqlParams) -> Result<usize, Error> {
        self.prepare(statement)?.count_changed(values)
    }

    /// Waits for all that was only sent. Gives the first failure.
    pub(crate) fn settle(&self) -> Result<(), Error> {
        match self {
            SqlConnection::Sqlite(_) => Ok(()),
            SqlConnection::Postgres(session) => session.settle(),
        }
    }

    /// The outcome of a piece of work, once all that it has sent is answered. A statement that failed before the work itself
    /// did is what went wrong, and must not show as a failure of the next piece.
    pub(crate) fn settle_after<R>(&self, done: Result<R, Error>) -> Result<R, Error> {
        self.settle().and(done)
    }

    /// Whether the transaction that was begun can continue. A full disk, a lost connection, or a lock that another
    /// session keeps can end it.
    pub(crate) fn is_in_transaction(&self) -> bool {
        match self {
            SqlConnection::Sqlite(conn) => !conn.is_autocommit(),
            SqlConnection::Postgres(session) => session.is_alive() && !session.has_given_up(),
        }
    }

    /// Whether more can be asked on this connection, as far as is known.
    pub(crate) fn is_usable(&self) -> bool {
        match self {
            SqlConnection::Sqlite(_) => true,
            SqlConnection::Postgres(session) => session.is_still_alive(),
        }
    }

    /// Begins to read one moment of the database, until the value is dropped.
    pub(crate) fn moment(&self) -> Result<ReadMoment<'_>, Error> {
        self.execute(
            match self {
                SqlConnection::Sqlite(_) => "BEGIN",
                SqlConnection::Postgres(_) => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
            },
            [],
        )?;
        Ok(ReadMoment(self))
    }

    /// Does a part of a transaction that may be refused; then nothing of the part stays.
    pub(crate) fn attempt<R>(&self, work: impl FnOnce(&Self) -> Result<R, Error>) -> Result<R, Error> {
        self.execute("SAVEPOINT attempt", [])?;
        let done = self.settle_after(work(self));
        if done.is_err() {
            self.execute("ROLLBACK TO attempt", [])?;
        }
        self.execute("RELEASE attempt", [])?;
        done
    }

    /// Does `work` in a transaction of its own.
    pub(crate) fn transaction<R>(&self, work: impl FnOnce(&Self) -> Result<R, Error>) -> Result<R, Error> {
        let begin = match self {
            SqlConnection::Sqlite(_) => "BEGIN IMMEDIATE",
            SqlConnection::Postgres(_) => "BEGIN",
        };
        self.execute(begin, [])?;
        let done = self.settle_after(work(self));
        let end = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
        let ended = self.execute(end, []).and_then(|()| self.settle());
        done.and_then(|done| ended.map(|()| done))
    }
}

/// A transaction that only reads.
pub(crate) struct ReadMoment<'c>(&'c SqlConnection);

impl Drop for ReadMoment<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.0.execute("ROLLBACK", []).and_then(|()| self.0.settle()) {
            tracing::debug!(%error, "a transaction that only reads was not ended");
        }
    }
}

/// A prepared statement.
pub(crate) enum SqlStatement<'c> {
    Sqlite(rusqlite::CachedStatement<'c>),
    Postgres(&'c PostgresSession, PreparedText),
}

#[expect(clippy::needless_pass_by_value, reason = "callers write the values where they are used")]
impl SqlStatement<'_> {
    /// Executes the statement.
    pub(crate) fn execute(&mut self, values: impl SqlParams) -> Result<(), Error> {
        match self {
            SqlStatement::Sqlite(statement) => {
                bind(statement, &values)?;
                statement.raw_execute()?;
                Ok(())
            }
            SqlStatement::Postgres(session, text) => session.send(text, &values),
        }
    }

    /// Executes the statement, and counts the rows that it changes.
    pub(crate) fn count_changed(&mut self, values: impl SqlParams) -> Result<usize, Error> {
        match self {
            SqlStatement::Sqlite(statement) => {
                bind(statement, &values)?;
                Ok(statement.raw_execute()?)
            }
            SqlStatement::Postgres(session, text) => session.count_changed(text, &values),
        }
    }

    /// The rows that the statement finds.
    pub(crate) fn query(&mut self, values: impl SqlParams) -> Result<SqlRows<'_>, Error> {
        match self {
            SqlStatement::Sqlite(statement) => {
                bind(statement, &values)?;
                Ok(SqlRows::Sqlite(statement.raw_query()))
            }
            SqlStatement::Postgres(session, text) => {
                Ok(SqlRows::Postgres { rows: session.query(text, &values)?, next: 0 })
            }
        }
    }

    /// The first row that the statement finds.
    pub(crate) fn find_first<T>(
        &mut self,
        values: impl SqlParams,
        of_row: impl FnOnce(&SqlRow<'_>) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        let mut rows = self.query(values)?;
        let row = rows.next()?;
        row.as_ref().map(of_row).transpose()
    }
}

/// As many values as the statement has places for.
fn bind(statement: &mut rusqlite::CachedStatement<'_>, values: &impl SqlParams) -> Result<(), Error> {
    let (places, given) = (statement.parameter_count(), values.len());
    if places != given {
        return Err(rusqlite::Error::InvalidParameterCount(given, places).into());
    }
    for at in 0..given {
        statement.raw_bind_parameter(at + 1, values.value(at))?;
    }
    Ok(())
}

/// Rows, one after the other.
pub(crate) enum SqlRows<'s> {
    Sqlite(rusqlite::Rows<'s>),
    Postgres { rows: Vec<tokio_postgres::Row>, next: usize },
}

impl SqlRows<'_> {
    pub(crate) fn next(&mut self) -> Result<Option<SqlRow<'_>>, Error> {
        match self {
            SqlRows::Sqlite(rows) => Ok(rows.next()?.map(SqlRow::Sqlite)),
            SqlRows::Postgres { rows, next } => {
                *next += 1;
                Ok(rows.get(*next - 1).map(SqlRow::Postgres))
            }
        }
    }
}

//! Readers: a few connections that serve queries beside the writer, and how a row becomes a value.

use std::sync::{Arc, Mutex, PoisonError};

use crate::database::{RowsOf, SqlConnection, SqlParams, SqlRow, SqlValue, unexpected_type};
use jiff::Timestamp;
use protocol::{AppId, Scope, UserId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;

use crate::{Error, MAX_BYTES_PER_PAGE, PageRows};

pub(crate) struct Readers {
    /// As many permits as there may be connections.
    permits: Arc<Semaphore>,
    /// Locked only to take one out or put it back.
    idle: Mutex<Vec<SqlConnection>>,
    connect: Box<Connect>,
    thread: ReadThread,
}

/// The thread on which a query of a few rows is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadThread {
    /// On the thread that asks: the rows are in this process.
    Own,
    /// On a thread that may block: the rows come over a connection.
    Other,
}

/// Opens a connection that reads.
type Connect = dyn Fn() -> Result<SqlConnection, Error> + Send + Sync;

impl Readers {
    /// Opens one connection, to see that it works. The others are opened when queries need them at the same time,
    /// because each of them parses the schema.
    pub(crate) fn open(count: usize, thread: ReadThread, connect: Box<Connect>) -> Result<Self, Error> {
        let idle = Mutex::new(vec![connect()?]);
        Ok(Self { permits: Arc::new(Semaphore::new(count)), idle, connect, thread })
    }

    /// Runs a query of the server's own work on a thread that may block.
    pub(super) async fn read<R: Send + 'static>(
        self: &Arc<Self>,
        query: impl FnOnce(&SqlConnection) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, Error> {
        self.read_for(RowsOf::ALL, query).await
    }

    /// Runs a query about the rows of a user on a thread that may block.
    pub(super) async fn read_for<R: Send + 'static>(
        self: &Arc<Self>,
        rows: RowsOf,
        query: impl FnOnce(&SqlConnection) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, Error> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| Error::Closed)?;
        self.read_on_pool(permit, rows, query).await
    }

    /// Runs a query that finds a few rows by their key, at once and on this thread: the way to another thread and back
    /// costs more than the query. For rows that were read or written a moment ago, so that the calling thread does not
    /// wait for the disk. While all connections are lent, it waits for one as every other query does.
    pub(super) async fn read_now<R: Send + 'static>(
        self: &Arc<Self>,
        rows: RowsOf,
        query: impl FnOnce(&SqlConnection) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, Error> {
        if self.thread == ReadThread::Other {
            return self.read_for(rows, query).await;
        }
        let Ok(_permit) = self.permits.try_acquire() else { return self.read_for(rows, query).await };
        let lent = Lent::take(self, &rows)?;
        lent.conn.as_ref().ok_or(Error::Closed).and_then(query)
    }

    async fn read_on_pool<R: Send + 'static>(
        self: &Arc<Self>,
        permit: OwnedSemaphorePermit,
        rows: RowsOf,
        query: impl FnOnce(&SqlConnection) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, Error> {
        let readers = Arc::clone(self);
        let work = move || {
            // The permit and the connection go back even if the caller has gone away or the query panics.
            let _permit = permit;
            let lent = Lent::take(&readers, &rows)?;
            lent.conn.as_ref().ok_or(Error::Closed).and_then(query)
        };
        tokio::task::spawn_blocking(work).await.map_err(|_| Error::Closed)?
    }
}

struct Lent<'a> {
    readers: &'a Readers,
    conn: Option<SqlConnection>,
}

impl<'a> Lent<'a> {
    fn take(readers: &'a Readers, rows: &RowsOf) -> Result<Self, Error> {
        let idle = readers.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let conn = idle.filter(SqlConnection::is_usable).map_or_else(&readers.connect, Ok)?;
        conn.see_rows_of(rows)?;
        Ok(Self { readers, conn: Some(conn) })
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.readers.idle.lock().unwrap_or_else(PoisonError::into_inner).extend(self.conn.take());
    }
}

/// The first row that a statement finds.
pub(crate) fn find_first<T>(
    conn: &SqlConnection,
    statement: &str,
    key: impl SqlParams,
    of_row: impl FnOnce(&SqlRow<'_>) -> Result<T, Error>,
) -> Result<Option<T>, Error> {
    conn.prepare(statement)?.find_first(key, of_row)
}

/// The row that a statement always finds.
pub(crate) fn find_only<T>(
    conn: &SqlConnection,
    statement: &str,
    key: impl SqlParams,
    of_row: impl FnOnce(&SqlRow<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    conn.prepare(statement)?
        .find_first(key, of_row)?
        .ok_or_else(|| rusqlite::Error::QueryReturnedNoRows.into())
}

/// All rows that a statement finds. The statement has a limit.
pub(crate) fn find_all<T>(
    conn: &SqlConnection,
    statement: &str,
    key: impl SqlParams,
    mut of_row: impl FnMut(&SqlRow<'_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let mut find = conn.prepare(statement)?;
    let mut rows = find.query(key)?;
    let mut found = Vec::new();
    while let Some(row) = &rows.next()? {
        found.push(of_row(row)?);
    }
    Ok(found)
}

/// Whether a statement finds a row.
pub(crate) fn has_any(conn: &SqlConnection, statement: &str, key: impl SqlParams) -> Result<bool, Error> {
    Ok(conn.prepare(statement)?.query(key)?.next()?.is_some())
}

/// A page that is being read: it ends where it has as many rows as were asked for, or as many bytes as it may have. The
/// statement asks for one row more, so that it is known whether there is another.
pub(super) struct FillingPage<T> {
    page: PageRows<T>,
    limit: usize,
    bytes: usize,
}

impl<T> FillingPage<T> {
    pub(super) fn new(limit: usize) -> Self {
        Self { page: PageRows { rows: Vec::new(), more: false }, limit, bytes: 0 }
    }

    /// Takes a row of `bytes` bytes. False if it is for the next page.
    pub(super) fn take(&mut self, row: T, bytes: usize) -> bool {
        self.bytes = self.bytes.saturating_add(bytes);
        let is_full = self.page.rows.len() >= self.limit;
        let is_heavy = !self.page.rows.is_empty() && self.bytes > MAX_BYTES_PER_PAGE;
        self.page.more = is_full || is_heavy;
        if !self.page.more {
            self.page.rows.push(row);
        }
        !self.page.more
    }

    pub(super) fn into_page(self) -> PageRows<T> {
        self.page
    }
}

/// A page of the rows that a statement finds. The rows are read one by one until the page is full.
pub(super) fn find_page<T>(
    conn: &SqlConnection,
    statement: &str,
    key: impl SqlParams,
    limit: usize,
    of_row: impl Fn(&SqlRow<'_>) -> Result<T, Error>,
) -> Result<PageRows<T>, Error> {
    let mut find = conn.prepare(statement)?;
    let mut rows = find.query(key)?;
    let mut filling = FillingPage::new(limit);
    while let Some(row) = &rows.next()? {
        if !filling.take(of_row(row)?, bytes_of(row)) {
            break;
        }
    }
    Ok(filling.into_page())
}

/// One page of several that were read from the same place on, in the order of a key. Nothing that comes after the end of
/// one of them is taken, because that one may have more before it.
pub(super) fn merge_pages<T, K: Ord>(
    pages: Vec<PageRows<T>>,
    limit: usize,
    key: impl Fn(&T) -> K,
) -> PageRows<T> {
    let ends = pages.iter().filter(|page| page.more).filter_map(|page| page.rows.last().map(&key));
    let end = ends.min();
    let mut more = end.is_some();
    let mut rows: Vec<T> = pages.into_iter().flat_map(|page| page.rows).collect();
    rows.sort_by_key(&key);
    rows.retain(|row| end.as_ref().is_none_or(|end| key(row) <= *end));
    more |= rows.len() > limit;
    rows.truncate(limit);
    PageRows { rows, more }
}

/// The time and id after which a page of the oldest rows begins; before all of them without a cursor.
pub(super) fn oldest_page_start(after: Option<(Timestamp, [u8; 16])>) -> (i64, Vec<u8>) {
    after.map_or_else(|| (i64::MIN, Vec::new()), |(at, id)| (at.as_millisecond(), id.to_vec()))
}

/// The time and id before which a page of the newest rows begins; after all of them without a cursor.
pub(super) fn page_start(after: Option<(Timestamp, [u8; 16])>) -> (i64, Vec<u8>) {
    after.map_or_else(|| (i64::MAX, vec![0xff; 16]), |(at, id)| (at.as_millisecond(), id.to_vec()))
}

/// The number of rows that a statement must look at for a page of `limit`.
pub(super) fn one_more(limit: usize) -> i64 {
    sql(limit as u64).saturating_add(1)
}

/// The bytes of a row's texts and blobs.
pub(super) fn bytes_of(row: &SqlRow<'_>) -> usize {
    let columns = 0..row.column_count();
    let bytes = columns.map(|column| match row.value(column) {
        Ok(SqlValue::Text(bytes) | SqlValue::Blob(bytes)) => bytes.len(),
        Ok(SqlValue::Null | SqlValue::Integer(_) | SqlValue::Real(_) | SqlValue::Vector(_)) | Err(_) => 0,
    });
    bytes.sum()
}

/// A scope in this column and the next.
pub(super) fn scope_at(row: &SqlRow<'_>, column: usize) -> Result<Scope, Error> {
    Ok(Scope { app: AppId::new(text(row, column)?), user: UserId::new(text(row, column + 1)?) })
}

pub(super) fn id<T: From<Uuid>>(row: &SqlRow<'_>, column: usize) -> Result<T, Error> {
    row.get(column).map(Uuid::from_bytes).map(T::from)
}

pub(super) fn maybe_id<T: From<Uuid>>(row: &SqlRow<'_>, column: usize) -> Result<Option<T>, Error> {
    row.get::<Option<[u8; 16]>>(column).map(|id| id.map(Uuid::from_bytes).map(T::from))
}

/// Numbers in the database are signed; ours are not. A negative one is corrupt and reads as zero.
pub(super) fn count(row: &SqlRow<'_>, column: usize) -> Result<u64, Error> {
    row.get::<i64>(column).map(|number| u64::try_from(number).unwrap_or(0))
}

pub(super) fn time(row: &SqlRow<'_>, column: usize) -> Result<Timestamp, Error> {
    let millis = row.get(column)?;
    Timestamp::from_millisecond(millis).map_err(|_| unexpected_type("a time"))
}

pub(super) fn maybe_time(row: &SqlRow<'_>, column: usize) -> Result<Option<Timestamp>, Error> {
    row.get::<Option<i64>>(column)?.map(|_| time(row, column)).transpose()
}

/// The text of a column. Bytes that are not UTF-8 are replaced, and a value that is no text is empty.
pub(super) fn text(row: &SqlRow<'_>, column: usize) -> Result<String, Error> {
    Ok(match row.value(column)? {
        SqlValue::Text(bytes) | SqlValue::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        SqlValue::Null | SqlValue::Integer(_) | SqlValue::Real(_) | SqlValue::Vector(_) => String::new(),
    })
}

/// A sequence number for SQL. They start at 1 and never come near the bound.
pub(super) fn sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

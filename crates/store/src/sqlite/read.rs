//! Readers: a few connections that serve queries beside the writer, and how a row becomes a value.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use protocol::{AppId, Scope, UserId};
use rusqlite::types::{Type, ValueRef};
use rusqlite::{Connection, OptionalExtension, Params, Row};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;

use crate::{Error, MAX_BYTES_PER_PAGE, PageRows};

pub(super) struct Readers {
    /// As many permits as there may be connections.
    permits: Arc<Semaphore>,
    /// Locked only to take one out or put it back.
    idle: Mutex<Vec<Connection>>,
    connect: Box<Connect>,
}

/// Opens a connection that reads.
type Connect = dyn Fn() -> Result<Connection, Error> + Send + Sync;

impl Readers {
    /// Opens one connection, to see that it works. The others are opened when queries need them at the same time,
    /// because each of them parses the schema.
    pub(super) fn open(count: usize, connect: Box<Connect>) -> Result<Self, Error> {
        let idle = Mutex::new(vec![connect()?]);
        Ok(Self { permits: Arc::new(Semaphore::new(count)), idle, connect })
    }

    /// Runs a query on a thread that may block.
    pub(super) async fn read<R: Send + 'static>(
        self: &Arc<Self>,
        query: impl FnOnce(&Connection) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, Error> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| Error::Closed)?;
        self.read_on_pool(permit, query).await
    }

    /// Runs a query that finds a few rows by their key, at once and on this thread: the way to another thread and back
    /// costs more than the query. For rows that were read or written a moment ago, so that nobody waits for the disk.
    /// While all connections are lent, it waits for one as every other query does.
    pub(super) async fn read_now<R: Send + 'static>(
        self: &Arc<Self>,
        query: impl FnOnce(&Connection) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, Error> {
        let Ok(_permit) = self.permits.try_acquire() else { return self.read(query).await };
        let lent = Lent::take(self)?;
        lent.conn.as_ref().ok_or(Error::Closed).and_then(query)
    }

    async fn read_on_pool<R: Send + 'static>(
        self: &Arc<Self>,
        permit: OwnedSemaphorePermit,
        query: impl FnOnce(&Connection) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, Error> {
        let readers = Arc::clone(self);
        let work = move || {
            // The permit and the connection go back even if whoever asked has gone away or the query panics.
            let _permit = permit;
            let lent = Lent::take(&readers)?;
            lent.conn.as_ref().ok_or(Error::Closed).and_then(query)
        };
        tokio::task::spawn_blocking(work).await.map_err(|_| Error::Closed)?
    }
}

struct Lent<'a> {
    readers: &'a Readers,
    conn: Option<Connection>,
}

impl<'a> Lent<'a> {
    fn take(readers: &'a Readers) -> Result<Self, Error> {
        let idle = readers.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let conn = idle.map_or_else(&readers.connect, Ok)?;
        Ok(Self { readers, conn: Some(conn) })
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.readers.idle.lock().unwrap_or_else(PoisonError::into_inner).extend(self.conn.take());
    }
}

/// The first row that a statement finds.
pub(super) fn find_first<T>(
    conn: &Connection,
    statement: &str,
    key: impl Params,
    of_row: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Option<T>, Error> {
    Ok(conn.prepare_cached(statement)?.query_row(key, of_row).optional()?)
}

/// The row that a statement always finds.
pub(super) fn find_only<T>(
    conn: &Connection,
    statement: &str,
    key: impl Params,
    of_row: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<T, Error> {
    Ok(conn.prepare_cached(statement)?.query_row(key, of_row)?)
}

/// All rows that a statement finds. The statement has a limit.
pub(super) fn find_all<T>(
    conn: &Connection,
    statement: &str,
    key: impl Params,
    of_row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, Error> {
    let mut find = conn.prepare_cached(statement)?;
    let rows = find.query_map(key, of_row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Whether a statement finds a row.
pub(super) fn has_any(conn: &Connection, statement: &str, key: impl Params) -> Result<bool, Error> {
    Ok(conn.prepare_cached(statement)?.exists(key)?)
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

    /// Takes a row of so many bytes. False if it is for the next page.
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

    pub(super) fn done(self) -> PageRows<T> {
        self.page
    }
}

/// A page of the rows that a statement finds. The rows are read one by one until the page is full.
pub(super) fn find_page<T>(
    conn: &Connection,
    statement: &str,
    key: impl Params,
    limit: usize,
    of_row: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<PageRows<T>, Error> {
    let mut find = conn.prepare_cached(statement)?;
    let mut rows = find.query(key)?;
    let mut filling = FillingPage::new(limit);
    while let Some(row) = rows.next()? {
        if !filling.take(of_row(row)?, bytes_of(row)) {
            break;
        }
    }
    Ok(filling.done())
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

/// The rows that a statement must look at for a page of so many.
pub(super) fn one_more(limit: usize) -> i64 {
    sql(limit as u64).saturating_add(1)
}

/// The bytes of a row's texts and blobs.
pub(super) fn bytes_of(row: &Row<'_>) -> usize {
    let columns = 0..row.as_ref().column_count();
    let bytes = columns.map(|column| match row.get_ref(column) {
        Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => bytes.len(),
        Ok(ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_)) | Err(_) => 0,
    });
    bytes.sum()
}

/// A scope in this column and the next.
pub(super) fn scope_at(row: &Row<'_>, column: usize) -> rusqlite::Result<Scope> {
    Ok(Scope { app: AppId::new(text(row, column)?), user: UserId::new(text(row, column + 1)?) })
}

pub(super) fn id<T: From<Uuid>>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    row.get(column).map(Uuid::from_bytes).map(T::from)
}

pub(super) fn maybe_id<T: From<Uuid>>(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<T>> {
    row.get::<_, Option<[u8; 16]>>(column).map(|id| id.map(Uuid::from_bytes).map(T::from))
}

/// Numbers in the database are signed; ours are not. A negative one is corrupt and reads as zero.
pub(super) fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(|number| u64::try_from(number).unwrap_or(0))
}

pub(super) fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    let millis = row.get(column)?;
    Timestamp::from_millisecond(millis)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Integer, Box::new(error)))
}

pub(super) fn maybe_time(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    row.get::<_, Option<i64>>(column)?.map(|_| time(row, column)).transpose()
}

/// Text as found: whatever is not UTF-8 is replaced, whatever is not text is empty.
pub(super) fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    Ok(match row.get_ref(column)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => String::new(),
    })
}

/// A sequence number for SQL. They start at 1 and never come near the bound.
pub(super) fn sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

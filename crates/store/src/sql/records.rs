//! Records: typed objects of an app, found by their fields and their words. A deleted one keeps its row and its version.

use crate::sql::{SqlConnection, SqlRow, params};
use protocol::{ActionId, AppId, RecordId, RecordView, Scope, UserId};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

use super::append::Batch;
use super::read::{
    FillingPage, bytes_of, count, find_first, find_only, find_page, has_any, id, one_more, page_start,
    scope_at, sql, text, time,
};
use super::search_words;
use super::{RowsOf, SqlStore, erasures, idempotency, versions};
use crate::rules::erasure::{self, DeletedBy};
use crate::rules::records::{StandingVersion, check_record_room, check_record_size, not_there, record_name};
use crate::rules::undo::is_as_left;
use crate::{
    AppliedChange, Error, IdempotencyClaim, MAX_RECORDS_PER_TYPE, PageOf, PageRows, RecordQuery, TimeCursor,
    Write,
};

/// Words of a search that count, and characters of each.
const MAX_WORDS: usize = 16;
const MAX_WORD_CHARS: usize = 64;

/// Names that the words of deleted records are still to be merged away.
const MERGE: &str = "merge records_text";
/// The states that are kept under [`MERGE`]: nothing was merged yet; some was; and some was, but words were deleted
/// since.
const TO_BEGIN: &str = "";
const BEGUN: &str = "begun";
const AGAIN: &str = "again";
/// Pages of the index of words that one transaction merges.
const MERGED_PAGES: i64 = 200;

const COLUMNS: &str = "r.id, r.app, r.user, r.type, r.version, r.data, r.created_at, r.updated_at";

/// Holds if the record has each of the fields asked for, given as `[[name, [value]], …]`. A number is the same however
/// it is written. On PostgreSQL a function of the schema says the same.
const HAS_FIELDS_SQLITE: &str = "NOT EXISTS (
    SELECT 1 FROM json_each(?4) want, json_each(want.value, '$[1]') w WHERE NOT EXISTS (
        SELECT 1 FROM json_each(r.data) f WHERE f.key = want.value ->> 0 AND (
            (f.value IS w.value AND replace(f.type, 'real', 'integer') = replace(w.type, 'real', 'integer'))
            OR (f.type = 'array' AND EXISTS (SELECT 1 FROM json_each(f.value) e
                WHERE e.value IS w.value AND replace(e.type, 'real', 'integer') = replace(w.type, 'real', 'integer'))))))";

/// The new state of a record.
#[derive(Clone, Copy)]
pub(super) struct PutRecord<'a> {
    pub(super) id: RecordId,
    pub(super) kind: &'a str,
    pub(super) data: Option<&'a Value>,
    /// The action that brings it into this state; none if the user does.
    pub(super) by: Option<ActionId>,
}

impl SqlStore {
    pub(crate) async fn record_of(
        &self,
        scope: &Scope,
        kind: &str,
        record: RecordId,
    ) -> Result<RecordView, Error> {
        let rows = RowsOf::user(&scope.user);
        let (scope, kind) = (scope.clone(), kind.to_owned());
        let read =
            move |conn: &SqlConnection| find(conn, &scope, &kind, record)?.ok_or(Error::NotFound("record"));
        self.readers.read_for(rows, read).await
    }

    pub(crate) async fn records(
        &self,
        scope: &Scope,
        kind: &str,
        query: RecordQuery,
        page: PageOf<TimeCursor<RecordId>>,
    ) -> Result<PageRows<RecordView>, Error> {
        let rows = RowsOf::user(&scope.user);
        let (scope, kind) = (scope.clone(), kind.to_owned());
        self.readers.read_for(rows, move |conn| list(conn, &scope, &kind, &query, page)).await
    }

    pub(crate) async fn count_records(
        &self,
        scope: &Scope,
        kind: &str,
        ids: &[RecordId],
    ) -> Result<usize, Error> {
        let rows = RowsOf::user(&scope.user);
        let (scope, kind) = (scope.clone(), kind.to_owned());
        // No more than this can be there, and one named twice counts once.
        let ids: BTreeSet<RecordId> = ids.iter().copied().take(MAX_RECORDS_PER_TYPE).collect();
        let read = move |conn: &SqlConnection| {
            let found = ids.into_iter().map(|id| Ok(usize::from(find(conn, &scope, &kind, id)?.is_some())));
            found.sum()
        };
        self.readers.read_for(rows, read).await
    }

    pub(crate) async fn put_record(
        &self,
        scope: &Scope,
        write: Write,
        once: Option<IdempotencyClaim>,
    ) -> Result<Option<RecordView>, Error> {
        let Write::Record { id: record, kind, data, expected } = write else {
            return Err(Error::NotFound("record"));
        };
        let scope = scope.clone();
        let work = move |batch: &mut Batch<'_>| {
            if let Some(earlier) = idempotency::claim(batch, &scope, once.as_ref(), record.uuid())? {
                return find(batch.conn(), &scope, &kind, earlier.into());
            }
            let put = PutRecord { id: record, kind: &kind, data: data.as_ref(), by: None };
            self::write(batch, &scope, put, expected, DeletedBy::User)?;
            find(batch.conn(), &scope, &kind, record)
        };
        self.writer.write(work).await
    }
}

/// Makes, changes or deletes a record that has the expected version.
pub(super) fn write(
    batch: &Batch<'_>,
    scope: &Scope,
    put: PutRecord<'_>,
    expected: u64,
    by: DeletedBy,
) -> Result<AppliedChange, Error> {
    let standing = standing_record(batch.conn(), scope, put)?;
    standing.check_expected(expected, &record_name(put.kind, put.id))?;
    check_put(batch.conn(), scope, put, standing.contents.is_some())?;
    let thing = erasure::record_name(put.id);
    if put.data.is_none() {
        erasures::note_deletion(batch, scope, &thing, by)?;
    }
    match (put.data, by) {
        (None, DeletedBy::User) => versions::forget(batch, scope, &thing)?,
        (None, DeletedBy::Tool) | (Some(_), _) => versions::keep_record(batch, scope, put.id)?,
    }
    set(batch, scope, put, standing, expected + 1)
}

/// Brings a record back to an earlier state, if it stands as the change has left it.
pub(super) fn restore(
    batch: &Batch<'_>,
    scope: &Scope,
    put: PutRecord<'_>,
    (left, was): (u64, u64),
) -> Result<Option<AppliedChange>, Error> {
    let standing = standing_record(batch.conn(), scope, put)?;
    if !is_as_left(standing.state, left) {
        return Ok(None);
    }
    check_put(batch.conn(), scope, put, standing.contents.is_some())?;
    let thing = erasure::record_name(put.id);
    match put.data {
        Some(_) => erasures::note_restoration(batch, scope, &thing)?,
        None => erasures::note_deletion(batch, scope, &thing, DeletedBy::Tool)?,
    }
    versions::keep_record(batch, scope, put.id)?;
    set(batch, scope, put, standing, was).map(Some)
}

/// Whether a record may be brought into a state, at any version.
pub(super) fn check_put(
    conn: &SqlConnection,
    scope: &Scope,
    put: PutRecord<'_>,
    is_there: bool,
) -> Result<(), Error> {
    match put.data {
        None if !is_there => Err(not_there(&record_name(put.kind, put.id))),
        None => Ok(()),
        Some(data) => {
            check_record_size(data.to_string().len())?;
            if is_there {
                Ok(())
            } else {
                check_record_room(number_of_type(conn, scope, put.kind)?, put.kind)
            }
        }
    }
}

fn set(
    batch: &Batch<'_>,
    scope: &Scope,
    put: PutRecord<'_>,
    standing: StandingVersion<Value>,
    state: u64,
) -> Result<AppliedChange, Error> {
    let PutRecord { id: record, kind, data, by } = put;
    let json = data.map(Value::to_string);
    let version = standing.version + 1;
    let statement =
        "INSERT INTO records (id, app, user, type, version, state, data, created_at, updated_at, action)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9)
                ON CONFLICT (id) DO UPDATE SET version = excluded.version, state = excluded.state,
                    data = excluded.data, updated_at = excluded.updated_at, action = excluded.action
                RETURNING number";
    let number: i64 = find_only(
        batch.conn(),
        statement,
        params![
            record.bytes(),
            scope.app.as_str(),
            scope.user.as_str(),
            kind,
            sql(version),
            sql(state),
            json,
            batch.at(),
            by.as_ref().map(ActionId::bytes)
        ],
        |row| row.get(0),
    )?;
    index(batch.conn(), number, &owner(scope, kind), data)?;
    let (before, was) = (standing.contents, standing.state);
    Ok(AppliedChange::Record { id: record, kind: kind.to_owned(), before, was, version })
}

fn has_fields(conn: &SqlConnection) -> &'static str {
    match conn {
        SqlConnection::Sqlite(_) => HAS_FIELDS_SQLITE,
        SqlConnection::Postgres(_) => "has_fields(r.data, ?4)",
    }
}

/// Brings the words of a record up to date, given its app, user and type, and its data unless it is deleted.
pub(crate) fn index_words(
    conn: &SqlConnection,
    number: i64,
    (app, user, kind): (&str, &str, &str),
    data: Option<&str>,
) -> Result<(), Error> {
    let scope = Scope { app: AppId::new(app.to_owned()), user: UserId::new(user.to_owned()) };
    index(conn, number, &owner(&scope, kind), data.map(parse_json).as_ref())
}

fn index(conn: &SqlConnection, number: i64, owner: &str, data: Option<&Value>) -> Result<(), Error> {
    let (remove, insert) = match conn {
        SqlConnection::Sqlite(_) => (
            "DELETE FROM records_text WHERE rowid = ?1",
            "INSERT INTO records_text (rowid, owner, text) VALUES (?1, ?2, ?3)",
        ),
        SqlConnection::Postgres(_) => (
            "DELETE FROM records_text WHERE number = ?1",
            "INSERT INTO records_text (number, owner, words) VALUES (?1, ?2, CAST(CAST(?3 AS TEXT) AS tsvector))",
        ),
    };
    conn.execute(remove, [number])?;
    if let Some(data) = data {
        let words = match conn {
            SqlConnection::Sqlite(_) => words_of(data),
            SqlConnection::Postgres(_) => search_words::search_vector(&words_of(data)),
        };
        conn.execute(insert, params![number, owner, words])?;
    }
    Ok(())
}

/// Deleted words stay in the index until its parts are merged; this has them merged by the sweep.
pub(super) fn merge_later(batch: &Batch<'_>) -> Result<(), Error> {
    if matches!(batch.conn(), SqlConnection::Postgres(_)) {
        return Ok(()); // its index has no such parts
    }
    let statement = "INSERT INTO state (name, value) VALUES (?1, ?2)
                ON CONFLICT (name) DO UPDATE SET value = ?4 WHERE state.value = ?3";
    batch.execute(statement, [MERGE, TO_BEGIN, BEGUN, AGAIN])
}

pub(super) fn is_to_merge(conn: &SqlConnection) -> Result<bool, Error> {
    has_any(conn, "SELECT 1 FROM state WHERE name = ?1", [MERGE])
}

/// Merges some of the index, if that is due, so that no deleted word is in it. True when there may be more to merge.
pub(super) fn merge(batch: &Batch<'_>) -> Result<bool, Error> {
    let conn = batch.conn();
    let statement = "SELECT value FROM state WHERE name = ?1";
    let Some(stand) = find_first(conn, statement, [MERGE], |row| text(row, 0))? else { return Ok(false) };
    // So says the manual: a negative number has all parts merged, and positive ones continue that.
    let pages = if stand == TO_BEGIN { -MERGED_PAGES } else { MERGED_PAGES };
    let changes =
        || -> Result<i64, Error> { find_only(conn, "SELECT total_changes()", [], |row| row.get(0)) };
    let before = changes()?;
    batch.execute("INSERT INTO records_text (records_text, rank) VALUES ('merge', ?1)", [pages])?;
    // And so it says that a merge that changes fewer than two rows has found nothing to do.
    let is_over = changes()? - before < 2;
    if is_over && stand != AGAIN {
        batch.execute("DELETE FROM state WHERE name = ?1", [MERGE])?;
    } else if is_over || stand == TO_BEGIN {
        let next = if is_over { TO_BEGIN } else { BEGUN };
        batch.execute("UPDATE state SET value = ?2 WHERE name = ?1", [MERGE, next])?;
    }
    Ok(true)
}

/// How many records of a type a scope has.
fn number_of_type(conn: &SqlConnection, scope: &Scope, kind: &str) -> Result<u64, Error> {
    let statement =
        "SELECT count(*) FROM records WHERE app = ?1 AND user = ?2 AND type = ?3 AND data IS NOT NULL";
    find_only(conn, statement, [scope.app.as_str(), scope.user.as_str(), kind], |row| count(row, 0))
}

/// One of another scope or type is as if it were not there, but its id is taken.
pub(super) fn standing_record(
    conn: &SqlConnection,
    scope: &Scope,
    put: PutRecord<'_>,
) -> Result<StandingVersion<Value>, Error> {
    let statement = "SELECT version, state, data, app, user, type FROM records WHERE id = ?1";
    let found = find_first(conn, statement, [put.id.bytes()], |row| {
        let owned = scope_at(row, 3)? == *scope && text(row, 5)? == put.kind;
        let contents = row.get::<Option<String>>(2)?.map(|data| parse_json(&data));
        Ok((owned, StandingVersion { version: count(row, 0)?, state: count(row, 1)?, contents }))
    })?;
    match found {
        None => Ok(StandingVersion::default()),
        Some((true, standing)) => Ok(standing),
        Some((false, _)) => Err(not_there(&record_name(put.kind, put.id))),
    }
}

fn find(
    conn: &SqlConnection,
    scope: &Scope,
    kind: &str,
    record: RecordId,
) -> Result<Option<RecordView>, Error> {
    let statement = format!(
        "SELECT {COLUMNS} FROM records r
            WHERE r.id = ?1 AND r.app = ?2 AND r.user = ?3 AND r.type = ?4 AND r.data IS NOT NULL"
    );
    find_first(
        conn,
        &statement,
        params![record.bytes(), scope.app.as_str(), scope.user.as_str(), kind],
        record_row,
    )
}

fn list(
    conn: &SqlConnection,
    scope: &Scope,
    kind: &str,
    query: &RecordQuery,
    page: PageOf<TimeCursor<RecordId>>,
) -> Result<PageRows<RecordView>, Error> {
    let fields: Vec<(&str, [&Value; 1])> =
        query.fields.iter().map(|(name, value)| (name.as_str(), [value])).collect();
    let fields = serde_json::to_string(&fields).map_err(|_| Error::Aborted)?;
    let (app, user, limit) = (scope.app.as_str(), scope.user.as_str(), one_more(page.limit));
    let (at, last) = page_start(page.after.map(|cursor| (cursor.at, *cursor.id.bytes())));
    let text = query.text.as_deref().unwrap_or_default();
    // A search without any letter or digit finds everything.
    let words = search_words::search_query(text).and_then(|query| match conn {
        SqlConnection::Sqlite(_) => {
            sqlite_text_query(text).map(|words| format!("owner:\"{}\" {words}", owner(scope, kind)))
        }
        SqlConnection::Postgres(_) => Some(query),
    });
    let has_fields = has_fields(conn);
    match words {
        None => {
            let statement = format!(
                "SELECT {COLUMNS} FROM records r WHERE r.app = ?1 AND r.user = ?2 AND r.type = ?3 AND r.data IS NOT NULL
                    AND {has_fields} AND (r.updated_at, r.id) < (?5, ?6)
                    ORDER BY r.updated_at DESC, r.id DESC LIMIT ?7"
            );
            find_page(
                conn,
                &statement,
                params![app, user, kind, fields, at, last, limit],
                page.limit,
                record_row,
            )
        }
        Some(words) => {
            let first = i64::from(page.after.is_none());
            let found = match conn {
                SqlConnection::Sqlite(_) => {
                    "SELECT rowid AS number, bm25(records_text, 0.0, 1.0) AS rank FROM records_text WHERE records_text MATCH ?5"
                }
                SqlConnection::Postgres(_) => {
                    "SELECT number, -ts_rank(words, asked) AS rank FROM records_text, CAST(CAST(?5 AS TEXT) AS tsquery) asked
                        WHERE words @@ asked"
                }
            };
            // Sorted by number alone: only what is on the page is read whole.
            let mut find = conn.prepare(&format!(
                "WITH found AS MATERIALIZED (
                    {found}),
                 sorted AS MATERIALIZED (
                    SELECT found.rank, -r.updated_at AS age, r.number, r.id FROM found JOIN records r USING (number)
                        WHERE r.app = ?1 AND r.user = ?2 AND r.type = ?3 AND r.data IS NOT NULL AND {has_fields})
                 SELECT r.number FROM sorted r
                    WHERE ?6 = 1 OR (r.rank, r.age, r.number) > (SELECT rank, age, number FROM sorted WHERE id = ?7)
                    ORDER BY r.rank, r.age, r.number LIMIT ?8"
            ))?;
            let mut rows = find.query(params![app, user, kind, fields, words, first, last, limit])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                found.push(row.get(0)?);
            }
            records_by_number(conn, &found, page.limit)
        }
    }
}

/// A page of the records that have these numbers, in this order.
fn records_by_number(
    conn: &SqlConnection,
    numbers: &[i64],
    limit: usize,
) -> Result<PageRows<RecordView>, Error> {
    let mut filling = FillingPage::new(limit);
    let mut find = conn.prepare(&format!("SELECT {COLUMNS} FROM records r WHERE r.number = ?1"))?;
    for number in numbers {
        let found = find.find_first([number], |row| Ok((record_row(row)?, bytes_of(row))))?;
        if let Some((row, bytes)) = found
            && !filling.take(row, bytes)
        {
            break;
        }
    }
    Ok(filling.into_page())
}

/// The words of a search as a query that can have no syntax of its own: each quoted, matched from its beginning. None
/// when there are none.
fn sqlite_text_query(text: &str) -> Option<String> {
    let parts = text.split(|c: char| c.is_whitespace() || c.is_control() || c == '"');
    let words = parts.filter(|word| !word.is_empty()).take(MAX_WORDS);
    let quoted = words.map(|word| {
        let word: String = word.chars().take(MAX_WORD_CHARS).collect();
        format!("text:\"{word}\"*")
    });
    let query = quoted.collect::<Vec<_>>().join(" ");
    (!query.is_empty()).then_some(query)
}

/// Every text in the data, at any depth.
fn words_of(data: &Value) -> String {
    let mut words = String::new();
    let mut left = vec![data];
    while let Some(value) = left.pop() {
        match value {
            Value::String(text) => {
                words.push_str(text);
                words.push('\n');
            }
            Value::Array(values) => left.extend(values.iter().rev()),
            Value::Object(fields) => left.extend(fields.values().rev()),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    words
}

/// One word for scope and type that no user can write: the parts have no zero byte in them.
fn owner(scope: &Scope, kind: &str) -> String {
    let parts = format!("{}\0{}\0{kind}", scope.app.as_str(), scope.user.as_str());
    Sha256::digest(parts).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse_json(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_default()
}

fn record_row(row: &SqlRow<'_>) -> Result<RecordView, Error> {
    Ok(RecordView {
        id: id(row, 0)?,
        kind: text(row, 3)?,
        version: count(row, 4)?,
        data: parse_json(&text(row, 5)?),
        created_at: time(row, 6)?,
        updated_at: time(row, 7)?,
    })
}

//! Lists of threads: of one app or of several, by the time of their last use, and the titles that a search looks at.

use std::cmp::Reverse;

use crate::sql::{SqlConnection, params};
use jiff::Timestamp;
use protocol::{AppId, Principal, Scope, ThreadId};

use super::read::{find_all, find_page, id, merge_pages, one_more, page_start, text, time};
use super::threads::{COLUMNS, thread_row};
use super::{RowsOf, SqlStore};
use crate::{Error, MAX_TITLES_PER_READ, PageOf, PageRows, ThreadFilter, ThreadRow, ThreadTitle, TimeCursor};

/// The place of a thread in a list.
type ListPlace = (Timestamp, ThreadId);

impl SqlStore {
    pub(crate) async fn threads(
        &self,
        scope: &Scope,
        filter: ThreadFilter,
        page: PageOf<TimeCursor<ThreadId>>,
    ) -> Result<PageRows<ThreadRow>, Error> {
        self.list_threads(scope.user.to_string(), vec![scope.app.clone()], filter, page).await
    }

    pub(crate) async fn threads_of_apps(
        &self,
        principal: &Principal,
        apps: Vec<AppId>,
        filter: ThreadFilter,
        page: PageOf<TimeCursor<ThreadId>>,
    ) -> Result<PageRows<ThreadRow>, Error> {
        self.list_threads(principal.user().to_string(), apps, filter, page).await
    }

    async fn list_threads(
        &self,
        user: String,
        apps: Vec<AppId>,
        filter: ThreadFilter,
        page: PageOf<TimeCursor<ThreadId>>,
    ) -> Result<PageRows<ThreadRow>, Error> {
        let last_seqs = self.open_deltas.last_seqs();
        let read = move |conn: &SqlConnection| {
            let PageRows { rows, more } = places(conn, &user, &apps, filter, page)?;
            let ids: Vec<ThreadId> = rows.into_iter().map(|(_, id)| id).collect();
            Ok(PageRows { rows: by_id(conn, &user, &ids)?, more })
        };
        let mut found = self.readers.read(read).await?;
        for row in &mut found.rows {
            row.last_seq = row.last_seq.max(last_seqs.get(&row.id).copied().unwrap_or(0));
        }
        Ok(found)
    }

    pub(crate) async fn threads_by_id(
        &self,
        scope: &Scope,
        ids: &[ThreadId],
    ) -> Result<Vec<ThreadRow>, Error> {
        let rows = RowsOf::user(&scope.user);
        let (scope, ids) = (scope.clone(), ids.to_vec());
        let read = move |conn: &SqlConnection| {
            let mut rows = by_id(conn, scope.user.as_str(), &ids)?;
            rows.retain(|row| row.scope == scope);
            Ok(rows)
        };
        self.readers.read_for(rows, read).await
    }

    pub(crate) async fn titles(&self, scope: &Scope) -> Result<Vec<ThreadTitle>, Error> {
        let rows = RowsOf::user(&scope.user);
        let scope = scope.clone();
        self.readers.read_for(rows, move |conn| titles(conn, &scope)).await
    }
}

/// The places of threads on a page, newest first. Each app is a list of its own in the index, and so are its archived
/// threads.
fn places(
    conn: &SqlConnection,
    user: &str,
    apps: &[AppId],
    filter: ThreadFilter,
    page: PageOf<TimeCursor<ThreadId>>,
) -> Result<PageRows<ListPlace>, Error> {
    let statement = "SELECT t.updated_at, t.id FROM threads t
            WHERE t.app = ?1 AND t.user = ?2 AND t.archived = ?3 AND t.deleted_at IS NULL
                AND (t.updated_at, t.id) < (?4, ?5) AND (CAST(?6 AS BIGINT) IS NULL OR t.pinned = ?6)
            ORDER BY t.updated_at DESC, t.id DESC LIMIT ?7";
    let (at, last) = page_start(page.after.map(|cursor| (cursor.at, *cursor.id.bytes())));
    let limit = one_more(page.limit);
    let mut lists = Vec::new();
    for app in apps {
        for archived in [false, true].into_iter().filter(|one| filter.archived.is_none_or(|all| all == *one))
        {
            let key = params![app.as_str(), user, archived, at, last, filter.pinned, limit];
            lists.push(find_page(conn, statement, key, page.limit, |row| Ok((time(row, 0)?, id(row, 1)?)))?);
        }
    }
    Ok(merge_pages(lists, page.limit, |place: &ListPlace| Reverse(*place)))
}

/// The threads of these ids that are the user's and not deleted, in this order.
fn by_id(conn: &SqlConnection, user: &str, ids: &[ThreadId]) -> Result<Vec<ThreadRow>, Error> {
    let listed: Vec<String> = ids.iter().map(|id| id.uuid().simple().to_string()).collect();
    let listed = serde_json::to_string(&listed).map_err(|_| Error::Aborted)?;
    let statement = format!(
        "SELECT {COLUMNS} FROM json_each(?1) listed CROSS JOIN threads t ON t.id = unhex(listed.value)
            WHERE t.user = ?2 AND t.deleted_at IS NULL ORDER BY CAST(listed.key AS BIGINT)"
    );
    find_all(conn, &statement, params![listed, user], thread_row)
}

/// The titles of the threads that were used last, of archived ones after the others.
fn titles(conn: &SqlConnection, scope: &Scope) -> Result<Vec<ThreadTitle>, Error> {
    let statement = "SELECT t.id, t.title, t.created_at, t.updated_at FROM threads t
            WHERE t.app = ?1 AND t.user = ?2 AND t.archived = ?3 AND t.deleted_at IS NULL AND t.title IS NOT NULL
            ORDER BY t.updated_at DESC, t.id DESC LIMIT ?4";
    let mut titles = Vec::new();
    for archived in [false, true] {
        let key = params![scope.app.as_str(), scope.user.as_str(), archived, MAX_TITLES_PER_READ as i64];
        titles.extend(find_all(conn, statement, key, |row| {
            let (created_at, updated_at) = (time(row, 2)?, time(row, 3)?);
            Ok(ThreadTitle { id: id(row, 0)?, title: text(row, 1)?, created_at, updated_at })
        })?);
    }
    Ok(titles)
}

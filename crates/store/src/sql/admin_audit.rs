//! The rows of the audit of admins. How its chain is made is in [`crate::rules::admin_audit`].

use crate::sql::{SqlConnection, SqlRow, params};
use protocol::{AppId, AuditEntryView, AuditKind};

use super::SqlStore;
use super::append::Batch;
use super::read::{count, find_all, find_first, find_page, merge_pages, one_more, sql, text, time};
use crate::rules::admin_audit::{AdminAct, AuditEntry, AuditHash, AuditHead, entry_faults};
use crate::{Error, PageOf, PageRows, Verified};

const COLUMNS: &str = "number, at, by, kind, app, target, detail, hash";

/// Entries looked at before the connection is given back.
const ENTRIES_PER_CHECK: i64 = 256;

impl SqlStore {
    pub(crate) async fn admin_audit(
        &self,
        apps: Option<Vec<AppId>>,
        page: PageOf<u64>,
    ) -> Result<PageRows<AuditEntryView>, Error> {
        let read = move |conn: &SqlConnection| match &apps {
            None => list(conn, page),
            Some(apps) => {
                let pages = apps.iter().map(|app| list_of_app(conn, app, page)).collect::<Result<_, _>>()?;
                Ok(merge_pages(pages, page.limit, |entry| std::cmp::Reverse(entry.number)))
            }
        };
        self.readers.read(read).await
    }
}

/// Adds an entry to the chain.
pub(super) fn append(batch: &Batch<'_>, act: AdminAct) -> Result<(), Error> {
    let statement = "SELECT number, hash FROM admin_audit WHERE number > 0 ORDER BY number DESC LIMIT 1";
    let head = find_first(batch.conn(), statement, [], |row| {
        Ok(AuditHead { number: count(row, 0)?, hash: row.get(1)? })
    })?
    .unwrap_or_default();
    let entry = AuditEntry::after(&head, act, batch.at());
    let hash = entry.hash(&head.hash);
    let AuditEntry { number, at, by, kind, app, target, detail } = entry;
    let statement = format!("INSERT INTO admin_audit ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)");
    batch.execute(&statement, params![sql(number), at, by, kind, app, target, detail, hash])
}

/// A check of the chain under way: how far it has come, and what it has found.
#[derive(Default)]
pub(super) struct AuditCheck {
    before: AuditHead,
    pub(super) entries: u64,
    /// At most [`Verified::MAX_FAULTS`].
    pub(super) faults: Vec<String>,
    pub(super) is_done: bool,
}

impl AuditCheck {
    /// Looks at the next entries, all of them as they were at one moment.
    pub(super) fn next(mut self, conn: &SqlConnection) -> Result<Self, Error> {
        let _moment = conn.moment()?;
        // A damaged number may be below zero, so the first look is from the very beginning.
        let last = if self.entries == 0 { i64::MIN } else { sql(self.before.number) };
        let statement =
            format!("SELECT {COLUMNS} FROM admin_audit WHERE number > ?1 ORDER BY number LIMIT ?2");
        let entries = find_all(conn, &statement, [last, ENTRIES_PER_CHECK], stored_entry)?;
        if entries.is_empty() {
            self.is_done = true;
            let noted = last_number(conn)?;
            if noted != self.before.number {
                self.note(format!(
                    "the last entry is {}, and the last number that was given is {noted}",
                    self.before.number
                ));
            }
        }
        for (entry, hash) in entries {
            self.entries += 1;
            let faults = entry_faults(&self.before, &entry, &hash);
            faults.into_iter().for_each(|fault| self.note(fault));
            self.before = AuditHead { number: entry.number, hash };
        }
        Ok(self)
    }

    fn note(&mut self, fault: String) {
        if self.faults.len() < Verified::MAX_FAULTS {
            self.faults.push(fault);
        }
    }
}

/// The last number that an entry got, as SQLite has noted it: it stays when the end of the chain is cut off.
fn last_number(conn: &SqlConnection) -> Result<u64, Error> {
    let statement = "SELECT seq FROM sqlite_sequence WHERE name = 'admin_audit'";
    Ok(find_first(conn, statement, [], |row| count(row, 0))?.unwrap_or(0))
}

fn list(conn: &SqlConnection, page: PageOf<u64>) -> Result<PageRows<AuditEntryView>, Error> {
    let statement =
        format!("SELECT {COLUMNS} FROM admin_audit WHERE number < ?1 ORDER BY number DESC LIMIT ?2");
    let key = params![page.after.map_or(i64::MAX, sql), one_more(page.limit)];
    find_page(conn, &statement, key, page.limit, entry_view)
}

fn list_of_app(
    conn: &SqlConnection,
    app: &AppId,
    page: PageOf<u64>,
) -> Result<PageRows<AuditEntryView>, Error> {
    let statement = format!(
        "SELECT {COLUMNS} FROM admin_audit WHERE app = ?1 AND number < ?2 ORDER BY number DESC LIMIT ?3"
    );
    let key = params![app.as_str(), page.after.map_or(i64::MAX, sql), one_more(page.limit)];
    find_page(conn, &statement, key, page.limit, entry_view)
}

fn stored_entry(row: &SqlRow<'_>) -> Result<(AuditEntry, AuditHash), Error> {
    let entry = AuditEntry {
        number: count(row, 0)?,
        at: row.get(1)?,
        by: text(row, 2)?,
        kind: text(row, 3)?,
        app: row.get(4)?,
        target: text(row, 5)?,
        detail: text(row, 6)?,
    };
    Ok((entry, row.get(7)?))
}

fn entry_view(row: &SqlRow<'_>) -> Result<AuditEntryView, Error> {
    let (entry, hash) = stored_entry(row)?;
    let kind = AuditKind::ALL.into_iter().find(|kind| kind.name() == entry.kind);
    let kind = kind.ok_or(Error::Column("a kind of the audit that is known"))?;
    Ok(AuditEntryView {
        number: entry.number,
        at: time(row, 1)?,
        by: entry.by,
        kind,
        app: entry.app,
        target: entry.target,
        detail: serde_json::from_str(&entry.detail).unwrap_or_default(),
        hash: hash.iter().map(|byte| format!("{byte:02x}")).collect(),
    })
}

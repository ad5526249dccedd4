//! Copies all data from one database to another, whichever of the two kinds each is.
//!
//! A copy is a comparison: both databases are read in the order of their keys, and rows that differ are written. So a
//! copy that was interrupted continues where it was, and a second copy writes only what has changed meanwhile. The
//! source is read as it is at one moment. In the end each table is read again, and its hash must be that of the source.

mod copied_rows;
mod high_marks;
mod places;
mod tables;
mod verdict;

use std::path::PathBuf;

use copied_rows::{CopiedRow, RowCursor};
use places::{CopySource, CopyTarget};
use tables::CopiedTable;
use verdict::TableHash;
pub use verdict::{CopyOutcome, TableFigures};

use crate::Error;
use crate::postgres::{PostgresAddress, on_own_thread};

/// Bytes of rows that are written in one transaction.
const FLUSH_BYTES: usize = 4 * 1024 * 1024;

/// The place of a server's data.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "there are two of them")]
pub enum StorePlace {
    /// A data folder with a SQLite database.
    Folder(PathBuf),
    Postgres(PostgresAddress),
}

/// How far a copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyProgress {
    /// Rows that were compared, and then read again.
    pub rows: u64,
    /// Twice as many rows as the source has.
    pub of: u64,
}

/// Copies all data. The target must be empty, or an earlier copy that no server has used. It blocks.
pub fn copy(
    from: &StorePlace,
    to: &StorePlace,
    report: impl FnMut(CopyProgress) + Send,
) -> Result<CopyOutcome, Error> {
    on_own_thread(|| {
        let (source, target) = (CopySource::open(from)?, CopyTarget::open(to)?);
        let tables = tables::of_schema()?;
        target.require_own(&tables)?;
        target.mark_as_begun()?;
        copy_tables(&source, &target, &tables, report)
    })
}

fn copy_tables(
    source: &CopySource,
    target: &CopyTarget,
    tables: &[CopiedTable],
    report: impl FnMut(CopyProgress),
) -> Result<CopyOutcome, Error> {
    let moment = source.conn().moment()?;
    let mut meter = CopyMeter::begin(source, tables, report)?;
    target.lay_rules_aside()?;
    let figures = tables.iter().map(|table| copy_table(source, target, table, &mut meter));
    let figures = figures.collect::<Result<_, Error>>()?;
    high_marks::copy(source.conn(), target.conn())?;
    let is_restored = source.is_in_use() || source.is_restored()?;
    let key = source.name_of_key()?;
    drop(moment);
    target.finish(is_restored, key.as_deref())?;
    Ok(CopyOutcome { tables: figures, was_in_use: source.is_in_use(), audited: target.audit()? })
}

/// Makes a table the same, and reads it again.
fn copy_table(
    source: &CopySource,
    target: &CopyTarget,
    table: &CopiedTable,
    meter: &mut CopyMeter<impl FnMut(CopyProgress)>,
) -> Result<TableFigures, Error> {
    let mut wanted_rows = RowCursor::new(source.conn(), table);
    let mut found_rows = RowCursor::new(target.conn(), table);
    let (mut wanted, mut changed, mut pending) = (TableHash::default(), 0, PendingRows::default());
    while let Some(step) = next_step(&mut wanted_rows, &mut found_rows)? {
        if let MergeStep::Same(row) | MergeStep::Put(row) = &step {
            wanted.add(row);
            meter.advance();
        }
        changed += u64::from(!matches!(step, MergeStep::Same(_)));
        pending.take(step);
        if pending.bytes >= FLUSH_BYTES {
            target.write(table, &std::mem::take(&mut pending))?;
        }
    }
    target.write(table, &pending)?;
    let (mut found, mut again) = (TableHash::default(), RowCursor::new(target.conn(), table));
    while let Some(row) = again.pop()? {
        found.add(&row);
        meter.advance();
    }
    if found != wanted {
        return Err(Error::Unusable(format!(
            "the table {} is not the same after the copy; see that nobody else writes to the target, and try again",
            table.name
        )));
    }
    Ok(found.into_figures(&table.name, changed))
}

/// Counts rows, so that the user of the command sees progress.
struct CopyMeter<R> {
    progress: CopyProgress,
    report: R,
}

impl<R: FnMut(CopyProgress)> CopyMeter<R> {
    fn begin(source: &CopySource, tables: &[CopiedTable], report: R) -> Result<Self, Error> {
        let mut rows = 0;
        for table in tables {
            rows += table.count_rows(source.conn())?;
        }
        Ok(Self { progress: CopyProgress { rows: 0, of: rows * 2 }, report })
    }

    fn advance(&mut self) {
        self.progress.rows += 1;
        (self.report)(self.progress);
    }
}

/// The step for the next row.
enum MergeStep {
    Same(CopiedRow),
    Put(CopiedRow),
    Remove(CopiedRow),
}

fn next_step(source: &mut RowCursor<'_>, target: &mut RowCursor<'_>) -> Result<Option<MergeStep>, Error> {
    let order = match (source.peek()?, target.peek()?) {
        (None, None) => return Ok(None),
        (Some(_), None) => std::cmp::Ordering::Less,
        (None, Some(_)) => std::cmp::Ordering::Greater,
        (Some(wanted), Some(found)) => wanted.key_order(found),
    };
    Ok(match order {
        std::cmp::Ordering::Less => source.pop()?.map(MergeStep::Put),
        std::cmp::Ordering::Greater => target.pop()?.map(MergeStep::Remove),
        std::cmp::Ordering::Equal => {
            let (wanted, found) = (source.pop()?, target.pop()?);
            let is_same = wanted == found;
            wanted.map(if is_same { MergeStep::Same } else { MergeStep::Put })
        }
    })
}

/// Rows that are written together.
#[derive(Default)]
struct PendingRows {
    removed: Vec<CopiedRow>,
    put: Vec<CopiedRow>,
    bytes: usize,
}

impl PendingRows {
    fn take(&mut self, step: MergeStep) {
        match step {
            MergeStep::Same(_) => {}
            MergeStep::Put(row) => {
                self.bytes += row.bytes();
                self.put.push(row);
            }
            MergeStep::Remove(row) => {
                self.bytes += row.bytes();
                self.removed.push(row);
            }
        }
    }
}

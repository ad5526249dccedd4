//! Rows of a table in the order of its key, read piece by piece.

use std::cmp::Ordering;
use std::collections::VecDeque;

use super::tables::CopiedTable;
use crate::Error;
use crate::database::{OwnedValue, SqlConnection, SqlRow, SqlValue};

/// Bytes that one piece should have, and the most rows.
const PIECE_BYTES: usize = 2 * 1024 * 1024;
const MAX_PIECE_ROWS: usize = 4_000;

/// Rows of the first piece, while the size of the rows is not known.
const FIRST_PIECE_ROWS: usize = 16;

/// The bytes that a row and a value take beside their contents.
const VALUE_BYTES: usize = 16;

/// A row with its key in front.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CopiedRow {
    values: Vec<OwnedValue>,
    key_columns: usize,
}

impl CopiedRow {
    fn read(row: &SqlRow<'_>, table: &CopiedTable) -> Result<Self, Error> {
        let columns = 0..table.columns.len();
        let value = |column: usize| {
            if table.vector_column == Some(column) {
                let vector = row.vector(column)?;
                return Ok(
                    vector.map_or(OwnedValue::Null, |vector| OwnedValue::Vector(vector.postgres_copy()))
                );
            }
            Ok(OwnedValue::of(row.value(column)?).without_zeros())
        };
        let values = columns.map(value).collect::<Result<_, Error>>()?;
        Ok(Self { values, key_columns: table.key_columns })
    }

    pub(super) fn values(&self) -> Vec<SqlValue<'_>> {
        self.values.iter().map(OwnedValue::as_value).collect()
    }

    pub(super) fn key(&self) -> Vec<SqlValue<'_>> {
        self.values.iter().take(self.key_columns).map(OwnedValue::as_value).collect()
    }

    /// The order in which both databases give rows.
    pub(super) fn key_order(&self, other: &Self) -> Ordering {
        let pairs = self.key().into_iter().zip(other.key());
        pairs
            .map(|(one, other)| value_order(one, other))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }

    pub(super) fn bytes(&self) -> usize {
        self.values.iter().map(|value| value.bytes() + VALUE_BYTES).sum()
    }
}

fn value_order(one: SqlValue<'_>, other: SqlValue<'_>) -> Ordering {
    match (one, other) {
        (SqlValue::Integer(one), SqlValue::Integer(other)) => one.cmp(&other),
        (SqlValue::Text(one) | SqlValue::Blob(one), SqlValue::Text(other) | SqlValue::Blob(other)) => {
            one.cmp(other)
        }
        // No key has other values.
        (_, _) => Ordering::Equal,
    }
}

/// Reads a table from its first row to its last.
pub(super) struct RowCursor<'c> {
    conn: &'c SqlConnection,
    table: &'c CopiedTable,
    rows: VecDeque<CopiedRow>,
    last: Option<CopiedRow>,
    piece_rows: usize,
    is_over: bool,
}

impl<'c> RowCursor<'c> {
    pub(super) fn new(conn: &'c SqlConnection, table: &'c CopiedTable) -> Self {
        let rows = VecDeque::new();
        Self { conn, table, rows, last: None, piece_rows: FIRST_PIECE_ROWS, is_over: false }
    }

    pub(super) fn peek(&mut self) -> Result<Option<&CopiedRow>, Error> {
        if self.rows.is_empty() && !self.is_over {
            self.read_piece()?;
        }
        Ok(self.rows.front())
    }

    pub(super) fn pop(&mut self) -> Result<Option<CopiedRow>, Error> {
        self.peek()?;
        Ok(self.rows.pop_front())
    }

    fn read_piece(&mut self) -> Result<(), Error> {
        let limit = i64::try_from(self.piece_rows).unwrap_or(i64::MAX);
        let mut values = self.last.as_ref().map(CopiedRow::key).unwrap_or_default();
        values.push(SqlValue::Integer(limit));
        let statement = self.table.select_after(self.last.is_some());
        let mut find = self.conn.prepare(&statement)?;
        let mut rows = find.query(values)?;
        let mut bytes = 0;
        while let Some(row) = &rows.next()? {
            let row = CopiedRow::read(row, self.table)?;
            bytes += row.bytes();
            self.rows.push_back(row);
        }
        self.is_over = self.rows.len() < self.piece_rows;
        self.last = self.rows.back().cloned();
        let row_bytes = (bytes / self.rows.len().max(1)).max(1);
        self.piece_rows = (PIECE_BYTES / row_bytes).clamp(1, MAX_PIECE_ROWS);
        Ok(())
    }
}

//! A table as lines of text: a line for each row, with a sign between its cells.

const BETWEEN_CELLS: &str = " | ";

#[derive(Debug, Default)]
pub(super) struct TableText(String);

impl TableText {
    /// Adds a cell to the row. An empty cell is left out.
    pub(super) fn push_cell(&mut self, text: &str) {
        let cell = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if !cell.is_empty() {
            if self.is_in_row() {
                self.0.push_str(BETWEEN_CELLS);
            }
            self.0.push_str(&cell);
        }
    }

    pub(super) fn end_row(&mut self) {
        if self.is_in_row() {
            self.0.push('\n');
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Hands out the table and begins another.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.0)
    }

    fn is_in_row(&self) -> bool {
        !self.0.is_empty() && !self.0.ends_with('\n')
    }
}

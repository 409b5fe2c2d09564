//! The first rows of a table, until its columns are decided.

/// Rows in memory.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    pub(crate) bytes: Vec<u8>,
    /// Where cells end in `bytes`.
    pub(crate) cells: Vec<usize>,
    /// Where rows end in `cells`.
    pub(crate) rows: Vec<usize>,
}

impl Sample {
    pub(crate) fn cell(&self, index: usize) -> Option<&[u8]> {
        let end = *self.cells.get(index)?;
        let start = index.checked_sub(1).and_then(|before| self.cells.get(before)).copied().unwrap_or_default();
        self.bytes.get(start..end)
    }

    /// The cells of a row, as a range of `cells`.
    pub(crate) fn row(&self, index: usize) -> std::ops::Range<usize> {
        let start = index.checked_sub(1).and_then(|before| self.rows.get(before)).copied().unwrap_or_default();
        start..self.rows.get(index).copied().unwrap_or(start)
    }

    /// The texts of the cells of a row.
    pub(crate) fn values(&self, row: usize) -> Vec<&[u8]> {
        self.row(row).map(|cell| self.cell(cell).unwrap_or_default()).collect()
    }

    pub(crate) fn size(&self) -> usize {
        self.bytes.len() + self.cells.len()
    }
}

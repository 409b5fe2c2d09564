//! Tables of JSON records: a column for each member of an object, as CSV or Parquet.
//!
//! Records are JSON Lines that are read more than once, so that memory does not depend on their number: for the columns, in
//! Parquet for their types, and to be written.
//!
//! ```
//! let mut records = std::io::Cursor::new("{\"id\":1,\"name\":\"a, b\"}\n{\"id\":2}\n");
//! let mut csv = Vec::new();
//! lro_table::Table::of(lro_table::TableFormat::Csv, &mut records)?.write(&mut records, &mut csv)?;
//! assert_eq!(csv, b"id,name\n1,\"a, b\"\n2,\n");
//! # Ok::<(), lro_table::TableError>(())
//! ```

mod columns;
mod csv;
mod parquet;

use std::io::{self, BufRead, BufReader, Read, Seek, Write};

use ::parquet::errors::ParquetError;

pub use self::columns::{COLUMNS_MAX, Columns, text};
use self::parquet::Kind;

/// Bytes that are read at a time.
const READ_BYTES: usize = 256 << 10;

/// Why records cannot become a table.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// There are too many columns.
    #[error("the records have more than {COLUMNS_MAX} fields: select some, or take them as JSON Lines")]
    Columns,
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Parquet cannot be written.
    #[error("cannot write Parquet: {0}")]
    Parquet(#[from] ParquetError),
}

/// A format of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFormat {
    /// Comma-separated values (RFC 4180, with line feeds) below a header. A string is its text, any other value its JSON. A
    /// field that is missing or null is empty; an empty string is `""`.
    Csv,
    /// Parquet. A field that is missing or null is null. A field with values of several types, with objects, arrays or numbers
    /// that no 64-bit type holds is a column of JSON.
    Parquet,
}

/// The columns of some records, and their types where the format has them.
#[derive(Debug)]
pub struct Table {
    format: TableFormat,
    columns: Columns,
    kinds: Vec<Kind>,
}

impl Table {
    /// Reads the records for their columns and types.
    ///
    /// # Errors
    /// [`TableError::Columns`] and [`TableError::Io`].
    pub fn of(format: TableFormat, records: &mut (impl Read + Seek)) -> Result<Self, TableError> {
        let columns = Columns::of(records)?;
        let kinds = match format {
            TableFormat::Csv => Vec::new(),
            TableFormat::Parquet => parquet::kinds(&columns, records)?,
        };
        Ok(Self { format, columns, kinds })
    }

    /// Writes the table of the same records.
    ///
    /// # Errors
    /// [`TableError::Io`] and [`TableError::Parquet`].
    pub fn write(&self, records: &mut (impl Read + Seek), out: &mut (dyn Write + Send)) -> Result<(), TableError> {
        match self.format {
            TableFormat::Csv => csv::write(&self.columns, records, out),
            TableFormat::Parquet => parquet::write(&self.columns, &self.kinds, records, out),
        }
    }
}

/// Calls `each` with each record, from the first on, without its line feed.
///
/// # Errors
/// Those of reading, and of `each`.
pub fn each_record<E: From<io::Error>>(
    records: &mut (impl Read + Seek),
    mut each: impl FnMut(&str) -> Result<(), E>,
) -> Result<(), E> {
    records.rewind()?;
    let mut reader = BufReader::with_capacity(READ_BYTES, records);
    let mut line = String::new();
    while reader.read_line(&mut line)? > 0 {
        each(line.strip_suffix('\n').unwrap_or(&line))?;
        line.clear();
    }
    Ok(())
}

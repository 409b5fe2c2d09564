//! JSON documents that are tables: names in one place, values in another.

mod parallel;
mod rows;

use super::error::Error;
use super::records::{BLOCK_BYTES, Records, Report};
use super::string::quote;
use crate::Tabular;
pub use parallel::PARALLEL_BYTES_MAX;
use parallel::Parallel;
use rows::Rows;

/// Reads the records of one JSON document that is a table: one object a line, whose values are copied byte for byte
/// except for white space between tokens.
///
/// The output does not depend on where the text is cut into slices; which fault is named may, when a document is neither
/// JSON nor this table. Rows stream: memory is the names and up to 2 MiB of lines. Parallel arrays are held, up to
/// [`PARALLEL_BYTES_MAX`], and given at the end, because the first record has a part in every array. Must not be used after
/// an error.
///
/// ```
/// use lro_text::{TabularReader, tabular};
///
/// let text = r#"{"columns": ["id", "name"], "rows": [[7, "Ada"], [8, "Grace"]]}"#;
/// let mut lines = Vec::new();
/// let mut out = |bytes: &[u8]| Ok::<(), std::convert::Infallible>(lines.extend_from_slice(bytes));
/// let mut reader = TabularReader::new(&tabular(text).ok_or("no table")?);
/// reader.push(text, &mut out)?;
/// assert_eq!(reader.finish(&mut out)?.records, 2);
/// assert_eq!(lines, b"{\"id\":7,\"name\":\"Ada\"}\n{\"id\":8,\"name\":\"Grace\"}\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TabularReader {
    kind: Kind,
    records: Records,
}

#[derive(Debug)]
enum Kind {
    Rows(Box<Rows>),
    Parallel(Parallel),
}

impl TabularReader {
    /// A reader at the beginning of the document in whose beginning this table was found.
    #[must_use]
    pub fn new(tabular: &Tabular) -> Self {
        let kind = match tabular {
            Tabular::Rows { member, names } => Kind::Rows(Box::new(Rows::new(Some(member), names))),
            Tabular::HeaderRow { names } => Kind::Rows(Box::new(Rows::new(None, names))),
            Tabular::Parallel => Kind::Parallel(Parallel::default()),
        };
        Self { kind, records: Records::default() }
    }

    /// Reads the next slice of the document, cut between any two characters, and gives `out` any number of lines, cut
    /// anywhere.
    ///
    /// # Errors
    ///
    /// [`Error::Text`] where the document is not JSON or not this table, [`Error::Output`] as soon as `out` fails.
    pub fn push<E>(&mut self, text: &str, out: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), Error<E>> {
        let Self { kind, records } = self;
        records.read(text, out, |piece, records| match kind {
            Kind::Rows(rows) => rows.push(piece.as_bytes(), records),
            Kind::Parallel(parallel) => parallel.push(piece),
        })
    }

    /// Ends the document. The report has no columns, and its `outside` are the bytes before and after the rows: other
    /// members are not part of the records.
    ///
    /// # Errors
    ///
    /// As for [`TabularReader::push`]; also when the document ends too early.
    pub fn finish<E>(self, out: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<Report, Error<E>> {
        let mut records = self.records;
        match self.kind {
            Kind::Rows(rows) => rows.finish(&mut records).map_err(|fault| records.error(fault))?,
            Kind::Parallel(parallel) => {
                let mut columns = parallel.columns().map_err(|fault| records.error(fault))?;
                while columns.next(&mut records).map_err(|fault| records.error(fault))? {
                    records.give(BLOCK_BYTES, out)?;
                }
            }
        }
        records.give(1, out)?;
        Ok(records.report)
    }

    /// The records of a beginning of a document; `None` if it is not this table.
    pub(crate) fn try_head(tabular: &Tabular, head: &str) -> Option<u64> {
        let mut reader = Self::new(tabular);
        reader.push(head, &mut |_| Ok::<(), std::convert::Infallible>(())).ok()?;
        Some(reader.records.report.records)
    }
}

/// What is written before the values of each name: `{"name":` and `,"name":`.
fn prefixes<'a>(names: impl Iterator<Item = &'a str>) -> Vec<Vec<u8>> {
    let prefix = |(index, name): (usize, &str)| {
        let mut prefix = vec![if index == 0 { b'{' } else { b',' }];
        quote(name.as_bytes(), &mut prefix);
        prefix.push(b':');
        prefix
    };
    names.enumerate().map(prefix).collect()
}

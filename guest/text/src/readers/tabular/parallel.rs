//! Arrays of equal length side by side.

use lro_json::unescaped_lossy;
use lro_json::walk::{Damaged, members, skip_white, value_end};

use super::prefixes;
use crate::readers::COLUMNS_MAX;
use crate::readers::error::{Error, Fault};
use crate::readers::json::Value;
use crate::readers::records::{BLOCK_BYTES, Records, Report};

/// Largest document of parallel arrays, in bytes: 2 MiB. It is held in memory, up to twice while it grows, beside what a
/// policy needs.
pub const PARALLEL_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Gathers the document.
#[derive(Debug)]
pub(crate) struct Parallel {
    /// The keys that lead to the object of the arrays.
    path: Vec<String>,
    document: String,
}

impl Parallel {
    pub(crate) fn new(path: &[String]) -> Self {
        Self { path: path.to_vec(), document: String::new() }
    }

    pub(crate) fn push(&mut self, text: &str) -> Result<(), Fault> {
        if self.document.len() + text.len() > PARALLEL_BYTES_MAX {
            return Err(Fault::Parallel);
        }
        self.document.push_str(text);
        Ok(())
    }

    /// Ends the document, and gives its records.
    pub(crate) fn finish<E>(
        self,
        mut records: Records,
        out: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<Report, Error<E>> {
        let mut columns = self.columns().map_err(|fault| records.error(fault))?;
        while columns.next(&mut records).map_err(|fault| records.error(fault))? {
            records.give(BLOCK_BYTES, out)?;
        }
        records.give(1, out)?;
        Ok(records.report)
    }

    /// The columns of the whole document, each before its first value.
    fn columns(self) -> Result<Columns, Fault> {
        lro_json::validate(&self.document).map_err(|error| Fault::Json(error.kind))?;
        let text = self.document.as_bytes();
        let (mut names, mut places) = (Vec::new(), Vec::new());
        let mut start = skip_white(text, 0);
        for step in &self.path {
            start = member(text, start, step)?;
        }
        if text.get(start) != Some(&b'{') {
            return Err(Fault::Misaligned);
        }
        members(text, start, |key, value| {
            if text.get(value) != Some(&b'[') || names.len() == COLUMNS_MAX {
                return Err(Damaged);
            }
            names.push(String::from_utf8_lossy(&unescaped_lossy(key.bytes)).into_owned());
            places.push(skip_white(text, value + 1));
            Ok(())
        })
        .map_err(|Damaged| Fault::Misaligned)?;
        if names.is_empty() {
            return Err(Fault::Misaligned);
        }
        let prefixes = prefixes(names.iter().map(String::as_str));
        Ok(Columns { document: self.document, prefixes, places })
    }
}

/// The value of the only member of an object with this key.
fn member(text: &[u8], object: usize, wanted: &str) -> Result<usize, Fault> {
    let mut found = None;
    if text.get(object) == Some(&b'{') {
        members(text, object, |key, value| {
            match key.unescaped().as_ref() == wanted.as_bytes() && found.replace(value).is_some() {
                true => Err(Damaged),
                false => Ok(()),
            }
        })
        .map_err(|Damaged| Fault::Second)?;
    }
    found.ok_or(Fault::Misaligned)
}

/// The next value of every column.
#[derive(Debug)]
struct Columns {
    document: String,
    /// What is written before the value of each column.
    prefixes: Vec<Vec<u8>>,
    /// Where the next values begin, or their arrays end.
    places: Vec<usize>,
}

impl Columns {
    /// Writes the next record; `false` when all arrays have ended.
    fn next(&mut self, records: &mut Records) -> Result<bool, Fault> {
        let text = self.document.as_bytes();
        let ended = self.places.iter().filter(|at| text.get(**at) == Some(&b']')).count();
        match ended {
            0 => {}
            _ if ended == self.places.len() => return Ok(false),
            _ => return Err(Fault::Misaligned),
        }
        for (prefix, place) in self.prefixes.iter().zip(&mut self.places) {
            records.lines.extend_from_slice(prefix);
            let end = value_end(text, *place).map_err(|Damaged| Fault::Misaligned)?;
            let value = &self.document[*place..end];
            if value.starts_with(['{', '[']) {
                Value::default().read(value, &mut records.lines)?;
            } else {
                records.lines.extend_from_slice(value.as_bytes());
            }
            *place = skip_white(text, end);
            if text.get(*place) == Some(&b',') {
                *place = skip_white(text, *place + 1);
            }
        }
        records.lines.push(b'}');
        records.end();
        Ok(true)
    }
}

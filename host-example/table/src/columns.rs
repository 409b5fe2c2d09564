//! A column for each member of an object, in the order of first appearance.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{Read, Seek};

use crate::{TableError, each_record};

/// Most columns: 1,000. Each row has all of them, so they bound how much longer a table is than its JSON.
pub const COLUMNS_MAX: usize = 1_000;

/// The column of values that are not objects.
const VALUE: &str = "value";

/// The columns of some records.
#[derive(Debug, Default)]
pub struct Columns {
    names: Vec<String>,
    places: HashMap<String, usize>,
}

impl Columns {
    /// Finds the columns. Values other than objects go into the column `value`.
    ///
    /// # Errors
    /// [`TableError::Columns`] when there are more than [`COLUMNS_MAX`], and those of reading.
    pub fn of(records: &mut (impl Read + Seek)) -> Result<Self, TableError> {
        let mut columns = Self::default();
        each_record(records, |line| members(line).into_iter().try_for_each(|(name, _)| columns.add(name)))?;
        Ok(columns)
    }

    fn add(&mut self, name: Cow<'_, str>) -> Result<(), TableError> {
        if self.places.contains_key(name.as_ref()) {
            return Ok(());
        }
        if self.names.len() == COLUMNS_MAX {
            return Err(TableError::Columns);
        }
        self.places.insert(name.to_string(), self.names.len());
        self.names.push(name.into_owned());
        Ok(())
    }

    /// Their names.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The values of a record as JSON, one for each column; `None` where it has none. Of a member that is there twice, the
    /// last one counts.
    pub fn values<'a>(&self, line: &'a str) -> Vec<Option<&'a str>> {
        let mut values = vec![None; self.names.len()];
        for (name, value) in members(line) {
            if let Some(found) = self.places.get(name.as_ref()).and_then(|place| values.get_mut(*place)) {
                *found = Some(value);
            }
        }
        values
    }
}

/// The members of an object; any other value as the one in [`VALUE`].
fn members(line: &str) -> Vec<(Cow<'_, str>, &str)> {
    match lro_json::members(line) {
        Ok(members) => members.iter().map(|member| (text(member.key), member.value)).collect(),
        Err(_) => vec![(VALUE.into(), line)],
    }
}

/// A string without quotes and escapes; any other value as it is.
pub fn text(json: &str) -> Cow<'_, str> {
    if !json.starts_with('"') {
        return json.into();
    }
    serde_json::from_str(json).map_or(Cow::Borrowed(json), Cow::Owned)
}

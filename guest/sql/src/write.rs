//! Rows as JSON.

use std::collections::HashSet;

use lro_json::walk;
use lro_json::write::push_string;

use crate::plan::Name;
use crate::{Error, Statement, Value};

/// The key of a record that is not an object, in the place of its members.
pub const SCALAR_KEY: &str = "value";

/// Appends a row of a statement as a JSON object on one line. A name that is there already gets a number: `id_1`.
///
/// # Errors
/// [`Error::Damaged`] for an array or object that is not JSON.
pub fn write_row(statement: &Statement, row: &[Value], out: &mut String) -> Result<(), Error> {
    let names = statement.query.names();
    if let ([Name::Members(except)], [Value::Json(record)]) = (names, row.get(..1).unwrap_or_default())
        && except.is_empty()
        && record.starts_with('{')
    {
        lro_json::validate(record).map_err(|_| Error::Damaged)?;
        out.push_str(record);
        return Ok(());
    }
    // Plain names differ already.
    let is_mixed = names.iter().any(|name| matches!(name, Name::Members(_)));
    let mut members = Members { out, used: is_mixed.then(HashSet::new), is_empty: true };
    members.out.push('{');
    for (name, value) in names.iter().zip(row) {
        match (name, value) {
            (Name::Plain(name), value) => {
                members.key(name);
                json(value, members.out)?;
            }
            (Name::Members(except), Value::Json(record)) if record.starts_with('{') => {
                lro_json::validate(record).map_err(|_| Error::Damaged)?;
                walk::members(record.as_bytes(), 0, |key, at| {
                    let key = String::from_utf8_lossy(&key.unescaped()).into_owned();
                    if !except.contains(&key) {
                        members.key(&key);
                        let end = walk::value_end(record.as_bytes(), at)?;
                        members.out.push_str(record.get(at..end).unwrap_or_default());
                    }
                    Ok(())
                })?;
            }
            // The other side of a LEFT JOIN.
            (Name::Members(_), Value::Null) => {}
            (Name::Members(_), value) => {
                members.key(SCALAR_KEY);
                json(value, members.out)?;
            }
        }
    }
    members.out.push('}');
    Ok(())
}

fn json(value: &Value, out: &mut String) -> Result<(), Error> {
    if let Value::Json(text) = value {
        lro_json::validate(text).map_err(|_| Error::Damaged)?;
    }
    value.write(out);
    Ok(())
}

struct Members<'o> {
    out: &'o mut String,
    used: Option<HashSet<String>>,
    is_empty: bool,
}

impl Members<'_> {
    /// Begins a member.
    fn key(&mut self, name: &str) {
        if !std::mem::take(&mut self.is_empty) {
            self.out.push(',');
        }
        match &mut self.used {
            Some(used) => push_string(self.out, &unused(used, name)),
            None => push_string(self.out, name),
        }
        self.out.push(':');
    }
}

/// A name that is not used yet: as it is, or with the first number that makes it so.
pub(crate) fn unused(used: &mut HashSet<String>, name: &str) -> String {
    let numbered = (1_u32..).map(|number| format!("{name}_{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    let name = names.find(|name| !used.contains(name)).unwrap_or_default();
    used.insert(name.clone());
    name
}

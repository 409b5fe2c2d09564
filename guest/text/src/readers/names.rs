//! Names of columns.

use std::collections::{HashMap, HashSet};

use super::error::Fault;
use super::records::Column;

/// Longest name of a column, in bytes: 1 KiB. Names are repeated in every record.
pub const NAME_BYTES_MAX: usize = 1024;

/// Names for columns: trimmed, none empty, none twice.
pub(crate) fn unique<'a>(names: impl Iterator<Item = &'a [u8]>) -> Result<Vec<String>, Fault> {
    let mut taken = HashSet::new();
    let mut next: HashMap<String, usize> = HashMap::new();
    let mut unique = Vec::new();
    for (index, name) in names.enumerate() {
        if name.len() > NAME_BYTES_MAX {
            return Err(Fault::Name);
        }
        let name = String::from_utf8_lossy(name);
        let base = match name.trim() {
            "" => format!("column_{}", index + 1),
            name => name.to_owned(),
        };
        let mut name = base.clone();
        while !taken.insert(name.clone()) {
            let number = next.entry(base.clone()).or_insert(1);
            *number += 1;
            name = format!("{base}_{number}");
        }
        unique.push(name);
    }
    Ok(unique)
}

/// A name that no column has.
pub(crate) fn unused(base: &str, columns: &[Column]) -> String {
    let is_free = |name: &String| columns.iter().all(|column| column.name != *name);
    let numbered = (2..columns.len() + 3).map(|number| format!("{base}_{number}"));
    std::iter::once(base.to_owned()).chain(numbered).find(is_free).unwrap_or_default()
}

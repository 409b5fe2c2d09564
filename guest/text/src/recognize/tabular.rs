//! JSON documents that are tables.

use std::collections::HashSet;

use lro_json::unescaped;
use lro_json::walk::{Damaged, elements, members, skip_white, string, value_end};

use super::{Form, HEAD_BYTES_MAX, without_mark};
use crate::readers::{NAME_BYTES_MAX, Reader};

/// Members whose value names the columns of a JSON table.
pub const COLUMN_KEYS: [&str; 7] = ["columns", "fields", "headers", "header", "column_names", "columnNames", "schema"];

/// Members that hold the rows.
const ROWS: [&[u8]; 4] = [b"rows", b"data", b"values", b"records"];

/// Fewest columns of a table that only its first row or the lengths of its arrays show: 2.
const COLUMNS_MIN: usize = 2;

/// Fewest elements of parallel arrays: 2.
const ELEMENTS_MIN: usize = 2;

/// Most bytes of the members beside a table inside a document: 8 KiB. A document with more has other data.
const BESIDE_BYTES_MAX: usize = 8 * 1024;

/// A JSON document that is a table, but no array of objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tabular {
    /// The keys that lead to the rows, or to the object of the columns; empty when the document is them.
    pub path: Vec<String>,
    /// Where the names of the columns are.
    pub layout: Layout,
}

/// How the names and the values of a table are laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    /// `{"columns": ["id", "name"], "rows": [[7, "Ada"]]}`: these names, in another member than the rows. It may also be
    /// `fields`, `headers` or `schema.fields`, with strings or with the `name` of objects, and the rows `data` or `values`.
    Rows(Vec<String>),
    /// `[["id", "name"], [7, "Ada"]]`: the first row has these names.
    HeaderRow(Vec<String>),
    /// `{"id": [7, 8], "name": ["Ada", "Grace"]}`: every member is a column.
    Parallel,
}

/// Finds the table that a JSON document is, or that a member of it is which has next to nothing beside it, from its first
/// [`HEAD_BYTES_MAX`] bytes; `None` for anything else, and when in doubt: when the names or the first row are not in these
/// bytes, and when several members could be either.
#[must_use]
pub fn tabular(head: &str) -> Option<Tabular> {
    let head = without_mark(head);
    let head = &head[..head.floor_char_boundary(HEAD_BYTES_MAX)];
    let text = head.as_bytes();
    let at = skip_white(text, 0);
    let found = table(text, at).or_else(|| inside(text, at))?;
    let records = Reader::try_head(&Form::Tabular(found.clone()), head, false)?.report.records;
    (records > 0 || found.layout == Layout::Parallel).then_some(found)
}

/// The table at a value.
fn table(text: &[u8], at: usize) -> Option<Tabular> {
    match text.get(at)? {
        b'[' => header_row(text, at),
        b'{' => rows(text, at).or_else(|| parallel(text, at)),
        _ => None,
    }
}

/// The table in the only member of a document that is one, when the others are short.
fn inside(text: &[u8], at: usize) -> Option<Tabular> {
    if text.get(at) != Some(&b'{') {
        return None;
    }
    let (mut found, mut beside) = (None, 0);
    let mut is_only = true;
    // The last member may be cut, or others behind it.
    let _ = members(text, at, |key, value| {
        match table(text, value) {
            Some(table) => {
                let name = String::from_utf8(key.unescaped().into_owned()).map_err(|_| Damaged)?;
                is_only &= found.replace((name, table)).is_none();
            }
            None => beside += value_end(text, value).unwrap_or(text.len()) - value,
        }
        Ok(())
    });
    let (name, Tabular { mut path, layout }) = found.filter(|_| is_only && beside <= BESIDE_BYTES_MAX)?;
    path.insert(0, name);
    Some(Tabular { path, layout })
}

/// Names in the first row, and a column below one that holds no text.
fn header_row(text: &[u8], at: usize) -> Option<Tabular> {
    let first = skip_white(text, at + 1);
    let names = names(text, first)?;
    let mut is_data = vec![true; names.len()];
    let mut rows = 0;
    // Rows behind a cut one are not looked at.
    let _ = elements(text, at, |row| {
        let is_complete = value_end(text, row).is_ok() && text.get(row) == Some(&b'[');
        if row == first || !is_complete {
            return Ok(());
        }
        rows += 1;
        let mut index = 0;
        elements(text, row, |value| {
            if let Some(is_data) = is_data.get_mut(index) {
                *is_data &= is_number_or_literal(text, value);
            }
            index += 1;
            Ok(())
        })
        .map(drop)
    });
    let is_table = names.len() >= COLUMNS_MIN && rows > 0 && is_data.contains(&true);
    is_table.then(|| Tabular { path: Vec::new(), layout: Layout::HeaderRow(names) })
}

/// Whether a value is a number, a literal, or a string that begins like a number.
fn is_number_or_literal(text: &[u8], at: usize) -> bool {
    match text.get(at) {
        Some(b'"') => matches!(text.get(at + 1), Some(b'0'..=b'9' | b'-')),
        Some(b'{' | b'[') | None => false,
        Some(_) => true,
    }
}

/// Names in one member, rows in another.
fn rows(text: &[u8], at: usize) -> Option<Tabular> {
    let (mut found_names, mut found_rows) = (Vec::new(), Vec::new());
    let _ = members(text, at, |key, value| {
        if COLUMN_KEYS.iter().any(|name| name.as_bytes() == key.bytes)
            && let Some(names) = schema(text, value)
        {
            found_names.push(names);
        } else if ROWS.contains(&key.bytes) && text.get(value) == Some(&b'[') {
            found_rows.push(String::from_utf8_lossy(key.bytes).into_owned());
        }
        Ok(())
    });
    let (Some(names), Some(member)) = (found_names.pop(), found_rows.pop()) else { return None };
    let is_alone = found_names.is_empty() && found_rows.is_empty();
    is_alone.then(|| Tabular { path: vec![member], layout: Layout::Rows(names) })
}

/// The names at a value: an array of names, or an object with one under `fields` or `columns`.
fn schema(text: &[u8], at: usize) -> Option<Vec<String>> {
    if text.get(at) != Some(&b'{') {
        return names(text, at);
    }
    let mut found = None;
    let _ = members(text, at, |key, value| {
        if matches!(key.bytes, b"fields" | b"columns") {
            found = names(text, value);
        }
        Ok(())
    });
    found
}

/// The different names in an array: strings, or objects with a string under `name`.
fn names(text: &[u8], at: usize) -> Option<Vec<String>> {
    if text.get(at) != Some(&b'[') {
        return None;
    }
    let (mut names, mut taken) = (Vec::new(), HashSet::new());
    elements(text, at, |element| {
        let name = name(text, element).filter(|name| taken.insert(name.clone())).ok_or(Damaged)?;
        names.push(name);
        Ok(())
    })
    .ok()?;
    (!names.is_empty()).then_some(names)
}

fn name(text: &[u8], at: usize) -> Option<String> {
    let mut at = Some(at);
    if text.get(at?) == Some(&b'{') {
        let object = at.take()?;
        members(text, object, |key, value| {
            if key.bytes == b"name" {
                at = Some(value);
            }
            Ok(())
        })
        .ok()?;
    }
    let at = at.filter(|at| text.get(*at) == Some(&b'"'))?;
    let name = String::from_utf8(unescaped(string(text, at).ok()?.bytes).ok()?).ok()?;
    (!name.is_empty() && name.len() <= NAME_BYTES_MAX).then_some(name)
}

/// Members that are all arrays of equal length, without containers in them. The last one that the head has may be cut.
fn parallel(text: &[u8], at: usize) -> Option<Tabular> {
    let (mut lengths, mut taken, mut cut) = (Vec::new(), HashSet::new(), 0);
    let end = members(text, at, |key, value| {
        if text.get(value) != Some(&b'[') || !taken.insert(unescaped(key.bytes).map_err(|_| Damaged)?) {
            lengths.clear();
            return Err(Damaged);
        }
        let mut length = 0;
        let mut is_flat = true;
        let end = elements(text, value, |element| {
            is_flat &= !matches!(text.get(element), Some(b'{' | b'['));
            length += 1;
            Ok(())
        });
        match end {
            _ if !is_flat => lengths.clear(),
            Ok(_) => lengths.push(length),
            Err(Damaged) => cut = length,
        }
        if is_flat { Ok(()) } else { Err(Damaged) }
    });
    let &first = lengths.first()?;
    let is_equal = lengths.iter().all(|length| *length == first) && (end.is_ok() || cut <= first);
    (is_equal && lengths.len() >= COLUMNS_MIN && first >= ELEMENTS_MIN)
        .then(|| Tabular { path: Vec::new(), layout: Layout::Parallel })
}

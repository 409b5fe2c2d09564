//! Suggests existing fields for a query that names an unknown one.

use std::cmp::Ordering;

use lro_json::path;
use lro_json::walk::{self, Damaged};
use lro_sql::SCALAR_KEY;

use crate::{ExtractError, Read, Source, UnknownField, lines};

/// Most records whose fields are suggested.
const RECORDS_MAX: u64 = 1000;

/// Most bytes of the file that are read for suggestions.
const BYTES_MAX: u64 = 1 << 20;

/// Most distinct names that are compared.
const NAMES_MAX: usize = 1000;

/// Most steps of a name.
const STEPS_MAX: usize = 8;

/// Most suggestions in an error.
const NEAR_MAX: usize = 10;

/// The error for a field that no record has.
pub(crate) fn unknown_field(source: &Source, read: &mut Read<'_>, field: &str) -> ExtractError {
    let (mut names, with_elements) = (Vec::new(), field.contains("[]"));
    beginning(source, read, |line, at| {
        let _ = collect(line, at, &mut Vec::new(), &mut |steps| add(&mut names, spelled(steps, with_elements)));
    });
    ranked(field, names)
}

/// The error for a column of SQL that no record has.
pub(crate) fn unknown_column(source: &Source, read: &mut Read<'_>, column: &str) -> ExtractError {
    let mut names = Vec::new();
    beginning(source, read, |line, at| {
        if line.get(at) == Some(&b'{') {
            let _ = collect(line, at, &mut Vec::new(), &mut |steps| add(&mut names, spelled(steps, false)));
        } else {
            add(&mut names, SCALAR_KEY.to_owned());
        }
    });
    ranked(column, names)
}

/// The keys of the first records, and whether one of these is not an object.
pub(crate) fn keys(source: &Source, read: &mut Read<'_>) -> (Vec<String>, bool) {
    let (mut keys, mut is_scalar) = (Vec::new(), false);
    beginning(source, read, |line, at| match line.get(at) {
        Some(b'{') => {
            let _ = walk::members(line, at, |key, _| {
                add(&mut keys, String::from_utf8_lossy(&key.unescaped()).into_owned());
                Ok(())
            });
        }
        _ => is_scalar = true,
    });
    (keys, is_scalar)
}

/// Calls `each` with the first records and the index of their values.
fn beginning(source: &Source, read: &mut Read<'_>, mut each: impl FnMut(&[u8], usize)) {
    let beginning = Source { bytes: source.bytes.min(source.start + BYTES_MAX), ..source.clone() };
    let mut records = 0;
    // What cannot be read or is not JSON gets its error when it is asked about; here it only means fewer names.
    let _ = lines::each_run(&beginning, read, |_, run| {
        for line in run.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            if records < RECORDS_MAX {
                each(line, walk::skip_white(line, 0));
            }
            records += 1;
        }
        Ok(())
    });
}

/// The error for a field that is not among `names`.
pub(crate) fn ranked(field: &str, mut names: Vec<String>) -> ExtractError {
    names.sort_by(|left, right| {
        similarity(field, right).partial_cmp(&similarity(field, left)).unwrap_or(Ordering::Equal)
    });
    names.truncate(NEAR_MAX);
    ExtractError::UnknownField(UnknownField { field: field.to_owned(), near: names })
}

/// Calls `each` with the steps to the fields of the value at `at`: a key, or `None` for the first element of an array.
fn collect(
    text: &[u8],
    at: usize,
    steps: &mut Vec<Option<String>>,
    each: &mut dyn FnMut(&[Option<String>]),
) -> Result<(), Damaged> {
    if steps.len() == STEPS_MAX {
        return Ok(());
    }
    let mut below = |step, value| {
        steps.push(step);
        each(steps);
        collect(text, value, steps, each)?;
        steps.pop();
        Ok(())
    };
    match text.get(at) {
        Some(b'{') => walk::members(text, at, |key, value| {
            below(Some(String::from_utf8_lossy(&key.unescaped()).into_owned()), value)
        })
        .map(drop),
        Some(b'[') => {
            let mut is_first = true;
            walk::elements(text, at, |value| if std::mem::take(&mut is_first) { below(None, value) } else { Ok(()) })
                .map(drop)
        }
        _ => Ok(()),
    }
}

/// The name of a field. The first element of an array is its index or, for a field with `[]`, stands for all.
fn spelled(steps: &[Option<String>], with_elements: bool) -> String {
    if !with_elements || !steps.iter().flatten().all(|key| path::is_plain(key)) {
        let keys: Vec<String> = steps.iter().map(|key| key.clone().unwrap_or_else(|| "0".to_owned())).collect();
        return path::spelled(&keys);
    }
    let step = |(index, key): (usize, &Option<String>)| match key {
        None => "[]".to_owned(),
        Some(key) if index == 0 => key.clone(),
        Some(key) => format!(".{key}"),
    };
    steps.iter().enumerate().map(step).collect()
}

fn add(names: &mut Vec<String>, name: String) {
    if names.len() < NAMES_MAX && !names.contains(&name) {
        names.push(name);
    }
}

/// The similarity of two names: as a whole or, with a little less weight, of their last steps.
fn similarity(wanted: &str, name: &str) -> f64 {
    let (wanted, name) = (wanted.trim_start_matches('/').to_lowercase(), name.to_lowercase());
    let last = |name: &str| name.rsplit(['.', '/']).next().unwrap_or_default().to_owned();
    let whole = strsim::normalized_damerau_levenshtein(&wanted, &name);
    let step = strsim::normalized_damerau_levenshtein(&last(&wanted), &last(&name));
    let prefix = strsim::jaro_winkler(&wanted, &name) * 0.8;
    whole.max(step * 0.95).max(prefix)
}

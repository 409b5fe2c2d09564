//! Names of fields there are, for a query that names one there is not.

use crate::json::{self, Damaged};
use crate::path;
use crate::{ExtractError, Read, Source, UnknownField, lines};
use std::cmp::Ordering;

/// Records whose fields are offered.
const RECORDS_MAX: u64 = 1000;

/// Bytes of the file that are read for that.
const BYTES_MAX: u64 = 1 << 20;

/// Most different names that are looked at.
const NAMES_MAX: usize = 1000;

/// Steps of a name.
const STEPS_MAX: usize = 8;

/// Names in an answer.
const NEAR_MAX: usize = 10;

/// The error for a field that no record has.
pub(crate) fn unknown_field(source: &Source, read: &mut Read<'_>, field: &str) -> ExtractError {
    let mut names = Vec::new();
    let beginning = Source { bytes: source.bytes.min(source.start + BYTES_MAX), ..source.clone() };
    let mut records = 0;
    // What cannot be read here has been read before; then there are just fewer names.
    let _ = lines::each_run(&beginning, read, |_, run| {
        for line in run.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            if records < RECORDS_MAX {
                let _ = collect(&mut names, &mut Vec::new(), line, json::skip_white(line, 0));
            }
            records += 1;
        }
        Ok(())
    });
    ranked(field, names)
}

/// The error for a field that is not among some names.
pub(crate) fn ranked(field: &str, mut names: Vec<String>) -> ExtractError {
    names.sort_by(|left, right| {
        similarity(field, right).partial_cmp(&similarity(field, left)).unwrap_or(Ordering::Equal)
    });
    names.truncate(NEAR_MAX);
    ExtractError::UnknownField(UnknownField { field: field.to_owned(), near: names })
}

/// Adds the fields of the value at `at`. Of an array the first element stands for all.
fn collect(names: &mut Vec<String>, keys: &mut Vec<String>, text: &[u8], at: usize) -> Result<(), Damaged> {
    if keys.len() == STEPS_MAX {
        return Ok(());
    }
    match text.get(at) {
        Some(b'{') => {
            json::members(text, at, |key, value| {
                keys.push(String::from_utf8_lossy(&key.unescaped()).into_owned());
                add(names, path::spelled(keys));
                collect(names, keys, text, value)?;
                keys.pop();
                Ok(())
            })?;
        }
        Some(b'[') => {
            let mut is_first = true;
            json::elements(text, at, |value| {
                if std::mem::take(&mut is_first) {
                    keys.push("0".to_owned());
                    add(names, path::spelled(keys));
                    collect(names, keys, text, value)?;
                    keys.pop();
                }
                Ok(())
            })?;
        }
        _ => {}
    }
    Ok(())
}

fn add(names: &mut Vec<String>, name: String) {
    if names.len() < NAMES_MAX && !names.contains(&name) {
        names.push(name);
    }
}

/// How similar two names are: as a whole, or, a little less, their last steps.
fn similarity(wanted: &str, name: &str) -> f64 {
    let (wanted, name) = (wanted.trim_start_matches('/').to_lowercase(), name.to_lowercase());
    let last = |name: &str| name.rsplit(['.', '/']).next().unwrap_or_default().to_owned();
    let whole = strsim::normalized_damerau_levenshtein(&wanted, &name);
    let step = strsim::normalized_damerau_levenshtein(&last(&wanted), &last(&name));
    let prefix = strsim::jaro_winkler(&wanted, &name) * 0.8;
    whole.max(step * 0.95).max(prefix)
}

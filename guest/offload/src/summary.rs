//! What a descriptor says of the values in one file.

use std::collections::BTreeSet;

use lro_json::write::{Object, array, string};
use lro_jsonl::{Distinct, Field, Profile};

use crate::bindings::lro::filter::types::FileKind;
use crate::entry::Entry;
use crate::form::in_words;

/// Most frequent values shown of one field.
const TOP_VALUES: usize = 3;

/// Longest value, in bytes of JSON, that a summary shows.
const VALUE_BYTES_MAX: usize = 40;

pub(crate) fn counts(summary: &mut Object, entry: &Entry) {
    match entry.kind {
        FileKind::Records => summary.member("count", &entry.records.to_string()),
        FileKind::Text => {
            if let Some(outline) = &entry.outline {
                summary.member("kind", &string(&outline.kind));
            }
            summary.member("lines", &entry.records.to_string()).member("bytes", &entry.bytes.to_string())
        }
        FileKind::Value => summary.member("bytes", &entry.bytes.to_string()),
        FileKind::Bytes => {
            summary.member("bytes", &entry.bytes.to_string()).member("media_type", &string(&entry.media_type))
        }
    };
    if let Some(uri) = &entry.uri {
        summary.member("uri", &string(uri));
    }
    if let Some(form) = entry.form {
        summary.member("form", &string(&in_words(form)));
    }
    if let Some(remark) = &entry.remark {
        summary.member("remark", &string(remark));
    }
}

pub(crate) fn range(detail: &mut Object, field: &Field<'_>) {
    if let (Some(minimum), Some(maximum)) = (field.minimum, field.maximum)
        && minimum.len().max(maximum.len()) <= VALUE_BYTES_MAX
    {
        detail.member("min", minimum).member("max", maximum);
    }
}

/// The number of distinct values, where all of them are known.
pub(crate) fn distinct(detail: &mut Object, field: &Field<'_>) {
    if let Some(distinct) = known_values(field).filter(|distinct| !distinct.is_empty()) {
        detail.member("distinct", &distinct.len().to_string());
    }
}

/// The distinct values besides null, unless some are of a type that is not counted.
fn known_values<'f, 'a>(field: &'f Field<'a>) -> Option<&'f [Distinct<'a>]> {
    let types = field.types;
    field.distinct.as_deref().filter(|_| types.decimals + types.arrays + types.objects == 0)
}

/// The most frequent values besides null, where all are known and some occurs at least twice.
pub(crate) fn top_values(detail: &mut Object, field: &Field<'_>) {
    let Some(distinct) = known_values(field) else { return };
    let mut values: Vec<_> = distinct.iter().filter(|value| value.json.len() <= VALUE_BYTES_MAX).collect();
    values.sort_by_key(|value| std::cmp::Reverse(value.count));
    if values.first().is_none_or(|value| value.count < 2) {
        return;
    }
    let top = values.iter().take(TOP_VALUES).map(|value| format!("[{},{}]", value.json, value.count));
    detail.member("top", &array(top));
}

/// The keys that lead to the fields whose value is the same in all records.
pub(crate) fn constant_paths(profile: &Profile) -> BTreeSet<Vec<&[u8]>> {
    let constants = profile.fields().filter(|field| field.constant(profile.records()).is_some());
    constants.map(|field| field.path.iter().map(|key| key.raw.as_bytes()).collect()).collect()
}

//! The fields of records: their names, and those that recipes use.

use lro_json::path;
use lro_json::pointer::{key_of_step, push_json_step, push_step};
use lro_jsonl::{Field, Key};

use crate::entry::Entry;

/// Longest value, in bytes of JSON, that a recipe compares with.
const VALUE_BYTES_MAX: usize = 40;

/// Most fields that a recipe selects from each record.
const PICKED_FIELDS_MAX: usize = 4;

/// The fields that recipes use: those of the records, and those of their members that each record has.
pub(crate) struct Fields<'a> {
    /// One with a value that is in several records, and the value.
    pub(crate) frequent: Option<(Field<'a>, &'a str)>,
    /// One with numbers that do not only count the records, and the greatest.
    pub(crate) numeric: Option<(Field<'a>, &'a str)>,
    /// The first ones, those that differ and hold scalars before others.
    pub(crate) picked: Vec<Field<'a>>,
}

impl<'a> Fields<'a> {
    /// The fields of an entry whose records are all objects with some.
    pub(crate) fn of(entry: &'a Entry) -> Option<Self> {
        let profile = entry.profile.as_ref()?;
        let records = profile.records();
        let is_in_each = |field: &Field<'_>| field.present == records && field.types.sum() == records;
        let mut all: Vec<Field<'_>> =
            profile.fields().filter(|field| field.path.len() <= 1 || is_in_each(field)).collect();
        if all.is_empty() || all.iter().any(|field| field.path.is_empty()) {
            return None;
        }
        all.sort_by_key(|field| field.path.len());
        let frequent = all.iter().find_map(|field| Some((field.clone(), frequent_value(field)?)));
        let numeric = all.iter().find_map(|field| Some((field.clone(), greatest(field)?)));
        let says_little =
            |field: &Field<'_>| field.constant(records).is_some() || field.types.arrays + field.types.objects > 0;
        let mut picked = all;
        picked.sort_by_key(says_little);
        picked.truncate(PICKED_FIELDS_MAX);
        Some(Self { frequent, numeric, picked })
    }
}

/// The greatest number of a field, unless there are texts too, or the numbers only count the records.
fn greatest<'a>(field: &Field<'a>) -> Option<&'a str> {
    let (least, most) = (field.minimum?, field.maximum?);
    let numbers = field.types.integers + field.types.decimals;
    let counts = least.parse::<i64>().ok().zip(most.parse::<i64>().ok()).is_some_and(|(least, most)| {
        u64::try_from(most.saturating_sub(least)).is_ok_and(|difference| difference.saturating_add(1) == numbers)
    });
    (field.types.strings == 0 && least != most && !counts && most.len() <= VALUE_BYTES_MAX).then_some(most)
}

/// A value worth filtering by: the most frequent one of at least two.
fn frequent_value<'a>(field: &Field<'a>) -> Option<&'a str> {
    if field.types.strings + field.types.booleans == 0 {
        return None;
    }
    let distinct = field.distinct.as_ref().filter(|distinct| distinct.len() > 1)?;
    // The first of equally frequent values, so that only the order of the data decides.
    let best = distinct.iter().rev().max_by_key(|value| value.count)?;
    (best.count > 1 && best.json.len() <= VALUE_BYTES_MAX).then_some(best.json)
}

/// The path of a field in a descriptor, as a query takes it: its keys joined by dots, or a JSON Pointer if a key needs it. `[]`
/// stands for the elements of an array.
pub(crate) fn display_path(field: &Field<'_>) -> String {
    if field.path.is_empty() {
        return ".".to_owned();
    }
    let is_pointer = !field.path.iter().all(|key| path::is_plain(key.raw));
    let steps = field.path.iter().map(|key| {
        let mut step = String::new();
        push_json_step(&mut step, key.raw);
        let key_text = if is_pointer { step } else { key_of_step(&step[1..]) };
        key_text + &"[]".repeat(key.arrays)
    });
    steps.collect::<Vec<_>>().join(if is_pointer { "" } else { "." })
}

/// The path of a field as a JSON Pointer.
pub(crate) fn pointer(field: &Field<'_>) -> String {
    let mut pointer = String::new();
    field.path.iter().for_each(|key| push_step(&mut pointer, key.raw));
    pointer
}

/// The name of a field in a query; `None` when a key has escapes.
pub(crate) fn name(field: &Field<'_>) -> Option<String> {
    if field.path.iter().any(|key| key.escaped) {
        return None;
    }
    Some(if field.path.iter().all(|key| path::is_plain(key.raw)) { display_path(field) } else { pointer(field) })
}

/// The name of a field that can stand in an expression and in a list as it is.
pub(crate) fn plain_name(field: &Field<'_>) -> Option<String> {
    let is_plain = |key: &Key<'_>| {
        key.raw.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && key.raw.starts_with(|first: char| first.is_ascii_alphabetic())
    };
    let name = display_path(field);
    (!field.path.is_empty() && field.path.iter().all(is_plain) && !is_keyword(&name)).then_some(name)
}

/// Whether a name is a word of expressions.
fn is_keyword(name: &str) -> bool {
    KEYWORDS.iter().any(|word| word.eq_ignore_ascii_case(name))
}

const KEYWORDS: [&str; 8] = ["and", "or", "not", "in", "is", "exists", "null", "true"];

/// Whether a field only holds containers, and the next one is in them.
pub(crate) fn is_spelled_out(field: &Field<'_>, next: Option<&Field<'_>>) -> bool {
    let types = field.types;
    types.arrays + types.objects == types.sum() && next.is_some_and(|next| is_inside(next, field))
}

/// Whether a field is in the values of another.
fn is_inside(inner: &Field<'_>, outer: &Field<'_>) -> bool {
    let Some((last, before)) = outer.path.split_last() else { return false };
    let Some((same, rest)) = inner.path.split_at_checked(before.len()) else { return false };
    let is_in_last = rest.first().is_some_and(|key| {
        key.raw == last.raw && (key.arrays > last.arrays || key.arrays == last.arrays && rest.len() > 1)
    });
    same == before && is_in_last
}

pub(crate) fn type_names(field: &Field<'_>) -> String {
    let types = field.types;
    let named = [
        (types.strings, "string"),
        (types.decimals, "number"),
        (if types.decimals == 0 { types.integers } else { 0 }, "integer"),
        (types.booleans, "boolean"),
        (types.objects, "object"),
        (types.arrays, "array"),
        (types.nulls, "null"),
    ];
    named.iter().filter(|(count, _)| *count > 0).map(|(_, name)| *name).collect::<Vec<_>>().join("|")
}

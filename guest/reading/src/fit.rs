//! Fits a query to the section that it asks about: fields in other spellings, and values of another type than the
//! field's.
//!
//! Each change of a value, and each test that holds for less than it seems to, gets a note.

use lro_contract::manifest::FileRecord;
use lro_contract::query::document::shown;
use lro_contract::query::{Group, Operator, Query, Selection, Test};
use lro_json::path::{keys, spelled};
use serde_json::value::RawValue;

use crate::Question;
use crate::schema::{Schema, Types};

/// Stands for the elements of an array in a field.
const ELEMENTS: &str = "[]";

/// Most notes of an answer.
const NOTES_MAX: usize = 8;

/// Fits a question to the files that it is about. Returns it with notes for whoever asked.
pub fn fitted(question: &Question, files: &[&FileRecord]) -> (Question, Vec<String>) {
    match question {
        Question::Query(query) => {
            let (query, notes) = fit(query, files.first().and_then(|file| file.schema.as_deref()));
            (Question::Query(query), notes)
        }
        question => (question.clone(), Vec::new()),
    }
}

/// Fits a query to a section with this schema. Returns it with notes for whoever asked.
pub fn fit(query: &Query, schema: Option<&RawValue>) -> (Query, Vec<String>) {
    let schema = Schema::new(schema);
    let mut query = query.clone();
    let mut notes = Vec::new();
    for test in query.tests() {
        test.field = field(&test.field, &schema);
        if let Some(note) = fit_value(test, &schema)
            && notes.len() < NOTES_MAX
            && !notes.contains(&note)
        {
            notes.push(note);
        }
    }
    if matches!(query.select.as_slice(), [all] if all.field == "*" && !schema.has(&keys("*"))) {
        query.select.clear();
    }
    match &mut query.group {
        Some(group) => {
            let results = fit_group(group, &schema);
            let fit = |written: &mut String| {
                if let Some((_, name)) = results.iter().find(|(of_group, _)| of_group == written) {
                    name.clone_into(written);
                }
            };
            query.select.iter_mut().for_each(|selection| fit(&mut selection.field));
            query.sort.iter_mut().for_each(|key| fit(&mut key.field));
        }
        None => {
            query.select.iter_mut().for_each(|selection| fit_selection(selection, &schema));
            query.sort.iter_mut().for_each(|key| key.field = field(&key.field, &schema));
        }
    }
    (query, notes)
}

/// Fits the fields of a group. Returns those to group by, as written, with their keys in the results.
fn fit_group(group: &mut Group, schema: &Schema) -> Vec<(String, String)> {
    for aggregate in &mut group.aggregates {
        let Some(written) = &aggregate.field else { continue };
        let field = field(written, schema);
        if field.is_empty() {
            aggregate.name.get_or_insert_with(|| format!("{}_{written}", aggregate.kind.name()));
        }
        aggregate.field = Some(field);
    }
    let fit = |selection: &mut Selection| {
        let written = selection.field.clone();
        fit_selection(selection, schema);
        (written, selection.name.as_ref().unwrap_or(&selection.field).clone())
    };
    group.by.iter_mut().map(fit).collect()
}

/// Fits a field of a result. The whole record, and a key that looks like a path, keep their names.
fn fit_selection(selection: &mut Selection, schema: &Schema) {
    let field = field(&selection.field, schema);
    if field != selection.field && (field.is_empty() || field.starts_with('/')) {
        let name = unquoted(&selection.field).unwrap_or_else(|| selection.field.clone());
        selection.name.get_or_insert(name);
    }
    selection.field = field;
}

/// A field as the contract spells it: `.` is the whole record, `.name` is `name`, `tags[0]` is `tags.0`, and a name in double
/// quotes is what is between them. A key that is spelled like a path or in quotes is that key, if the records have it.
fn field(written: &str, schema: &Schema) -> String {
    if schema.has(&keys(written)) {
        return if written.contains(ELEMENTS) { spelled(&keys(written)) } else { written.to_owned() };
    }
    let literal = [written.to_owned()];
    if schema.has(&literal) {
        return spelled(&literal);
    }
    if let Some(name) = unquoted(written) {
        return field(&name, schema);
    }
    match written.strip_prefix('.') {
        Some("") => String::new(),
        Some(rest) => with_elements(rest),
        None => with_elements(written),
    }
}

/// Replaces steps in brackets between `[]`.
fn with_elements(written: &str) -> String {
    written.split(ELEMENTS).map(with_steps).collect::<Vec<_>>().join(ELEMENTS)
}

/// The keys that lead to what a test compares: the first element of an array stands for all.
fn compared(field: &str) -> Vec<String> {
    if field.starts_with('/') { keys(field) } else { keys(&field.replace(ELEMENTS, ".0")) }
}

/// The name between double quotes, as conditions write one with spaces.
fn unquoted(written: &str) -> Option<String> {
    if written.starts_with('"') { serde_json::from_str(written).ok() } else { None }
}

/// Replaces steps in brackets, `[0]` and `["a key"]`; anything else in brackets stays.
fn with_steps(written: &str) -> String {
    let Some((first, mut rest)) = written.split_once('[').filter(|_| !written.starts_with('/')) else {
        return written.to_owned();
    };
    let mut found = if first.is_empty() { Vec::new() } else { keys(first) };
    loop {
        let Some((step, after)) = rest.split_once(']') else { return written.to_owned() };
        let is_index = !step.is_empty() && step.bytes().all(|byte| byte.is_ascii_digit());
        let in_quotes = |quote| step.strip_prefix(quote)?.strip_suffix(quote);
        let key = in_quotes('"').or_else(|| in_quotes('\'')).or_else(|| Some(step).filter(|_| is_index));
        let Some(key) = key else { return written.to_owned() };
        found.push(key.to_owned());
        let (plain, bracket) = match after.split_once('[') {
            Some((plain, next)) => (plain, Some(next)),
            None => (after, None),
        };
        match plain.strip_prefix('.') {
            Some(plain) => found.extend(keys(plain)),
            None if plain.is_empty() => {}
            None => return written.to_owned(),
        }
        match bracket {
            Some(next) => rest = next,
            None => return spelled(&found),
        }
    }
}

/// Fits the value of a test to the type of its field. Returns a note if there is something to say.
fn fit_value(test: &mut Test, schema: &Schema) -> Option<String> {
    let types = schema.types(&compared(&test.field))?;
    let value = test.value.as_deref()?.to_owned();
    let name = if test.field.is_empty() { ".".to_owned() } else { shown(&test.field) };
    let note = |text: String| Some(format!("`{name}` holds {}: {text}", types.names()));
    match test.op {
        Operator::Eq | Operator::Ne | Operator::Lt | Operator::Le | Operator::Gt | Operator::Ge => {
            let Fitted { json, note: of_literal } = fit_literal(&value, types);
            test.value = Some(json);
            note(of_literal?)
        }
        Operator::In => {
            let elements: Vec<&RawValue> = serde_json::from_str(value.get()).ok()?;
            let fitted: Vec<Fitted> = elements.iter().map(|element| fit_literal(element, types)).collect();
            let has_kind = |kind| elements.iter().any(|element| literal_kind(element) == kind);
            let json: Vec<&str> = fitted.iter().map(|fitted| fitted.json.get()).collect();
            test.value = RawValue::from_string(format!("[{}]", json.join(","))).ok();
            // A list that names both types means both.
            let is_meant = has_kind(LiteralKind::Text) && has_kind(LiteralKind::Number);
            note(fitted.into_iter().find_map(|fitted| fitted.note).filter(|_| !is_meant)?)
        }
        Operator::Contains | Operator::StartsWith | Operator::Matches => {
            let is_contains = test.op == Operator::Contains;
            if is_contains && types.arrays {
                let is_text = literal_kind(&value) == LiteralKind::Text;
                return is_text
                    .then(|| note("`contains` looks inside the strings of an array too".to_owned()))
                    .flatten();
            }
            if !types.strings {
                let where_ = if is_contains { "strings and arrays" } else { "strings" };
                return note(format!("this test looks into {where_} only, and never holds"));
            }
            if literal_kind(&value) == LiteralKind::Number {
                test.value = Some(text_of(&value));
                return note(format!("{} is taken as text", shown(value.get())));
            }
            None
        }
        Operator::Exists | Operator::IsNull => None,
    }
}

/// A literal, in the type of the field if it had another, and the end of a note.
struct Fitted {
    json: Box<RawValue>,
    note: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LiteralKind {
    Text,
    Number,
    Boolean,
    Other,
}

fn literal_kind(literal: &RawValue) -> LiteralKind {
    match literal.get().as_bytes().first() {
        Some(b'"') => LiteralKind::Text,
        Some(b'-' | b'0'..=b'9') => LiteralKind::Number,
        Some(b't' | b'f') => LiteralKind::Boolean,
        _ => LiteralKind::Other,
    }
}

fn fit_literal(literal: &RawValue, types: Types) -> Fitted {
    let kind = literal_kind(literal);
    let (is_of_field, name) = match kind {
        LiteralKind::Text => (types.strings, "string"),
        LiteralKind::Number => (types.numbers, "number"),
        LiteralKind::Boolean => (types.booleans, "boolean"),
        LiteralKind::Other => (true, ""),
    };
    let same = |note: Option<&str>| Fitted {
        json: literal.to_owned(),
        note: note.map(|note| format!("{} is a {name}, and {note}", shown(literal.get()))),
    };
    match kind {
        LiteralKind::Number if types.strings => same(Some("compares with numbers and with strings that are numbers")),
        LiteralKind::Text if types.strings && types.numbers => same(Some("compares with strings alone")),
        _ if is_of_field => same(None),
        LiteralKind::Text
            if types.numbers
                && let Some(json) = number_of(literal) =>
        {
            Fitted { note: Some(format!("compared with {} as a number", shown(json.get()))), json }
        }
        _ => same(Some("compares with none of them")),
    }
}

/// The number that a string is, digit for digit.
fn number_of(text: &RawValue) -> Option<Box<RawValue>> {
    let text: String = serde_json::from_str(text.get()).ok()?;
    RawValue::from_string(text).ok().filter(|number| is_plain_number(number.get()))
}

/// Whether JSON is a number without an exponent, which has one spelling as text.
fn is_plain_number(json: &str) -> bool {
    json.starts_with(['-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'])
        && json.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'.'))
}

/// JSON as the content of a string.
fn text_of(json: &RawValue) -> Box<RawValue> {
    RawValue::from_string(format!("\"{}\"", json.get())).unwrap_or_else(|_| json.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_double_quotes_is_what_is_between_them_unless_a_field_has_that_very_name() {
        let schema = r#"{"properties":{"first name":{},"\"odd\"":{},"odd":{},"a.b c":{}}}"#;
        let schema = Schema::new(RawValue::from_string(schema.to_owned()).ok().as_deref());
        assert_eq!(field("\"first name\"", &schema), "first name");
        assert_eq!(field("\"odd\"", &schema), "\"odd\"");
        let mut selection = Selection { field: "\"a.b c\"".to_owned(), name: None };
        fit_selection(&mut selection, &schema);
        assert_eq!((selection.field.as_str(), selection.name.as_deref()), ("/a.b c", Some("a.b c")));
    }

    #[test]
    fn brackets_stand_for_elements_unless_a_key_has_them() {
        let schema =
            r#"{"properties":{"tags[]":{"type":"integer"},"a":{"items":{"properties":{"b":{"type":"integer"}}}}}}"#;
        let schema = Schema::new(RawValue::from_string(schema.to_owned()).ok().as_deref());
        for (written, field_) in
            [("tags[]", "/tags[]"), ("/tags[]", "/tags[]"), ("a[].b", "a[].b"), ("c[0].d[].e", "c.0.d[].e")]
        {
            assert_eq!(field(written, &schema), field_);
        }
        for numbers in ["/tags[]", "a[].b"] {
            assert!(schema.types(&compared(numbers)).is_some_and(|types| types.numbers), "{numbers}");
        }
    }
}

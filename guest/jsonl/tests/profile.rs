//! A profile holds for every line, and its counts equal those of a naive walk over all records.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::collections::HashMap;

use lro_jsonl::{
    DISTINCT_BYTES_MAX, DISTINCT_MAX, Field, NODES_MAX, NUMBER_BYTES_MAX, Options, PROFILE_DEPTH_MAX, PROPERTIES_MAX,
    PROPERTY_BYTES_MAX, Profile, Section, Shape, Types,
};
use proptest::prelude::*;
use serde_json::Value;
use support::{Json, dice, json, slices, split, white};

fn profile(text: &str, cuts: &[u8], shape: Shape) -> Profile {
    let sections = vec![Section { pointer: String::new(), shape }];
    let options = Options { sections, profile: true, ..Options::default() };
    let (_, mut output) = split(&slices(text, cuts), &options).expect("valid");
    output.files.pop().and_then(|file| file.report.profile).expect("a profile")
}

fn profile_of_lines(lines: &[&str]) -> Profile {
    profile(&format!("[{}]", lines.join(",")), &[255], Shape::Elements)
}

/// A key in the form of `Key::raw`.
fn canonical(key: &str) -> String {
    key[1..key.len() - 1].replace("\\u0061", "a")
}

/// Whether a value validates, by the keywords that a profile uses.
fn validates(schema: &Value, json: &Json) -> bool {
    let names: Vec<&str> = match &schema["type"] {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => return schema.as_object().is_some_and(serde_json::Map::is_empty),
    };
    let is = |name| names.contains(&name);
    match json {
        Json::Scalar(scalar) => match scalar.as_bytes()[0] {
            b'"' => is("string"),
            b'n' => is("null"),
            b't' | b'f' => is("boolean"),
            _ if scalar.contains(['.', 'e', 'E']) => is("number"),
            _ => is("number") || is("integer"),
        },
        Json::Array(elements) => {
            is("array")
                && (schema["items"].is_null() || elements.iter().all(|element| validates(&schema["items"], element)))
        }
        Json::Object(members) => {
            let required = schema["required"].as_array();
            // serde_json rejects `"\ud800"`, so such a key cannot be looked up.
            let known = |key: &str| schema["properties"].get(canonical(key).replace("\\\"", "\""));
            is("object")
                && members.iter().all(|(key, value)| known(key).is_none_or(|schema| validates(schema, value)))
                && required.into_iter().flatten().all(|key| {
                    let key = key.as_str().expect("a string");
                    members.iter().any(|(name, _)| canonical(name).replace("\\\"", "\"") == key)
                })
        }
    }
}

/// The statistics of one field from a naive walk.
#[derive(Debug, Default)]
struct Facts {
    present: u64,
    types: Types,
    numbers: Vec<String>,
    values: Vec<(String, u64)>,
}

impl Facts {
    fn add(&mut self, json: &Json) {
        let types = &mut self.types;
        let (count, counted) = match json {
            Json::Array(_) => (&mut types.arrays, None),
            Json::Object(_) => (&mut types.objects, None),
            Json::Scalar(scalar) => match scalar.as_bytes()[0] {
                b'"' => (&mut types.strings, Some(scalar)),
                b'n' => (&mut types.nulls, None),
                b't' | b'f' => (&mut types.booleans, Some(scalar)),
                _ => {
                    self.numbers.push(scalar.clone());
                    if scalar.contains(['.', 'e', 'E']) {
                        (&mut types.decimals, None)
                    } else {
                        (&mut types.integers, Some(scalar))
                    }
                }
            },
        };
        *count += 1;
        let Some(value) = counted else { return };
        match self.values.iter_mut().find(|(known, _)| known == value) {
            Some((_, count)) => *count += 1,
            None => self.values.push((value.clone(), 1)),
        }
    }

    fn agrees(&self, field: &Field<'_>) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.present, field.present);
        prop_assert_eq!(self.types, field.types);
        let known =
            self.values.len() <= DISTINCT_MAX && self.values.iter().all(|(value, _)| value.len() <= DISTINCT_BYTES_MAX);
        let distinct =
            field.distinct.as_ref().map(|values| values.iter().map(|value| (value.json.into(), value.count)).collect());
        prop_assert_eq!(known.then(|| self.values.clone()), distinct);
        let bounded = !self.numbers.is_empty() && self.numbers.iter().all(|number| number.len() <= NUMBER_BYTES_MAX);
        prop_assert_eq!(field.minimum.is_some(), bounded);
        for number in self.numbers.iter().filter(|_| bounded) {
            let value = |text: &str| text.parse::<f64>().expect("a number");
            prop_assert!(field.minimum.is_some_and(|minimum| value(minimum) <= value(number)));
            prop_assert!(field.maximum.is_some_and(|maximum| value(maximum) >= value(number)));
        }
        Ok(())
    }
}

fn walk(json: &Json, path: &[String], facts: &mut HashMap<Vec<String>, Facts>) {
    let Json::Object(members) = json else { return };
    let mut seen = Vec::new();
    for (key, value) in members {
        let mut path = path.to_vec();
        path.push(canonical(key));
        let field = facts.entry(path.clone()).or_default();
        field.add(value);
        if !seen.contains(&canonical(key)) {
            field.present += 1;
            seen.push(canonical(key));
        }
        walk(value, &path, facts);
    }
}

fn records() -> impl Strategy<Value = Vec<Json>> {
    let integers = (-99_999..99_999_i64).prop_map(|number| Json::Scalar(number.to_string()));
    let field = prop_oneof![4 => integers, 1 => json()];
    let record = proptest::collection::vec(field, 3).prop_map(|values| {
        let keys = ["\"id\"", "\"a rather long key\"", "\"x\""].map(String::from);
        Json::Object(keys.into_iter().zip(values).collect())
    });
    let elements = |array| match array {
        Json::Array(elements) => elements,
        other => vec![other],
    };
    let of_a_shape = support::records().prop_map(elements);
    prop_oneof![proptest::collection::vec(json(), 0..6), proptest::collection::vec(record, 0..90), of_a_shape]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_plain_walk_agrees(records in records(), dice in dice(), cuts in dice(), members in any::<bool>()) {
        let (document, lines, shape) = match members {
            false => (Json::Array(records.clone()), records, Shape::Elements),
            true => {
                let keyed: Vec<_> = records.iter().enumerate().map(|(index, json)| (format!("\"{}\"", index % 70), json.clone())).collect();
                let line = |(key, value): &(String, Json)| {
                    Json::Object(vec![("\"key\"".into(), Json::Scalar(key.clone())), ("\"value\"".into(), value.clone())])
                };
                (Json::Object(keyed.clone()), keyed.iter().map(line).collect(), Shape::Members)
            }
        };
        let profile = profile(&document.render(&mut white(&dice)), &cuts, shape);
        prop_assert_eq!(profile.records(), lines.len() as u64);
        if let Ok(schema) = serde_json::from_str::<Value>(&profile.schema_json()) {
            for line in &lines {
                prop_assert!(validates(&schema, line), "{} is not for {}", schema, line.compact());
            }
        } else {
            prop_assert!(profile.schema_json().contains("\\ud800"));
        }
        let mut facts = HashMap::new();
        let mut root = Facts { present: lines.len() as u64, ..Facts::default() };
        for line in &lines {
            root.add(line);
            walk(line, &[], &mut facts);
        }
        if root.types.objects < root.types.sum() {
            facts.insert(Vec::new(), root);
        }
        for field in profile.fields() {
            let path: Vec<_> = field.path.iter().map(|key| key.raw.to_owned()).collect();
            prop_assert!(field.path.iter().all(|key| key.escaped == key.raw.contains('\\')));
            let facts = facts.remove(&path);
            prop_assert!(facts.is_some(), "{:?} twice or never", path);
            facts.map_or(Ok(()), |facts| facts.agrees(&field))?;
        }
        prop_assert!(facts.is_empty(), "{:?} missing", facts);
    }
}

/// Numbers are compared exactly, whatever their size and form.
#[test]
fn extremes_are_exact() {
    let cases: &[(&[&str], &str, &str)] = &[
        (&["9007199254740993", "9007199254740992", "9007199254740994"], "9007199254740992", "9007199254740994"),
        (&["12345678901234567890123", "12345678901234567890124"], "12345678901234567890123", "12345678901234567890124"),
        (&["-2", "-10", "3"], "-10", "3"),
        (&["0.5", "0.25", "10", "9.75"], "0.25", "10"),
        (&["1e2", "99", "101.5"], "99", "101.5"),
        (&["1e-3", "0.01", "1E+3", "-1e400", "1e401"], "-1e400", "1e401"),
        (&["6e-06", "0.5", "0.000007"], "6e-06", "0.5"),
        (&["-0.00123", "-0.00124", "0"], "-0.00124", "0"),
        (&["1234567.5", "1234567.25", "1234567"], "1234567", "1234567.5"),
        (&["100000000.1", "100000000.2", "99999999.9"], "99999999.9", "100000000.2"),
    ];
    for &(numbers, minimum, maximum) in cases {
        for order in [numbers.to_vec(), numbers.iter().rev().copied().collect()] {
            let profile = profile_of_lines(&order);
            let field = profile.fields().next().expect("the record itself");
            assert_eq!((field.minimum, field.maximum), (Some(minimum), Some(maximum)), "{order:?}");
        }
    }
}

/// Beyond a limit a profile has less information, but none that is wrong.
#[test]
fn limits() {
    let object = |count: usize| {
        let members = (0..count).map(|index| format!("\"k{index}\":{index}"));
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    };
    let schema = |line: &str| profile_of_lines(&[line, line]).schema_json();
    assert_eq!(profile_of_lines(&[&object(PROPERTIES_MAX)]).fields().count(), PROPERTIES_MAX);
    assert_eq!(schema(&object(PROPERTIES_MAX + 1)), "{\"type\":\"object\"}");

    let nested = |depth: usize| "{\"a\":".repeat(depth) + "1" + &"}".repeat(depth);
    assert!(schema(&nested(PROFILE_DEPTH_MAX)).contains("integer"));
    assert!(!schema(&nested(PROFILE_DEPTH_MAX + 1)).contains("integer"));

    let key = |length: usize| format!("{{\"{}\":1}}", "k".repeat(length));
    assert!(schema(&key(PROPERTY_BYTES_MAX)).contains("integer"));
    assert_eq!(schema(&key(PROPERTY_BYTES_MAX + 1)), "{\"type\":\"object\"}");
    assert_eq!(schema(&key(100_000)), "{\"type\":\"object\"}");

    let wide = (0..20).map(|index| format!("\"w{index}\":{}", object(100))).collect::<Vec<_>>().join(",");
    let profile = profile_of_lines(&[&format!("{{{wide}}}"), "{\"w0\":{}}"]);
    assert!(profile.schema_json().matches("integer").count() <= NODES_MAX);
    assert!(profile.fields().count() < NODES_MAX);

    let number = |length: usize| format!("-{}", "9".repeat(length - 1));
    let minimum =
        |line: &str| profile_of_lines(&["1", line]).fields().next().and_then(|field| field.minimum.map(String::from));
    assert_eq!(minimum(&number(NUMBER_BYTES_MAX)), Some(number(NUMBER_BYTES_MAX)));
    assert_eq!(minimum(&number(NUMBER_BYTES_MAX + 1)), None);

    let strings: Vec<_> = (0..=DISTINCT_MAX).map(|index| format!("\"{index}\"")).collect();
    let strings: Vec<_> = strings.iter().map(String::as_str).collect();
    let distinct = |lines: &[&str]| {
        profile_of_lines(lines).fields().next().and_then(|field| field.distinct.map(|values| values.len()))
    };
    assert_eq!(distinct(&strings[..DISTINCT_MAX]), Some(DISTINCT_MAX));
    assert_eq!(distinct(&strings), None);
}

/// A number across many slices keeps its type.
#[test]
fn long_numbers_keep_their_type() {
    let digits = "7".repeat(5_000);
    for (tail, expected) in
        [("", "{\"type\":\"integer\"}"), (".5", "{\"type\":\"number\"}"), ("e1", "{\"type\":\"number\"}")]
    {
        let profile = profile(&format!("[{digits}{tail}]"), &[100, 240], Shape::Elements);
        assert_eq!(profile.schema_json(), expected);
    }
}

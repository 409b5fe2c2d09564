//! JSON values, alone and within text: byte copies, wherever the text is cut.

mod support;

use lro_text::{BrokenJson, Fault, Form, Hints, recognize};
use proptest::prelude::*;
use serde_json::value::RawValue;
use support::{dice, form, lines, read, recognized, slices};

const VALUES: &[&str] = &[
    "{}",
    "[]",
    "{\"a\":1}",
    "{\"a\":[1,{\"b\":\"x{y\"}]}",
    "[1.0,1e2,-0,12345678901234567890]",
    "{\"k\":\"a\\\\\"}",
    "{\"q\":\"\\\"}\",\"q\":\"twice\"}",
    "[[[[]]]]",
    "{\"s\":\"\\ud800 naïve 東京 📦   spaces\"}",
    "[true,false,null]",
];

const SCALARS: &[&str] = &["1", "-2.50", "true", "null", "\"a b\"", "\"\"", "\"\\\"\""];

/// White space that may stand between tokens, put after commas and colons outside strings.
fn spread(json: &str, white: &str) -> String {
    let (mut spread, mut in_string, mut escaped) = (String::new(), false, false);
    for character in json.chars() {
        in_string ^= character == '"' && !escaped;
        escaped = character == '\\' && !escaped;
        spread.push(character);
        if !in_string && matches!(character, ',' | ':' | '{' | '[') {
            spread.push_str(white);
        }
    }
    spread
}

fn value() -> impl Strategy<Value = String> {
    let long = (1_usize..400).prop_map(|length| format!("{{\"long\":\"{}\"}}", "ab\\\"{".repeat(length)));
    prop_oneof![5 => proptest::sample::select(VALUES).prop_map(String::from), 1 => long]
}

const WHITE: &[&str] = &["", " ", "\n  ", "\r\n\t"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn values_are_copied(
        values in proptest::collection::vec((value(), proptest::sample::select(WHITE), proptest::sample::select(&["\n", "\r\n", " ", "", "\u{1e}", "\n\n"][..])), 1..20),
        cuts in dice(),
    ) {
        let text: String = values.iter().map(|(value, white, between)| spread(value, white) + between).collect();
        let expected: String = values.iter().map(|(value, ..)| format!("{value}\n")).collect();
        let (lines, report) = read(&Form::JsonValues, slices(&text, &cuts)).expect("JSON values");
        prop_assert_eq!(&lines, &expected);
        prop_assert_eq!(report.records, values.len() as u64);
        if values.len() > 1 {
            prop_assert_eq!(form(&text), Some(Form::JsonValues));
        }
    }

    #[test]
    fn scalars_are_values_too(values in proptest::collection::vec(proptest::sample::select(SCALARS), 1..9), cuts in dice()) {
        let text = values.join("\n");
        let (lines, _) = read(&Form::JsonValues, slices(&text, &cuts)).expect("JSON values");
        prop_assert_eq!(lines.trim_end(), text);
    }

    /// What is accepted, `serde_json` takes for a sequence of as many values, too.
    #[test]
    fn any_text(text in "[\\[\\]{}\",:a1\\\\ \n]{0,12}", cuts in dice()) {
        let text = format!("[{text}");
        let values = serde_json::Deserializer::from_str(&text).into_iter::<Box<RawValue>>().collect::<Result<Vec<_>, _>>();
        let found = read(&Form::JsonValues, slices(&text, &cuts));
        prop_assert_eq!(&found, &read(&Form::JsonValues, [text.as_str()]));
        if let Ok((_, report)) = found {
            prop_assert_eq!(values.ok().map(|values| values.len() as u64), Some(report.records));
        }
    }

    #[test]
    fn values_within_text_are_copied(
        before in proptest::sample::select(&["Found 120 movies:\n", "### Result\n", "```json\n", "Result: ", "Here:\n\n```\n", "\n \n"][..]),
        values in proptest::collection::vec((value(), proptest::sample::select(WHITE)), 1..5),
        between in proptest::sample::select(&["\n", "\n\n", "\n```\n\nand\n```json\n", "  \r\n- [ ] a task {not json}\n", "\n[link](x)\n{name}\n"][..]),
        cuts in dice(),
    ) {
        let document = values.len() == 1;
        let text: String = values.iter().map(|(value, white)| spread(value, white) + between).collect();
        let form = Form::JsonWithin { start: before.len() as u64, document };
        let (lines, _) = read(&form, slices(&format!("{before}{text}"), &cuts)).expect("JSON within text");
        prop_assert_eq!(lines, values.iter().map(|(value, _)| format!("{value}\n")).collect::<String>());
    }
}

#[test]
fn json_within_text_is_recognized() {
    let movies = format!("[{}]", vec![r#"{"title":"Alien","year":1979}"#; 20].join(","));
    for before in ["Found 20 movies:\n", "Found 20 movies: ", "### Result\n", "```json\n", "\u{feff}Result:\n\n```\n"] {
        let text = format!("{before}{movies}\n");
        assert_eq!(recognized(&text), std::slice::from_ref(&movies), "{before}");
        assert!(matches!(form(&text), Some(Form::JsonWithin { document: true, .. })));
        // The end is not in sight.
        let cut = recognize(&text[..text.len() - 50], &Hints::default());
        assert_eq!(cut, form(&text), "{before}");
    }
    let paragraphs = "Two movies:\n\n{\"title\":\"Alien\",\"year\":1979}\n\n{\"title\":\"Aliens\",\"year\":1986}\n";
    assert_eq!(recognized(paragraphs).len(), 2);
    assert!(matches!(form(paragraphs), Some(Form::JsonWithin { document: false, .. })));
}

#[test]
fn no_form_when_in_doubt() {
    for no in [
        "",
        "[1, 2, 3]",
        "{\"a\": 1}\n",
        "[{\"a\": 1},\n {\"b\": 2}]",
        "Just a text.",
        "A document with an example:\n\n```json\n{\"a\": 1}\n```\n\nand much more text that says what it is about.\n",
        "[1] A footnote\n[2] Another\n",
        "[link](x)\n",
        "1\n2\n3\n",
        "{\"a\": 1}\n{\"a\": 2\n",
    ] {
        assert_eq!(form(no), None, "{no}");
    }
    let hints = Hints { media_type: Some("application/x-ndjson; charset=utf-8"), ..Hints::default() };
    assert_eq!(recognize("{\"a\": 1}\n", &hints), Some(Form::JsonValues));
    let hints = Hints { name: Some("file:///data/LOG.JSONL"), ..Hints::default() };
    assert_eq!(recognize("1\n2\n", &hints), Some(Form::JsonValues));
}

#[test]
fn faults_are_named() {
    let within = |document| Form::JsonWithin { start: 0, document };
    assert_eq!(lines(&within(true), "{}\n{}\n"), Err(Fault::Second));
    assert_eq!(lines(&within(false), "{} x\n"), Err(Fault::AfterValue));
    assert!(matches!(lines(&Form::JsonValues, "{}\n{\"a\":}\n"), Err(Fault::Json(_))));
    let error = read(&Form::JsonValues, ["{}\n{}\n{\"a\""]).expect_err("cut");
    assert_eq!(error.records, 2);
}

#[test]
fn a_few_lines_that_are_not_json_do_not_take_the_records_of_the_others() {
    let mut text: String = (0..30).map(|id| format!("{{\"id\": {id}}}\n")).collect();
    text.insert_str(0, "{\"id\":-1}\n\n{\"id\":NaN}\n");
    text.push_str("{\"id\":30,\"na");
    assert_eq!(form(&text), Some(Form::JsonLines));
    for length in [1, 7, 255] {
        let (lines, report) = read(&Form::JsonLines, slices(&text, &[length])).expect("JSON Lines");
        let expected: String = (-1..30).map(|id| format!("{{\"id\":{id}}}\n")).collect();
        assert_eq!(lines, expected);
        assert_eq!((report.records, report.bad_lines, report.first_bad_line), (31, 2, Some(3)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn wherever_an_array_is_cut_its_complete_elements_are_records(
        values in proptest::collection::vec((value(), proptest::sample::select(WHITE)), 2..20),
        before in proptest::sample::select(&["[", " [ ", "{\"a\":[1,{}],\"b\":{\"c\":\n[", "[[{\"a\":["][..]),
        cut in 0.0..1.0,
        cuts in dice(),
    ) {
        let (mut text, mut ends) = (before.to_owned(), Vec::new());
        for (value, white) in &values {
            text.push_str(&spread(value, white));
            ends.push(text.len());
            text.push_str(white);
            text.push(',');
        }
        text.truncate(text.floor_char_boundary(before.len() + (cut * (text.len() - before.len()) as f64) as usize));
        let complete = ends.iter().filter(|end| **end <= text.len()).count();
        let mut json = BrokenJson::default();
        slices(&text, &cuts).into_iter().for_each(|slice| assert!(json.push(slice)));
        let found = json.finish().expect("it is cut");
        prop_assert_eq!(found.line, 1 + text.matches('\n').count() as u64);
        let Some(elements) = found.elements else {
            // One element alone, or two containers in the element that is cut.
            prop_assert!(complete < 2);
            return Ok(());
        };
        if complete >= 2 {
            let (lines, report) = read(&elements, slices(&text, &cuts)).expect("complete elements");
            let expected: String = values[..complete].iter().map(|(value, _)| format!("{value}\n")).collect();
            prop_assert_eq!((lines, report.records), (expected, complete as u64));
        }
    }
}

/// Where elements begin, and how many there are.
fn place(form: Option<Form>) -> Option<(u64, u64)> {
    let Form::JsonElements { start, count, .. } = form? else { return None };
    Some((start, count))
}

#[test]
fn elements_are_those_of_the_outermost_array_that_holds_objects_and_arrays_alone() {
    let elements = |text: &str| {
        let mut json = BrokenJson::default();
        json.push(text);
        place(json.finish().and_then(|found| found.elements))
    };
    let found = |start: u64, count: u64| Some((start, count));
    assert_eq!(elements("[{},{}]"), None, "it is complete");
    assert_eq!(elements("[{},{}"), found(1, 2));
    assert_eq!(elements("[{},[],{}, NaN"), found(1, 3));
    assert_eq!(elements("[{},{},3,{}"), None);
    assert_eq!(elements("[{},{},\"a"), None);
    assert_eq!(elements("[{},{\"a\":[{},{},{"), found(10, 2));
    assert_eq!(elements("{\"a\":{},\"b\":{},\"c\":["), None, "members are not elements");
    assert_eq!(place(form(&format!("[{}{{\"id\":", "{\"id\":1},".repeat(9)))), found(1, 9));
    assert_eq!(form(&format!("[{{}},{{}},{}", "and so on ".repeat(9))), None, "most of it is something else");
}

#[test]
fn more_than_one_in_ten_other_lines_are_no_json_lines() {
    let good: String = (0..18).map(|id| format!("{{\"id\":{id}}}\n")).collect();
    let text = |bad: &str| format!("{good}{bad}{{\"id\":18}}\n");
    assert_eq!(form(&text("{\"id\":NaN}\n")), Some(Form::JsonLines));
    assert_eq!(form(&text("{\"id\":NaN}\n{1}\n{\"a\":}\n")), None);
    assert!(matches!(lines(&Form::JsonLines, &text("a\nb\nc\n")), Err(Fault::Lines)));
    assert!(matches!(lines(&Form::JsonLines, "{}\n{\n"), Err(Fault::Lines)));
}

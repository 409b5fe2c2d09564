//! Blocks of named values: what a naive printer writes is read back, wherever the text is cut.

mod support;

use lro_text::{Fault, Form, LINE_BYTES_MAX, SAMPLE_BYTES_MAX};
use proptest::prelude::*;
use serde_json::{Map, Value};
use support::{dice, form, lines, read, recognized, slices};

const LINE: Form = Form::KeyedBlocks { delimiter: b'=' };
const EXPANDED: Form = Form::KeyedBlocks { delimiter: b'|' };
const COLON: Form = Form::KeyedBlocks { delimiter: b':' };

/// Values that are strings in every column.
const VALUES: &[&str] =
    &["", "x", "007", "x y", "naïve", "a = b", "a: b", "a | b", "==", "[x]", "\"q\"", "back\\slash"];

fn rows() -> impl Strategy<Value = Vec<Vec<String>>> {
    (2_usize..5).prop_flat_map(|columns| {
        let value = proptest::sample::select(VALUES).prop_map(String::from);
        proptest::collection::vec(proptest::collection::vec(value, columns), 3..8)
    })
}

/// What a naive printer writes, and its form.
fn printed(rows: &[Vec<String>], names: &[&str], style: usize) -> (String, Form) {
    let block = |line: &dyn Fn(&str, &str) -> String, row: &[String]| -> String {
        names.iter().zip(row).map(|(name, value)| line(name, value)).collect()
    };
    match style {
        0 => {
            let line = |name: &str, value: &str| format!("{name:>9} = {value}\n");
            (rows.iter().map(|row| block(&line, row)).collect::<Vec<_>>().join("\n"), LINE)
        }
        1 => {
            let line = |name: &str, value: &str| format!("{name:<9} | {value}\n");
            let text =
                |(index, row): (usize, &Vec<String>)| format!("-[ RECORD {} ]+-----\n{}", index + 1, block(&line, row));
            (rows.iter().enumerate().map(text).collect(), EXPANDED)
        }
        2 => {
            let stars = "*".repeat(27);
            let line = |name: &str, value: &str| format!("{name:>9}: {value}\n");
            let text = |(index, row): (usize, &Vec<String>)| {
                format!("{stars} {}. row {stars}\n{}", index + 1, block(&line, row))
            };
            let text: String = rows.iter().enumerate().map(text).collect();
            (format!("{text}{} rows in set (0.00 sec)\n", rows.len()), COLON)
        }
        _ => {
            let line = |name: &str, value: &str| format!("{name}:\t{value}\r\n");
            (rows.iter().map(|row| block(&line, row)).collect::<Vec<_>>().join("\r\n\r\n"), COLON)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn blocks(mut rows in rows(), style in 0..4_usize, cuts in dice()) {
        // No column is one of numbers.
        rows[0].fill("text".to_owned());
        let names = ["ID", "full name", "É", "d"].into_iter().take(rows[0].len()).collect::<Vec<_>>();
        let (text, expected_form) = printed(&rows, &names, style);
        let (found, report) = read(&expected_form, slices(&text, &cuts)).expect("records");
        let records = found.lines().map(|line| serde_json::from_str::<Map<_, _>>(line).expect("an object"));
        let expected = rows.iter().map(|row| -> Map<String, Value> {
            names.iter().map(|name| (*name).to_owned()).zip(row.iter().cloned().map(Value::from)).collect()
        });
        prop_assert!(records.eq(expected), "{}", text);
        prop_assert_eq!(report.ragged, 0);
        prop_assert_eq!(form(&text), Some(expected_form));
    }

    #[test]
    fn any_text(text in "([-=|: a\\[é]{0,9}\r?\n){0,8}", cuts in dice()) {
        for form in [LINE, EXPANDED, COLON] {
            prop_assert_eq!(read(&form, slices(&text, &cuts)), read(&form, [text.as_str()]));
        }
    }
}

#[test]
fn blocks_of_real_tools() {
    let sqlite = "\
    iata = 00M
    name = Thigpen
latitude = 31.95376472

    iata = 00R
    name = Livingston Municipal
latitude = 30.68586111

    iata = 00V
    name = Meadow Lake
latitude = 38.94574889
";
    assert_eq!(recognized(sqlite)[1], r#"{"iata":"00R","name":"Livingston Municipal","latitude":30.68586111}"#);
    let psql = "-[ RECORD 1 ]--\nid   | 1\nname | Ada\n-[ RECORD 2 ]--\nid   | 2\nname | \n\n";
    assert_eq!(recognized(psql), [r#"{"id":1,"name":"Ada"}"#, r#"{"id":2,"name":""}"#]);
    let cpus = "processor\t: 0\ncpu MHz\t\t: 2593.904\nbugs\t\t:\n\n".repeat(3);
    assert_eq!(recognized(&cpus)[2], r#"{"processor":0,"cpu MHz":2593.904,"bugs":""}"#);
}

#[test]
fn no_form_when_in_doubt() {
    let two = "a = 1\nb = 2\n\na = 3\nb = 4\n";
    for no in [
        two,
        "a = 1\n\na = 2\n\na = 3\n",
        "a = 1\nb = 2\n\na = 3\nb = 4\n\nb = 5\na = 6\n",
        "a = 1\nb = 2\n\na = 3\nb = 4\n\na = 5\n",
        "a = 1\nb = 2\n\na = 3\nb = 4\nb = 4\n\na = 5\nb = 6\n",
        "[x]\na = 1\nb = 2\n\n[y]\na = 3\nb = 4\n\n[z]\na = 5\nb = 6\n",
        "Note: this is prose.\nIt goes on.\n\nNote: this too.\nAnd on.\n\nNote: and this.\nAnd on.\n",
    ] {
        assert_eq!(form(no), None, "{no}");
    }
}

#[test]
fn faults_are_named() {
    // A value that goes on in the next line.
    assert_eq!(lines(&LINE, "a = 1\nb = x\ny\n\na = 2\nb = 3\n"), Err(Fault::Misaligned));
    assert_eq!(lines(&EXPANDED, "-[ RECORD 1 ]\na | x+\n  | y\n"), Err(Fault::Misaligned));
    assert_eq!(lines(&COLON, "a: 1\n1 row in set (0.00 sec)\na: 2\n"), Err(Fault::Misaligned));
    assert_eq!(lines(&LINE, &"a = b\n".repeat(SAMPLE_BYTES_MAX)), Err(Fault::FirstRow));
    assert_eq!(lines(&LINE, &format!("a = {}", "x".repeat(LINE_BYTES_MAX))), Err(Fault::Line));
}

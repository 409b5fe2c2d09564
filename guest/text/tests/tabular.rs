//! JSON documents that are tables: the records are those of a naive reference, wherever the text is cut.

#![expect(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::convert::Infallible;

use lro_text::{
    Error, Fault, Form, HEAD_BYTES_MAX, Layout, PARALLEL_BYTES_MAX, ReadError, Reader, Report, Tabular, tabular,
};
use proptest::prelude::*;
use serde_json::{Map, Value};
use support::{dice, slices};

fn read<'a>(tabular: &Tabular, slices: impl IntoIterator<Item = &'a str>) -> Result<(String, Report), ReadError> {
    let mut lines = Vec::new();
    let mut out = |bytes: &[u8]| {
        lines.extend_from_slice(bytes);
        Ok::<(), Infallible>(())
    };
    let text_error = |error| match error {
        Error::Text(error) => error,
        Error::Output(never) => match never {},
    };
    let mut reader = Reader::new(&Form::Tabular(tabular.clone()));
    for slice in slices {
        reader.push(slice, &mut out).map_err(text_error)?;
    }
    let report = reader.finish(&mut out).map_err(text_error)?;
    let lines = String::from_utf8(lines).expect("UTF-8");
    assert_eq!(lines.lines().count() as u64, report.records, "lines and records");
    Ok((lines, report))
}

fn fault(tabular: &Tabular, text: &str) -> Option<Fault> {
    read(tabular, [text]).err().map(|error| error.fault)
}

fn recognized(text: &str) -> Vec<String> {
    let tabular = tabular(text).unwrap_or_else(|| panic!("no table: {text}"));
    let (lines, _) = read(&tabular, [text]).expect("records");
    lines.lines().map(String::from).collect()
}

const PARALLEL: Tabular = Tabular { path: Vec::new(), layout: Layout::Parallel };

fn rows_at(path: &[&str], names: &[&str]) -> Tabular {
    Tabular { path: owned(path), layout: Layout::Rows(owned(names)) }
}

fn header_row_at(path: &[&str], names: &[&str]) -> Tabular {
    Tabular { path: owned(path), layout: Layout::HeaderRow(owned(names)) }
}

/// Values as they are written without white space.
const VALUES: &[&str] = &[
    "1",
    "-0.0",
    "1e5",
    "12345678901234567890",
    "null",
    "true",
    "\"\"",
    "\"x, y\"",
    "\"]\\\"\\u00e9 é\"",
    "[]",
    "{}",
    "[1,[2]]",
    "{\"a\":[\"]\"],\"rows\":[[1]]}",
];
const SCALARS: usize = 9;
const WHITE: &[&str] = &["", " ", "\n  "];

fn rows(values: &'static [&'static str]) -> impl Strategy<Value = Vec<Vec<&'static str>>> {
    (2_usize..5).prop_flat_map(move |columns| {
        let row = proptest::collection::vec(proptest::sample::select(values), columns);
        proptest::collection::vec(row, 2..12)
    })
}

const NAMES: [&str; 4] = ["id", "full \"name\"", "É", "d"];

fn expected(rows: &[Vec<&str>]) -> String {
    let record = |row: &Vec<&str>| {
        let members = NAMES.iter().zip(row).map(|(name, value)| format!("{}:{value}", Value::from(*name)));
        format!("{{{}}}\n", members.collect::<Vec<_>>().join(","))
    };
    rows.iter().map(record).collect()
}

fn array(items: impl Iterator<Item = String>, white: &str) -> String {
    format!("[{white}{}{white}]", items.collect::<Vec<_>>().join(&format!("{white},{white}")))
}

fn matrix(rows: &[Vec<&str>], white: &str) -> String {
    array(rows.iter().map(|row| array(row.iter().map(|value| (*value).to_owned()), white)), white)
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn names_and_rows(
        rows in rows(VALUES), spelling in 0..5_usize, first in any::<bool>(), white in proptest::sample::select(WHITE),
        cuts in dice(),
    ) {
        let names = &NAMES[..rows[0].len()];
        let quoted = |name: &&str| Value::from(*name).to_string();
        let plain = array(names.iter().map(quoted), white);
        let objects = array(names.iter().map(|name| format!("{{\"type\":\"x\",\"name\":{}}}", quoted(name))), white);
        let (key, named, member) = [
            ("columns", plain.clone(), "rows"),
            ("fields", objects.clone(), "data"),
            ("headers", plain.clone(), "values"),
            ("schema", format!("{{\"a\":1,\"fields\":{objects}}}"), "data"),
            ("columns", objects.clone(), "rows"),
        ][spelling].clone();
        let (named, held) = (format!("\"{key}\":{white}{named}"), format!("\"{member}\" :{}", matrix(&rows, white)));
        let (one, two) = if first { (&named, &held) } else { (&held, &named) };
        let text = format!("{{\"index\":[0,[1]],{white}{one}{white},\"n\":{{\"{member}\":[[1]]}},{two}}}{white}");
        let form = tabular(&text);
        prop_assert_eq!(&form, &Some(rows_at(&[member], names)), "{}", text);
        let (lines, report) = read(&form.expect("a table"), slices(&text, &cuts)).expect("records");
        prop_assert_eq!(lines, expected(&rows));
        prop_assert_eq!(report.outside, (text.len() - held.len() + member.len() + 4) as u64);
    }

    #[test]
    fn header_rows(mut rows in rows(VALUES), white in proptest::sample::select(WHITE), cuts in dice()) {
        // A column of numbers tells names from values.
        rows.iter_mut().for_each(|row| row[1] = "7");
        let names = &NAMES[..rows[0].len()];
        let header = array(names.iter().map(|name| Value::from(*name).to_string()), white);
        let text = matrix(&rows, white).replacen('[', &format!("[{white}{header},"), 1);
        let form = tabular(&text);
        prop_assert_eq!(&form, &Some(header_row_at(&[], names)), "{}", text);
        prop_assert_eq!(read(&form.expect("a table"), slices(&text, &cuts)).expect("records").0, expected(&rows));
    }

    #[test]
    fn parallel_arrays(rows in rows(&VALUES[..SCALARS]), white in proptest::sample::select(WHITE), cuts in dice()) {
        let column = |index: usize| array(rows.iter().map(|row| row[index].to_owned()), white);
        let member = |(index, name): (usize, &&str)| format!("{}:{}", Value::from(*name), column(index));
        let members: Vec<_> = NAMES[..rows[0].len()].iter().enumerate().map(member).collect();
        let text = format!("{white}{{{white}{}}}{white}", members.join(","));
        prop_assert_eq!(tabular(&text), Some(PARALLEL));
        prop_assert_eq!(read(&PARALLEL, slices(&text, &cuts)).expect("records").0, expected(&rows));
    }

    /// A member is a table as the document would be.
    #[test]
    fn tables_inside_a_document(
        mut rows in rows(&VALUES[..SCALARS]), layout in 0..3_usize, white in proptest::sample::select(WHITE), cuts in dice(),
    ) {
        const KEY: &str = "in \"it\"";
        rows.iter_mut().for_each(|row| row[1] = "7");
        let names = &NAMES[..rows[0].len()];
        let quoted = |name: &&str| Value::from(*name).to_string();
        let header = array(names.iter().map(quoted), white);
        let matrix = matrix(&rows, white);
        let column = |(index, name): (usize, &&str)| {
            format!("{}:{}", quoted(name), array(rows.iter().map(|row| row[index].to_owned()), white))
        };
        let columns: Vec<_> = names.iter().enumerate().map(column).collect();
        let (table, found) = match layout {
            0 => (
                format!("{{\"columns\":{header},\"n\":{{\"rows\":1}},\"rows\":{matrix}}}"),
                rows_at(&[KEY, "rows"], names),
            ),
            1 => (matrix.replacen('[', &format!("[{white}{header},"), 1), header_row_at(&[KEY], names)),
            _ => (
                format!("{{{}}}", columns.join(",")),
                Tabular { path: owned(&[KEY]), layout: Layout::Parallel },
            ),
        };
        let beside = "\"rows\":[[\"x\"]],\"z\":[{}]";
        let text = format!("{{\"a\":{{\"rows\":[1]}},{white}{}:{white}{table},{beside}}}", quoted(&KEY));
        prop_assert_eq!(tabular(&text), Some(found.clone()), "{}", text);
        prop_assert_eq!(read(&found, slices(&text, &cuts)).expect("records").0, expected(&rows));
    }

    /// Any tokens at all: a line is an object, and what is read does not depend on the slices.
    #[test]
    fn any_tokens(text in "(\\[|\\]|\\{|\\}|\"rows\":|\"a\"|\"b\"|:|,|1| ){0,20}", body: bool, cuts in dice()) {
        let text = if body { format!("{{\"rows\":[[{text}]]}}") } else { text };
        let names = ["a", "b"];
        let forms = [
            rows_at(&["rows"], &names),
            rows_at(&["a", "rows"], &names),
            header_row_at(&[], &names),
            header_row_at(&["a"], &names),
            PARALLEL,
            Tabular { path: owned(&["a"]), layout: Layout::Parallel },
        ];
        for form in forms.into_iter().chain(tabular(&text)) {
            let whole = read(&form, [text.as_str()]);
            prop_assert_eq!(whole.clone().ok(), read(&form, slices(&text, &cuts)).ok(), "{:?}", form);
            for line in whole.iter().flat_map(|(lines, _)| lines.lines()) {
                prop_assert!(serde_json::from_str::<Map<_, _>>(line).is_ok(), "{:?}: {}", form, line);
            }
        }
    }
}

#[test]
fn documents_of_real_tools() {
    let pandas = r#"{"columns":["id","name"],"index":[0,1],"data":[[7,"Ada"],[8,"Grace"]]}"#;
    assert_eq!(recognized(pandas), [r#"{"id":7,"name":"Ada"}"#, r#"{"id":8,"name":"Grace"}"#]);
    let sheet = r#"[["Name","Age"],["Ada","36"],["Grace","85"]]"#;
    assert_eq!(recognized(sheet)[1], r#"{"Name":"Grace","Age":"85"}"#);
    let wrapped = r#"{"ok":true,"result":[["Name","Age"],["Ada","36"],["Grace","85"]]}"#;
    assert_eq!(recognized(wrapped)[1], r#"{"Name":"Grace","Age":"85"}"#);
    // Other data beside it.
    assert_eq!(tabular(&wrapped.replace("true", &format!("\"{}\"", "x".repeat(9_000)))), None);
    let candles = r#"{"t":[1,2,3],"c":[1.10,2.5,null]}"#;
    assert_eq!(recognized(candles)[0], r#"{"t":1,"c":1.10}"#);
}

#[test]
fn a_head_is_enough() {
    let rows = "[1, \"x\"], ".repeat(HEAD_BYTES_MAX);
    let text = format!("{{\"columns\": [\"a\", \"b\"], \"rows\": [{rows}[2, 3]]}}");
    let form = tabular(&text).expect("a table");
    let (lines, report) = read(&form, [text.as_str()]).expect("records");
    assert_eq!(report.records, HEAD_BYTES_MAX as u64 + 1);
    assert!(lines.ends_with("{\"a\":1,\"b\":\"x\"}\n{\"a\":2,\"b\":3}\n"));
    let column = format!("[{}1]", "1,".repeat(HEAD_BYTES_MAX / 5));
    let parallel = format!("{{\"a\":{column},\"b\":{column},\"c\":{column}}}");
    assert_eq!(tabular(&parallel), Some(PARALLEL));
    // Only one whole array is in the head.
    let long = format!("[{}1]", "1,".repeat(HEAD_BYTES_MAX / 3));
    assert_eq!(tabular(&format!("{{\"a\":{long},\"b\":{long}}}")), None);
    // The names are behind the head.
    assert_eq!(tabular(&format!("{{\"rows\": [{rows}[2, 3]], \"columns\": [\"a\", \"b\"]}}")), None);
}

#[test]
fn no_table_when_in_doubt() {
    for no in [
        r#"[{"a":1},{"a":2}]"#,
        r#"[["Ada","London"],["Grace","New York"]]"#,
        r#"[["a","a"],[1,2]]"#,
        r#"[["a","b"],[1,2],[3]]"#,
        r#"[["a","b"],[1,2],3]"#,
        r#"[["a"],[1]]"#,
        r#"{"columns":["a","a"],"rows":[[1,2]]}"#,
        r#"{"columns":["a","b"],"rows":[[1]]}"#,
        r#"{"columns":["a","b"],"rows":[{"a":1,"b":2}]}"#,
        r#"{"columns":["a","b"],"rows":[]}"#,
        r#"{"columns":["a"],"rows":[[1]],"data":[[1]]}"#,
        r#"{"columns":["a"],"fields":["b"],"rows":[[1]]}"#,
        r#"{"a":[1,2],"b":[1,2,3]}"#,
        r#"{"a":[1,2],"b":[1,2],"c":1}"#,
        r#"{"a":[1],"b":[2]}"#,
        r#"{"a":[1,2]}"#,
        r#"{"a":[1,2],"a":[1,2]}"#,
        r#"{"nodes":[{},{}],"links":[{},{}]}"#,
        r#"{"x":[["a","b"],[1,2]],"y":[["a","b"],[1,2]]}"#,
        r#"{"x":{"y":[["a","b"],[1,2]]}}"#,
        "",
        "1",
        "[",
        "{",
        "[[",
        "{\"a\":[",
        "[[\"a\",\"b\"],",
    ] {
        assert_eq!(tabular(no), None, "{no}");
    }
}

#[test]
fn faults_are_named() {
    let rows = rows_at(&["rows"], &["a", "b"]);
    let misaligned = [
        r#"{"rows":[[1]]}"#,
        r#"{"rows":[[1,2,3]]}"#,
        r#"{"rows":[[]]}"#,
        r#"{"rows":[[1,2],3]}"#,
        r#"{"rows":[{}]}"#,
        r#"{"rows":1}"#,
        r#"{"rows":{}}"#,
        r#"{"x":[[1,2]]}"#,
        "[]",
        "1",
    ];
    for text in misaligned {
        assert_eq!(fault(&rows, text), Some(Fault::Misaligned), "{text}");
    }
    assert_eq!(fault(&rows, r#"{"rows":[],"r\u006fws":[]}"#), Some(Fault::Second));
    assert!(matches!(fault(&rows, r#"{"rows":[[1,2]"#), Some(Fault::Json(_))));
    assert_eq!(fault(&PARALLEL, r#"{"a":[1,2],"b":[1]}"#), Some(Fault::Misaligned));
    assert_eq!(fault(&PARALLEL, r#"{"a":[1],"b":2}"#), Some(Fault::Misaligned));
    assert_eq!(fault(&PARALLEL, "{}"), Some(Fault::Misaligned));
    assert_eq!(fault(&PARALLEL, &" ".repeat(PARALLEL_BYTES_MAX + 1)), Some(Fault::Parallel));
}

//! Readers beside Python's `csv`, `repr` and PyYAML, on generated data.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use lro_text::{Blanks, Fault, Form};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};
use support::{form, lines, read, slices};

/// Reads a JSON array of requests and answers with a JSON array.
const SCRIPT: &str = r#"
import ast, csv, io, json, sys, yaml
def tuples(value, depth=0):
    if isinstance(value, dict): return {key: tuples(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list): return (tuple if depth % 2 else list)(tuples(item, depth + 1) for item in value)
    return value
def answer(request):
    kind, value = request
    if kind == "csv":
        lines = io.StringIO(value[1], newline="")
        return [row for row in csv.reader(lines, delimiter=value[0], skipinitialspace=value[2], strict=True) if row]
    if kind == "repr":
        text = repr(tuples(value))
        assert json.loads(json.dumps(ast.literal_eval(text))) == value
        return text
    if kind == "dump":
        return yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
    if kind == "load":
        return yaml.safe_load(value)
print(json.dumps([answer(request) for request in json.load(sys.stdin)]))
"#;

/// The answers of the Python that the test set-up installs.
fn python(requests: &[Value]) -> Vec<Value> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("../../target"), PathBuf::from);
    let program = target.join("test-data/venv/bin/python");
    assert!(program.exists(), "{} is not there: run `make test-data`", program.display());
    let mut child = Command::new(program)
        .args(["-c", SCRIPT])
        .env("PYTHONUTF8", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Python");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(&serde_json::to_vec(requests).expect("JSON")).expect("a write");
    drop(stdin);
    let output = child.wait_with_output().expect("an end");
    assert!(output.status.success(), "Python failed");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Some values of a strategy, the same in every run.
fn samples<T: std::fmt::Debug>(strategy: impl Strategy<Value = T>, count: usize) -> Vec<T> {
    let mut runner = TestRunner::deterministic();
    (0..count).map(|_| strategy.new_tree(&mut runner).expect("a value").current()).collect()
}

const STRINGS: &[&str] = &[
    "",
    "a",
    "naïve 東京 📦",
    "it's",
    "say \"hi\"",
    "both ' and \"",
    "two\nlines",
    "three\n\nlines\n",
    "tab\there",
    "back\\slash",
    "007",
    "1e5",
    "yes",
    "null",
    "~",
    "true",
    "- x",
    "a: b",
    "# c",
    "x # y",
    " leading",
    "trailing ",
    "\u{1}",
    "\u{85}",
    "[x]",
    "{y}",
    "@at",
    "`tick`",
    "12:30:45",
    "2024-01-01",
    "&a",
    "*a",
    "!t",
    "%d",
    "?",
    "-",
    ":",
    "a,b",
    "|",
    ">",
    "x\u{a0}y",
    "\u{feff}",
];

fn string() -> impl Strategy<Value = String> {
    let words = proptest::collection::vec(
        proptest::sample::select(&["word", "it's", "\"q\"", "a:b", "x  y", "naïve", "\n"][..]),
        20..60,
    );
    prop_oneof![6 => proptest::sample::select(STRINGS).prop_map(String::from), 1 => words.prop_map(|words| words.join(" "))]
}

fn value() -> impl Strategy<Value = Value> {
    let number = proptest::sample::select(&["0", "7", "-12", "3.25", "-0.5", "123456789012345"][..]);
    let scalar = prop_oneof![
        6 => string().prop_map(Value::from),
        2 => number.prop_map(|number| serde_json::from_str(number).expect("a number")),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
    ];
    scalar.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            object(inner).prop_map(Value::from),
        ]
    })
}

fn object(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    let key = proptest::sample::select(&["a", "b", "some key", "c-d", "e.f", "é", "it's", "x: y", "g/h"][..])
        .prop_map(String::from);
    proptest::collection::vec((key, value), 0..4).prop_map(|members| members.into_iter().collect())
}

fn records() -> impl Strategy<Value = Vec<Value>> {
    let record = object(value()).prop_map(|members| {
        let first = (String::from("id"), json!(1));
        Value::Object(std::iter::once(first).chain(members).collect())
    });
    proptest::collection::vec(record, 2..6)
}

/// Texts with a delimiter, and their lines beside the rows of Python.
fn delimited_beside_python(tables: &[(&str, String)], leading: bool) {
    let requests: Vec<_> = tables.iter().map(|(delimiter, text)| json!(["csv", [delimiter, text, leading]])).collect();
    for ((delimiter, text), rows) in tables.iter().zip(python(&requests)) {
        let blanks = Blanks { leading, trailing: false };
        let form = Form::Delimited { delimiter: delimiter.as_bytes()[0], header: false, blanks };
        let found = lines(&form, text).expect("CSV");
        let cells = |line: &String| -> Vec<Value> {
            let record: Map<String, Value> = serde_json::from_str(line).expect("an object");
            record
                .into_iter()
                .flat_map(|(_, value)| match value {
                    Value::Array(extra) => extra,
                    Value::Null => vec!["".into()],
                    Value::String(_) => vec![value],
                    other => vec![other.to_string().into()],
                })
                .collect()
        };
        assert_eq!(Value::from(found.iter().map(cells).collect::<Vec<_>>()), rows, "{text:?}");
    }
}

/// Tables whose rows have at least so many cells, with one of these behind delimiters.
fn tables(cells_min: usize, spaces: &'static [&str]) -> Vec<(&'static str, String)> {
    let cell = prop_oneof![
        3 => "[a-z0-9. ]{0,8}x?",
        1 => "[a-z,;\"\n\t ]{0,12}".prop_map(|cell| format!("\"{}\"", cell.replace('"', "\"\""))),
        1 => "[a-z]{1,3}\"[a-z\"]{0,3}",
    ];
    let cell = (proptest::sample::select(spaces), cell).prop_map(|(space, cell)| format!("{space}{cell}"));
    let row = proptest::collection::vec(cell, cells_min..6);
    let table = (proptest::sample::select(&[",", ";", "\t"][..]), proptest::collection::vec(row, 1..9), any::<bool>());
    samples(table, 2_000)
        .into_iter()
        .map(|(delimiter, rows, crlf)| {
            let end = if crlf { "\r\n" } else { "\n" };
            (delimiter, rows.iter().map(|row| row.join(delimiter) + end).collect::<String>())
        })
        .collect()
}

#[test]
fn csv_beside_python() {
    delimited_beside_python(&tables(1, &[""]), false);
}

#[test]
fn csv_with_spaces_behind_delimiters_beside_python() {
    delimited_beside_python(&tables(2, &["", " ", "   "]), true);
}

#[test]
fn repr_beside_python() {
    let values = samples(records(), 1_500);
    let requests: Vec<_> = values.iter().map(|value| json!(["repr", value])).collect();
    for (index, (value, text)) in values.iter().zip(python(&requests)).enumerate() {
        let text = text.as_str().expect("a text");
        let literal = Form::PythonLiteral { document: true };
        let (found, _) = read(&literal, slices(text, &[(index % 40 + 1) as u8])).expect("a literal");
        assert_eq!(serde_json::from_str::<Value>(&found).expect("JSON"), Value::from(value.clone()), "{text}");
        // What is JSON as well is not taken for Python.
        let is_json = serde_json::from_str::<Value>(text).is_ok();
        assert_eq!(form(text), (!is_json).then_some(literal), "{text}");
    }
}

#[test]
fn yaml_beside_python() {
    let values = samples(records(), 1_500);
    let requests: Vec<_> = values.iter().map(|value| json!(["dump", value])).collect();
    for (index, (value, text)) in values.iter().zip(python(&requests)).enumerate() {
        let text = text.as_str().expect("a text");
        // A line break in YAML 1.1 and none in 1.2.
        if text.contains('\u{85}') {
            assert_eq!(lines(&Form::YamlList, text), Err(Fault::Yaml), "{text}");
            continue;
        }
        let (found, _) = read(&Form::YamlList, slices(text, &[(index % 40 + 1) as u8])).expect(text);
        let found: Vec<Value> = found.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(&found, value, "{text}");
        assert_eq!(form(text), Some(Form::YamlList), "{text}");
    }
}

#[test]
fn yaml_by_hand_beside_python() {
    let texts = [
        "---\n# people\n- name: Ada   # first\n  born: 1815\n\n- name: Grace\n  tags:\n  - navy\n  -   cobol\n",
        "- a: |\n    one\n      two\n\n    three\n  b: |-\n    x\n  c: |+\n    y\n\n- a: >\n    folded\n    text\n",
        "- a:\n    - - 1\n      - 2\n    -\n      k: v\n    - x: 1\n      y: 2\n- a: []\n  b: {}\n  c: \"\\x41\\u00e9\\\n    end\"\n",
        "- a: plain\n    goes on\n\n    after a blank\n  b: 'single\n    ''quoted'''\n- 'a': \"double\n\n    quoted \"\n  http://x: y\n",
        "-\n  a: 1\n-   a: 2\n    b: null\n    c: ~\n    d:\n    e: ''\n",
    ];
    let requests: Vec<_> = texts.iter().map(|text| json!(["load", text])).collect();
    for (text, expected) in texts.iter().zip(python(&requests)) {
        let found = lines(&Form::YamlList, text).expect(text);
        let found: Vec<Value> = found.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(Value::from(found), expected, "{text}");
    }
}

#[test]
fn yaml_beyond_the_part_is_refused() {
    let bomb = "- &a [x,x]\n- &b [*a,*a]\n- &c [*b,*b]\n";
    let deep = format!("- a:\n{}", (1..200).map(|depth| format!("{}b:\n", "  ".repeat(depth + 1))).collect::<String>());
    for (text, fault) in [
        (bomb, Fault::Yaml),
        ("- a: &x 1\n- b: *x\n", Fault::Yaml),
        ("- a: !!python/object:x 1\n", Fault::Yaml),
        ("- a: 1\n  <<: {b: 2}\n", Fault::Yaml),
        ("- a: [1, 2]\n", Fault::Yaml),
        ("- plain\n", Fault::Yaml),
        ("- a: 1\nb: 2\n", Fault::Yaml),
        ("- a: 1\n---\n- a: 2\n", Fault::Yaml),
        ("- a: 1\n b: 2\n", Fault::Yaml),
        ("- a: x: y\n", Fault::Yaml),
        ("- \ta: 1\n", Fault::Yaml),
        ("- a: \"open\n", Fault::Yaml),
        ("- ? a\n", Fault::Yaml),
        (deep.as_str(), Fault::Depth),
    ] {
        assert_eq!(lines(&Form::YamlList, text), Err(fault), "{text}");
    }
}

#[test]
fn python_beyond_json_is_refused() {
    let literal = Form::PythonLiteral { document: false };
    for (text, fault) in [
        ("[{1, 2}]", Fault::Literal),
        ("[b'x']", Fault::Literal),
        ("[inf]", Fault::Literal),
        ("[datetime.date(2024, 1, 1)]", Fault::Literal),
        ("[<object>]", Fault::Literal),
        ("[(1)]", Fault::Literal),
        ("[1 2]", Fault::Literal),
        ("[1,,2]", Fault::Literal),
        ("[,]", Fault::Literal),
        ("{'a'}", Fault::Literal),
        ("{None: 1}", Fault::Literal),
        ("{(1, 2): 3}", Fault::Literal),
        ("[1}", Fault::Literal),
        ("['\\q']", Fault::Literal),
        ("[007]", Fault::Literal),
        ("[1] [2]", Fault::AfterValue),
        ("['open", Fault::End),
        ("[1", Fault::End),
    ] {
        assert_eq!(lines(&literal, text), Err(fault), "{text}");
    }
    assert_eq!(lines(&literal, &"[".repeat(1_000_000)), Err(Fault::Depth));
    assert_eq!(
        lines(&literal, "[1, (2,), {3: 'x'}, (), [None,],]"),
        Ok(vec![r#"[1,[2],{"3":"x"},[],[null]]"#.to_owned()])
    );
    assert_eq!(lines(&literal, "{'a': 1}\n{'a': 2}\n"), Ok(vec![r#"{"a":1}"#.to_owned(), r#"{"a":2}"#.to_owned()]));
    assert_eq!(lines(&Form::PythonLiteral { document: true }, "[1]\n[2]\n"), Err(Fault::Second));
}

//! Tables in text: what a naive printer writes is read back, wherever the text is cut.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use lro_text::{Fault, Form, LINE_BYTES_MAX};
use proptest::prelude::*;
use serde_json::{Map, Value};
use support::{dice, form, lines, read, recognized, slices};

/// Cells without white space at their ends and without two spaces in a row.
fn rows(cells: &'static [&'static str]) -> impl Strategy<Value = Vec<Vec<String>>> {
    (2_usize..5).prop_flat_map(move |columns| {
        let cell = proptest::sample::select(cells).prop_map(String::from);
        proptest::collection::vec(proptest::collection::vec(cell, columns), 2..8)
    })
}

fn names(columns: usize) -> Vec<String> {
    ["ID", "FULL NAME", "É", "d"].iter().take(columns).map(|name| (*name).to_owned()).collect()
}

/// Cells next to each other, each as wide as its column.
fn padded(row: &[String], widths: &[usize], between: &str) -> String {
    let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
    cells.collect::<Vec<_>>().join(between)
}

fn widths(rows: &[Vec<String>], names: &[String]) -> Vec<usize> {
    let width = |index: usize| rows.iter().map(|row| row[index].chars().count()).max().unwrap_or_default();
    names.iter().enumerate().map(|(index, name)| width(index).max(name.chars().count())).collect()
}

/// All cells as strings; the rules of columns are tested with delimited text.
fn strings(lines: &str) -> Vec<Map<String, Value>> {
    let string = |value: Value| match value {
        Value::String(_) => value,
        Value::Null => Value::from(""),
        other => Value::from(other.to_string()),
    };
    let record = |line: &str| serde_json::from_str::<Map<_, _>>(line).expect("an object");
    lines.lines().map(|line| record(line).into_iter().map(|(name, value)| (name, string(value))).collect()).collect()
}

fn expected(rows: &[Vec<String>], names: &[String]) -> Vec<Map<String, Value>> {
    let record = |row: &Vec<String>| names.iter().cloned().zip(row.iter().cloned().map(Value::from)).collect();
    rows.iter().map(record).collect()
}

const CELLS: &[&str] =
    &["", "a", "42", "007", "true", "x y", "naïve", "a-b", "<none>", "3m2s", "[x]", "\"q\"", "back\\slash"];
const WITH_PIPES: &[&str] = &["", "a", "42", "a|b", "||", "x y", "naïve"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn markdown(rows in rows(WITH_PIPES), outer in any::<bool>(), around in any::<bool>(), cuts in dice()) {
        let names = names(rows[0].len());
        let line = |cells: &[String]| {
            let cells = cells.iter().map(|cell| cell.replace('|', "\\|")).collect::<Vec<_>>().join(" | ");
            if outer { format!("| {cells} |\n") } else { format!(" {cells} \n") }
        };
        let rule = vec![":--".to_owned(); names.len()];
        // Without outer boundaries, an empty cell at an end is still a cell.
        let mut text = line(&names) + &line(&rule) + &rows.iter().map(|row| line(row)).collect::<String>();
        if around {
            text = format!("## Result\n\n{text}\nThat is all.\n");
        }
        let (found, report) = read(&Form::MarkdownTable, slices(&text, &cuts)).expect("a table");
        let edge = |row: &Vec<String>| row[0].is_empty() || row[row.len() - 1].is_empty();
        if outer || !rows.iter().any(edge) {
            prop_assert_eq!(strings(&found), expected(&rows, &names));
            prop_assert_eq!(report.ragged, 0);
        }
        if !around && outer {
            prop_assert_eq!(form(&text), Some(Form::MarkdownTable));
        }
    }

    #[test]
    fn psql(rows in rows(WITH_PIPES), cuts in dice()) {
        let names = names(rows[0].len());
        let widths = widths(&rows, &names);
        let line = |row: &[String]| format!(" {}\n", padded(row, &widths, " | ").trim_end());
        let rule = widths.iter().map(|width| "-".repeat(width + 2)).collect::<Vec<_>>().join("+");
        let rows_text: String = rows.iter().map(|row| format!(" {}\n", padded(row, &widths, " | "))).collect();
        let text = format!("{}{rule}\n{rows_text}({} rows)\n\n", line(&names), rows.len());
        let (found, _) = read(&Form::RuledTable, slices(&text, &cuts)).expect("a table");
        prop_assert_eq!(strings(&found), expected(&rows, &names));
        prop_assert_eq!(form(&text), Some(Form::RuledTable));
    }

    #[test]
    fn boxes(rows in rows(WITH_PIPES), grid in any::<bool>(), cuts in dice()) {
        let names = names(rows[0].len());
        let widths = widths(&rows, &names);
        let line = |row: &[String]| format!("| {} |\n", padded(row, &widths, " | "));
        let rule = format!("+{}+\n", widths.iter().map(|width| "-".repeat(width + 2)).collect::<Vec<_>>().join("+"));
        let between = if grid { rule.as_str() } else { "" };
        let body: Vec<_> = rows.iter().map(|row| line(row)).collect();
        let text = format!("{rule}{}{rule}{}{rule}", line(&names), body.join(between));
        let (found, _) = read(&Form::RuledTable, slices(&text, &cuts)).expect("a table");
        prop_assert_eq!(strings(&found), expected(&rows, &names));
        prop_assert_eq!(form(&text), Some(Form::RuledTable));
    }

    #[test]
    fn aligned(rows in rows(CELLS), underlined in any::<bool>(), trim in any::<bool>(), cuts in dice()) {
        // A line that is empty ends a table.
        let rows: Vec<_> = rows.into_iter().map(|mut row| { row[0].push('x'); row }).collect();
        let names = names(rows[0].len());
        let widths = widths(&rows, &names);
        let line = |row: &[String]| {
            let line = padded(row, &widths, "   ");
            if trim { line.trim_end().to_owned() + "\n" } else { line + "\n" }
        };
        let rule: Vec<_> = widths.iter().map(|width| "-".repeat(*width)).collect();
        let rule = if underlined { line(&rule) } else { String::new() };
        let text = line(&names) + &rule + &rows.iter().map(|row| line(row)).collect::<String>();
        let (found, _) = read(&Form::AlignedTable, slices(&text, &cuts)).expect("a table");
        prop_assert_eq!(strings(&found), expected(&rows, &names));
        if names.len() < 4 || underlined {
            prop_assert_eq!(form(&text), Some(Form::AlignedTable));
        }
    }

    /// Any lines at all: what is read does not depend on the slices.
    #[test]
    fn any_text(text in "([-+| a:é]{0,12}\r?\n){0,8}", cuts in dice()) {
        for form in [Form::MarkdownTable, Form::RuledTable, Form::AlignedTable, Form::YamlList] {
            prop_assert_eq!(read(&form, slices(&text, &cuts)), read(&form, [text.as_str()]));
        }
    }
}

#[test]
fn tables_of_real_tools() {
    let kubectl = "\
NAME                     READY   STATUS    RESTARTS      AGE
web-6d4b75cb6d-hr9f2     1/1     Running   0             5d
db-0                     0/1     Pending   3 (2m ago)    17m
";
    let pod = r#"{"NAME":"db-0","READY":"0/1","STATUS":"Pending","RESTARTS":"3 (2m ago)","AGE":"17m"}"#;
    assert_eq!(recognized(kubectl)[1], pod);
    let docker = "\
CONTAINER ID   IMAGE     COMMAND                  STATUS        PORTS     NAMES
4c01db0b339c   nginx     \"/docker-entrypoint.…\"   Up 2 hours    80/tcp    web
d78865983a12   redis     \"docker-entrypoint.s…\"   Up 3 weeks              cache
";
    assert!(recognized(docker)[1].ends_with(r#""PORTS":"","NAMES":"cache"}"#));
    let sqlite = "id  name\n--  -----\n1   Ada\n2   Grace\n";
    assert_eq!(recognized(sqlite), [r#"{"id":1,"name":"Ada"}"#, r#"{"id":2,"name":"Grace"}"#]);
    let psql = " id |  name  \n----+--------\n  1 | Ada\n 12 | 東京\n(2 rows)\n";
    assert_eq!(recognized(psql), [r#"{"id":1,"name":"Ada"}"#, r#"{"id":12,"name":"東京"}"#]);
}

#[test]
fn no_form_when_in_doubt() {
    for no in [
        "A list:\n\n- one\n- two\n- three\n",
        "Filesystem     1K-blocks     Used Available Use% Mounted on\n/dev/sda1       61255492 11923980  46187560  21% /\n",
        "total 8\n-rw-r--r-- 1 a a  12 Jan  1 10:00 x\n-rw-r--r-- 1 a a 123 Jan  1 10:00 y\n",
        "A | B\n",
        "| a | b |\n|---|---|\n| 1 | 2 |\n\nMuch more prose than table, which is a document that happens to have a table.\n",
        "| a | b |\n|---|---|\n| 1 | 2 |\n\n| c | d |\n|---|---|\n| 3 | 4 |\n",
        "USAGE  of the tool\nSome text that goes on\n",
    ] {
        assert_eq!(form(no), None, "{no}");
    }
}

#[test]
fn faults_are_named() {
    let long = "x".repeat(LINE_BYTES_MAX + 1);
    for form in [Form::MarkdownTable, Form::RuledTable, Form::AlignedTable, Form::YamlList] {
        assert_eq!(lines(&form, &long), Err(Fault::Line), "{form:?}");
    }
    let two = "a|b\n-|-\n1|2\n\nc|d\n-|-\n";
    assert_eq!(lines(&Form::MarkdownTable, two), Err(Fault::Second));
    assert_eq!(lines(&Form::AlignedTable, "A   B\n1   2\n\nC   D\n"), Err(Fault::Second));
    assert_eq!(lines(&Form::AlignedTable, "A   B\n1   2\nlonger than A\n"), Err(Fault::Misaligned));
    // psql goes on with a cell in the next line.
    assert_eq!(lines(&Form::RuledTable, " a   | b\n-----+---\n one+| x\n two | \n"), Err(Fault::Misaligned));
    let lines_of_one_row = "+---+---+\n| a | b |\n+---+---+\n| 1 | 2 |\n| 3 | 4 |\n+---+---+\n| 5 | 6 |\n+---+---+\n";
    assert_eq!(lines(&Form::RuledTable, lines_of_one_row), Err(Fault::Misaligned));
    assert_eq!(lines(&Form::RuledTable, " a | b\n---+---\n xxx| y\n"), Err(Fault::Misaligned));
}

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
const WORDS: &[&str] = &["a", "42", "007", "naïve", "a-b", "[x]", "60%", "?", "longer-than-its-name"];
const WITH_DRAWN: &[&str] = &["", "a", "42", "a|b", "│", "x y", "naïve", "─┼─", "x·", "+"];
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

    /// Every style: corners and tees of the top, of the rule below the header and of the bottom, then the lines.
    #[test]
    fn drawn_boxes(rows in rows(WITH_DRAWN), style in 0..5_usize, grid in any::<bool>(), cuts in dice()) {
        let [top, middle, bottom, between] = [
            ["┌─┬┐", "├─┼┤", "└─┴┘", "│││├─┼┤"],
            ["╭─┬╮", "╞═╪╡", "╰─┴╯", "│││├─┼┤"],
            ["┏━┳┓", "┣━╋┫", "┗━┻┛", "┃┃┃┣━╋┫"],
            ["╔═╦╗", "╠═╬╣", "╚═╩╝", "║║║╠═╬╣"],
            ["┌─┬┐", "╞═╪╡", "└─┴┘", "│┆│├╌┼┤"],
        ][style].map(|drawing| drawing.chars().collect::<Vec<_>>());
        let names = names(rows[0].len());
        let widths = widths(&rows, &names);
        let rule = |drawing: &[char]| {
            let lines: Vec<_> = widths.iter().map(|width| drawing[1].to_string().repeat(width + 2)).collect();
            format!("{}{}{}\n", drawing[0], lines.join(&drawing[2].to_string()), drawing[3])
        };
        let line = |row: &[String]| {
            format!("{} {} {}\n", between[0], padded(row, &widths, &format!(" {} ", between[1])), between[2])
        };
        let body: Vec<_> = rows.iter().map(|row| line(row)).collect();
        let body = body.join(&if grid { rule(&between[3..]) } else { String::new() });
        let text = rule(&top) + &line(&names) + &rule(&middle) + &body + &rule(&bottom);
        let (found, report) = read(&Form::RuledTable, slices(&text, &cuts)).expect("a table");
        prop_assert_eq!(strings(&found), expected(&rows, &names));
        prop_assert_eq!((report.ragged, report.outside), (0, 0));
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

    #[test]
    fn any_drawing(text in "([─┬┌│├ a·:é]{0,12}\r?\n){0,8}", cuts in dice()) {
        prop_assert_eq!(read(&Form::RuledTable, slices(&text, &cuts)), read(&Form::RuledTable, [text.as_str()]));
    }

    #[test]
    fn padded_on_either_side(rows in rows(WORDS), right in proptest::collection::vec(any::<bool>(), 5), cuts in dice()) {
        // A column of numbers, which stands on the right, and a last cell with spaces.
        let row = |mut row: Vec<String>| { row.push("x y  z".into()); row.insert(1, "42".into()); row };
        let rows: Vec<_> = rows.into_iter().map(row).collect();
        let names: Vec<_> =
            ["NAME", "CPU%", "É", "d", "Size", "Mounted on"].iter().take(rows[0].len()).map(|name| (*name).to_owned()).collect();
        let widths = widths(&rows, &names);
        let line = |row: &[String]| {
            let cells = row.iter().zip(&widths).enumerate().map(|(index, (cell, width))| match index {
                1 => format!("{cell:>width$}"),
                _ if index > 0 && index + 1 < row.len() && right[index] => format!("{cell:>width$}"),
                _ => format!("{cell:<width$}"),
            });
            cells.collect::<Vec<_>>().join(" ").trim_end().to_owned() + "\n"
        };
        let text = line(&names) + &rows.iter().map(|row| line(row)).collect::<String>();
        let form = Form::PaddedTable { columns: names.len() };
        let (found, report) = read(&form, slices(&text, &cuts)).expect("a table");
        prop_assert_eq!(strings(&found), expected(&rows, &names));
        prop_assert_eq!(report.ragged, 0);
        prop_assert_eq!(support::form(&text), Some(form));
    }

    #[test]
    fn any_words(text in "([ ab1é]{0,12}\r?\n){0,6}", cuts in dice()) {
        let form = Form::PaddedTable { columns: 3 };
        prop_assert_eq!(read(&form, slices(&text, &cuts)), read(&form, [text.as_str()]));
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
fn boxes_of_real_tools() {
    let sqlite = "\
┌──────┬──────────────────────┬─────────────┐
│ iata │         name         │  latitude   │
├──────┼──────────────────────┼─────────────┤
│ 00M  │ Thigpen              │ 31.95376472 │
│ 00R  │ Livingston Municipal │ 30.68586111 │
└──────┴──────────────────────┴─────────────┘
";
    assert_eq!(recognized(sqlite)[0], r#"{"iata":"00M","name":"Thigpen","latitude":31.95376472}"#);
    let duckdb = "\
┌───────┬───────────────┐
│  id   │     name      │
│ int32 │ varchar[]     │
├───────┼───────────────┤
│     1 │ Ada           │
│     2 │ 東京          │
├───────┴───────────────┤
│ 2 rows      2 columns │
└───────────────────────┘
";
    assert_eq!(
        lines(&Form::RuledTable, duckdb).expect("a table"),
        [r#"{"id":1,"name":"Ada"}"#, r#"{"id":2,"name":"東京"}"#]
    );
    let polars = "\
shape: (2, 2)
┌─────┬──────────────┐
│ id  ┆ at           │
│ --- ┆ ---          │
│ i64 ┆ datetime[μs] │
╞═════╪══════════════╡
│ 1   ┆ 2024-01-01   │
│ 2   ┆ null         │
└─────┴──────────────┘
";
    assert_eq!(recognized(polars), [r#"{"id":1,"at":"2024-01-01"}"#, r#"{"id":2,"at":"null"}"#]);
    let rich = "\
     People
┏━━━━┳━━━━━━━┓
┃ ID ┃ Name  ┃
┡━━━━╇━━━━━━━┩
│ 1  │ Ada   │
│ 2  │ Grace │
└────┴───────┘
";
    assert_eq!(recognized(rich), [r#"{"ID":1,"Name":"Ada"}"#, r#"{"ID":2,"Name":"Grace"}"#]);
    let psql = " id │ name\n────┼──────\n  1 │ Ada\n  2 │ Bea\n(2 rows)\n";
    assert_eq!(recognized(psql)[1], r#"{"id":2,"name":"Bea"}"#);
}

#[test]
fn drawings_that_are_no_exact_table() {
    let fault = |text: &str| {
        assert_eq!(form(text), None, "{text}");
        lines(&Form::RuledTable, text)
    };
    assert_eq!(fault("┌───┬───┐\n│ a │ b │\n├───┼───┤\n│ 1 │ 2 │\n│ · │ · │\n└───┴───┘\n"), Err(Fault::Omitted));
    assert_eq!(fault("┌───┬───┐\n│ a │ … │\n├───┼───┤\n│ 1 │ … │\n└───┴───┘\n"), Err(Fault::Omitted));
    // The second line of a name, a wrapped cell, and a cell of two lines between rules.
    assert_eq!(fault("┌───┬───┐\n│ a │ b │\n│ x │   │\n├───┼───┤\n│ 1 │ 2 │\n└───┴───┘\n"), Err(Fault::Misaligned));
    assert_eq!(fault("┏━━━┳━━━┓\n┃ a ┃ b ┃\n┡━━━╇━━━┩\n│ 1 │ 2 │\n│   │ 3 │\n└───┴───┘\n"), Err(Fault::Misaligned));
    let two_lines = "┌───┬───┐\n│ a │ b │\n├───┼───┤\n│   │ x │\n│   │ y │\n├───┼───┤\n│ 1 │ 2 │\n└───┴───┘\n";
    assert_eq!(fault(two_lines), Err(Fault::Misaligned));
    let one = "┌───┬───┐\n│ a │ b │\n├───┼───┤\n│ 1 │ 2 │\n└───┴───┘\n";
    assert_eq!(fault(&one.repeat(2)), Err(Fault::Second));
    assert_eq!(fault(&format!("{one}\n{one}")), Err(Fault::Second));
    assert_eq!(form("├── src\n│   ├── lib.rs\n│   └── main.rs\n└── tests\n"), None);
    assert_eq!(form("╭───────╮\n│ hello │\n╰───────╯\n"), None);
}

#[test]
fn padded_tables_of_real_tools() {
    let df = "\
Filesystem              1K-blocks     Used Available Use% Mounted on
devtmpfs                 12334460        0  12334460   0% /dev
tmpfs                    24684084     1244  24682840   1% /dev/shm
/dev/vda                264212084 57073140  38212748  60% /mnt/my disk
";
    let disk = r#"{"Filesystem":"/dev/vda","1K-blocks":264212084,"Used":57073140,"Available":38212748,"Use%":"60%","Mounted on":"/mnt/my disk"}"#;
    assert_eq!(recognized(df)[2], disk);
    // The numbers of the last line are wider than their columns.
    let ps = "\
USER       PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND
root         1  0.4  0.0  48536 15888 ?        S<Ll 01:59   2:27 /process --addr 0.0.0.0
root         2  0.0  0.0      0     0 ?        S    01:59   0:00 [kthreadd]
ada       4321 12.5  1.0 21034612 9876 pts/0  Sl+  Nov21 100:03 node  server.js
";
    assert!(recognized(ps)[2].contains(r#""VSZ":21034612,"RSS":9876,"TTY":"pts/0","STAT":"Sl+","#));
    assert!(recognized(ps)[2].ends_with(r#""TIME":"100:03","COMMAND":"node  server.js"}"#));
    for no in [
        "let a = 1;\nlet b = 2;\nlet c = 3;\n",
        "The first of many\nlines and 2 more\nwords and 3 more\n",
        "Size Used Name\n  12    3 a\n       4 b\n",
        "               total        used        free\nMem:        24684084     5203412    12345678\nSwap:              0           0\n",
    ] {
        assert_eq!(form(no), None, "{no}");
    }
    let form = Form::PaddedTable { columns: 3 };
    assert_eq!(lines(&form, "A  B  C\n1  2\n"), Err(Fault::Misaligned));
    assert_eq!(lines(&form, "A  B  C\n1     3 x\n"), Err(Fault::Misaligned));
    assert_eq!(lines(&form, "A  B  C\n1  2  3\n\nD  E  F\n"), Err(Fault::Second));
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

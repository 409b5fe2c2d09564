//! CSV and its relatives: the records of a naive reader, wherever the text is cut.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use lro_text::{Blanks, Column, DIGITS_MAX, Fault, Form, Hints, NAME_BYTES_MAX, Rule, recognize};
use proptest::prelude::*;
use serde_json::{Map, Value};
use support::{dice, form, lines, read, recognized, slices};

const SPACED: Blanks = Blanks { leading: true, trailing: false };

/// Rows of cells, character by character.
fn rows(text: &str, delimiter: char, blanks: Blanks) -> Result<Vec<Vec<String>>, Fault> {
    let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
    let (mut started, mut quoted, mut closed) = (false, false, false);
    let mut characters = text.strip_prefix('\u{feff}').unwrap_or(text).chars().peekable();
    let end_cell = |cell: &mut String, closed: bool| match std::mem::take(cell) {
        cell if blanks.trailing && !closed => cell.trim_end_matches(' ').to_owned(),
        cell => cell,
    };
    while let Some(character) = characters.next() {
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => cell.extend(characters.next()),
            '"' if quoted => (quoted, closed) = (false, true),
            _ if quoted => cell.push(character),
            '\r' if characters.peek() != Some(&'\n') => return Err(Fault::CarriageReturn),
            '\r' => {}
            '\n' => {
                let cell = end_cell(&mut cell, closed);
                let is_blank = !started || blanks.trailing && cell.is_empty() && !closed;
                if !is_blank || !row.is_empty() {
                    row.push(cell);
                    rows.push(std::mem::take(&mut row));
                }
                (started, closed) = (false, false);
            }
            _ if character == delimiter => {
                row.push(end_cell(&mut cell, closed));
                (started, closed) = (false, false);
            }
            ' ' if !started && blanks.leading || closed && blanks.trailing => {}
            _ if closed => return Err(Fault::AfterQuote),
            '"' if !started => (started, quoted) = (true, true),
            '"' if cell.chars().all(|character| character == ' ') => return Err(Fault::LateQuote),
            _ => {
                cell.push(character);
                started = true;
            }
        }
    }
    if quoted {
        return Err(Fault::OpenQuote);
    }
    let cell = end_cell(&mut cell, closed);
    let is_blank = !started || blanks.trailing && cell.is_empty() && !closed;
    if !is_blank || !row.is_empty() {
        row.push(cell);
        rows.push(row);
    }
    Ok(rows)
}

/// Whether a number is spelled the way its double is, perhaps with so many digits after the point.
fn survives(cell: &str, places: Option<usize>) -> bool {
    let Ok(number) = cell.parse::<f64>() else { return false };
    let spelled = match places {
        Some(places) => format!("{number:.places$}"),
        None => format!("{number}"),
    };
    let digits = cell.trim_start_matches(['-', '0', '.']).chars().filter(char::is_ascii_digit).count();
    let is_kept = digits <= DIGITS_MAX || cell.contains('.') && number.to_string() == cell;
    spelled == cell && is_kept && (number != 0.0 || number.is_sign_positive())
}

fn rule(cells: &[&str]) -> Rule {
    let filled: Vec<_> = cells.iter().filter(|cell| !matches!(**cell, "" | "NULL" | "null")).collect();
    let places = filled.first().and_then(|cell| cell.split_once('.')).map_or(0, |(_, places)| places.len());
    let all = |fits: &dyn Fn(&str) -> bool| !filled.is_empty() && filled.iter().all(|cell| fits(cell));
    if all(&|cell| survives(cell, None)) {
        Rule::Number
    } else if all(&|cell| survives(cell, None) && cell.contains('.') || survives(cell, Some(1)) && cell.ends_with(".0"))
    {
        Rule::Float
    } else if places > 0 && all(&|cell| survives(cell, Some(places))) {
        Rule::Fixed { places: places as u8 }
    } else if all(&|cell| cell == "true" || cell == "false") {
        Rule::Boolean
    } else {
        Rule::Text
    }
}

/// The records of a table whose names are unique.
fn records(rows: &[Vec<String>], names: &[String]) -> Vec<Value> {
    let rules: Vec<_> = (0..names.len())
        .map(|index| rule(&rows.iter().filter_map(|row| row.get(index).map(String::as_str)).collect::<Vec<_>>()))
        .collect();
    let value = |cell: &String, rule: Rule| match rule {
        Rule::Text => Value::from(cell.as_str()),
        _ if matches!(cell.as_str(), "" | "NULL" | "null") => Value::Null,
        _ => serde_json::from_str(cell).expect("a number or boolean"),
    };
    let record = |row: &Vec<String>| {
        let named = row.iter().zip(names).zip(&rules);
        let mut record: Map<_, _> = named.map(|((cell, name), &rule)| (name.clone(), value(cell, rule))).collect();
        if row.len() > names.len() {
            record.insert("extra".into(), row[names.len()..].to_vec().into());
        }
        Value::Object(record)
    };
    rows.iter().map(record).collect()
}

const CELLS: &[&str] = &[
    "",
    "a",
    "naïve 東京 📦",
    "1",
    "-2.5",
    "007",
    "1e5",
    "1.50",
    "2.25",
    "3.0",
    "12345678901234567890",
    "true",
    "false",
    "with space",
    " ",
    "  1",
    "x  ",
    "back\\slash",
    "tab\there",
    "\u{1}",
    "\0",
    "x\"y",
    "-0",
    "null",
];

fn cell(delimiter: char) -> impl Strategy<Value = String> {
    let plain = proptest::sample::select(CELLS).prop_map(String::from);
    let long = (1_usize..60).prop_map(|length| "long cell ".repeat(length));
    let quoted = prop_oneof![
        Just("a,b;c\td|e"),
        Just("two\nlines"),
        Just("crlf\r\nend"),
        Just("\""),
        Just("say \"hi\""),
        Just("")
    ]
    .prop_map(String::from);
    prop_oneof![8 => plain, 1 => long, 3 => quoted].prop_flat_map(move |cell| {
        let must = cell.contains(['"', '\n', '\r', delimiter]) && cell != "x\"y";
        any::<bool>().prop_map(move |quote| match must || quote {
            true => format!("\"{}\"", cell.replace('"', "\"\"")),
            false => cell.clone(),
        })
    })
}

fn blanks() -> impl Strategy<Value = Blanks> {
    any::<(bool, bool)>().prop_map(|(leading, trailing)| Blanks { leading, trailing })
}

/// What may stand around a cell besides it.
fn around(blanks: Blanks) -> impl Strategy<Value = (&'static str, &'static str)> {
    let spaces = |are_blanks| proptest::sample::select(if are_blanks { &["", " ", "   "][..] } else { &[""] });
    (spaces(blanks.leading), spaces(blanks.trailing))
}

fn table(blanks: Blanks) -> impl Strategy<Value = (char, String)> {
    proptest::sample::select(&[',', '\t', ';', '|'][..]).prop_flat_map(move |delimiter| {
        let cell =
            (around(blanks), cell(delimiter)).prop_map(|((before, behind), cell)| format!("{before}{cell}{behind}"));
        let row = proptest::collection::vec(cell, 1..6);
        let ends = proptest::sample::select(&["\n", "\r\n", "\n\n"][..]);
        (proptest::collection::vec((row, ends), 1..12), any::<bool>()).prop_map(move |(rows, ends_with_line)| {
            let mut text = String::new();
            let mut last = 0;
            for (row, end) in rows {
                text.push_str(&row.join(&delimiter.to_string()));
                last = text.len();
                text.push_str(end);
            }
            if !ends_with_line {
                text.truncate(last);
            }
            (delimiter, text)
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn records_are_those_of_a_naive_reader(
        (blanks, (delimiter, text)) in blanks().prop_flat_map(|blanks| (Just(blanks), table(blanks))), cuts in dice(),
        name in proptest::sample::select(&["", "sep=", "Sep="][..]), end in proptest::sample::select(&["\n", "\r\n"][..]),
    ) {
        let line = if name.is_empty() { String::new() } else { format!("{name}{delimiter}{end}") };
        let (below, text) = (&text, format!("{line}{text}"));
        let form = Form::Delimited { delimiter: delimiter as u8, header: false, blanks };
        let found = read(&form, slices(&text, &cuts)).map_err(|error| error.fault);
        match rows(below, delimiter, blanks) {
            Err(fault) => prop_assert_eq!(found, Err(fault)),
            Ok(rows) => {
                let (lines, report) = found.expect("a table");
                let names: Vec<_> = (1..=rows.first().map_or(0, Vec::len)).map(|index| format!("column_{index}")).collect();
                let found: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
                prop_assert_eq!(found, records(&rows, &names));
                prop_assert_eq!(report.columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>(), names.clone());
                prop_assert_eq!(report.outside, line.len() as u64);
                prop_assert_eq!(report.ragged, rows.iter().filter(|row| row.len() != names.len()).count() as u64);
            }
        }
    }

    /// Any characters at all: what is read does not depend on the slices, and what a naive reader refuses is refused.
    #[test]
    fn any_text(text in "[a\",;\r\n \\\\é1.]{0,200}", cuts in dice(), blanks in blanks()) {
        let form = Form::Delimited { delimiter: b',', header: false, blanks };
        let whole = read(&form, [text.as_str()]).map_err(|error| error.fault);
        prop_assert_eq!(read(&form, slices(&text, &cuts)).map_err(|error| error.fault), whole.clone());
        match (rows(&text, ',', blanks), whole) {
            (Ok(rows), Ok((lines, _))) => prop_assert_eq!(rows.len(), lines.lines().count()),
            // Of several faults, the naive reader may find another one first.
            (rows, whole) => prop_assert!(rows.is_err() && whole.is_err()),
        }
    }
}

#[test]
fn a_header_gives_unique_names() {
    let form = Form::Delimited { delimiter: b',', header: true, blanks: Blanks::default() };
    let text = "id, id ,,id_2,extra\n1,2,3,4,5,6,7\n8\n";
    let (lines, report) = read(&form, [text]).expect("a table");
    let expected =
        "{\"id\":1,\"id_2\":2,\"column_3\":3,\"id_2_2\":4,\"extra\":5,\"extra_2\":[\"6\",\"7\"]}\n{\"id\":8}\n";
    assert_eq!(lines, expected);
    assert_eq!((report.ragged, report.extra.as_str()), (2, "extra_2"));
}

/// A rule is decided from the first rows. What comes later and does not fit stays a string, and is counted.
#[test]
fn later_cells_that_do_not_fit_stay_strings() {
    let form = Form::Delimited { delimiter: b',', header: true, blanks: Blanks::default() };
    let first = "1,2.50,true,x\n".repeat(20_000);
    let (lines, report) = read(&form, [&format!("a,b,c,d\n{first}007,2.5,True,1\n,,,\n")[..]]).expect("a table");
    let last: Vec<_> = lines.lines().rev().take(2).collect();
    assert_eq!(last[1], r#"{"a":"007","b":"2.5","c":"True","d":"1"}"#);
    assert_eq!(last[0], r#"{"a":null,"b":null,"c":null,"d":""}"#);
    let column = |name: &str, rule, exceptions| Column { name: name.into(), rule, exceptions };
    let fixed = Rule::Fixed { places: 2 };
    assert_eq!(
        report.columns,
        [
            column("a", Rule::Number, 1),
            column("b", fixed, 1),
            column("c", Rule::Boolean, 1),
            column("d", Rule::Text, 0)
        ]
    );
}

#[test]
fn faults_are_named() {
    let form = Form::Delimited { delimiter: b',', header: true, blanks: Blanks::default() };
    let fault = |text: &str| lines(&form, text);
    assert_eq!(fault("a,b\n1,\"x"), Err(Fault::OpenQuote));
    assert_eq!(fault("a,b\n1,\"x\"y\n"), Err(Fault::AfterQuote));
    assert_eq!(fault("a,b\n1, \"x\"\n"), Err(Fault::LateQuote));
    assert_eq!(fault("a,b\r1,2\r"), Err(Fault::CarriageReturn));
    assert_eq!(fault(&format!("a,{}\n1,2\n", "b".repeat(NAME_BYTES_MAX + 1))), Err(Fault::Name));
    assert_eq!(fault(&format!("a{}\n", ",".repeat(1_000_000))), Err(Fault::FirstRow));
    assert_eq!(fault(&format!("a{}\n", ",".repeat(20_000))), Err(Fault::Columns));
    let error = read(&form, ["a,b\n1,2\n3,4\n5,\"6\"7\n"]).expect_err("not CSV");
    assert_eq!(error.to_string(), "after 0 records: text follows the closing quote of a cell");
}

#[test]
fn tables_are_recognized() {
    let delimited = |delimiter, header| Some(Form::Delimited { delimiter, header, blanks: Blanks::default() });
    assert_eq!(form("id,name\n1,Ada\n2,Grace\n"), delimited(b',', true));
    assert_eq!(form("\u{feff}id;price\r\n1;1,50\r\n2;2,75\r\n"), delimited(b';', true));
    assert_eq!(form("id\tname\n1\tAda, Countess\n2\tGrace\n"), delimited(b'\t', true));
    assert_eq!(form("id|name\n1|Ada\n2|Grace\n"), delimited(b'|', true));
    assert_eq!(form(",x,y\n0,1,2\n1,3,4\n"), delimited(b',', true));
    assert_eq!(form("1,Ada,London\n2,Grace,New York\n3,Linus,Helsinki\n"), delimited(b',', false));
    assert_eq!(form("a,b\n1,\"x, y\"\n2,\"p, q\"\n"), delimited(b',', true));
    for no in [
        "",
        "a",
        "Dear Ada,\nthank you, and goodbye.\nYours, Grace\n",
        "First, this\nThen, that\nLast, these\n",
        "2024-01-01 12:00:00,123 INFO start\n2024-01-01 12:00:01,456 INFO stop\n2024-01-01 12:00:02,789 INFO end\n",
        "fn main() {\n    f(a, b);\n    g(c, d);\n}\n",
        "a,b\n1,2,3\n4\n",
    ] {
        assert_eq!(form(no), None, "{no}");
    }
    assert_eq!(recognized("id,name\n007,Ada\n008,Grace\n")[0], r#"{"id":"007","name":"Ada"}"#);
}

/// As Python's `skipinitialspace`: quotes count behind the spaces, and what is in them stays.
#[test]
fn spaces_behind_every_delimiter_are_not_part_of_cells() {
    let expected = [r#"{"name":"Ada","age":36,"city":"x, y"}"#, r#"{"name":"Bo","age":5,"city":" z"}"#];
    assert_eq!(recognized("name, age, city\nAda, 36, \"x, y\"\nBo,  5, \" z\"\n"), expected);
    assert_eq!(recognized("name; age; city\r\nAda; 36; \"x, y\"\r\n\r\nBo; 5; \" z\"\r\n"), expected);
    let text = "id, day, open\n1, 2024-05-31, true\n2, , \n3, 2024-06-02, false\n";
    let expected = [
        r#"{"id":1,"day":"2024-05-31","open":true}"#,
        r#"{"id":2,"day":"","open":null}"#,
        r#"{"id":3,"day":"2024-06-02","open":false}"#,
    ];
    assert_eq!(recognized(text), expected);
    assert_eq!(recognized("1, x, 2.5\n2, y, 3.5\n3, z, 4.5\n")[0], r#"{"column_1":1,"column_2":"x","column_3":2.5}"#);
}

#[test]
fn spaces_on_both_sides_or_before_delimiters_are_not_part_of_cells() {
    let expected = [r#"{"a":1,"b":"x; y","c":2.5}"#, r#"{"a":3,"b":"z","c":4.5}"#];
    assert_eq!(recognized("a ; b ; c\n1 ; \"x; y\" ; 2.5\n3 ; z ; 4.5\n"), expected);
    assert_eq!(recognized("a ;b ;c\n1 ;\"x; y\" ;2.5\n3 ;z ;4.5\n"), expected);
    assert_eq!(recognized("a  |b      |c\n1  |x; y   |2.5\n3  |z      |4.5\n"), expected);
    assert_eq!(recognized("a | b    | c\n1 | x; y | 2.5  \n3 | z    | 4.5\n"), expected);
}

/// A space is that of a cell where it does not stand at every delimiter.
#[test]
fn a_space_of_some_cells_stays() {
    let ordinary = |delimiter| Some(Form::Delimited { delimiter, header: true, blanks: Blanks::default() });
    let texts = ["a,b,c\n1, x,2\n3, y,4\n", "a,b\n x,1\n y,2\n", "a,b\n1,x \n2,y \n", "a,b\n1,\" x\"\n2,\" y\"\n"];
    for text in texts {
        assert_eq!(form(text), ordinary(b','), "{text}");
    }
    assert_eq!(recognized(texts[0])[0], r#"{"a":1,"b":" x","c":2}"#);
    assert_eq!(recognized(texts[3])[0], r#"{"a":1,"b":" x"}"#);
    // Commas with a space are inside of cells, of which semicolons stand between.
    assert_eq!(form("id;place, east\n1;2.5, 3.5\n2;4.5, 5.5\n"), ordinary(b';'));
    let named = Hints { name: Some("a.csv"), complete: true, ..Hints::default() };
    assert_eq!(recognize("name, city\nAda, London\nBo,Rome\n", &named), ordinary(b','));
    let spaced = Some(Form::Delimited { delimiter: b',', header: true, blanks: SPACED });
    assert_eq!(recognize("name, city\nAda, London\nBo, Rome\n", &named), spaced);
}

#[test]
fn a_first_line_may_name_the_delimiter() {
    let expected = [r#"{"a":1,"b":"x"}"#, r#"{"a":2,"b":"y"}"#];
    for delimiter in [",", ";", "\t", "|", ":", "^"] {
        for (mark, end) in [("", "\n"), ("\u{feff}", "\r\n"), ("\u{feff}", "\n"), ("", "\r\n")] {
            let rows = [
                format!("sep={delimiter}"),
                format!("a{delimiter}b"),
                format!("1{delimiter}x"),
                format!("2{delimiter}y"),
            ];
            let text = format!("{mark}{}{end}", rows.join(end));
            assert_eq!(recognized(&text), expected, "{text}");
            let named = Hints { name: Some("a.csv"), complete: true, ..Hints::default() };
            assert_eq!(recognize(&text, &named), form(&text), "{text}");
        }
    }
    assert_eq!(recognized("sep=;\na;b;c\nx, y;z, w;v, u\n"), [r#"{"a":"x, y","b":"z, w","c":"v, u"}"#]);
    assert_eq!(form("sep=; \na;b\n1;2\n3;4\n"), None);
}

#[test]
fn a_line_like_that_with_the_delimiter_is_a_row() {
    let semicolons = Form::Delimited { delimiter: b';', header: false, blanks: Blanks::default() };
    let first = |text: &str| lines(&semicolons, text).expect("rows").first().cloned();
    for text in ["sep=;x\n", "sep=,;\n", "sep=;;\n", "\nsep=;\n", "sep;\n", "s"] {
        let row = text.trim_start_matches('\n').trim_end_matches('\n').split(';').next().unwrap_or_default();
        assert!(first(text).is_some_and(|record| record.starts_with(&format!("{{\"column_1\":\"{row}\""))), "{text}");
    }
    for text in ["sep=;", "sep=;\n", "sep=;\r\n\n"] {
        assert_eq!(first(text), None, "{text}");
    }
    let prose = "sep=.\nOne sentence. And two.\nThree.\n";
    assert_eq!(form(prose), None);
}

#[test]
fn sentences_with_commas_are_no_table() {
    for no in [
        "First, this\nThen, that\nLast, these\n",
        "Eggs, milk, bread\nHam, cheese, wine\nTea, rice, beans\n",
        "Hello all, welcome\nOn Monday, 3 people came\nOn Tuesday, 4 people left\n",
        "On May 1, 2024, we met\nOn June 2, 2023, we left\nOn July 3, 2020, we slept\nOn July 9, 2021, we woke\n",
        "cat x | sort\nls | wc\nps | head\n",
        "let a = f(x, y);\nlet b = f(1, 2);\nlet c = f(3, 4);\n",
    ] {
        assert_eq!(form(no), None, "{no}");
    }
}

/// Blocks of lines end inside values of every kind: short and long ones, with and without escapes.
#[test]
fn a_profile_does_not_depend_on_the_blocks_of_lines() {
    let mut text = String::from("id,kind,price,said,note,open\n");
    for row in 0..20_000 {
        let (kind, cents, note) = (row % 7, row % 100, "long ".repeat(row % 40));
        let extra = if row % 5_000 == 17 { ",more,\"and \"\"more\"\"\"" } else { "" };
        text += &format!("{row},kind {kind},{row}.{cents:02},\"\"\"{kind}\"\"\n{kind}\",{note},true{extra}\n");
    }
    text.push_str("20000,short");
    let form = Form::Delimited { delimiter: b',', header: true, blanks: Blanks::default() };
    let whole = read(&form, [text.as_str()]).expect("CSV");
    assert!(whole.0.len() > 2 << 20, "several blocks");
    for dice in [&[1, 3, 200][..], &[97], &[254, 250]] {
        assert_eq!(read(&form, slices(&text, dice)).expect("CSV"), whole);
    }
}

#[test]
fn a_table_with_too_many_columns_or_too_long_a_name_has_no_properties() {
    let names = |count: usize| (0..count).map(|index| format!("c{index}")).collect::<Vec<_>>().join(",");
    let form = Form::Delimited { delimiter: b',', header: true, blanks: Blanks::default() };
    for columns in [1, 127, 128, 129, 300] {
        for cells in [columns - 1, columns, columns + 1] {
            let row = vec!["1"; cells.max(1)].join(",");
            let text = format!("{}\n{row}\n{row},2\n7\n", names(columns));
            read(&form, [text.as_str()]).expect("CSV");
        }
    }
    for length in [255, 256, 257, NAME_BYTES_MAX] {
        let text = format!("a,{},\"b\"\"\"\n1,2,3\n4\n", "n".repeat(length));
        read(&form, [text.as_str()]).expect("CSV");
    }
}

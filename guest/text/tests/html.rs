//! Tables of HTML: what a naive printer writes is read back, wherever the text is cut.

mod support;

use lro_text::{ELEMENT_BYTES_MAX, Fault, Form, SAMPLE_BYTES_MAX, TOKEN_BYTES_MAX};
use proptest::prelude::*;
use serde_json::{Map, Value};
use support::{dice, form, lines, read, recognized, slices};

/// Cells as they are written, and the text of each.
const CELLS: &[(&str, &str)] = &[
    ("", ""),
    ("x", "x"),
    (" 007\n ", "007"),
    ("a < b &amp; c > d", "a < b & c > d"),
    ("AT&T & more", "AT&T & more"),
    ("&#233;&#xE9;&eacute;&nbsp;&mdash;", "ééé\u{a0}—"),
    ("<b>bold</b> <a href='?a>b'>link</a>", "bold link"),
    ("one<br>two<BR/>three", "one\ntwo\nthree"),
    ("<p>one</p><p>two</p>", "one\ntwo"),
    ("<!-- <td> -->shown<script>if (a < b) '<td>';</script>", "shown"),
    ("two\nlines", "two\nlines"),
    ("\"q\" \\ 東京", "\"q\" \\ 東京"),
];

fn rows() -> impl Strategy<Value = Vec<Vec<(&'static str, &'static str)>>> {
    (2_usize..5).prop_flat_map(|columns| {
        let row = proptest::collection::vec(proptest::sample::select(CELLS), columns);
        proptest::collection::vec(row, 2..8)
    })
}

/// How a table is printed: tags in capitals, closing tags of rows and cells, and what stands around the rows.
fn printed(rows: &[Vec<(&str, &str)>], names: &[&str], capitals: bool, closed: bool, around: usize) -> String {
    let tag = |name: &str| if capitals { name.to_ascii_uppercase() } else { name.to_owned() };
    let close = |name: &str| if closed { format!("</{}>", tag(name)) } else { String::new() };
    let row = |cells: &[&str], name: &str| {
        let cells: String =
            cells.iter().map(|cell| format!("<{} class=\"a>b\">{cell}{}\n", tag(name), close(name))).collect();
        format!("<{}>{cells}{}\n", tag("tr"), close("tr"))
    };
    let header = row(names, "th");
    let body: String =
        rows.iter().map(|cells| row(&cells.iter().map(|(written, _)| *written).collect::<Vec<_>>(), "td")).collect();
    match around {
        0 => header + &body,
        1 => format!("<table>\n<caption>A <i>caption</i></caption>{header}{body}</table>"),
        2 => format!("<table><thead>{header}</thead>\n<tbody>{body}</tbody></table>"),
        _ => format!("<!DOCTYPE html>\n<title><table></title><p>a < b</p><table>{header}{body}</table>\n</html>\n"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tables(mut rows in rows(), capitals: bool, closed: bool, around in 0..4_usize, cuts in dice()) {
        // No column is one of numbers or empty.
        rows[0].fill(("text", "text"));
        let names = ["ID", "full name", "É", "d"].into_iter().take(rows[0].len()).collect::<Vec<_>>();
        let text = printed(&rows, &names, capitals, closed, around);
        let (found, report) = read(&Form::HtmlTable, slices(&text, &cuts)).expect("records");
        let records = found.lines().map(|line| serde_json::from_str::<Map<_, _>>(line).expect("an object"));
        let expected = rows.iter().map(|row| -> Map<String, Value> {
            names.iter().map(|name| (*name).to_owned()).zip(row.iter().map(|(_, text)| Value::from(*text))).collect()
        });
        prop_assert!(records.eq(expected), "{}\n{}", text, found);
        prop_assert_eq!(report.ragged, 0);
        if around < 3 {
            prop_assert_eq!(form(&text), Some(Form::HtmlTable));
        }
    }

    /// Any markup at all: what is read does not depend on the slices.
    #[test]
    fn any_text(
        text in "(<table>|</table>|<tr>|<td>|<th>|</td>|</tr>|<p>|<br>|<!--|-->|<script>|</script>|&lt;|[<>&;!'\"= x/é-]){0,24}",
        cuts in dice(),
    ) {
        prop_assert_eq!(read(&Form::HtmlTable, slices(&text, &cuts)), read(&Form::HtmlTable, [text.as_str()]));
    }
}

#[test]
fn tables_of_real_tools() {
    let sqlite = "\
<TR><TH>iata</TH>
<TH>latitude</TH>
</TR>
<TR><TD>00M</TD>
<TD>31.95376472</TD>
</TR>
<TR><TD>x &lt; y &amp; &quot;z&quot;</TD>
<TD></TD>
</TR>
";
    let second = r#"{"iata":"x < y & \"z\"","latitude":null}"#;
    assert_eq!(recognized(sqlite), [r#"{"iata":"00M","latitude":31.95376472}"#, second]);
    let pandas = "\
<table border=\"1\" class=\"dataframe\">
  <thead>
    <tr style=\"text-align: right;\">
      <th></th>
      <th>name</th>
    </tr>
  </thead>
  <tbody>
    <tr>
      <th>0</th>
      <td>Ada</td>
    </tr>
    <tr>
      <th>1</th>
      <td>Grace</td>
    </tr>
  </tbody>
</table>";
    assert_eq!(recognized(pandas)[1], r#"{"column_1":1,"name":"Grace"}"#);
    let bare = "<TR><TD>1</TD><TD>a</TD></TR>\n<TR><TD>2</TD><TD>b</TD></TR>\n";
    assert_eq!(recognized(bare)[1], r#"{"column_1":2,"column_2":"b"}"#);
}

#[test]
fn names_stand_below_the_letters_of_a_spreadsheet() {
    let sheet = |letters: &[&str], rows: &[&[&str]]| {
        let row = |cells: &[&str], tag: &str| {
            let cells: String = cells.iter().map(|cell| format!("<{tag}>{cell}</{tag}>")).collect();
            format!("<tr>{cells}</tr>")
        };
        let rows: String = rows.iter().map(|cells| row(cells, "td")).collect();
        recognized(&format!("<table>{}{rows}</table>", row(letters, "th")))
    };
    let numbered: &[&[&str]] = &[&["1", "Order", "Note"], &["2", "17", "x"], &["3", "18", ""]];
    let expected = [r#"{"column_1":2,"Order":17,"Note":"x"}"#, r#"{"column_1":3,"Order":18,"Note":""}"#];
    assert_eq!(sheet(&["", "C", "D"], numbered), expected);
    assert_eq!(sheet(&["Z", "AA", "AB"], numbered)[0], r#"{"Z":1,"AA":"Order","AB":"Note"}"#);
    let plain: &[&[&str]] = &[&["Order", "Paid"], &["17", "true"], &["18", "false"]];
    assert_eq!(sheet(&["Z", "AA"], plain), [r#"{"Order":17,"Paid":true}"#, r#"{"Order":18,"Paid":false}"#]);
    for (letters, rows) in [
        (["A", "C"], plain),
        (["a", "b"], plain),
        (["A", "B"], &[&["Order", "Paid"], &["x", "yes"], &["y", "no"]]),
        (["A", "B"], &[&["16", "true"], &["17", "true"], &["18", "false"]]),
        (["A", "B"], &[&["Order", ""], &["17", "true"], &["18", "false"]]),
        (["A", "B"], &[&["n/a", "n/a"], &["17", "true"], &["18", "false"]]),
    ] {
        let first = format!(r#"{{"{}":"#, letters[0]);
        let found = sheet(&letters, rows);
        assert!(found.len() == 3 && found.iter().all(|line| line.starts_with(&first)), "{letters:?} {found:?}");
    }
}

#[test]
fn no_form_when_in_doubt() {
    let table = "<table><tr><th>a<th>b<tr><td>1<td>2<tr><td>3<td>4</table>";
    assert_eq!(form(table), Some(Form::HtmlTable));
    for no in [
        format!("{table}{table}"),
        format!("<html><p>{}</p>{table}</html>", "Much more text than table. ".repeat(20)),
        table.replace("<td>2", "<td colspan=2>2"),
        table.replace("<td>2", "<td>2<td>3"),
        "<table><tr><td>menu<td>page</table>".into(),
        "<table><tr><th>name<td>Ada<tr><th>born<td>1815</table>".into(),
        format!("{table}<tr>"),
    ] {
        assert_eq!(form(&no), None, "{no}");
    }
}

#[test]
fn faults_are_named() {
    let fault = |text: &str| lines(&Form::HtmlTable, text);
    assert_eq!(fault("<table><tr><td colspan='2'>x</table>"), Err(Fault::Span));
    assert_eq!(fault("<tr><td>x<td ROWSPAN = 3>"), Err(Fault::Span));
    assert_eq!(fault("<tr><td colspan=\"1\">x").map(|lines| lines.len()), Ok(1));
    assert_eq!(fault("<table><tr><td><table>"), Err(Fault::Second));
    assert_eq!(fault("<table></table><table>"), Err(Fault::Second));
    assert_eq!(fault("<table><tr><td>x"), Err(Fault::End));
    assert_eq!(fault("<tr><td>x</td"), Err(Fault::End));
    assert_eq!(fault("<table>x<tr><td>y</table>"), Err(Fault::Mixed));
    assert_eq!(fault("<tr><td>&unknown;"), Err(Fault::Reference));
    assert_eq!(fault("<tr><td>&#55296;"), Err(Fault::Reference));
    assert_eq!(fault("<tr><th>a<tr><td>1<tr><th>a"), Err(Fault::Misaligned));
    assert_eq!(fault("<table><tr><th>a<tr><td>1<tfoot><tr><td>2</table>"), Err(Fault::Misaligned));
    assert_eq!(fault(&format!("<tr><td>{}", "x".repeat(ELEMENT_BYTES_MAX + 1))), Err(Fault::Element));
    assert_eq!(fault(&format!("<tr>{}", "<td>".repeat(SAMPLE_BYTES_MAX + 1))), Err(Fault::FirstRow));
    assert_eq!(fault(&format!("<!--{}-->", "x".repeat(TOKEN_BYTES_MAX))), Err(Fault::Token));
}

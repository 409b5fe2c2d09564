//! Documents of real programs: see `files/make.py`.

use lro_document::{DocumentError, Extracted, Form, extract};
use serde_json::{Value, json};

use crate::support::{LIMIT, file, text_of, word, workbook};

fn markdown(name: &str) -> String {
    let Extracted { form, text } = extract(&file(name), LIMIT).unwrap();
    assert_eq!(form, Form::Markdown);
    text
}

fn records(name: &str) -> Value {
    records_of(&file(name))
}

fn records_of(document: &[u8]) -> Value {
    let Extracted { form, text } = extract(document, LIMIT).unwrap();
    assert_eq!(form, Form::Records);
    serde_json::from_str(&text).unwrap()
}

/// A row of texts, and of numbers behind a `#`. An empty cell is left out.
fn row(number: usize, cells: &[&str]) -> String {
    let cell = |(column, text): (u8, &&str)| match (text.strip_prefix('#'), char::from(b'A' + column)) {
        (Some(value), letter) => format!(r#"<c r="{letter}{number}"><v>{value}</v></c>"#),
        (None, _) if text.is_empty() => String::new(),
        (None, letter) => format!(r#"<c r="{letter}{number}" t="inlineStr"><is><t>{text}</t></is></c>"#),
    };
    format!(r#"<row r="{number}">{}</row>"#, (0..).zip(cells).map(cell).collect::<String>())
}

/// The first sheet of a workbook with these rows.
fn sheet(rows: &[&[&str]]) -> Value {
    let rows: String = (1..).zip(rows).map(|(number, cells)| row(number, cells)).collect();
    records_of(&workbook(&rows))["Orders"].clone()
}

#[test]
fn a_page_of_a_pdf_is_a_heading_and_its_lines() {
    assert_eq!(
        markdown("chromium.pdf"),
        "# Page 1\n\nAnnual report\nRevenue rose by 12 % in Zürich, offices in Kraków and Ελλάδα followed.\n\nA second \
         paragraph that is long enough to be broken into two lines by a program that prints it on\na page of paper, with a \
         difficult affix and a flow of ligatures.\n\n# Page 2\n\nStaff\n\nName Role Since\nAda Lovelace Analyst 1843\n\
         Grace Hopper Admiral 1943\n\n# Page 3\n\nOutlook\nThe invoice number is RX-20431.\n\n"
    );
}

#[test]
fn text_of_a_pdf_stands_in_forms_and_at_positions_too() {
    assert_eq!(
        markdown("reportlab.pdf"),
        "# Page 1\n\nQuarterly figures of the café\n\nfirst line\nsecond line\n\nleft right\n\nstamped by a form\n\n# Page 2\n\n\
         the last page\n\n"
    );
}

#[test]
fn a_word_document_keeps_headings_and_tables() {
    assert_eq!(
        markdown("python-docx.docx"),
        "# Minutes\n\nPresent: Ada & Grace.\n\n## Decisions\n\nThe release is postponed to May.\n\n| task | who |\n|---|---|\n\
         | tests \\| docs | Ada |\n| review | Grace |\n\nEnd <of> minutes\n\n"
    );
}

#[test]
fn a_text_box_of_a_word_document_is_a_paragraph_of_its_own() {
    let text = |text: &str| format!("<w:r><w:t>{text}</w:t></w:r>");
    let framed = format!("<w:txbxContent><w:p>{}</w:p></w:txbxContent>", text("in a box"));
    let body = format!(
        "<w:p>{}<w:r><w:drawing>{framed}</w:drawing></w:r>{}</w:p><w:p>{}</w:p>",
        text("before"),
        text("behind"),
        text("next")
    );
    assert_eq!(text_of(&word(&body)), "before\n\nin a box\n\nbehind\n\nnext\n\n");
}

#[test]
fn an_open_document_text_keeps_headings_and_tables() {
    assert_eq!(
        markdown("odfpy.odt"),
        "# Minutes\n\nPresent: Ada   & Grace.\n\n## Decisions\n\nThe release is postponed.\n\nLunch is at noon.\n\n\
         | task | who |\n|---|---|\n| tests \\| docs | Ada |\n| review | Grace |\n\nEnd\n<of> minutes\n\n"
    );
}

#[test]
fn slides_are_headings_in_their_order_with_titles_tables_and_notes() {
    assert_eq!(
        markdown("python-pptx.pptx"),
        "# Slide 1\n\n## Budget\n\n| item | sum |\n|---|---|\n| travel \\| food | 1200 |\n| rent | 900 |\n\n\
         first line\nsecond line\n\n## Notes\n\nDo not mention the loan.\n\n# Slide 2\n\n## Plans & hopes\n\nfor 2027\n\n\
         # Slide 3\n\n"
    );
    assert_eq!(
        markdown("odfpy.odp"),
        "# Slide 1\n\n## Plans & hopes\n\nfor 2027\n\n# Slide 2\n\n## Budget\n\nRent is 900.\n\n## Notes\n\n\
         Do not mention the loan.\n\n"
    );
}

#[test]
fn columns_of_a_pdf_are_read_one_after_the_other_and_tables_row_by_row() {
    let text = markdown("columns.pdf");
    let pages: Vec<&str> = text.split("# Page ").collect();
    let [_, prose, table, apart] = pages[..] else { panic!("{text}") };
    let at = |page: &str, words: &str| page.find(words).unwrap_or_else(|| panic!("no {words} in {page}"));
    let places = ["A title", "The quick", "answer the letters", "Staff were", "who cannot hear well.", "A line over"];
    assert!(places.map(|words| at(prose, words)).is_sorted(), "{prose}");
    assert!(prose.contains("sales\nrose in each region, and that the costs of\ntransport"), "{prose}");
    assert!(table.contains("Zürich order 0\nOslo order 1\n"), "{table}");
    let without_ends = |page: &str, from: &str, to: &str| page[at(page, from)..at(page, to)].replace("\n\n", "\n");
    let columns = |page| without_ends(page, "The quick", "who cannot");
    assert_eq!(columns(prose), columns(apart), "however they were drawn");
}

/// The sheet that each of three programs has written.
fn orders() -> Value {
    json!([
        {"id": 1, "city": "Zürich", "amount": 1234.5, "paid": true, "day": "2026-03-01", "note": "a \"quoted\" note"},
        {"id": 2, "city": "Oslo", "amount": 0.1, "paid": false, "day": "2026-03-02"},
        {"id": 3, "city": "Lima", "amount": -7, "paid": true, "day": "2026-12-31", "note": "two\nlines"},
    ])
}

#[test]
fn the_first_row_of_a_sheet_names_its_columns() {
    assert_eq!(records("openpyxl.xlsx")["Orders"], orders());
    assert_eq!(records("odfpy.ods"), json!({ "Orders": orders() }));
    assert_eq!(records("xlwt.xls"), json!({ "Orders": orders() }));
}

#[test]
fn columns_without_names_have_their_letters() {
    let book = records("openpyxl.xlsx");
    let plain = json!([{"A": 1, "B": 2.5, "C": "2026-01-02T03:04:05"}, {"E": "06:30:00", "AB": "far"}]);
    assert_eq!(book["Plain"], plain);
    assert_eq!(book["Empty"], json!([]));
    let titled = json!([{"A": "Sales of 2026"}, {"A": "region", "B": "sum"}, {"A": "north", "B": 10}]);
    assert_eq!(book["Titled & more"], titled);
}

#[test]
fn a_header_has_a_text_for_each_column_of_the_second_row() {
    let named = json!([{"a": 1, "b": "x"}, {"b": "y", "column C": 3}]);
    assert_eq!(sheet(&[&[" a ", "b"], &["#1", "x"], &["", "y", "#3"]]), named);
    for first in [&["a", "a"][..], &["a", "#2"], &["a"], &["a", " "], &["a", "column C"]] {
        let found = sheet(&[first, &["#1", "#2"]]);
        assert_eq!(found[1], json!({"A": 1, "B": 2}), "{first:?}");
    }
    assert_eq!(sheet(&[&["a", "b"]]), json!([{"A": "a", "B": "b"}]), "of one row");
}

#[test]
fn numbers_are_those_of_the_sheet() {
    let cells: Vec<String> =
        ["1", "-0.5", "9007199254740991", "1e300", "12345678901234567890", "0.1"].map(|n| format!("#{n}")).to_vec();
    let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
    let found = extract(&workbook(&row(1, &cells)), LIMIT).unwrap().text;
    let expected = r#"{"A":1,"B":-0.5,"C":9007199254740991,"D":1e300,"E":1.2345678901234567e19,"F":0.1}"#;
    assert!(found.contains(expected), "{found}");
    let error = r#"<row r="1"><c r="A1" t="e"><v>#DIV/0!</v></c><c r="B1"><f>1+1</f><v>2</v></c></row>"#;
    assert_eq!(records_of(&workbook(error))["Orders"], json!([{"A": "#DIV/0!", "B": 2}]));
}

#[test]
fn what_cannot_be_read_says_why() {
    let error = |name: &str| extract(&file(name), LIMIT).unwrap_err();
    assert_eq!(error("encrypted.pdf"), DocumentError::Encrypted);
    assert_eq!(error("scanned.pdf"), DocumentError::Empty);
    assert_eq!(error("make.py"), DocumentError::Unknown);
    assert_eq!(extract(b"", LIMIT), Err(DocumentError::Unknown));
}

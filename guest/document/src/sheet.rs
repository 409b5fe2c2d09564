//! The sheets of a workbook as one JSON object: `{"Sheet": [{"column": value, …}, …], …}`.
//!
//! The first row of a sheet names its columns when it has a text for each column of the second row, no text twice; else, and in
//! columns without a name, the letters of the column do. Empty cells and rows are left out. Numbers
//! are those that calamine reads, dates and times are in ISO 8601.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;

use calamine::{Data, ExcelDateTime, Ods, Range, Reader, SheetType, Xls, Xlsx, XlsxError};
use lro_json::write::push_string;

use super::DocumentError;
use super::output::Output;

/// What the name of a column without one begins with, beside columns that have one.
const UNNAMED: &str = "column ";

/// Numbers whose integers 64-bit floating point has all of: up to 2^53.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// The cells of a row by their column, from 0.
type Row = BTreeMap<u32, Data>;

/// A workbook of Excel since 2007. Its sheets are read cell by cell.
pub(crate) fn excel(document: &[u8], limit: usize) -> Result<String, DocumentError> {
    let mut book = Xlsx::new(Cursor::new(document)).map_err(excel_error)?;
    let mut writer = Writer::new(limit);
    for name in sheets(&book) {
        let mut sheet = writer.sheet(&name)?;
        let mut cells = book.worksheet_cells_reader(&name).map_err(excel_error)?;
        while let Some(cell) = cells.next_cell().map_err(excel_error)? {
            let (row, column) = cell.get_position();
            sheet.cell(row, column, cell.get_value().clone().into())?;
        }
        sheet.finish()?;
    }
    writer.finish()
}

/// A spreadsheet in the format OpenDocument.
pub(crate) fn open_document(document: &[u8], limit: usize) -> Result<String, DocumentError> {
    whole(Ods::new(Cursor::new(document)).map_err(damaged)?, limit)
}

/// A workbook of Excel before 2007.
///
/// # Errors
/// [`DocumentError::Unknown`] for any other document of programs of that time.
pub(crate) fn old_excel(document: &[u8], limit: usize) -> Result<String, DocumentError> {
    if let Err(XlsxError::Password) = Xlsx::new(Cursor::new(document)) {
        return Err(DocumentError::Encrypted);
    }
    whole(Xls::new(Cursor::new(document)).map_err(|_| DocumentError::Unknown)?, limit)
}

/// A workbook whose sheets are held in memory.
fn whole<'a, B: Reader<Cursor<&'a [u8]>>>(mut book: B, limit: usize) -> Result<String, DocumentError> {
    let mut writer = Writer::new(limit);
    for name in sheets(&book) {
        let mut sheet = writer.sheet(&name)?;
        let range: Range<Data> = book.worksheet_range(&name).map_err(damaged)?;
        let (first_row, first_column) = range.start().unwrap_or_default();
        for (row, column, value) in range.used_cells() {
            sheet.cell(
                first_row.saturating_add(row as u32),
                first_column.saturating_add(column as u32),
                value.clone(),
            )?;
        }
        sheet.finish()?;
    }
    writer.finish()
}

/// The names of the sheets with cells.
fn sheets<'a, B: Reader<Cursor<&'a [u8]>>>(book: &B) -> Vec<String> {
    let sheets = book.sheets_metadata().iter().filter(|sheet| sheet.typ == SheetType::WorkSheet);
    sheets.map(|sheet| sheet.name.clone()).collect()
}

fn excel_error(error: XlsxError) -> DocumentError {
    match error {
        XlsxError::Password => DocumentError::Encrypted,
        error => DocumentError::Damaged(error.to_string()),
    }
}

fn damaged(error: impl std::fmt::Debug) -> DocumentError {
    DocumentError::Damaged(format!("{error:?}"))
}

/// Writes the object of all sheets.
struct Writer {
    output: Output,
    sheets: usize,
    records: u64,
}

impl Writer {
    fn new(limit: usize) -> Self {
        Self { output: Output::new(limit), sheets: 0, records: 0 }
    }

    fn sheet(&mut self, name: &str) -> Result<Sheet<'_>, DocumentError> {
        let mut key = String::from(if self.sheets == 0 { "{" } else { ",\n" });
        push_string(&mut key, name);
        self.output.push(&key)?;
        self.output.push(":[")?;
        self.sheets += 1;
        Ok(Sheet { writer: self, number: None, row: Row::new(), header: Header::Unseen, records: 0 })
    }

    fn finish(mut self) -> Result<String, DocumentError> {
        if self.records == 0 {
            return Err(DocumentError::Empty);
        }
        self.output.push("}\n")?;
        Ok(self.output.finish())
    }
}

/// What names the columns of a sheet.
enum Header {
    Unseen,
    /// The first row, until the second one says whether it is a header.
    Held(Row),
    Names(BTreeMap<u32, String>),
    Letters,
}

/// Writes the array of one sheet.
struct Sheet<'a> {
    writer: &'a mut Writer,
    /// The number of the current row.
    number: Option<u32>,
    row: Row,
    header: Header,
    records: u64,
}

impl Sheet<'_> {
    fn cell(&mut self, row: u32, column: u32, value: Data) -> Result<(), DocumentError> {
        if self.number != Some(row) {
            self.end_row()?;
            self.number = Some(row);
        }
        if !matches!(&value, Data::Empty) && !matches!(&value, Data::String(text) if text.is_empty()) {
            self.row.insert(column, value);
        }
        Ok(())
    }

    fn end_row(&mut self) -> Result<(), DocumentError> {
        let row = std::mem::take(&mut self.row);
        if row.is_empty() {
            return Ok(());
        }
        self.header = match std::mem::replace(&mut self.header, Header::Letters) {
            Header::Unseen => {
                self.header = Header::Held(row);
                return Ok(());
            }
            Header::Held(first) => match names(&first, &row) {
                Some(names) => Header::Names(names),
                None => {
                    self.write(&first)?;
                    Header::Letters
                }
            },
            known => known,
        };
        self.write(&row)
    }

    fn finish(mut self) -> Result<(), DocumentError> {
        self.end_row()?;
        if let Header::Held(only) = std::mem::replace(&mut self.header, Header::Letters) {
            self.write(&only)?;
        }
        self.writer.records += self.records;
        self.writer.output.push("]")
    }

    fn write(&mut self, row: &Row) -> Result<(), DocumentError> {
        let mut record = String::from(if self.records == 0 { "{" } else { ",\n{" });
        for (index, (column, value)) in row.iter().enumerate() {
            if index > 0 {
                record.push(',');
            }
            match &self.header {
                Header::Names(names) => match names.get(column) {
                    Some(name) => push_string(&mut record, name),
                    None => push_string(&mut record, &format!("{UNNAMED}{}", letters(*column))),
                },
                _ => push_string(&mut record, &letters(*column)),
            }
            record.push(':');
            push_value(&mut record, value);
        }
        record.push('}');
        self.records += 1;
        self.writer.output.push(&record)
    }
}

/// The names of the columns, if the first row has them.
fn names(first: &Row, second: &Row) -> Option<BTreeMap<u32, String>> {
    let mut seen = BTreeSet::new();
    let mut names = BTreeMap::new();
    for (column, value) in first {
        let Data::String(text) = value else { return None };
        let name = text.trim();
        if name.is_empty() || name.starts_with(UNNAMED) || !seen.insert(name) {
            return None;
        }
        names.insert(*column, name.to_owned());
    }
    second.keys().all(|column| names.contains_key(column)).then_some(names)
}

/// The letters of a column: `A`, `Z`, `AA`.
fn letters(column: u32) -> String {
    let mut letters = Vec::new();
    let mut rest = Some(column);
    while let Some(number) = rest {
        letters.push(char::from(b'A' + (number % 26) as u8));
        rest = (number / 26).checked_sub(1);
    }
    letters.iter().rev().collect()
}

fn push_value(out: &mut String, value: &Data) {
    match value {
        Data::Int(number) => out.push_str(&number.to_string()),
        Data::Float(number) => push_number(out, *number),
        Data::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Data::String(text) | Data::DateTimeIso(text) | Data::DurationIso(text) => push_string(out, text),
        Data::DateTime(time) => push_string(out, &iso(time)),
        Data::Error(error) => push_string(out, &error.to_string()),
        Data::Empty => out.push_str("null"),
    }
}

/// A number: an integer without a fraction, any other with the fewest digits that read as the same number.
fn push_number(out: &mut String, number: f64) {
    if !number.is_finite() {
        // What JSON has no number for.
        push_string(out, &number.to_string());
    } else if number.fract() == 0.0 && number.abs() <= WHOLE_MAX {
        out.push_str(&(number as i64).to_string());
    } else {
        out.push_str(&format!("{number:?}"));
    }
}

/// A date, a time of day, both, or a duration in seconds.
fn iso(time: &ExcelDateTime) -> String {
    if time.is_duration() {
        return format!("PT{}S", (time.as_f64() * 86_400_000.0).round() / 1000.0);
    }
    let (year, month, day, hour, minute, second, milli) = time.to_ymd_hms_milli();
    let mut text = String::new();
    let is_time = time.as_f64() < 1.0;
    if !is_time {
        text = format!("{year:04}-{month:02}-{day:02}");
    }
    if is_time || (hour, minute, second, milli) != (0, 0, 0, 0) {
        text.push_str(if is_time { "" } else { "T" });
        text.push_str(&format!("{hour:02}:{minute:02}:{second:02}"));
    }
    if milli > 0 {
        text.push_str(&format!(".{milli:03}"));
    }
    text
}

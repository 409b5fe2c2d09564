//! A text part: its file, the records in it, or its outline.

use std::fmt;

use lro_json::masks::{BLOCK, equal};
use lro_json::pointer::last_key;
use lro_jsonl::{Document, Error, Profile, SURVEY_BYTES_MAX, Splitter, Survey, Surveyed};
use lro_text::outline::{Outline, Outliner};
use lro_text::{Break, BrokenJson, Reader, Report};

use crate::array::Array;
use crate::bindings::lro::filter::types::{FileKind, Form, Origin, PlannedRecords, PlannedSection, SectionShape};
use crate::directory::File;
use crate::entry::{Entry, OUTLINE_ENTRIES_MIN, Preview, TextOutline};
use crate::form::{DOCUMENT, Head, form, is_document, read_json};
use crate::plan::{RECORDS, configured};
use crate::records::{Derived, Records};
use crate::rows::Rows;
use crate::strings::{Outer, PlannedText, TEXT};
use crate::tokens::TokenSample;
use crate::write::Writer;
use crate::{Part, PartKind, PolicyError, Source};

/// Name of the section with the outline of a text.
const OUTLINE: &str = "outline";

/// Bytes of JSON at the beginning of a text that show that it was to be JSON: `[1] A title` was not.
const JSON_BYTES_MIN: u64 = 16;

/// A text to be written: a part, or a string inside one.
pub(crate) struct Text<'a> {
    /// What reads it, by the index of its part.
    pub(crate) source: &'a dyn Source,
    pub(crate) index: u32,
    /// The part, or what the string would be as one.
    pub(crate) part: &'a Part,
    /// Where the string is in its part.
    pub(crate) pointer: Option<&'a str>,
    /// Name of its section.
    pub(crate) section: String,
    /// The file of the string around it, of the outermost one, which keeps its bytes.
    pub(crate) within: Option<&'a str>,
    /// How many strings it is in.
    pub(crate) depth: usize,
}

impl<'a> Text<'a> {
    fn of_part(source: &'a dyn Source, index: u32, part: &'a Part, section: String) -> Self {
        Self { source, index, part, pointer: None, section, within: None, depth: 0 }
    }

    /// What is in another file too is derived from that.
    pub(crate) fn origin(&self) -> Origin {
        if self.within.is_some() { Origin::RecordsOfText } else { Origin::Content }
    }

    pub(crate) fn form(&self) -> Option<Form> {
        self.within.map(|_| Form::JsonWithin)
    }
}

/// As a note names it.
impl fmt::Display for Text<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "part {}", self.index)?;
        self.pointer.map_or(Ok(()), |pointer| write!(formatter, ", {pointer}"))
    }
}

impl Writer<'_> {
    /// Writes a part that is a text.
    pub(crate) fn text_part(&mut self, index: u32, part: &Part) -> Result<(), PolicyError> {
        if part.kind == PartKind::Text && self.whole_string(index, &self.plain_name(part, TEXT))? {
            return Ok(());
        }
        let text = Text::of_part(self.source, index, part, self.section_of_text(part));
        self.text(text)
    }

    fn section_of_text(&mut self, part: &Part) -> String {
        self.section_names.section(&self.plain_name(part, TEXT))
    }

    /// Writes a part that is a text with records.
    pub(crate) fn records_part(
        &mut self,
        index: u32,
        part: &Part,
        planned: &PlannedRecords,
    ) -> Result<(), PolicyError> {
        let Some((form, named)) = form(self.source, index, part)? else {
            self.contents.notes.push(format!("part {index} has no records; written as text"));
            return self.text_part(index, part);
        };
        let text = Text::of_part(self.source, index, part, self.section_of_text(part));
        self.text_with_records(text, &form, &PlannedRecords { form: named, name: planned.name.clone() })
    }

    /// Writes a part that turned out to be no JSON document: one that begins as such may have other text behind it.
    pub(crate) fn broken_document(&mut self, index: u32, part: &Part) -> Result<(), PolicyError> {
        let form = match part.kind {
            PartKind::Text if Head::read(self.source, index)?.is_document() => Some(DOCUMENT),
            PartKind::Text => json_break(self.source, index)?.and_then(|found| found.elements),
            _ => None,
        };
        let Some(form) = form else { return self.text_part(index, part) };
        let text = Text::of_part(self.source, index, part, self.section_of_text(part));
        let name = self.section_names.section(RECORDS);
        self.text_with_records(text, &form, &PlannedRecords { form: Form::JsonWithin, name })
    }

    /// Writes a text and its outline.
    pub(crate) fn text(&mut self, text: Text<'_>) -> Result<(), PolicyError> {
        let mut file = self.text_file(&text, text.part.kind == PartKind::Meta)?;
        let mut outliner = Outliner::default();
        text.source.read_text(text.index, &mut |slice| {
            outliner.push(slice.as_bytes());
            file.push(slice).map(|()| true)
        })?;
        let entry = file.finish();
        if text.part.kind == PartKind::Text {
            let entry = Entry { remark: broken_json(text.source, text.index)?, ..entry };
            return self.outlined(entry, outliner.finish());
        }
        self.contents.entries.push(entry);
        Ok(())
    }

    /// Writes a text and its records. A text that does not keep its form is written with its outline, a JSON document that is
    /// not the table it began as with its sections.
    pub(crate) fn text_with_records(
        &mut self,
        text: Text<'_>,
        form: &lro_text::Form,
        planned: &PlannedRecords,
    ) -> Result<(), PolicyError> {
        let Text { source, index, part, pointer, .. } = text;
        let is_table = matches!(planned.form, Form::JsonColumns);
        let mut file = self.text_file(&text, is_table || pointer.is_some() && *form == DOCUMENT)?;
        let original = file.entry.file_name.clone();
        let (sections, strings) = self.sections_of_text(&text, form, planned)?;
        let options = self.options(&sections);
        let kept = options.keep.clone();
        let (infer, parts) = (self.call.settings.infer, [index]);
        let content = text.within.unwrap_or(&original);
        let derived = Derived { from: content, origin: Origin::RecordsOfText, form: Some(planned.form) };
        let mut records = self.records(&parts, &sections, Some(derived));
        let reader = if infer { Reader::with_profile(form) } else { Reader::new(form) };
        let lines = if is_document(form) {
            Lines::Document(Box::new(Splitter::new(options, &mut records)))
        } else if form.is_table() {
            Lines::Rows(Rows::new(&mut records))
        } else {
            Lines::Values(Box::new(Array::new(infer, &mut records)))
        };
        let mut reading = Reading { reader, lines, broken: None };
        source.read_text(index, &mut |slice| {
            file.push(slice)?;
            reading.push(slice).map(|()| true)
        })?;
        match reading.finish()? {
            Ok((report, document)) => {
                let mut files = records.entries;
                self.contents.entries.push(file.finish());
                if let Some(remark) = incomplete(form, &report) {
                    self.contents.notes.push(format!("{text}: {remark}"));
                    files.iter_mut().for_each(|entry| entry.remark = Some(remark.clone()));
                }
                if report.ragged > 0 {
                    let ragged = report.ragged;
                    self.contents.notes.push(format!("{text}: {ragged} rows have more or fewer cells than columns"));
                }
                self.add_document(document, files, &kept);
                let pointer = pointer.unwrap_or_default();
                let outer = Outer { source, index, pointer, file: Some(content), depth: text.depth };
                strings.iter().try_for_each(|string| self.string(outer, string))
            }
            Err(broken) if is_table => {
                records.discard()?;
                self.remove(file)?;
                self.contents.notes.push(format!("{text} is not a table: {broken}; its sections are written"));
                if pointer.is_some() {
                    let planned = PlannedRecords { form: Form::JsonWithin, name: planned.name.clone() };
                    return self.text_with_records(text, &DOCUMENT, &planned);
                }
                let (sections, _) = self.sections_of_text(&text, &DOCUMENT, planned)?;
                self.section_names.release(&text.section);
                self.json(index, part, &sections)
            }
            Err(broken) if is_json(form) => {
                records.discard()?;
                self.remove(file)?;
                let name = planned.name.clone();
                let elements = json_break(source, index)?.and_then(|found| found.elements);
                let (form, named, note) = match elements {
                    Some(elements) => (elements, Form::JsonWithin, "its elements before that are read"),
                    None => (lro_text::Form::JsonLines, Form::JsonLines, "read line by line"),
                };
                self.contents.notes.push(format!("{text}: {broken}; {note}"));
                self.text_with_records(text, &form, &PlannedRecords { form: named, name })
            }
            Err(broken) => {
                records.discard()?;
                self.contents.notes.push(format!("{text} has no records: {broken}; written as text"));
                let mut outliner = Outliner::default();
                source.read_text(index, &mut |slice| {
                    outliner.push(slice.as_bytes());
                    Ok(true)
                })?;
                let entry = Entry { remark: broken_json(source, index)?, ..file.finish() };
                self.outlined(entry, outliner.finish())
            }
        }
    }

    /// Removes a file whose text is to be written anew.
    fn remove(&mut self, file: TextFile) -> Result<(), PolicyError> {
        let name = file.entry.file_name.clone();
        // Windows keeps the name of a removed file until it is closed.
        drop(file);
        self.directory.remove(&name)?;
        self.file_names.release_file(&name);
        Ok(())
    }

    fn text_file(&mut self, text: &Text<'_>, is_json: bool) -> Result<TextFile, PolicyError> {
        let (extension, media_type) = if is_json { ("json", "application/json") } else { ("txt", "text/plain") };
        let file_name = self.file_names.file(&text.section, self.call.session.as_deref(), extension);
        Ok(TextFile {
            file: self.directory.create(&file_name)?,
            entry: Entry {
                file_name,
                section: text.section.clone(),
                kind: FileKind::Text,
                parts: vec![text.index],
                origin: text.origin(),
                form: text.form(),
                derived_from: text.within.map(str::to_owned),
                pointer: text.pointer.map(str::to_owned),
                media_type: text.part.media_type.clone().unwrap_or_else(|| media_type.to_owned()),
                ..Entry::default()
            },
            count: Count::default(),
        })
    }

    /// The sections of the records in a text: one, but for a JSON document with several in it, and with strings that are texts if
    /// it is a string itself.
    fn sections_of_text(
        &mut self,
        text: &Text<'_>,
        form: &lro_text::Form,
        planned: &PlannedRecords,
    ) -> Result<(Vec<PlannedSection>, Vec<PlannedText>), PolicyError> {
        let whole = lro_jsonl::Section { pointer: String::new(), shape: lro_jsonl::Shape::Elements };
        let is_string = *form == DOCUMENT && text.depth > 0;
        let Surveyed { sections: found, texts } = match self.call.settings.sections.is_empty() {
            _ if !is_document(form) => Surveyed { sections: vec![whole], ..Surveyed::default() },
            true => survey(text.source, text.index, form, is_string)?,
            false => Surveyed { sections: configured(self.call), ..Surveyed::default() },
        };
        let is_only = found.len() == 1;
        let mut named = |found: lro_jsonl::Section| PlannedSection {
            name: match last_key(&found.pointer).filter(|_| !is_only) {
                Some(key) => self.section_names.section(&key),
                None => planned.name.clone(),
            },
            shape: found.shape.into(),
            pointer: found.pointer,
        };
        let mut planned: Vec<_> = found.into_iter().take(self.large_max).map(&mut named).collect();
        planned.extend(self.planned_strings(text.depth, texts));
        self.strings(text.source, text.index, &planned)
    }

    /// Adds a text, and writes its outline.
    fn outlined(&mut self, mut text: Entry, outline: Outline) -> Result<(), PolicyError> {
        text.outline = Some(TextOutline::of(&outline));
        let content = text.derived_from.as_ref().unwrap_or(&text.file_name);
        let (original, parts) = (content.clone(), text.parts.clone());
        self.contents.entries.push(text);
        self.contents.notes.extend(outline.notes);
        if outline.entries.len() < OUTLINE_ENTRIES_MIN {
            return Ok(());
        }
        let record = |entry: &lro_text::outline::Entry| {
            let mut record = String::new();
            entry.write_json(&mut record);
            record
        };
        self.outline(&original, &parts, OUTLINE, outline.entries.iter().map(record))
    }

    /// Writes what is where in a file as records of a section.
    pub(crate) fn outline(
        &mut self,
        original: &str,
        parts: &[u32],
        name: &str,
        mut entries: impl Iterator<Item = String>,
    ) -> Result<(), PolicyError> {
        let section = PlannedSection {
            pointer: String::new(),
            shape: SectionShape::Elements,
            name: self.section_names.section(name),
        };
        let infer = self.call.settings.infer;
        let derived = Derived { from: original, origin: Origin::Outline, form: None };
        let mut records = self.records(parts, std::slice::from_ref(&section), Some(derived));
        let mut array = Array::new(infer, &mut records);
        match entries.try_for_each(|entry| array.text(&entry)).and_then(|()| array.finish()) {
            Ok(_) => {
                let files = records.entries;
                self.contents.entries.extend(files);
                Ok(())
            }
            Err(Error::Output(error)) => Err(error),
            Err(Error::Syntax(error)) => Err(PolicyError::Other(format!("an outline that is not JSON: {error}"))),
        }
    }
}

/// The sections of the JSON document in a text, and the texts if wanted. A text that breaks its form has none; that is noticed again when it is
/// read for its records.
pub(crate) fn survey(
    source: &dyn Source,
    index: u32,
    form: &lro_text::Form,
    texts: bool,
) -> Result<Surveyed, PolicyError> {
    let (mut survey, mut reader) = (Survey::new(), Some(Reader::new(form)));
    let mut seen = 0;
    let mut add = |json: &[u8]| survey.push(text_of(json)?).map_err(Error::<PolicyError>::Syntax);
    let mut is_json = true;
    source.read_text(index, &mut |slice| {
        is_json = reader.as_mut().is_some_and(|reader| reader.push(slice, &mut add).is_ok());
        seen += slice.len();
        Ok(is_json && seen < SURVEY_BYTES_MAX)
    })?;
    let whole = seen < SURVEY_BYTES_MAX;
    if whole && let Some(reader) = reader.take() {
        is_json &= reader.finish(&mut add).is_ok();
    }
    let found = match texts {
        true => survey.finish_with_texts(whole),
        false => survey.finish(whole).map(|sections| Surveyed { sections, ..Surveyed::default() }),
    };
    Ok(found.ok().filter(|_| is_json).unwrap_or_default())
}

/// The lines of a reader. It gives whole characters.
fn text_of(lines: &[u8]) -> Result<&str, Error<PolicyError>> {
    let wrong = |error| Error::Output(PolicyError::Other(format!("lines of a reader: {error}")));
    std::str::from_utf8(lines).map_err(wrong)
}

/// A text that is being written.
struct TextFile {
    file: File,
    entry: Entry,
    count: Count,
}

impl TextFile {
    fn push(&mut self, slice: &str) -> Result<(), PolicyError> {
        self.count.push(slice);
        self.file.append(slice.as_bytes())
    }

    fn finish(self) -> Entry {
        self.count.into_entry(self.file.bytes(), self.entry)
    }
}

/// What is counted while a text is written.
#[derive(Default)]
pub(crate) struct Count {
    preview: Preview,
    sample: TokenSample,
    /// Line breaks so far.
    pub(crate) breaks: u64,
    within_line: bool,
}

impl Count {
    pub(crate) fn push(&mut self, slice: &str) {
        self.breaks += breaks(slice.as_bytes());
        self.within_line = !slice.ends_with('\n');
        self.preview.add(slice);
        self.sample.push(slice.as_bytes());
    }

    /// Ends a line that is open, with a line feed that does not belong to the text; whether there was one.
    pub(crate) fn end_line(&mut self) -> bool {
        let is_open = std::mem::take(&mut self.within_line);
        if is_open {
            self.breaks += 1;
            self.preview.add("\n");
        }
        is_open
    }

    /// The entry of the file of so many bytes, completed with what was counted.
    pub(crate) fn into_entry(self, bytes: u64, entry: Entry) -> Entry {
        Entry {
            records: self.breaks + u64::from(self.within_line),
            bytes,
            // The result has the data once, whatever else is made of it.
            tokens: if entry.origin == Origin::Content { self.sample.tokens(bytes) } else { 0 },
            preview: Some(self.preview),
            ..entry
        }
    }
}

/// Line feeds of a text.
fn breaks(text: &[u8]) -> u64 {
    let (blocks, rest) = text.as_chunks::<BLOCK>();
    let of_rest = rest.iter().filter(|&&byte| byte == b'\n').count() as u64;
    blocks.iter().fold(of_rest, |breaks, block| breaks + u64::from(equal(block, b'\n').count_ones()))
}

/// Reads the records of a text into files, until the text breaks its form.
struct Reading<'a, 'b> {
    reader: Reader,
    lines: Lines<'a, 'b>,
    /// How the text broke its form.
    broken: Option<String>,
}

/// Where the lines of a reader go.
enum Lines<'a, 'b> {
    /// Each is a record that the reader made of cells.
    Rows(Rows<'a, 'b>),
    /// Each is a record.
    Values(Box<Array<'a, 'b>>),
    /// Together they are a JSON document.
    Document(Box<Splitter<&'a mut Records<'b>>>),
}

impl Lines<'_, '_> {
    fn push(&mut self, lines: &[u8]) -> Result<(), Error<PolicyError>> {
        match self {
            Self::Rows(rows) => rows.push(lines).map_err(Error::Output),
            Self::Values(array) => array.lines(text_of(lines)?),
            Self::Document(splitter) => splitter.push(text_of(lines)?),
        }
    }

    fn finish(self, report: &Report, profile: Option<Profile>) -> Result<Document, Error<PolicyError>> {
        match self {
            Self::Rows(rows) => rows.finish(report.records, profile).map_err(Error::Output),
            Self::Values(array) => array.finish(),
            Self::Document(splitter) => splitter.finish().map(|(document, _)| document),
        }
    }
}

impl Reading<'_, '_> {
    fn push(&mut self, slice: &str) -> Result<(), PolicyError> {
        if self.broken.is_none() {
            let Self { reader, lines, .. } = self;
            let read = reader.push(slice, &mut |given| lines.push(given));
            self.broken = read.err().map(broken).transpose()?;
        }
        Ok(())
    }

    /// Ends the text. Returns what was read, or how the text broke its form.
    fn finish(self) -> Result<Result<(Report, Document), String>, PolicyError> {
        let Self { reader, mut lines, broken: before } = self;
        if let Some(before) = before {
            return Ok(Err(before));
        }
        let read = reader.finish_with_profile(&mut |given| lines.push(given));
        let read = read.and_then(|(report, profile)| {
            let document = lines.finish(&report, profile).map_err(lro_text::Error::Output)?;
            Ok((report, document))
        });
        match read {
            Ok(read) => Ok(Ok(read)),
            Err(error) => broken(error).map(Err),
        }
    }
}

/// Where a text that begins as JSON breaks, if it does.
fn json_break(source: &dyn Source, index: u32) -> Result<Option<Break>, PolicyError> {
    let mut json = None;
    read_json(source, index, &mut |slice| {
        if json.is_none() && !slice.trim_start().starts_with(['{', '[']) {
            return Ok(false);
        }
        Ok(json.get_or_insert_with(BrokenJson::default).push(slice))
    })?;
    Ok(json.and_then(BrokenJson::finish).filter(|found| found.fault.offset >= JSON_BYTES_MIN))
}

/// What is said of a text that begins as JSON and breaks.
fn broken_json(source: &dyn Source, index: u32) -> Result<Option<String>, PolicyError> {
    let found = json_break(source, index)?;
    Ok(found.map(|Break { line, fault, .. }| format!("JSON that breaks in line {line}: {fault}")))
}

/// What is said of records that are not all that the text has.
fn incomplete(form: &lro_text::Form, report: &Report) -> Option<String> {
    let lro_text::Form::JsonElements { line, fault, .. } = form else { return bad_lines(report) };
    Some(format!(
        "the complete elements before line {line}, where the JSON breaks: {fault}; the rest is in the text alone"
    ))
}

/// Whether a text that breaks this form may be JSON Lines of which a few are something else.
fn is_json(form: &lro_text::Form) -> bool {
    matches!(form, lro_text::Form::JsonValues | lro_text::Form::JsonWithin { .. })
}

/// What is said of lines that are not JSON.
fn bad_lines(report: &Report) -> Option<String> {
    let first = report.first_bad_line?;
    let all = report.records + report.bad_lines;
    let bad = report.bad_lines;
    Some(format!("not JSON: {bad} of {all} lines, the first is line {first}; they are in the text alone"))
}

/// How a text broke its form; an error of the output stays one.
fn broken(error: lro_text::Error<Error<PolicyError>>) -> Result<String, PolicyError> {
    match error {
        lro_text::Error::Text(error) => Ok(error.to_string()),
        lro_text::Error::Output(Error::Syntax(error)) => Ok(error.to_string()),
        lro_text::Error::Output(Error::Output(error)) => Err(error),
    }
}

//! The files that many parts share: the records of JSON texts, texts one after another, bytes one after another.
//!
//! Beside texts and bytes there is the section `blocks`, an outline: where each part is in the file, so that its bytes can
//! be cut out again.

use crate::bindings::lro::filter::types::{FileKind, PlannedSection, SectionShape};
use crate::descriptor::{Entry, Preview};
use crate::directory::File;
use crate::records::Records;
use crate::write::{Writer, read};
use crate::{Part, PolicyError, Source};
use lro_json::Validator;
use lro_json::write::{Object, string};
use lro_jsonl::{BLOCK_BYTES, Error, Measure, Options, Section, Shape, Splitter};
use std::ops::Range;

/// Name of the outline of a file that many parts share.
const OUTLINE: &str = "blocks";

/// White space between the tokens of JSON.
const WHITE: [char; 4] = [' ', '\t', '\n', '\r'];

/// A part in a file that it shares with others.
struct Block {
    part: u32,
    /// Its bytes in the file.
    bytes: Range<u64>,
    /// Number of its first line, from 1, and of the line after it. Of a binary part both are 0.
    lines: Range<u64>,
}

/// A file that is written in large pieces.
struct Buffered {
    file: File,
    buffer: Vec<u8>,
}

impl Buffered {
    fn new(file: File) -> Self {
        Self { file, buffer: Vec::with_capacity(BLOCK_BYTES) }
    }

    /// Bytes appended so far.
    fn bytes(&self) -> u64 {
        self.file.bytes() + self.buffer.len() as u64
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), PolicyError> {
        if self.buffer.len() + bytes.len() > BLOCK_BYTES {
            self.flush()?;
        }
        if bytes.len() > BLOCK_BYTES {
            return self.file.append(bytes);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), PolicyError> {
        self.file.append(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

impl<S: Source> Writer<'_, S> {
    /// Writes JSON texts as one section: each a record, or the elements of each. Texts of which one is not JSON are
    /// written as texts.
    pub(crate) fn joined_records(&mut self, members: &[u32], section: &PlannedSection) -> Result<(), PolicyError> {
        let mut records = Records {
            call: self.call,
            directory: &self.directory,
            parts: members,
            planned: std::slice::from_ref(section),
            outline_of: None,
            file_names: &mut self.file_names,
            section_names: &mut self.section_names,
            entries: Vec::new(),
            current: None,
            rest: None,
        };
        let mut array = Array::new(self.call.settings.infer, &mut records);
        let mut add_all = || {
            for &member in members {
                match section.shape {
                    SectionShape::Value => array.value(self.source, member)?,
                    _ => array.elements(self.source, member)?,
                }
            }
            Ok(())
        };
        match add_all().and_then(|()| array.finish()) {
            Ok(bytes) => {
                self.contents.compact_bytes += bytes;
                self.contents.entries.append(&mut records.entries);
                Ok(())
            }
            Err(Error::Output(error)) => Err(error),
            Err(Error::Syntax(error)) => {
                records.discard()?;
                self.contents
                    .notes
                    .push(format!("a text is not JSON: {error}; all of its section are written as text"));
                self.joined_text(members)
            }
        }
    }

    /// Writes texts one after another, each on lines of its own, and their outline.
    pub(crate) fn joined_text(&mut self, members: &[u32]) -> Result<(), PolicyError> {
        let section = self.section_names.section("text");
        let file_name = self.file_names.file(&section, self.call.session.as_deref(), "txt");
        let mut file = Buffered::new(self.directory.create(&file_name)?);
        let (mut lines, mut preview, mut size) = (0, Preview::default(), Measure::text());
        let mut blocks = Vec::with_capacity(members.len());
        for &part in members {
            let (start, first) = (file.bytes(), lines);
            let mut open_line = false;
            self.source.read_text(part, &mut |slice| {
                lines += slice.bytes().filter(|&byte| byte == b'\n').count() as u64;
                open_line = !slice.ends_with('\n');
                preview.add(slice);
                size.push(slice);
                file.append(slice.as_bytes()).map(|()| true)
            })?;
            let end = file.bytes();
            if open_line {
                file.append(b"\n")?;
                lines += 1;
            }
            blocks.push(Block { part, bytes: start..end, lines: first + 1..lines + 1 });
        }
        file.flush()?;
        self.contents.compact_bytes += file.bytes();
        self.contents.entries.push(Entry {
            file_name: file_name.clone(),
            section,
            kind: FileKind::Text,
            parts: members.to_vec(),
            media_type: "text/plain".to_owned(),
            records: lines,
            bytes: file.bytes(),
            tokens: size.tokens(),
            preview: Some(preview),
            ..Entry::default()
        });
        self.outline(members, &blocks, &file_name)
    }

    /// Writes binary parts one after another, and their outline.
    pub(crate) fn joined_bytes(&mut self, members: &[u32]) -> Result<(), PolicyError> {
        let section = self.section_names.section("binary");
        let file_name = self.file_names.file(&section, self.call.session.as_deref(), "bin");
        let mut file = Buffered::new(self.directory.create(&file_name)?);
        let mut blocks = Vec::with_capacity(members.len());
        for &part in members {
            let start = file.bytes();
            loop {
                let slice = self.source.read_bytes(part, file.bytes() - start)?;
                if slice.is_empty() {
                    break;
                }
                file.append(&slice)?;
            }
            blocks.push(Block { part, bytes: start..file.bytes(), lines: 0..0 });
        }
        file.flush()?;
        self.contents.compact_bytes += file.bytes();
        self.contents.entries.push(Entry {
            file_name: file_name.clone(),
            section,
            kind: FileKind::Bytes,
            parts: members.to_vec(),
            media_type: "application/octet-stream".to_owned(),
            bytes: file.bytes(),
            // The model would have received binary parts as base64.
            tokens: file.bytes().div_ceil(3),
            ..Entry::default()
        });
        self.outline(members, &blocks, &file_name)
    }

    /// Writes the section `blocks` of a file.
    fn outline(&mut self, members: &[u32], blocks: &[Block], file_name: &str) -> Result<(), PolicyError> {
        let section = PlannedSection {
            pointer: String::new(),
            shape: SectionShape::Elements,
            name: self.section_names.section(OUTLINE),
        };
        let mut records = Records {
            call: self.call,
            directory: &self.directory,
            parts: members,
            planned: &[section],
            outline_of: Some(file_name),
            file_names: &mut self.file_names,
            section_names: &mut self.section_names,
            entries: Vec::new(),
            current: None,
            rest: None,
        };
        let mut array = Array::new(self.call.settings.infer, &mut records);
        let mut add_all = || blocks.iter().try_for_each(|block| array.text(&block.record(self.parts)));
        match add_all().and_then(|()| array.finish()) {
            Ok(_) => {}
            Err(Error::Output(error)) => return Err(error),
            Err(Error::Syntax(error)) => {
                return Err(PolicyError::Other(format!("an outline that is not JSON: {error}")));
            }
        }
        // What it says of the text is no part of the result.
        let entries = records.entries.into_iter().map(|entry| Entry { tokens: 0, ..entry });
        self.contents.entries.extend(entries);
        Ok(())
    }
}

impl Block {
    /// Its record in the outline.
    fn record(&self, parts: &[Part]) -> String {
        let mut record = Object::default();
        record.member("block", &self.part.to_string());
        if self.lines.start > 0 {
            record.member("line", &self.lines.start.to_string());
            record.member("lines", &(self.lines.end - self.lines.start).to_string());
        }
        record.member("offset", &self.bytes.start.to_string());
        record.member("bytes", &(self.bytes.end - self.bytes.start).to_string());
        if let Some(part) = parts.get(self.part as usize) {
            for (key, value) in [("name", &part.name), ("media_type", &part.media_type)] {
                if let Some(value) = value {
                    record.member(key, &string(value));
                }
            }
        }
        record.finish()
    }
}

/// A JSON array of many values, which a splitter takes apart into records.
struct Array<'a, 'b> {
    splitter: Splitter<&'a mut Records<'b>>,
    has_elements: bool,
}

impl<'a, 'b> Array<'a, 'b> {
    fn new(infer: bool, records: &'a mut Records<'b>) -> Self {
        let section = Section { pointer: String::new(), shape: Shape::Elements };
        let options = Options { sections: vec![section], profile: infer, ..Options::default() };
        Self { splitter: Splitter::new(options, records), has_elements: false }
    }

    /// Begins the next element.
    fn next(&mut self) -> Result<(), Error<PolicyError>> {
        let before = if self.has_elements { "," } else { "[" };
        self.has_elements = true;
        self.splitter.push(before)
    }

    /// Adds a JSON value.
    fn text(&mut self, value: &str) -> Result<(), Error<PolicyError>> {
        self.next()?;
        self.splitter.push(value)
    }

    /// Adds the value of a part. Its end is checked, because what follows could complete a broken one.
    fn value(&mut self, source: &impl Source, part: u32) -> Result<(), Error<PolicyError>> {
        self.next()?;
        let mut validator = Validator::new();
        read(source, part, &mut |slice| {
            validator.push(slice)?;
            self.splitter.push(slice)
        })?;
        Ok(validator.finish()?)
    }

    /// Adds the elements of a part that is an array, or its value.
    fn elements(&mut self, source: &impl Source, part: u32) -> Result<(), Error<PolicyError>> {
        let Some(inside) = inside(source, part)? else { return self.value(source, part) };
        if inside.is_empty() {
            return Ok(());
        }
        self.next()?;
        let mut offset = 0;
        read(source, part, &mut |slice| {
            let index = |at: u64| usize::try_from(at.saturating_sub(offset)).unwrap_or(usize::MAX).min(slice.len());
            let pushed = self.splitter.push(&slice[index(inside.start)..index(inside.end)]);
            offset += slice.len() as u64;
            pushed
        })
    }

    /// Ends the array. Returns its size without white space.
    fn finish(mut self) -> Result<u64, Error<PolicyError>> {
        self.splitter.push(if self.has_elements { "]" } else { "[]" })?;
        self.splitter.finish().map(|(document, _)| document.bytes)
    }
}

/// The bytes between the brackets of a JSON array, empty when it has no elements; `None` for another value.
fn inside(source: &impl Source, part: u32) -> Result<Option<Range<u64>>, Error<PolicyError>> {
    let mut validator = Validator::new();
    let (mut offset, mut is_array, mut last) = (0, None, 0);
    // Offsets of the first two characters that are not white space.
    let mut first: [Option<u64>; 2] = [None; 2];
    read(source, part, &mut |slice| {
        validator.push(slice)?;
        let mut rest = slice;
        while let Some(missing) = first.iter_mut().find(|found| found.is_none()) {
            rest = rest.trim_start_matches(WHITE);
            let Some(character) = rest.chars().next() else { break };
            *missing = Some(offset + (slice.len() - rest.len()) as u64);
            is_array.get_or_insert(character == '[');
            rest = &rest[character.len_utf8()..];
        }
        let end = slice.trim_end_matches(WHITE).len();
        if end > 0 {
            last = offset + end as u64 - 1;
        }
        offset += slice.len() as u64;
        Ok(())
    })?;
    validator.finish()?;
    Ok(match (is_array, first) {
        (Some(true), [_, Some(second)]) => Some(second..last),
        _ => None,
    })
}

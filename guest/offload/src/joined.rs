//! The files that many parts share: the records of JSON texts, texts one after another, bytes one after another.
//!
//! Beside texts and bytes there is the section `blocks`, an outline: where each part is in the file, so that its bytes can
//! be cut out again.

use std::ops::Range;

use lro_json::write::{Object, string};
use lro_jsonl::{BLOCK_BYTES, Error};

use crate::array::Array;
use crate::bindings::lro::filter::types::{FileKind, PlannedSection, SectionShape};
use crate::directory::File;
use crate::entry::Entry;
use crate::media::{UNKNOWN, media_type};
use crate::strings::TEXT;
use crate::text::Count;
use crate::write::Writer;
use crate::{Part, PolicyError};

/// Name of the outline of a file that many parts share.
const OUTLINE: &str = "blocks";

/// A part in a file that it shares with others.
struct Block {
    part: u32,
    /// Its bytes in the file.
    bytes: Range<u64>,
    /// Number of its first line, from 1, and of the line after it. Of a binary part both are 0.
    lines: Range<u64>,
    /// Of a binary part.
    media_type: Option<String>,
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

impl Writer<'_> {
    /// Writes JSON texts as one section: each a record, or the elements of each. Texts of which one is not JSON are
    /// written as texts.
    pub(crate) fn joined_records(&mut self, members: &[u32], section: &PlannedSection) -> Result<(), PolicyError> {
        let (source, infer) = (self.source, self.call.settings.infer);
        let mut records = self.records(members, std::slice::from_ref(section), None);
        let mut array = Array::new(infer, &mut records);
        let mut add_all = || {
            for &member in members {
                match section.shape {
                    SectionShape::Value => array.value(source, member)?,
                    _ => array.elements(source, member)?,
                }
            }
            Ok(())
        };
        match add_all().and_then(|()| array.finish()) {
            Ok(_) => {
                let files = records.entries;
                self.contents.entries.extend(files);
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

    /// Writes texts one after another, each from the beginning of a line, and their outline.
    pub(crate) fn joined_text(&mut self, members: &[u32]) -> Result<(), PolicyError> {
        let section = self.section_names.section(TEXT);
        let file_name = self.file_names.file(&section, self.call.session.as_deref(), "txt");
        let mut file = Buffered::new(self.directory.create(&file_name)?);
        let mut count = Count::default();
        let mut blocks = Vec::with_capacity(members.len());
        for &part in members {
            let (start, first) = (file.bytes(), count.breaks);
            self.source.read_text(part, &mut |slice| {
                count.push(slice);
                file.append(slice.as_bytes()).map(|()| true)
            })?;
            let end = file.bytes();
            if count.end_line() {
                file.append(b"\n")?;
            }
            blocks.push(Block { part, bytes: start..end, lines: first + 1..count.breaks + 1, media_type: None });
        }
        file.flush()?;
        let entry = Entry {
            file_name,
            section,
            kind: FileKind::Text,
            parts: members.to_vec(),
            media_type: "text/plain".to_owned(),
            ..Entry::default()
        };
        self.joined(count.into_entry(file.bytes(), entry), &blocks)
    }

    /// Writes binary parts one after another, and their outline.
    pub(crate) fn joined_bytes(&mut self, members: &[u32]) -> Result<(), PolicyError> {
        let section = self.section_names.section("binary");
        let file_name = self.file_names.file(&section, self.call.session.as_deref(), "bin");
        let mut file = Buffered::new(self.directory.create(&file_name)?);
        let mut blocks = Vec::with_capacity(members.len());
        for &part in members {
            let start = file.bytes();
            let mut slice = self.source.read_bytes(part, 0)?;
            let media_type = self.parts.get(part as usize).map(|part| media_type(part, &slice));
            while !slice.is_empty() {
                file.append(&slice)?;
                slice = self.source.read_bytes(part, file.bytes() - start)?;
            }
            blocks.push(Block { part, bytes: start..file.bytes(), lines: 0..0, media_type });
        }
        file.flush()?;
        let entry = Entry {
            file_name,
            section,
            kind: FileKind::Bytes,
            parts: members.to_vec(),
            media_type: UNKNOWN.to_owned(),
            bytes: file.bytes(),
            // The model would have received binary parts as base64.
            tokens: file.bytes().div_ceil(3),
            ..Entry::default()
        };
        self.joined(entry, &blocks)
    }

    /// Adds a file of many parts, and writes its outline.
    fn joined(&mut self, entry: Entry, blocks: &[Block]) -> Result<(), PolicyError> {
        let (original, members, parts) = (entry.file_name.clone(), entry.parts.clone(), self.parts);
        self.contents.entries.push(entry);
        self.outline(&original, &members, OUTLINE, blocks.iter().map(|block| block.record(parts)))
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
            let media_type = self.media_type.as_ref().filter(|named| *named != UNKNOWN).or(part.media_type.as_ref());
            for (key, value) in [("name", part.name.as_ref()), ("media_type", media_type)] {
                if let Some(value) = value {
                    record.member(key, &string(value));
                }
            }
        }
        record.finish()
    }
}

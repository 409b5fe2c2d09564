//! The files of one JSON value: sections, large members, and the rest.

use std::collections::BTreeSet;

use lro_json::pointer::last_key;
use lro_jsonl::{BLOCK_BYTES, FileReport, LargeShape, Output, Stream, Target};

use crate::bindings::lro::filter::types::{Call, FileKind, Form, Origin, PlannedSection, PolicyError, SectionShape};
use crate::directory::{Directory, File};
use crate::entry::Entry;
use crate::header::Header;
use crate::names::Names;
use crate::tokens::TokenSample;

/// Bytes of the first record that are kept for the descriptor: 16 KiB.
const FIRST_BYTES_MAX: usize = 16 * 1024;

/// Name of the section of small members that do not fit inline.
const REST: &str = "rest";

/// Writes the files of one JSON value.
pub(crate) struct Records<'a> {
    pub(crate) call: &'a Call,
    pub(crate) directory: &'a Directory,
    /// The parts that the value came from.
    pub(crate) parts: &'a [u32],
    pub(crate) planned: &'a [PlannedSection],
    pub(crate) file_names: &'a mut Names,
    pub(crate) section_names: &'a mut Names,
    /// For lines that only repeat what another file keeps.
    pub(crate) derived: Option<Derived<'a>>,
    pub(crate) entries: Vec<Entry>,
    /// Indices of the planned sections that are texts and have begun: the first value of each is not written here.
    pub(crate) texts: BTreeSet<usize>,
    /// Whether the current value is one of them.
    pub(crate) in_text: bool,
    pub(crate) current: Option<Open>,
    pub(crate) rest: Option<Open>,
}

/// Where lines come from that repeat other data.
#[derive(Clone, Copy)]
pub(crate) struct Derived<'a> {
    /// Name of the file that keeps the data.
    pub(crate) from: &'a str,
    pub(crate) origin: Origin,
    pub(crate) form: Option<Form>,
}

/// A file being written.
pub(crate) struct Open {
    entry: Entry,
    file: File,
    /// `None` for a file that holds one value.
    header: Option<Header>,
    /// Bytes to write with the first block, so that a small file takes a single write.
    pending: Vec<u8>,
    sample: TokenSample,
}

impl Records<'_> {
    /// Removes everything written so far.
    pub(crate) fn discard(self) -> Result<(), PolicyError> {
        let open = self.current.into_iter().chain(self.rest).map(|open| open.entry);
        for entry in self.entries.into_iter().chain(open) {
            self.directory.remove(&entry.file_name)?;
            self.file_names.release_file(&entry.file_name);
        }
        Ok(())
    }

    /// Creates a file for the value at `pointer`, or for the rest without one.
    fn open(
        &mut self,
        pointer: Option<&str>,
        kind: FileKind,
        shape: Option<SectionShape>,
        planned: Option<&PlannedSection>,
    ) -> Result<Open, PolicyError> {
        let settings = &self.call.settings;
        let section = match planned {
            // A duplicate key makes a second file.
            Some(planned) if !planned.is_text() && self.entries.iter().all(|entry| entry.section != planned.name) => {
                planned.name.clone()
            }
            Some(planned) => self.section_names.unique(&planned.name),
            None => self.section_names.section(
                &pointer.map_or_else(|| Some(REST.to_owned()), last_key).unwrap_or_else(|| "records".to_owned()),
            ),
        };
        let rule = planned.and_then(|planned| settings.sections.iter().position(|rule| planned.is_of(rule)));
        let prefix = rule.and_then(|rule| settings.sections.get(rule)?.filename_prefix.as_deref());
        let (extension, media_type) = match kind {
            FileKind::Records => ("jsonl", "application/jsonl"),
            _ => ("json", "application/json"),
        };
        let file_name = self.file_names.file(prefix.unwrap_or(&section), self.call.session.as_deref(), extension);
        // The small members of a document are in no form: they are lines with their pointers.
        let form = self.derived.filter(|_| pointer.is_some()).and_then(|derived| derived.form);
        let (pointer, shape) = if self.derived.is_some() { (None, None) } else { (pointer, shape) };
        let header = (kind == FileKind::Records).then(|| Header::new(self.call, &section, pointer, shape));
        Ok(Open {
            file: self.directory.create(&file_name)?,
            pending: header.as_ref().map_or_else(Vec::new, |header| header.line(0, 0)),
            header,
            sample: TokenSample::default(),
            entry: Entry {
                file_name,
                section,
                kind,
                parts: self.parts.to_vec(),
                origin: self.derived.map_or(Origin::Content, |derived| derived.origin),
                form,
                derived_from: self.derived.map(|derived| derived.from.to_owned()),
                pointer: pointer.map(str::to_owned),
                shape,
                media_type: media_type.to_owned(),
                rule,
                ..Entry::default()
            },
        })
    }

    fn stream(&mut self, stream: Stream) -> &mut Option<Open> {
        match stream {
            Stream::Current => &mut self.current,
            Stream::Rest => &mut self.rest,
        }
    }
}

impl Open {
    fn write(&mut self, bytes: &[u8]) -> Result<(), PolicyError> {
        self.keep_first(bytes);
        self.sample.push(bytes);
        if self.file.bytes() == 0 {
            if self.pending.len() + bytes.len() <= BLOCK_BYTES {
                self.pending.extend_from_slice(bytes);
                return Ok(());
            }
            self.file.append(&std::mem::take(&mut self.pending))?;
        }
        self.file.append(bytes)
    }

    /// Keeps the first record, or its beginning.
    fn keep_first(&mut self, bytes: &[u8]) {
        let first = &mut self.entry.first;
        let room = FIRST_BYTES_MAX - first.len();
        if room > 0 && first.last() != Some(&b'\n') {
            let bytes = &bytes[..room.min(bytes.len())];
            let end = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |end| end + 1);
            first.extend_from_slice(&bytes[..end]);
        }
    }

    fn finish(mut self, report: FileReport) -> Result<Entry, PolicyError> {
        let tokens = self.sample.tokens(report.bytes);
        let header = self.header.as_ref().map(|header| header.line(report.records, tokens)).unwrap_or_default();
        if self.file.bytes() == 0 {
            self.pending[..header.len()].copy_from_slice(&header);
            self.file.append(&std::mem::take(&mut self.pending))?;
        } else {
            self.file.write_at(&header, 0)?;
        }
        let mut entry = self.entry;
        entry.bytes = self.file.bytes();
        entry.records = if entry.kind == FileKind::Records { report.records } else { 0 };
        // The result has the data once, whatever else is made of it.
        entry.tokens = if entry.origin == Origin::Content { tokens } else { 0 };
        entry.profile = report.profile.filter(|_| entry.kind == FileKind::Records);
        Ok(entry)
    }
}

impl Output for Records<'_> {
    type Error = PolicyError;

    fn begin(&mut self, target: Target<'_>) -> Result<(), PolicyError> {
        match target {
            Target::Section { index, pointer, shape } => {
                let planned = self.planned.get(index);
                if planned.is_some_and(PlannedSection::is_text) && self.texts.insert(index) {
                    self.in_text = true;
                    return Ok(());
                }
                let shape = planned.filter(|planned| !planned.is_text()).map_or(shape.into(), |planned| planned.shape);
                self.current = Some(self.open(Some(pointer), FileKind::Records, Some(shape), planned)?);
            }
            Target::Large { pointer, shape } => {
                let (kind, shape) = match shape {
                    LargeShape::Elements => (FileKind::Records, Some(SectionShape::Elements)),
                    LargeShape::Members => (FileKind::Records, Some(SectionShape::Members)),
                    LargeShape::Value => (FileKind::Value, None),
                };
                self.current = Some(self.open(Some(pointer), kind, shape, None)?);
            }
            Target::Rest => self.rest = Some(self.open(None, FileKind::Records, None, None)?),
        }
        Ok(())
    }

    fn write(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), PolicyError> {
        if self.in_text && stream == Stream::Current {
            return Ok(());
        }
        match self.stream(stream) {
            Some(open) => open.write(bytes),
            None => Err(PolicyError::Other("a line came before its file was begun".to_owned())),
        }
    }

    fn end(&mut self, stream: Stream, report: FileReport) -> Result<(), PolicyError> {
        if stream == Stream::Current && std::mem::take(&mut self.in_text) {
            return Ok(());
        }
        let open = self.stream(stream).take();
        let open = open.ok_or_else(|| PolicyError::Other("a file ended before it was begun".to_owned()))?;
        self.entries.push(open.finish(report)?);
        Ok(())
    }
}

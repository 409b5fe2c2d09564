//! The strings of a JSON part that are texts of their own: in files as if each were a part.
//!
//! The plan has a section for each, of the shape `value`. Its file keeps the string without its escapes, as a text part is
//! kept; where the string is bytes in base64, the file keeps the bytes.

use std::collections::BTreeSet;

use lro_json::pointer::key_of_step;
use lro_json::write::string;
use lro_jsonl::{LongString, StringReader};
use lro_text::{Decoder, Encoded, encoded};

use crate::bindings::lro::filter::types::{FileKind, Form, PlannedRecords, PlannedSection, ReadError, SectionShape};
use crate::entry::Entry;
use crate::form::{DOCUMENT, Head};
use crate::media::{extension, media_type};
use crate::plan::{is_inside, is_table, pointer_of_key};
use crate::text::{Text, survey};
use crate::write::{Writer, shown_key};
use crate::{Call, Part, PartKind, PolicyError, Source};

/// Most strings of one result that become texts: 6, and as many inside of them. Each may have sections, like a document.
pub(crate) const STRINGS_MAX: usize = 6;

/// How deep strings are looked into that are JSON: a string in a string in a string in a string. Each level is read through all
/// those around it.
const DEPTH_MAX: usize = 4;

/// Name of a text that no key gives a name to.
pub(crate) const TEXT: &str = "text";

/// What follows the name of the records in the name of the string that they were read from.
const ORIGINAL: &str = "_original";

/// Fewest bytes of a string that are passed on at a time, except the last ones: 64 KiB.
const SLICE_BYTES_MIN: usize = 64 * 1024;

/// The strings of a document that become texts: not those that stay in the reply, and the longest where there are too many.
pub(crate) fn chosen(call: &Call, mut found: Vec<LongString>) -> Vec<LongString> {
    let settings = &call.settings;
    let keys = settings.inline_keys.iter().chain(&settings.session_key);
    let kept: Vec<String> = keys.map(|key| pointer_of_key(key)).collect();
    let is_kept = |pointer: &str| kept.iter().any(|kept| is_inside(pointer, kept));
    // Of several values of one key, the first is read.
    let mut seen = BTreeSet::new();
    found.retain(|text| {
        let is_long = text.bytes > settings.inline_limit as usize;
        is_long && !is_kept(&text.pointer) && seen.insert(text.pointer.clone())
    });
    found.sort_by_key(|text| std::cmp::Reverse(text.bytes));
    found.truncate(STRINGS_MAX);
    found
}

/// The name of the text at a pointer: the last key on the way.
pub(crate) fn name(pointer: &str) -> String {
    let is_key = |step: &&str| !step.bytes().all(|byte| byte.is_ascii_digit());
    pointer.rsplit('/').find(is_key).map_or_else(|| TEXT.to_owned(), key_of_step)
}

/// The string at a pointer of a part, in place of the part.
struct Inside<'a> {
    source: &'a dyn Source,
    pointer: &'a str,
}

impl Source for Inside<'_> {
    fn parts(&self) -> Vec<Part> {
        self.source.parts()
    }

    fn read_text(&self, part: u32, each: &mut dyn FnMut(&str) -> Result<bool, PolicyError>) -> Result<(), PolicyError> {
        let (mut reader, mut text) = (StringReader::new(self.pointer), String::new());
        let wrong = |error| PolicyError::Other(format!("{}: {error}", self.pointer));
        let (mut more, mut wanted) = (true, true);
        self.source.read_text(part, &mut |slice| {
            more = reader.push(slice, &mut text).map_err(wrong)?;
            if !text.is_empty() && (!more || text.len() >= SLICE_BYTES_MIN) {
                wanted = each(&text)?;
                text.clear();
            }
            Ok(more && wanted)
        })?;
        if more && wanted {
            // The string is the whole document, and may be known only at its end.
            reader.finish(&mut text).map_err(wrong)?;
            each(&text)?;
        }
        Ok(())
    }

    fn read_bytes(&self, _: u32, _: u64) -> Result<Vec<u8>, PolicyError> {
        Err(PolicyError::Read(ReadError::WrongKind))
    }
}

/// Bytes of the string at a pointer of a part without its escapes; nothing when there is none that is text.
fn size(source: &dyn Source, index: u32, pointer: &str) -> Result<Option<u64>, PolicyError> {
    let (mut reader, mut text, mut size) = (StringReader::new(pointer), String::new(), 0);
    let mut found = None;
    source.read_text(index, &mut |slice| {
        let more = reader.push(slice, &mut text);
        size += text.len() as u64;
        text.clear();
        found = (more == Ok(false)).then_some(size);
        Ok(more == Ok(true))
    })?;
    Ok(found)
}

/// Bytes of a text that is one JSON string, without its escapes; nothing for any other text.
fn size_of_whole(source: &dyn Source, index: u32) -> Result<Option<u64>, PolicyError> {
    let (mut reader, mut text, mut size) = (StringReader::new(""), String::new(), 0);
    let mut is_string = None;
    source.read_text(index, &mut |slice| {
        let begins = is_string.unwrap_or_else(|| slice.trim_start().starts_with('"'));
        let is_read = begins && reader.push(slice, &mut text).is_ok();
        is_string = Some(is_read);
        size += text.len() as u64;
        text.clear();
        Ok(is_read)
    })?;
    let is_whole = is_string == Some(true) && reader.finish(&mut text).is_ok();
    Ok(is_whole.then_some(size + text.len() as u64))
}

/// A planned section that is a string, and its size in bytes.
pub(crate) struct PlannedText {
    pub(crate) section: PlannedSection,
    size: u64,
}

/// The JSON that has strings: a part, or a string that is JSON itself.
#[derive(Clone, Copy)]
pub(crate) struct Outer<'a> {
    /// What reads it, by the index of its part.
    pub(crate) source: &'a dyn Source,
    pub(crate) index: u32,
    /// Where it is in its part: empty for the part, else a pointer to each string on the way, one behind the other.
    pub(crate) pointer: &'a str,
    /// The file that keeps it, if it is a string, or else the string around it.
    pub(crate) file: Option<&'a str>,
    /// How many strings it is in.
    pub(crate) depth: usize,
}

impl Writer<'_> {
    /// The planned sections of some JSON without those of strings that turn out to be none, and the strings.
    pub(crate) fn strings(
        &mut self,
        source: &dyn Source,
        index: u32,
        planned: &[PlannedSection],
    ) -> Result<(Vec<PlannedSection>, Vec<PlannedText>), PolicyError> {
        let (mut sections, mut texts) = (Vec::with_capacity(planned.len()), Vec::new());
        for section in planned {
            if section.is_text() {
                // A key with several values can lead to two sections.
                let around = planned.iter().filter(|other| is_inside(&section.pointer, &other.pointer)).count();
                let size = if around == 1 { size(source, index, &section.pointer)? } else { None };
                let Some(size) = size else {
                    self.section_names.release(&section.name);
                    continue;
                };
                texts.push(PlannedText { section: section.clone(), size });
            }
            sections.push(section.clone());
        }
        Ok((sections, texts))
    }

    /// Writes a text that is one JSON string, as servers write that pass on a text as JSON; returns false, and writes nothing,
    /// for any other text.
    pub(crate) fn whole_string(&mut self, index: u32, name: &str) -> Result<bool, PolicyError> {
        let Some(size) = size_of_whole(self.source, index)? else { return Ok(false) };
        let outer = Outer { source: self.source, index, pointer: "", file: None, depth: 0 };
        let section = PlannedSection {
            pointer: String::new(),
            shape: SectionShape::Value,
            name: self.section_names.section(name),
        };
        self.string(outer, &PlannedText { section, size })?;
        Ok(true)
    }

    /// The sections of the strings in a string that is JSON, as far as there is room for more.
    pub(crate) fn planned_strings(&mut self, depth: usize, found: Vec<LongString>) -> Vec<PlannedSection> {
        let room = if depth < DEPTH_MAX { self.texts_left } else { 0 };
        let chosen: Vec<LongString> = chosen(self.call, found).into_iter().take(room).collect();
        self.texts_left -= chosen.len();
        let name = |text: LongString| PlannedSection {
            name: self.section_names.section(&name(&text.pointer)),
            shape: SectionShape::Value,
            pointer: text.pointer,
        };
        chosen.into_iter().map(name).collect()
    }

    /// Writes a string: its bytes, its records, or its outline.
    pub(crate) fn string(&mut self, outer: Outer<'_>, planned: &PlannedText) -> Result<(), PolicyError> {
        let PlannedText { section: PlannedSection { pointer, name, .. }, size } = planned;
        let Outer { source, index, file, depth, .. } = outer;
        let inside = Inside { source, pointer };
        let pointer = format!("{}{pointer}", outer.pointer);
        let part = Part { kind: PartKind::Text, media_type: None, name: None, size: *size, complete: true };
        let mut text = Text {
            source: &inside,
            index,
            part: &part,
            pointer: Some(&pointer),
            section: name.clone(),
            within: file,
            depth: depth + 1,
        };
        let head = Head::read(&inside, index)?;
        if let Some(encoded) = encoded(&head.text, head.complete)
            && self.encoded(&text, &encoded)?
        {
            return Ok(());
        }
        let document = head.is_document().then_some((DOCUMENT, Form::JsonWithin));
        let form = match head.form(&part) {
            Some((lro_text::Form::Tabular(_), _)) if !self.is_table(&text, &head)? => document,
            found => found.or(document),
        };
        let Some((form, named)) = form else { return self.text(text) };
        text.section = self.section_names.section(&format!("{name}{ORIGINAL}"));
        self.text_with_records(text, &form, &PlannedRecords { form: named, name: name.clone() })
    }

    fn is_table(&self, text: &Text<'_>, head: &Head) -> Result<bool, PolicyError> {
        Ok(is_table(self.call, text.part, &head.text, &survey(text.source, text.index, &DOCUMENT, false)?.sections))
    }

    /// Writes the bytes that a string encodes; returns false, and writes nothing, when it does not to its end.
    fn encoded(&mut self, text: &Text<'_>, encoded: &Encoded) -> Result<bool, PolicyError> {
        let part = Part { media_type: encoded.media_type.clone(), ..text.part.clone() };
        let media_type = media_type(&part, &encoded.beginning);
        let file_name = self.file_names.file(&text.section, self.call.session.as_deref(), extension(&media_type));
        let mut file = self.directory.create(&file_name)?;
        let (mut decoder, mut bytes, mut before) = (Decoder::default(), Vec::new(), encoded.prefix.len());
        let mut is_base64 = true;
        text.source.read_text(text.index, &mut |slice| {
            let base64 = slice.get(before..).unwrap_or_default();
            before = before.saturating_sub(slice.len());
            is_base64 = decoder.push(base64, &mut bytes).is_ok();
            file.append(&bytes)?;
            bytes.clear();
            Ok(is_base64)
        })?;
        if !is_base64 || decoder.finish(&mut bytes).is_err() {
            // Windows keeps the name of a removed file until it is closed.
            drop(file);
            self.directory.remove(&file_name)?;
            return Ok(false);
        }
        file.append(&bytes)?;
        let pointer = text.pointer.unwrap_or_default().to_owned();
        if !encoded.prefix.is_empty() {
            // With the bytes, the whole string.
            let key = if pointer.is_empty() { text.section.clone() } else { shown_key(pointer.clone()) };
            self.contents.inline.push((key, string(&format!("{}…", encoded.prefix))));
        }
        self.contents.entries.push(Entry {
            file_name,
            section: text.section.clone(),
            kind: FileKind::Bytes,
            parts: vec![text.index],
            origin: text.origin(),
            form: text.form(),
            derived_from: text.within.map(str::to_owned),
            pointer: Some(pointer),
            media_type,
            bytes: file.bytes(),
            // The model would have received it as base64, with the string around it if there is one.
            tokens: if text.within.is_none() { file.bytes().div_ceil(3) } else { 0 },
            ..Entry::default()
        });
        Ok(true)
    }
}

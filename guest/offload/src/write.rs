//! Executes a plan: writes each part to files, then the descriptor.

use std::collections::{BTreeMap, BTreeSet};

use lro_json::SyntaxError;
use lro_json::pointer::last_key;
use lro_jsonl::page::{self, List, Page};
use lro_jsonl::{Document, Error, Options, Section, Splitter};

use crate::bindings::lro::filter::types::{DescriptorLevel, File, FileKind, PlannedSection, SectionRule, SectionShape};
use crate::descriptor::{self, Contents};
use crate::directory::Directory;
use crate::entry::Entry;
use crate::form::read_json;
use crate::media::{extension, media_type};
use crate::names::Names;
use crate::plan::{files_each, pointer_of_key};
use crate::recipes::{self, Recipe};
use crate::records::{Derived, Records};
use crate::strings::{Outer, STRINGS_MAX, TEXT};
use crate::{CURSORS, Call, Descriptor, Part, PartKind, Plan, PlannedPart, PolicyError, Source};

/// Maximum number of characters of the URI of a resource in a descriptor.
const URI_CHARACTERS_MAX: usize = 500;

/// Writes the planned parts into the preopened directory and describes them.
///
/// # Errors
/// [`PolicyError::Invalid`] for a plan that does not match the parts, and the errors of the source and of the
/// directory.
pub fn write(call: &Call, source: &impl Source, plan: &Plan) -> Result<Descriptor, PolicyError> {
    let parts = source.parts();
    if parts.len() != plan.parts.len() {
        return Err(PolicyError::Invalid(format!("plan: {} parts of {}", plan.parts.len(), parts.len())));
    }
    let joined = joined(plan)?;
    let keeps_parts = plan.parts.iter().any(|part| matches!(part, PlannedPart::Keep));
    let mut writer = Writer {
        call,
        source,
        parts: &parts,
        large_max: files_each(plan.parts.iter().map(documents).sum()),
        directory: Directory::preopened()?,
        file_names: Names::default(),
        section_names: Names::default(),
        texts_left: STRINGS_MAX,
        session: None,
        contents: Contents { keeps_parts, ..Contents::default() },
    };
    for name in plan.parts.iter().flat_map(planned_names) {
        writer.section_names.unique(name);
    }
    for ((index, part), planned) in (0..).zip(&parts).zip(&plan.parts) {
        let mut members = vec![index];
        members.extend(joined.get(&index).into_iter().flatten());
        match (planned, members.as_slice()) {
            (PlannedPart::Keep | PlannedPart::Joined(_), _) => {}
            (PlannedPart::Sections(sections), [_]) if is_of_one_part(sections) => writer.json(index, part, sections)?,
            (PlannedPart::Sections(sections), members) => match sections.as_slice() {
                [section] if section.pointer.is_empty() => writer.joined_records(members, section)?,
                _ => return Err(PolicyError::Invalid(format!("plan: part {index} shares sections inside it"))),
            },
            (PlannedPart::Text, [_]) => writer.text_part(index, part)?,
            (PlannedPart::Text, members) => writer.joined_text(members)?,
            (PlannedPart::Bytes, [_]) => writer.bytes(index, part)?,
            (PlannedPart::Bytes, members) => writer.joined_bytes(members)?,
            (PlannedPart::Records(records), [_]) => writer.records_part(index, part, records)?,
            (PlannedPart::Records(_), _) => {
                return Err(PolicyError::Invalid(format!("plan: part {index} shares its records")));
            }
        }
    }
    writer.name_after_session()?;
    Ok(writer.describe())
}

/// The URI of the embedded resource that a part is, or its beginning.
fn uri(part: &Part) -> Option<String> {
    let uri = part.name.as_deref().filter(|name| name.contains(':'))?;
    Some(uri.chars().take(URI_CHARACTERS_MAX).collect())
}

/// The parts that join each part.
fn joined(plan: &Plan) -> Result<BTreeMap<u32, Vec<u32>>, PolicyError> {
    let mut joined: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (index, planned) in (0..).zip(&plan.parts) {
        let PlannedPart::Joined(target) = planned else { continue };
        match plan.parts.get(*target as usize) {
            Some(PlannedPart::Keep | PlannedPart::Joined(_)) | None => {}
            Some(_) if *target < index => {
                joined.entry(*target).or_default().push(index);
                continue;
            }
            Some(_) => {}
        }
        return Err(PolicyError::Invalid(format!("plan: part {index} joins part {target}")));
    }
    Ok(joined)
}

/// Whether these sections are those of a single part. A section of one value holds the values of several.
fn is_of_one_part(sections: &[PlannedSection]) -> bool {
    sections.iter().all(|section| section.shape != SectionShape::Value || section.is_text())
}

/// The documents in a part that may have sections: itself, its strings, and those inside of them, which share the files of one.
fn documents(part: &PlannedPart) -> usize {
    match part {
        PlannedPart::Sections(sections) => match sections.iter().filter(|section| section.is_text()).count() {
            0 => 1,
            strings => strings + 2,
        },
        PlannedPart::Records(_) => 1,
        _ => 0,
    }
}

/// The names of the sections that are planned for a part.
fn planned_names(part: &PlannedPart) -> Vec<&str> {
    match part {
        PlannedPart::Sections(sections) => sections.iter().map(|section| section.name.as_str()).collect(),
        PlannedPart::Records(records) => vec![&records.name],
        _ => Vec::new(),
    }
}

impl PlannedSection {
    /// Whether this section was planned for a rule of the configuration.
    pub(crate) fn is_of(&self, rule: &SectionRule) -> bool {
        pointer_of_key(&rule.key) == self.pointer
    }

    /// Whether it is a string inside a part that is written as a text.
    pub(crate) fn is_text(&self) -> bool {
        self.shape == SectionShape::Value && !self.pointer.is_empty()
    }
}

/// Writes the files of a plan.
pub(crate) struct Writer<'a> {
    pub(crate) call: &'a Call,
    pub(crate) source: &'a dyn Source,
    pub(crate) parts: &'a [Part],
    /// Most files for the large members of one document.
    pub(crate) large_max: usize,
    pub(crate) directory: Directory,
    pub(crate) file_names: Names,
    pub(crate) section_names: Names,
    /// How many more strings inside of strings become texts.
    pub(crate) texts_left: usize,
    /// The value of the session key.
    session: Option<String>,
    pub(crate) contents: Contents,
}

impl Writer<'_> {
    pub(crate) fn json(&mut self, index: u32, part: &Part, planned: &[PlannedSection]) -> Result<(), PolicyError> {
        if planned.is_empty() && self.whole_string(index, TEXT)? {
            return Ok(());
        }
        let (planned, texts) = self.strings(self.source, index, planned)?;
        let options = self.options(&planned);
        let (source, parts) = (self.source, [index]);
        let mut records = self.records(&parts, &planned, None);
        let pointers = options.keep.clone();
        match split(source, index, options, &mut records)? {
            Ok(document) => {
                let files = records.entries;
                self.add_document(document, files, &pointers);
                let outer = Outer { source, index, pointer: "", file: None, depth: 0 };
                texts.iter().try_for_each(|text| self.string(outer, text))
            }
            Err(error) => {
                records.discard()?;
                self.contents.notes.push(format!("part {index} is not JSON: {error}; written as text"));
                let names = planned.iter().chain(texts.iter().map(|text| &text.section)).map(|section| &section.name);
                names.for_each(|name| self.section_names.release(name));
                self.broken_document(index, part)
            }
        }
    }

    /// What writes the files of a value, or the records `derived` from another file.
    pub(crate) fn records<'b>(
        &'b mut self,
        parts: &'b [u32],
        planned: &'b [PlannedSection],
        derived: Option<Derived<'b>>,
    ) -> Records<'b> {
        Records {
            call: self.call,
            directory: &self.directory,
            parts,
            planned,
            derived,
            file_names: &mut self.file_names,
            section_names: &mut self.section_names,
            entries: Vec::new(),
            texts: BTreeSet::new(),
            in_text: false,
            current: None,
            rest: None,
        }
    }

    /// Adds the files of a document and the values that stay inline, of which those of `pointers` are kept.
    pub(crate) fn add_document(&mut self, document: Document, files: Vec<Entry>, pointers: &[String]) {
        let keys = self.call.settings.inline_keys.len();
        let rest = files.iter().find(|entry| entry.is_rest()).filter(|_| document.has_excluded);
        let lists: Vec<List<'_>> = files.iter().filter_map(Entry::list).collect();
        self.contents.pages.push(Page::of(&document.noted, &lists, self.call.input_schema.as_deref()));
        self.contents.cursor = rest.map(|entry| entry.section.clone()).or(self.contents.cursor.take());
        self.contents.entries.extend(files);
        for (pointer, json) in document.kept {
            if pointers.get(keys) == Some(&pointer) {
                self.session = Some(json.trim_matches('"').to_owned());
            }
            if let Some(key) = pointers.iter().take(keys).position(|kept| *kept == pointer) {
                let key = self.call.settings.inline_keys.get(key).cloned().unwrap_or(pointer);
                self.contents.kept.push((key, json));
            }
        }
        self.contents.inline.extend(document.inline.into_iter().map(|(pointer, json)| (shown_key(pointer), json)));
    }

    pub(crate) fn options(&self, planned: &[PlannedSection]) -> Options {
        let settings = &self.call.settings;
        let keys = settings.inline_keys.iter().chain(settings.session_key.as_ref());
        let keep: Vec<String> = keys.map(|key| pointer_of_key(key)).collect();
        Options {
            sections: planned.iter().map(section).collect(),
            // All kept values together take less than half of the descriptor.
            keep_bytes: settings.descriptor_limit as usize / 2 / keep.len().max(1),
            keep,
            inline_bytes: settings.inline_limit as usize,
            large_max: self.large_max,
            inline_total: match settings.level {
                DescriptorLevel::Pointer => 160,
                DescriptorLevel::Standard => 320,
                DescriptorLevel::Full => 2048,
            },
            inline_exclude: CURSORS.map(str::to_owned).into(),
            note: page::names(),
            profile: settings.infer,
        }
    }

    fn bytes(&mut self, index: u32, part: &Part) -> Result<(), PolicyError> {
        let section = self.section_names.section(self.plain_name(part, "binary").as_str());
        let mut slice = self.source.read_bytes(index, 0)?;
        let media_type = media_type(part, &slice);
        let file_name = self.file_names.file(&section, self.call.session.as_deref(), extension(&media_type));
        let mut file = self.directory.create(&file_name)?;
        while !slice.is_empty() {
            file.append(&slice)?;
            slice = self.source.read_bytes(index, file.bytes())?;
        }
        self.contents.entries.push(Entry {
            file_name,
            section,
            kind: FileKind::Bytes,
            parts: vec![index],
            media_type,
            bytes: file.bytes(),
            // The model would have received a binary part as base64.
            tokens: file.bytes().div_ceil(3),
            ..Entry::default()
        });
        Ok(())
    }

    pub(crate) fn plain_name(&self, part: &Part, default: &str) -> String {
        let last = part.name.as_deref().and_then(|name| name.rsplit(['/', ':']).find(|step| !step.is_empty()));
        match (part.kind, last) {
            (PartKind::Structured, _) => "structured".to_owned(),
            (PartKind::Meta, _) => "meta".to_owned(),
            (_, Some(name)) => name.to_owned(),
            _ => default.to_owned(),
        }
    }

    /// Renames the files by the value of the session key, which is known only now.
    fn name_after_session(&mut self) -> Result<(), PolicyError> {
        let Some(session) = self.session.take() else { return Ok(()) };
        let mut renamed = BTreeMap::new();
        for entry in &mut self.contents.entries {
            let (stem, extension) = entry.file_name.rsplit_once('.').unwrap_or((&entry.file_name, "bin"));
            let name = self.file_names.file(stem, Some(&session), extension);
            self.directory.rename(&entry.file_name, &name)?;
            renamed.insert(std::mem::replace(&mut entry.file_name, name.clone()), name);
        }
        for original in self.contents.entries.iter_mut().filter_map(|entry| entry.derived_from.as_mut()) {
            if let Some(name) = renamed.get(original) {
                original.clone_from(name);
            }
        }
        Ok(())
    }

    fn describe(mut self) -> Descriptor {
        for entry in &mut self.contents.entries {
            let [part] = entry.parts[..] else { continue };
            entry.uri = self.parts.get(part as usize).and_then(uri);
        }
        let recipes = recipes::of_files(self.call, &self.contents.entries);
        for (entry, recipes) in self.contents.entries.iter_mut().zip(recipes) {
            entry.recipes = recipes;
        }
        let content = descriptor::content(self.call, &self.contents);
        let offloaded_tokens = self.contents.entries.iter().map(|entry| entry.tokens).sum();
        let settings = &self.call.settings;
        let files = self.contents.entries.into_iter().map(|entry| File {
            schema: entry.schema(settings),
            queries: entry.recipes.iter().filter_map(Recipe::stored).collect(),
            name: entry.file_name,
            kind: entry.kind,
            section: entry.section,
            parts: entry.parts,
            origin: entry.origin,
            form: entry.form,
            derived_from: entry.derived_from,
            pointer: entry.pointer,
            shape: entry.shape,
            media_type: entry.media_type,
            records: entry.records,
            bytes: entry.bytes,
        });
        Descriptor { content, files: files.collect(), offloaded_tokens, notes: self.contents.notes }
    }
}

fn section(planned: &PlannedSection) -> Section {
    Section { pointer: planned.pointer.clone(), shape: planned.shape.into() }
}

/// The name of a member: its key at the top level, else its pointer.
pub(crate) fn shown_key(pointer: String) -> String {
    match last_key(&pointer) {
        Some(step) if pointer.matches('/').count() == 1 => step,
        _ => pointer,
    }
}

type Split = Result<Document, SyntaxError>;

fn split(source: &dyn Source, part: u32, options: Options, records: &mut Records<'_>) -> Result<Split, PolicyError> {
    let mut splitter = Splitter::new(options, records);
    match read(source, part, &mut |slice| splitter.push(slice)).and_then(|()| splitter.finish()) {
        Ok((document, _)) => Ok(Ok(document)),
        Err(Error::Syntax(error)) => Ok(Err(error)),
        Err(Error::Output(error)) => Err(error),
    }
}

/// Reads a JSON text. The first error of `each` ends it.
pub(crate) fn read(
    source: &dyn Source,
    part: u32,
    each: &mut dyn FnMut(&str) -> Result<(), Error<PolicyError>>,
) -> Result<(), Error<PolicyError>> {
    let mut wrong = None;
    let read = read_json(source, part, &mut |slice| match each(slice) {
        Ok(()) => Ok(true),
        Err(Error::Output(error)) => Err(error),
        Err(Error::Syntax(error)) => {
            wrong = Some(error);
            Ok(false)
        }
    });
    read.map_err(Error::Output)?;
    wrong.map_or(Ok(()), |error| Err(Error::Syntax(error)))
}

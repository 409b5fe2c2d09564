//! Writes the files of a plan, slice by slice: the memory of a policy must not grow with the result.

use std::collections::BTreeMap;

use serde_json::json;

use super::{Directory, Source, Tokens, descriptor, has_label, head_lines, slices};
use crate::bindings::exports::lro::filter::lro_filter::{Call, Descriptor, Plan, PolicyError};
use crate::bindings::lro::filter::types::{File, FileKind, Origin, Part, PlannedPart, SectionShape};

/// Most characters of the beginning of a file that the descriptor shows.
const HEAD_CHARACTERS_MAX: usize = 400;

/// Executes a plan of [`inspect`](super::inspect), and describes the files.
pub(crate) fn write(
    call: &Call,
    parts: &[Part],
    plan: &Plan,
    source: &impl Source,
    directory: &mut impl Directory,
) -> Result<Descriptor, PolicyError> {
    let head_lines = head_lines(call)?;
    if plan.parts.len() != parts.len() {
        return Err(PolicyError::Invalid(format!("plan: {} parts of {}", plan.parts.len(), parts.len())));
    }
    let mut writer = Writer { call, parts, source, directory, files: Vec::new() };
    for (planned, indices) in planned_files(plan)? {
        match (planned, indices.as_slice()) {
            (PlannedPart::Text, indices) => writer.texts(indices)?,
            (PlannedPart::Sections(sections), [index]) if sections.is_empty() => writer.value(*index)?,
            (PlannedPart::Sections(_), indices) => writer.records(indices)?,
            _ => return Err(PolicyError::Invalid("plan: neither a text, nor records, nor a value".to_owned())),
        }
    }
    let files = writer.files;
    let content = files.iter().filter(|file| file.entry.origin == Origin::Content);
    Ok(Descriptor {
        content: descriptor::content(call, &files, head_lines)?,
        offloaded_tokens: content.map(|file| file.tokens.count()).sum(),
        files: files.into_iter().map(|file| file.entry).collect(),
        notes: Vec::new(),
    })
}

/// What is planned for each file, and the parts that go there.
fn planned_files(plan: &Plan) -> Result<impl Iterator<Item = (&PlannedPart, Vec<u32>)>, PolicyError> {
    let mut files: BTreeMap<u32, (&PlannedPart, Vec<u32>)> = BTreeMap::new();
    for (index, planned) in (0..).zip(&plan.parts) {
        match planned {
            PlannedPart::Keep => {}
            PlannedPart::Joined(first) => {
                let wrong = || PolicyError::Invalid(format!("plan: part {index} joins part {first}"));
                let (_, indices) = files.get_mut(first).ok_or_else(wrong)?;
                indices.push(index);
            }
            _ => {
                files.insert(index, (planned, vec![index]));
            }
        }
    }
    Ok(files.into_values())
}

/// Writes files one after another.
struct Writer<'a, S, D> {
    call: &'a Call,
    parts: &'a [Part],
    source: &'a S,
    directory: &'a mut D,
    files: Vec<Written>,
}

impl<S: Source, D: Directory> Writer<'_, S, D> {
    /// Writes texts, each from the beginning of a line, and their outline `blocks`: where each is in the file, and its name.
    /// A single text without a name has no outline.
    fn texts(&mut self, indices: &[u32]) -> Result<(), PolicyError> {
        let mut file = Written::create("text", FileKind::Text, indices, self.directory)?;
        let (mut blocks, mut has_labels) = (String::new(), false);
        for &index in indices {
            if file.is_line_open {
                file.push("\n", self.directory)?;
            }
            let (offset, lines) = (file.entry.bytes, file.entry.records);
            for slice in slices(index, self.source) {
                file.push(&slice?, self.directory)?;
            }
            let mut block = json!({
                "block": index,
                "line": lines + 1,
                "lines": file.entry.records - lines,
                "offset": offset,
                "bytes": file.entry.bytes - offset,
            });
            if let Some(part) = self.parts.get(index as usize).filter(|part| has_label(part)) {
                block["name"] = json!(part.name);
                block["media_type"] = json!(part.media_type);
                has_labels = true;
            }
            blocks.push_str(&format!("{block}\n"));
        }
        let text = file.entry.name.clone();
        self.files.push(file);
        if indices.len() > 1 || has_labels {
            let mut outline = self.create_records("blocks", indices)?;
            outline.entry.origin = Origin::Outline;
            outline.entry.derived_from = Some(text);
            outline.push(&blocks, self.directory)?;
            self.files.push(outline);
        }
        Ok(())
    }

    /// Writes JSON objects, each as a line.
    fn records(&mut self, indices: &[u32]) -> Result<(), PolicyError> {
        let mut file = self.create_records("records", indices)?;
        file.entry.pointer = Some(String::new());
        file.entry.shape = Some(SectionShape::Value);
        for &index in indices {
            self.copy_json(index, &mut file)?;
            file.push("\n", self.directory)?;
        }
        self.files.push(file);
        Ok(())
    }

    /// Writes a JSON value.
    fn value(&mut self, index: u32) -> Result<(), PolicyError> {
        let mut file = Written::create("structured", FileKind::Value, &[index], self.directory)?;
        file.entry.pointer = Some(String::new());
        self.copy_json(index, &mut file)?;
        // Only texts and records have lines.
        file.entry.records = 0;
        self.files.push(file);
        Ok(())
    }

    /// Copies a JSON value to one line. In strings, line breaks are escaped, so this changes only white space.
    fn copy_json(&mut self, index: u32, file: &mut Written) -> Result<(), PolicyError> {
        for slice in slices(index, self.source) {
            file.push(&slice?.replace(['\n', '\r'], " "), self.directory)?;
        }
        Ok(())
    }

    /// Creates a file of records, which begins with a header line.
    fn create_records(&mut self, section: &str, indices: &[u32]) -> Result<Written, PolicyError> {
        let mut file = Written::create(section, FileKind::Records, indices, self.directory)?;
        let Call { settings, tool, .. } = self.call;
        let header = json!({ "type": settings.header_type, "operation": tool, "section": section });
        let header = format!("{header}\n");
        self.directory.write(header.as_bytes(), 0)?;
        file.entry.bytes = header.len() as u64;
        Ok(file)
    }
}

/// A file that is being written.
pub(super) struct Written {
    /// Its entry in the answer, with the sizes so far.
    pub(super) entry: File,
    /// Its beginning.
    pub(super) head: String,
    tokens: Tokens,
    is_line_open: bool,
}

impl Written {
    fn create(
        section: &str,
        kind: FileKind,
        indices: &[u32],
        directory: &mut impl Directory,
    ) -> Result<Self, PolicyError> {
        let (extension, media_type) = match kind {
            FileKind::Text => ("txt", "text/plain"),
            FileKind::Records => ("jsonl", "application/jsonl"),
            FileKind::Value | FileKind::Bytes => ("json", "application/json"),
        };
        let entry = File {
            name: format!("{section}.{extension}"),
            kind,
            section: section.to_owned(),
            parts: indices.to_vec(),
            origin: Origin::Content,
            form: None,
            derived_from: None,
            pointer: None,
            shape: None,
            media_type: media_type.to_owned(),
            records: 0,
            bytes: 0,
            schema: None,
            queries: Vec::new(),
        };
        directory.create(&entry.name)?;
        Ok(Self { entry, head: String::new(), tokens: Tokens::default(), is_line_open: false })
    }

    /// Appends a text.
    fn push(&mut self, text: &str, directory: &mut impl Directory) -> Result<(), PolicyError> {
        directory.write(text.as_bytes(), self.entry.bytes)?;
        self.entry.bytes += text.len() as u64;
        self.tokens.push(text);
        // What continues an open line begins none.
        let lines = text.split_inclusive('\n').count() as u64;
        self.entry.records += lines.saturating_sub(self.is_line_open.into());
        self.is_line_open = !text.ends_with('\n');
        let room = HEAD_CHARACTERS_MAX.saturating_sub(self.head.chars().count());
        self.head.extend(text.chars().take(room));
        Ok(())
    }
}

//! The plan for a result: what stays in the reply, what becomes a file, and which parts share one.
//!
//! A server may answer with thousands of blocks. Blocks that are alike share files, so that the number of files stays
//! below [`FILES_MAX`] whatever the number of parts.

use lro_json::pointer::{last_key, push_step};
use lro_jsonl::{LongString, SECTIONS_MAX, SURVEY_BYTES_MAX, Section, Survey, Surveyed};
use lro_text::{HEAD_BYTES_MAX, Layout, PARALLEL_BYTES_MAX, Tabular, tabular};

use crate::bindings::lro::filter::types::{DecisionMode, Form, PlannedRecords, PlannedSection, SectionShape};
use crate::form::{form, read_json};
use crate::images::{self, Bounds};
use crate::inspect::{of_ascii, wire_bytes};
use crate::names::Names;
use crate::{CURSORS, Call, Part, PartKind, Plan, PlannedPart, PolicyError, Source, strings};

/// Most small texts and blocks that stay in the reply, and most texts and JSON documents that get separate files. More
/// are data: those that are alike share files.
const SINGLE_MAX: usize = 8;

/// Most binary parts that get separate files.
const BINARY_MAX: usize = 16;

/// Longest JSON text, in bytes, that is one record beside others: 16 KiB. A longer one is searched for sections.
const RECORD_BYTES_MAX: u64 = 16 * 1024;

/// Fewest JSON texts that become the records of one section.
const RECORDS_MIN: usize = 2;

/// Most files for the sections of all JSON documents together, and as many for their large members. Leaves room for other
/// parts below the 256 files that a host allows by default.
const FILES_MAX: usize = 96;

/// Name of a section of records to which nothing else gives a name.
pub(crate) const RECORDS: &str = "records";

/// What a caller wants of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wish {
    /// What the settings say.
    #[default]
    Any,
    /// It stays in the reply.
    Keep,
    /// It is written to a file.
    Write,
}

/// What a part is to become.
enum Class {
    Kept,
    Text,
    /// A text with records of this form.
    Records(Form),
    Bytes,
    /// JSON with these sections and texts.
    Document {
        sections: Vec<Section>,
        texts: Vec<LongString>,
        /// Whether it is a table, whose rows are no records of their own.
        is_table: bool,
    },
}

impl Class {
    /// JSON without sections.
    const PLAIN: Self = Self::Document { sections: Vec::new(), texts: Vec::new(), is_table: false };
}

/// Parts that are alike, and share files when there are enough of them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    /// JSON texts, each a record.
    Record,
    /// JSON texts, each an array of records.
    Records,
    /// Content blocks of other types, each a record.
    Blocks,
    Texts,
    Binaries,
}

/// The plan for a result: the parts to write by the settings of the call and by `wishes`, in the order of the parts. A
/// missing entry is [`Wish::Any`].
///
/// # Errors
/// The errors of the source.
pub fn plan(call: &Call, source: &impl Source, parts: &[Part], wishes: &[Wish]) -> Result<Plan, PolicyError> {
    let wish = |index: usize| wishes.get(index).copied().unwrap_or_default();
    let mut kept = kept(call, parts, wish);
    if kept.contains(&false) {
        for (index, (kept, part)) in kept.iter_mut().zip(parts).enumerate() {
            *kept &= !is_cursor(part) || wish(index) == Wish::Keep;
        }
    }
    let mut found = Vec::with_capacity(parts.len());
    for ((index, part), kept) in (0..).zip(parts).zip(&kept) {
        found.push(if *kept { (Class::Kept, None) } else { class(call, source, index, part)? });
    }
    join_documents(parts, &mut found);
    for ((index, part), (class, group)) in (0..).zip(parts).zip(&mut found) {
        match class {
            Class::Text if group.is_none() && part.kind == PartKind::Text => {
                *class = form(source, index, part)?.map_or(Class::Text, |(_, named)| Class::Records(named));
            }
            Class::Document { is_table: true, .. } if group.is_none() => *class = Class::Records(Form::JsonColumns),
            _ => {}
        }
    }
    Ok(Plan { parts: planned(found) })
}

/// Ungroups the parts that are too few to share files, and groups documents that are too many to have their own.
fn join_documents(parts: &[Part], found: &mut [(Class, Option<Group>)]) {
    let count = |found: &[(Class, Option<Group>)], group| found.iter().filter(|(_, of)| *of == Some(group)).count();
    for (group, most) in [
        (Group::Record, RECORDS_MIN - 1),
        (Group::Records, RECORDS_MIN - 1),
        (Group::Blocks, SINGLE_MAX),
        (Group::Texts, SINGLE_MAX),
        (Group::Binaries, BINARY_MAX),
    ] {
        if count(found, group) <= most {
            found.iter_mut().filter(|(_, of)| *of == Some(group)).for_each(|(_, of)| *of = None);
        }
    }
    let is_single = |class: &Class, part: &Part| matches!(class, Class::Document { .. }) && part.kind == PartKind::Text;
    let single = || found.iter().zip(parts).filter(|((class, group), part)| group.is_none() && is_single(class, part));
    if single().count() > SINGLE_MAX {
        for ((class, group), part) in found.iter_mut().zip(parts) {
            if group.is_none() && is_single(class, part) {
                *group = Some(Group::Record);
            }
        }
    }
}

/// The planned parts. The first of a group is written, the others join it.
fn planned(found: Vec<(Class, Option<Group>)>) -> Vec<PlannedPart> {
    let is_single =
        |(class, group): &&(Class, Option<Group>)| group.is_none() && matches!(class, Class::Document { .. });
    let sections_max = files_each(found.iter().filter(is_single).count());
    let mut names = Names::default();
    let mut texts_left = strings::STRINGS_MAX;
    let mut first: Vec<(Group, u32)> = Vec::new();
    let mut planned = Vec::with_capacity(found.len());
    for (index, (class, group)) in (0..).zip(found) {
        if let Some((_, joins)) = group.and_then(|group| first.iter().find(|(of, _)| *of == group)) {
            planned.push(PlannedPart::Joined(*joins));
            continue;
        }
        first.extend(group.map(|group| (group, index)));
        planned.push(match (class, group) {
            (Class::Kept, _) => PlannedPart::Keep,
            (Class::Text, _) => PlannedPart::Text,
            (Class::Bytes, _) => PlannedPart::Bytes,
            (Class::Records(form), _) => PlannedPart::Records(PlannedRecords { form, name: names.section(RECORDS) }),
            (Class::Document { .. }, Some(group)) => PlannedPart::Sections(vec![whole(group, &mut names)]),
            (Class::Document { sections, mut texts, .. }, None) => {
                texts.truncate(texts_left);
                texts_left -= texts.len();
                let mut planned = named(sections.into_iter().take(sections_max), &mut names);
                planned.extend(texts.into_iter().map(|text| whole_text(text, &mut names)));
                PlannedPart::Sections(planned)
            }
        });
    }
    planned
}

/// Most files for the sections, and for the large members, of each of so many documents.
pub(crate) fn files_each(documents: usize) -> usize {
    (FILES_MAX / documents.max(1)).clamp(1, SECTIONS_MAX)
}

/// The section of a group: each value is a record, or an array of records.
fn whole(group: Group, names: &mut Names) -> PlannedSection {
    let shape = if group == Group::Records { SectionShape::Elements } else { SectionShape::Value };
    let name = names.section(if group == Group::Blocks { "blocks" } else { RECORDS });
    PlannedSection { pointer: String::new(), shape, name }
}

/// The section of a string that is a text.
fn whole_text(LongString { pointer, .. }: LongString, names: &mut Names) -> PlannedSection {
    PlannedSection { name: names.section(&strings::name(&pointer)), shape: SectionShape::Value, pointer }
}

fn named(found: impl Iterator<Item = Section>, names: &mut Names) -> Vec<PlannedSection> {
    let planned = found.map(|Section { pointer, shape }| PlannedSection {
        name: names.section(&last_key(&pointer).unwrap_or_else(|| RECORDS.to_owned())),
        shape: shape.into(),
        pointer,
    });
    planned.collect()
}

/// Which parts stay in the reply.
fn kept(call: &Call, parts: &[Part], wish: impl Fn(usize) -> Wish) -> Vec<bool> {
    let settings = &call.settings;
    let is_small = |part: &Part| part.complete && part.size <= u64::from(settings.inline_limit);
    let by_size = settings.mode == DecisionMode::BySize;
    let may_stay = |index: usize, part: &Part| {
        wish(index) == Wish::Any
            && match part.kind {
                PartKind::Text | PartKind::Structured => by_size && is_small(part),
                PartKind::Block => is_small(part),
                PartKind::Binary | PartKind::Meta => false,
            }
    };
    // Blocks of other types and texts apart: many links do not make a remark part of the data.
    let few = |is_block: bool| {
        let is_of_kind = |part: &Part| (part.kind == PartKind::Block) == is_block;
        let small = parts.iter().enumerate().filter(|(index, part)| is_of_kind(part) && may_stay(*index, part));
        let (count, bytes) = small.fold((0, 0), |(count, bytes), (_, part)| (count + 1, bytes + part.size));
        let most = settings.threshold.amount.max(settings.inline_limit.into());
        count <= SINGLE_MAX && of_ascii(bytes, settings.threshold.unit) <= most
    };
    let (few_texts, few_blocks) = (few(false), few(true));
    let is_bytes = |part: &&Part| part.kind == PartKind::Binary && !(images::stay(call) && images::is_image(part));
    let mut images = Bounds::new(call);
    // Of many binary parts none stays: what stands around each of them would add up.
    let mut room = if parts.iter().filter(is_bytes).count() <= SINGLE_MAX { settings.threshold.amount } else { 0 };
    let decide = |(index, part): (usize, &Part)| match (wish(index), part.kind) {
        (Wish::Keep, _) => true,
        (Wish::Write, _) => false,
        (Wish::Any, PartKind::Meta) => is_small(part),
        (Wish::Any, PartKind::Binary) if images::is_image(part) && images::stay(call) => images.take(part),
        (Wish::Any, PartKind::Binary) => {
            let left = room.checked_sub(of_ascii(wire_bytes(part), settings.threshold.unit)).filter(|_| by_size);
            room = left.unwrap_or(room);
            left.is_some()
        }
        (Wish::Any, PartKind::Block) => few_blocks && may_stay(index, part),
        (Wish::Any, PartKind::Text | PartKind::Structured) => few_texts && may_stay(index, part),
    };
    parts.iter().enumerate().map(decide).collect()
}

/// Whether a part is the cursor of the tool's next page.
fn is_cursor(part: &Part) -> bool {
    part.kind == PartKind::Meta && part.name.as_deref().is_some_and(|name| CURSORS.contains(&name))
}

/// The class of a part that is written, and the group of those that are like it.
fn class(call: &Call, source: &impl Source, index: u32, part: &Part) -> Result<(Class, Option<Group>), PolicyError> {
    Ok(match part.kind {
        PartKind::Binary => (Class::Bytes, Some(Group::Binaries)),
        PartKind::Meta if is_cursor(part) => (Class::PLAIN, None),
        PartKind::Meta => (Class::Text, None),
        PartKind::Block => (Class::PLAIN, Some(Group::Blocks)),
        PartKind::Structured => (json(call, source, index, part)?.map_or(Class::Text, |(class, _)| class), None),
        PartKind::Text => json(call, source, index, part)?.unwrap_or((Class::Text, Some(Group::Texts))),
    })
}

/// The class of a text that is JSON.
fn json(
    call: &Call,
    source: &impl Source,
    index: u32,
    part: &Part,
) -> Result<Option<(Class, Option<Group>)>, PolicyError> {
    let search = call.settings.sections.is_empty();
    let (mut survey, mut seen, mut is_json, mut whole) = (Survey::new(), 0, part.kind != PartKind::Text, true);
    let (mut has_objects, mut head) = (false, String::new());
    read_json(source, index, &mut |slice| {
        if seen == 0 {
            let beginning = slice.trim_start();
            is_json |= beginning.starts_with(['{', '[']);
            has_objects = beginning.strip_prefix('[').is_some_and(|inside| inside.trim_start().starts_with('{'));
        }
        if is_json {
            // Not JSON, or nested deeper than the splitter allows.
            is_json = survey.push(slice).is_ok();
        }
        if !has_objects && head.len() < HEAD_BYTES_MAX {
            head.push_str(&slice[..slice.floor_char_boundary(HEAD_BYTES_MAX)]);
        }
        seen += slice.len();
        // Configured sections need no search; the first slice shows whether this is JSON.
        whole = search && seen < SURVEY_BYTES_MAX && !survey.is_settled();
        Ok(is_json && whole)
    })?;
    if !is_json {
        return Ok(None);
    }
    let Ok(Surveyed { sections, texts }) = survey.finish_with_texts(whole) else { return Ok(None) };
    // A text with a name stays a separate document, and so does one whose sections the settings name.
    let group = match search && part.name.is_none() {
        true if has_objects => Some(Group::Records),
        true if seen as u64 <= RECORD_BYTES_MAX => Some(Group::Record),
        _ => None,
    };
    let is_table = search && !has_objects && is_table(call, part, &head, &sections);
    let (sections, texts) =
        if search { (sections, strings::chosen(call, texts)) } else { (configured(call), Vec::new()) };
    Ok(Some((Class::Document { sections, texts, is_table }, group)))
}

/// Whether a document with these sections is a table. One of whose members the settings name a few stays a document.
pub(crate) fn is_table(call: &Call, part: &Part, head: &str, found: &[Section]) -> bool {
    let settings = &call.settings;
    if !settings.inline_keys.is_empty() || settings.session_key.is_some() {
        return false;
    }
    let Some(Tabular { path, layout }) = tabular(head) else { return false };
    let mut pointer = String::new();
    path.iter().for_each(|step| push_step(&mut pointer, step));
    // A large member beside the table would be out of reach.
    found.iter().all(|section| is_inside(&section.pointer, &pointer))
        && match layout {
            // Its reader holds it.
            Layout::Parallel => part.complete && part.size <= PARALLEL_BYTES_MAX as u64,
            // Of a small document no member is a section.
            _ => !found.is_empty() || part.size <= RECORD_BYTES_MAX,
        }
}

/// Whether a pointer is that of a value, or of one inside it.
pub(crate) fn is_inside(pointer: &str, value: &str) -> bool {
    pointer.strip_prefix(value).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The sections that the settings name.
pub(crate) fn configured(call: &Call) -> Vec<Section> {
    let rules = call.settings.sections.iter().take(SECTIONS_MAX);
    rules.map(|rule| Section { pointer: pointer_of_key(&rule.key), shape: lro_jsonl::Shape::Elements }).collect()
}

/// The JSON Pointer of a configured key: a pointer stays unchanged, a plain key becomes one.
pub(crate) fn pointer_of_key(key: &str) -> String {
    let mut pointer = String::new();
    if key.is_empty() || key.starts_with('/') {
        pointer.push_str(key);
    } else {
        push_step(&mut pointer, key);
    }
    pointer
}

//! Shared by the tests: a result in memory, and what is planned for it.

use std::cell::Cell;

use lro_offload::bindings::lro::filter::types::{
    Abilities, Action, DecisionMode, DescriptorDialect, DescriptorLevel, ImageMode, PlannedSection, ReadError, Reader,
    SectionShape, Settings, Size, SizeUnit,
};
use lro_offload::{Call, Part, PartKind, PlannedPart, PolicyError, Source, Wish, plan};

/// Bytes of a text that are read at a time.
pub(crate) const SLICE_BYTES: usize = 4 * 1024;

/// The parts of a result and their bytes, and how many bytes of text were read.
#[derive(Clone, Default)]
pub(crate) struct Parts {
    parts: Vec<(Part, Vec<u8>)>,
    bytes_read: Cell<usize>,
}

impl Source for Parts {
    fn parts(&self) -> Vec<Part> {
        self.parts.iter().map(|(part, _)| part.clone()).collect()
    }

    fn read_text(&self, part: u32, each: &mut dyn FnMut(&str) -> Result<bool, PolicyError>) -> Result<(), PolicyError> {
        let (part, bytes) = &self.parts[part as usize];
        assert!(part.kind != PartKind::Binary, "read as text");
        let mut rest = std::str::from_utf8(bytes).unwrap_or_else(|error| panic!("{error}"));
        while !rest.is_empty() {
            let (slice, after) = rest.split_at(rest.floor_char_boundary(SLICE_BYTES));
            self.bytes_read.set(self.bytes_read.get() + slice.len());
            if !each(slice)? {
                break;
            }
            rest = after;
        }
        Ok(())
    }

    fn read_bytes(&self, part: u32, offset: u64) -> Result<Vec<u8>, PolicyError> {
        let (part, bytes) = &self.parts[part as usize];
        if part.kind != PartKind::Binary {
            return Err(PolicyError::Read(ReadError::WrongKind));
        }
        Ok(bytes.get(usize::try_from(offset).unwrap_or(usize::MAX)..).unwrap_or_default().to_vec())
    }
}

impl Parts {
    pub(crate) fn bytes_read(&self) -> usize {
        self.bytes_read.get()
    }

    fn and(mut self, kind: PartKind, media_type: Option<&str>, bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref().to_vec();
        let media_type = media_type.map(str::to_owned);
        self.parts.push((Part { kind, media_type, name: None, size: bytes.len() as u64, complete: true }, bytes));
        self
    }

    pub(crate) fn text(self, text: impl AsRef<[u8]>) -> Self {
        self.and(PartKind::Text, None, text)
    }

    pub(crate) fn texts(self, count: usize, text: impl AsRef<[u8]>) -> Self {
        (0..count).fold(self, |parts, _| parts.text(&text))
    }

    pub(crate) fn structured(self, json: impl AsRef<[u8]>) -> Self {
        self.and(PartKind::Structured, None, json)
    }

    pub(crate) fn blocks(self, count: usize, json: impl AsRef<[u8]>) -> Self {
        (0..count).fold(self, |parts, _| parts.and(PartKind::Block, None, &json))
    }

    pub(crate) fn meta(self, name: &str, json: impl AsRef<[u8]>) -> Self {
        self.and(PartKind::Meta, None, json).named(name)
    }

    pub(crate) fn binary(self, media_type: &str, bytes: impl AsRef<[u8]>) -> Self {
        self.and(PartKind::Binary, Some(media_type), bytes)
    }

    /// Changes the last part.
    fn last(mut self, change: impl FnOnce(&mut Part)) -> Self {
        let Some((part, _)) = self.parts.last_mut() else { panic!("a part first") };
        change(part);
        self
    }

    /// Gives the last part a name.
    pub(crate) fn named(self, name: &str) -> Self {
        self.last(|part| part.name = Some(name.to_owned()))
    }

    /// Of the last part, the host has only so many bytes yet.
    pub(crate) fn so_far(self, bytes: u64) -> Self {
        self.last(|part| (part.size, part.complete) = (bytes, false))
    }
}

pub(crate) fn bytes(amount: u64) -> Size {
    Size { amount, unit: SizeUnit::Bytes }
}

pub(crate) fn characters(amount: u64) -> Size {
    Size { amount, unit: SizeUnit::Characters }
}

pub(crate) fn tokens(amount: u64) -> Size {
    Size { amount, unit: SizeUnit::Tokens }
}

pub(crate) fn settings() -> Settings {
    Settings {
        mode: DecisionMode::BySize,
        threshold: characters(1_000),
        action: Action::Offload,
        sections: Vec::new(),
        inline_keys: Vec::new(),
        inline_limit: 512,
        infer: true,
        header_type: "mcp_lro".to_owned(),
        session_key: None,
        level: DescriptorLevel::Standard,
        dialect: DescriptorDialect::Sections,
        descriptor_limit: 8_000,
        truncate_limit: characters(1_000),
        truncate_suffix: String::new(),
        advice: String::new(),
        images: ImageMode::Keep,
        images_max: 8,
        images_bytes: 1 << 20,
        custom: None,
    }
}

pub(crate) fn call(settings: Settings) -> Call {
    Call {
        id: "01M80Z99Y86XT5TXS8952BNT88".to_owned(),
        time: "2026-11-20T09:30:00Z".to_owned(),
        tenant: "tests".to_owned(),
        session: None,
        tool: "fetch".to_owned(),
        query: None,
        input_schema: None,
        is_error: false,
        shown_path: "/offloads".to_owned(),
        reader: Reader { abilities: Abilities::empty(), limit: None },
        settings,
    }
}

/// What is planned for each part.
pub(crate) fn planned(call: &Call, parts: &Parts, wishes: &[Wish]) -> Vec<PlannedPart> {
    plan(call, parts, &parts.parts(), wishes).unwrap_or_else(|error| panic!("{error:?}")).parts
}

/// What is planned for each part, in a few words: sections as pointer, shape and name.
pub(crate) fn in_words(call: &Call, parts: &Parts, wishes: &[Wish]) -> Vec<String> {
    let word = |part: PlannedPart| match part {
        PlannedPart::Keep => "keep".to_owned(),
        PlannedPart::Text => "text".to_owned(),
        PlannedPart::Bytes => "bytes".to_owned(),
        PlannedPart::Records(records) => format!("{:?} {}", records.form, records.name).replace("Form::", ""),
        PlannedPart::Joined(with) => format!("joins {with}"),
        PlannedPart::Sections(sections) => {
            let section = |PlannedSection { pointer, shape, name }| match shape {
                SectionShape::Elements => format!("elements `{pointer}` {name}"),
                SectionShape::Members => format!("members `{pointer}` {name}"),
                SectionShape::Value => format!("value `{pointer}` {name}"),
            };
            format!("[{}]", sections.into_iter().map(section).collect::<Vec<_>>().join(", "))
        }
    };
    planned(call, parts, wishes).into_iter().map(word).collect()
}

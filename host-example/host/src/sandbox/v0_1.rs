//! Policies of version 0.1.0: the call and the answers of the newest version, converted.
//!
//! What 0.1.0 cannot say is left out of a call. A plan that it has no words for is an error.

use wasmtime::component::Resource;

use super::PayloadReader;
use super::bindings::lro::filter::types::{self as new, HostToolResult};
use super::bindings::v0_1::lro::filter::types as old;
use super::state::CallState;

impl old::Host for CallState {}

impl old::HostToolResult for CallState {
    fn parts(&mut self, payload: Resource<PayloadReader>) -> wasmtime::Result<Vec<old::Part>> {
        Ok(HostToolResult::parts(self, payload)?.to())
    }

    fn read_text(
        &mut self,
        payload: Resource<PayloadReader>,
        part: u32,
        offset: u64,
        length: u32,
    ) -> wasmtime::Result<Result<String, old::ReadError>> {
        Ok(HostToolResult::read_text(self, payload, part, offset, length)?.map_err(To::to))
    }

    fn read_bytes(
        &mut self,
        payload: Resource<PayloadReader>,
        part: u32,
        offset: u64,
        length: u32,
    ) -> wasmtime::Result<Result<Vec<u8>, old::ReadError>> {
        Ok(HostToolResult::read_bytes(self, payload, part, offset, length)?.map_err(To::to))
    }

    fn drop(&mut self, payload: Resource<PayloadReader>) -> wasmtime::Result<()> {
        HostToolResult::drop(self, payload)
    }
}

/// A plan for a policy of version 0.1.0.
///
/// # Errors
/// [`new::PolicyError::Invalid`] for a plan with records of a text, joined parts, or a section of one value.
pub(super) fn plan(plan: &new::Plan) -> Result<old::Plan, new::PolicyError> {
    let parts = plan.parts.iter().enumerate().map(|(index, part)| {
        planned_part(part).ok_or_else(|| {
            new::PolicyError::Invalid(format!("plan: part {index} needs a policy of lro:filter@0.2.0 or later"))
        })
    });
    Ok(old::Plan { parts: parts.collect::<Result<_, _>>()? })
}

fn planned_part(part: &new::PlannedPart) -> Option<old::PlannedPart> {
    Some(match part {
        new::PlannedPart::Keep => old::PlannedPart::Keep,
        new::PlannedPart::Text => old::PlannedPart::Text,
        new::PlannedPart::Bytes => old::PlannedPart::Bytes,
        new::PlannedPart::Sections(sections) => {
            old::PlannedPart::Sections(sections.iter().map(planned_section).collect::<Option<_>>()?)
        }
        new::PlannedPart::Records(_) | new::PlannedPart::Joined(_) => return None,
    })
}

fn planned_section(section: &new::PlannedSection) -> Option<old::PlannedSection> {
    let shape = match section.shape {
        new::SectionShape::Elements => old::SectionShape::Elements,
        new::SectionShape::Members => old::SectionShape::Members,
        new::SectionShape::Value => return None,
    };
    Some(old::PlannedSection { pointer: section.pointer.clone(), shape, name: section.name.clone() })
}

/// A value of one version as the same value of another.
pub(super) trait To<T> {
    /// The same value.
    fn to(self) -> T;
}

impl<A: To<B>, B> To<Vec<B>> for Vec<A> {
    fn to(self) -> Vec<B> {
        self.into_iter().map(To::to).collect()
    }
}

impl<A: To<B>, B> To<Option<B>> for Option<A> {
    fn to(self) -> Option<B> {
        self.map(To::to)
    }
}

macro_rules! unchanged {
    ($($name:ty),+) => {
        $(impl To<$name> for $name {
            fn to(self) -> $name {
                self
            }
        })+
    };
}

unchanged!(String, bool, u32, u64);

/// Types that both versions spell alike, in both directions.
macro_rules! alike {
    ($(enum $name:ident { $($case:ident),+ })+) => {
        $(
            impl To<old::$name> for new::$name {
                fn to(self) -> old::$name {
                    match self { $(Self::$case => old::$name::$case),+ }
                }
            }
            impl To<new::$name> for old::$name {
                fn to(self) -> new::$name {
                    match self { $(Self::$case => new::$name::$case),+ }
                }
            }
        )+
    };
    ($(variant $name:ident { $($case:ident),+ })+) => {
        $(
            impl To<old::$name> for new::$name {
                fn to(self) -> old::$name {
                    match self { $(Self::$case(value) => old::$name::$case(value.to())),+ }
                }
            }
            impl To<new::$name> for old::$name {
                fn to(self) -> new::$name {
                    match self { $(Self::$case(value) => new::$name::$case(value.to())),+ }
                }
            }
        )+
    };
    ($(record $name:ident { $($field:ident),+ })+) => {
        $(
            impl To<old::$name> for new::$name {
                fn to(self) -> old::$name {
                    old::$name { $($field: self.$field.to()),+ }
                }
            }
            impl To<new::$name> for old::$name {
                fn to(self) -> new::$name {
                    new::$name { $($field: self.$field.to()),+ }
                }
            }
        )+
    };
}

alike! {
    enum PartKind { Text, Structured, Binary, Block, Meta }
    enum SizeUnit { Bytes, Characters, Tokens }
    enum DecisionMode { BySize, Always, Never }
    enum Action { Offload, Truncate, Reject }
    enum DescriptorLevel { Pointer, Standard, Full }
    enum DescriptorDialect { Sections, Specification }
    enum SummaryKind { Count, Range, TopValues, Distinct }
    enum FileKind { Records, Text, Value, Bytes }
    enum AggregateKind { Count, Sum, Min, Max, Avg }
    enum Operator { Eq, Ne, Lt, Le, Gt, Ge, OneOf, Contains, StartsWith, Matches, Exists, IsNull }
}

alike! {
    variant Condition { Test, All, Any, Negation }
}

alike! {
    record Size { amount, unit }
    record Truncation { limit, suffix }
    record SectionRule { key, filename_prefix, schema, summaries, recipes }
    record SummaryRule { kind, field }
    record Recipe { name, description, command, query }
    record StoredQuery { name, description, query }
    record Query { where_, group, select, distinct, sort, sample, count, offset, limit }
    record Test { field, operator, value, ignore_case, parameter }
    record Selection { field, name }
    record SortKey { field, descending }
    record Aggregate { kind, field, name }
    record Group { by, aggregates }
}

impl To<old::Part> for new::Part {
    fn to(self) -> old::Part {
        old::Part { kind: self.kind.to(), media_type: self.media_type, name: self.name, size: self.size }
    }
}

impl To<old::ReadError> for new::ReadError {
    fn to(self) -> old::ReadError {
        match self {
            Self::NoSuchPart => old::ReadError::NoSuchPart,
            Self::WrongKind => old::ReadError::WrongKind,
            Self::InsideCharacter(start) => old::ReadError::InsideCharacter(start),
            Self::Failed(text) => old::ReadError::Failed(text),
        }
    }
}

impl To<old::Abilities> for new::Abilities {
    fn to(self) -> old::Abilities {
        let pairs = [
            (Self::SHELL, old::Abilities::SHELL),
            (Self::EXTRACT_TOOL, old::Abilities::EXTRACT_TOOL),
            (Self::READ_TOOL, old::Abilities::READ_TOOL),
        ];
        let held = pairs.into_iter().filter(|(ability, _)| self.contains(*ability));
        held.fold(old::Abilities::default(), |all, (_, ability)| all | ability)
    }
}

impl To<old::Call> for new::Call {
    fn to(self) -> old::Call {
        old::Call {
            id: self.id,
            time: self.time,
            tenant: self.tenant,
            session: self.session,
            tool: self.tool,
            query: self.query,
            is_error: self.is_error,
            shown_path: self.shown_path,
            abilities: self.reader.abilities.to(),
            settings: self.settings.to(),
        }
    }
}

impl To<old::Settings> for new::Settings {
    fn to(self) -> old::Settings {
        old::Settings {
            mode: self.mode.to(),
            threshold: self.threshold.to(),
            action: self.action.to(),
            sections: self.sections.to(),
            inline_keys: self.inline_keys,
            inline_limit: self.inline_limit,
            infer: self.infer,
            header_type: self.header_type,
            session_key: self.session_key,
            level: self.level.to(),
            dialect: self.dialect.to(),
            descriptor_limit: self.descriptor_limit,
            truncate_limit: self.truncate_limit.to(),
            truncate_suffix: self.truncate_suffix,
            advice: self.advice,
            custom: self.custom,
        }
    }
}

impl To<new::Verdict> for old::Verdict {
    fn to(self) -> new::Verdict {
        match self {
            Self::Pass => new::Verdict::Pass,
            Self::Offload(plan) => new::Verdict::Offload(new::Plan { parts: plan.parts.to() }),
            Self::Truncate(truncation) => new::Verdict::Truncate(truncation.to()),
            Self::Reject(advice) => new::Verdict::Reject(advice),
        }
    }
}

impl To<new::PlannedPart> for old::PlannedPart {
    fn to(self) -> new::PlannedPart {
        match self {
            Self::Keep => new::PlannedPart::Keep,
            Self::Sections(sections) => new::PlannedPart::Sections(sections.to()),
            Self::Text => new::PlannedPart::Text,
            Self::Bytes => new::PlannedPart::Bytes,
        }
    }
}

impl To<new::PlannedSection> for old::PlannedSection {
    fn to(self) -> new::PlannedSection {
        new::PlannedSection { pointer: self.pointer, shape: self.shape.to(), name: self.name }
    }
}

impl To<new::SectionShape> for old::SectionShape {
    fn to(self) -> new::SectionShape {
        match self {
            Self::Elements => new::SectionShape::Elements,
            Self::Members => new::SectionShape::Members,
        }
    }
}

impl To<new::Descriptor> for old::Descriptor {
    fn to(self) -> new::Descriptor {
        let Self { content, files, offloaded_tokens, notes } = self;
        new::Descriptor { content, files: files.to(), offloaded_tokens, notes }
    }
}

impl To<new::File> for old::File {
    fn to(self) -> new::File {
        new::File {
            name: self.name,
            kind: self.kind.to(),
            section: self.section,
            parts: vec![self.part],
            origin: new::Origin::Content,
            form: None,
            derived_from: None,
            pointer: self.pointer,
            shape: self.shape.to(),
            media_type: self.media_type,
            records: self.records,
            bytes: self.bytes,
            schema: self.schema,
            queries: self.queries.to(),
        }
    }
}

impl To<new::PolicyError> for old::PolicyError {
    fn to(self) -> new::PolicyError {
        match self {
            Self::Invalid(text) => new::PolicyError::Invalid(text),
            Self::Read(error) => new::PolicyError::Read(match error {
                old::ReadError::NoSuchPart => new::ReadError::NoSuchPart,
                old::ReadError::WrongKind => new::ReadError::WrongKind,
                old::ReadError::InsideCharacter(start) => new::ReadError::InsideCharacter(start),
                old::ReadError::Failed(text) => new::ReadError::Failed(text),
            }),
            Self::NoSpace => new::PolicyError::NoSpace,
            Self::Io(text) => new::PolicyError::Io(text),
            Self::Limit(text) => new::PolicyError::Limit(text),
            Self::Other(text) => new::PolicyError::Other(text),
        }
    }
}

//! Converts settings into types of the contract, and a policy's answers into types of the store.

use serde_json::value::RawValue;

use super::Truncation;
use crate::extract::Query;
use crate::sandbox::types;
use crate::{settings as plain, store};

impl From<plain::Size> for types::Size {
    fn from(size: plain::Size) -> Self {
        let unit = match size.unit {
            plain::SizeUnit::Bytes => types::SizeUnit::Bytes,
            plain::SizeUnit::Characters => types::SizeUnit::Characters,
            plain::SizeUnit::Tokens => types::SizeUnit::Tokens,
        };
        Self { amount: size.amount, unit }
    }
}

impl From<types::Size> for plain::Size {
    fn from(size: types::Size) -> Self {
        let unit = match size.unit {
            types::SizeUnit::Bytes => plain::SizeUnit::Bytes,
            types::SizeUnit::Characters => plain::SizeUnit::Characters,
            types::SizeUnit::Tokens => plain::SizeUnit::Tokens,
        };
        Self { amount: size.amount, unit }
    }
}

impl From<types::Truncation> for Truncation {
    fn from(truncation: types::Truncation) -> Self {
        Self { limit: truncation.limit.into(), suffix: truncation.suffix }
    }
}

impl From<&plain::PolicySettings> for types::Settings {
    fn from(settings: &plain::PolicySettings) -> Self {
        Self {
            mode: match settings.mode {
                plain::DecisionMode::BySize => types::DecisionMode::BySize,
                plain::DecisionMode::Always => types::DecisionMode::Always,
                plain::DecisionMode::Never => types::DecisionMode::Never,
            },
            threshold: settings.threshold.into(),
            action: match settings.action {
                plain::Action::Offload => types::Action::Offload,
                plain::Action::Truncate => types::Action::Truncate,
                plain::Action::Reject => types::Action::Reject,
            },
            sections: settings.sections.iter().map(Into::into).collect(),
            inline_keys: settings.inline_keys.clone(),
            inline_limit: settings.inline_limit,
            infer: settings.infer,
            header_type: settings.header_type.clone(),
            session_key: settings.session_key.clone(),
            level: match settings.level {
                plain::DescriptorLevel::Pointer => types::DescriptorLevel::Pointer,
                plain::DescriptorLevel::Standard => types::DescriptorLevel::Standard,
                plain::DescriptorLevel::Full => types::DescriptorLevel::Full,
            },
            dialect: match settings.dialect {
                plain::DescriptorDialect::Sections => types::DescriptorDialect::Sections,
                plain::DescriptorDialect::Specification => types::DescriptorDialect::Specification,
            },
            descriptor_limit: settings.descriptor_limit,
            truncate_limit: settings.truncate_limit.into(),
            truncate_suffix: settings.truncate_suffix.clone(),
            advice: settings.advice.clone(),
            images: match settings.images {
                plain::ImageMode::Keep => types::ImageMode::Keep,
                plain::ImageMode::Offload => types::ImageMode::Offload,
            },
            images_max: settings.images_max,
            images_bytes: settings.images_bytes,
            custom: settings.custom.clone(),
        }
    }
}

impl From<&plain::SectionRule> for types::SectionRule {
    fn from(rule: &plain::SectionRule) -> Self {
        let summary = |rule: &plain::SummaryRule| types::SummaryRule {
            kind: match rule.kind {
                plain::SummaryKind::Count => types::SummaryKind::Count,
                plain::SummaryKind::Range => types::SummaryKind::Range,
                plain::SummaryKind::TopValues => types::SummaryKind::TopValues,
                plain::SummaryKind::Distinct => types::SummaryKind::Distinct,
            },
            field: rule.field.clone(),
        };
        let recipe = |recipe: &plain::Recipe| types::Recipe {
            name: recipe.name.clone(),
            description: recipe.description.clone(),
            command: recipe.command.clone(),
            // The configuration has already rejected invalid queries.
            query: recipe
                .query
                .as_deref()
                .and_then(|text| serde_json::from_str::<Query>(text).ok())
                .map(|query| (&query).into()),
        };
        Self {
            key: rule.key.clone(),
            filename_prefix: rule.filename_prefix.clone(),
            schema: rule.schema.clone(),
            summaries: rule.summaries.iter().map(summary).collect(),
            recipes: rule.recipes.iter().map(recipe).collect(),
        }
    }
}

impl From<types::FileKind> for store::FileKind {
    fn from(kind: types::FileKind) -> Self {
        match kind {
            types::FileKind::Records => Self::Records,
            types::FileKind::Text => Self::Text,
            types::FileKind::Value => Self::Value,
            types::FileKind::Bytes => Self::Bytes,
        }
    }
}

impl From<types::Origin> for store::Origin {
    fn from(origin: types::Origin) -> Self {
        match origin {
            types::Origin::Content => Self::Content,
            types::Origin::RecordsOfText => Self::RecordsOfText,
            types::Origin::Outline => Self::Outline,
        }
    }
}

impl From<types::Form> for store::Form {
    fn from(form: types::Form) -> Self {
        match form {
            types::Form::JsonLines => Self::JsonLines,
            types::Form::JsonSequence => Self::JsonSequence,
            types::Form::JsonWithin => Self::JsonWithin,
            types::Form::Delimited(types::Delimited { delimiter, header }) => Self::Delimited { delimiter, header },
            types::Form::MarkdownTable => Self::MarkdownTable,
            types::Form::AlignedTable => Self::AlignedTable,
            types::Form::PythonLiteral => Self::PythonLiteral,
            types::Form::Yaml => Self::Yaml,
            types::Form::Markup => Self::Markup,
            types::Form::JsonColumns => Self::JsonColumns,
            types::Form::KeyedBlocks => Self::KeyedBlocks,
        }
    }
}

impl From<types::SectionShape> for store::RecordShape {
    fn from(shape: types::SectionShape) -> Self {
        match shape {
            types::SectionShape::Elements => Self::Elements,
            types::SectionShape::Members => Self::Members,
            types::SectionShape::Value => Self::Value,
        }
    }
}

impl TryFrom<types::File> for store::FileRecord {
    type Error = &'static str;

    /// The error says what is wrong with the record.
    fn try_from(file: types::File) -> Result<Self, &'static str> {
        let schema = file.schema.map(RawValue::from_string).transpose().map_err(|_| "a schema that is not JSON")?;
        let queries = file.queries.iter().map(TryInto::try_into).collect::<Result<_, _>>()?;
        Ok(Self {
            name: file.name,
            kind: file.kind.into(),
            section: file.section,
            parts: file.parts,
            origin: file.origin.into(),
            form: file.form.map(Into::into),
            derived_from: file.derived_from,
            pointer: file.pointer,
            shape: file.shape.map(Into::into),
            media_type: file.media_type,
            records: file.records,
            bytes: file.bytes,
            schema,
            queries,
            sha256: None,
            xxh3: None,
            digest_from: 0,
            index: None,
        })
    }
}

impl TryFrom<&types::StoredQuery> for store::StoredQuery {
    type Error = &'static str;

    /// The error says what is wrong with the query.
    fn try_from(stored: &types::StoredQuery) -> Result<Self, &'static str> {
        let query = Query::try_from(&stored.query).map_err(|()| "an invalid stored query")?;
        let query = serde_json::value::to_raw_value(&query).map_err(|_| "a stored query that is not JSON")?;
        Ok(Self { name: stored.name.clone(), description: stored.description.clone(), query })
    }
}

//! Configuration in the terms of the contract.

use crate::sandbox::{Limits, types};
use crate::settings as plain;
use std::time::Duration;

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

impl From<&plain::Limits> for Limits {
    fn from(limits: &plain::Limits) -> Self {
        let size = |amount: u64| usize::try_from(amount).unwrap_or(usize::MAX);
        Self {
            wall_time: Duration::from_millis(limits.wall_time_ms.get()),
            memory_bytes: size(limits.memory_bytes.get()),
            table_elements: size(limits.table_elements.get()),
            instances: size(limits.instances.get()),
            written_bytes: limits.written_bytes.get(),
            files: u32::try_from(limits.files.get()).unwrap_or(u32::MAX),
            crossing_bytes: size(limits.crossing_bytes.get()),
        }
    }
}

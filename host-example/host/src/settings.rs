//! What a tool's results are filtered with: the record `settings` of `wit/types.wit`, and what is done when that fails.

use std::num::{NonZeroU32, NonZeroU64};

use serde::{Deserialize, Deserializer, Serialize, de::Error};

use crate::extract::Query;
pub use lro_payload::{Size, SizeUnit};

/// Default of [`PolicySettings::threshold`], in characters.
pub const THRESHOLD_DEFAULT: NonZeroU64 = match NonZeroU64::new(50_000) {
    Some(threshold) => threshold,
    None => NonZeroU64::MIN,
};
/// Default of [`PolicySettings::inline_limit`], in bytes.
pub const INLINE_LIMIT_DEFAULT: u32 = 512;
/// Default of [`PolicySettings::descriptor_limit`], in characters: below the 50,000 at which clients write a result to a file of
/// their own.
pub const DESCRIPTOR_LIMIT_DEFAULT: NonZeroU32 = match NonZeroU32::new(40_000) {
    Some(limit) => limit,
    None => NonZeroU32::MIN,
};
/// Default of [`PolicySettings::header_type`].
pub const HEADER_TYPE_DEFAULT: &str = "mcp_lro";
/// Default of [`PolicySettings::truncate_suffix`].
pub const TRUNCATE_SUFFIX_DEFAULT: &str = "\n\n[truncated: the result was larger than the limit]";

/// What a client gets when a policy fails, or its offload cannot be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureMode {
    /// The result, within its bound; a truncated one when the policy was not asked because too many calls run.
    #[default]
    Open,
    /// An error.
    Closed,
    /// A truncated result.
    Truncate,
}

/// When a result is acted upon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DecisionMode {
    /// When it is larger than the threshold.
    #[default]
    BySize,
    /// Always, whatever its size.
    Always,
    /// Never: everything passes.
    Never,
}

/// What is done with a result that is acted upon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Write it to files and answer with a descriptor.
    #[default]
    Offload,
    /// Answer with a part of it.
    Truncate,
    /// Answer with advice instead of it.
    Reject,
}

/// How much a descriptor tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DescriptorLevel {
    /// Path, counts, and what was kept inline.
    Pointer,
    /// Also fields, a summary, two recipes and guidance.
    #[default]
    Standard,
    /// Also JSON Schemas, all summaries and all recipes.
    Full,
}

/// The field names and nesting of a descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DescriptorDialect {
    /// Objects keyed by section.
    #[default]
    Sections,
    /// The layout of the LRO specification.
    Specification,
}

/// One value computed over the records of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SummaryKind {
    /// Number of records.
    Count,
    /// Smallest and largest number of a field.
    Range,
    /// The most frequent values of a field.
    TopValues,
    /// Number of distinct values of a field.
    Distinct,
}

/// A summary asked for by the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SummaryRule {
    /// What is computed.
    pub kind: SummaryKind,
    /// JSON Pointer into a record. Without meaning for `count`.
    #[serde(default)]
    pub field: String,
}

/// A command offered to the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Recipe {
    /// Name in the descriptor.
    pub name: String,
    /// One line that says what it answers.
    pub description: String,
    /// Shell command; `{file}` stands for the quoted path of the section's file.
    pub command: String,
    /// The same as a typed query, as JSON: see [`Query`].
    #[serde(default, deserialize_with = "query", skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
}

fn query<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    serde_json::from_str::<Query>(&text).map_err(|error| D::Error::custom(format!("expected a query: {error}")))?;
    Ok(Some(text))
}

/// A section named by the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SectionRule {
    /// JSON Pointer, or a plain top-level key. The empty string is the whole value.
    pub key: String,
    /// Beginning of the file name. Default: the last step of the key.
    pub filename_prefix: Option<String>,
    /// JSON Schema of a line, as JSON text. Default, and in the place of one that says nothing, `{}`: inferred. Summaries and
    /// recipes do not depend on it.
    #[serde(default, deserialize_with = "json_text")]
    pub schema: Option<String>,
    /// Summaries to show besides the count. Default: the policy chooses.
    #[serde(default)]
    pub summaries: Vec<SummaryRule>,
    /// Recipes to show before the policy's own.
    #[serde(default)]
    pub recipes: Vec<Recipe>,
}

/// The settings in force for one tool. Each field is as in the record `settings` of `wit/types.wit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PolicySettings {
    /// When a result is acted upon.
    pub mode: DecisionMode,
    /// A result larger than this is acted upon.
    pub threshold: Size,
    /// What is done with it.
    pub action: Action,
    /// Sections to write. Empty, the policy finds them.
    pub sections: Vec<SectionRule>,
    /// Keys whose values are repeated in the descriptor.
    pub inline_keys: Vec<String>,
    /// Most bytes of one other value that stays inline in the descriptor.
    pub inline_limit: u32,
    /// Whether schemas and summaries are inferred, and recipes with them. Off, sections are written twice as fast.
    pub infer: bool,
    /// `type` in the header line of each JSONL file.
    pub header_type: String,
    /// Key of the result whose value stands in for the session.
    pub session_key: Option<String>,
    /// How much a descriptor tells.
    pub level: DescriptorLevel,
    /// Field names of a descriptor.
    pub dialect: DescriptorDialect,
    /// Most characters of a descriptor.
    pub descriptor_limit: u32,
    /// Size of a truncated result, its suffix included.
    pub truncate_limit: Size,
    /// Text after the cut of a truncated result.
    pub truncate_suffix: String,
    /// Advice of a rejected result. Empty, the policy writes its own.
    pub advice: String,
    /// Settings of this policy alone.
    pub custom: Option<String>,
}

impl Default for PolicySettings {
    fn default() -> Self {
        let threshold = Size { amount: THRESHOLD_DEFAULT.get(), unit: SizeUnit::Characters };
        Self {
            mode: DecisionMode::BySize,
            threshold,
            action: Action::Offload,
            sections: Vec::new(),
            inline_keys: Vec::new(),
            inline_limit: INLINE_LIMIT_DEFAULT,
            infer: true,
            header_type: HEADER_TYPE_DEFAULT.to_owned(),
            session_key: None,
            level: DescriptorLevel::Standard,
            dialect: DescriptorDialect::Sections,
            descriptor_limit: DESCRIPTOR_LIMIT_DEFAULT.get(),
            truncate_limit: threshold,
            truncate_suffix: TRUNCATE_SUFFIX_DEFAULT.to_owned(),
            advice: String::new(),
            custom: None,
        }
    }
}

/// A text that must be JSON.
fn json_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    match serde_json::from_str::<serde::de::IgnoredAny>(&text) {
        Ok(_) => Ok(Some(text)),
        Err(error) => Err(Error::custom(format!("expected a JSON Schema as JSON text: {error}"))),
    }
}

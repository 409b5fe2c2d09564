//! The policy settings of a tool, as the record `settings` of `wit/types.wit`, and the failure mode.

mod filter;

use std::num::{NonZeroU32, NonZeroU64};

pub use filter::FilterSettings;
pub use lro_payload::{Size, SizeUnit};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::manifest::FILE_NAME_BYTES_MAX;
use crate::query::Query;

/// Default of [`PolicySettings::threshold`], in characters.
pub const THRESHOLD_DEFAULT: NonZeroU64 = match NonZeroU64::new(50_000) {
    Some(threshold) => threshold,
    None => NonZeroU64::MIN,
};
/// Default of [`PolicySettings::inline_limit`], in bytes.
const INLINE_LIMIT_DEFAULT: u32 = 512;
/// Default of [`PolicySettings::descriptor_limit`], in characters: below the 50,000 at which clients themselves write a
/// result to a file.
pub const DESCRIPTOR_LIMIT_DEFAULT: NonZeroU32 = match NonZeroU32::new(40_000) {
    Some(limit) => limit,
    None => NonZeroU32::MIN,
};
/// Default of [`PolicySettings::header_type`].
const HEADER_TYPE_DEFAULT: &str = "mcp_lro";
/// Default of [`PolicySettings::images_max`]: as many as the smallest known limit of a request to a model allows.
const IMAGES_MAX_DEFAULT: u32 = 20;
/// Default of [`PolicySettings::images_bytes`]: 8 MiB, about 11 MB of base64.
const IMAGES_BYTES_DEFAULT: u64 = 8 << 20;
/// Default of [`PolicySettings::truncate_suffix`].
const TRUNCATE_SUFFIX_DEFAULT: &str = "\n\n[truncated: the result was larger than the limit]";

/// Maximum bytes of text from a policy in a log.
pub const LOG_BYTES_DEFAULT: usize = 4 << 10;

/// The threshold that a setting `preset` names.
pub fn preset(name: &str) -> Option<Size> {
    let amount = match name {
        "1600-tokens" => 1_600,
        "25k" => 25_000,
        _ => return None,
    };
    Some(Size { amount, unit: SizeUnit::Tokens })
}

/// What a policy may write in one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Bounds {
    /// Maximum bytes written to files, gaps included. Default: 4 GiB.
    pub written_bytes: u64,
    /// Maximum files created. Default: 256.
    pub files: u32,
    /// Maximum files and listings open at the same time, including the preopened directory. Default: 64.
    pub open_files: u32,
    /// Maximum length of the name of a new file, in bytes. Default: 128, the maximum of the contract.
    pub name_bytes: u32,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { written_bytes: 4 << 30, files: 256, open_files: 64, name_bytes: FILE_NAME_BYTES_MAX as u32 }
    }
}

/// What a client gets when a policy fails, or its offload cannot be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureMode {
    /// The result, within its limit; a truncated one when the policy was not called because too many calls are running.
    #[default]
    Open,
    /// An error.
    Closed,
    /// A truncated result.
    Truncate,
}

/// What becomes of a result after its policy has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AfterFailure {
    /// It goes on unchanged.
    Pass,
    /// It is truncated, with this warning.
    Truncate(String),
    /// Only this error goes on.
    Fail(String),
}

impl FailureMode {
    /// What becomes of a result. `error` is for the client. `wrote` says that the policy had already decided to write it,
    /// `unseen` that the policy was not called at all, so that it must not pass.
    pub fn after(self, error: &str, wrote: bool, unseen: bool) -> AfterFailure {
        match self {
            Self::Closed => AfterFailure::Fail(format!("the result could not be filtered: {error}")),
            Self::Open if !wrote && !unseen => AfterFailure::Pass,
            Self::Open | Self::Truncate => {
                let missing = if unseen { "looked at" } else { "written to files" };
                let warning = format!("The result could not be {missing} ({error}), so a part of it follows.");
                AfterFailure::Truncate(warning)
            }
        }
    }
}

/// When the policy acts on a result.
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

/// What the policy does with a result that it acts on.
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

/// What the policy does with images and sounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImageMode {
    /// They stay in the reply, within bounds, and count as what they cost a model.
    #[default]
    Keep,
    /// They are treated like any other bytes.
    Offload,
}

/// What becomes of the documents of a result that is offloaded: PDF, DOCX, PPTX, ODT, ODP, XLSX, ODS and XLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DocumentMode {
    /// Their text, or the records of their sheets, is written beside their bytes.
    #[default]
    Text,
    /// Their bytes are kept, and nothing else.
    Keep,
}

/// How detailed a descriptor is.
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

/// A summary that the configuration asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SummaryRule {
    /// Kind of the summary.
    pub kind: SummaryKind,
    /// JSON Pointer into a record. Ignored for `count`.
    #[serde(default)]
    pub field: String,
}

/// A command offered to the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Recipe {
    /// Name in the descriptor.
    pub name: String,
    /// What it answers, in one line.
    pub description: String,
    /// Shell command; `{file}` stands for the quoted path of the section's file.
    pub command: String,
    /// The same command as a typed query in JSON: see [`Query`].
    #[serde(default, deserialize_with = "query", skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
}

fn query<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    serde_json::from_str::<Query>(&text).map_err(|error| D::Error::custom(format!("invalid query: {error}")))?;
    Ok(Some(text))
}

/// A section named by the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SectionRule {
    /// JSON Pointer, or a plain top-level key. An empty string selects the whole value.
    pub key: String,
    /// Prefix of the file name. Default: the last segment of the key.
    pub filename_prefix: Option<String>,
    /// JSON Schema of a line, as JSON text. Default, also for an empty schema `{}`: inferred. Summaries and recipes do
    /// not depend on it.
    #[serde(default, deserialize_with = "json_text")]
    pub schema: Option<String>,
    /// Summaries to show besides the count. Default: the policy chooses.
    #[serde(default)]
    pub summaries: Vec<SummaryRule>,
    /// Recipes to show before the policy's own.
    #[serde(default)]
    pub recipes: Vec<Recipe>,
}

/// The effective settings of one tool. The fields are those of the record `settings` in `wit/types.wit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PolicySettings {
    /// When the policy acts on a result.
    pub mode: DecisionMode,
    /// The policy acts on a result larger than this.
    pub threshold: Size,
    /// What the policy does with such a result.
    pub action: Action,
    /// Sections to write. If empty, the policy finds them.
    pub sections: Vec<SectionRule>,
    /// Keys whose values are repeated in the descriptor.
    pub inline_keys: Vec<String>,
    /// Maximum size in bytes of any other value that stays inline in the descriptor.
    pub inline_limit: u32,
    /// Whether to infer schemas, summaries and recipes. Without, the policy writes sections twice as fast.
    pub infer: bool,
    /// `type` in the header line of each JSONL file.
    pub header_type: String,
    /// Key of the result whose value is used as the session.
    pub session_key: Option<String>,
    /// How detailed a descriptor is.
    pub level: DescriptorLevel,
    /// Field names and nesting of a descriptor.
    pub dialect: DescriptorDialect,
    /// Maximum length of a descriptor, in characters.
    pub descriptor_limit: u32,
    /// Maximum size of a truncated result, including the suffix.
    pub truncate_limit: Size,
    /// Text appended to a truncated result.
    pub truncate_suffix: String,
    /// Advice for a rejected result. If empty, the policy writes one.
    pub advice: String,
    /// What the policy does with images and sounds.
    pub images: ImageMode,
    /// Maximum number of images and sounds that stay in the reply.
    pub images_max: u32,
    /// Maximum size in bytes, decoded, of all images and sounds together that stay in the reply.
    pub images_bytes: u64,
    /// Settings specific to this policy.
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
            images: ImageMode::Keep,
            images_max: IMAGES_MAX_DEFAULT,
            images_bytes: IMAGES_BYTES_DEFAULT,
            custom: None,
        }
    }
}

/// Reads a string that must be JSON.
fn json_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    match serde_json::from_str::<serde::de::IgnoredAny>(&text) {
        Ok(_) => Ok(Some(text)),
        Err(error) => Err(Error::custom(format!("expected a JSON Schema as JSON text: {error}"))),
    }
}

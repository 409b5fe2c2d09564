//! Configuration of the command and of embedding programs, from defaults, a TOML file, environment variables and flags.
//!
//! Each layer overrides the one before, key by key: default, TOML file, `MCP_LRO_*` variable, flag. Keys are in
//! kebab-case in all layers. Unknown keys and invalid values are errors, and all of them are reported at once.

mod arguments;
mod clients;
mod collect;
mod credentials;
mod gateway;
mod layers;
mod loading;
mod models;
mod patterns;
mod policy_place;
mod preset;
mod public_url;
mod query;
mod resource_template;
mod resources;
mod server;
mod store_place;
mod tenants;
mod tools;
mod variables;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;

use lro_host::documents::{DOCUMENT_MEMORY_BYTES_DEFAULT, DOCUMENT_TIME_DEFAULT};
pub use lro_host::policy::{Admission, BreakerSettings, Trial};
pub use lro_host::sandbox::Limits;
pub use lro_host::settings::*;
use lro_host::store::{self, Fsync};
use minisign_verify::PublicKey;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use toml::Table;

pub use self::arguments::ArgumentSettings;
pub(crate) use self::clients::bytes_of;
pub use self::clients::{ClientOverride, ClientProfile, KNOWN_CLIENTS, KnownClient, Sees};
pub use self::collect::CollectSettings;
pub use self::credentials::{Token, UpstreamHeader};
pub(crate) use self::gateway::shown_url;
pub use self::gateway::{GatewaySettings, SchemaStrategy, TENANT_DEFAULT, TranslateMode, UpstreamUrl};
pub use self::layers::{Entry, Origin, Problem, SettingsError};
use self::layers::{Layers, default_dir, key_text};
pub use self::loading::Loading;
pub use self::models::ModelSettings;
pub use self::policy_place::PolicyPlace;
pub use self::preset::Preset;
pub use self::public_url::PublicUrl;
pub(crate) use self::public_url::{is_loopback, without_port};
pub use self::query::QueryLimits;
pub use self::resource_template::ResourceTemplate;
pub use self::resources::{ResourceMode, ResourceSettings};
pub use self::server::{SERVER_VARIABLES, ServerEnvironment};
pub use self::store_place::StorePlace;
pub use self::tenants::{SHARED_KEYS, TenantOverride};
pub use self::tools::{GatewayTool, JobMode, ToolOverride};
pub use self::variables::{CONFIG_KEY, FILE_KEYS, GATEWAY_TABLE, VARIABLE_PREFIX, VARIABLES, ValueForm, Variable};
pub use crate::tokenizer::Tokenizer;

/// Characters of English that a token has, by the estimate of tokens.
const CHARACTERS_A_TOKEN: u64 = 4;

/// The greatest number of characters of a text of this size.
const fn characters(size: Size) -> u64 {
    match size.unit {
        SizeUnit::Tokens => size.amount.saturating_mul(CHARACTERS_A_TOKEN),
        SizeUnit::Bytes | SizeUnit::Characters => size.amount,
    }
}

/// A size, unless a limit is smaller.
fn within(size: Size, limit: Option<Size>) -> Size {
    limit.filter(|limit| characters(*limit) <= characters(size)).unwrap_or(size)
}

const fn at_least_one(value: u64) -> NonZeroU64 {
    match NonZeroU64::new(value) {
        Some(value) => value,
        None => NonZeroU64::MIN,
    }
}

/// The whole configuration. The keys of the TOML file are the fields in kebab-case.
///
/// A later layer replaces a list as a whole, and a table key by key.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// Whether results are filtered. Off, every result passes byte for byte, and no policy runs. Default: true.
    pub enabled: bool,
    /// Root of the output directories. Default: `$XDG_CACHE_HOME/lro-filter`, else `$HOME/.cache/lro-filter`.
    #[serde(deserialize_with = "path")]
    pub dir: PathBuf,
    /// Where offloads lie. With a bucket, `dir` has what is being written, and copies. Default: none, which is `dir`.
    #[serde(deserialize_with = "some_store")]
    pub store: Option<StorePlace>,
    /// Maximum disk usage of `dir` in bytes, with a bucket. Default: 4 GiB.
    pub store_copies: NonZeroU64,
    /// Milliseconds for one request to the bucket. Default: 20,000.
    pub store_timeout_ms: NonZeroU64,
    /// Milliseconds from the first attempt of a request on, after which it is not repeated any more. Default: 30,000.
    pub store_retry_ms: u64,
    /// Seconds after which what a process left in the bucket is removed. Default: 3600.
    pub store_left_seconds: NonZeroU64,
    /// Directory with the keys that offloads in the bucket are encrypted with, by tenant. Default: none.
    #[serde(deserialize_with = "some_path")]
    pub store_keys: Option<PathBuf>,
    /// Seconds after which the jobs of a gateway that has ended are lost, and its sessions free, with a bucket. Default: 30.
    pub store_lease_seconds: NonZeroU64,
    /// Age in seconds at which an offload expires, at least 1. Default: 3600.
    pub ttl_seconds: NonZeroU64,
    /// When a published offload is synchronized to the disk. Default: `before`.
    pub fsync: Fsync,
    /// What the client receives when a policy fails. Default: `open`.
    pub failure: FailureMode,
    /// Maximum size of one file of an offload, in bytes. Default: 1 GiB.
    pub quota_file: NonZeroU64,
    /// Maximum disk usage of all offloads of one tenant in bytes, inodes included; in a bucket, of their objects. Default: 4 GiB.
    pub quota_tenant: NonZeroU64,
    /// Maximum disk usage of all offloads in bytes, inodes included; in a bucket, of their objects. Default: 16 GiB.
    pub quota_total: NonZeroU64,
    /// Path of a policy component, or its reference in an OCI registry. Default: none, which selects the built-in policy.
    #[serde(deserialize_with = "some_place")]
    pub policy: Option<PolicyPlace>,
    /// SHA-256 that the policy component must have, as 64 hexadecimal digits. Default: none.
    #[serde(deserialize_with = "sha256")]
    pub policy_sha256: Option<String>,
    /// Minisign public keys, each as the second line of a public key file. One of them must have signed the policy
    /// component; the signature is in a file beside it, with `.minisig` appended to the name, or in an annotation of the
    /// artifact. Default: none, signatures are not checked.
    #[serde(deserialize_with = "keys")]
    pub policy_keys: Vec<String>,
    /// Directory of policies by tenant, `TENANT.wasm`. Default: none.
    #[serde(deserialize_with = "some_path")]
    pub policy_dir: Option<PathBuf>,
    /// Private directory for the last good policies of one gateway, which it starts with if its policies are invalid,
    /// and can roll back to. Default: none.
    #[serde(deserialize_with = "some_path")]
    pub policy_keep: Option<PathBuf>,
    /// Limits of loading a policy.
    pub loading: Loading,
    /// How many calls of one tenant run at the same time.
    pub admission: Admission,
    /// When a failing policy is parked.
    pub breaker: BreakerSettings,
    /// How a new version of a policy is tried. Default: without `calls` and `seconds`, it replaces the current one at
    /// once.
    pub trial: Trial,
    /// Limits of one call of a policy.
    pub limits: Limits,
    /// Limits of questions about offloads.
    pub query: QueryLimits,

    /// When the policy acts on a result. Default: `by-size`.
    pub mode: DecisionMode,
    /// Size above which the policy acts on a result, in `unit`, at least 1. Default: 50,000.
    pub threshold: NonZeroU64,
    /// Unit of `threshold` and `truncate-limit`. Default: `characters`.
    pub unit: SizeUnit,
    /// Sets `threshold` and `unit` together. Either of them overrides a preset of the same or an earlier layer.
    pub preset: Option<Preset>,
    /// How tokens are counted in every limit in tokens but those of queries and budgets, which are estimated. The table of a
    /// model overrides it. Default: `estimate`.
    pub tokenizer: Tokenizer,
    /// Maximum size of any answer to a call of a tool as sent on the wire, in `ceiling-unit`, at least 1. Default: none.
    pub ceiling: Option<NonZeroU64>,
    /// Unit of `ceiling`. Default: `tokens`.
    pub ceiling_unit: SizeUnit,
    /// What the policy does with a result it acts on. Default: `offload`.
    pub action: Action,
    /// Sections to write. Default: none, the policy detects them.
    pub sections: Vec<SectionRule>,
    /// JSON Pointers or top-level keys whose values the descriptor repeats, in this order. Default: none.
    pub inline_keys: Vec<String>,
    /// Maximum size of any other value that stays inline in the descriptor, in bytes. Default: 512.
    pub inline_limit: u32,
    /// Whether schemas and summaries are inferred. Default: true.
    pub infer: bool,
    /// `type` in the header line of each JSONL file. Default: `mcp_lro`.
    pub header_type: String,
    /// Key of the result whose value replaces the session in file names. Default: none.
    pub session_key: Option<String>,
    /// Amount of detail in a descriptor. Default: `standard`.
    pub level: DescriptorLevel,
    /// Field names of a descriptor. Default: `sections`.
    pub dialect: DescriptorDialect,
    /// Maximum length of a descriptor, in characters. Default: 40,000.
    pub descriptor_limit: NonZeroU32,
    /// Size of a truncated result in `unit`, at least 1. Default: the threshold.
    pub truncate_limit: Option<NonZeroU64>,
    /// Text appended to a truncated result.
    pub truncate_suffix: String,
    /// Advice in the reply to a rejected result. Default: empty, the policy writes its own.
    pub advice: String,
    /// What the policy does with images and sounds. Default: `keep`.
    pub images: ImageMode,
    /// Maximum number of images and sounds that stay in the reply. Default: 20.
    pub images_max: u32,
    /// Maximum size of all images and sounds together that stay in the reply, in decoded bytes. Default: 8 MiB.
    pub images_bytes: u64,
    /// Settings for the policy, passed on unchanged. Default: none.
    pub custom: Option<String>,
    /// What becomes of the documents of a result that is offloaded. Default: `text`.
    pub documents: DocumentMode,
    /// Time in which the text of one document is read, in milliseconds. Default: 2,000.
    pub documents_wall_time_ms: NonZeroU64,
    /// Linear memory in which the text of one document is read, in bytes. Default: 256 MiB.
    pub documents_memory_bytes: NonZeroU64,

    /// What the gateway does with the `outputSchema` of a tool. Default: `rewrite`.
    pub schema: SchemaStrategy,
    /// Patterns of the tools that clients see and may call, as in `tools`. Default: none, all.
    pub tools_allow: Vec<String>,
    /// Patterns of the tools that clients neither see nor may call. It wins over `tools_allow`. Default: none.
    pub tools_deny: Vec<String>,
    /// What becomes of large resources.
    pub resources: ResourceSettings,
    /// Size in `unit` above which an answer to `prompts/get` is an error, at least 1. Default: none, it passes.
    pub prompt_limit: Option<NonZeroU64>,
    /// Size in `unit` above which a request for input is refused, at least 1: `sampling/createMessage` and
    /// `elicitation/create`, which the server gets an error for, and a result `input_required`, which becomes an error.
    /// Default: none, they pass.
    pub input_limit: Option<NonZeroU64>,
    /// Size in `unit` above which an error of the server is shortened, at least 1: the text of a JSON-RPC error, which loses its
    /// `data`, and the result of a tool with `isError`, unless its tool has the mode `never`. Default: none.
    pub error_limit: Option<NonZeroU64>,
    /// Size in `unit` above which the description of a tool is shortened in `tools/list`, at least 1. The whole description is read
    /// with `lro_read`, so it passes where clients have no such tool. Default: none, it passes.
    pub description_limit: Option<NonZeroU64>,
    /// Settings of the MCP gateway.
    pub gateway: GatewaySettings,
    /// Overrides by name of the client. `*` matches any characters; only the longest matching pattern applies, of two
    /// equally long ones the first in alphabetical order. A pattern with a slash is matched against name and version,
    /// such as `claude-code/2.1.0`, any other against the name alone. Default: none, see [`KNOWN_CLIENTS`].
    pub clients: BTreeMap<String, ClientOverride>,
    /// Context windows by name of the model, with patterns as in `clients` but without versions. `*` is for models that clients do
    /// not tell, too. Default: none.
    pub models: BTreeMap<String, ModelSettings>,
    /// Overrides by name of the tool, with patterns as in `clients` but without versions. Default: none.
    pub tools: BTreeMap<String, ToolOverride>,
    /// Overrides by name of the tenant, for any key that is not shared by all tenants. Default: none.
    pub tenants: BTreeMap<String, TenantOverride>,

    /// The merged layers above the defaults, without the gateway, for [`Config::for_tenant`].
    #[serde(skip)]
    merged: Table,
    #[serde(skip)]
    origins: BTreeMap<String, Origin>,
}

impl Default for Config {
    /// The documented defaults, except that `dir` is empty, as it depends on the environment.
    fn default() -> Self {
        let policy = PolicySettings::default();
        Self {
            enabled: true,
            dir: PathBuf::new(),
            store: None,
            store_copies: at_least_one(store::COPIES_BYTES_MAX_DEFAULT),
            store_timeout_ms: at_least_one(store::REQUEST_TIME_DEFAULT.as_millis() as u64),
            store_retry_ms: store::RETRY_TIME_DEFAULT.as_millis() as u64,
            store_left_seconds: at_least_one(store::LEFT_AGE_DEFAULT.as_secs()),
            store_keys: None,
            store_lease_seconds: at_least_one(store::LEASE_TIME_DEFAULT.as_secs()),
            ttl_seconds: at_least_one(store::TIME_TO_LIVE_DEFAULT.as_secs()),
            fsync: Fsync::Before,
            failure: FailureMode::Open,
            quota_file: at_least_one(store::FILE_BYTES_MAX_DEFAULT),
            quota_tenant: at_least_one(store::TENANT_BYTES_MAX_DEFAULT),
            quota_total: at_least_one(store::TOTAL_BYTES_MAX_DEFAULT),
            policy: None,
            policy_sha256: None,
            policy_keys: Vec::new(),
            policy_dir: None,
            policy_keep: None,
            loading: Loading::default(),
            admission: Admission::default(),
            breaker: BreakerSettings::default(),
            trial: Trial::default(),
            limits: Limits::default(),
            query: QueryLimits::default(),
            mode: policy.mode,
            threshold: THRESHOLD_DEFAULT,
            unit: policy.threshold.unit,
            preset: None,
            tokenizer: Tokenizer::default(),
            ceiling: None,
            ceiling_unit: SizeUnit::Tokens,
            action: policy.action,
            sections: policy.sections,
            inline_keys: policy.inline_keys,
            inline_limit: policy.inline_limit,
            infer: policy.infer,
            header_type: policy.header_type,
            session_key: policy.session_key,
            level: policy.level,
            dialect: policy.dialect,
            descriptor_limit: DESCRIPTOR_LIMIT_DEFAULT,
            truncate_limit: None,
            truncate_suffix: policy.truncate_suffix,
            advice: policy.advice,
            images: policy.images,
            images_max: policy.images_max,
            images_bytes: policy.images_bytes,
            custom: policy.custom,
            documents: DocumentMode::Text,
            documents_wall_time_ms: at_least_one(DOCUMENT_TIME_DEFAULT.as_millis() as u64),
            documents_memory_bytes: at_least_one(DOCUMENT_MEMORY_BYTES_DEFAULT as u64),
            schema: SchemaStrategy::Rewrite,
            tools_allow: Vec::new(),
            tools_deny: Vec::new(),
            resources: ResourceSettings::default(),
            prompt_limit: None,
            input_limit: None,
            error_limit: None,
            description_limit: None,
            gateway: GatewaySettings::default(),
            clients: BTreeMap::new(),
            models: BTreeMap::new(),
            tools: BTreeMap::new(),
            tenants: BTreeMap::new(),
            merged: Table::new(),
            origins: BTreeMap::new(),
        }
    }
}

impl Config {
    /// Loads all layers. `environment` is usually [`std::env::vars_os`]; `flags` are pairs of a key of [`VARIABLES`]
    /// and the text of its value. The variable or flag for [`CONFIG_KEY`] names the file.
    ///
    /// # Errors
    /// [`SettingsError`] with the problems of all layers.
    pub fn load(
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        flags: &[(String, String)],
    ) -> Result<Self, SettingsError> {
        let environment = environment.into_iter().collect();
        Self::of_layers(Layers::read(&environment, flags), &environment)
    }

    /// Loads a TOML text. Neither variables nor flags override it; only the default of `dir` depends on the environment
    /// of this process.
    ///
    /// # Errors
    /// [`SettingsError`] with all problems of the text.
    pub fn from_toml(text: &str) -> Result<Self, SettingsError> {
        Self::of_layers(Layers::of_toml(text), &std::env::vars_os().collect())
    }

    fn of_layers(layers: Layers, environment: &BTreeMap<OsString, OsString>) -> Result<Self, SettingsError> {
        let Layers { merged, origins, mut problems } = layers;
        let mut config = Self::deserialize(merged.clone()).unwrap_or_else(|error| {
            problems.push(Problem::new("", "", Origin::Default, error.message()));
            Self::default()
        });
        config.merged = merged;
        // The gateway table is shared by all tenants, and holds secrets.
        config.merged.remove(GATEWAY_TABLE);
        config.origins = origins;
        config.apply_preset();
        if let Some(StorePlace::Directory(path)) = &config.store {
            config.dir.clone_from(path);
            config.origins.insert("dir".to_owned(), config.origin("store"));
        }
        if !config.origins.contains_key("dir") {
            match default_dir(environment) {
                Some(dir) => config.dir = dir,
                None => problems.push(Problem::new("dir", "", Origin::Default, "HOME is not set: set dir to a path")),
            }
        }
        let of_tenants =
            config.tenants.iter().filter(|(_, own)| own.has_tools()).map(|(name, _)| config.for_tenant(name));
        for problem in config.argument_problems().into_iter().chain(of_tenants.flat_map(|own| own.argument_problems()))
        {
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        if problems.is_empty() { Ok(config) } else { Err(SettingsError { problems }) }
    }

    /// Returns the origin of the value of a key, which has a `.` after the name of a table.
    pub fn origin(&self, key: &str) -> Origin {
        self.origins.get(key).cloned().unwrap_or(Origin::Default)
    }

    /// The result size in characters that a tool declares to a client: enough for a result that passes, or for the
    /// descriptor and what stays inline beside it.
    pub(crate) fn declared_size(&self, tool: &str, client: &ClientProfile) -> Option<u64> {
        let most = client.declared_size?;
        if client.inline {
            return Some(most);
        }
        let settings = self.for_tool_and_client(tool, client);
        let result = characters(settings.threshold).max(characters(settings.truncate_limit));
        Some(result.saturating_add(settings.descriptor_limit.into()).min(most))
    }

    /// The profile of a client. Each key comes from the most specific pattern of [`Config::clients`], else from that of
    /// [`KNOWN_CLIENTS`], else from [`ClientProfile::default`].
    pub fn for_client(&self, name: &str, version: &str) -> ClientProfile {
        let configured = self.clients.iter().map(|(pattern, client)| (pattern.as_str(), client));
        let known =
            KnownClient::find(name, version).map_or_else(ClientOverride::default, |known| known.profile.clone());
        let chosen = ClientOverride::find(configured, name, version).or(known);
        ClientProfile {
            sees: chosen.sees.unwrap_or_default(),
            resource_links: chosen.resource_links.unwrap_or_default(),
            shares_disk: chosen.shares_disk,
            inline: chosen.inline.unwrap_or_default(),
            threshold: self.own_threshold(chosen.threshold, chosen.unit),
            result_limit: chosen.result_limit.map(NonZeroU64::get),
            ceiling: self.ceiling_of(chosen.ceiling, chosen.ceiling_unit),
            text_limit: chosen
                .text_limit
                .map(|limit| Size { amount: limit.get(), unit: chosen.text_unit.unwrap_or(SizeUnit::Bytes) }),
            text_lines: chosen.text_lines.map(NonZeroU64::get),
            session_budget: None,
            tokenizer: self.tokenizer,
            declared_size: chosen.declared_size.map(NonZeroU64::get),
        }
    }

    /// The threshold of an override that sets an amount, a unit, or both; the rest is the general one.
    fn own_threshold(&self, amount: Option<NonZeroU64>, unit: Option<SizeUnit>) -> Option<Size> {
        (amount.is_some() || unit.is_some())
            .then(|| Size { amount: amount.unwrap_or(self.threshold).get(), unit: unit.unwrap_or(self.unit) })
    }

    /// A ceiling, in its own unit or the general one.
    fn ceiling_of(&self, amount: Option<NonZeroU64>, unit: Option<SizeUnit>) -> Option<Size> {
        Some(Size { amount: amount?.get(), unit: unit.unwrap_or(self.ceiling_unit) })
    }

    /// The ceilings that apply to answers to a call of a tool: the general one, and the tool's.
    pub(crate) fn ceilings(&self, tool: &str) -> impl Iterator<Item = Size> {
        let own = self.tool_override(tool).and_then(|own| self.ceiling_of(own.ceiling, own.ceiling_unit));
        [self.ceiling_of(self.ceiling, None), own].into_iter().flatten()
    }

    /// Returns every effective value and its origin, in alphabetical order of the keys.
    pub fn explain(&self) -> Vec<Entry> {
        let mut entries = BTreeMap::new();
        // Structs with string keys always serialize.
        let value = serde_json::to_value(self).unwrap_or_default();
        self.explain_value(&mut Vec::new(), &value, &mut entries);
        entries.into_values().collect()
    }

    fn explain_value(&self, path: &mut Vec<String>, value: &serde_json::Value, entries: &mut BTreeMap<String, Entry>) {
        match value {
            serde_json::Value::Object(members) if !members.is_empty() => {
                for (key, value) in members {
                    path.push(key.clone());
                    self.explain_value(path, value, entries);
                    path.pop();
                }
            }
            value => {
                let key = key_text(path);
                let origin = self.origin(&key);
                entries.insert(key.clone(), Entry { key, value: value.to_string(), origin });
            }
        }
    }

    /// Applies the preset to a threshold and a unit from earlier layers.
    fn apply_preset(&mut self) {
        let (Some(preset), origin) = (self.preset, self.origin("preset")) else { return };
        let earlier = |config: &Self, key: &str| config.origin(key).rank() < origin.rank();
        let (amount, unit) = (at_least_one(preset.size().amount), preset.size().unit);
        if earlier(self, "threshold") {
            self.threshold = amount;
            self.record("threshold", amount, &origin);
        }
        if earlier(self, "unit") {
            self.unit = unit;
            self.record("unit", unit, &origin);
        }
    }

    /// Records a value of a preset, so that tenants inherit it.
    fn record(&mut self, key: &str, value: impl Serialize, origin: &Origin) {
        // Numbers and strings always convert to TOML.
        self.merged.extend(toml::Value::try_from(value).ok().map(|value| (key.to_owned(), value)));
        self.origins.insert(key.to_owned(), origin.clone());
    }
}

fn path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    let path = PathBuf::deserialize(deserializer)?;
    if path.as_os_str().is_empty() { Err(D::Error::custom("expected a path")) } else { Ok(path) }
}

fn some_path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
    path(deserializer).map(Some)
}

fn some_place<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PolicyPlace>, D::Error> {
    path(deserializer)?.try_into().map(Some).map_err(D::Error::custom)
}

fn some_store<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<StorePlace>, D::Error> {
    StorePlace::deserialize(deserializer).map(Some)
}

fn keys<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let keys = Vec::<String>::deserialize(deserializer)?;
    match keys.iter().find(|key| PublicKey::from_base64(key).is_err()) {
        Some(key) => Err(D::Error::custom(format!("`{key}` is not a minisign public key"))),
        None => Ok(keys),
    }
}

fn sha256<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let digest = String::deserialize(deserializer)?.to_ascii_lowercase();
    if digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        Ok(Some(digest))
    } else {
        Err(D::Error::custom("expected 64 hexadecimal digits"))
    }
}

//! Settings that can differ by tool.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::patterns::{matches, most_specific};
use super::{
    Action, ArgumentSettings, ClientProfile, CollectSettings, Config, DecisionMode, DescriptorDialect, DescriptorLevel,
    DocumentMode, FailureMode, ImageMode, PolicySettings, ResourceTemplate, SchemaStrategy, SectionRule, Size,
    SizeUnit, within,
};

/// Default of [`ToolOverride::wait_ms`]: clients give up after 30 to 60 seconds.
const WAIT_DEFAULT: Duration = Duration::from_millis(20_000);

/// Default of [`ToolOverride::heartbeat_ms`]: a client that gives up after 30 seconds gets one in time.
const HEARTBEAT_DEFAULT: Duration = Duration::from_millis(15_000);

/// Overrides for the tools of one pattern. Absent keys keep the values for all tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ToolOverride {
    /// As [`Config::ttl_seconds`], for offloads of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<NonZeroU64>,
    /// As [`Config::failure`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureMode>,
    /// As [`Config::mode`]: `always` and `never` ignore the size of a result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<DecisionMode>,
    /// As [`Config::threshold`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<NonZeroU64>,
    /// Unit of the tool's `threshold` and `truncate-limit`. Default: [`Config::unit`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<SizeUnit>,
    /// As [`Config::ceiling`], for this tool. Where several apply, all of them hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<NonZeroU64>,
    /// Unit of the tool's `ceiling`. Default: [`Config::ceiling_unit`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceiling_unit: Option<SizeUnit>,
    /// As [`Config::action`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
    /// As [`Config::sections`]. The policy still detects the sections of other tools, and with an empty list those of
    /// this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sections: Option<Vec<SectionRule>>,
    /// As [`Config::inline_keys`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline_keys: Option<Vec<String>>,
    /// As [`Config::inline_limit`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline_limit: Option<u32>,
    /// As [`Config::infer`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infer: Option<bool>,
    /// As [`Config::header_type`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header_type: Option<String>,
    /// As [`Config::session_key`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// As [`Config::level`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<DescriptorLevel>,
    /// As [`Config::dialect`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dialect: Option<DescriptorDialect>,
    /// As [`Config::descriptor_limit`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub descriptor_limit: Option<NonZeroU32>,
    /// As [`Config::truncate_limit`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncate_limit: Option<NonZeroU64>,
    /// As [`Config::truncate_suffix`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncate_suffix: Option<String>,
    /// As [`Config::advice`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// As [`Config::images`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<ImageMode>,
    /// As [`Config::images_max`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images_max: Option<u32>,
    /// As [`Config::images_bytes`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images_bytes: Option<u64>,
    /// As [`Config::custom`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom: Option<String>,
    /// As [`Config::documents`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documents: Option<DocumentMode>,
    /// As [`Config::schema`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<SchemaStrategy>,
    /// Whether an argument that is a handle reference, `lro://HANDLE/SECTION`, is replaced by the data before the call
    /// goes to the server. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handles: Option<bool>,
    /// Whether the tool gets one more argument, `lro_query`: a question about its result, which is answered at once if the
    /// result is offloaded. The server does not see it. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<bool>,
    /// Seconds for which identical calls of the same tenant reuse the offload of the first one, without calling the
    /// server; at least 1. Only for tools that change nothing and whose results depend only on the arguments. Default:
    /// none, every call goes to the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reuse_seconds: Option<NonZeroU64>,
    /// Arguments that the gateway fills in and caps before the server sees a call. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<ArgumentSettings>,
    /// How the gateway collects the pages of the tool into one result. Default: none, each page is a result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collect: Option<CollectSettings>,
    /// Whether a call of the tool becomes a job, which goes on without its request. Default: `auto` as tasks of clients
    /// that say that they know tasks, `never` of others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<JobMode>,
    /// Milliseconds without a result after which a call becomes a job if `job` is `auto` or absent. Default: 20,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<NonZeroU64>,
    /// Resource of the server in which the result grows by lines. While a call is a job, the gateway reads it, and what has
    /// come is readable under the handle of the job. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial_resource: Option<ResourceTemplate>,
    /// Milliseconds without progress after which the gateway reports some to a client that asked for it, if `job` is
    /// `auto` or `always`. Default: 15,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat_ms: Option<NonZeroU64>,
}

/// Which calls of a tool become jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobMode {
    /// Those without a result after `wait-ms`, if the gateway's own tools are in the list of tools.
    Auto,
    /// All, at once.
    Always,
    /// None.
    Never,
}

/// The effective settings of one tool that are not for the policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GatewayTool {
    /// What the client receives when the policy fails.
    pub failure: FailureMode,
    /// Age in seconds at which an offload of the tool expires. `None`: [`Config::ttl_seconds`].
    pub ttl_seconds: Option<NonZeroU64>,
    /// What becomes of the documents of a result that is offloaded.
    pub documents: DocumentMode,
    /// What the gateway does with the `outputSchema` of the tool.
    pub schema: SchemaStrategy,
    /// Whether an argument that is a handle reference, `lro://HANDLE/SECTION`, is replaced by the data before the call
    /// goes to the server.
    pub handles: bool,
    /// Whether the tool gets the argument `lro_query`, a question about its result.
    pub ask: bool,
    /// Seconds for which identical calls reuse the offload of the first one.
    pub reuse_seconds: Option<NonZeroU64>,
    /// Which calls become jobs. `None`: as [`JobMode::Auto`] where the job is a task of a client that says that it knows
    /// tasks, else as [`JobMode::Never`].
    pub job: Option<JobMode>,
    /// Milliseconds without a result after which a call becomes a job if `job` is [`JobMode::Auto`] or `None`. `None`:
    /// 20,000.
    pub wait_ms: Option<NonZeroU64>,
    /// Milliseconds without progress after which the gateway reports some, where the tool
    /// [has jobs](GatewayTool::has_jobs). `None`: 15,000.
    pub heartbeat_ms: Option<NonZeroU64>,
}

impl GatewayTool {
    /// Age at which an offload of the tool expires. `None`: that of the store.
    pub fn time_to_live(&self) -> Option<Duration> {
        self.ttl_seconds.map(|seconds| Duration::from_secs(seconds.get()))
    }

    /// Whether calls of any client may become jobs, as the settings say.
    pub fn has_jobs(&self) -> bool {
        self.job.is_some_and(|job| job != JobMode::Never)
    }

    /// Time without a result after which a call becomes a job unless it becomes one at once.
    pub(crate) fn wait(&self) -> Duration {
        self.wait_ms.map_or(WAIT_DEFAULT, |wait| Duration::from_millis(wait.get()))
    }

    /// Time without progress after which the gateway reports some; `None` if it never does.
    pub(crate) fn heartbeat(&self) -> Option<Duration> {
        let every = self.heartbeat_ms.map_or(HEARTBEAT_DEFAULT, |every| Duration::from_millis(every.get()));
        self.has_jobs().then_some(every)
    }
}

impl Config {
    /// The effective settings for a tool, with the most specific pattern of [`Config::tools`] applied.
    pub fn for_tool(&self, tool: &str) -> PolicySettings {
        self.for_tool_and_client(tool, &ClientProfile::default())
    }

    /// The effective settings for a tool that a client calls. The threshold of the tool overrides that of the client,
    /// which overrides the general one; none of them exceeds [`ClientProfile::text_limit`].
    pub fn for_tool_and_client(&self, tool: &str, client: &ClientProfile) -> PolicySettings {
        let none = ToolOverride::default();
        let own = self.tool_override(tool).unwrap_or(&none);
        let own_threshold = self.own_threshold(own.threshold, own.unit);
        let general = Size { amount: self.threshold.get(), unit: self.unit };
        let threshold = within(own_threshold.or(client.threshold).unwrap_or(general), client.text_limit);
        let own_limit = own.truncate_limit.map(|limit| (limit, own.unit.unwrap_or(self.unit)));
        let truncate_limit = own_limit.or(self.truncate_limit.map(|limit| (limit, self.unit)));
        PolicySettings {
            mode: own.mode.unwrap_or(self.mode),
            threshold,
            action: own.action.unwrap_or(self.action),
            sections: own.sections.as_ref().unwrap_or(&self.sections).clone(),
            inline_keys: own.inline_keys.as_ref().unwrap_or(&self.inline_keys).clone(),
            inline_limit: own.inline_limit.unwrap_or(self.inline_limit),
            infer: own.infer.unwrap_or(self.infer),
            header_type: own.header_type.as_ref().unwrap_or(&self.header_type).clone(),
            session_key: own.session_key.as_ref().or(self.session_key.as_ref()).cloned(),
            level: own.level.unwrap_or(self.level),
            dialect: own.dialect.unwrap_or(self.dialect),
            descriptor_limit: own.descriptor_limit.unwrap_or(self.descriptor_limit).get(),
            truncate_limit: truncate_limit
                .map_or(threshold, |(limit, unit)| within(Size { amount: limit.get(), unit }, client.text_limit)),
            truncate_suffix: own.truncate_suffix.as_ref().unwrap_or(&self.truncate_suffix).clone(),
            advice: own.advice.as_ref().unwrap_or(&self.advice).clone(),
            images: own.images.unwrap_or(self.images),
            images_max: own.images_max.unwrap_or(self.images_max),
            images_bytes: own.images_bytes.unwrap_or(self.images_bytes),
            custom: own.custom.as_ref().or(self.custom.as_ref()).cloned(),
        }
    }

    /// The same for a gateway that only reads offloads: it neither filters nor audits, and has no jobs.
    pub(crate) fn for_reading(mut self) -> Self {
        self.enabled = true;
        self.gateway.audit = false;
        self.tools.values_mut().for_each(|tool| tool.job = Some(JobMode::Never));
        self
    }

    /// The effective settings of a tool that are not for the policy.
    pub fn gateway_tool(&self, tool: &str) -> GatewayTool {
        let none = ToolOverride::default();
        let own = self.tool_override(tool).unwrap_or(&none);
        GatewayTool {
            failure: own.failure.unwrap_or(self.failure),
            ttl_seconds: own.ttl_seconds,
            documents: own.documents.unwrap_or(self.documents),
            schema: own.schema.unwrap_or(self.schema),
            handles: own.handles.unwrap_or_default(),
            ask: own.ask.unwrap_or_default(),
            reuse_seconds: own.reuse_seconds,
            job: own.job,
            wait_ms: own.wait_ms,
            heartbeat_ms: own.heartbeat_ms,
        }
    }

    /// Whether `tools-allow` and `tools-deny` let clients call a tool of the server.
    pub fn allows_tool(&self, tool: &str) -> bool {
        let fits = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, tool));
        (self.tools_allow.is_empty() || fits(&self.tools_allow)) && !fits(&self.tools_deny)
    }

    /// Whether some tools may be withheld from clients.
    pub(crate) fn restricts_tools(&self) -> bool {
        !self.tools_allow.is_empty() || !self.tools_deny.is_empty()
    }

    /// Whether calls of some tool may become jobs of any client.
    pub(crate) fn has_jobs(&self) -> bool {
        self.tools.values().any(|tool| tool.job.is_some_and(|job| job != JobMode::Never))
    }

    /// Whether calls of some tool may become jobs of clients that say that they know tasks.
    pub(crate) fn has_tasks(&self) -> bool {
        let is_for_all = self.tools.contains_key("*");
        !is_for_all || self.tools.values().any(|tool| tool.job != Some(JobMode::Never))
    }

    /// The shortest age at which an offload may expire, of any tool and tenant.
    pub(crate) fn time_to_live_min(&self) -> Duration {
        let configs = self.tenants.keys().map(|tenant| self.for_tenant(tenant)).chain([self.clone()]);
        let own = configs.flat_map(|config| config.tools).filter_map(|(_, tool)| tool.ttl_seconds);
        Duration::from_secs(own.fold(self.ttl_seconds, Ord::min).get())
    }

    /// The override of the most specific pattern.
    pub(super) fn tool_override(&self, tool: &str) -> Option<&ToolOverride> {
        let tools = self.tools.iter().map(|(pattern, own)| (pattern.as_str(), own));
        most_specific(tools, |pattern| matches(pattern, tool))
    }
}

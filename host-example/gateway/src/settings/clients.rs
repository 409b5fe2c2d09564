//! Profiles of MCP clients: built-in ones, and overrides in the configuration.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use super::patterns::{matches, most_specific};
use super::{Size, SizeUnit, Tokenizer};

/// The part of a tool result that a client passes to its model, if a result has both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sees {
    /// Only `content`.
    Text,
    /// Only `structuredContent`.
    Structured,
    /// Both, or unknown.
    #[default]
    Both,
}

/// Overrides for the clients of one pattern. Absent keys keep the values of the built-in profile, see
/// [`KNOWN_CLIENTS`], or of [`ClientProfile::default`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ClientOverride {
    /// The part of a result that the model sees. Default: `both`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sees: Option<Sees>,
    /// Whether a result may contain a `resource_link`. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_links: Option<bool>,
    /// Whether the model can read files of this machine by their path. Default: true on stdio, false over HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shares_disk: Option<bool>,
    /// Whether results pass inline up to the hard limits, for clients that process them in code. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline: Option<bool>,
    /// Size above which the policy acts on a result, in `unit`, at least 1. Default: the general threshold. The
    /// threshold of a tool overrides it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<NonZeroU64>,
    /// Unit of `threshold`. Default: the general one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<SizeUnit>,
    /// Maximum size of a whole message to this client in bytes, at least 1. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_limit: Option<NonZeroU64>,
    /// As [`Config::ceiling`](super::Config::ceiling), for this client. Where several apply, all of them hold. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<NonZeroU64>,
    /// Unit of `ceiling`. Default: the general one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceiling_unit: Option<SizeUnit>,
    /// Size above which the client cuts or hides the text of a result, in `text-unit`, at least 1. Images and sounds do not
    /// count, nor does the half of a result that the model does not see. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text_limit: Option<NonZeroU64>,
    /// Unit of `text-limit`. Default: that of the built-in profile, else `bytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text_unit: Option<SizeUnit>,
    /// Number of lines above which the client cuts the text of a result, at least 1. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text_lines: Option<NonZeroU64>,
    /// Maximum result size in characters that tools declare in `anthropic/maxResultSizeChars`, at least 1: as many as
    /// the gateway lets pass, so that the client does not write results to its own files. Default: none, the
    /// declaration of the server is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub declared_size: Option<NonZeroU64>,
}

/// An override that changes nothing.
const UNCHANGED: ClientOverride = ClientOverride {
    sees: None,
    resource_links: None,
    shares_disk: None,
    inline: None,
    threshold: None,
    unit: None,
    result_limit: None,
    ceiling: None,
    ceiling_unit: None,
    text_limit: None,
    text_unit: None,
    text_lines: None,
    declared_size: None,
};

/// A client with a built-in profile.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct KnownClient {
    /// Pattern of the name that it sends as `clientInfo`, as in [`Config::clients`](super::Config::clients).
    pub pattern: &'static str,
    /// The client as its users know it.
    pub client: &'static str,
    /// What is known of it.
    pub profile: &'static ClientOverride,
    /// Where each figure comes from.
    pub source: &'static str,
}

const fn text_limit(amount: u64, unit: SizeUnit) -> ClientOverride {
    ClientOverride { text_limit: NonZeroU64::new(amount), text_unit: Some(unit), ..UNCHANGED }
}

/// The built-in profiles, in the order of the patterns' bytes. Patterns end in `*` because bridges such as mcp-remote append
/// to the name of their client. None sets `shares_disk` to true: over HTTP a client may run anywhere, and its name is only
/// what it claims. Where several figures are reported for a client, the smallest is here.
pub const KNOWN_CLIENTS: &[KnownClient] = &[
    KnownClient {
        pattern: "*inspector*",
        client: "MCP Inspector",
        profile: &ClientOverride { resource_links: Some(true), ..UNCHANGED },
        source: "shows links to the person who tests",
    },
    KnownClient {
        pattern: "@librechat/api-client*",
        client: "LibreChat",
        profile: &UNCHANGED,
        source: "name: packages/api/src/mcp/connection.ts of danny-avila/LibreChat; no limit known",
    },
    KnownClient {
        pattern: "@n8n/n8n-nodes-langchain.mcpClient*",
        client: "n8n",
        profile: &UNCHANGED,
        source: "name: npm package mcp-client-registry; no limit known",
    },
    KnownClient {
        pattern: "Visual Studio Code*",
        client: "VS Code with Copilot",
        profile: &ClientOverride { resource_links: Some(false), ..text_limit(8_192, SizeUnit::Bytes) },
        source: "text above chat.agent.largeToolResultsToDisk.thresholdBytes, 8,192 bytes, becomes a file: \
                 microsoft/vscode#329276, #329179; the model cannot read links: microsoft/vscode#291004",
    },
    KnownClient {
        pattern: "claude-ai*",
        client: "Claude Desktop, claude.ai",
        profile: &ClientOverride {
            resource_links: Some(false),
            shares_disk: Some(false),
            result_limit: NonZeroU64::new(1_000_000),
            ..UNCHANGED
        },
        source: "results of more than 1 MB, read as 1,000,000 bytes, are rejected: anthropics/claude-code#66519; the model has \
                 no shell; a link blanks widgets: anthropics/claude-ai-mcp#753",
    },
    KnownClient {
        pattern: "claude-code*",
        client: "Claude Code",
        profile: &ClientOverride {
            sees: Some(Sees::Structured),
            resource_links: Some(false),
            declared_size: NonZeroU64::new(500_000),
            ..text_limit(25_000, SizeUnit::Tokens)
        },
        source: "25,000 tokens (MAX_MCP_OUTPUT_TOKENS), and 50,000 characters or as many as the tool declares in \
                 anthropic/maxResultSizeChars, up to 500,000: code.claude.com/docs/en/mcp, anthropics/claude-code#45766; of both \
                 halves the model sees the structured content: anthropics/claude-code#55677; a link becomes a line of text: \
                 agentclientprotocol/claude-agent-acp#1093",
    },
    KnownClient {
        pattern: "codex*",
        client: "Codex",
        profile: &ClientOverride {
            sees: Some(Sees::Structured),
            resource_links: Some(false),
            ..text_limit(10_000, SizeUnit::Bytes)
        },
        source: "10,000 bytes (TruncationPolicy::Bytes): openai/codex#7906, #6544; newer models of \
                 codex-rs/models-manager/models.json have 10,000 tokens; of both halves the model sees the structured content: \
                 FunctionCallOutputPayload in codex-rs/protocol/src/models.rs; a link makes the call fail: openai/codex#33404, \
                 #41280",
    },
    KnownClient {
        pattern: "cursor*",
        client: "Cursor",
        profile: &ClientOverride { resource_links: Some(false), ..UNCHANGED },
        source: "the model cannot read resources: modelcontextprotocol/modelcontextprotocol#1902; no limit known",
    },
    KnownClient {
        pattern: "gemini-cli*",
        client: "Gemini CLI",
        profile: &text_limit(40_000, SizeUnit::Characters),
        source: "truncateToolOutputThreshold, 40,000 characters, then a file: google-gemini/gemini-cli#18446, #19365, \
                 npm package @google/gemini-cli-core 0.61.0",
    },
    KnownClient {
        pattern: "github-copilot-developer*",
        client: "GitHub Copilot CLI",
        profile: &text_limit(8_192, SizeUnit::Bytes),
        source: "cut to 10 KiB before it is saved: github/copilot-cli#1732; in VS Code's sessions a file above 8 KiB: \
                 microsoft/vscode#329276",
    },
    KnownClient {
        pattern: "goose*",
        client: "goose",
        profile: &text_limit(200_000, SizeUnit::Characters),
        source: "LARGE_TEXT_THRESHOLD, 200,000 characters, then a file: crates/goose/src/agents/large_response_handler.rs of \
                 block/goose, aaif-goose/goose#6939",
    },
    KnownClient {
        pattern: "mcp",
        client: "Python SDK, with it LangChain's adapters and the OpenAI Agents SDK",
        profile: &UNCHANGED,
        source: "name: DEFAULT_CLIENT_INFO in mcp/client/session.py of mcp 1.x and 2.x; no limit known",
    },
    KnownClient {
        pattern: "opencode*",
        client: "opencode",
        profile: &ClientOverride { text_lines: NonZeroU64::new(2_000), ..text_limit(51_200, SizeUnit::Bytes) },
        source: "MAX_BYTES, 50 KiB, and MAX_LINES, 2,000 lines, then a file: packages/opencode/src/tool/truncate.ts of \
                 anomalyco/opencode, npm package opencode-ai 1.18.33",
    },
    KnownClient {
        pattern: "qwen-*",
        client: "Qwen Code",
        profile: &ClientOverride { text_lines: NonZeroU64::new(1_000), ..text_limit(25_000, SizeUnit::Characters) },
        source: "DEFAULT_TRUNCATE_TOOL_OUTPUT_THRESHOLD, 25,000 characters, and DEFAULT_TRUNCATE_TOOL_OUTPUT_LINES, 1,000 lines, \
                 then a file: QwenLM/qwen-code#2439, #2446, npm package @qwen-code/qwen-code 0.15.10",
    },
];

impl ClientOverride {
    /// The override of the longest pattern that matches.
    pub(super) fn find<'a>(
        entries: impl DoubleEndedIterator<Item = (&'a str, &'a Self)>,
        name: &str,
        version: &str,
    ) -> Self {
        matching(entries, name, version).cloned().unwrap_or_default()
    }

    /// Merges two overrides: keys of `self` take precedence.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            sees: self.sees.or(other.sees),
            resource_links: self.resource_links.or(other.resource_links),
            shares_disk: self.shares_disk.or(other.shares_disk),
            inline: self.inline.or(other.inline),
            threshold: self.threshold.or(other.threshold),
            unit: self.unit.or(other.unit),
            result_limit: self.result_limit.or(other.result_limit),
            ceiling: self.ceiling.or(other.ceiling),
            ceiling_unit: self.ceiling_unit.or(other.ceiling_unit),
            text_limit: self.text_limit.or(other.text_limit),
            text_unit: self.text_unit.or(other.text_unit),
            text_lines: self.text_lines.or(other.text_lines),
            declared_size: self.declared_size.or(other.declared_size),
        }
    }
}

impl KnownClient {
    /// The client that sends this name and version, if it is known.
    pub fn find(name: &str, version: &str) -> Option<&'static Self> {
        matching(KNOWN_CLIENTS.iter().map(|known| (known.pattern, known)), name, version)
    }
}

/// The entry of the longest pattern that matches.
fn matching<'a, T>(entries: impl DoubleEndedIterator<Item = (&'a str, T)>, name: &str, version: &str) -> Option<T> {
    let whole = format!("{name}/{version}");
    most_specific(entries, |pattern| matches(pattern, if pattern.contains('/') { &whole } else { name }))
}

/// The effective settings for one client. The default is for unknown clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ClientProfile {
    /// The part of a result that the model sees.
    pub sees: Sees,
    /// Whether a result may contain a `resource_link`.
    pub resource_links: bool,
    /// Whether the model can read files of this machine by their path. `None`: true on stdio, false over HTTP.
    pub shares_disk: Option<bool>,
    /// Whether results pass inline up to the hard limits.
    pub inline: bool,
    /// Size above which the policy acts on a result. `None`: the general threshold.
    pub threshold: Option<Size>,
    /// Maximum size of a whole message to this client, in bytes.
    pub result_limit: Option<u64>,
    /// Maximum size of an answer to a call of this client. `None`: only the general ones.
    pub ceiling: Option<Size>,
    /// Size above which the client cuts or hides the text of a result.
    pub text_limit: Option<Size>,
    /// Number of lines above which the client cuts the text of a result.
    pub text_lines: Option<u64>,
    /// Estimated tokens of results that a session receives inline, by the share of its model.
    pub session_budget: Option<u64>,
    /// How tokens are counted for it.
    pub tokenizer: Tokenizer,
    /// Maximum result size that tools declare, in characters.
    pub declared_size: Option<u64>,
}

/// Bytes of a token for which a text of as many tokens has room, whatever it says.
const BYTES_A_TOKEN_MIN: u64 = 2;

/// How many times its length a descriptor takes in a reply: as JSON, and as a text with escapes.
const COPIES: u64 = 3;

impl ClientProfile {
    /// The longest descriptor that surely has room in a reply, in characters; `None` if no limit is known.
    pub(crate) fn descriptor_room(&self) -> Option<u32> {
        let copies = if self.sees == Sees::Both { COPIES } else { 1 };
        self.text_limit.map(|limit| u32::try_from(bytes_of(limit) / copies).unwrap_or(u32::MAX))
    }

    /// The size in bytes up to which the client takes and shows a reply that says everything twice, as text and as structured
    /// content; `None` if no limit is known.
    pub(crate) fn reply_bytes(&self) -> Option<u64> {
        // Of two halves of the same content the model sees one.
        let halves = if self.sees == Sees::Both { 1 } else { 2 };
        let shown = self.text_limit.map(|limit| bytes_of(limit).saturating_mul(halves));
        shown.into_iter().chain(self.result_limit).min()
    }
}

/// Bytes of a text that surely is within a size.
pub(crate) const fn bytes_of(size: Size) -> u64 {
    match size.unit {
        SizeUnit::Tokens => size.amount.saturating_mul(BYTES_A_TOKEN_MIN),
        SizeUnit::Bytes | SizeUnit::Characters => size.amount,
    }
}

//! Profiles of MCP clients: built-in ones, and overrides in the configuration.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use super::patterns::{matches, most_specific};
use super::{Size, SizeUnit};

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
    declared_size: None,
};

/// Claude Desktop rejects results of more than 1 MB, read as 1,000,000 bytes, the smaller of the two meanings.
const CLAUDE_DESKTOP_BYTES_MAX: Option<NonZeroU64> = NonZeroU64::new(1_000_000);

/// Claude Code writes longer results to its own files, whatever size a tool declares.
const CLAUDE_CODE_CHARACTERS_MAX: Option<NonZeroU64> = NonZeroU64::new(500_000);

/// The built-in profiles, by pattern of the name, in alphabetical order. Patterns end in `*` because bridges such as
/// mcp-remote append to the name of their client. None sets `shares_disk` to true: over HTTP a client may run anywhere, and
/// its name is only what it claims.
///
/// | pattern | client | behaviour, and source |
/// |---|---|---|
/// | `*inspector*` | MCP Inspector | shows links to the person who tests |
/// | `Visual Studio Code*` | VS Code | shows links to the user, the model cannot read them: microsoft/vscode#291004 |
/// | `claude-ai*` | Claude Desktop, claude.ai | its model has no shell; results of more than 1 MB are rejected: anthropics/claude-code#66519; a link blanks widgets: anthropics/claude-ai-mcp#753 |
/// | `claude-code*` | Claude Code | the model sees only the structured content if there is both: anthropics/claude-code#55677; a link becomes a line of text: agentclientprotocol/claude-agent-acp#1093; a result of more than 50,000 characters becomes a file, or of as many as the tool declares, up to 500,000: anthropics/claude-code#45766 |
/// | `codex*` | Codex | a link makes the call fail: openai/codex#33404, openai/codex#41280 |
/// | `cursor*` | Cursor | the model cannot read resources |
pub const KNOWN_CLIENTS: &[(&str, ClientOverride)] = &[
    ("*inspector*", ClientOverride { resource_links: Some(true), ..UNCHANGED }),
    ("Visual Studio Code*", ClientOverride { resource_links: Some(false), ..UNCHANGED }),
    (
        "claude-ai*",
        ClientOverride {
            resource_links: Some(false),
            shares_disk: Some(false),
            result_limit: CLAUDE_DESKTOP_BYTES_MAX,
            ..UNCHANGED
        },
    ),
    (
        "claude-code*",
        ClientOverride {
            sees: Some(Sees::Structured),
            resource_links: Some(false),
            declared_size: CLAUDE_CODE_CHARACTERS_MAX,
            ..UNCHANGED
        },
    ),
    ("codex*", ClientOverride { resource_links: Some(false), ..UNCHANGED }),
    ("cursor*", ClientOverride { resource_links: Some(false), ..UNCHANGED }),
];

impl ClientOverride {
    /// The override of the longest pattern that matches.
    pub(super) fn find<'a>(
        entries: impl DoubleEndedIterator<Item = (&'a str, &'a Self)>,
        name: &str,
        version: &str,
    ) -> Self {
        let whole = format!("{name}/{version}");
        let fits = |pattern: &str| matches(pattern, if pattern.contains('/') { &whole } else { name });
        most_specific(entries, fits).cloned().unwrap_or_default()
    }

    /// The built-in profile of a client.
    pub(super) fn known(name: &str, version: &str) -> Self {
        Self::find(KNOWN_CLIENTS.iter().map(|(pattern, known)| (*pattern, known)), name, version)
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
            declared_size: self.declared_size.or(other.declared_size),
        }
    }
}

/// The effective settings for one client. The default is for unknown clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
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
    /// Maximum result size that tools declare, in characters.
    pub declared_size: Option<u64>,
}

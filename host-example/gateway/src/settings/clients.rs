//! What is known of MCP clients, and what the configuration says about them.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use super::patterns::{matches, most_specific};
use super::{Size, SizeUnit};

/// The half of a tool result that a client hands to its model, when a result has both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sees {
    /// `content`.
    Text,
    /// `structuredContent`.
    Structured,
    /// Both, or it is not known which.
    #[default]
    Both,
}

/// What differs for the clients of one pattern. A key that is absent is as the built-in profile of the client has it, see
/// [`KNOWN_CLIENTS`], else as [`ClientProfile::default`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ClientOverride {
    /// The half of a result that its model sees. Default: `both`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sees: Option<Sees>,
    /// Whether a `resource_link` may stand in a result. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_links: Option<bool>,
    /// Whether its model can read a file of this machine by its path. Default: on stdio yes, over HTTP no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shares_disk: Option<bool>,
    /// Whether results pass inline up to the hard limits, as a client wants that runs code over them. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline: Option<bool>,
    /// A result larger than this is acted upon; at least 1, in `unit`. Default: as for all. A tool's own threshold wins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<NonZeroU64>,
    /// Unit of `threshold`. Default: as for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<SizeUnit>,
    /// Most bytes of a whole message to this client, at least 1. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_limit: Option<NonZeroU64>,
    /// Most characters that tools declare for their results in `anthropic/maxResultSizeChars`, at least 1: as many as the
    /// gateway lets through, so that the client writes none of them to a file of its own. Default: none, what the server
    /// declares stays.
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
    declared_size: None,
};

/// Claude Desktop refuses results of more than 1 MB; taken as 1,000,000 bytes, the smaller of the two readings.
const CLAUDE_DESKTOP_BYTES_MAX: Option<NonZeroU64> = NonZeroU64::new(1_000_000);

/// Claude Code writes longer results to a file of its own, however many characters a tool declares.
const CLAUDE_CODE_CHARACTERS_MAX: Option<NonZeroU64> = NonZeroU64::new(500_000);

/// The built-in profiles, by pattern of the name, in alphabetical order. Patterns end in `*` because a bridge such as
/// mcp-remote appends to the name of its client. None says that a client shares the disk: one that comes over HTTP may run
/// anywhere, and the name of a client is only what it says of itself.
///
/// | pattern | client | what is known, and where from |
/// |---|---|---|
/// | `*inspector*` | MCP Inspector | shows links to the person who tests |
/// | `Visual Studio Code*` | VS Code | shows links to the user, the model cannot read them: microsoft/vscode#291004 |
/// | `claude-ai*` | Claude Desktop, claude.ai | results of more than 1 MB are refused: anthropics/claude-code#66519; a link blanks widgets: anthropics/claude-ai-mcp#753 |
/// | `claude-code*` | Claude Code | the model sees only the structured half of two: anthropics/claude-code#55677; a link becomes a line of text: agentclientprotocol/claude-agent-acp#1093; a result of more than 50,000 characters becomes a file, or of as many as the tool declares, up to 500,000: anthropics/claude-code#45766 |
/// | `codex*` | Codex | a link makes the call fail: openai/codex#33404, openai/codex#41280 |
/// | `cursor*` | Cursor | the model cannot read resources |
pub const KNOWN_CLIENTS: &[(&str, ClientOverride)] = &[
    ("*inspector*", ClientOverride { resource_links: Some(true), ..UNCHANGED }),
    ("Visual Studio Code*", ClientOverride { resource_links: Some(false), ..UNCHANGED }),
    ("claude-ai*", ClientOverride { resource_links: Some(false), result_limit: CLAUDE_DESKTOP_BYTES_MAX, ..UNCHANGED }),
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

    /// What this says, and where it says nothing, what the other says.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            sees: self.sees.or(other.sees),
            resource_links: self.resource_links.or(other.resource_links),
            shares_disk: self.shares_disk.or(other.shares_disk),
            inline: self.inline.or(other.inline),
            threshold: self.threshold.or(other.threshold),
            unit: self.unit.or(other.unit),
            result_limit: self.result_limit.or(other.result_limit),
            declared_size: self.declared_size.or(other.declared_size),
        }
    }
}

/// The settings in force for one client. The default is that of a client nothing is known of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClientProfile {
    /// The half of a result that its model sees.
    pub sees: Sees,
    /// Whether a `resource_link` may stand in a result.
    pub resource_links: bool,
    /// Whether its model can read a file of this machine by its path. `None`: on stdio yes, over HTTP no.
    pub shares_disk: Option<bool>,
    /// Whether results pass inline up to the hard limits.
    pub inline: bool,
    /// A result larger than this is acted upon. `None`: as for all clients.
    pub threshold: Option<Size>,
    /// Most bytes of a whole message to this client.
    pub result_limit: Option<u64>,
    /// Most characters that tools declare for their results.
    pub declared_size: Option<u64>,
}

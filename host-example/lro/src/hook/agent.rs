//! The agents, and how each takes an answer.

use std::fmt;

use clap::ValueEnum;
use lro_json::write::string;

/// An answer to an agent: members of a JSON object, with their values as JSON.
#[derive(Debug, Default)]
pub(super) struct Answer(Vec<(&'static str, String)>);

impl Answer {
    pub(super) fn of(key: &'static str, value: String) -> Self {
        Self(vec![(key, value)])
    }

    pub(super) fn and(mut self, key: &'static str, value: String) -> Self {
        self.0.push((key, value));
        self
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("{")?;
        for (index, (key, value)) in self.0.iter().enumerate() {
            write!(formatter, "{}\"{key}\":{value}", if index == 0 { "" } else { "," })?;
        }
        formatter.write_str("}")
    }
}

/// An agent with hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Agent {
    /// Claude Code: `PostToolUse`
    Claude,
    /// Codex: `PostToolUse`
    Codex,
    /// GitHub Copilot CLI: `postToolUse`
    Copilot,
    /// Cursor: `postToolUse`, of MCP tools alone
    Cursor,
    /// Gemini CLI: `AfterTool`
    Gemini,
    /// opencode: `tool.execute.after`, by the plugin of `lro setup --hooks`
    Opencode,
}

impl Agent {
    /// Its name on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Copilot => "copilot",
            Self::Cursor => "cursor",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::value_variants().iter().copied().find(|agent| agent.name() == name)
    }

    /// The name that it sends as an MCP client, for its profile.
    pub(super) fn client(self) -> &'static str {
        match self {
            Self::Claude => "claude-code",
            Self::Codex => "codex-mcp-client",
            Self::Copilot => "github-copilot-developer",
            Self::Cursor => "cursor-vscode",
            Self::Gemini => "gemini-cli-mcp-client",
            Self::Opencode => "opencode",
        }
    }

    /// An answer with a message for the user, where the agent shows one.
    pub(super) fn noted(self, answer: Answer, text: &str) -> Answer {
        match self {
            Self::Claude | Self::Codex | Self::Gemini => answer.and("systemMessage", string(text)),
            Self::Opencode => answer.and("message", string(text)),
            // They keep what is on standard error.
            Self::Copilot | Self::Cursor => answer,
        }
    }
}

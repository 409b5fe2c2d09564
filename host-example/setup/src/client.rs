//! The clients that are known, and the files they read.

use std::path::{Path, PathBuf};

/// The directories below which clients of a user keep their files.
#[derive(Clone, Debug)]
pub struct Home {
    /// The user's home directory.
    pub home: PathBuf,
    /// Where programs with windows keep their files: `%APPDATA%` on Windows, `~/Library/Application Support` on macOS, else
    /// `$XDG_CONFIG_HOME` or `~/.config`.
    pub applications: PathBuf,
    /// `$XDG_CONFIG_HOME`, or `~/.config`, on every system.
    pub config: PathBuf,
}

impl Home {
    /// From the variables of this process. `None` if it has no home directory.
    pub fn of_environment() -> Option<Self> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = std::env::home_dir()?;
        let config = variable("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
        let applications = if cfg!(windows) {
            variable("APPDATA").unwrap_or_else(|| home.join("AppData/Roaming"))
        } else if cfg!(target_os = "macos") {
            home.join("Library/Application Support")
        } else {
            config.clone()
        };
        Some(Self { home, applications, config })
    }
}

/// Whose file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The user's, for all projects.
    User,
    /// A project's, often shared with others by version control.
    Project,
}

/// A file that a client reads.
#[derive(Clone, Debug)]
pub struct Place {
    /// The file, which may not exist.
    pub file: PathBuf,
    /// Whose it is.
    pub scope: Scope,
}

/// A client, and where it keeps its servers.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// Short name, for the command line.
    pub name: &'static str,
    /// Its name.
    pub title: &'static str,
    /// Where the servers are in its files: keys, of which `*` is any.
    pub servers: &'static [&'static [&'static str]],
    /// Files, below which directory.
    files: &'static [(Below, &'static str)],
}

/// Where a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Below {
    Home,
    Applications,
    Config,
    Project,
}

impl Below {
    pub(crate) fn folder<'a>(self, home: &'a Home, project: &'a Path) -> &'a Path {
        match self {
            Self::Home => &home.home,
            Self::Applications => &home.applications,
            Self::Config => &home.config,
            Self::Project => project,
        }
    }
}

impl Client {
    /// The files that it reads, whether they exist or not.
    pub fn places(&self, home: &Home, project: &Path) -> Vec<Place> {
        let place = |&(below, file): &(Below, &str)| {
            let scope = if below == Below::Project { Scope::Project } else { Scope::User };
            Place { file: below.folder(home, project).join(file), scope }
        };
        self.files.iter().map(place).collect()
    }
}

const MCP_SERVERS: &[&[&str]] = &[&["mcpServers"]];

/// Where servers are in a file of any client that is known.
pub const ANY_CLIENT: &[&[&str]] = &[
    &["mcpServers"],
    &["projects", "*", "mcpServers"],
    &["mcp_servers"],
    &["mcp"],
    &["servers"],
    &["context_servers"],
];

/// The clients that are known, in order of their names. Their files are those that their documentation names.
pub const fn clients() -> &'static [Client] {
    &[
        Client {
            name: "claude",
            title: "Claude Code",
            // Servers of one project stand in the user's file too.
            servers: &[&["mcpServers"], &["projects", "*", "mcpServers"]],
            files: &[(Below::Home, ".claude.json"), (Below::Project, ".mcp.json")],
        },
        Client {
            name: "claude-desktop",
            title: "Claude Desktop",
            servers: MCP_SERVERS,
            files: &[(Below::Applications, "Claude/claude_desktop_config.json")],
        },
        Client {
            name: "codex",
            title: "Codex",
            servers: &[&["mcp_servers"]],
            files: &[(Below::Home, ".codex/config.toml"), (Below::Project, ".codex/config.toml")],
        },
        Client {
            name: "copilot",
            title: "GitHub Copilot CLI",
            servers: MCP_SERVERS,
            files: &[(Below::Home, ".copilot/mcp-config.json")],
        },
        Client {
            name: "cursor",
            title: "Cursor",
            servers: MCP_SERVERS,
            files: &[(Below::Home, ".cursor/mcp.json"), (Below::Project, ".cursor/mcp.json")],
        },
        Client {
            name: "gemini",
            title: "Gemini CLI",
            servers: MCP_SERVERS,
            files: &[(Below::Home, ".gemini/settings.json"), (Below::Project, ".gemini/settings.json")],
        },
        Client {
            name: "opencode",
            title: "opencode",
            servers: &[&["mcp"]],
            files: &[
                (Below::Config, "opencode/opencode.json"),
                (Below::Config, "opencode/opencode.jsonc"),
                (Below::Project, "opencode.json"),
                (Below::Project, "opencode.jsonc"),
            ],
        },
        Client {
            name: "qwen",
            title: "Qwen Code",
            servers: MCP_SERVERS,
            files: &[(Below::Home, ".qwen/settings.json"), (Below::Project, ".qwen/settings.json")],
        },
        Client {
            name: "vscode",
            title: "VS Code",
            servers: &[&["servers"]],
            files: &[(Below::Applications, "Code/User/mcp.json"), (Below::Project, ".vscode/mcp.json")],
        },
        Client {
            name: "windsurf",
            title: "Windsurf",
            servers: MCP_SERVERS,
            files: &[(Below::Home, ".codeium/windsurf/mcp_config.json")],
        },
        Client {
            name: "zed",
            title: "Zed",
            servers: &[&["context_servers"]],
            files: &[(Below::Config, "zed/settings.json"), (Below::Project, ".zed/settings.json")],
        },
    ]
}

//! `lro setup` on configurations of clients, and a real server that is started as a configuration says.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::clients::{Client, Connection, Way};
use crate::servers::filesystem;
use crate::support::{Environment, lro, path_text};

/// A user with configurations.
struct User {
    home: TempDir,
    files: Vec<(&'static str, String)>,
}

impl User {
    /// With configurations of six clients, each in the layout of its own. The first is of a server that runs.
    fn new() -> Self {
        let home = TempDir::new().unwrap();
        let command = filesystem(home.path()).command;
        let cursor = json!({"mcpServers": {"files": {"command": command[0], "args": command[1..]}}});
        let files = vec![
            (".cursor/mcp.json", serde_json::to_string_pretty(&cursor).unwrap()),
            (
                ".claude.json",
                r#"{"numStartups": 7, "mcpServers": {"git": {"type": "stdio", "command": "uvx", "args": ["mcp-server-git"], "env": {}}, "sentry": {"type": "http", "url": "https://mcp.sentry.dev/mcp"}}, "projects": {"/p": {"mcpServers": {"local": {"command": "x"}}}}}"#.to_owned(),
            ),
            (
                ".config/Claude/claude_desktop_config.json",
                "\u{feff}{\r\n  \"mcpServers\": {\r\n    \"a\": {\r\n      \"command\": \"npx\",\r\n      \"args\": [\r\n        \"-y\",\r\n        \"a\"\r\n      ]\r\n    }\r\n  }\r\n}\r\n".to_owned(),
            ),
            (
                ".config/Code/User/mcp.json",
                "{\n\t// Mine.\n\t\"servers\": {\n\t\t\"b\": { \"command\": \"b\", \"args\": [ ], },\n\t},\n}\n".to_owned(),
            ),
            (".codex/config.toml", "model = \"m\"\n\n[mcp_servers.c] # mine\ncommand = 'c'\n".to_owned()),
            (
                ".config/opencode/opencode.json",
                r#"{"mcp": {"d": {"type": "local", "command": ["d", "e"], "enabled": true}}}"#.to_owned(),
            ),
        ];
        for (name, text) in &files {
            let file = home.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        }
        Self { home, files }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn setup(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(lro());
        command.env_clear().env("HOME", self.home.path()).current_dir(self.home.path());
        command.arg("setup").args(arguments).output().unwrap()
    }

    #[track_caller]
    fn succeeds(&self, arguments: &[&str]) -> String {
        let output = self.setup(arguments);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Every file has the bytes that it had, and there is no other.
    #[track_caller]
    fn is_as_before(&self) {
        for (name, text) in &self.files {
            assert_eq!(self.text(name), *text, "{name}");
            let folder = self.path(name).parent().unwrap().to_owned();
            let is_backup = |name: &str| name.ends_with(".before-lro");
            assert!(
                !fs::read_dir(folder).unwrap().any(|entry| is_backup(entry.unwrap().file_name().to_str().unwrap()))
            );
        }
    }
}

#[test]
fn clients_are_set_up_and_undone() {
    let user = User::new();
    let shown = user.succeeds(&["--dry-run"]);
    user.is_as_before();
    assert!(shown.contains("sentry  stays as it is: at a URL"), "{shown}");
    let refused = user.setup(&[]);
    assert_eq!(refused.status.code(), Some(1), "nobody was asked: {refused:?}");
    user.is_as_before();

    assert_eq!(user.succeeds(&["--yes"]), shown);
    for (name, text) in &user.files {
        assert_eq!(user.text(&format!("{name}.before-lro")), *text);
        assert_eq!(fs::metadata(user.path(name)).unwrap().permissions().mode() & 0o777, 0o640);
        let servers = if name.contains("claude.json") { 2 } else { 1 };
        assert_eq!(user.text(name).matches(&lro()).count(), servers, "{name}");
    }
    let set_up: Vec<String> = user.files.iter().map(|(name, _)| user.text(name)).collect();
    user.succeeds(&["--yes"]);
    assert!(user.files.iter().zip(&set_up).all(|((name, _), text)| user.text(name) == *text), "once is enough");

    user.succeeds(&["--undo", "--yes"]);
    user.is_as_before();
}

// A client starts what the configuration says, and its model has the tools of the gateway.
#[test]
fn a_configured_server_is_behind_the_gateway() {
    let user = User::new();
    user.succeeds(&["--yes", "--client", "cursor", "files"]);
    let server = serde_json::from_str::<Value>(&user.text(".cursor/mcp.json")).unwrap()["mcpServers"]["files"].take();
    let words = std::iter::once(&server["command"]).chain(server["args"].as_array().unwrap());
    let command = words.map(|word| word.as_str().unwrap().to_owned()).collect();
    let variables = Environment::from([("MCP_LRO_DIR".to_owned(), path_text(&user.path("offloads")))]);
    let mut connection = Connection::open(Client::Sdk1, &Way::Command(command, variables));
    let tools = connection.tools();
    assert!(
        ["list_directory", "lro_extract", "lro_read"].iter().all(|tool| tools.contains(&(*tool).to_owned())),
        "{tools:?}"
    );
}

#[test]
fn what_changed_since_stays_when_setup_is_undone() {
    let user = User::new();
    user.succeeds(&["--yes", "--client", "claude"]);
    let grown = user.text(".claude.json").replace("\"numStartups\": 7", "\"numStartups\": 8");
    fs::write(user.path(".claude.json"), &grown).unwrap();
    user.succeeds(&["--undo", "--yes"]);
    let (_, old) = &user.files[1];
    assert_eq!(user.text(".claude.json"), old.replace("\"numStartups\": 7", "\"numStartups\": 8"));
    assert_eq!(user.text(".claude.json.before-lro"), *old, "nothing is lost");
}

#[test]
fn a_gateway_with_flags_is_undone_and_one_without_a_command_is_named() {
    let user = User::new();
    user.succeeds(&["--yes", "--client", "opencode"]);
    let file = ".config/opencode/opencode.json";
    let (_, old) = user.files.iter().find(|(name, _)| *name == file).unwrap();
    let flagged = user.text(file).replace("\"gateway\", ", "\"gateway\", \"--threshold\", \"10000\", ");
    fs::write(user.path(file), flagged).unwrap();
    user.succeeds(&["--undo", "--yes"]);
    assert_eq!(user.text(file), *old);

    let remote = r#"{"mcpServers": {"a": {"command": "lro", "args": ["gateway", "--upstream", "https://a"]}}}"#;
    fs::write(user.path("remote.json"), remote).unwrap();
    let shown = user.succeeds(&["--undo", "--yes", "--file", "remote.json"]);
    assert!(shown.contains("a  stays as it is: its gateway has no command of a server after `--`"), "{shown}");
    assert!(user.succeeds(&["--yes", "--file", "remote.json"]).contains("a  is behind the gateway"));
    assert_eq!(user.text("remote.json"), remote);
}

#[test]
fn a_server_that_came_later_is_undone_too() {
    let user = User::new();
    user.succeeds(&["--yes", "--client", "claude", "git"]);
    user.succeeds(&["--yes", "--client", "claude", "local"]);
    assert_eq!(user.text(".claude.json").matches(&lro()).count(), 2);
    user.succeeds(&["--undo", "--yes"]);
    user.is_as_before();
}

#[test]
fn a_gateway_from_elsewhere_stays() {
    let user = User::new();
    let text = r#"{"mcpServers": {"a": {"command": "npx", "args": ["a"]},
"mine": {"command": "lro", "args": ["gateway", "--threshold", "5000", "--", "npx", "x"]}}}"#;
    fs::write(user.path("mcp.json"), text).unwrap();
    let kept = "mine  stays as it is: its gateway is not from `lro setup`";
    let undo = ["--undo", "--yes", "--file", "mcp.json"];
    assert!(user.succeeds(&undo).contains(kept), "never set up");
    assert_eq!(user.text("mcp.json"), text);
    let set_up = user.setup(&["--yes", "--file", "mcp.json"]);
    let said = String::from_utf8(set_up.stderr).unwrap();
    assert!(said.contains("mcp.json is changed; its text before `lro setup` is in mcp.json.before-lro"), "{said}");
    assert_eq!(user.text("mcp.json.before-lro"), text);
    let shown = user.succeeds(&undo);
    assert!(shown.contains(kept) && shown.contains("a     the gateway goes"), "{shown}");
    assert_eq!(user.text("mcp.json"), text);
}

#[test]
fn a_link_to_a_configuration_stays_one() {
    let user = User::new();
    fs::rename(user.path(".cursor/mcp.json"), user.path("dotfiles.json")).unwrap();
    symlink(user.path("dotfiles.json"), user.path(".cursor/mcp.json")).unwrap();
    user.succeeds(&["--yes", "--client", "cursor"]);
    assert!(fs::symlink_metadata(user.path(".cursor/mcp.json")).unwrap().is_symlink());
    assert!(user.text("dotfiles.json").contains(&lro()));
    user.succeeds(&["--yes", "--undo"]);
    assert_eq!(user.text("dotfiles.json"), user.files[0].1);
}

#[test]
fn configurations_of_a_project_change_when_it_is_named() {
    let user = User::new();
    fs::write(user.path(".mcp.json"), r#"{"mcpServers": {"shared": {"command": "shared"}}}"#).unwrap();
    assert!(!user.succeeds(&["--dry-run"]).contains("shared"));
    assert!(user.succeeds(&["--dry-run", "--project", "."]).contains("shared  the gateway comes before it"));
    user.succeeds(&["--yes", "--file", ".mcp.json"]);
    assert!(user.text(".mcp.json").contains(&lro()));
}

#[test]
fn what_cannot_be_set_up_is_named() {
    let user = User::new();
    fs::write(user.path(".cursor/mcp.json"), "{").unwrap();
    let output = user.setup(&["--yes", "--client", "cursor,codex"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(errors.contains(".cursor/mcp.json: this is not JSON: "), "{errors}");
    assert!(user.text(".codex/config.toml").contains(&lro()), "the other is set up all the same");
    for (arguments, error) in [
        (&["nobody", "--dry-run"][..], "no configuration has a server `nobody`"),
        (&["--file", "none.json"], "none.json: there is no such file"),
        (&["--client", "none"], "invalid value 'none' for '--client <CLIENT>'"),
        (&["--undo", "git"], "cannot be used with"),
    ] {
        let output = user.setup(arguments);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && errors.contains(error), "{arguments:?}: {errors}");
    }
    let zed = r#"{"mcpServers": {"a": {"command": {"path": "a"}}, "b": {"command": "b", "args": "text"}, "c": {}}}"#;
    fs::write(user.path("zed.json"), zed).unwrap();
    let shown = user.succeeds(&["--yes", "--file", "zed.json"]);
    for what in [
        "a  stays as it is: `command` is neither a string nor, without `args`, a list of strings\n",
        "b  stays as it is: `args` is not a list of strings\n",
        "c  stays as it is: neither a command nor a URL\n",
    ] {
        assert!(shown.contains(what), "{shown}");
    }
    assert!(Command::new("mkfifo").arg(user.path("pipe.json")).status().unwrap().success());
    let output = user.setup(&["--yes", "--file", "pipe.json"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("cannot read pipe.json: it is not a regular file; it stays as it is"), "{errors}");
    assert_eq!(output.status.code(), Some(1));
    let empty = TempDir::new().unwrap();
    let output = Command::new(lro()).env_clear().env("HOME", empty.path()).args(["setup", "--yes"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8(output.stderr).unwrap().starts_with("no configuration of a known client was found"));
}

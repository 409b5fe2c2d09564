//! The gateway before the servers of a text, and away again.
#![expect(clippy::unwrap_used, reason = "in helpers of tests too, a failure is to end the test")]

use std::fs;
use std::path::Path;
#[cfg(unix)]
use std::process::Command;

use lro_setup::{Configuration, Document, Plan, State};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

const LRO: &str = "/opt/lro tools/lro";

const KEYS: &[&[&str]] = &[&["mcpServers"], &["projects", "*", "mcpServers"], &["mcp"], &["mcp_servers"]];

fn parsed(text: &str, is_toml: bool) -> Document<'_> {
    Document::parse(text, is_toml, KEYS, Path::new(LRO)).unwrap()
}

fn set_up(text: &str, is_toml: bool) -> String {
    parsed(text, is_toml).with_gateway(Path::new(LRO), |_| true)
}

fn undone(text: &str, is_toml: bool) -> String {
    parsed(text, is_toml).without_gateway(|_| true)
}

fn states(text: &str, is_toml: bool) -> Vec<State> {
    parsed(text, is_toml).servers().iter().map(|server| server.state).collect()
}

/// The text becomes `wanted`, stays so when it is set up again, and becomes itself again.
#[track_caller]
fn becomes(text: &str, is_toml: bool, wanted: &str) {
    let with = set_up(text, is_toml);
    assert_eq!(with, wanted);
    assert_eq!(set_up(&with, is_toml), with, "a second time");
    assert_eq!(undone(&with, is_toml), text, "and back");
}

#[test]
fn json_keeps_comments_and_layout() {
    becomes(
        r#"{
  // What I use.
  "mcpServers": {
    "files": { "command": "npx", "args": ["-y", "server-filesystem", "/data"], "env": { "TOKEN": "a" } },
    "lines": {
      "args": [
        "--verbose" // loud
      ],
      "command": "C:\\tools\\lines.exe",
    },
    "bare": {"command": "bare"},
    "empty": {"command": "empty", "args" : [ ]},
    "remote": { "url": "https://example.com/mcp" }
  },
  "theme": "dark"
}
"#,
        false,
        r#"{
  // What I use.
  "mcpServers": {
    "files": { "command": "/opt/lro tools/lro", "args": ["gateway", "--", "npx", "-y", "server-filesystem", "/data"], "env": { "TOKEN": "a" } },
    "lines": {
      "args": [
        "gateway",
        "--",
        "C:\\tools\\lines.exe",
        "--verbose" // loud
      ],
      "command": "/opt/lro tools/lro",
    },
    "bare": {"command": "/opt/lro tools/lro", "args": ["gateway", "--", "bare"]},
    "empty": {"command": "/opt/lro tools/lro", "args" : ["gateway", "--", "empty" ]},
    "remote": { "url": "https://example.com/mcp" }
  },
  "theme": "dark"
}
"#,
    );
}

#[test]
fn a_command_may_be_one_list() {
    becomes(
        r#"{"mcp": {"a": {"type": "local", "command": ["bun", "x", "server"]}, "b": {"type": "remote", "url": "https://b"}}}"#,
        false,
        r#"{"mcp": {"a": {"type": "local", "command": ["/opt/lro tools/lro", "gateway", "--", "bun", "x", "server"]}, "b": {"type": "remote", "url": "https://b"}}}"#,
    );
}

#[test]
fn servers_of_projects_are_found() {
    let text = r#"{"projects": {"/a": {"mcpServers": {"x": {"command": "x"}}}, "/b": {"history": []}}}"#;
    assert_eq!(states(&set_up(text, false), false), [State::Behind]);
}

#[test]
fn toml_keeps_comments_and_layout() {
    becomes(
        r#"model = "x" # mine

[mcp_servers.files]
command = "npx" # by npm
args = ["-y", "server-filesystem"]
startup_timeout_sec = 20

[mcp_servers.bare]
command = 'bare'

[mcp_servers]
inline = { command = "inline" }
dotted.command = "dotted"
remote = { url = "https://example.com" }
"#,
        true,
        r#"model = "x" # mine

[mcp_servers.files]
command = "/opt/lro tools/lro" # by npm
args = ["gateway", "--", "npx", "-y", "server-filesystem"]
startup_timeout_sec = 20

[mcp_servers.bare]
command = "/opt/lro tools/lro"
args = ["gateway", "--", 'bare']

[mcp_servers]
inline = { command = "/opt/lro tools/lro", args = ["gateway", "--", "inline"] }
dotted.command = "/opt/lro tools/lro"
dotted.args = ["gateway", "--", "dotted"]
remote = { url = "https://example.com" }
"#,
    );
}

#[test]
fn only_what_is_started_is_changed() {
    let text = r#"{"mcpServers": {
        "own": {"command": "lro", "args": ["serve"]}, "behind": {"command": "C:\\bin\\lro.exe", "args": ["gateway", "--", "x"]},
        "odd": {"command": 7}, "args": {"command": "x", "args": ["a", 1]}, "none": {}, "text": "x", "list": {"command": []},
        "http": {"type": "http", "url": "https://example.com"}, "gemini": {"httpUrl": "https://example.com"}}}"#;
    use State::{Behind, Malformed, Own, Remote, Unknown};
    assert_eq!(
        states(text, false),
        [Own, Behind, Malformed("command"), Malformed("args"), Unknown, Unknown, Unknown, Remote, Remote]
    );
    assert_eq!(set_up(text, false), text);
}

/// A server in JSON that these words start.
fn started_by(words: &str) -> String {
    let words: Vec<&str> = words.split(' ').collect();
    json!({"mcpServers": {"a": {"command": words[0], "args": words[1..]}}}).to_string()
}

// Whatever flags stand before `--`, and whichever way of installing the command starts it.
#[test]
fn a_gateway_goes_with_its_flags() {
    for gateway in [
        "lro gateway --threshold 10000 --",
        "lro gateway --threshold=10000 --audit -v --policy p.wasm --",
        "lro --log debug gateway --",
        "lro-0.1.0 gateway -- npx -y lro-filter gateway --threshold 1 --",
        "/opt/lro-0.1.0 gateway --",
        "lro-filter gateway --",
        "lro-filter.exe gateway --threshold 1 --",
        "npx -y lro-filter gateway --",
        "npx --package lro-filter@0.1.0 lro gateway --threshold 1 --",
        "uvx lro-filter==0.1.0 gateway --",
        "uvx --python 3.12 --from lro-filter lro gateway --",
        "cmd /c npx.cmd -y lro-filter@latest gateway --",
    ] {
        let text = started_by(&format!("{gateway} server --flag -- gateway"));
        assert_eq!(states(&text, false), [State::Behind], "{gateway}");
        assert_eq!(set_up(&text, false), text, "{gateway}");
        assert_eq!(undone(&text, false), started_by("server --flag -- gateway"), "{gateway}");
    }
    let text =
        r#"{"mcp": {"a": {"command": ["npx", "lro-filter", "gateway", "--threshold", "1", "--", "server", "x"]}}}"#;
    assert_eq!(undone(text, false), r#"{"mcp": {"a": {"command": ["server", "x"]}}}"#);
}

#[test]
fn a_gateway_without_a_command_after_it_stays() {
    for words in [
        "lro gateway --upstream https://example.com/mcp",
        "npx -y lro-filter gateway --upstream https://example.com/mcp",
        "lro gateway --threshold 1 --",
        "lro gateway --threshold 1 server x -- y",
    ] {
        let text = started_by(words);
        assert_eq!(states(&text, false), [State::Gateway], "{words}");
        assert_eq!((set_up(&text, false), undone(&text, false)), (text.clone(), text), "{words}");
    }
}

#[test]
fn the_running_program_is_the_gateway_whatever_its_name() {
    let lro = Path::new("/opt/bin/filter");
    let text = started_by("server x");
    let with = Document::parse(&text, false, KEYS, lro).unwrap().with_gateway(lro, |_| true);
    let document = Document::parse(&with, false, KEYS, lro).unwrap();
    assert_eq!(document.with_gateway(lro, |_| true), with);
    assert_eq!(document.without_gateway(|_| true), text);
}

#[test]
fn what_only_mentions_the_command_is_a_server() {
    for words in [
        "npx -y server /home/me/lro",
        "lro-tools gateway -- x",
        "docker run lro-filter gateway -- x",
        "x lro gateway -- y",
    ] {
        assert_eq!(states(&started_by(words), false), [State::Started], "{words}");
    }
    assert_eq!(states(&started_by("npx -y lro-filter serve /data"), false), [State::Own]);
}

/// Sets a file up with a program, and says what its backup has then.
fn backup_of(file: &Path, lro: &str) -> String {
    let configuration = Configuration::read(file).unwrap().unwrap();
    let plan = Plan::set_up(configuration, KEYS, Path::new(lro), |_| true).unwrap();
    plan.carry_out().unwrap();
    fs::read_to_string(plan.backup().unwrap()).unwrap()
}

/// Takes the gateway away again, and says what the file has then.
fn text_undone(file: &Path) -> String {
    let configuration = Configuration::read(file).unwrap().unwrap();
    Plan::undo(configuration, KEYS, Path::new(LRO)).unwrap().carry_out().unwrap();
    fs::read_to_string(file).unwrap()
}

/// A server, and another before which its user has put a gateway.
const BY_HAND: &str = r#"{"mcpServers": {"a": {"command": "npx", "args": ["a"]},
    "mine": {"command": "lro", "args": ["gateway", "--threshold", "5000", "--", "npx", "x"]}}}"#;

#[test]
fn a_gateway_put_there_by_hand_stays() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("mcp.json");
    fs::write(&file, BY_HAND).unwrap();
    assert_eq!(text_undone(&file), BY_HAND, "never set up");
    assert_eq!(backup_of(&file, LRO), BY_HAND);
    assert_eq!(text_undone(&file), BY_HAND, "byte for byte");
    assert!(!folder.path().join("mcp.json.before-lro").exists());

    // What changed since stays, and so does that gateway; flags that came since go with the gateway that was set up.
    backup_of(&file, LRO);
    let changed = fs::read_to_string(&file).unwrap();
    let changed = changed.replace(r#""gateway", "--", "npx", "a""#, r#""gateway", "-v", "--", "npx", "a", "b""#);
    fs::write(&file, changed.replace("5000", "6000")).unwrap();
    let kept = BY_HAND.replace("5000", "6000").replace(r#"["a"]"#, r#"["a", "b"]"#);
    assert_eq!(backup_of(&file, LRO), kept, "set up again");
    assert_eq!(text_undone(&file), kept);
}

// By the place where a server stands, as names are unique in one place alone.
#[test]
fn servers_of_one_name_are_told_apart() {
    let text = r#"{"projects": {
        "/a": {"mcpServers": {"x": {"command": "x"}}},
        "/b": {"mcpServers": {"x": {"command": "/bin/lro", "args": ["gateway", "--", "x"]}}}}, "theme": "dark"}"#;
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("claude.json");
    fs::write(&file, text).unwrap();
    fs::write(folder.path().join("claude.json.before-lro"), text).unwrap();
    fs::write(&file, set_up(text, false).replace("dark", "light")).unwrap();
    assert_eq!(text_undone(&file), text.replace("dark", "light"));
}

// Without its backup, a gateway that has the form of what is written here is taken for one that was.
#[test]
fn without_a_backup_the_form_of_a_gateway_tells() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("mcp.json");
    let lose_backup = || fs::remove_file(folder.path().join("mcp.json.before-lro")).unwrap();
    fs::write(&file, BY_HAND).unwrap();
    backup_of(&file, LRO);
    lose_backup();
    assert_eq!(backup_of(&file, LRO), BY_HAND);
    lose_backup();
    assert_eq!(text_undone(&file), BY_HAND);
}

#[cfg(unix)]
#[test]
fn a_file_keeps_its_owner_and_group() {
    use std::os::unix::fs::{MetadataExt, chown};

    let folder = TempDir::new().unwrap();
    let file = folder.path().join("mcp.json");
    fs::write(&file, started_by("server x")).unwrap();
    // Only root can give a file away, and only root could take one.
    if chown(&file, Some(12345), Some(23456)).is_err() {
        return;
    }
    let owner = |file: &Path| fs::metadata(file).map(|metadata| (metadata.uid(), metadata.gid())).unwrap();
    backup_of(&file, LRO);
    assert_eq!(owner(&file), (12345, 23456));
    assert_eq!(owner(&folder.path().join("mcp.json.before-lro")), (12345, 23456));
    text_undone(&file);
    assert_eq!(owner(&file), (12345, 23456));
}

#[cfg(unix)]
#[test]
fn what_is_no_regular_file_is_refused() {
    let folder = TempDir::new().unwrap();
    let pipe = folder.path().join("mcp.json");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for file in [folder.path(), &pipe] {
        let error = Configuration::read(file).unwrap_err().to_string();
        assert!(error.ends_with("it is not a regular file"), "{error}");
    }
}

#[test]
fn a_backup_is_not_replaced_by_a_text_with_a_gateway() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("mcp.json");
    let text = started_by("server x");
    fs::write(&file, &text).unwrap();
    for lro in ["/opt/filter", "/opt/lro", "/opt/lro-0.1.0"] {
        assert_eq!(backup_of(&file, lro), text, "{lro}");
    }
}

#[test]
fn only_the_servers_that_are_chosen_are_changed() {
    let text = r#"{"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}}"#;
    let changed = parsed(text, false).with_gateway(Path::new(LRO), |server| server.name == "b");
    assert_eq!(states(&changed, false), [State::Started, State::Behind]);
}

#[test]
fn what_is_neither_json_nor_toml_is_refused() {
    for text in ["{", "{'a': 1}", "{\"a\" 1}", "[mcp]", &"[".repeat(100_000)] {
        let error = Document::parse(text, false, KEYS, Path::new(LRO)).err().expect(text).to_string();
        assert!(error.starts_with("this is not JSON: "), "{error}");
    }
    for text in ["a = ", "[a", "a = 1\na = 2"] {
        let error = Document::parse(text, true, KEYS, Path::new(LRO)).err().expect(text).to_string();
        assert!(error.starts_with("this is not TOML: "), "{error}");
    }
    assert_eq!(states("", false), []);
    assert_eq!(states("", true), []);
}

fn server() -> impl Strategy<Value = Value> {
    let word = "[ -~äß\"\\\\\n]{0,12}";
    let arguments = prop::collection::vec(word, 1..4);
    prop_oneof![
        (word, arguments.clone())
            .prop_map(|(command, args)| json!({"command": command, "args": args, "env": {"A": "b"}})),
        word.prop_map(|command| json!({"command": command})),
        arguments.prop_map(|command| json!({"command": command, "type": "local"})),
        Just(json!({"url": "https://example.com"})),
        Just(json!({"command": 1})),
    ]
}

proptest! {
    // Whatever the layout: what the client starts is behind the gateway with the same words, and all else is as it was.
    #[test]
    fn any_json_is_set_up_and_undone(servers in prop::collection::vec(("[a-z\"é.]{1,8}", server()), 0..5), pretty: bool) {
        let servers: Map<String, Value> = servers.into_iter().collect();
        let value = json!({"a": [1, {"command": "no server"}], "mcpServers": servers});
        let text = if pretty { serde_json::to_string_pretty(&value).unwrap() } else { value.to_string() };
        let with = set_up(&text, false);
        let mut wanted = value;
        for server in wanted["mcpServers"].as_object_mut().unwrap().values_mut() {
            let gateway = [json!(LRO), json!("gateway"), json!("--")];
            match server["command"].clone() {
                Value::String(command) => {
                    let given = server["args"].as_array().cloned().unwrap_or_default();
                    server["args"] = [&gateway[1..], &[json!(command)], &given].concat().into();
                    server["command"] = json!(LRO);
                }
                Value::Array(command) => server["command"] = [gateway.as_slice(), &command].concat().into(),
                _ => {}
            }
        }
        prop_assert_eq!(serde_json::from_str::<Value>(&with).unwrap(), wanted);
        prop_assert_eq!(undone(&with, false), text);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,80}", is_toml: bool) {
        let lro = Path::new(LRO);
        let _ = Document::parse(&text, is_toml, KEYS, lro).map(|document| document.with_gateway(lro, |_| true));
    }
}

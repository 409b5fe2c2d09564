//! The command `lro`, run as people and scripts run it.
#![expect(clippy::unwrap_used, reason = "in helpers of tests too, a failure is to end the test")]

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use lro_host::filter::{Filter, Outcome, Request};
use lro_host::policy::{DEFAULT_POLICY, LoadOptions, Policy};
use lro_host::sandbox::{Limits, Part, PartKind, Payload, Sandbox};
use lro_host::settings::FailureMode;
use lro_host::store::{Store, StoreConfig};
use serde_json::Value;
use tempfile::TempDir;

/// A home of its own for each test. Compiled policies are shared, so that they are compiled once.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.path(name), content).unwrap();
        self.path(name)
    }

    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("MCP_LRO_DIR", self.path("out")).env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
        command.env("LRO_LOG", "off").current_dir(self.0.path());
        command
    }

    fn lro(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_lro"));
        command.args(arguments);
        command
    }

    /// Runs with an input on stdin.
    fn run(&self, arguments: &[&str], input: impl AsRef<[u8]>) -> Output {
        run(&mut self.lro(arguments), input)
    }

    /// Runs with `--json` and parses the line.
    fn report(&self, arguments: &[&str], input: impl AsRef<[u8]>) -> Value {
        let output = self.run(&[&["offload", "--json"], arguments].concat(), input);
        assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), 1, "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn verdict(&self, arguments: &[&str], input: impl AsRef<[u8]>) -> String {
        let output = self.run(&[&["inspect"], arguments].concat(), input);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

fn run(command: &mut Command, input: impl AsRef<[u8]>) -> Output {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut stdin, input) = (child.stdin.take().unwrap(), input.as_ref().to_vec());
    // A command that fails early does not read its input.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn rows(count: usize) -> String {
    let rows: Vec<String> = (0..count).map(|id| format!(r#"{{"id":{id},"name":"row {id}"}}"#)).collect();
    format!("[{}]", rows.join(","))
}

fn tool_result(text: &str, is_error: bool) -> String {
    let text = Value::from(text);
    format!(r#" {{"content": [{{"type":"text","text":{text}}}], "isError":{is_error}}}"#)
}

fn file_of<'a>(report: &'a Value, section: &str) -> &'a Value {
    report["files"].as_array().unwrap().iter().find(|file| file["section"] == section).unwrap()
}

fn lines(file: &Value) -> Vec<Value> {
    let text = fs::read_to_string(file["path"].as_str().unwrap()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Every file below a directory.
fn files_below(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

/// The component with one of its names changed to another of the same length.
fn renamed(from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut bytes = DEFAULT_POLICY.to_vec();
    let found: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(from.as_bytes())).collect();
    assert!(!found.is_empty(), "the default policy does not hold `{from}`");
    for at in found {
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    bytes
}

// row 6, row 7
#[test]
fn what_is_small_or_switched_off_passes_byte_for_byte() {
    let home = Home::new();
    let large = tool_result(&"x".repeat(60_000), false);
    for input in ["", "text\r\n", " {\"a\" : 1.0}\n", &tool_result("small", false)] {
        assert_eq!(home.run(&["offload"], input).stdout, input.as_bytes());
    }
    let binary = [0xff, 0, 1];
    assert_eq!(home.run(&["offload"], binary).stdout, binary);
    for arguments in [&["offload", "--enabled", "off"], &["offload", "--mode", "never"]] {
        let output = home.run(arguments, &large);
        assert_eq!((output.status.code(), output.stdout), (Some(0), large.clone().into_bytes()));
    }
    assert_ne!(home.run(&["offload"], &large).stdout, large.as_bytes());
}

// row 1, row 2, row 3, row 4
#[test]
fn the_threshold_is_inclusive_in_each_unit() {
    let home = Home::new();
    for letter in ["a", "é", "語"] {
        assert_eq!(home.verdict(&[], letter.repeat(50_000)), "pass", "{letter}");
        assert_eq!(home.verdict(&[], letter.repeat(50_001)), "offload", "{letter}");
    }
    let verdict = |unit, threshold, input: &str| home.verdict(&["--unit", unit, "--threshold", threshold], input);
    assert_eq!(verdict("bytes", "2000", &"é".repeat(1000)), "pass");
    assert_eq!(verdict("bytes", "1999", &"é".repeat(1000)), "offload");
    assert_eq!(verdict("tokens", "250", &"a".repeat(1000)), "pass");
    assert_eq!(verdict("tokens", "250", &"a".repeat(1001)), "offload");
    assert_eq!(verdict("tokens", "999", &"語".repeat(1000)), "offload");
}

// row 5, row 47
#[test]
fn variables_override_the_file_and_flags_override_variables() {
    let home = Home::new();
    let config = home.file("lro.toml", "threshold = 10\nunit = \"bytes\"\n");
    let config = config.to_str().unwrap();
    let origins = |command: &mut Command| -> Vec<(String, Value, String)> {
        let entries: Value = serde_json::from_slice(&run(command, "").stdout).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        entries.as_array().unwrap().iter().map(|e| (text(&e["key"]), e["value"].clone(), text(&e["origin"]))).collect()
    };
    let mut command = home.lro(&["config", "--json", "--config", config, "--unit", "tokens"]);
    let found = origins(command.env("MCP_LRO_THRESHOLD", "20").env("MCP_LRO_ENABLED", "no"));
    let entry = |key: &str| found.iter().find(|entry| entry.0 == key).map(|e| (e.1.clone(), e.2.as_str())).unwrap();
    assert_eq!(entry("threshold"), (20.into(), "variable MCP_LRO_THRESHOLD"));
    assert_eq!(entry("unit"), ("tokens".into(), "flag --unit"));
    assert_eq!(entry("enabled"), (false.into(), "variable MCP_LRO_ENABLED"));
    assert_eq!(entry("dir").1, "variable MCP_LRO_DIR");
    assert_eq!(entry("header-type"), ("mcp_lro".into(), "default"));
    let output = home.run(&["config", "--config", config], "");
    let table = String::from_utf8(output.stdout).unwrap();
    let row = table.lines().find(|line| line.starts_with("threshold ")).unwrap();
    assert!(row.contains("10") && row.ends_with(&format!("file {config}")), "{row}");

    let output = run(home.lro(&["config"]).env("MCP_LRO_THRESHOLD", "0").env("MCP_LRO_UNIT", "miles"), "");
    assert_eq!(output.status.code(), Some(2));
    let message = stderr(&output);
    assert!(message.contains("MCP_LRO_THRESHOLD") && message.contains("MCP_LRO_UNIT"), "{message}");
    assert!(message.starts_with("error: invalid configuration") && message.contains("\nhint: "), "{message}");
}

// row 8
#[test]
fn files_are_only_under_the_granted_directory() {
    let home = Home::new();
    let mut command = home.lro(&["offload", "--mode", "always", "--tenant", "../../a", "--session", "../b"]);
    command.env("XDG_CACHE_HOME", home.path("cache")).env("HOME", home.path("home"));
    let output = run(&mut command, rows(3));
    assert!(output.status.success(), "{output:?}");
    let (granted, cache) = (home.path("out"), home.path("cache/lro-filter-compiled"));
    let files = files_below(home.0.path());
    assert!(files.iter().filter(|file| file.starts_with(&granted)).count() >= 2, "{files:?}");
    assert!(files.iter().all(|file| file.starts_with(&granted) || file.starts_with(&cache)), "{files:?}");
}

// row 9, row 11, row 12, row 78
#[test]
fn sections_are_written_one_file_each() {
    let home = Home::new();
    let config = "mode = \"always\"\nlevel = \"full\"\nheader-type = \"acme\"\n\
        [[sections]]\nkey = \"users\"\nfilename-prefix = \"people\"\nschema = '{\"type\":\"object\"}'\n\
        [[sections]]\nkey = \"groups\"\n";
    let config = home.file("lro.toml", config);
    let input = format!(r#"{{"users":{},"groups":{}}}"#, rows(3), rows(2));
    let report = home.report(&["--config", config.to_str().unwrap()], input);
    assert_eq!(report["verdict"], "offload");
    for (section, prefix, count) in [("users", "people", 3), ("groups", "groups", 2)] {
        let file = file_of(&report, section);
        assert!(file["name"].as_str().unwrap().starts_with(prefix), "{file}");
        let lines = lines(file);
        assert_eq!((file["records"].clone(), lines.len()), (count.into(), count + 1));
        assert_eq!((&lines[0]["type"], &lines[0]["count"]), (&"acme".into(), &count.into()));
        assert_eq!(lines[1], serde_json::json!({ "id": 0, "name": "row 0" }));
        for member in ["files", "summary", "schemas"] {
            assert!(!report["descriptor"][member][section].is_null(), "{member}: {report}");
        }
    }
    assert_eq!(report["descriptor"]["schemas"]["users"], serde_json::json!({ "type": "object" }));
}

#[test]
fn the_report_tells_what_happened() {
    let home = Home::new();
    let report = home.report(&["--threshold", "1000"], tool_result(&rows(500), false));
    let reply: Value = serde_json::from_str(report["reply"].as_str().unwrap()).unwrap();
    let shown: Value = serde_json::from_str(reply["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(shown, report["descriptor"]);
    let id = report["id"].as_str().unwrap();
    assert!(report["directory"].as_str().unwrap().ends_with(&format!("/default/{id}")));
    let number = |pointer: &str| report.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer}"));
    assert_eq!(number("/tokens_saved"), number("/size/tokens") - number("/reply_tokens"));
    for pointer in ["/inspect/micros", "/inspect/memory_bytes", "/write/micros", "/write/written_bytes"] {
        assert!(number(pointer) > 0, "{pointer}");
    }
    assert_eq!(report["policy"]["version"], "0.1.0");
    assert!(report["warning"].is_null() && report["error"].is_null());
    let output = home.run(&["offload", "--report", "--threshold", "1000"], rows(500));
    let message = stderr(&output);
    assert!(message.contains("offload") && message.contains("500 records") && message.contains("% saved"), "{message}");
    assert!(serde_json::from_slice::<Value>(&output.stdout).is_ok());
}

// row 37
#[test]
fn truncated_input_keeps_to_the_limit() {
    let home = Home::new();
    let arguments = ["offload", "--action", "truncate", "--unit", "bytes", "--threshold", "500"];
    let text = home.run(&[&arguments[..], &["--truncate-suffix", "[cut]"]].concat(), "語\"".repeat(1000)).stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(text.len() <= 500 && text.len() > 490 && text.ends_with("[cut]"), "{text}");
    let json = home.run(&arguments, rows(1000)).stdout;
    let object: Value = serde_json::from_slice(&json).unwrap();
    let kept = object[""].as_array().unwrap().len();
    assert!(json.len() <= 500 && kept > 3, "{object}");
    assert_eq!(object["omitted"][""], 1000 - kept);
    // No JSON, though it would be in the place of a member's value.
    let injected = format!("{},\"isError\":true", rows(1000));
    let text = home.run(&[&arguments[..], &["--truncate-suffix", "[cut]"]].concat(), injected).stdout;
    assert!(text.starts_with(b"[{\"id\":0,") && text.ends_with(b"[cut]"));
    let reply = home.run(&arguments, tool_result(&"\"\n".repeat(1000), false)).stdout;
    assert!(reply.len() <= 500, "{}", reply.len());
    assert!(serde_json::from_slice::<Value>(&reply).unwrap()["content"][0]["text"].as_str().unwrap().len() > 100);
}

// row 58
#[test]
fn a_rejection_advises_and_has_an_exit_code() {
    let home = Home::new();
    let arguments = ["offload", "--action", "reject", "--threshold", "10", "--advice", "ask \u{1b}[31mfor less"];
    let output = home.run(&arguments, "x".repeat(11));
    assert_eq!((output.status.code(), output.stdout.len()), (Some(3), 0));
    assert_eq!(stderr(&output), "ask \u{fffd}[31mfor less\n");
    let output = home.run(&arguments, tool_result("more than ten", false));
    let reply: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &reply["isError"]), (Some(3), &true.into()));
}

// row 43
#[test]
fn errors_stay_errors_and_inline() {
    let home = Home::new();
    let arguments = ["--threshold", "1000", "--tool", "search"];
    let report = home.report(&arguments, tool_result(&rows(1000), true));
    let reply: Value = serde_json::from_str(report["reply"].as_str().unwrap()).unwrap();
    assert_eq!((&report["verdict"], &reply["isError"]), (&"truncate".into(), &true.into()));
    assert!(reply["content"][0]["text"].as_str().unwrap().contains("row 0"));
    assert_eq!(home.report(&[&arguments[..], &["--error"]].concat(), rows(1000))["verdict"], "truncate");
}

#[test]
fn the_form_can_be_given_and_is_checked() {
    let home = Home::new();
    let name = |form, input: &[u8]| {
        let report = home.report(&["--mode", "always", "--as", form], input);
        report["files"][0]["kind"].as_str().unwrap().to_owned()
    };
    // By the guess this is a tool result whose blocks are of no known type.
    assert_eq!(name("json", format!(r#"{{"content":{}}}"#, rows(100)).as_bytes()), "records");
    assert_eq!(name("text", b"one\ntwo\n"), "text");
    assert_eq!(name("binary", b"text"), "bytes");
    let cases: [(&str, &[u8], &str); 7] = [
        ("json", b"[1,2", "after 4 bytes"),
        ("json", b"[1,}", "byte 3"),
        ("json", b"1,\"isError\":true", "byte 1"),
        ("json", b"\"a\xff\"", "byte 2"),
        ("json", b"", "after 0 bytes"),
        ("text", b"ab\xff", "byte 2"),
        ("tool-result", b"{\"content\":[}", "byte 12"),
    ];
    for (form, input, place) in cases {
        let output = home.run(&["offload", "--as", form], input);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{output:?}");
        assert!(stderr(&output).starts_with("error: ") && stderr(&output).contains(place), "{output:?}");
    }
}

// row 80
#[test]
fn a_component_that_is_no_policy_is_refused_with_the_cause() {
    let home = Home::new();
    let check = |path: &Path, more: &[&str]| {
        let output = home.run(&[&["policy", "check", path.to_str().unwrap()], more].concat(), "");
        (output.status.code(), stderr(&output))
    };
    let fifo = home.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let cases = [
        (home.file("cut.wasm", &DEFAULT_POLICY[..DEFAULT_POLICY.len() / 2]), "not a WebAssembly component"),
        (home.file("core.wasm", b"\0asm\x01\0\0\0"), "is a core module"),
        (home.file("world.wasm", renamed("lro:filter/lro-filter@", "lro:filter/lro-filtex@")), "not of the world"),
        (home.file("version.wasm", renamed("lro-filter@0.1.0", "lro-filter@9.9.9")), "lro:filter@9.9.9"),
        (home.file("empty.wasm", b""), "not a WebAssembly component"),
        (home.path("none.wasm"), "No such file"),
        (home.0.path().to_owned(), "not a regular file"),
        (fifo, "not a regular file"),
    ];
    for (path, cause) in cases {
        let (code, message) = check(&path, &[]);
        assert_eq!(code, Some(1), "{path:?}: {message}");
        assert!(message.starts_with("error: ") && message.contains(cause), "{path:?}: {message}");
    }
    let good = home.file("good.wasm", DEFAULT_POLICY);
    let (code, message) = check(&good, &["--policy-sha256", &"0".repeat(64)]);
    assert!(code == Some(1) && message.contains("is pinned"), "{message}");
    assert_eq!(check(&good, &["--policy-sha256", "1234"]).0, Some(2));
    let output = home.run(&["policy", "check", "--json", good.to_str().unwrap()], "");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&found["world"], &found["version"]), (&"lro-policy".into(), &"0.1.0".into()));
    assert_eq!(found["bytes"], DEFAULT_POLICY.len());
}

#[test]
fn a_policy_is_tried_without_leaving_files() {
    let home = Home::new();
    let (policy, input) = (home.file("policy.wasm", DEFAULT_POLICY), home.file("rows.json", rows(50)));
    let temporary = home.path("tmp");
    fs::create_dir(&temporary).unwrap();
    let arguments = ["policy", "run", "--json", "--mode", "always", "--policy"];
    let arguments = [&arguments[..], &[policy.to_str().unwrap(), input.to_str().unwrap()]].concat();
    let output = run(home.lro(&arguments).env("TMPDIR", &temporary), "");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["verdict"], &report["files"][0]["records"]), (&"offload".into(), &50.into()));
    assert_eq!((files_below(&temporary), fs::read_dir(&temporary).unwrap().count()), (Vec::new(), 0));
    assert!(!home.path("out").exists());
    let kept = home.path("kept");
    let output = run(&mut home.lro(&[&arguments[..], &["--keep", kept.to_str().unwrap()]].concat()), "");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(lines(&report["files"][0]).len(), 51);
    let output = run(&mut home.lro(&[&arguments[..], &["--limits-memory-bytes", "65536"]].concat()), "");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("memory-bytes"), "{output:?}");
}

#[test]
fn inspecting_writes_nothing() {
    let home = Home::new();
    assert_eq!(home.verdict(&["--mode", "always"], rows(3)), "offload");
    assert_eq!(home.run(&["inspect", "--action", "reject", "--threshold", "1"], rows(3)).status.code(), Some(3));
    assert!(!home.path("out").exists());
}

// row 21, row 33
#[test]
fn a_result_that_cannot_be_written_is_truncated_with_a_warning() {
    let home = Home::new();
    let no_directory = home.file("file", "");
    let unwritable = ["--dir", no_directory.to_str().unwrap()];
    for input in [rows(5000), tool_result(&rows(5000), false)] {
        let small = home.run(&[&["offload"], &unwritable[..]].concat(), "small");
        assert_eq!((small.status.code(), small.stdout, small.stderr), (Some(0), b"small".to_vec(), Vec::new()));
        let arguments = ["offload", "--threshold", "2000"];
        let elsewhere = home.run(&[&arguments[..], &unwritable[..]].concat(), &input);
        // A full disk, as one process sees it: no file may have more than 4,096 bytes.
        let mut full = home.command("prlimit");
        full.arg("--fsize=4096").arg(env!("CARGO_BIN_EXE_lro")).args(arguments);
        for output in [elsewhere, run(&mut full, &input)] {
            assert_eq!(output.status.code(), Some(0), "{output:?}");
            assert!(stderr(&output).starts_with("warning: ") && stderr(&output).contains("\nhint: "), "{output:?}");
            let found: Value = serde_json::from_slice(&output.stdout).unwrap();
            let text = found["content"][0]["text"].as_str();
            let object = text.map_or_else(|| found.clone(), |text| serde_json::from_str(text).unwrap());
            assert_eq!(object["offloaded"], false);
            let kept = object[""].as_array().unwrap();
            assert!(kept.len() > 5 && output.stdout.len() <= 2001, "{object}");
            assert_eq!(kept[5], serde_json::json!({ "id": 5, "name": "row 5" }));
            assert_eq!(object["omitted"][""], 5000 - kept.len());
        }
        assert!(files_below(&home.path("out")).is_empty(), "{:?}", files_below(&home.path("out")));
        let closed = home.run(&[&arguments[..], &unwritable[..], &["--failure", "closed"]].concat(), &input);
        assert_eq!((closed.status.code(), closed.stdout.len()), (Some(1), 0), "{closed:?}");
        assert!(stderr(&closed).starts_with("error: "), "{closed:?}");
    }
}

// row 10
#[test]
fn cleaning_removes_what_is_old_or_everything() {
    let home = Home::new();
    let offload = || home.report(&["--mode", "always"], rows(3))["directory"].as_str().unwrap().to_owned();
    let clean = |more: &[&str]| -> Value {
        serde_json::from_slice(&home.run(&[&["clean", "--json"], more].concat(), "").stdout).unwrap()
    };
    let (young, foreign) = (offload(), home.path("out/default/notes.txt"));
    fs::write(&foreign, "mine").unwrap();
    // The id tells the age: this one is of 1970.
    let old = Path::new(&young).with_file_name("00000000010000000000000000");
    fs::create_dir(&old).unwrap();
    fs::write(old.join("data.jsonl"), "12345").unwrap();
    let orphan = Path::new(&young).with_file_name(".staging-00000000010000000000000000-00000000010000000000000000");
    fs::create_dir(&orphan).unwrap();
    let before = files_below(&home.path("out"));
    let orphan_listed = serde_json::json!({ "path": orphan, "expired": false, "bytes": 0 });
    let old_listed = serde_json::json!({ "path": old, "expired": true, "bytes": 5 });
    assert_eq!(clean(&["--dry-run"]), serde_json::json!([orphan_listed, old_listed]));
    assert_eq!(clean(&["--dry-run", "--all"]).as_array().unwrap().len(), 3);
    let listed = String::from_utf8(home.run(&["clean", "--dry-run"], "").stdout).unwrap();
    let (old_line, orphan_line) =
        (format!("offload {}: 5 bytes", old.display()), format!("orphan {}:", orphan.display()));
    assert!(listed.contains(&old_line) && listed.contains(&orphan_line), "{listed}");
    assert!(listed.ends_with("to be removed: directories 2, bytes 5\n"), "{listed}");
    assert_eq!(files_below(&home.path("out")), before);
    assert!(orphan.exists());
    assert_eq!(clean(&[]), serde_json::json!({ "offloads": 1, "orphans": 1, "bytes": 5, "left": 1 }));
    assert!(Path::new(&young).exists() && !old.exists() && !orphan.exists());
    let cleaned = clean(&["--all"]);
    assert_eq!((&cleaned["offloads"], &cleaned["left"]), (&1.into(), &0.into()));
    assert!(!Path::new(&young).exists() && foreign.exists());
}

#[test]
fn exit_codes_are_documented_and_kept() {
    let home = Home::new();
    let help = String::from_utf8(home.run(&["--help"], "").stdout).unwrap();
    for code in ["0  passed", "1  error", "2  usage", "3  rejected", "MCP_LRO_THRESHOLD", "--limits-wall-time-ms"] {
        assert!(help.contains(code), "{code}");
    }
    for subcommand in
        [&["offload"][..], &["inspect"], &["policy", "check"], &["policy", "run"], &["clean"], &["config"]]
    {
        let help = home.run(&[subcommand, &["--help"]].concat(), "").stdout;
        assert!(String::from_utf8(help).unwrap().contains("Examples:"), "{subcommand:?}");
    }
    assert_eq!(home.run(&["offload", "--no-such-flag"], "").status.code(), Some(2));
    assert_eq!(home.run(&["offload", "--level", "loud"], "").status.code(), Some(2));
    let missing = home.run(&["offload", "a\u{1b}b"], "");
    assert_eq!((missing.status.code(), missing.stdout.len()), (Some(1), 0));
    assert!(stderr(&missing).contains("`a\u{fffd}b`: No such file"), "{missing:?}");
    let huge = home.path("huge");
    fs::File::create(&huge).unwrap().set_len((4 << 30) + 1).unwrap();
    let huge = home.run(&["offload", huge.to_str().unwrap()], "");
    assert!(huge.status.code() == Some(1) && stderr(&huge).contains("larger than 4294967296 bytes"), "{huge:?}");
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let home = Home::new();
    let input = home.file("large", "x".repeat(4 << 20));
    let mut command = home.lro(&["offload", "--mode", "never", input.to_str().unwrap()]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
}

#[test]
fn progress_is_shown_on_a_terminal_only() {
    let home = Home::new();
    let input = home.file("large", format!("{}\n", "x".repeat(99)).repeat(200_000));
    let arguments = ["offload", input.to_str().unwrap()];
    let output = home.run(&arguments, "");
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    let line = format!("{} {} > {}", env!("CARGO_BIN_EXE_lro"), arguments.join(" "), home.path("reply").display());
    let mut terminal = home.command("script");
    let shown = run(terminal.env("TERM", "xterm").args(["-qec", &line, "/dev/null"]), "").stdout;
    assert!(String::from_utf8_lossy(&shown).contains("reading"), "{}", String::from_utf8_lossy(&shown));
}

#[test]
fn command_and_library_write_the_same_records() {
    // row 18
    let home = Home::new();
    let input = rows(3000);
    let report = home.report(&[], &input);
    let records = |path: &Path| {
        let text = fs::read_to_string(path).unwrap();
        text.split_once('\n').unwrap().1.to_owned()
    };
    let by_command = records(Path::new(report["files"][0]["path"].as_str().unwrap()));
    assert_eq!(by_command.lines().count(), 3000);

    let sandbox = Sandbox::new().unwrap();
    let filter = Filter {
        policy: Policy::from_bytes(&sandbox, DEFAULT_POLICY, &LoadOptions::default()).unwrap(),
        store: Ok(Store::open(StoreConfig::new(home.path("library"))).unwrap()),
        limits: Limits::default(),
        failure: FailureMode::Closed,
    };
    let payload = Arc::new(Payload::new(vec![Part::text(PartKind::Text, input.into()).unwrap()]));
    let request = Request::new("default", "offload");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
    let waiting = runtime.block_on(filter.apply_async(request.clone(), Arc::clone(&payload)));
    for decision in [filter.apply(&request, &payload), waiting] {
        let Outcome::Offload(offloaded) = decision.outcome else { panic!("not offloaded: {:?}", decision.failure) };
        let file = &offloaded.offload.record().files[0];
        assert_eq!(records(&offloaded.offload.path().join(&file.name)), by_command);
    }
}

#[test]
fn what_does_not_pass_is_logged_with_tool_size_and_limit() {
    // row 46
    let home = Home::new();
    let input = rows(3000);
    let logged = |arguments: &[&str]| stderr(&home.run(&[&["offload", "--log", "warn"], arguments].concat(), &input));
    let text = logged(&["--tool", "search"]);
    for fact in [r#"tool="search""#, &format!("bytes={}", input.len()), "limit=50000", r#"verdict="offload""#] {
        assert!(text.contains(fact), "{fact} is not in {text}");
    }
    assert_eq!(logged(&["--threshold", "1000000"]), "");
}

//! The command `lro`, run as people and scripts run it.
#![expect(clippy::unwrap_used, reason = "in helpers of tests too, a failure is to end the test")]

mod support;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use lro_host::compose::READER;
use lro_host::documents::DOCUMENT_COMPONENT;
use lro_host::extract::{EXTRACT_COMPONENT, SQL_COMPONENT};
use lro_host::filter::{Filter, Outcome, Request};
use lro_host::policy::{DEFAULT_POLICY, LoadOptions, Policy};
use lro_host::sandbox::{Limits, Part, PartKind, Payload, Sandbox};
use lro_host::settings::FailureMode;
use lro_host::store::{Store, StoreConfig};
use serde_json::Value;
use support::{Home, stderr};

impl Home {
    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.path(name), content).unwrap();
        self.path(name)
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

    /// Offloads whatever the size, and gives the handle.
    fn offload(&self, arguments: &[&str], input: impl AsRef<[u8]>) -> String {
        self.report(&[&["--mode", "always"], arguments].concat(), input)["id"].as_str().unwrap().to_owned()
    }

    /// What a command prints that has nothing to add.
    fn prints(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments, "");
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{arguments:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The results of a question.
    fn ask(&self, arguments: &[&str]) -> Vec<Value> {
        let lines = self.prints(&[&["extract"], arguments].concat());
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The ids of the records that satisfy conditions.
    fn ids(&self, handle: &str, conditions: &[&str]) -> Vec<u64> {
        let conditions = conditions.iter().flat_map(|condition| ["--where", condition]).collect::<Vec<_>>();
        let found = self.ask(&[&[handle, "--select", "id", "--limit", "1000"], &conditions[..]].concat());
        found.iter().map(|record| record["id"].as_u64().unwrap()).collect()
    }

    /// Code and message of a command that prints nothing else.
    fn fails(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = self.run(arguments, "");
        let message = stderr(&output);
        assert!(output.stdout.is_empty() && message.starts_with("error: "), "{arguments:?}: {output:?}");
        (output.status.code(), message)
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

fn rows(count: usize) -> String {
    let rows: Vec<String> = (0..count).map(|id| format!(r#"{{"id":{id},"name":"row {id}"}}"#)).collect();
    format!("[{}]", rows.join(","))
}

/// Tickets of a service desk, with texts in upper and lower case, nulls and missing members.
fn tickets(count: u64) -> String {
    let ticket = |id: u64| {
        let status = ["open", "closed", "Open"][(id % 3) as usize];
        let note = ["", r#","note":null"#, r#","note":"urgent \"now\"""#][(id % 5 % 3) as usize];
        let score = id as f64 / 4.0;
        format!(r#"{{"id":{id},"status":"{status}","score":{score:?},"owner":{{"name":"u{}"}}{note}}}"#, id % 4)
    };
    format!(r#"{{"tickets":[{}]}}"#, (0..count).map(ticket).collect::<Vec<_>>().join(","))
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
    assert_eq!(verdict("tokens", "299", &"a".repeat(1000)), "pass");
    assert_eq!(verdict("tokens", "299", &"a".repeat(1001)), "offload");
    assert_eq!(verdict("tokens", "999", &"語".repeat(1000)), "offload");
}

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

// As DuckDB reads them: the narrowest type that keeps every value.
#[test]
fn parquet_keeps_every_value() {
    let home = Home::new();
    let records = [
        r#"{"id":1,"big":9007199254740993,"ratio":1,"name":"a\"b","ok":true,"tags":["x",{"y":1}],"mixed":1,"huge":1234567890123456789012345}"#,
        r#"{"id":-2,"big":5,"ratio":0.1,"name":"","ok":false,"tags":[],"mixed":"one","huge":12345678901234567890}"#,
        r#"{"id":3,"ratio":null,"name":"\u00e4\n","mixed":null,"only here":0.10000000000000000001}"#,
    ];
    let handle = home.offload(&[], format!("[{}]", records.join(",")));
    home.prints(&["extract", &handle, "--format", "parquet", "--output", "rows.parquet"]);
    let script = "import duckdb, json, sys\n\
        table = duckdb.sql(\"SELECT * FROM 'rows.parquet'\")\n\
        print(json.dumps({'types': [str(t) for t in table.types], 'rows': table.fetchall()}))";
    let python = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("test-data/venv/bin/python");
    let output = run(home.command(python).args(["-c", script]), "");
    let read: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let types = ["BIGINT", "BIGINT", "DOUBLE", "VARCHAR", "BOOLEAN", "JSON", "JSON", "JSON", "JSON"];
    assert_eq!(read["types"], serde_json::json!(types));
    let rows = serde_json::json!([
        [1, 9_007_199_254_740_993_i64, 1.0, "a\"b", true, "[\"x\",{\"y\":1}]", "1", "1234567890123456789012345", null],
        [-2, 5, 0.1, "", false, "[]", "\"one\"", "12345678901234567890", null],
        [3, null, null, "ä\n", null, null, null, null, "0.10000000000000000001"],
    ]);
    assert_eq!(read["rows"], rows);
    let again = home.run(&["extract", &handle, "--format", "parquet"], "").stdout;
    assert_eq!(again, fs::read(home.path("rows.parquet")).unwrap());
    let mut terminal = home.command("script");
    let line = format!("{} extract {handle} --format parquet", env!("CARGO_BIN_EXE_lro"));
    let refused = run(terminal.env("TERM", "xterm").args(["-qec", &line, "/dev/null"]), "");
    assert!(String::from_utf8_lossy(&refused.stdout).contains("not for a terminal"), "{refused:?}");
}

// Compiling it costs more than answering, and most people ask otherwise.
#[test]
fn the_component_for_sql_is_compiled_at_the_first_query_in_sql() {
    let home = Home::new();
    let handle = home.offload(&[], rows(3));
    let compiled_after = |arguments: &[&str]| {
        let output = run(home.lro(arguments).env("XDG_CACHE_HOME", home.path("cache")), "");
        assert!(output.status.success(), "{output:?}");
        let cached = files_below(&home.path("cache"));
        cached.iter().filter(|file| file.extension().is_some_and(|kind| kind == "cwasm")).count()
    };
    assert_eq!(compiled_after(&["extract", &handle, "--where", "id > 0"]), 1);
    assert_eq!(compiled_after(&["extract", &handle, "--jq", ".id"]), 1);
    assert_eq!(compiled_after(&["sql", &handle, "SELECT id FROM t"]), 2);
}

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
    assert_eq!(report["policy"]["version"], "0.2.0");
    assert!(report["warning"].is_null() && report["error"].is_null());
    let output = home.run(&["offload", "--report", "--threshold", "1000"], rows(500));
    let message = stderr(&output);
    assert!(message.contains("offload") && message.contains("500 records") && message.contains("% saved"), "{message}");
    assert!(serde_json::from_slice::<Value>(&output.stdout).is_ok());
}

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

/// What a command prints to a terminal, with the line ends of a file.
fn on_terminal(home: &Home, arguments: &[&str]) -> String {
    let quoted = |text: &&str| format!("'{text}'");
    let words: Vec<String> = std::iter::once(&env!("CARGO_BIN_EXE_lro")).chain(arguments).map(quoted).collect();
    let mut script = home.command("script");
    script.args(["--quiet", "--return", "--command", &words.join(" "), "/dev/null"]);
    let output = run(&mut script, "");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().replace("\r\n", "\n")
}

/// A character of each kind that a terminal acts upon, as JSON may have it raw; the last one is escaped in JSON.
const RUDE: &str = "a\u{7f}b\u{9b}31mc\u{202e}d\u{2066}e\u{200f}f\\u001b[2Jg é";
const SHOWN: &str = "a\\u007fb\\u009b31mc\\u202ed\\u2066e\\u200ff\\u001b[2Jg é";

// Data reaches a pipe as it is, and a terminal without what that would act upon.
#[test]
fn a_terminal_gets_no_control_characters() {
    let home = Home::new();
    let rows = format!("[{{\"id\":1,\"text\":\"{RUDE}\"}},{{\"id\":2,\"text\":\"plain\"}}]");
    let handle = home.offload(&[], &rows);
    let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let file = home.file("rows.json", &rows);
    let (first, file) = (rows[1..].split_once(",{").unwrap().0, file.to_str().unwrap());
    for arguments in [
        &["read", &handle][..],
        &["read", &handle, "--format", "json"],
        &["extract", &handle, "--limit", "1"],
        &["extract", &handle, "--format", "json"],
        &["extract", &handle, "--offload-answer"],
        &["offload", file],
        &["offload", "--json", file],
        &["offload", "--mode", "always", "--level", "full", file],
        &["policy", "run", "--json", file],
    ] {
        let (piped, shown) = (home.run(arguments, "").stdout, on_terminal(&home, arguments));
        let piped = String::from_utf8(piped).unwrap();
        assert!(
            !shown.contains(|c: char| c.is_control() && c != '\n' || "\u{202e}\u{2066}\u{200f}".contains(c)),
            "{shown:?}"
        );
        if arguments[0] == "read" && arguments.len() == 2 {
            assert!(
                piped.starts_with(&format!("{first}\n")) && shown.starts_with(&first.replace(RUDE, SHOWN)),
                "{shown}"
            );
            assert_eq!(value(shown.lines().next().unwrap()), value(first));
        } else if arguments == ["offload", file] {
            assert_eq!((piped.as_str(), value(&shown)), (rows.as_str(), value(&rows)));
        } else {
            value(shown.lines().next().unwrap());
        }
    }
    let is_safe = |shown: &str| shown.contains("\\u001b[2J") && !shown.contains(|c: char| c.is_control() && c != '\n');
    for format in ["table", "markdown"] {
        let table = ["extract", &handle, "--format", format];
        for shown in [home.prints(&table), on_terminal(&home, &table)] {
            let cells = shown.replace(&SHOWN[..30], "");
            assert!(cells.len() < shown.len() && !shown.contains(|c: char| c.is_control() && c != '\n'), "{shown:?}");
        }
    }
    // A pipe gets the text itself.
    let csv = ["extract", &handle, "--format", "csv"];
    let (piped, shown) = (home.prints(&csv), on_terminal(&home, &csv));
    assert_eq!(piped, format!("id,text\n1,{}\n2,plain\n", RUDE.replace("\\u001b", "\u{1b}")));
    assert!(is_safe(&shown), "{shown:?}");
    // Text that is no JSON, with bytes that are no text.
    let raw = b"one\x1b[31m\rtwo\r\n\x9bthree\tfour\n";
    let file = home.file("raw.txt", raw);
    let arguments = ["offload", file.to_str().unwrap()];
    assert_eq!(home.run(&arguments, "").stdout, raw);
    assert_eq!(on_terminal(&home, &arguments), "one\\u001b[31m\ntwo\n\u{fffd}three\tfour\n");
}

#[test]
fn a_rejection_advises_and_has_an_exit_code() {
    let home = Home::new();
    let arguments = ["offload", "--action", "reject", "--threshold", "10", "--advice", "ask \u{1b}[31mfor less"];
    let output = home.run(&arguments, "x".repeat(11));
    assert_eq!((output.status.code(), output.stdout.len()), (Some(3), 0));
    assert_eq!(stderr(&output), "ask \\u001b[31mfor less\n");
    let output = home.run(&arguments, tool_result("more than ten", false));
    let reply: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &reply["isError"]), (Some(3), &true.into()));
}

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
        (home.file("version.wasm", renamed("lro-filter@0.2.0", "lro-filter@9.9.9")), "lro:filter@9.9.9"),
        (home.file("empty.wasm", b""), "not a WebAssembly component"),
        (home.file("text.wasm", b"hello\n"), "not a WebAssembly component: it does not begin as a WebAssembly file\n"),
        (
            home.file("import.wasm", renamed("wasi:filesystem/types@", "wasi:filesystem/typos@")),
            "wasi:cli/environment, ",
        ),
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
    assert_eq!((&found["world"], &found["version"]), (&"lro-policy".into(), &"0.2.0".into()));
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
        // A full disk, as one process sees it: no file may have more bytes, of which the code of the policy needs some.
        let mut full = home.command("prlimit");
        full.arg("--fsize=65536").arg(env!("CARGO_BIN_EXE_lro")).args(arguments);
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
    let orphan_listed = serde_json::json!({ "path": orphan, "expired": false, "bytes": 4096 });
    // A block for the file, its inode, and the directory.
    let old_listed = serde_json::json!({ "path": old, "expired": true, "bytes": 3 * 4096 });
    assert_eq!(clean(&["--dry-run"]), serde_json::json!([orphan_listed, old_listed]));
    assert_eq!(clean(&["--dry-run", "--all"]).as_array().unwrap().len(), 3);
    let listed = String::from_utf8(home.run(&["clean", "--dry-run"], "").stdout).unwrap();
    let (old_line, orphan_line) =
        (format!("offload {}: 12288 bytes", old.display()), format!("orphan {}:", orphan.display()));
    assert!(listed.contains(&old_line) && listed.contains(&orphan_line), "{listed}");
    assert!(listed.ends_with("to be removed: directories 2, bytes 16384\n"), "{listed}");
    assert_eq!(files_below(&home.path("out")), before);
    assert!(orphan.exists());
    assert_eq!(clean(&[]), serde_json::json!({ "offloads": 1, "orphans": 1, "bytes": 16384, "left": 1 }));
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
    for subcommand in [
        &["offload"][..],
        &["inspect"],
        &["extract"],
        &["read"],
        &["collect"],
        &["gateway"],
        &["policy"],
        &["policy", "check"],
        &["policy", "run"],
        &["clean"],
        &["config"],
    ] {
        let help = home.run(&[subcommand, &["--help"]].concat(), "").stdout;
        let help = String::from_utf8(help).unwrap();
        assert!(help.contains("Examples:"), "{subcommand:?}");
        assert!(help.contains("`lro --help` lists the settings"), "{subcommand:?}: {help}");
        assert!(
            !help.contains("--limits-wall-time-ms"),
            "the settings are in the way of the options of {subcommand:?}"
        );
    }
    // It is wrapped as the terminal is wide: every line is about full.
    for (subcommand, beginning) in [("extract", "A field is"), ("sql", "Tables are"), ("hook", "It always ends")] {
        let help = home.prints(&[subcommand, "-h"]);
        let paragraph = help.split("\n\n").find(|paragraph| paragraph.starts_with(beginning)).unwrap();
        let short = paragraph.lines().filter(|line| line.len() < 75).count();
        assert!(short <= 1, "more than the last line: {paragraph}");
    }
    assert_eq!(home.run(&["offload", "--no-such-flag"], "").status.code(), Some(2));
    assert_eq!(home.run(&["offload", "--level", "loud"], "").status.code(), Some(2));
    let missing = home.run(&["offload", "a\u{1b}b"], "");
    assert_eq!((missing.status.code(), missing.stdout.len()), (Some(1), 0));
    assert!(stderr(&missing).contains("`a\\u001bb`: No such file"), "{missing:?}");
    let huge = home.path("huge");
    fs::File::create(&huge).unwrap().set_len((4 << 30) + 1).unwrap();
    let huge = home.run(&["offload", huge.to_str().unwrap()], "");
    assert!(huge.status.code() == Some(1) && stderr(&huge).contains("larger than 4294967296 bytes"), "{huge:?}");
}

// A server behind HTTP is started with the first request: a gateway that waits for that looks well.
#[test]
fn a_server_that_is_not_there_is_said_before_the_gateway_listens() {
    let home = Home::new();
    for server in ["no-such-server", "./no-such-server", "/no/such/server"] {
        let mut command = home.command("timeout");
        command.args(["60", env!("CARGO_BIN_EXE_lro"), "gateway", "--listen", "127.0.0.1:0", "--", server]);
        let output = run(&mut command, "");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(stderr(&output).starts_with(&format!("error: the server `{server}` cannot be found: ")), "{output:?}");
    }
}

#[test]
fn a_misspelt_option_is_not_the_server() {
    let home = Home::new();
    for (command, more) in [("gateway", &[][..]), ("collect", &["--tool", "list"]), ("doctor", &[])] {
        let (code, message) = home.fails(&[&[command], more, &["--treshold", "5", "--", "no-such-server"]].concat());
        assert_eq!(code, Some(2), "{command}: {message}");
        assert!(message.contains("'--treshold'") && message.contains("'--threshold'"), "{command}: {message}");
        // The options of a server stay its own, with `--` before it and without.
        for server in [&["--", "no-such-server", "--treshold"][..], &["no-such-server", "--treshold"]] {
            let (code, message) = home.fails(&[&[command], more, server].concat());
            assert!(code == Some(1) && message.contains("no-such-server"), "{command}: {message}");
        }
    }
}

#[test]
fn an_error_of_the_configuration_leads_on() {
    let home = Home::new();
    let listen = home.fails(&["serve", "--listen", "localhost:8808"]);
    assert!(listen.0 == Some(2) && listen.1.contains("such as 127.0.0.1:8080"), "{listen:?}");
    assert!(listen.1.contains("hint: `lro --help`"), "{listen:?}");
    home.file("lro.toml", "[gateway.tokens]\nacme = \"env:NO_SUCH_VARIABLE\"\n");
    let token = home.fails(&["gateway", "--config", "lro.toml", "--check-config"]);
    assert!(token.0 == Some(2) && token.1.contains("NO_SUCH_VARIABLE"), "{token:?}");
    let file = home.fails(&["config", "--config", "nowhere.toml"]);
    assert!(file.0 == Some(2) && file.1.contains("nowhere.toml"), "{file:?}");
    for (_, message) in [token, file] {
        assert!(!message.contains("lists the settings"), "{message}");
    }
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
        slot: Policy::from_bytes(&sandbox, DEFAULT_POLICY, &LoadOptions::default()).unwrap().into(),
        store: Ok(Store::open(StoreConfig::new(home.path("library"))).unwrap()),
        limits: Limits::default(),
        failure: FailureMode::Closed,
        documents: None,
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
    let home = Home::new();
    let input = rows(3000);
    let logged = |arguments: &[&str]| stderr(&home.run(&[&["offload", "--log", "warn"], arguments].concat(), &input));
    let text = logged(&["--tool", "search"]);
    for fact in [r#"tool="search""#, &format!("bytes={}", input.len()), "limit=50000", r#"verdict="offload""#] {
        assert!(text.contains(fact), "{fact} is not in {text}");
    }
    assert_eq!(logged(&["--threshold", "1000000"]), "");
}

/// Conditions that say the same, and whether they hold for an id.
type Spellings = (&'static [&'static str], fn(u64) -> bool);

#[test]
fn every_operator_has_its_spellings() {
    let home = Home::new();
    let handle = home.offload(&[], tickets(100));
    let holds = |test: fn(u64) -> bool| (0..100).filter(|id| test(*id)).collect::<Vec<_>>();
    let cases: [Spellings; 12] = [
        (&["id eq 7", "id = 7", "id == 7", "/id eq 7.0", "  id   eq   7  "], |id| id == 7),
        (&["status ne open", "status != open", "status <> \"open\""], |id| id % 3 != 0),
        (&["score lt 2.5", "score < 2.5"], |id| id < 10),
        (&["score le 2.5", "score <= 25e-1"], |id| id <= 10),
        (&["id gt 97", "id > 97"], |id| id > 97),
        (&["id ge 97", "id >= 97"], |id| id >= 97),
        (&["owner.name in [\"u1\", \"u2\"]"], |id| matches!(id % 4, 1 | 2)),
        (&["status contains pen"], |id| id % 3 != 1),
        (&["status starts-with op", "status starts_with op"], |id| id % 3 == 0),
        (&["status matches ^[oO]p.n$"], |id| id % 3 != 1),
        (&["note exists"], |id| id % 5 % 3 != 0),
        (&["note is-null", "note is_null", "note eq null"], |id| id % 5 % 3 == 1),
    ];
    for (spellings, test) in cases {
        for spelling in spellings {
            assert_eq!(home.ids(&handle, &[spelling]), holds(test), "{spelling}");
        }
    }
    // A value with spaces and quotes is a text, and nothing in it is read as more of the condition.
    assert_eq!(home.ids(&handle, &["note eq urgent \"now\""]), holds(|id| id % 5 % 3 == 2));
    for text in ["status eq open\" or \"1", "\"status\" ends with pen and more"] {
        let output = home.run(&["extract", &handle, "--where", text], "");
        assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
        assert!(stderr(&output).starts_with("note: compared with the one text"), "{output:?}");
    }
    assert_eq!(home.ids(&handle, &["status eq closed", "id lt 5"]), [1, 4]);
    for spelling in ["status == \"closed\" and id < 5", "not (status != 'closed' or id >= 5)", "id in (1, 4)"] {
        assert_eq!(home.ids(&handle, &[spelling]), [1, 4], "{spelling}");
    }
    let either =
        r#"{"any": [{"field": "id", "op": "lt", "value": 2}, {"not": {"field": "score", "op": "<", "value": 24.5}}]}"#;
    assert_eq!(home.ids(&handle, &[either]), [0, 1, 98, 99]);
    assert_eq!(home.ids(&handle, &[either, "id ge 1"]), [1, 98, 99]);
    let count = |more: &[&str]| home.ask(&[&[&handle, "--count"], more].concat())[0]["count"].clone();
    assert_eq!(count(&["--where", "status eq OPEN"]), 0);
    assert_eq!(count(&["--where", "status eq OPEN", "-i"]), 67);
    // A condition as JSON says so itself.
    let json = r#"{"field": "status", "op": "eq", "value": "OPEN"}"#;
    assert_eq!(count(&["--where", json, "-i"]), 0);
    assert_eq!(count(&["--where", "status == 'OPEN' and id >= 0", "-i"]), 67);
    assert_eq!(count(&["--where", &json.replace('}', ", \"ignore_case\": true}")]), 67);
}

// What a question was taken to mean is said where it is not what it says.
#[test]
fn notes_go_to_standard_error() {
    let home = Home::new();
    let handle = home.offload(&[], tickets(100));
    let ask = |condition: &str| {
        let output = home.run(&["extract", &handle, "--count", "--where", condition], "");
        (String::from_utf8(output.stdout.clone()).unwrap(), stderr(&output))
    };
    let converted = ask("id == '7'");
    assert_eq!(
        converted,
        ("{\"count\":1}\n".to_owned(), "note: `id` holds numbers: compared with 7 as a number\n".to_owned())
    );
    let (found, note) = ask("status eq open and id < 5");
    assert_eq!(found, "{\"count\":0}\n");
    assert!(note.starts_with("note: compared with the one text \"open and id < 5\""), "{note}");
    assert_eq!(ask("status eq open"), ("{\"count\":34}\n".to_owned(), String::new()));
}

#[test]
fn results_are_selected_sorted_grouped_and_counted() {
    let home = Home::new();
    let handle = home.offload(&[], tickets(100));
    let prints = |more: &[&str]| home.prints(&[&["extract", &handle], more].concat());
    let some = ["--where", "id in [3, 5, 8]", "--select", "owner.name=who,score", "--sort=-owner.name,id"];
    let (five, three, eight) =
        ("{\"who\":\"u1\",\"score\":1.25}\n", "{\"who\":\"u3\",\"score\":0.75}\n", "{\"who\":\"u0\",\"score\":2.0}\n");
    assert_eq!(prints(&some), [three, five, eight].concat());
    for sort in ["-score", "score desc"] {
        assert_eq!(prints(&[&some[..4], &["--sort", sort]].concat()), [eight, five, three].concat());
    }
    assert_eq!(prints(&[&some[..], &["--offset", "1"]].concat()), [five, eight].concat());
    assert_eq!(prints(&["--select", "status", "--distinct", "--count"]), "{\"count\":3}\n");
    assert_eq!(prints(&["--count"]), "{\"count\":100}\n");

    let groups =
        ["--group-by", "status=state", "--aggregate", "count,max:id=last,avg:score,sum:id", "--sort=-count,last"];
    let rows = home.ask(&[&[handle.as_str()], &groups[..]].concat());
    let row = |state: &str, count: u64, first: u64| {
        let last = first + 3 * (count - 1);
        let sum = count * (first + last) / 2;
        serde_json::json!({
            "state": state, "count": count, "last": last, "avg_score": sum as f64 / 4.0 / count as f64, "sum_id": sum,
        })
    };
    assert_eq!(rows, [row("open", 34, 0), row("closed", 33, 1), row("Open", 33, 2)]);
    assert_eq!(prints(&["--aggregate", "min:score"]), "{\"min_score\":0.0}\n");

    let sample = prints(&["--sample", "7", "--select", "id"]);
    assert_eq!((sample.lines().count(), &sample), (7, &prints(&["--sample", "7", "--select", "id"])));

    let json = r#"{"where": {"field": "id", "op": "ge", "value": 90}, "select": ["id"], "sort": [{"field": "id", "descending": true}]}"#;
    assert_eq!(prints(&["--json-query", json, "--offset", "8"]), "{\"id\":91}\n{\"id\":90}\n");
}

#[test]
fn a_jq_program_runs_once_a_record_or_once() {
    let home = Home::new();
    let handle = home.offload(&[], tickets(100));
    let prints = |more: &[&str]| home.prints(&[&["extract", &handle, "--jq"], more].concat());
    let program = "select(.score > $least and .owner.name == $who) | .id";
    assert_eq!(prints(&[program, "--arg", "least=23.5", "--arg", "who=u3"]), "95\n99\n");
    // A value is a value, whatever is in it.
    assert_eq!(prints(&[program, "--arg", "least=0", "--arg", "who=u3\" or true"]), "");
    assert_eq!(
        prints(&["map(.id) | add / length, $more.a[0]", "--slurp", "--arg", "more={\"a\":[1e2]}"]),
        "49.5\n1e2\n"
    );

    let failing = home.run(&["extract", &handle, "--jq", "if .id > 97 then error(\"no \\(.id)\") else empty end"], "");
    assert_eq!((failing.status.code(), failing.stdout.len()), (Some(0), 0));
    assert_eq!(stderr(&failing), "warning: the program failed on 2 of 100 records, first on record 98: no 98\n");
    let (code, message) = home.fails(&["extract", &handle, "--jq", ".id | keys"]);
    assert!(code == Some(1) && message.contains("failed on all 100 records; on record 0: "), "{message}");
}

#[test]
fn recipes_are_listed_and_run() {
    let home = Home::new();
    let handle = home.offload(&[], tickets(100));
    let listed: Vec<Value> = home
        .prints(&["extract", &handle, "--recipes"])
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let table = home.prints(&["extract", &handle, "--recipes", "--format", "table"]);
    assert!(listed.len() >= 5 && table.lines().count() == listed.len(), "{table}");
    for recipe in &listed {
        let name = recipe["name"].as_str().unwrap();
        assert!(
            table.contains(&format!("{name} ")) && table.contains(recipe["description"].as_str().unwrap()),
            "{table}"
        );
        let output = home.run(&["extract", &handle, "--recipe", name], "");
        assert!(output.status.success() && !output.stdout.is_empty(), "{name}: {output:?}");
    }
    let parameter = |recipe: &&Value| recipe["query"]["where"][0]["field"] == "status";
    let recipe = listed.iter().find(parameter).unwrap();
    let (name, parameter) =
        (recipe["name"].as_str().unwrap(), recipe["query"]["where"][0]["parameter"].as_str().unwrap());
    let run = |value: &str, more: &[&str]| {
        let value = format!("{parameter}={value}");
        home.ask(&[&[&handle, "--recipe", name, "--param", &value], more].concat())
    };
    assert!(run("closed", &[]).iter().all(|record| record["status"] == "closed"));
    assert_eq!(run("closed", &["--limit", "2", "--offset", "31"])[1]["id"], 97);
    assert!(run("closed\" or true", &[]).is_empty());
    for (more, cause) in [(&["--recipe", "none"][..], name), (&["--recipe", name, "--param", "other=1"], parameter)] {
        let (code, message) = home.fails(&[&["extract", &handle], more].concat());
        assert!(code == Some(1) && message.contains(&format!("`{cause}`")), "{message}");
    }
}

#[test]
fn an_answer_has_three_forms_and_says_what_is_left() {
    let home = Home::new();
    let handle = home.offload(&[], tickets(100));
    let ask = |more: &[&str]| {
        let output = home.run(&[&["extract", &handle], more].concat(), "");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        (String::from_utf8(output.stdout.clone()).unwrap(), stderr(&output))
    };
    let two = ["--select", "id,owner.name", "--limit", "2"];
    let (lines, left) = ask(&two);
    assert_eq!(lines, "{\"id\":0,\"owner.name\":\"u0\"}\n{\"id\":1,\"owner.name\":\"u1\"}\n");
    assert_eq!(left, "2 of 100 results; continue with --offset 2, or raise --limit\n");
    assert_eq!(ask(&[&two[..], &["--format", "table"]].concat()).0, "id  owner.name\n0   u0\n1   u1\n");
    let json: Value =
        serde_json::from_str(&ask(&[&two[..], &["--format", "json", "--offset", "1"]].concat()).0).unwrap();
    assert_eq!(json["results"][1], serde_json::json!({ "id": 2, "owner.name": "u2" }));
    let numbers = ["offset", "total", "left", "matched", "examined"].map(|key| json[key].as_u64().unwrap());
    assert_eq!((numbers, &json["cut"]), ([1, 100, 97, 100, 100], &"limit".into()));
    assert_eq!(ask(&["--offset", "98", "--select", "id"]), ("{\"id\":98}\n{\"id\":99}\n".to_owned(), String::new()));

    let tight = ["--query-answer-bytes", "20"];
    let (lines, left) = ask(&[&tight[..], &["--select", "id"]].concat());
    assert_eq!(lines, "{\"id\":0}\n{\"id\":1}\n");
    assert!(left.starts_with("2 of 100 results fit") && left.contains("--offset 2,"), "{left}");
    let (_, left) = ask(&[&tight[..], &["--jq", ".id"]].concat());
    assert!(left.starts_with("10 of 100 results fit") && left.contains("--offset 10,"), "{left}");
    assert_eq!(ask(&["--jq", ".id", "--limit", "2", "--offset", "98"]), ("98\n99\n".to_owned(), String::new()));
    let (lines, left) = ask(&tight);
    assert!(lines.is_empty() && left.starts_with("warning: the next of 100 results alone has "), "{left}");
    assert!(left.contains("--query-answer-bytes"), "{left}");
}

#[test]
fn an_invalid_query_is_a_usage_error() {
    let home = Home::new();
    let handle = home.offload(&[], tickets(10));
    let usage: [(&[&str], &str); 23] = [
        (&["--where", "id"], "FIELD OPERATOR VALUE"),
        (&["--where", "id like 1"], "starts_with"),
        (&["--where", "{\"field\": \"id\"}"], "\"op\""),
        (&["--where", "{\"field\": "], "EOF"),
        (&["--where", "id lt"], "value"),
        (&["--where", "id in 3"], "array"),
        (&["--where", "id matches ("], "regular expression"),
        (&["--json-query", "{\"were\": []}"], "`where`"),
        (&["--json-query", "{\"where\": [1]}"], "expected a condition"),
        (&["--json-query", "3"], "expected a query"),
        (&["--json-query", "{\"limit\""], "EOF"),
        (&["--aggregate", "median:id"], "`avg`"),
        (&["--sort=-id desc"], "not both"),
        (&["--json-query", "{\"sort\": [{\"desc\": true}]}"], "`sort[0]`"),
        (&["--aggregate", "sum"], "field"),
        (&["--limit", "0"], "1..="),
        (&["--jq", ".id |"], "byte 5"),
        (&["--jq", ".id", "--arg", "least"], "NAME=VALUE"),
        (&["--jq", ".id", "--arg", "1st=1"], "1st"),
        (&["--arg", "a=1"], "--jq"),
        (&["--param", "a=1"], "--recipe"),
        // What would be ignored is not accepted.
        (&["--jq", ".id", "--where", "id eq 1"], "--where"),
        (&["--recipe", "tickets_first", "--count"], "--count"),
    ];
    for (arguments, cause) in usage {
        let (code, message) = home.fails(&[&["extract", &handle], arguments].concat());
        assert!(code == Some(2) && message.contains(cause), "{arguments:?}: {code:?} {message}");
    }
    // Only the data shows that these are wrong.
    for (arguments, cause) in [(["--where", "Status eq open"], "`status`"), (["--section", "other"], "`tickets`")] {
        let (code, message) = home.fails(&[&["extract", &handle], &arguments[..]].concat());
        assert!(code == Some(1) && message.contains(cause), "{message}");
    }
}

#[test]
fn an_offload_is_named_by_handle_directory_or_file() {
    let home = Home::new();
    let (first, second) = (rows(400), rows(200));
    let report = home.report(&["--mode", "always"], format!(r#"{{"users":{first},"groups":{second}}}"#));
    let (handle, directory) = (report["id"].as_str().unwrap(), report["directory"].as_str().unwrap());
    let users = file_of(&report, "users")["path"].as_str().unwrap();
    let all = "{\"count\":400}\n";
    assert_eq!(home.prints(&["extract", users, "--count"]), all);
    assert_eq!(
        home.prints(&[
            "extract",
            users.strip_prefix(home.0.path().to_str().unwrap()).unwrap().trim_start_matches('/'),
            "--count"
        ]),
        all
    );
    for offload in [handle, directory] {
        assert_eq!(home.prints(&["extract", offload, "--section", "users", "--count"]), all);
        for command in ["extract", "read"] {
            let (code, message) = home.fails(&[command, offload]);
            let names_all = ["users", "groups", "--section"].iter().all(|name| message.contains(name));
            assert!(code == Some(1) && names_all, "{message}");
        }
    }
    let outside = home.file("outside.jsonl", "{}\n{}\n");
    let foreign = home.path("out/other");
    fs::create_dir(&foreign).unwrap();
    let cases: [(&[&str], &str); 9] = [
        (&["nonsense"], "neither a handle nor the path"),
        (&[outside.to_str().unwrap()], "is not in"),
        (&["out/../outside.jsonl"], "is not in"),
        (&["out"], "neither a handle nor the path"),
        (&["out/default"], "neither a handle nor the path"),
        (&[directory, "--tenant", "other"], "tenant `other`"),
        (&[handle, "--tenant", "other"], "tenant `other`"),
        (&["7ZZZZZZZZZ0000000000000000"], "there is no offload"),
        (&["00000000010000000000000000"], "has expired"),
    ];
    for (arguments, cause) in cases {
        for command in ["extract", "read"] {
            let (code, message) = home.fails(&[&[command], arguments].concat());
            assert!(code == Some(1) && message.contains(cause), "{command} {arguments:?}: {message}");
        }
    }
    let own = home.report(&["--mode", "always", "--tenant", "a/b"], rows(3));
    assert_eq!(
        home.prints(&["extract", own["directory"].as_str().unwrap(), "--tenant", "a/b", "--count"]),
        "{\"count\":3}\n"
    );
    let text = home.offload(&["--as", "text"], "one\ntwo\n");
    assert!(home.fails(&["extract", &text, "--count"]).1.contains("no records to query"));
}

#[test]
fn texts_and_records_are_searched() {
    let home = Home::new();
    let guide: String =
        (1..=300).map(|part| format!("## Part {part}\n\nSet option {part}.\nTimeout after {part} s.\n")).collect();
    let text = home.offload(&["--as", "text"], format!("# Guide\n{guide}"));
    let found = home.ask(&[&text, "--search", "TIMEOUT AFTER 77 S", "-i", "-C", "1"]);
    let place = serde_json::json!(["Guide", "Part 77"]);
    assert_eq!((&found[0]["line"], &found[0]["where"], found.len()), (&309.into(), &place, 1));
    assert_eq!((&found[0]["before"][0], &found[0]["after"][0]), (&"Set option 77.".into(), &"## Part 78".into()));
    let numbers = |arguments: &[&str]| -> Vec<u64> {
        let found = home.ask(&[&[text.as_str()], arguments].concat());
        found.iter().map(|line| line["line"].as_u64().unwrap()).collect()
    };
    assert_eq!(numbers(&["--search", "^Timeout.* 2?31 s", "--regex"]), [125, 925]);
    assert_eq!(numbers(&["--search", "299 option", "--words"]), [1196]);
    assert_eq!(numbers(&["--search", "-1", "--limit", "1"]), [] as [u64; 0]);
    assert_eq!(numbers(&["--lines", "10:12"]), [10, 11, 12]);
    assert_eq!(numbers(&["--lines", "-2:"]), [1200, 1201]);
    assert_eq!(numbers(&["--lines", "7"]), [7]);
    assert_eq!(home.prints(&["extract", &text, "--search", "option", "--count"]), "{\"count\":300}\n");

    let page = home.run(&["extract", &text, "--search", "option", "--limit", "2", "--offset", "3"], "");
    assert_eq!(stderr(&page), "2 of 300 results; continue with --offset 5, or raise --limit\n");
    assert_eq!(page.stdout.iter().filter(|byte| **byte == b'\n').count(), 2);
    let cut = home.run(&["extract", &text, "--lines", "5:", "--query-answer-bytes", "100"], "");
    let next = "3 of 1197 results fit in the answer; continue with --lines 8:-1, ";
    assert!(stderr(&cut).starts_with(next), "{}", stderr(&cut));
    let ranked = ["--search", "what is the timeout of part 77", "--rank", "--limit", "1", "--format", "table"];
    let table = home.run(&[&["extract", text.as_str()], &ranked[..]].concat(), "").stdout;
    let table = String::from_utf8(table).unwrap();
    assert!(table.starts_with("line  text") && table.contains("Part 77"), "{table}");

    let records = home.offload(&[], tickets(100));
    let found = home.ask(&[&records, "--search", "urgent \"now\"", "--limit", "100"]);
    assert_eq!((&found[0]["line"], &found[0]["where"]), (&3.into(), &serde_json::json!(["/note"])));

    let usage: [(&[&str], &str); 7] = [
        (&["--search", "a(b", "--regex"], "error: invalid search: \"a(b\" is not a regular expression"),
        (&["--search", ""], "error: invalid search: "),
        (&["--search", "x", "--where", "id eq 1"], "cannot be used with"),
        (&["--search", "x", "--jq", "."], "cannot be used with"),
        (&["--regex"], "--search"),
        (&["--lines", "a:b"], "FROM:TO"),
        (&["--lines", "0:3"], "counted from 1"),
    ];
    for (arguments, cause) in usage {
        let (code, message) = home.fails(&[&["extract", &text], arguments].concat());
        assert!(code == Some(2) && message.contains(cause), "{arguments:?}: {message}");
    }
    assert!(home.fails(&["extract", &text, "--count"]).1.contains("--search"));
}

/// The rows of CSV as Python's module reads them, as JSON.
fn read_csv(home: &Home, csv: &str) -> Value {
    let program =
        "import csv, io, json, sys; print(json.dumps(list(csv.reader(io.StringIO(sys.stdin.read(), newline='')))))";
    let output = run(home.command("python3").args(["-c", program]), csv);
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn an_answer_is_written_as_csv() {
    let home = Home::new();
    let rows = r#"[{"id":1,"text":"a, \"b\"\nc\r\n"},{"text":"","more":{"x":[1, 2.50]}},{"id":12345678901234567890,"text":null},
        {"x,y":"  padded","id":"007","text":"#.to_owned()
        + "\"|<b>\\\\\"}]";
    let handle = home.offload(&[], &rows);
    let csv = home.prints(&["extract", &handle, "--format", "csv"]);
    let header = csv.lines().next().unwrap();
    assert_eq!(header, r#"id,text,more,"x,y""#, "the fields of all rows in the order of appearance");
    let expected = serde_json::json!([
        ["id", "text", "more", "x,y"],
        ["1", "a, \"b\"\nc\r\n", "", ""],
        ["", "", r#"{"x":[1,2.50]}"#, ""],
        ["12345678901234567890", "", "", ""],
        ["007", "|<b>\\", "", "  padded"],
    ]);
    assert_eq!(read_csv(&home, &csv), expected, "{csv}");
    assert!(csv.contains("\n,\"\",") && csv.contains("67890,,,"), "empty is not null: {csv}");
    let jq = |program: &str| home.prints(&["extract", &handle, "--jq", program, "--format", "csv"]);
    assert_eq!(jq(".id"), "value\n1\n\"\"\n12345678901234567890\n007\n", "no row is an empty line");
    assert_eq!(jq("[.id]").lines().next_back().unwrap(), "\"[\"\"007\"\"]\"");
    assert_eq!(jq("{}"), "");
    assert_eq!(jq("empty"), "");
    let (code, message) = home.fails(&[
        "extract",
        &handle,
        "--jq",
        "[range(1001) | {key: \"k\\(.)\", value: .}] | from_entries",
        "--format",
        "csv",
    ]);
    assert!(code == Some(1) && message.contains("more than 1000 fields"), "{message}");

    let markdown = home.prints(&["extract", &handle, "--format", "markdown", "--select", "id,text"]);
    let expected = "| id | text |\n| --- | --- |\n| 1 | a, \"b\"<br>c<br> |\n|  |  |\n| 12345678901234567890 | null |\n\
                    | 007 | \\|&lt;b>\\\\ |\n";
    assert_eq!(markdown, expected);
    assert_eq!(home.prints(&["extract", &handle, "--format", "lines"]), home.prints(&["extract", &handle]));
    assert_eq!(home.run(&["read", &handle, "--format", "csv"], "").stdout, csv.as_bytes());
    let recipes = home.prints(&["extract", &handle, "--recipes", "--format", "csv"]);
    assert!(recipes.starts_with("name,description,query\n"), "{recipes}");
}

#[test]
fn any_text_survives_csv() {
    const LETTERS: [char; 11] = [',', '"', '\n', '\r', '\t', ' ', '\\', '|', 'é', '0', 'n'];
    let home = Home::new();
    // A linear congruential generator: the same texts every time.
    let mut state = 1_u64;
    let mut below = |end: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % end
    };
    let mut rows = vec![["a", "b", "c"].map(str::to_owned)];
    for _ in 0..300 {
        let mut row: [String; 3] = Default::default();
        for cell in &mut row {
            *cell = (0..below(6)).map(|_| LETTERS[below(LETTERS.len())]).collect();
        }
        rows.push(row);
    }
    let object = |[a, b, c]: &[String; 3]| serde_json::json!({"a": a, "b": b, "c": c});
    let handle = home.offload(&[], Value::from_iter(rows[1..].iter().map(object)).to_string());
    let wide = ["--limit", "300", "--query-answer-bytes", "1000000", "--query-answer-tokens", "1000000"];
    let csv = home.prints(&[&["extract", &handle, "--format", "csv"], &wide[..]].concat());
    assert_eq!(read_csv(&home, &csv), serde_json::json!(rows), "{csv}");
}

/// Runs `lro extract` with more arguments, and returns the parts of the file that it asked about.
fn parts_asked(home: &Home, handle: &str, more: &[&str]) -> Vec<(u64, u64)> {
    let output = home.run(&[&["extract", handle, "--log", "debug"], more].concat(), "");
    let log = stderr(&output);
    assert!(output.status.success(), "{log}");
    let number = |line: &str, name: &str| {
        let value = line.split_once(name).unwrap().1;
        value.split(' ').next().unwrap().parse().unwrap()
    };
    let parts = log.lines().filter(|line| line.contains("asked about a part"));
    parts.map(|line| (number(line, "start="), number(line, "end="))).collect()
}

// Beyond what one answer holds, it asks about one part of the file behind the other.
#[test]
fn an_export_of_any_size_is_whole_and_reads_each_record_once() {
    const COUNT: u64 = 60_000;
    let home = Home::new();
    let text = |id: u64| format!("row {id}, {}", "\"quoted\" é ".repeat(26));
    let record = |id: u64| serde_json::json!({"id": id, "even": id.is_multiple_of(2), "text": text(id)}).to_string();
    let records: Vec<String> = (0..COUNT).map(record).collect();
    let handle = home.offload(&[], format!("[{}]", records.join(",")));
    let written = |name: &str| fs::read_to_string(home.path(name)).unwrap();

    let parts = parts_asked(&home, &handle, &["--output", "all.jsonl"]);
    assert!(written("all.jsonl").len() > 20 << 20 && written("all.jsonl").lines().eq(&records));
    assert!(parts.len() > 5 && parts.windows(2).all(|pair| pair[0].1 == pair[1].0), "{parts:?}");
    assert_eq!(home.prints(&["extract", &handle, "-o", "-"]), written("all.jsonl"), "no file is named `-`");
    assert!(!home.path("-").exists());

    home.prints(&["extract", &handle, "--format", "csv", "-o", "all.csv"]);
    let csv = written("all.csv");
    let row = |id: u64| format!("{},{id},\"{}\"", id.is_multiple_of(2), text(id).replace('"', "\"\""));
    assert!(csv.lines().eq(std::iter::once("even,id,text".to_owned()).chain((0..COUNT).map(row))));

    let some = &["--where", "even eq true", "--select", "id", "--offset", "7", "--limit", "29000", "-o", "some.jsonl"];
    home.run(&[&["extract", &handle], &some[..]].concat(), "");
    assert!(written("some.jsonl").lines().eq((7..29_007).map(|id| format!("{{\"id\":{}}}", id * 2))));
    let json = ["--where", "even eq true", "--select", "id", "--format", "json", "-o", "-"];
    let whole: Value = serde_json::from_str(&home.prints(&[&["extract", &handle], &json[..]].concat())).unwrap();
    let counts = ["total", "examined", "left"].map(|name| whole[name].as_u64().unwrap());
    assert_eq!((whole["results"].as_array().unwrap().len(), counts), (30_000, [30_000, COUNT, 0]));

    // Results that are longer than their records: parts get smaller, and what is read again stays a share of the file.
    let jq = ["--jq", "select(.even) | (.id, .text, .text, .text, .text, .text, .text, .text)", "-o", "jq.jsonl"];
    let parts = parts_asked(&home, &handle, &jq);
    let of_record = |id: u64| std::iter::once(id.to_string()).chain(vec![serde_json::to_string(&text(id)).unwrap(); 7]);
    assert!(written("jq.jsonl").lines().eq((0..COUNT).step_by(2).flat_map(of_record)));
    let read: u64 = parts.iter().map(|(start, end)| end - start).sum();
    let bytes = written("all.jsonl").len() as u64;
    assert!((bytes..4 * bytes).contains(&read), "{read} bytes read of {bytes}: {parts:?}");

    let sorted = home.fails(&["extract", &handle, "--sort=-id", "--output", "sorted.jsonl"]);
    assert!(sorted.0 == Some(1) && sorted.1.contains("set a limit") && sorted.1.contains("4194304"), "{}", sorted.1);
    assert!(!home.path("sorted.jsonl").exists());
    let first = ["--sort=-id", "--select", "id", "--limit", "2", "-o", "first.jsonl"];
    home.run(&[&["extract", &handle], &first[..]].concat(), "");
    assert_eq!(written("first.jsonl"), "{\"id\":59999}\n{\"id\":59998}\n");
    let (_, unknown) = home.fails(&["extract", &handle, "--where", "odd eq true", "-o", "none.jsonl"]);
    assert!(unknown.contains("no record has the field `odd`") && !home.path("none.jsonl").exists(), "{unknown}");
    let (_, failed) = home.fails(&["extract", &handle, "--jq", "error(\"no\")", "-o", "none.jsonl"]);
    assert!(failed.contains("failed on all 60000 records; on record 0"), "{failed}");
}

// The groups of a Parquet file are written one after the other.
#[test]
fn a_large_export_is_one_parquet_file() {
    let home = Home::new();
    // A field that only the last group has, and one whose type is known at the end.
    let record = |id: u64| match id {
        29_999 => serde_json::json!({"id": id, "text": "x".repeat(400), "late": 0.5}),
        _ => serde_json::json!({"id": id, "text": "x".repeat(400), "late": id % 3}),
    };
    let handle = home.offload(&[], Value::from_iter((0..30_000).map(record)).to_string());
    home.prints(&["extract", &handle, "--format", "parquet", "--output", "rows.parquet"]);
    let script = "import duckdb, json\n\
        print(json.dumps(duckdb.sql(\"SELECT count(*), sum(id), sum(length(text)), sum(late), max(typeof(late)) FROM 'rows.parquet'\")\
        .fetchall()[0] + duckdb.sql(\"SELECT count(DISTINCT row_group_id) > 1 FROM parquet_metadata('rows.parquet')\").fetchall()[0], default=int))";
    let python = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("test-data/venv/bin/python");
    let output = run(home.command(python).args(["-c", script]), "");
    let read: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let late = (0..29_999_u64).map(|id| id % 3).sum::<u64>() as f64 + 0.5;
    assert_eq!(read, serde_json::json!([30_000, 449_985_000, 12_000_000, late, "DOUBLE", true]));
}

#[test]
fn an_answer_goes_to_a_file() {
    let home = Home::new();
    let handle = home.offload(&[], tickets(3000));
    let write = |more: &[&str]| {
        home.run(&[&["extract", &handle, "--select", "id", "-o", "rows.csv", "--format", "csv"], more].concat(), "")
    };
    let output = write(&[]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    assert!(output.stdout.is_empty());
    let all: String = std::iter::once("id\n".to_owned()).chain((0..3000).map(|id| format!("{id}\n"))).collect();
    let written = || fs::read_to_string(home.path("rows.csv")).unwrap();
    assert_eq!(written(), all, "the limit of an answer is for readers");

    let again = write(&["--limit", "2"]);
    assert!(stderr(&again).contains("rows.csv") && stderr(&again).contains("--force"), "{again:?}");
    assert_eq!((again.status.code(), written()), (Some(1), all.clone()));
    let failed = write(&["--force", "--where", "none eq 1"]);
    assert_eq!((failed.status.code(), written()), (Some(1), all), "an error leaves the file");
    let forced = write(&["--force", "--limit", "2"]);
    assert_eq!(stderr(&forced), "2 of 3000 results; continue with --offset 2, or raise --limit\n");
    assert_eq!(written(), "id\n0\n1\n");
    // Relative, in a directory, and where there is none.
    fs::create_dir(home.path("sub")).unwrap();
    assert!(write(&["-o", "x"]).status.code() == Some(2), "one file");
    let into = |path: &str| home.run(&["extract", &handle, "--count", "--output", path], "");
    assert!(into("sub/count.jsonl").status.success());
    assert_eq!(fs::read_to_string(home.path("sub/count.jsonl")).unwrap(), "{\"count\":3000}\n");
    assert_eq!(into("nowhere/count.jsonl").status.code(), Some(1));
    assert_eq!(fs::read_dir(home.path("sub")).unwrap().count(), 1, "no other file is left");
    assert_eq!(home.fails(&["extract", &handle, "--force"]).0, Some(2));
    assert_eq!(home.fails(&["extract", &handle, "-o", "y", "--offload-answer"]).0, Some(2));
}

#[test]
fn offloading_prints_the_handle_alone() {
    let home = Home::new();
    let printed = home.run(&["offload", "--handle", "--mode", "always"], tickets(20));
    assert_eq!((printed.status.code(), stderr(&printed).as_str()), (Some(0), ""));
    let handle = String::from_utf8(printed.stdout).unwrap();
    assert_eq!(handle.trim_end().len() + 1, handle.len());
    assert_eq!(home.prints(&["extract", handle.trim_end(), "--count"]), "{\"count\":20}\n");
    for (arguments, cause) in
        [(&["--mode", "never"][..], "passed"), (&["--action", "truncate", "--threshold", "9"], "truncated")]
    {
        let none = home.run(&[&["offload", "--handle"], arguments].concat(), tickets(20));
        assert!(none.stdout.is_empty() && none.status.code() == Some(1) && stderr(&none).contains(cause), "{none:?}");
    }
    let report = home.run(&["offload", "--handle", "--report", "--mode", "always"], tickets(20));
    let handle = String::from_utf8(report.stdout.clone()).unwrap();
    assert!(stderr(&report).contains(&format!("handle   {handle}")), "{report:?}");
}

#[test]
fn an_answer_can_be_offloaded_again() {
    let home = Home::new();
    let handle = home.offload(&[], tickets(2000));
    let ask = |more: &[&str]| home.run(&[&["extract", &handle, "--offload-answer"], more].concat(), "");
    let output = ask(&["--where", "status eq open", "--select", "id"]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    let descriptor: Value = serde_json::from_slice(&output.stdout).unwrap();
    let file = descriptor["files"]["records"].as_str().unwrap();
    assert_eq!(home.prints(&["extract", file, "--count"]), "{\"count\":667}\n");
    assert_eq!(home.prints(&["extract", file, "--offset", "666"]), "{\"id\":1998}\n");
    let output = ask(&["--limit", "5"]);
    assert!(
        output.status.success() && stderr(&output).starts_with("5 of 2000 results; continue with --offset 5"),
        "{output:?}"
    );
}

/// The cursor on stderr of `lro read`.
fn cursor(output: &Output) -> Option<String> {
    let message = stderr(output);
    message.trim_end().split_once("--cursor ").map(|(_, cursor)| cursor.to_owned())
}

#[test]
fn pages_lead_to_the_end() {
    let home = Home::new();
    let input = tickets(300);
    let report = home.report(&["--mode", "always"], &input);
    let (handle, file) = (report["id"].as_str().unwrap(), file_of(&report, "tickets"));
    let written = fs::read_to_string(file["path"].as_str().unwrap()).unwrap();
    let (_, records) = written.split_once('\n').unwrap();
    let page = |more: &[&str]| home.run(&[&["read", handle], more].concat(), "");
    let mut walked = page(&["--limit", "70"]);
    let mut read = walked.stdout.clone();
    assert!(stderr(&walked).starts_with("records 0 to 69 of 300; --cursor "), "{walked:?}");
    while let Some(next) = cursor(&walked) {
        walked = page(&["--cursor", &next]);
        read.extend_from_slice(&walked.stdout);
    }
    assert_eq!(stderr(&walked), "records 280 to 299 of 300; the end\n");
    assert_eq!(String::from_utf8(read).unwrap(), records);

    let from = page(&["--from", "123", "--limit", "2", "--format", "table"]);
    assert!(String::from_utf8(from.stdout).unwrap().contains("\n124  "));
    for last in ["299", "-1"] {
        let json = home.prints(&["read", handle, "--from", last, "--format", "json"]);
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(
            (&json["records"][0]["id"], &json["total"], &json["next"]),
            (&299.into(), &300.into(), &Value::Null)
        );
    }

    let signed = cursor(&page(&["--limit", "70"])).unwrap();
    let tampered = format!("{}{}", if signed.starts_with('A') { 'B' } else { 'A' }, &signed[1..]);
    let other = home.offload(&[], tickets(300));
    let cases: [(&[&str], i32, &str); 8] = [
        (&[handle, "--cursor", &tampered], 1, "it was changed"),
        (&[handle, "--cursor", &signed[..40]], 1, "invalid cursor"),
        (&[handle, "--cursor", "?"], 1, "truncated or malformed"),
        (&[handle, "--cursor", &signed, "--limit", "71"], 1, "another size"),
        (&[&other, "--cursor", &signed], 1, "another offload"),
        (&[handle, "--from", "300"], 1, "there is no record 300"),
        (&[handle, "--section", "other"], 1, "tickets"),
        (&[handle, "--from", "1", "--cursor", &signed], 2, "--cursor"),
    ];
    for (arguments, code, cause) in cases {
        let (found, message) = home.fails(&[&["read"], arguments].concat());
        assert!(found == Some(code) && message.contains(cause), "{arguments:?}: {found:?} {message}");
    }
}

#[test]
fn pages_of_texts_bytes_and_long_records() {
    let home = Home::new();
    let text = home.offload(&["--as", "text"], "12\nzwölf\n{}\n");
    let first = home.run(&["read", &text, "--limit", "2"], "");
    assert_eq!(first.stdout, "12\nzwölf\n".as_bytes());
    assert!(stderr(&first).starts_with("records 0 to 1 of 3; --cursor "), "{first:?}");
    let json: Value = serde_json::from_str(&home.prints(&["read", &text, "--format", "json"])).unwrap();
    assert_eq!(json["records"], serde_json::json!(["12", "zwölf", "{}"]));

    let bytes: Vec<u8> = (0..=255).cycle().take(500).collect();
    let binary = home.offload(&["--as", "binary"], &bytes);
    let first = home.run(&["read", &binary, "--bytes", "400"], "");
    assert_eq!(first.stdout.len(), 401);
    assert!(stderr(&first).starts_with("bytes 0 to 299 of 500; --cursor "), "{first:?}");
    let last = home.run(&["read", &binary, "--cursor", &cursor(&first).unwrap(), "--format", "json"], "");
    let last: Value = serde_json::from_slice(&last.stdout).unwrap();
    assert_eq!((&last["offset"], &last["bytes"], &last["next"]), (&300.into(), &200.into(), &Value::Null));

    let long = format!(r#"[{{"id":0}},{{"id":1,"text":"{}"}},{{"id":2}}]"#, "语".repeat(200));
    let long = home.offload(&[], long);
    let part = home.run(&["read", &long, "--from", "1", "--bytes", "256"], "");
    assert!(stderr(&part).starts_with("record 1 of 3, bytes 0 to 25"), "{part:?}");
    let rest = home.run(&["read", &long, "--cursor", &cursor(&part).unwrap()], "");
    assert!(String::from_utf8(part.stdout).unwrap().starts_with(r#"{"id":1,"text":"语"#));
    assert!(stderr(&rest).contains("--cursor "), "{rest:?}");
}

#[test]
fn reading_into_a_closed_pipe_ends_quietly() {
    let home = Home::new();
    let handle = home.offload(&[], tickets(5000));
    let extract =
        ["extract", &handle, "--jq", ".", "--query-answer-bytes", "1000000", "--query-answer-tokens", "1000000"];
    let read = ["read", &handle, "--limit", "1000", "--bytes", "1000000"];
    for arguments in [&extract[..], &read] {
        let mut command = home.lro(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn completions_and_pages_of_the_manual_name_every_subcommand() {
    let home = Home::new();
    let help = home.prints(&["--help"]);
    let (_, listed) = help.split_once("Commands:\n").unwrap();
    let words = listed
        .lines()
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names: Vec<&str> =
        words.map(|line| line.split_whitespace().next().unwrap()).filter(|name| *name != "help").collect();
    assert!(names.contains(&"gateway") && names.contains(&"completions"), "{names:?}");

    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = home.prints(&["completions", shell]);
        let missing: Vec<_> = names.iter().filter(|name| !script.contains(*name)).collect();
        assert!(missing.is_empty(), "{shell}: {missing:?}");
    }
    let (manual, scripts) = (home.path("manual"), home.path("scripts"));
    home.prints(&["generate", "man", manual.to_str().unwrap()]);
    home.prints(&["generate", "completions", scripts.to_str().unwrap()]);
    for name in &names {
        let page = fs::read_to_string(manual.join(format!("lro-{name}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{name}: {page}");
    }
    // What is hidden is for the command itself.
    assert!(manual.join("lro.1").exists() && !manual.join("lro-compile.1").exists());
    assert_eq!(fs::read(scripts.join("lro")).unwrap(), home.prints(&["completions", "bash"]).into_bytes());
}

// A component that a constant holds is easily in a program once for each part of it that names the constant.
#[test]
fn the_program_has_each_component_once() {
    let program = fs::read(env!("CARGO_BIN_EXE_lro")).unwrap();
    for (name, component) in [
        ("policy", DEFAULT_POLICY),
        ("extract", EXTRACT_COMPONENT),
        ("sql", SQL_COMPONENT),
        ("document", DOCUMENT_COMPONENT),
        ("reader", READER),
    ] {
        let part = &component[component.len() / 2..][..4096];
        assert_eq!(program.windows(part.len()).filter(|window| *window == part).count(), 1, "{name}");
    }
}

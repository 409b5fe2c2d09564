//! `lro doctor` and `lro self-check`, and what `lro` says to people who start it first.
#![expect(clippy::unwrap_used, clippy::panic, reason = "in helpers of tests too, a failure is to end the test")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use support::{Home, stderr};

/// The command of the reference server with every feature.
fn server() -> [PathBuf; 3] {
    let data = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("test-data/mcp/node_modules");
    let script = data.join("@modelcontextprotocol/server-everything/dist/index.js");
    assert!(script.exists(), "{} is missing: run `make test-data`", script.display());
    let packaged = data.join(".bin/node");
    [if packaged.exists() { packaged } else { "node".into() }, script, "stdio".into()]
}

/// Arguments of a call that is answered with a text of this length.
fn echo(length: usize) -> String {
    json!({ "message": "many words ".repeat(length / 11) }).to_string()
}

/// The calls of a server that is diagnosed with these options.
fn diagnosed(home: &Home, options: &[&str]) -> (Output, Value) {
    let mut command = home.lro(&["doctor", "--json"]);
    let output = command.args(options).arg("--").args(server()).output().unwrap();
    let diagnosis = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (output, diagnosis)
}

/// What a terminal shows of a command.
fn on_terminal(home: &Home, command: &str) -> String {
    let mut terminal: Command = home.command("script");
    let output = terminal.env("TERM", "xterm").args(["-qec", command, "/dev/null"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_result_is_shown_without_the_gateway_and_with_it() {
    let home = Home::new();
    let arguments = echo(90_000);
    let call = ["--call", "echo", "--arguments", &arguments];
    let (output, diagnosis) = diagnosed(&home, &[&["--client", "codex-mcp-client"], &call[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(diagnosis["client"]["known_as"], "Codex");
    let tools = diagnosis["tools"].as_array().unwrap();
    assert!(tools.iter().any(|tool| tool["name"] == "echo" && tool["tokens"].as_u64() > Some(20)), "{tools:?}");
    let before = |value: &Value| value["before"]["tokens"].as_u64().unwrap();
    let after = |value: &Value| value["after"]["tokens"].as_u64().unwrap();
    assert!(before(&diagnosis["lists"]) < after(&diagnosis["lists"]), "{}", diagnosis["lists"]);
    let call = &diagnosis["calls"][0];
    assert!(before(call) > 10 * after(call), "{call}");
    assert!(call["before"]["client"].as_str().unwrap().contains("cuts"), "{call}");
    assert_eq!(call["after"]["client"], Value::Null, "{call}");
    assert!(call["reply"].as_str().unwrap().contains("\"offloaded\":true"), "{call}");
    // Nothing is kept.
    assert!(!home.path("out/default").exists());
    let text =
        home.lro(&["doctor", "--call", "echo", "--arguments", &echo(100), "--"]).args(server()).output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("with     the same") && text.contains("tokens of their definitions"), "{text}");
}

// Whatever the umask: a store does not open a directory that others may write to.
#[test]
fn a_result_is_offloaded_for_trial_with_any_umask() {
    for umask in ["000", "002", "077"] {
        let home = Home::new();
        let mut command = home.command("sh");
        command.args(["-c", "umask \"$0\" && exec \"$@\"", umask, env!("CARGO_BIN_EXE_lro"), "doctor", "--json"]);
        let output =
            command.args(["--call", "echo", "--arguments", &echo(90_000), "--"]).args(server()).output().unwrap();
        let diagnosis: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        let reply = diagnosis["calls"][0]["reply"].as_str().unwrap();
        assert!(reply.contains("\"offloaded\":true"), "umask {umask}: {reply}");
    }
}

#[test]
fn a_call_that_fails_is_an_error() {
    let home = Home::new();
    let (output, diagnosis) = diagnosed(&home, &["--call", "unknown", "--call", "get-env"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(diagnosis["calls"][0]["error"].as_str().unwrap().contains("unknown"), "{diagnosis}");
    let more =
        home.lro(&["doctor", "--call", "a", "--arguments", "{}", "--arguments", "{}", "--", "x"]).output().unwrap();
    assert_eq!((more.status.code(), stderr(&more).contains("--call")), (Some(2), true));
}

#[test]
fn what_is_no_server_is_told_with_its_cause() {
    let home = Home::new();
    let cases = [
        ("60", vec!["/no/such/program"], "cannot be started"),
        ("60", vec!["sh", "-c", "echo out of luck >&2; exit 3"], "out of luck"),
        ("60", vec!["sh", "-c", "exit 3"], "exited with status 3"),
        ("60", vec!["sh", "-c", "exec <&-; sleep 0.1; exit 3"], "exited with status 3"),
        ("5", vec!["sh", "-c", "echo Welcome; sleep 60"], "no MCP message: Welcome"),
        ("1", vec!["sh", "-c", "sleep 60"], "no answer within 1 s"),
    ];
    // At the same time, as most of it waits.
    let started = cases.map(|(timeout, command, cause)| {
        let mut lro = home.lro(&["doctor", "--timeout", timeout, "--"]);
        lro.env_remove("LRO_LOG").args(&command).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        (lro.spawn().unwrap(), command, cause)
    });
    for (lro, command, cause) in started {
        let output = lro.wait_with_output().unwrap();
        let errors = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{command:?}: {errors}");
        assert!(errors.contains(cause) && errors.contains("hint: "), "{command:?}: {errors}");
        assert!(output.stdout.is_empty(), "{output:?}");
    }
    let output = home.lro(&["doctor"]).output().unwrap();
    assert!(stderr(&output).contains("after `--`"), "{output:?}");
    let output = home.lro(&["doctor", "--upstream", "http://127.0.0.1:1/mcp"]).output().unwrap();
    assert!(output.status.code() == Some(1) && stderr(&output).contains("Streamable HTTP"), "{output:?}");
    assert!(stderr(&output).contains("initialize: the server cannot be reached: "), "{output:?}");
}

#[test]
fn the_machine_is_checked() {
    let home = Home::new();
    let check = |home: &Home| {
        let output = home.lro(&["self-check", "--json"]).output().unwrap();
        let checks: Vec<Value> =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        (output.status.code(), checks)
    };
    let (code, checks) = check(&home);
    let names: Vec<&str> = checks.iter().map(|check| check["check"].as_str().unwrap()).collect();
    let all = ["store", "fsync", "engine", "policy", "questions", "cache", "isolation", "memory", "terminal", "jq"];
    assert_eq!((code, names), (Some(0), all.to_vec()), "{checks:?}");
    let with_advice = |check: &&Value| (check["state"] == "ok") == check["advice"].is_null();
    assert_eq!(checks.iter().filter(with_advice).count(), checks.len(), "{checks:?}");
    // Nothing is kept.
    assert!(!home.path("out/default").exists());
    fs::set_permissions(home.path("out"), fs::Permissions::from_mode(0o777)).unwrap();
    let (code, checks) = check(&home);
    assert_eq!((code, &checks[0]["state"]), (Some(1), &json!("fails")), "{checks:?}");
    assert!(checks[0]["advice"].as_str().unwrap().contains("--dir"), "{checks:?}");
    let text = String::from_utf8(home.lro(&["self-check"]).output().unwrap().stdout).unwrap();
    assert!(text.starts_with("fails   store") && text.contains("\nok      policy"), "{text}");
}

#[test]
fn a_bucket_that_does_not_answer_fails_the_check() {
    let home = Home::new();
    let mut command = home.lro(&["self-check", "--store", "s3://bucket/offloads", "--store-retry-ms", "0"]);
    command.env("AWS_ENDPOINT", "http://127.0.0.1:1").env("AWS_ALLOW_HTTP", "true").env("AWS_REGION", "us-east-1");
    command.env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", "secret");
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.code() == Some(1) && text.contains("fails   bucket     cannot list s3://bucket/"), "{text}");
}

#[test]
fn a_policy_that_does_not_load_fails_the_check() {
    let home = Home::new();
    fs::write(home.path("policy.wasm"), "no component").unwrap();
    let policy = home.path("policy.wasm");
    let output = home.lro(&["self-check", "--policy", policy.to_str().unwrap()]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.code() == Some(1) && text.contains("fails   policy"), "{text}");
}

#[test]
fn people_who_start_it_first_are_told_what_to_do() {
    let home = Home::new();
    let lro = env!("CARGO_BIN_EXE_lro");
    let shown = on_terminal(&home, lro);
    assert!(shown.contains("lro setup") && shown.lines().count() < 15, "{shown}");
    // A script gets the error that it got before.
    let output = home.lro(&[]).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    for command in ["gateway -- cat", "serve"] {
        let shown = on_terminal(&home, &format!("timeout --foreground -s INT 20 {lro} {command}"));
        assert_eq!(shown.matches("waiting for an MCP client").count(), 1, "{command}: {shown}");
    }
    let served = on_terminal(&home, &format!("timeout --foreground -s INT 20 {lro} serve"));
    assert!(served.contains("lro serve --help") && !served.contains("lro setup"), "{served}");
    let offloaded = on_terminal(&home, &format!("timeout --foreground -s INT 20 {lro} offload"));
    assert!(offloaded.contains("reading standard input"), "{offloaded}");
    let piped = home.lro(&["offload"]).output().unwrap();
    assert_eq!((piped.status.code(), stderr(&piped).as_str()), (Some(0), ""));
    let piped = home.lro(&["serve"]).output().unwrap();
    assert_eq!((piped.status.code(), stderr(&piped).as_str()), (Some(0), ""));
}

//! Processes that end at a point, and a gateway that does not. Their tests wait for those of other faults too: this process
//! uses stores and policies as well, and would come by a point that another test has set.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lro_host::policy::{CompilePlace, Conditions};
use lro_host::store::{Store, StoreConfig};
use lro_tests::{target, workspace};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::loads::{registry, tenant};
use crate::support::{answers, filter, leftovers, signature, version, within};

/// The status with which a process ends at a point.
const EXIT: i32 = 70;

/// Points that `lro offload` comes by while it compiles its policy.
const COMPILING: [&str; 4] = ["policy::verify", "policy::compile", "policy::compiled-by-child", "store::put"];

/// Points that it comes by with compiled code of an earlier process.
const OFFLOADING: [&str; 10] = [
    "policy::load-code",
    "sandbox::instantiate",
    "sandbox::inspect",
    "store::stage",
    "sandbox::write",
    "sandbox::write-thread",
    "sandbox::finish",
    "store::write",
    "store::publish",
    "store::published",
];

fn command(root: &Path, points: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lro-fail-points"));
    command.env("FAILPOINTS", points).env("MCP_LRO_DIR", root.join("store")).env("XDG_CACHE_HOME", root.join("cache"));
    command
}

// Whichever step a process ends at, nothing half is seen, and the next process removes the rest and works.
#[test]
fn a_process_may_end_at_any_step() {
    let _scenario = fail::FailScenario::setup();
    let root = TempDir::new().unwrap();
    let input = root.path().join("result.txt");
    fs::write(&input, "a line of a result\n".repeat(20_000)).unwrap();
    for point in COMPILING.into_iter().chain(OFFLOADING) {
        let offload = |points: &str| {
            command(root.path(), points).args(["offload", "--mode", "always"]).arg(&input).output().unwrap()
        };
        if COMPILING.contains(&point) {
            let _ = fs::remove_dir_all(root.path().join("cache"));
        }
        let ended = within(point, || offload(&format!("{point}=return(exit)")));
        assert_eq!((ended.status.code(), ended.stdout.len()), (Some(EXIT), 0), "{point}: {ended:?}");
        let next = within(point, || offload(""));
        assert_eq!(next.status.code(), Some(0), "{point}: {next:?}");
        let store = Store::open(StoreConfig::new(root.path().join("store"))).unwrap();
        assert_eq!(leftovers(root.path()), [""; 0], "{point}");
        for offload in store.list() {
            let found = store.find("default", offload.id).unwrap();
            for file in &found.record().files {
                let bytes = fs::read(found.path().join(&file.name)).unwrap();
                assert_eq!(file.sha256, Some(lro_host::store::Digest::of(&bytes)), "{point}");
            }
        }
    }
}

/// Names the directory in which a process of this test loads a policy, and the point where it ends.
const VICTIM: &str = "LRO_TEST_VICTIM";

/// Not a test on its own: the process that ends.
#[test]
fn victim() {
    let Some(victim) = std::env::var_os(VICTIM) else { return };
    let victim = victim.into_string().unwrap();
    let (point, root) = victim.split_once(' ').unwrap();
    let registry = registry(Path::new(root), CompilePlace::Thread);
    registry.add("acme", tenant(Path::new(root))).unwrap();
    fail::cfg(point, "return(exit)").unwrap();
    let _ = registry.load("acme", &version(2)[..].into(), Conditions::default());
}

// Whichever step of a load a process ends at, the next one serves the last version that was kept.
#[test]
fn a_process_may_end_while_it_loads() {
    let _scenario = fail::FailScenario::setup();
    for point in ["policy::verify", "policy::compile", "store::put", "policy::swap", "policy::keep"] {
        let root = TempDir::new().unwrap();
        fs::write(root.path().join("policy.wasm"), version(1)).unwrap();
        let ended = within(point, || {
            let mut command = Command::new(std::env::current_exe().unwrap());
            let command = command.args(["--exact", "exits::victim"]);
            command.env(VICTIM, format!("{point} {}", root.path().display())).output().unwrap()
        });
        assert_eq!(ended.status.code(), Some(EXIT), "{point}: {ended:?}");
        fs::write(root.path().join("policy.wasm"), "cut").unwrap();
        let registry = registry(root.path(), CompilePlace::Thread);
        registry.add("acme", tenant(root.path())).unwrap_err();
        let filter = filter(registry.slot("acme").unwrap(), &root.path().join("store"));
        within(point, || assert_eq!(answers(&filter), signature(1), "{point}"));
    }
}

fn python() -> PathBuf {
    let python = target().join("test-data/venv/bin/python");
    assert!(python.exists(), "{} is not there: run `make test-data`", python.display());
    python
}

// A gateway answers the call that panicked by its failure mode, and goes on.
#[test]
fn a_gateway_survives_a_panic() {
    let _scenario = fail::FailScenario::setup();
    for (point, failure) in [
        ("sandbox::inspect", "open"),
        ("sandbox::inspect", "closed"),
        ("store::published", "open"),
        ("store::published", "closed"),
        ("sandbox::instantiate", "closed"),
    ] {
        let what = format!("{point}, {failure}");
        within(&what, || {
            let first = gateway(&format!("{point}=1*panic"), failure);
            let text = first["result"]["content"][0]["text"].as_str().unwrap_or_default();
            match failure {
                "closed" => {
                    let is_error = first["result"]["isError"] == true && text.contains("the host panicked");
                    assert!(is_error, "{point}: {first}");
                }
                _ => assert!(text.contains("a result a result"), "{point}: {first}"),
            }
        });
    }
}

// Without a thread for it a result is refused by name; it neither passes nor runs where others are served.
#[test]
fn a_gateway_without_threads() {
    let _scenario = fail::FailScenario::setup();
    let first = within("gateway::thread", || gateway("gateway::thread=1*return", "open"));
    let text = first["error"]["message"].as_str().unwrap_or_default();
    assert!(text.contains("the system cannot start a thread"), "{first}");
}

/// The first answer of a gateway with a fault, which serves on.
fn gateway(fault: &str, failure: &str) -> Value {
    let root = TempDir::new().unwrap();
    let mut child = command(root.path(), fault)
        .args(["gateway", "--failure", failure, "--mode", "always", "--"])
        .arg(python())
        .args(["-I", "-S"])
        .arg(workspace().join("tests/tools/servers/faulty.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut ask = |id: u32, method: &str, params: Value| -> Value {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(input, "{message}").unwrap();
        serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap()
    };
    let client = json!({"name": "test", "version": "1"});
    ask(1, "initialize", json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}));
    let echo = json!({"name": "echo", "arguments": {"text": "a result ".repeat(20)}});
    let answers = [2, 3, 4].map(|id| ask(id, "tools/call", echo.clone()));
    let [first, rest @ ..] = answers;
    for answer in &rest {
        assert!(answer["result"].to_string().contains("offloaded"), "{fault}: the next call: {answer}");
    }
    drop(input);
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{fault}: {ended:?}");
    assert_eq!(leftovers(root.path()), [""; 0], "{fault}");
    first
}

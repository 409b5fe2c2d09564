//! Many concurrent calls of a reference server by the MCP inspector.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lro_tests::{free_port, target};
use serde_json::{Value, json};

use crate::peers::{Process, lro, wait_for};
use crate::shared::measured;

/// Calls of a run, and the number of concurrent ones.
const CALLS: &str = "2000";
const AT_A_TIME: &str = "16";

/// Runs of each server, in turn.
const REPETITIONS: usize = 3;

/// The inspector's report on one run.
struct Run {
    error_rate: f64,
    p50: f64,
    p99: f64,
    calls_per_second: f64,
}

/// Measures the server alone, and behind our gateway on pipes and over HTTP.
pub(crate) fn measure() {
    println!(
        "\nload: {CALLS} calls of `echo`, {AT_A_TIME} at a time, by the MCP inspector; the median of {REPETITIONS} runs by p99"
    );
    let (inspector, server) =
        (package("inspector/clients/launcher/build/index.js"), package("server-everything/dist/index.js"));
    if let Some(missing) = [&inspector, &server].into_iter().find(|path| !path.exists()) {
        return println!("  skipped: {} is not there: run `make test-data`", missing.display());
    }
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    let command = [node(), server, PathBuf::from("stdio")];
    let behind_us: Vec<PathBuf> = ["gateway", "--"].into_iter().map(PathBuf::from).chain(command.clone()).collect();
    let (direct, ours) = (Served::direct(&command), Served::ours(&command, &store));
    let config = directory.path().join("servers.json");
    let servers = json!({
        "direct": {"command": command[0], "args": command[1..]},
        "lro gateway": {"command": lro(), "args": behind_us, "env": {"MCP_LRO_DIR": store}},
        "direct, HTTP": {"type": "streamable-http", "url": direct.url},
        "lro gateway, HTTP": {"type": "streamable-http", "url": ours.url},
    });
    std::fs::write(&config, json!({"mcpServers": servers}).to_string()).unwrap();
    let names = ["direct", "lro gateway", "direct, HTTP", "lro gateway, HTTP"];
    let mut runs: [Vec<Run>; 4] = std::array::from_fn(|_| Vec::new());
    for _ in 0..REPETITIONS {
        for (name, runs) in names.iter().zip(&mut runs) {
            runs.push(run(&inspector, &config, name));
        }
    }
    let rows = runs.map(|mut runs| {
        runs.sort_by(|one, other| one.p99.total_cmp(&other.p99));
        runs.swap_remove(REPETITIONS / 2)
    });
    for (index, (name, row)) in names.iter().zip(&rows).enumerate() {
        let direct = &rows[index / 2 * 2];
        let Run { error_rate, p50, p99, calls_per_second } = row;
        measured(&format!("load, {name}: p99"), *p99, "ms");
        measured(&format!("load, {name}"), *calls_per_second, "calls/s");
        print!("  {name:<18} {:>5.2} % errors  p50 {p50:>7.2} ms  p99 {p99:>7.2} ms", error_rate * 100.0);
        println!("  {calls_per_second:>6.0} calls/s  p99 {:>5.2} × direct", p99 / direct.p99);
    }
}

/// A server over HTTP.
struct Served {
    url: String,
    _process: Process,
}

impl Served {
    /// The reference server itself.
    fn direct(command: &[PathBuf; 3]) -> Self {
        let (port, [program, script, _]) = (free_port(), command);
        let mut server = Command::new(program);
        server.arg(script).arg("streamableHttp").env("PORT", port.to_string());
        Self::start(server, port)
    }

    /// Our gateway before the reference server.
    fn ours(command: &[PathBuf; 3], store: &Path) -> Self {
        let port = free_port();
        let mut gateway = Command::new(lro());
        gateway.args(["gateway", "--listen", &address(port), "--"]).args(command).env("MCP_LRO_DIR", store);
        Self::start(gateway, port)
    }

    fn start(mut server: Command, port: u16) -> Self {
        let quiet = server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = Process(quiet.process_group(0).spawn().unwrap());
        wait_for(&address(port));
        Self { url: format!("http://{}/mcp", address(port)), _process: process }
    }
}

fn address(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

fn run(inspector: &Path, config: &Path, server: &str) -> Run {
    let mut command = Command::new(node());
    command.arg(inspector).arg("--cli").arg("--config").arg(config).args(["--server", server]);
    command.args(["--method", "tools/call", "--tool-name", "echo", "--tool-arg", "message=hello"]);
    command.args(["--load", "--load-concurrency", AT_A_TIME, "--load-requests", CALLS, "--format", "json", "--quiet"]);
    let output = command.env("HOME", config.parent().unwrap()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let said: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{server}: {error}: {errors}"));
    let number = |pointer: &str| said["result"].pointer(pointer).and_then(Value::as_f64).unwrap();
    let failed = number("/errors") + number("/toolErrors");
    Run {
        error_rate: failed / number("/requests"),
        p50: number("/latencyMs/p50"),
        p99: number("/latencyMs/p99"),
        calls_per_second: number("/throughput"),
    }
}

fn package(path: &str) -> PathBuf {
    target().join("test-data/mcp/node_modules/@modelcontextprotocol").join(path)
}

/// Node 22 from its package, or the installed Node where the package does not exist.
fn node() -> PathBuf {
    let packaged = target().join("test-data/mcp/node_modules/.bin/node");
    if packaged.exists() { packaged } else { PathBuf::from("node") }
}

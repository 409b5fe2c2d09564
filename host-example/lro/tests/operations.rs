//! The operations side of `lro gateway`, run as operators run it.
#![expect(clippy::unwrap_used, clippy::panic, reason = "in helpers of tests too, a failure is to end the test")]

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Longest wait for something that is to happen within a second or two.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server whose tool `large` answers with the file `$1`, and every other one with a word. Requests are numbered from 1.
const SERVER: &str = r#"
n=0
while read -r line; do
    n=$((n + 1))
    case "$line" in
    *'"initialize"'*)
        printf '{"jsonrpc":"2.0","id":%d,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},' $n
        printf '"serverInfo":{"name":"sh","version":"1"}}}\n' ;;
    *'"tools/list"'*)
        printf '{"jsonrpc":"2.0","id":%d,"result":{"tools":[' $n
        printf '{"name":"large","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},'
        printf '{"name":"small","inputSchema":{"type":"object","properties":{"limit":{}}}}]}}\n' ;;
    *'"large"'*)
        printf '{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"' $n
        cat "$1"
        printf '"}]}}\n' ;;
    *) printf '{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"small"}]}}\n' $n ;;
    esac
done
"#;

/// Characters of the answer of the tool `large`.
const LARGE: usize = 60_000;

/// A home of its own for each test. Compiled policies are shared, so that they are compiled once.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("large"), "x ".repeat(LARGE / 2)).unwrap();
        Self(home)
    }

    fn lro(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lro"));
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("MCP_LRO_DIR", self.0.path().join("out")).env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
        command.current_dir(self.0.path()).args(arguments);
        command
    }

    fn gateway(&self, flags: &[&str]) -> Gateway {
        let server = ["--", "sh", "-c", SERVER, "sh", "large"];
        Gateway::start(&mut self.lro(&[&["gateway"], flags, &server].concat()))
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.lro(arguments).output().unwrap()
    }

    fn status(&self) -> Value {
        serde_json::from_slice(&self.run(&["status", "--json"]).stdout).unwrap()
    }

    /// Names of the files that gateways tell of themselves in.
    fn told(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path().join("out/.gateways")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

/// A gateway on standard input and output, and its client.
struct Gateway {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    errors: Receiver<String>,
    count: u64,
}

impl Gateway {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, errors) = channel();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { input: child.stdin.take(), child, output, errors, count: 0 }
    }

    /// Sends a request and returns the line of the answer.
    fn ask(&mut self, method: &str, params: &Value) -> String {
        self.count += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.count, "method": method, "params": params});
        self.input.as_mut().unwrap().write_all(format!("{request}\n").as_bytes()).unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(answer["id"], self.count, "{line}");
        line
    }

    fn shake_hands(&mut self) {
        let client = json!({"name": "claude-code", "version": "2.1"});
        self.ask("initialize", &json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}));
    }

    fn call(&mut self, tool: &str) -> String {
        self.ask("tools/call", &json!({"name": tool, "arguments": {}}))
    }

    /// The next line on standard error.
    fn line(&self) -> String {
        self.errors.recv_timeout(PATIENCE).unwrap()
    }

    /// The next event of the log with this message.
    fn event(&self, message: &str) -> Value {
        loop {
            let event: Value = serde_json::from_str(&self.line()).unwrap();
            if event["message"] == message {
                return event;
            }
        }
    }

    /// Host and port of its metrics.
    fn metrics_address(&self) -> String {
        metrics_address_of(&self.line())
    }

    /// Closes its input and waits for the end.
    fn end(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Host and port in the message that tells of the metrics.
fn metrics_address_of(message: &str) -> String {
    let url = message.strip_prefix("metrics on http://").unwrap_or_else(|| panic!("{message}"));
    url.strip_suffix("/metrics").unwrap().to_owned()
}

/// Status and body of an HTTP request.
fn http(method: &str, address: &str, path: &str, host: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn get(address: &str, path: &str) -> (u16, String) {
    http("GET", address, path, address)
}

/// The value of a metric with all of these labels. Panics when there is not one.
fn metric(scraped: &str, name: &str, labels: &[&str]) -> f64 {
    let is_it = |line: &&str| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']))
            && labels.iter().all(|label| line.contains(label))
    };
    let found: Vec<&str> = scraped.lines().filter(is_it).collect();
    assert_eq!(found.len(), 1, "{name} {labels:?}: {scraped}");
    found[0].rsplit_once(' ').unwrap().1.parse().unwrap()
}

fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "it never happens");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn metrics_count_what_happened() {
    let home = Home::new();
    let mut gateway = home.gateway(&["--metrics-listen", "127.0.0.1:0"]);
    let address = gateway.metrics_address();
    gateway.shake_hands();
    let small: usize = (0..3).map(|_| gateway.call("small").len() - 1).sum();
    let large: Vec<String> = (0..2).map(|_| gateway.call("large")).collect();
    let handle = serde_json::from_str::<Value>(&large[0]).unwrap();
    let handle: Value = serde_json::from_str(handle["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    gateway.ask("tools/call", &json!({"name": "lro_read", "arguments": {"handle": handle["handle"]}}));

    let (status, scraped) = get(&address, "/metrics");
    assert_eq!(status, 200);
    let value = |name: &str, labels: &[&str]| metric(&scraped, name, labels);
    let results = "lro_tool_results_total";
    let enforced = |tool, verdict| value(results, &[tool, verdict, r#"tenant="default""#, r#"mode="enforce""#]);
    assert_eq!(enforced(r#"tool="small""#, r#"verdict="pass""#), 3.0);
    assert_eq!(enforced(r#"tool="large""#, r#"verdict="offload""#), 2.0);
    assert_eq!(value("lro_result_bytes_total", &[r#"tool="small""#]), small as f64);
    assert_eq!(value("lro_reply_bytes_total", &[r#"tool="small""#]), small as f64);
    assert!(value("lro_result_bytes_total", &[r#"tool="large""#]) > 2.0 * LARGE as f64);
    let replies: usize = large.iter().map(|reply| reply.len() - 1).sum();
    assert_eq!(value("lro_reply_bytes_total", &[r#"tool="large""#]), replies as f64);
    assert_eq!(value("lro_tokens_saved_total", &[r#"tool="small""#]), 0.0);
    assert!(value("lro_tokens_saved_total", &[r#"tool="large""#]) > 25_000.0);
    assert_eq!(value("lro_policy_seconds_count", &[r#"tool="small""#]), 3.0);
    assert!(value("lro_policy_seconds_sum", &[r#"tool="large""#]) > 0.0);
    assert!(value("lro_policy_epochs_total", &[r#"tool="large""#]) >= 2.0);
    assert_eq!(value("lro_policy_memory_bytes_bucket", &[r#"tool="large""#, r#"le="8388608""#]), 2.0);
    assert_eq!(value("lro_own_call_seconds_count", &[r#"tool="lro_read""#]), 1.0);
    for (kind, count) in [("store", 0.0), ("deadline", 0.0), ("trap", 0.0), ("unreadable", 0.0)] {
        assert_eq!(value("lro_failures_total", &[&format!(r#"kind="{kind}""#)]), count);
    }
    assert_eq!(value("lro_messages_total", &[r#"from="client""#]), 7.0);
    assert_eq!(value("lro_messages_total", &[r#"from="server""#]), 6.0);
    assert!(value("lro_message_bytes_total", &[r#"from="server""#]) > 2.0 * LARGE as f64);
    assert_eq!((value("lro_sessions", &[]), value("lro_children", &[])), (1.0, 1.0));
    assert_eq!(value("lro_store_offloads", &[]), 2.0);
    let held = fs::read_dir(home.0.path().join("out/default")).unwrap();
    let files = held.flat_map(|offload| fs::read_dir(offload.unwrap().path()).unwrap()).map(Result::unwrap);
    let sizes: Vec<u64> = files.map(|file| file.metadata().unwrap().len()).collect();
    assert_eq!(value("lro_store_files", &[]), sizes.len() as f64);
    // Whole blocks, and one more for each file and each of the two directories.
    let on_disk: u64 = sizes.iter().map(|size| size.next_multiple_of(4096) + 4096).sum();
    assert_eq!(value("lro_store_bytes", &[]), (on_disk + 2 * 4096) as f64);
    assert!(value("process_start_time_seconds", &[]) > 1.7e9);
    for line in scraped.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        let name = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        assert!(scraped.contains(&format!("# HELP {name} ")), "{name} is not described");
    }
    gateway.end();
}

#[test]
fn only_this_machine_may_ask_for_metrics() {
    let home = Home::new();
    let gateway = home.gateway(&["--metrics-listen", "127.0.0.1:0", "--allowed-hosts", "metrics.example"]);
    let address = gateway.metrics_address();
    assert_eq!(get(&address, "/healthz"), (200, "ok\n".to_owned()));
    assert_eq!(get(&address, "/readyz"), (200, "ok\n".to_owned()));
    assert_eq!(http("GET", &address, "/healthz", "localhost:1").0, 200);
    assert_eq!(http("GET", &address, "/metrics", "metrics.example").0, 200);
    assert_eq!(http("GET", &address, "/metrics", "evil.example").0, 403);
    assert_eq!(http("GET", &address, "/healthz", "evil.example:80").0, 403);
    assert_eq!(http("POST", &address, "/metrics", &address).0, 405);
    assert_eq!(http("HEAD", &address, "/metrics", &address), (200, String::new()));
    assert_eq!((get(&address, "/").0, get(&address, "/other").0), (200, 404));
    gateway.end();
}

#[test]
fn metrics_are_served_beside_http_too() {
    let home = Home::new();
    let gateway = home.gateway(&["--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"]);
    let address = gateway.metrics_address();
    let line = gateway.line();
    let url = line.strip_prefix("listening on ").unwrap();
    let (_, scraped) = get(&address, "/metrics");
    assert_eq!((metric(&scraped, "lro_sessions", &[]), metric(&scraped, "lro_children", &[])), (0.0, 0.0));
    let status = eventually(|| home.status()["gateways"].as_array().unwrap().first().cloned());
    assert_eq!((status["listen"].as_str(), status["client"].as_str()), (Some(url), None));
    assert_eq!(status["metrics"], format!("http://{address}/metrics"));
}

#[test]
fn an_address_in_use_is_an_error() {
    let home = Home::new();
    let gateway = home.gateway(&["--metrics-listen", "127.0.0.1:0"]);
    let address = gateway.metrics_address();
    let output = home.run(&["gateway", "--metrics-listen", &address, "--", "true"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(message.contains(&format!("cannot listen at {address} (gateway.metrics-listen): ")), "{message}");
}

#[test]
fn an_audit_is_told_apart() {
    let home = Home::new();
    let flags = ["--audit", "true", "--metrics-listen", "127.0.0.1:0", "--log", "info", "--log-format", "json"];
    let mut gateway = home.gateway(&flags);
    let loaded = gateway.event("policy loaded");
    assert_eq!((&loaded["tenant"], &loaded["version"]), (&json!("default"), &json!(1)));
    assert_eq!(loaded["digest"].as_str().map(str::len), Some(64));
    let address =
        metrics_address_of(serde_json::from_str::<Value>(&gateway.line()).unwrap()["message"].as_str().unwrap());
    gateway.shake_hands();
    let reply: Value = serde_json::from_str(&gateway.call("large")).unwrap();
    assert_eq!(reply["result"]["content"][0]["text"].as_str().map(str::len), Some(LARGE));
    let event = gateway.event("audit");
    assert_eq!(
        (&event["tenant"], &event["tool"], &event["verdict"]),
        (&json!("default"), &json!("large"), &json!("offload"))
    );
    let (_, scraped) = get(&address, "/metrics");
    assert_eq!(metric(&scraped, "lro_tool_results_total", &[r#"verdict="offload""#, r#"mode="audit""#]), 1.0);
    assert_eq!(metric(&scraped, "lro_tokens_saved_total", &[r#"tool="large""#]), 0.0);
    gateway.end();
}

#[test]
fn each_result_has_one_line_about_its_decision() {
    let home = Home::new();
    let mut gateway = home.gateway(&["--log", "warn,decision=info", "--log-format", "json"]);
    gateway.shake_hands();
    gateway.call("small");
    let reply: Value = serde_json::from_str(&gateway.call("large")).unwrap();
    gateway.call(&format!("odd\u{1b}[2J{}", "x".repeat(1000)));
    let small = gateway.event("decision");
    let [tool, verdict, tenant] = ["tool", "verdict", "tenant"].map(|key| small[key].as_str().unwrap());
    assert_eq!((tool, verdict, tenant), ("small", "pass", "default"));
    assert_eq!((&small["bytes_in"], &small["tokens_saved"]), (&small["bytes_out"], &json!(0)));
    assert!(small.get("handle").is_none() && small.get("failure").is_none(), "{small}");
    let large = gateway.event("decision");
    let descriptor: Value = serde_json::from_str(reply["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!((&large["verdict"], &large["handle"]), (&json!("offload"), &descriptor["handle"]));
    assert!(large["bytes_in"].as_u64().unwrap() > LARGE as u64 && large["tokens_saved"].as_u64().unwrap() > 10_000);
    assert_eq!((large["policy"].as_str().map(str::len), &large["policy"]), (Some(64), &small["policy"]));
    let odd = gateway.event("decision");
    let tool = odd["tool"].as_str().unwrap();
    assert!(tool.starts_with("odd_[2J") && tool.len() <= 128, "{tool}");
    gateway.end();
}

#[test]
fn health_says_what_is_wrong_with_the_store() {
    let home = Home::new();
    let out = home.0.path().join("out");
    fs::create_dir(&out).unwrap();
    fs::set_permissions(&out, Permissions::from_mode(0o777)).unwrap();
    let mut gateway = home.gateway(&["--metrics-listen", "127.0.0.1:0", "--log", "off"]);
    let address = gateway.metrics_address();
    let (status, reason) = get(&address, "/healthz");
    assert_eq!(status, 503);
    assert!(reason.contains("results cannot be offloaded") && reason.contains("others can write to it"), "{reason}");
    gateway.shake_hands();
    assert!(gateway.call("small").contains("small"), "what is small passes all the same");
    fs::set_permissions(&out, Permissions::from_mode(0o700)).unwrap();
    assert_eq!(get(&address, "/healthz").0, 200, "it is tried again");
    gateway.end();

    let gateway = home.gateway(&["--metrics-listen", "127.0.0.1:0", "--log", "off"]);
    let address = gateway.metrics_address();
    assert_eq!(get(&address, "/healthz").0, 200);
    // In one step, as the gateway goes on writing.
    fs::rename(&out, home.0.path().join("elsewhere")).unwrap();
    let (status, reason) = get(&address, "/healthz");
    assert_eq!(status, 503);
    assert!(reason.contains("No such file"), "{reason}");
}

#[test]
fn status_shows_live_gateways_and_forgets_killed_ones() {
    let home = Home::new();
    let nobody = home.run(&["status"]);
    assert!(String::from_utf8(nobody.stdout).unwrap().starts_with("no gateway runs with the directory "));
    let (mut one, mut other) = (home.gateway(&[]), home.gateway(&[]));
    one.shake_hands();
    one.call("small");
    one.call("large");
    other.call("large");
    let status = eventually(|| Some(home.status()).filter(|status| status["totals"]["calls"] == 3));
    let gateways = status["gateways"].as_array().unwrap();
    assert_eq!(gateways.len(), 2);
    let first = gateways.iter().find(|gateway| gateway["pid"] == one.child.id()).unwrap();
    assert_eq!(first["client"], "claude-code 2.1");
    assert_eq!(first["verdicts"], json!({"pass": 1, "offload": 1, "truncate": 0, "reject": 0, "fail": 0}));
    assert!(first["server"].as_str().unwrap().starts_with("sh -c "));
    assert!(first["bytes_in"].as_u64().unwrap() > first["bytes_out"].as_u64().unwrap());
    assert!(first["policy_micros"].as_u64().unwrap() > 0 && first["uptime_ms"].as_u64().unwrap() > 0);
    assert_eq!(status["totals"]["verdicts"]["offload"], 2);
    let table = String::from_utf8(home.run(&["status"]).stdout).unwrap();
    assert_eq!(table.lines().count(), 4, "heading, two gateways, totals: {table}");

    other.child.kill().unwrap();
    other.child.wait().unwrap();
    let status = home.status();
    assert_eq!((&status["totals"]["calls"], status["gateways"].as_array().unwrap().len()), (&json!(2), 1));
    assert_eq!(home.told().len(), 2, "the file of the killed one is still there");
    assert!(home.run(&["clean"]).status.success());
    assert_eq!(home.told().len(), 1);
    let path = home.0.path().join("out/.gateways");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(path.join(&home.told()[0])).unwrap().permissions().mode() & 0o777, 0o600);
    one.end();
    assert!(home.told().is_empty(), "a gateway that ends removes its file");
}

/// Calls, those that were not passed, and whether tokens were saved, by tool, of two days: a test may run at midnight.
fn history(home: &Home) -> Vec<(String, u64, u64, bool)> {
    let report: Value = serde_json::from_slice(&home.run(&["status", "--days", "2", "--json"]).stdout).unwrap();
    let days = report["days"].as_array().unwrap().clone();
    let sum = |key: &str| days.iter().map(|day| day[key].as_u64().unwrap()).sum::<u64>();
    for key in ["calls", "large", "bytes_in", "bytes_out", "tokens_saved"] {
        assert_eq!(report["total"][key], sum(key));
    }
    let mut tools: Vec<String> = days.iter().map(|day| day["tool"].as_str().unwrap().to_owned()).collect();
    tools.sort();
    tools.dedup();
    let of_tool = |tool: String| {
        let of = |key: &str| {
            days.iter().filter(|day| day["tool"] == tool.as_str()).map(|day| day[key].as_u64().unwrap()).sum::<u64>()
        };
        let (calls, large, saved) = (of("calls"), of("large"), of("tokens_saved") > 0);
        (tool, calls, large, saved)
    };
    tools.into_iter().map(of_tool).collect()
}

#[test]
fn what_was_saved_is_kept_by_day_and_tool() {
    let home = Home::new();
    let nothing = home.run(&["status", "--days", "7"]);
    assert!(String::from_utf8(nothing.stdout).unwrap().starts_with("no result of a tool on these days"));
    let (mut one, mut killed) = (home.gateway(&[]), home.gateway(&[]));
    one.call("small");
    one.call("large");
    killed.call("large");
    let expected = [("large".to_owned(), 2, 2, true), ("small".to_owned(), 1, 0, false)];
    eventually(|| (history(&home) == expected).then_some(()));

    killed.child.kill().unwrap();
    killed.child.wait().unwrap();
    one.end();
    assert_eq!(history(&home), [("large".to_owned(), 1, 1, true), ("small".to_owned(), 1, 0, false)]);
    assert!(home.run(&["clean"]).status.success());
    assert_eq!(history(&home), expected, "the counts of a killed gateway go to the history with its file");
    assert!(home.run(&["clean"]).status.success());
    assert_eq!(history(&home), expected, "and only once");

    let folder = home.0.path().join("out/.history");
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect();
    for file in &files {
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
        fs::OpenOptions::new().append(true).open(file).unwrap().write_all(b"{\"day\": torn").unwrap();
    }
    assert_eq!(history(&home), expected, "a line that is torn is not counted");
    let old = folder.join("2026-01-02.jsonl");
    fs::write(&old, "{}").unwrap();
    let other = folder.join("notes.txt");
    fs::write(&other, "mine").unwrap();
    home.gateway(&["--history-days", "2"]).end();
    assert!(!old.exists() && other.exists(), "old days are removed, and nothing else");
    assert!(files.iter().all(|file| file.exists()));
    let table = String::from_utf8(home.run(&["status", "--days", "2"]).stdout).unwrap();
    assert!(table.lines().count() >= 4 && table.lines().last().unwrap().starts_with("all"), "{table}");
    assert_eq!(home.run(&["status", "--days", "0"]).status.code(), Some(2));
}

#[test]
fn the_history_of_a_day_has_a_limit() {
    let home = Home::new();
    let mut gateway = home.gateway(&[]);
    gateway.call("small");
    gateway.end();
    let folder = home.0.path().join("out/.history");
    let sizes = || fs::read_dir(&folder).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).max().unwrap();
    for file in fs::read_dir(&folder).unwrap() {
        fs::OpenOptions::new().write(true).open(file.unwrap().path()).unwrap().set_len(16 << 20).unwrap();
    }
    let mut gateway = home.gateway(&[]);
    gateway.call("small");
    gateway.end();
    assert_eq!(sizes(), 16 << 20);
    assert_eq!(history(&home), [("small".to_owned(), 1, 0, false)]);
}

#[test]
fn tools_of_running_gateways_are_audited() {
    let home = Home::new();
    let none = home.run(&["audit"]);
    assert!(!none.status.success() && String::from_utf8_lossy(&none.stderr).contains("no gateway runs"), "{none:?}");
    let (mut one, mut other) = (home.gateway(&[]), home.gateway(&["--audit", "on"]));
    for gateway in [&mut one, &mut other] {
        gateway.shake_hands();
        gateway.ask("tools/list", &json!({}));
        gateway.call("large");
        gateway.call("small");
    }
    one.call("large");
    one.call("odd\u{1b}[2J");
    let report = eventually(|| {
        let report: Value = serde_json::from_slice(&home.run(&["audit", "--json"]).stdout).ok()?;
        let calls = report["tools"].as_array()?.iter().filter_map(|tool| tool["calls"].as_u64());
        (calls.sum::<u64>() == 6).then_some(report)
    });
    let tools = report["tools"].as_array().unwrap();
    let row = |tool: &Value| {
        let [calls, large, repeated] = ["calls", "large", "repeated"].map(|key| tool[key].as_u64().unwrap());
        (tool["tool"].as_str().unwrap().to_owned(), calls, large, repeated)
    };
    let expected = [("large", 3, 3, 1), ("odd_[2J", 1, 0, 0), ("small", 2, 0, 0)];
    let mut rows: Vec<_> = tools.iter().map(row).collect();
    rows.sort();
    assert_eq!(rows, expected.map(|(name, calls, large, repeated)| (name.to_owned(), calls, large, repeated)));
    let large = tools.iter().find(|tool| tool["tool"] == "large").unwrap();
    // Three results of 30,000 words of one letter.
    assert!((60_000..150_000).contains(&large["tokens"].as_u64().unwrap()), "{large}");
    assert!(large["definition_tokens"].as_u64() > Some(10) && large["limiting"] == json!([]), "{large}");
    let toml = String::from_utf8(home.run(&["audit", "--toml"]).stdout).unwrap();
    let config = lro_gateway::settings::Config::from_toml(&toml).unwrap();
    let tool = config.gateway_tool("large");
    assert!(tool.ask && tool.reuse_seconds.is_some() && !config.gateway_tool("small").ask, "{toml}");
    let table = String::from_utf8(home.run(&["audit"]).stdout).unwrap();
    assert!(table.contains("limit") && table.ends_with(&toml), "{table}");
}

#[test]
fn clients_are_listed_with_sources_and_shown_by_the_name_they_send() {
    let home = Home::new();
    let json = |arguments: &[&str]| -> Vec<Value> {
        let output = home.run(&[&["clients", "--json"], arguments].concat());
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let known = json(&[]);
    assert!(
        known.len() >= 14 && known.iter().all(|client| !client["source"].as_str().unwrap().is_empty()),
        "{known:?}"
    );
    let text = String::from_utf8(home.run(&["clients"]).stdout).unwrap();
    for client in &known {
        let heading = format!("{}: {}", client["pattern"].as_str().unwrap(), client["client"].as_str().unwrap());
        assert!(text.lines().any(|line| line == heading), "{heading} in {text}");
    }
    let codex = &json(&["codex-mcp-client/0.99.1"])[0];
    assert_eq!((&codex["client"], &codex["version"]), (&json!("Codex"), &json!("0.99.1")));
    assert_eq!(codex["profile"]["text-limit"], json!({"amount": 10_000, "unit": "bytes"}));
    let scoped = &json(&["@librechat/api-client"])[0];
    assert_eq!((&scoped["client"], &scoped["version"]), (&json!("LibreChat"), &json!("")));
    let unknown = &json(&["somebody"])[0];
    assert_eq!((&unknown["client"], &unknown["profile"]["text-limit"]), (&Value::Null, &Value::Null));
    // The configuration counts, and what a client said of itself to a running gateway.
    assert_eq!(json(&["--connected"]), [] as [Value; 0]);
    let mut gateway = home.gateway(&[]);
    gateway.shake_hands();
    let connected = eventually(|| Some(json(&["--connected"])).filter(|clients| !clients.is_empty()));
    assert_eq!((&connected[0]["client"], &connected[0]["version"]), (&json!("Claude Code"), &json!("2.1")));
    let config = home.0.path().join("clients.toml");
    fs::write(&config, "[clients.\"claude-code*\"]\ntext-limit = 9\n").unwrap();
    let own = &json(&["claude-code", "--config", config.to_str().unwrap()])[0];
    assert_eq!(own["profile"]["text-limit"], json!({"amount": 9, "unit": "tokens"}));
    gateway.end();
}

#[test]
fn status_goes_on_when_watched() {
    let home = Home::new();
    let mut gateway = home.gateway(&[]);
    let mut watch = home.lro(&["status", "--watch"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    let mut calls = || {
        let status: Value = serde_json::from_str(&lines.next().unwrap()).unwrap();
        status["totals"]["calls"].as_u64().unwrap()
    };
    eventually(|| Some(calls()).filter(|calls| *calls == 0));
    gateway.shake_hands();
    gateway.call("small");
    eventually(|| Some(calls()).filter(|calls| *calls == 1));
    let interrupt = Command::new("kill").args(["-INT", &watch.id().to_string()]).status().unwrap();
    assert!(interrupt.success());
    assert_eq!(watch.wait().unwrap().code(), Some(0));
}

// A gateway goes on when it cannot tell of itself.
#[test]
fn what_is_in_the_way_of_status_is_told_once() {
    let home = Home::new();
    fs::create_dir(home.0.path().join("out")).unwrap();
    fs::write(home.0.path().join("out/.gateways"), "a file").unwrap();
    let mut gateway = home.gateway(&["--log-format", "json"]);
    let event = gateway.event("`lro status` will not show this gateway: cannot write its status file");
    assert_eq!(event["level"], "WARN");
    gateway.shake_hands();
    assert!(gateway.call("large").contains("offloaded"));
    gateway.end();
}

#[test]
fn logs_are_json_with_stable_fields() {
    let home = Home::new();
    let mut gateway = home.gateway(&["--ttl-seconds", "1", "--log", "info", "--log-format", "json"]);
    gateway.shake_hands();
    let reply = gateway.call("large");
    let large = gateway.event("large tool result");
    let handle = large["handle"].as_str().unwrap();
    assert!(reply.contains(handle));
    let fields = json!({
        "timestamp": large["timestamp"], "level": "WARN", "message": "large tool result", "tenant": "default",
        "tool": "large", "bytes": LARGE, "limit": 50_000, "unit": "characters", "verdict": "offload", "handle": handle,
    });
    assert_eq!(large, fields);
    let expired = gateway.event("offload expired");
    assert_eq!((&expired["tenant"], &expired["handle"]), (&json!("default"), &json!(handle)));
    assert!(expired["bytes"].as_u64().unwrap() >= LARGE as u64);
    gateway.end();
}

#[test]
fn a_failed_write_is_an_event() {
    let home = Home::new();
    let flags = ["--quota-file", "1000", "--metrics-listen", "127.0.0.1:0"];
    let mut gateway = Gateway::start(
        home.lro(&["gateway"])
            .args(flags)
            .env("LRO_LOG_FORMAT", "json")
            .args(["--", "sh", "-c", SERVER, "sh", "large"]),
    );
    let told: Value = serde_json::from_str(&gateway.line()).unwrap();
    gateway.shake_hands();
    gateway.call("large");
    let failed = gateway.event("write failed");
    assert_eq!(
        (&failed["tenant"], &failed["tool"], &failed["kind"]),
        (&json!("default"), &json!("large"), &json!("store"))
    );
    assert!(failed["error"].as_str().unwrap().contains("quota"), "{failed}");
    let large = gateway.event("large tool result");
    assert_eq!((&large["verdict"], &large["handle"]), (&json!("truncate"), &Value::Null));
    let (_, scraped) = get(&metrics_address_of(told["message"].as_str().unwrap()), "/metrics");
    assert_eq!(metric(&scraped, "lro_failures_total", &[r#"kind="store""#]), 1.0);
    assert_eq!(metric(&scraped, "lro_store_offloads", &[]), 0.0);
    gateway.end();
}

#[test]
fn a_gateway_warns_unless_told_otherwise() {
    let home = Home::new();
    for (level, warns) in [(None, true), (Some("error"), false)] {
        let flags: Vec<&str> = level.iter().flat_map(|level| ["--log", level]).collect();
        let mut gateway = home.gateway(&flags);
        gateway.shake_hands();
        gateway.call("large");
        drop(gateway.input.take());
        let lines: Vec<String> = gateway.errors.iter().collect();
        let found = lines.iter().any(|line| {
            ["WARN", "large tool result", "tool=\"large\"", "bytes=60000", "limit=50000"]
                .iter()
                .all(|part| line.contains(part))
        });
        assert_eq!(found, warns, "{lines:?}");
    }
}

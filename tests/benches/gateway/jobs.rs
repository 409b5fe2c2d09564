//! Measures what jobs that run cost: memory, threads, and the time of other calls.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use lro_tests::{free_port, status_kib};

use crate::client::Client;
use crate::peers::{Process, lro, wait_for};
use crate::shared::{measured, median, millis};
use crate::{SMALL_CALLS, SMALL_RECORDS, asked, upstream};

/// Jobs that run at a time.
const JOBS: usize = 1_000;

/// Rounds of small calls, with and without jobs.
const ROUNDS: usize = 5;

/// Required values.
const JOB_KIB: f64 = 10.0;
const THREADS: f64 = 100.0;
const TIMES_WITHOUT: f64 = 1.5;

/// Measures a gateway before a command, by a client on pipes, and before a server over HTTP, by a client over HTTP.
pub(crate) fn measure() {
    println!("\n{JOBS} jobs that wait for a server, and {SMALL_CALLS} small calls of the same client beside them");
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("lro.toml");
    fs::write(&config, format!("[tools.{}]\njob = \"always\"\n", upstream::SILENT_TOOL)).unwrap();
    let server = std::env::current_exe().unwrap();
    let command = ["--", server.to_str().unwrap(), upstream::ARGUMENT];

    let mut gateway = Process(gateway(directory.path()).env("MCP_LRO_CONFIG", &config).args(command).spawn().unwrap());
    let client = Client::on_pipes(&mut gateway.0);
    report("on pipes, before a command", client, gateway.0.id());

    let [remote, local] = [(), ()].map(|()| format!("127.0.0.1:{}", free_port()));
    // It has to take as many requests of one client.
    let roomy = directory.path().join("remote.toml");
    fs::write(&roomy, format!("[gateway]\nrequests = {}\nconnections = {}\n", 4 * JOBS, 8 * JOBS)).unwrap();
    let mut plain = self::gateway(directory.path());
    plain.env("MCP_LRO_CONFIG", &roomy);
    let _remote = Process(plain.args(["--listen", &remote]).args(command).spawn().unwrap());
    wait_for(&remote);
    let mut proxy = self::gateway(directory.path());
    proxy.args(["--listen", &local, "--upstream", &format!("http://{remote}/mcp")]);
    let proxy = Process(proxy.env("MCP_LRO_CONFIG", &config).spawn().unwrap());
    wait_for(&local);
    report("over HTTP, before HTTP", Client::on_http(&local, "/mcp"), proxy.0.id());
}

fn gateway(directory: &Path) -> Command {
    let log = fs::File::create(directory.join("gateway.log")).unwrap();
    let mut command = Command::new(lro());
    command.arg("gateway").env("MCP_LRO_DIR", directory.join("store")).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
    command
}

/// Compares small calls before and after jobs have begun: both in the same process, one after the other.
fn report(what: &str, mut client: Client, gateway: u32) {
    let without = p99(&mut client);
    let (memory, threads) = (status_kib(gateway, "RssAnon").unwrap(), threads_of(gateway));
    for _ in 0..JOBS {
        let begun = client.call_silent();
        assert!(begun.windows(9).any(|window| window == b"lro_job {"), "{}", String::from_utf8_lossy(&begun));
    }
    let more = (status_kib(gateway, "RssAnon").unwrap().saturating_sub(memory)) as f64 / JOBS as f64;
    let with = p99(&mut client);
    measured(&format!("jobs, {what}: memory of a job"), more, "KiB");
    measured(&format!("jobs, {what}: p99 of a small call without jobs"), millis(without), "ms");
    measured(&format!("jobs, {what}: p99 of a small call with jobs"), millis(with), "ms");
    println!("  {what}: p99 of a small call {:.2} ms without jobs, {:.2} ms with", millis(without), millis(with));
    asked("memory of a job", more, "<", JOB_KIB, "KiB");
    asked("threads more", (threads_of(gateway).saturating_sub(threads)) as f64, "<", THREADS, "");
    asked("p99 with / without", millis(with) / millis(without), "<", TIMES_WITHOUT, "×");
}

/// The median of the rounds' 99th percentiles.
fn p99(client: &mut Client) -> Duration {
    let round = |_| {
        let mut times: Vec<Duration> = (0..SMALL_CALLS).map(|_| client.call(SMALL_RECORDS, false).time).collect();
        times.sort_unstable();
        times[times.len() * 99 / 100]
    };
    let rounds: Vec<Duration> = (0..ROUNDS).map(round).collect();
    median(&rounds)
}

fn threads_of(process: u32) -> usize {
    fs::read_dir(format!("/proc/{process}/task")).unwrap().count()
}

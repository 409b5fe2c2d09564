//! Measures what endless policies of one tenant cost another tenant over HTTP.

use std::fs;
use std::time::Duration;

use lro_tests::component;

use crate::client::Client;
use crate::peers::listening;
use crate::shared::{measured, millis};
use crate::{SMALL_CALLS, SMALL_RECORDS, upstream};

/// Numbers of endless policies.
const LOOPS: [usize; 4] = [0, 1, 2, 16];

/// Required values.
const P99_MILLIS: f64 = 50.0;

/// Time after which they have begun.
const BEGUN: Duration = Duration::from_millis(500);

/// Measures calls of one tenant beside 0, 1, 2 and 16 endless policies of another, before a command and before HTTP.
pub(crate) fn measure() {
    println!("\n{SMALL_CALLS} small calls of one tenant over HTTP beside policies of another that never end");
    let directory = tempfile::tempdir().unwrap();
    let policy = directory.path().join("policy.wasm");
    fs::write(&policy, component("lro_test_policies.wasm")).unwrap();
    let acme = "mode = \"always\"\ncustom = \"inspect-loop\"\nlimits = { wall-time-ms = 600000 }";
    let toml = format!("[tenants.beta]\n[tenants.acme]\npolicy = {policy:?}\n{acme}\n");
    fs::write(directory.path().join("lro.toml"), toml).unwrap();
    for loops in LOOPS {
        let server = std::env::current_exe().unwrap();
        let command = ["--", server.to_str().unwrap(), upstream::ARGUMENT];
        let (address, _gateway) = listening(directory.path(), &command);
        report("before a command", loops, &address);
        // The one before a command is the HTTP server of the other, where all tenants are one.
        let url = format!("http://{address}/mcp");
        let (address, _proxy) = listening(directory.path(), &["--upstream", &url]);
        report("before HTTP", loops, &address);
    }
}

fn report(what: &str, loops: usize, address: &str) {
    let mut endless: Vec<Client> = (0..loops).map(|_| Client::on_http(address, "/mcp/acme")).collect();
    endless.iter_mut().for_each(|client| client.begin(SMALL_RECORDS));
    if loops > 0 {
        std::thread::sleep(BEGUN);
    }
    let mut client = Client::on_http(address, "/mcp/beta");
    let mut times: Vec<Duration> = (0..SMALL_CALLS).map(|_| client.call(SMALL_RECORDS, false).time).collect();
    times.sort_unstable();
    let [p50, p99] = [50, 99].map(|percent| millis(times[times.len() * percent / 100]));
    measured(&format!("{what}, beside {loops} policies that never end: p99"), p99, "ms");
    let met = if p99 < P99_MILLIS { "" } else { "  MISSED" };
    println!(
        "  {what:<18} {loops:>3} loops  p50 {p50:>7.2} ms  p99 {p99:>7.2} ms, asked for under {P99_MILLIS} ms{met}"
    );
}

//! Many sessions that call at a fixed rate, whatever the answers take: an open-loop load over HTTP, before a command.
//!
//! A call that is sent late, as the one before it took long, counts from when it was due, so that a slow moment is seen by all
//! calls that it delays.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use lro_tests::status_kib;

use crate::client::Client;
use crate::peers::listening;
use crate::shared::{measured, millis};
use crate::{SMALL_RECORDS, asked, upstream};

/// The argument that measures this, and nothing else.
pub(crate) const ARGUMENT: &str = "--soak";

/// The settings, by their variable, and their defaults.
const SECONDS: (&str, u64) = ("LRO_SOAK_SECONDS", 60);
const RATE: (&str, u64) = ("LRO_SOAK_RATE", 10_000);
const SESSIONS: (&str, u64) = ("LRO_SOAK_SESSIONS", 1_000);

/// Parts of the run that are compared.
const SLICES: usize = 6;

/// Records of every so many calls, the first that divides the number of the call: one in 1,000 is offloaded.
const SIZES: [(u64, usize); 3] = [(1_000, 1_000), (100, 50), (1, SMALL_RECORDS)];

/// Stack of the thread of a session.
const STACK_BYTES: usize = 256 << 10;

/// Greatest growth from the second slice to the last.
const GROWTH: f64 = 1.2;

/// What the calls of a slice took, and what was lost.
#[derive(Default)]
struct Slice {
    times: Vec<Duration>,
    lost: usize,
    memory_mib: f64,
}

fn setting((name, default): (&str, u64)) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}: not a number")))
}

/// Measures, and prints a line for each slice.
pub(crate) fn measure() {
    let [seconds, rate, sessions] = [SECONDS, RATE, SESSIONS].map(setting);
    println!(
        "\n{sessions} sessions over HTTP before a command each, {rate} calls a second, {seconds} s; times from when a call was due"
    );
    let directory = tempfile::tempdir().unwrap();
    // One address gets a part of what all have.
    let [most, connections] = [4, 8].map(|times| times * sessions);
    let toml = format!("gateway = {{ sessions = {most}, requests = {most}, connections = {connections} }}\n");
    fs::write(directory.path().join("lro.toml"), toml).unwrap();
    let server = std::env::current_exe().unwrap();
    let (address, gateway) = listening(directory.path(), &["--", server.to_str().unwrap(), upstream::ARGUMENT]);
    let clients: Vec<Client> = (0..sessions).map(|_| Client::on_http(&address, "/mcp")).collect();
    let slices: [Mutex<Slice>; SLICES] = std::array::from_fn(|_| Mutex::default());
    let (start, length) = (Instant::now(), Duration::from_secs(seconds));
    let run = |first: u64, mut client: Client| {
        let mut sliced: [Slice; SLICES] = Default::default();
        for call in (first..rate * seconds).step_by(sessions as usize) {
            let due = start + Duration::from_nanos(call * 1_000_000_000 / rate);
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let slice = &mut sliced[(call * SLICES as u64 / (rate * seconds)) as usize];
            let records =
                SIZES.iter().find(|(every, _)| call.is_multiple_of(*every)).map_or(0, |(_, records)| *records);
            if catch_unwind(AssertUnwindSafe(|| client.call(records, false))).is_ok() {
                slice.times.push(due.elapsed());
            } else {
                slice.lost += 1;
                client = Client::on_http(&address, "/mcp");
            }
        }
        for (all, own) in slices.iter().zip(sliced) {
            let mut all = all.lock().unwrap();
            all.times.extend(own.times);
            all.lost += own.lost;
        }
    };
    thread::scope(|scope| {
        for (first, client) in (0..).zip(clients) {
            let run = &run;
            thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, move || run(first, client)).unwrap();
        }
        for (number, slice) in (1..).zip(&slices) {
            thread::sleep((start + length * number / SLICES as u32).saturating_duration_since(Instant::now()));
            let kib = status_kib(gateway.0.id(), "RssAnon").expect("the gateway runs");
            slice.lock().unwrap().memory_mib = kib as f64 / 1024.0;
        }
    });
    report(slices.map(|slice| slice.into_inner().unwrap()), length / SLICES as u32);
}

fn report(mut slices: [Slice; SLICES], length: Duration) {
    slices.iter_mut().for_each(|slice| slice.times.sort_unstable());
    // The least time that so many thousandths of the calls do not exceed.
    let within = |slice: &Slice, thousandths: usize| {
        let last = slice.times.len().saturating_sub(1);
        slice.times.get((slice.times.len() * thousandths / 1000).min(last)).copied().map_or(f64::NAN, millis)
    };
    for (number, slice) in (1..).zip(&slices) {
        let Slice { times, lost, memory_mib } = slice;
        let rate = times.len() as f64 / length.as_secs_f64();
        let [p50, p99, p999] = [500, 990, 999].map(|thousandths| within(slice, thousandths));
        print!("  slice {number}  {rate:>7.0} calls/s  p50 {p50:>8.2} ms  p99 {p99:>8.2} ms  p99.9 {p999:>8.2} ms");
        println!("  lost {lost:>3}  memory {memory_mib:>6.1} MiB");
    }
    // The first has what happens once, too.
    let [_, early, .., late] = &slices;
    asked("lost", slices.iter().map(|slice| slice.lost as f64).sum(), "<", 1.0, "");
    asked("p99, last slice / second", within(late, 990) / within(early, 990), "<", GROWTH, "×");
    asked("memory, last slice / second", late.memory_mib / early.memory_mib, "<", GROWTH, "×");
    measured("soak: p99", within(late, 990), "ms");
    measured("soak: memory", late.memory_mib, "MiB");
}

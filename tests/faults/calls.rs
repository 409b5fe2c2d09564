//! Each system call of an offload that touches files fails, stalls or is the last: the command ends as documented, nothing
//! that is published is damaged, and the next call works.
//!
//! Faults begin where the command opens its input: then the policy is loaded. What comes before is the start of a process.
//! `strace` counts the calls of each thread by itself, so a fault meets the N-th call of its kind in each thread that has so
//! many. A call that a helper thread makes earlier in its life than the main thread was past its start is not met there; the
//! main thread makes the same calls too, because it does a share of the same work. In a gateway each result has threads of
//! its own, so most faults meet every result.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::ops::RangeInclusive;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lro_host::filter::Request;
use lro_host::store::Ulid;
use lro_tests::{always, default_policy, filter_with, offloaded, request, rounds, structured, workspace};
use tempfile::TempDir;

use crate::support::{names, none_starts, output, rows, scratch, spawn, verify};
use crate::trace::{Call, parse, strace, with_lro};

/// How `strace` counts: all calls that concern files, texts and paths in hexadecimal.
const COUNT: [&str; 6] = ["-xx", "-y", "-s", "4096", "-e", "trace=%file,%desc"];

/// Kinds of calls that only the writing of an offload, and the opening of a store, make. In a gateway other kinds concern
/// sockets and the threads of the runtime, too.
const WRITING: [&str; 9] =
    ["fchmod", "flock", "fsync", "getdents64", "mkdirat", "openat2", "pwrite64", "renameat", "unlinkat"];

/// A part of every descriptor in a text block.
const DESCRIPTOR: &str = r#"\"offloaded\":true"#;

/// The tenant of a command that names none.
const TENANT: &str = "default";

/// Less than the data of the default policy, which lies in memory that the system counts as a file: without it, no policy runs.
const POLICY_DATA_BYTES: u64 = 4096;

/// Longest run of a command, however slow the machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A call to meet: its kind, and its number among those of its kind in its thread, from 1.
#[derive(PartialEq, Eq)]
struct Point {
    kind: String,
    number: usize,
    /// Whether it concerns the input or the standard output, without which there is no result to give.
    is_stream: bool,
}

/// What happens at a point, as `strace` is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Error(&'static str),
    Delay,
    Kill,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// The descriptor of a whole offload.
    Offloaded,
    /// A part of the result, and a warning.
    Truncated,
    /// That, and of the next result the descriptor, from the same process.
    Recovered,
    /// All of the result, and a warning.
    Passed,
    /// No result, and an error.
    Failed,
    Killed,
}

/// An empty store, and a result to offload.
struct Place(TempDir);

/// What a run left.
struct Ended {
    status: ExitStatus,
    output: Vec<u8>,
    errors: String,
    log: String,
}

/// A command that faults are tried with.
trait Tried {
    /// How many results it offloads when nothing goes wrong.
    const RESULTS: usize;

    /// Runs it under `strace`. Panics when it does not end in time.
    fn run(&self, place: &Place, options: &[&str]) -> Ended;

    /// Whether it ended as documented.
    fn judge(&self, place: &Place, ended: &Ended, point: &Point) -> Result<Outcome, String>;
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Error(error) => error,
            Self::Delay => "delay",
            Self::Kill => "kill",
        })
    }
}

impl Place {
    fn new() -> Self {
        let place = Self(scratch());
        let text = "A line of text.\\n".repeat(200);
        let structured = format!(r#"{{"rows":{},"more":{}}}"#, rows(1200), rows(100));
        let content = format!(r#"{{"content":[{{"type":"text","text":"{text}"}}],"structuredContent":{structured}}}"#);
        fs::write(place.input(), content).unwrap();
        place
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn input(&self) -> PathBuf {
        self.file("input.json")
    }

    fn store(&self) -> PathBuf {
        self.file("offloads")
    }

    /// Arguments of any command.
    fn arguments(&self, more: &[&str]) -> Vec<String> {
        let store = self.store();
        let all = [&["--dir", store.to_str().unwrap(), "--mode", "always"], more].concat();
        all.into_iter().map(str::to_owned).collect()
    }

    fn offload(&self) -> Vec<String> {
        self.arguments(&["offload", self.input().to_str().unwrap()])
    }

    /// A command under `strace`, in a process group of its own.
    fn traced(&self, options: &[&str], arguments: &[String]) -> Command {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut command = with_lro(strace(options, &self.file("log")), &arguments);
        command.stdout(File::create(self.file("stdout")).unwrap());
        command.stderr(File::create(self.file("stderr")).unwrap()).process_group(0);
        command
    }

    fn ended(&self, status: ExitStatus, output: Vec<u8>) -> Ended {
        let text = |name: &str| fs::read_to_string(self.file(name)).unwrap();
        Ended { status, output, errors: text("stderr"), log: text("log") }
    }
}

impl Ended {
    /// The calls, of a run that went well.
    fn calls(&self) -> Vec<Call> {
        assert!(self.status.success(), "{}: {}", self.status, self.errors);
        parse(&self.log)
    }
}

/// `lro offload`.
struct Offload;

impl Tried for Offload {
    const RESULTS: usize = 1;

    fn run(&self, place: &Place, options: &[&str]) -> Ended {
        let status = end(&mut spawn(&mut place.traced(options, &place.offload())), options);
        place.ended(status, fs::read(place.file("stdout")).unwrap())
    }

    fn judge(&self, place: &Place, ended: &Ended, point: &Point) -> Result<Outcome, String> {
        let Ended { status, output, errors, .. } = ended;
        match status.code() {
            Some(0) if errors.is_empty() && String::from_utf8_lossy(output).contains(DESCRIPTOR) => {
                Ok(Outcome::Offloaded)
            }
            Some(0) if errors.starts_with("warning: ") => outcome_of(&fs::read(place.input()).unwrap(), output),
            Some(1) if errors.starts_with("error: ") && point.is_stream => Ok(Outcome::Failed),
            _ => Err(format!("{status}, {} bytes, {errors:?}", output.len())),
        }
    }
}

/// What a result that was not offloaded is.
fn outcome_of(whole: &[u8], given: &[u8]) -> Result<Outcome, String> {
    match serde_json::from_slice::<serde_json::Value>(given) {
        Ok(_) if given == whole => Ok(Outcome::Passed),
        Ok(_) if given.len() > 1000 => Ok(Outcome::Truncated),
        _ => Err(format!("no result: {}", String::from_utf8_lossy(given))),
    }
}

/// `lro gateway` on standard streams, in front of a server over HTTP: so that no other process is traced.
struct Gateway {
    server: Child,
    url: String,
}

impl Gateway {
    fn start() -> Self {
        let script = workspace().join("tests/tools/servers/faulty.py");
        let mut command = Command::new("python3");
        command.args(["-I", "-S"]).arg(script).arg("--http").stdin(Stdio::null()).stderr(Stdio::piped());
        let mut server = spawn(&mut command);
        let mut line = String::new();
        BufReader::new(server.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("serving ").unwrap().to_owned();
        Self { server, url }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Tried for Gateway {
    const RESULTS: usize = 2;

    /// A handshake and two calls, each sent when the one before was answered.
    fn run(&self, place: &Place, options: &[&str]) -> Ended {
        let call = |id: &str, method: &str, params: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"{method}","params":{params}}}"#)
        };
        let client =
            r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"tests","version":"1"}}"#;
        let records = r#"{"name":"records","arguments":{"count":900}}"#;
        let requests =
            [call("1", "initialize", client), call("2", "tools/call", records), call("3", "tools/call", records)];
        let arguments = place.arguments(&["gateway", "--upstream", &self.url]);
        let mut command = place.traced(options, &arguments);
        let mut child = spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
        let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let talk = std::thread::spawn(move || {
            let (mut output, mut answers) = (BufReader::new(output), Vec::new());
            for request in requests {
                // A gateway that was killed is told nothing.
                let _ = writeln!(input, "{request}");
                output.read_until(b'\n', &mut answers).unwrap();
            }
            answers
        });
        let status = end(&mut child, options);
        place.ended(status, talk.join().unwrap())
    }

    fn judge(&self, _: &Place, ended: &Ended, _: &Point) -> Result<Outcome, String> {
        let Ended { status, output, errors, .. } = ended;
        let answers: Vec<&[u8]> = output.split_inclusive(|byte| *byte == b'\n').collect();
        if status.code() == Some(1) && answers.is_empty() && errors.starts_with("error: ") {
            // It did not start.
            return Ok(Outcome::Failed);
        }
        if !status.success() || answers.len() != 3 {
            return Err(format!("{status}, {} answers, {errors:?}", answers.len()));
        }
        let outcomes = answers[1..].iter().map(|answer| match String::from_utf8_lossy(answer) {
            text if text.contains(DESCRIPTOR) => Ok(Outcome::Offloaded),
            text if text.contains("could not be written to files") => outcome_of(&[], answer),
            text => Err(format!("{text:.200}, {errors:?}")),
        });
        Ok(match outcomes.collect::<Result<Vec<_>, _>>()?[..] {
            [Outcome::Offloaded, Outcome::Offloaded] => Outcome::Offloaded,
            [_, Outcome::Offloaded] => Outcome::Recovered,
            _ => Outcome::Truncated,
        })
    }
}

/// Waits for the end of a process. Ends its group and panics when there is none in time.
fn end(child: &mut Child, what: &[&str]) -> ExitStatus {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if started.elapsed() > PATIENCE {
            let _ = Command::new("kill").args(["-9", "--", &format!("-{}", child.id())]).status();
            panic!("{what:?}: no end within {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The calls that can be met, from one on, by kind. Without some files there is no result to give.
fn points(calls: &[Call], first: usize, streams: &[PathBuf]) -> Vec<Point> {
    let main = calls[0].thread;
    let mut before = BTreeMap::<&str, usize>::new();
    for call in calls[..first].iter().filter(|call| call.thread == main) {
        *before.entry(&call.name).or_default() += 1;
    }
    let (mut counts, mut points) = (BTreeMap::<(u32, &str), usize>::new(), BTreeMap::new());
    for call in calls {
        let number = counts.entry((call.thread, &call.name)).or_default();
        *number += 1;
        // Without memory no process goes on, and memory that has no file is no matter here.
        let is_memory = call.name == "mmap" && call.descriptor(4).is_none();
        if *number > before.get(call.name.as_str()).copied().unwrap_or(0) && !is_memory {
            let point = Point { kind: call.name.clone(), number: *number, is_stream: false };
            let known: &mut Point = points.entry((&call.name, *number)).or_insert(point);
            let opened = if call.name == "openat" { Some(call.path_at(0)) } else { None };
            let file = opened.or_else(|| call.descriptor(0).map(|(_, path)| path));
            known.is_stream |= file.is_some_and(|file| streams.contains(&file));
        }
    }
    points.into_values().collect()
}

/// What is tried at a point. The long form tries everything everywhere.
fn faults(kind: &str) -> Vec<Fault> {
    use Fault::{Delay, Error, Kill};
    if rounds("LRO_FAULTS_ALL", 0) > 0 {
        let errors = ["EIO", "ENOSPC", "EMFILE", "EINTR", "EACCES", "ENOMEM"].map(Error);
        return errors.into_iter().chain([Delay, Kill]).collect();
    }
    match kind {
        "openat" | "openat2" | "fcntl" => vec![Error("EMFILE"), Kill],
        "write" | "pwrite64" => vec![Error("ENOSPC"), Error("EINTR"), Delay, Kill],
        "fsync" | "renameat" | "renameat2" => vec![Error("EIO"), Error("EINTR"), Delay, Kill],
        "mkdir" | "mkdirat" => vec![Error("ENOSPC"), Kill],
        "read" | "flock" | "unlinkat" => vec![Error("EIO"), Error("EINTR"), Kill],
        "fstat" | "statx" | "newfstatat" | "close" | "lseek" | "ioctl" => vec![Error("EIO")],
        _ => vec![Error("EIO"), Kill],
    }
}

/// Runs a command with a fault, and judges how it ended and what it left. `None` when the fault was not met.
fn try_fault<C: Tried>(command: &C, point: &Point, fault: Fault) -> Result<Option<Outcome>, String> {
    let place = Place::new();
    let action = match fault {
        Fault::Error(error) => format!("error={error}"),
        Fault::Delay => "delay_enter=100000".to_owned(),
        Fault::Kill => "signal=SIGKILL".to_owned(),
    };
    let inject = format!("inject={}:{action}:when={}", point.kind, point.number);
    let ended = command.run(&place, &["-y", "-e", &format!("trace={}", point.kind), "-e", &inject]);
    let Ended { status, errors, .. } = &ended;
    if errors.contains("panicked") || errors.contains("fatal") {
        return Err(format!("a panic: {errors}"));
    }
    let is_killed = fault == Fault::Kill && status.signal() == Some(9);
    let outcome = if is_killed { Outcome::Killed } else { command.judge(&place, &ended, point)? };
    judge_store(&place, published_by(outcome, C::RESULTS))?;
    let is_met = match fault {
        Fault::Error(_) => ended.log.contains("(INJECTED)"),
        Fault::Delay => ended.log.contains("(DELAYED)"),
        Fault::Kill => is_killed,
    };
    Ok(is_met.then_some(outcome))
}

/// How many offloads are published by a command that would publish so many.
fn published_by(outcome: Outcome, results: usize) -> RangeInclusive<usize> {
    match outcome {
        Outcome::Offloaded => results..=results,
        Outcome::Truncated | Outcome::Recovered | Outcome::Passed => 0..=results - 1,
        Outcome::Failed | Outcome::Killed => 0..=results,
    }
}

/// So many offloads are published, they are whole, and the next call leaves nothing else.
fn judge_store(place: &Place, expected: RangeInclusive<usize>) -> Result<(), String> {
    let _none_starts = none_starts();
    let tenant = place.store().join(TENANT);
    let ids = || names(&tenant).iter().filter_map(|name| name.parse().ok()).collect::<BTreeSet<Ulid>>();
    let published = ids();
    if !expected.contains(&published.len()) {
        return Err(format!("published is {published:?}"));
    }
    let filter = filter_with(default_policy(), &place.store());
    let next = Request { tenant: TENANT.to_owned(), ..request(always()) };
    offloaded(filter.apply(&next, &structured(rows(20))));
    let store = filter.store.as_ref().unwrap();
    for id in ids() {
        verify(store, TENANT, id).map_err(|error| format!("{id}: {error}"))?;
    }
    if ids().len() != published.len() + 1 || names(&tenant).len() != ids().len() {
        return Err(format!("left after the next call: {:?}", names(&tenant)));
    }
    match names(&place.store().join(".owners")).len() {
        1 => Ok(()),
        owners => Err(format!("{owners} owner files after the next call")),
    }
}

/// Tries every fault at every point, and prints what came of it. Panics when anything is not as documented.
fn try_all(command: &(impl Tried + Sync), points: &[Point]) {
    let started = Instant::now();
    let tries: Vec<(&Point, Fault)> =
        points.iter().flat_map(|point| faults(&point.kind).into_iter().map(move |fault| (point, fault))).collect();
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let table = Mutex::new(BTreeMap::<(&str, Fault), Vec<Option<Outcome>>>::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((point, fault)) = tries.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match try_fault(command, point, *fault) {
                        Ok(outcome) => {
                            table.lock().unwrap().entry((&point.kind, *fault)).or_default().push(outcome);
                        }
                        Err(error) => {
                            let text = format!("{fault:?} at {} number {}: {error}", point.kind, point.number);
                            wrong.lock().unwrap().push(text);
                        }
                    }
                }
            });
        }
    });
    let mut missed = 0;
    for ((kind, fault), mut outcomes) in table.into_inner().unwrap() {
        outcomes.sort();
        let counted = outcomes.chunk_by(|one, other| one == other).filter_map(|same| Some((same.len(), same[0]?)));
        let counted: Vec<String> = counted.map(|(count, outcome)| format!("{count} {outcome:?}")).collect();
        println!("{kind:12} {fault:8} {}", counted.join(", "));
        missed += outcomes.iter().filter(|outcome| outcome.is_none()).count();
    }
    let (points, tries) = (points.len(), tries.len());
    println!("{points} points, {tries} faults, of them not met {missed}, {:?}", started.elapsed());
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(missed * 10 < tries, "a tenth of the faults was not met");
}

#[test]
fn any_call_of_an_offload_may_fail() {
    let place = Place::new();
    let ended = Offload.run(&place, &COUNT);
    let calls = ended.calls();
    let is_input = |call: &Call| call.name == "openat" && call.path_at(0) == place.input();
    let loaded = calls.iter().position(is_input).unwrap_or_else(|| panic!("the input is not opened"));
    let points = points(&calls, loaded, &[place.input(), place.file("stdout")]);
    assert!(points.len() > 100, "{} points", points.len());
    try_all(&Offload, &points);
}

#[test]
fn any_call_that_a_gateway_writes_with_may_fail() {
    let gateway = Gateway::start();
    // What is done in one run alone, as by chance, cannot be met in the next.
    let [mut points, second, third] = [(); 3].map(|()| points(&gateway.run(&Place::new(), &COUNT).calls(), 0, &[]));
    points.retain(|point| WRITING.contains(&point.kind.as_str()) && second.contains(point) && third.contains(point));
    assert!(points.len() > 20, "{} points", points.len());
    try_all(&gateway, &points);
}

// A disk that says it has what it never got.
#[test]
fn what_a_disk_forgot_is_not_given_out() {
    let place = Place::new();
    let ended = Offload.run(&place, &COUNT);
    let is_write = |call: &&Call| {
        let path = call.descriptor(0).map(|(_, path)| path);
        matches!(call.name.as_str(), "write" | "pwrite64") && path.is_some_and(|path| path.starts_with(place.store()))
    };
    let calls = ended.calls();
    let (mut counts, mut found) = (BTreeMap::<&str, usize>::new(), 0);
    for call in calls.iter().filter(is_write) {
        let number = counts.entry(&call.name).or_default();
        *number += 1;
        let place = Place::new();
        let inject = format!("inject={}:retval={}:when={number}", call.name, call.result.unwrap());
        let ended = Offload.run(&place, &["-e", &format!("trace={}", call.name), "-e", &inject]);
        let output = String::from_utf8(ended.output).unwrap();
        let refused = judge_store(&place, 1..=1).expect_err(&output);
        println!("{} number {number}: {refused}", call.name);
        let is_seen = ["has changed", "Manifest", "published is {}"].iter().any(|text| refused.contains(text));
        assert!(is_seen, "{} number {number}: {refused}", call.name);
        found += 1;
    }
    assert!(found >= 5, "{found} writes");
}

// A signal that comes in between is nobody's failure.
#[test]
fn an_interrupted_call_is_made_again() {
    let counted = Offload.run(&Place::new(), &COUNT).calls();
    for kind in ["flock", "fsync"] {
        let count = counted.iter().filter(|call| call.name == kind).count();
        assert!(count > 0, "no {kind}");
        for number in 1..=count {
            let (place, inject) = (Place::new(), format!("inject={kind}:error=EINTR:when={number}"));
            let ended = Offload.run(&place, &["-e", &format!("trace={kind}"), "-e", &inject]);
            let output = String::from_utf8_lossy(&ended.output);
            assert!(output.contains(DESCRIPTOR) && ended.errors.is_empty(), "{kind} {number}: {}", ended.errors);
            judge_store(&place, 1..=1).unwrap();
        }
    }
}

// A write that ends early, and one that fails.
#[test]
fn a_file_may_not_grow_beyond_any_length() {
    let place = Place::new();
    let longest = {
        assert!(Offload.run(&place, &COUNT).status.success());
        let tenant = place.store().join(TENANT);
        let id = names(&tenant).pop_first().unwrap();
        let sizes =
            names(&tenant.join(&id)).into_iter().map(|name| tenant.join(&id).join(name).metadata().unwrap().len());
        sizes.max().unwrap()
    };
    // Three quarters of the longest file are more than the data of the policy.
    for limit in [0, 1, 15, 16, 4095, 4096, longest / 4 * 3, longest - 1, longest] {
        let place = Place::new();
        let mut command = Command::new("prlimit");
        command.arg(format!("--fsize={limit}"));
        let arguments = place.offload();
        let output = output(with_lro(command, &arguments.iter().map(String::as_str).collect::<Vec<_>>()));
        let (text, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        if limit <= POLICY_DATA_BYTES {
            assert_eq!(output.status.code(), Some(1), "{limit}: {errors}");
            assert!(
                errors.contains("policy cannot be started") && errors.contains("File too large"),
                "{limit}: {errors}"
            );
            judge_store(&place, 0..=0).unwrap_or_else(|error| panic!("{limit}: {error}"));
            continue;
        }
        assert_eq!(output.status.code(), Some(0), "{limit}: {errors}");
        let is_offloaded = text.contains(DESCRIPTOR);
        assert_eq!(is_offloaded, limit == longest, "{limit}: {errors}");
        assert_eq!(errors.is_empty(), is_offloaded, "{limit}: {errors}");
        let published = usize::from(is_offloaded);
        judge_store(&place, published..=published).unwrap_or_else(|error| panic!("{limit}: {error}"));
    }
}

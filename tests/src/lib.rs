//! Shared by the tests: paths, filters, and the Python checker.
//!
//! A helper that cannot prepare a test panics with the command to run.

#![expect(clippy::expect_used, clippy::panic, reason = "every caller is a test")]

pub mod bucket;
pub mod synthetic;
pub mod vectors;

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use lro_gateway::settings::{Config, DecisionMode, DescriptorLevel, FailureMode, PolicySettings, QueryLimits};
use lro_host::extract::Extractor;
use lro_host::filter::{Decision, Filter, Offloaded, Outcome, Request};
use lro_host::policy::{
    CompileCache, CompileLimits, CompilePlace, Compiler, DEFAULT_POLICY, LoadOptions, Policy, Slot,
};
use lro_host::sandbox::types::{Call, Reader};
use lro_host::sandbox::{Limits, Part, PartKind, Payload, Sandbox};
use lro_host::store::{Fsync, Store, StoreConfig};

/// The only tenant of most tests.
pub const TENANT: &str = "tests";

/// Exit status of `check.py` for a finding, distinct from that of a crash of the checker.
const FOUND: i32 = 3;

/// Root of the workspace.
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the workspace").to_owned()
}

/// Cargo's target directory.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from)
}

/// Installed test data: `npm/PACKAGE/FILE` or `python/PACKAGE/FILE`.
pub fn test_data(path: &str) -> PathBuf {
    let root = target().join("test-data");
    let found = match path.split_once('/') {
        Some(("npm", rest)) => root.join("npm/node_modules").join(rest),
        Some(("python", rest)) => {
            let libraries = std::fs::read_dir(root.join("venv/lib")).ok().and_then(|mut entries| entries.next());
            let library = libraries.and_then(Result::ok).map_or_else(PathBuf::new, |entry| entry.path());
            library.join("site-packages").join(rest)
        }
        _ => panic!("`{path}` begins with neither `npm/` nor `python/`"),
    };
    assert!(found.exists(), "{} is not there: run `make test-data`", found.display());
    found
}

/// Reads a text file of the test data.
pub fn read_data(path: &str) -> String {
    read(&test_data(path))
}

/// Reads a text file.
pub fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Runs `tests/tools/check.py` and returns its JSON. Panics with its message on a finding.
pub fn check(arguments: &[&dyn AsRef<std::ffi::OsStr>]) -> serde_json::Value {
    match try_check(arguments) {
        Ok(counts) => counts,
        Err(text) => panic!("check.py {text}"),
    }
}

/// As [`check`], but does nothing on Windows, for which `make test-data` installs no Python.
pub fn check_on_unix(arguments: &[&dyn AsRef<std::ffi::OsStr>]) {
    if cfg!(unix) {
        check(arguments);
    }
}

/// As [`check`], but returns findings as an error.
///
/// # Errors
/// The standard error of the checker.
pub fn try_check(arguments: &[&dyn AsRef<std::ffi::OsStr>]) -> Result<serde_json::Value, String> {
    let python = target().join("test-data/venv/bin/python");
    assert!(python.exists(), "{} is not there: run `make test-data`", python.display());
    let script = workspace().join("tests/tools/check.py");
    let output = Command::new(python).arg(script).args(arguments).output().expect("Python starts");
    if output.status.success() {
        return Ok(serde_json::from_slice(&output.stdout).expect("the checker prints JSON"));
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(FOUND), "the checker itself failed: {text}");
    Err(text)
}

/// The engine that all tests of a process share.
pub fn sandbox() -> &'static Sandbox {
    static SANDBOX: OnceLock<Sandbox> = OnceLock::new();
    SANDBOX.get_or_init(|| Sandbox::new().expect("an engine"))
}

/// Limits in which a policy compiles, however busy the machine is.
pub fn patient_limits() -> CompileLimits {
    CompileLimits { time: Duration::from_secs(600), ..CompileLimits::default() }
}

/// Options with [`patient_limits`], and with code that any test has compiled before.
pub fn patient() -> LoadOptions {
    let compiler = Compiler::new(CompilePlace::Thread, patient_limits());
    LoadOptions { compiler, cache: Some(compiled()), ..LoadOptions::default() }
}

/// The cache of compiled code that all tests share: to compile a component takes a second.
fn compiled() -> CompileCache {
    static CACHE: OnceLock<CompileCache> = OnceLock::new();
    let open = || CompileCache::open(target().join("tmp/compiled")).expect("a cache in the target directory");
    CACHE.get_or_init(open).clone()
}

/// The default policy, compiled once.
pub fn default_policy() -> Policy {
    static POLICY: OnceLock<Policy> = OnceLock::new();
    let load = || Policy::from_bytes(sandbox(), DEFAULT_POLICY, &patient()).expect("the default policy");
    POLICY.get_or_init(load).clone()
}

/// The policies of `tests/policies`, compiled once.
pub fn hostile_policy() -> Policy {
    static POLICY: OnceLock<Policy> = OnceLock::new();
    let load = || {
        let path = target().join("wasm32-unknown-unknown/component/lro_test_policies.wasm");
        let hint = "cargo build --profile component --target wasm32-unknown-unknown -p lro-test-policies";
        Policy::from_file(sandbox(), &path, &patient()).unwrap_or_else(|error| panic!("{error}: run `{hint}`"))
    };
    POLICY.get_or_init(load).clone()
}

/// The built-in extract component, compiled once, with the default limits of the configuration.
pub fn extractor() -> Extractor {
    extractor_with(&Config::default().query)
}

/// As [`extractor`], with other limits.
pub fn extractor_with(limits: &QueryLimits) -> Extractor {
    // One test compiles, and the others wait for it.
    static COMPILING: Mutex<()> = Mutex::new(());
    let _compiling = COMPILING.lock();
    let extractor = Extractor::new(sandbox(), Some(compiled()), limits.into()).expect("the built-in component");
    extractor.with_instances(limits.instances.get())
}

/// A filter with a policy, or a slot, that writes below `root`, without `fsync`.
pub fn filter_with(policy: impl Into<Arc<Slot>>, root: &Path) -> Filter {
    let config = StoreConfig { fsync: Fsync::Never, ..StoreConfig::new(root) };
    let store = Ok(Store::open(config).expect("a store"));
    Filter { slot: policy.into(), store, limits: Limits::default(), failure: FailureMode::Open, documents: None }
}

/// A filter with the default policy that writes below `root`.
pub fn filter(root: &Path) -> Filter {
    filter_with(default_policy(), root)
}

/// The default settings.
pub fn settings() -> PolicySettings {
    Config::default().for_tool("tool")
}

/// The default settings, except that every result is written to files.
pub fn always() -> PolicySettings {
    PolicySettings { mode: DecisionMode::Always, ..settings() }
}

/// As [`always`], with descriptors at the full level.
pub fn always_full() -> PolicySettings {
    PolicySettings { level: DescriptorLevel::Full, ..always() }
}

/// A call of a tool whose reader has a shell.
pub fn request(settings: PolicySettings) -> Request {
    Request { settings: Arc::new(settings), ..Request::new(TENANT, "tool") }
}

/// The call for a request, with a fixed id and time.
pub fn call_of(request: Request) -> Call {
    Call {
        id: "01K00000000000000000000000".to_owned(),
        time: "2026-11-20T09:30:00Z".to_owned(),
        tenant: request.tenant,
        session: request.session,
        tool: request.tool,
        query: request.query,
        input_schema: request.input_schema,
        is_error: request.is_error,
        shown_path: "/shown".to_owned(),
        reader: Reader { abilities: request.abilities, limit: request.reader_limit.map(Into::into) },
        settings: request.settings.as_ref().into(),
    }
}

/// Processor time of this thread, in steps of 10 ms: a bound on it holds on a busy machine.
pub fn processor_time() -> Duration {
    let stat = read(Path::new("/proc/thread-self/stat"));
    // The name of the thread, in parentheses, may contain spaces.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = fields.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap_or_default());
    Duration::from_millis(ticks.sum::<u64>() * 10)
}

/// What Linux says of the memory of a process, in KiB: `VmHWM` is the peak of what is resident, `RssAnon` what is anonymous. `None` when
/// it has ended.
pub fn status_kib(process: u32, name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// A port that is free. When another process takes it first, the caller fails.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("an address").port()
}

/// A built component, such as `lro_policy.wasm`.
pub fn component(name: &str) -> Vec<u8> {
    let path = target().join("wasm32-unknown-unknown/component").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A version of the component of `tests/policies` that signs with this number.
pub fn version(number: u32) -> Vec<u8> {
    // The default signature, which is replaced.
    replaced(&component("lro_test_policies.wasm"), b"SIGNATURE-AAAAAAAA", signature(number).as_bytes())
}

/// The signature of version `number`.
pub fn signature(number: u32) -> String {
    format!("SIGNATURE-{number:08}")
}

/// Replaces the only occurrence of a marker with another of the same length.
pub fn replaced(bytes: &[u8], marker: &[u8], by: &[u8]) -> Vec<u8> {
    assert_eq!(marker.len(), by.len());
    let places: Vec<_> =
        bytes.windows(marker.len()).enumerate().filter(|(_, window)| *window == marker).map(|(at, _)| at).collect();
    let [at] = places[..] else { panic!("{} markers", places.len()) };
    [&bytes[..at], by, &bytes[at + marker.len()..]].concat()
}

/// The imports of the outermost component.
pub fn imports(component: &[u8]) -> BTreeSet<String> {
    let (mut imports, mut depth) = (BTreeSet::new(), 0);
    for payload in wasmparser::Parser::new(0).parse_all(component) {
        match payload.expect("a component") {
            wasmparser::Payload::ModuleSection { .. } | wasmparser::Payload::ComponentSection { .. } => depth += 1,
            wasmparser::Payload::End(_) => depth -= 1,
            wasmparser::Payload::ComponentImportSection(section) if depth == 0 => {
                imports.extend(section.into_iter().map(|import| import.expect("an import").name.name.to_owned()));
            }
            _ => {}
        }
    }
    imports
}

/// Panics when a filter with this component as its policy grows memory for small results: what grows is protected again after the
/// call, for which the system interrupts all processors.
pub fn assert_memory_of_the_start(filter: &Filter, component: &[u8]) {
    let initial = initial_memory_bytes(component);
    for records in [0, 1, 10, 50] {
        let decision = filter.apply(&request(settings()), &text(synthetic::payload(records)));
        assert!(matches!(decision.outcome, Outcome::Pass), "{records}: {:?}", decision.outcome);
        assert_eq!(decision.inspect.expect("a call").memory_bytes, initial, "{records}");
    }
}

/// The memory that an instance of a component has from its start, in bytes.
fn initial_memory_bytes(component: &[u8]) -> usize {
    let mut bytes = 0;
    for payload in wasmparser::Parser::new(0).parse_all(component) {
        if let wasmparser::Payload::MemorySection(memories) = payload.expect("a component") {
            for memory in memories {
                bytes += usize::try_from(memory.expect("a memory").initial).expect("32 bits") * WASM_PAGE_BYTES;
            }
        }
    }
    bytes
}

/// A page of linear memory.
const WASM_PAGE_BYTES: usize = 64 << 10;

/// How often [`wait_until`] looks, with pauses of 5 ms: two minutes at least, after which it is a hang.
const LOOKS_MAX: usize = 24_000;

/// Waits for a condition. Panics when it does not come.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..LOOKS_MAX {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("never: {what}");
}

/// The number of rounds from a variable, or a default that keeps the suite short.
pub fn rounds(variable: &str, default: usize) -> usize {
    std::env::var(variable).map_or(default, |text| text.parse().expect(variable))
}

/// A result with one part of structured content.
pub fn structured(json: impl Into<Bytes>) -> Arc<Payload> {
    one_part(PartKind::Structured, json)
}

/// A result with one text.
pub fn text(text: impl Into<Bytes>) -> Arc<Payload> {
    one_part(PartKind::Text, text)
}

fn one_part(kind: PartKind, text: impl Into<Bytes>) -> Arc<Payload> {
    Arc::new(Payload::new(vec![Part::text(kind, text.into()).expect("UTF-8")]))
}

/// The offload that a decision published. Panics on any other decision.
pub fn offloaded(decision: Decision) -> Offloaded {
    match decision.outcome {
        Outcome::Offload(offloaded) => *offloaded,
        other => panic!("{other:?}, because of {:?}", decision.failure),
    }
}

/// The descriptor with other words in the place of the directory, whose backslashes on Windows JSON doubles.
pub fn with_directory(offloaded: &Offloaded, words: &str) -> String {
    let path = serde_json::to_string(offloaded.offload.path()).expect("a path in UTF-8");
    offloaded.descriptor.replace(path.trim_matches('"'), words)
}

/// The keys of a JSON object, in order.
pub fn keys(object: &str) -> Vec<String> {
    lro_json::members(object).expect("an object").iter().map(|member| member.key.trim_matches('"').to_owned()).collect()
}

//! `lro self-check`: what works on this machine.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;
use std::{env, fs, io};

use anyhow::Context;
use bytes::Bytes;
use clap::Args;
use lro_gateway::parts;
use lro_gateway::settings::{Config, DecisionMode, PolicySettings, StorePlace};
use lro_host::filter::{Outcome, Request};
use lro_host::sandbox::{Addressing, CONCURRENT_CALLS_MAX, Part, PartKind, Payload};
use lro_host::store::{Fsync, Store, StoreConfig};
use lro_transport::Isolation;
use serde::Serialize;
use tempfile::{NamedTempFile, TempDir};

use crate::exit::{self, Exit};
use crate::file_system::FileSystem;
use crate::{host, output};

const EXAMPLES: &str = "Examples:
  lro self-check
  lro self-check --config lro.toml
  lro self-check --json | jq -r '.[] | select(.state != \"ok\") | .advice'

Exit codes:
  0  nothing fails
  1  something fails
  2  usage or configuration";

/// With less memory than this, in bytes, a large result may not be filtered: 512 MiB.
const MEMORY_BYTES_MIN: u64 = 512 << 20;

/// Show what works on this machine: the store, its bucket, the sandbox, the cache, the isolation of servers
///
/// Runs each part once, and keeps nothing. `weaker` works, with less speed or protection; `fails` does not.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Print one line of JSON: a list of {check, state, found, advice}
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    Weaker,
    Fails,
}

/// What was found about one part.
#[derive(Serialize)]
struct Check {
    check: &'static str,
    state: State,
    found: String,
    /// The way out.
    advice: Option<String>,
}

impl Check {
    fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, state: State::Ok, found: found.into(), advice: None }
    }

    fn weaker(check: &'static str, found: impl Into<String>, advice: &str) -> Self {
        Self { check, state: State::Weaker, found: found.into(), advice: Some(advice.to_owned()) }
    }

    fn fails(check: &'static str, error: &anyhow::Error, advice: &str) -> Self {
        let advice = exit::hint(error).unwrap_or(advice).to_owned();
        Self { check, state: State::Fails, found: format!("{error:#}"), advice: Some(advice) }
    }
}

pub(crate) fn run(arguments: &Arguments, config: &Config) -> anyhow::Result<Exit> {
    let store = host::store(config);
    let (synced, bucket) = match &store {
        Ok(store) => (Some(synced(config, store)), bucket(config, store)),
        Err(_) => (None, None),
    };
    let checks = [
        Some(directory(store)),
        synced,
        bucket,
        Some(pool()),
        Some(policy(config)),
        Some(questions(config)),
        Some(cache(config)),
        Some(isolation(config)),
        memory(),
        Some(terminal()),
        Some(jq()),
    ];
    let checks: Vec<Check> = checks.into_iter().flatten().collect();
    match arguments.json {
        true => output::json(&checks)?,
        false => output::text(&text(&checks))?,
    }
    let has_failed = checks.iter().any(|check| check.state == State::Fails);
    Ok(if has_failed { Exit::Error } else { Exit::Success })
}

fn text(checks: &[Check]) -> String {
    let mut text = String::new();
    for Check { check, state, found, advice } in checks {
        let state = match state {
            State::Ok => "ok",
            State::Weaker => "weaker",
            State::Fails => "fails",
        };
        text += &format!("{state:6}  {check:9}  {found}\n");
        if let Some(advice) = advice {
            text += &format!("{:19}{advice}\n", "");
        }
    }
    text
}

/// The directory of offloads: private, and on which file system.
fn directory(store: Result<Store, lro_host::store::StoreError>) -> Check {
    const CHECK: &str = "store";
    let store = match store {
        Ok(store) => store,
        Err(error) => {
            return Check::fails(CHECK, &error.into(), "choose a private directory with --dir or MCP_LRO_DIR");
        }
    };
    let root = store.root();
    let found = |kind: &str| format!("{} is private, on {kind}", root.display());
    match FileSystem::of(root) {
        Ok(Some(FileSystem { name, weakness: Some(advice) })) => Check::weaker(CHECK, found(&name), advice),
        Ok(Some(FileSystem { name, weakness: None })) => Check::ok(CHECK, found(&name)),
        Ok(None) if cfg!(windows) => Check::weaker(
            CHECK,
            format!("{} has the access rights of the directory that it is in", root.display()),
            "keep it in your profile, as by default: --dir or MCP_LRO_DIR",
        ),
        Ok(None) => Check::ok(CHECK, format!("{} is private", root.display())),
        Err(error) => Check::fails(CHECK, &error.into(), "choose another disk with --dir"),
    }
}

/// Whether what is written reaches the disk.
fn synced(config: &Config, store: &Store) -> Check {
    const CHECK: &str = "fsync";
    match config.fsync {
        Fsync::Before => {}
        Fsync::After => {
            return Check::weaker(CHECK, "after", "a power failure may lose the last offload: --fsync before");
        }
        Fsync::Never => {
            return Check::weaker(CHECK, "never", "a power failure may lose the last offloads: --fsync before");
        }
    }
    let begun = Instant::now();
    let written = NamedTempFile::new_in(store.root()).and_then(|mut file| {
        file.write_all(b"lro self-check")?;
        file.as_file().sync_all()
    });
    match written {
        Ok(()) => Check::ok(CHECK, format!("a file is on disk after {} ms", begun.elapsed().as_millis())),
        Err(error) => Check::fails(CHECK, &error.into(), "make room, or choose another disk with --dir or MCP_LRO_DIR"),
    }
}

/// Whether the bucket of offloads answers, and there is a key if they are encrypted.
fn bucket(config: &Config, store: &Store) -> Option<Check> {
    const CHECK: &str = "bucket";
    let Some(StorePlace::Bucket(url)) = &config.store else { return None };
    let begun = Instant::now();
    let checked = store.ask_bucket().and_then(|()| store.check_tenant(&config.gateway.tenant));
    Some(match checked {
        Ok(()) => Check::ok(CHECK, format!("{url} answers after {} ms", begun.elapsed().as_millis())),
        Err(error) => Check::fails(CHECK, &error.into(), "results cannot be offloaded: see `store` and `store-keys`"),
    })
}

/// The engine, and the address space of its instances.
fn pool() -> Check {
    const CHECK: &str = "engine";
    let sandbox = match parts::sandbox(false) {
        Ok(sandbox) => sandbox,
        Err(error) => {
            return Check::fails(CHECK, &error.into(), "this processor or system cannot run compiled WebAssembly");
        }
    };
    let calls = sandbox.concurrent_calls();
    match sandbox.code().addressing {
        Addressing::Guarded if calls == CONCURRENT_CALLS_MAX => {
            Check::ok(CHECK, format!("{calls} instances are mapped"))
        }
        Addressing::Guarded => Check::weaker(
            CHECK,
            format!("{calls} instances are mapped, of {CONCURRENT_CALLS_MAX}"),
            "fewer calls run at the same time: see `ulimit -v`",
        ),
        Addressing::Checked => Check::weaker(
            CHECK,
            "no pool of instances could be mapped",
            "every call maps new memory, which takes longer: see `ulimit -v`",
        ),
    }
}

/// Loads the policy, and offloads a result with it, to a directory that goes away.
fn policy(config: &Config) -> Check {
    const CHECK: &str = "policy";
    let begun = Instant::now();
    match offloaded(config) {
        Ok(name) => Check::ok(
            CHECK,
            format!("{name} runs in the sandbox; the first result took {} ms", begun.elapsed().as_millis()),
        ),
        Err(error) => Check::fails(
            CHECK,
            &error,
            "`lro policy check FILE` says what is wrong with a policy; `custom` has its own settings",
        ),
    }
}

fn offloaded(config: &Config) -> anyhow::Result<String> {
    let policy = host::policy(config, &config.gateway.tenant)?;
    let name =
        if policy.is_default() { "the built-in policy".to_owned() } else { format!("policy {}", policy.digest()) };
    let directory = TempDir::new().context("cannot create a temporary directory")?;
    let store = Store::open(StoreConfig { fsync: Fsync::Never, ..StoreConfig::new(directory.path().join("store")) });
    let filter = host::filter(config, policy, store)?;
    let settings = PolicySettings { mode: DecisionMode::Always, ..config.for_tool("self-check") };
    let request = Request { settings: Arc::new(settings), ..Request::new(config.gateway.tenant.clone(), "self-check") };
    let rows: Vec<String> = (0..1_000).map(|row| format!("{{\"id\":{row}}}")).collect();
    let part = Part::text(PartKind::Text, Bytes::from(format!("[{}]", rows.join(","))))?;
    let decision = filter.apply(&request, &Arc::new(Payload::new(vec![part])));
    match (decision.failure, decision.outcome) {
        (Some(error), _) => Err(error.into()),
        (None, Outcome::Offload(_)) => Ok(name),
        // A policy may decide otherwise.
        (None, _) => Ok(format!("{name}, which does not offload a sample,")),
    }
}

/// The component that answers questions.
fn questions(config: &Config) -> Check {
    const CHECK: &str = "questions";
    match parts::extractor(config).and_then(|extractor| Ok(extractor.load()?)) {
        Ok(()) => Check::ok(CHECK, "the component that answers them is loaded"),
        Err(error) => Check::fails(CHECK, &error.into(), "offloads cannot be read back: this is a fault of this build"),
    }
}

fn cache(config: &Config) -> Check {
    match parts::compile_cache(config) {
        Some(_) => Check::ok("cache", "compiled code is kept for the next start"),
        None => Check::weaker(
            "cache",
            "compiled code cannot be kept",
            "every start compiles, for seconds: make $XDG_CACHE_HOME or ~/.cache a private directory that can be written",
        ),
    }
}

/// Whether the gateway's files can be hidden from servers.
fn isolation(config: &Config) -> Check {
    const CHECK: &str = "isolation";
    const ADVICE: &str = if cfg!(target_os = "linux") {
        "servers that run as you can read offloads and tokens: allow unprivileged user namespaces, or run them as another user \
        (gateway.user)"
    } else {
        "servers that run as you can read offloads and tokens: start them as another user yourself, and name their URL \
        (gateway.upstream)"
    };
    if !config.gateway.isolate {
        return Check::weaker(CHECK, "switched off (gateway.isolate)", ADVICE);
    }
    let probed = env::current_exe().and_then(|program: PathBuf| {
        let hidden = vec![config.dir.clone()];
        Isolation { program, arguments: vec!["enter".into()], hidden, user: None }.probe()
    });
    match probed {
        Ok(()) => Check::ok(CHECK, "offloads are hidden from the servers that a gateway starts"),
        Err(error) => Check::weaker(CHECK, format!("offloads cannot be hidden from servers: {error}"), ADVICE),
    }
}

/// The memory that is left, as far as the system says.
fn memory() -> Option<Check> {
    const CHECK: &str = "memory";
    let read = |path: &str| fs::read_to_string(path).ok();
    let kilobytes =
        |line: &str| line.strip_prefix("MemAvailable:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok();
    let machine = read("/proc/meminfo")?.lines().find_map(kilobytes)?.saturating_mul(1 << 10);
    let number = |path: &str| read(path)?.trim().parse::<u64>().ok();
    let group = number("/sys/fs/cgroup/memory.max");
    let group = group.map(|max| max.saturating_sub(number("/sys/fs/cgroup/memory.current").unwrap_or(0)));
    let left = group.map_or(machine, |group| group.min(machine));
    let found = format!("{} MiB are left", left >> 20);
    Some(match left {
        MEMORY_BYTES_MIN.. => Check::ok(CHECK, found),
        _ => Check::weaker(
            CHECK,
            found,
            "large results may fail: give the process more memory, or lower gateway.memory-bytes",
        ),
    })
}

fn terminal() -> Check {
    let not = if io::stdout().is_terminal() { "" } else { "not " };
    Check::ok("terminal", format!("standard output is {not}a terminal"))
}

fn jq() -> Check {
    let version = Command::new("jq").arg("--version").output().ok().filter(|output| output.status.success());
    match version {
        Some(output) => Check::ok("jq", String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        None => Check::weaker(
            "jq",
            "not installed",
            "models with a shell cannot run the recipes of descriptors; `lro extract` answers the same questions without it",
        ),
    }
}

//! The gateways to measure, each in a separate process before the same bare server.

use std::fmt;
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use lro_tests::{free_port, status_kib, target};

use crate::client::Client;
use crate::upstream;

/// Interval between two samples of memory.
const SAMPLE: Duration = Duration::from_millis(2);

/// Longest wait for a process to listen.
const PATIENCE: Duration = Duration::from_secs(60);

/// The gateway between client and server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// None.
    Direct,
    /// Our gateway on pipes.
    Ours,
    /// The same, which does not wait for the disk.
    OursAfter,
    /// FastMCP's proxy with its limiter.
    FastMcp,
    /// Our gateway on HTTP.
    OursHttp,
    /// The Rust crate mcp-proxy, on HTTP.
    McpProxy,
}

impl fmt::Display for Peer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Direct => "direct",
            Self::Ours => "lro gateway",
            Self::OursAfter => "lro gateway, fsync after",
            Self::FastMcp => "FastMCP proxy",
            Self::OursHttp => "lro gateway, HTTP",
            Self::McpProxy => "mcp-proxy, HTTP",
        })
    }
}

/// A running peer and a client of it.
pub(crate) struct Running {
    pub(crate) peer: Peer,
    pub(crate) client: Client,
    pub(crate) memory: Memory,
    // Dropped last: the client's pipes must not outlive it.
    _process: Process,
}

/// A process that ends with its descendants when this is dropped.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        let group = format!("-{}", self.0.id());
        let _ = Command::new("kill").args(["-9", "--", &group]).stderr(Stdio::null()).status();
        let _ = self.0.wait();
    }
}

impl Peer {
    /// Whether it is our gateway.
    pub(crate) const fn is_ours(self) -> bool {
        matches!(self, Self::Ours | Self::OursAfter | Self::OursHttp)
    }

    /// The reason why it cannot be measured here.
    pub(crate) fn missing(self) -> Option<String> {
        let (path, hint) = match self {
            Self::Direct => return None,
            Self::Ours | Self::OursAfter | Self::OursHttp => (lro(), "make build"),
            Self::FastMcp => {
                let imported = Command::new(python()).args(["-c", "import fastmcp"]).stderr(Stdio::null()).status();
                let is_there = imported.is_ok_and(|status| status.success());
                return (!is_there).then(|| "FastMCP is not installed: run `make test-data`".to_owned());
            }
            Self::McpProxy => (mcp_proxy(), "sh tests/tools/set-up.sh target/test-data bench"),
        };
        (!path.exists()).then(|| format!("{} is not there: run `{hint}`", path.display()))
    }

    /// Starts it with its files in a directory.
    pub(crate) fn start(self, directory: &Path) -> Running {
        let server = std::env::current_exe().unwrap();
        let mut command = match self {
            Self::Direct => Command::new(&server),
            Self::Ours | Self::OursAfter | Self::OursHttp => Command::new(lro()),
            Self::FastMcp => Command::new(python()),
            Self::McpProxy => Command::new(mcp_proxy()),
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let port = free_port();
        let address = format!("127.0.0.1:{port}");
        match self {
            Self::Direct => command.arg(upstream::ARGUMENT),
            Self::Ours => command.args(["gateway", "--"]).arg(&server).arg(upstream::ARGUMENT),
            Self::OursAfter => command.args(["gateway", "--fsync", "after", "--"]).arg(&server).arg(upstream::ARGUMENT),
            Self::OursHttp => {
                command.args(["gateway", "--listen", &address, "--"]).arg(&server).arg(upstream::ARGUMENT)
            }
            Self::FastMcp => {
                command.arg("-c").arg(include_str!("fastmcp_proxy.py")).arg(&server).arg(upstream::ARGUMENT)
            }
            Self::McpProxy => command.arg("--config").arg(mcp_proxy_config(directory, &server, port)),
        };
        if self.is_ours() {
            command.env("MCP_LRO_DIR", directory.join(format!("{self:?}")));
        }
        let log = directory.join(format!("{self:?}.log"));
        command.stderr(std::fs::File::create(log).unwrap());
        let mut process = Process(command.spawn().unwrap_or_else(|error| panic!("{self}: {error}")));
        let memory = Memory::watch(process.0.id());
        let client = match self {
            Self::OursHttp => on_http(&address, "/mcp"),
            Self::McpProxy => on_http(&address, "/"),
            _ => Client::on_pipes(&mut process.0),
        };
        Running { peer: self, client, memory, _process: process }
    }
}

/// A client, as soon as the server listens.
fn on_http(address: &str, path: &str) -> Client {
    wait_for(address);
    Client::on_http(address, path)
}

/// Waits until a process listens at an address.
pub(crate) fn wait_for(address: &str) {
    let end = Instant::now() + PATIENCE;
    while TcpStream::connect(address).is_err() {
        assert!(Instant::now() < end, "nothing listens at {address}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Our gateway, which listens: its address and process. Its configuration, log and store are in a directory.
pub(crate) fn listening(directory: &Path, arguments: &[&str]) -> (String, Process) {
    let address = format!("127.0.0.1:{}", free_port());
    let log = std::fs::File::create(directory.join("gateway.log")).unwrap();
    let mut command = Command::new(lro());
    command.args(["gateway", "--listen", &address]).args(arguments).env("MCP_LRO_DIR", directory.join("store"));
    command.env("MCP_LRO_CONFIG", directory.join("lro.toml")).process_group(0).stdin(Stdio::null()).stderr(log);
    let process = Process(command.spawn().unwrap());
    wait_for(&address);
    (address, process)
}

fn mcp_proxy_config(directory: &Path, server: &Path, port: u16) -> PathBuf {
    let config = directory.join("mcp-proxy.toml");
    let up = format!("name = \"up\"\ntransport = \"stdio\"\ncommand = {server:?}\nargs = [{:?}]", upstream::ARGUMENT);
    let listen = format!("host = \"127.0.0.1\"\nport = {port}");
    let text = format!("[proxy]\nname = \"bench\"\n\n[proxy.listen]\n{listen}\n\n[[backends]]\n{up}\n");
    std::fs::write(&config, text).unwrap();
    config
}

/// Our command.
pub(crate) fn lro() -> PathBuf {
    target().join("release/lro")
}

fn python() -> PathBuf {
    target().join("test-data/venv/bin/python")
}

fn mcp_proxy() -> PathBuf {
    target().join("test-data/mcp-proxy/bin/mcp-proxy")
}

/// The peak of sampled anonymous memory of a process.
pub(crate) struct Memory {
    peak: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Memory {
    fn watch(process: u32) -> Self {
        let (peak, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (seen, stopped) = (Arc::clone(&peak), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed)
                && let Some(kib) = status_kib(process, "RssAnon")
            {
                seen.fetch_max(kib, Ordering::Relaxed);
                thread::sleep(SAMPLE);
            }
        });
        Self { peak, stop, thread: Some(thread) }
    }

    pub(crate) fn peak_mib(&self) -> f64 {
        self.peak.load(Ordering::Relaxed) as f64 / 1024.0
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

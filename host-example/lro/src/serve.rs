//! `lro serve`: an MCP server that answers questions about offloads and files.

use std::env;
use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::Args;
use lro_gateway::settings::Config;
use lro_gateway::{DEPTH_DEFAULT, FileLimits, Files, Gateway, LISTED_DEFAULT, SERVED_BYTES_DEFAULT};

use crate::exit::Exit;
use crate::gateway::{self, Load};
use crate::output::Terminal;

const EXAMPLES: &str = "Examples:
  lro serve                                  what hooks, gateways and `lro offload` have written
  lro serve ~/exports                        every file in a directory
  lro serve orders.csv build.log             these files
  lro serve --listen 127.0.0.1:8808 data     over Streamable HTTP

In a client's configuration:
  { \"mcpServers\": { \"data\": { \"command\": \"lro\", \"args\": [\"serve\", \"/home/me/exports\"] } } }";

/// What people see who start it by hand.
const WAITING: &str = "waiting for an MCP client on standard input. A client starts this command itself: `lro serve --help` \
    shows its configuration. Ctrl-C ends it; --listen serves HTTP instead; `lro extract` asks questions without a client";

/// Run an MCP server that answers questions about offloads, and about files on disk
///
/// It has the tools `lro_extract` and `lro_read`, and with directories or files also `lro_files`. A file is offloaded when it is
/// first asked about, and again when it has changed. Files outside of what is given here cannot be reached. It serves on
/// standard input and output, or on Streamable HTTP (--listen); the settings of `lro gateway` hold, except those about its
/// server.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Directories and files that can be asked about, as well as offloads
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Serve Streamable HTTP at this address, such as 127.0.0.1:8808
    #[arg(long, value_name = "IP:PORT")]
    listen: Option<String>,
    /// Tenant whose offloads are read, and that files are offloaded for [default: that of gateways, `default`]
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// Largest file that can be asked about, in bytes
    #[arg(long, value_name = "BYTES", env = "LRO_SERVE_FILE_BYTES", default_value_t = SERVED_BYTES_DEFAULT)]
    file_bytes: NonZeroU64,
    /// Most files in one list
    #[arg(long, value_name = "NUMBER", env = "LRO_SERVE_LISTED", default_value_t = LISTED_DEFAULT)]
    listed: u32,
    /// How many directories deep a list goes
    #[arg(long, value_name = "NUMBER", env = "LRO_SERVE_DEPTH", default_value_t = DEPTH_DEFAULT)]
    depth: u32,
    /// Also files and directories whose names begin with a dot, such as .git
    #[arg(long)]
    hidden: bool,
}

impl Arguments {
    /// Settings of the gateway that have flags here.
    pub(crate) fn settings(&self) -> Vec<(String, String)> {
        let listen = self.listen.clone().map(|address| ("gateway.listen".to_owned(), address));
        let tenant = self.tenant.clone().map(|tenant| ("gateway.tenant".to_owned(), tenant));
        listen.into_iter().chain(tenant).collect()
    }

    fn limits(&self) -> FileLimits {
        let Self { file_bytes, listed, depth, hidden, .. } = *self;
        FileLimits { bytes: file_bytes, listed, depth, hidden }
    }
}

pub(crate) fn run(arguments: &Arguments, config: &Config, load: Load, terminal: &Terminal) -> anyhow::Result<Exit> {
    let open = || Files::open(&arguments.paths, arguments.limits(), &config.dir);
    let files = if arguments.paths.is_empty() { None } else { Some(open()?) };
    gateway::make_undumpable(config)?;
    let served = Gateway::reading(files, config, Some(&env::current_exe()?)).map_err(gateway::plain)?;
    gateway::serve(served, config, load, terminal, WAITING)
}

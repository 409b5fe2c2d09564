//! `lro gateway`: stands in front of an MCP server.

use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::thread;

use clap::Args;
use lro_host::extract::Budget;
use lro_host::gateway::{Launch, Rules, Upstream, stdio};
use lro_host::mcp::Tools;
use lro_host::settings::Config;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::exit::Exit;
use crate::host;

/// Stand in front of an MCP server: large tool results go through the policy, all else passes byte for byte
#[derive(Args)]
pub(crate) struct Arguments {
    /// The command of a server on standard input and output, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn run(arguments: &Arguments, config: &Config) -> anyhow::Result<Exit> {
    let Some((program, rest)) = arguments.command.split_first() else {
        anyhow::bail!("there is no server");
    };
    let upstream = Upstream::Command(Launch { program: program.clone(), arguments: rest.to_vec() });
    let policy = host::policy(config)?;
    let filter = host::filter(config, policy, host::store(config));
    let tools = match &filter.store {
        Ok(store) => Some(Tools::new(store.clone(), host::extractor(config)?, Budget::from(&config.query))?),
        Err(error) => {
            tracing::warn!(%error, "results cannot be offloaded");
            None
        }
    };
    let rules = Arc::new(Rules::new(config.clone(), filter, tools));
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    stdio::serve(&rules, upstream, io::stdin(), io::stdout(), move |stop| {
        thread::spawn(move || {
            if signals.forever().next().is_some() {
                stop.now();
            }
        });
    })?;
    Ok(Exit::Success)
}

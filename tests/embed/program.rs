//! A program that filters the tool result on its standard input, in a directory that it is given.

use std::io::{Read, Write};

use lro_host::filter::{Filter, Request};
use lro_host::mcp::{self, ToolResult};
use lro_host::policy::{DEFAULT_POLICY, LoadOptions, Policy};
use lro_host::sandbox::{Limits, Sandbox};
use lro_host::settings::FailureMode;
use lro_host::store::{Store, StoreConfig};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args().nth(1).ok_or("usage: embedded DIRECTORY < MESSAGE")?;
    let sandbox = Sandbox::new()?;
    let filter = Filter {
        slot: Policy::from_bytes(&sandbox, DEFAULT_POLICY, &LoadOptions::default())?.into(),
        store: Ok(Store::open(StoreConfig::new(directory))?),
        limits: Limits::default(),
        failure: FailureMode::Open,
        documents: None,
    };
    let mut message = Vec::new();
    std::io::stdin().read_to_end(&mut message)?;
    let result = ToolResult::parse(message.into())?;
    let decision = filter.apply(&Request::new("default", "rows"), result.payload());
    std::io::stdout().write_all(&mcp::answer(&result, &decision.outcome))?;
    Ok(())
}

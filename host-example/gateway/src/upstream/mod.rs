//! Connections to the MCP server behind the gateway.

pub(crate) mod connection;
pub(crate) mod content;
mod endpoint;
pub(crate) mod link;
mod none;
pub(crate) mod remote;
pub(crate) mod retry;

pub use endpoint::{Endpoint, EndpointError};
pub use lro_transport::Launch;

/// How to reach the server.
#[derive(Clone, Debug)]
pub enum Upstream {
    /// A command that speaks MCP on its standard input and output.
    Command(Launch),
    /// A Streamable HTTP endpoint.
    Http(Endpoint),
    /// No server: clients see what the gateway itself has.
    None,
}

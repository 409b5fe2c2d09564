//! The server behind a gateway.

pub(crate) mod content;
mod endpoint;
pub(crate) mod link;
pub(crate) mod remote;

pub use endpoint::{Endpoint, EndpointError};
pub use lro_transport::Launch;

/// How the server is reached.
#[derive(Clone, Debug)]
pub enum Upstream {
    /// A command that speaks on its standard input and output.
    Command(Launch),
    /// A Streamable HTTP endpoint.
    Http(Endpoint),
}

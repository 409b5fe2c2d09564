//! The server behind a gateway.

pub use crate::transport::Launch;

/// How the server is reached.
#[derive(Clone, Debug)]
pub enum Upstream {
    /// A command that speaks on its standard input and output.
    Command(Launch),
    /// A Streamable HTTP endpoint.
    Http(super::remote::Endpoint),
}

//! A gateway in front of an MCP server. Every tool result passes through the policy; all other messages are forwarded
//! byte for byte.
//!
//! A [`Session`] is one client's view of a server: it matches responses to requests and decides what happens to each
//! message. The faces, such as [`stdio`], only move messages between clients and servers.
//!
//! `host-example/docs/reference/gateway.md` lists what is filtered, refused, added and forwarded.

mod faces;
mod headers;
mod listener;
mod metrics;
mod operations;
mod session;
pub mod settings;
mod tenants;
mod upstream;

pub use faces::{http, stdio};
pub use metrics::{LABELS_MAX, Metrics, Snapshot, Traffic, Verdicts};
pub use operations::admin::{Change, PolicyStatus, TrialStatus};
pub use operations::upkeep::Upkeep;
pub use operations::{Operations, OperationsError, OperatorTokens, status};
pub use session::own::{OwnCall, OwnOutcome};
pub use session::{Filtering, FromClient, FromServer, QUERY_BYTES_MAX, Refused, Session, SessionOwner};
pub use tenants::Tenants;
pub use tenants::rules::Rules;
pub use tenants::waiting::CALLS_MAX;
pub use upstream::{Endpoint, EndpointError, Launch, Upstream};

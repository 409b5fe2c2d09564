//! Stands in front of an MCP server: every tool result passes the policy, all else goes through byte for byte.
//!
//! A [`Session`] is one client's view: it knows which answer belongs to which request and says what becomes of each
//! message. The faces, such as [`stdio`], move messages between clients and servers and know no more of them than that.

mod admin;
mod content;
mod filtering;
mod handles;
pub mod http;
mod link;
mod memory;
mod metrics;
mod operations;
mod own;
mod remote;
mod reuse;
mod rules;
mod session;
mod shape;
pub mod status;
pub mod stdio;
mod tasks;
mod tenants;
mod turns;
mod upkeep;
mod upstream;
mod workers;

pub use admin::{Change, PolicyStatus, TrialStatus};
pub use metrics::{LABELS_MAX, Metrics, Snapshot, Traffic, Verdicts};
pub use operations::{Operations, OperationsError, OperatorTokens};
pub use own::{OwnCall, Produced};
pub use remote::{Endpoint, EndpointError};
pub use rules::Rules;
pub use session::{CALLS_MAX, Filtering, FromClient, FromServer, QUERY_BYTES_MAX, Refused, Session, Who};
pub use tenants::Tenants;
pub use upkeep::Upkeep;
pub use upstream::{Launch, Upstream};

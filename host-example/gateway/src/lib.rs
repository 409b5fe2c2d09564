//! Stands in front of an MCP server: every tool result passes the policy, all else goes through byte for byte.
//!
//! A [`Session`] is one client's view: it knows which answer belongs to which request and says what becomes of each
//! message. The faces, such as [`stdio`], move messages between clients and servers and know no more of them than that.
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
pub use session::own::{OwnCall, Produced};
pub use session::{Filtering, FromClient, FromServer, QUERY_BYTES_MAX, Refused, Session, Who};
pub use tenants::Tenants;
pub use tenants::rules::Rules;
pub use tenants::waiting::CALLS_MAX;
pub use upstream::{Endpoint, EndpointError, Launch, Upstream};

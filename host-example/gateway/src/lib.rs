//! A gateway in front of an MCP server. Every tool result passes through the policy; all other messages are forwarded
//! byte for byte.
//!
//! A [`Session`] is one client's view of a server: it matches responses to requests and decides what happens to each
//! message. The faces, such as [`stdio`], only move messages between clients and servers.
//!
//! [`Gateway`] assembles it all from a configuration: see `host-example/docs/how-to/embedding.md`.
//!
//! `host-example/docs/reference/gateway.md` lists what is filtered, refused, added and forwarded.

mod assembly;
mod clock;
pub mod collect;
mod faces;
mod files;
mod headers;
mod listener;
mod malformed;
mod metrics;
mod operations;
mod random;
mod recorded;
mod rehearsal;
mod session;
pub mod settings;
mod tenants;
mod tokenizer;
mod trace;
mod translate;
mod upstream;

pub use assembly::{
    Control, Gateway, GatewayError, PolicyRegistries, RegistriesError, ReloadError, counts_fuel, parts,
};
pub use faces::{http, stdio};
pub use files::{DEPTH_DEFAULT, FileLimits, Files, FilesError, LISTED_DEFAULT, SERVED_BYTES_DEFAULT};
pub use listener::tls::TlsError;
pub use metrics::{AUDITED_TOOLS_MAX, LABELS_MAX, Metrics, Sizes, Snapshot, ToolCost, ToolDay, Traffic, Verdicts};
pub use operations::admin::{Change, POLICIES_PATH, PolicyStatus, SIGNATURE_HEADER, TrialStatus, begins_digest};
pub use operations::trail::ADMIN as ADMIN_LOG;
pub use operations::upkeep::Upkeep;
pub use operations::{Operations, OperationsError, OperatorTokens, history, status};
pub use recorded::{RECORDED_MAX, Recorded};
pub use rehearsal::Rehearsal;
pub use session::{Failure, FromClient, FromServer, QUERY_BYTES_MAX, Refused, Session, SessionOwner};
pub use tenants::Tenants;
pub use tenants::jwt::{Jwt, KeysError};
pub use tenants::pending_limits::CALLS_MAX;
pub use tenants::rules::Rules;
pub use upstream::{Endpoint, EndpointError, Launch, Upstream};

// The Rust of the documents runs as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../docs/how-to/embedding.md")]
mod embedding {}

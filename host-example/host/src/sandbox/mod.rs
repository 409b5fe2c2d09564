//! Runs policies and queries: engine, limits, the file system a component sees, one call.
//!
//! A policy is untrusted. Each call gets a store and an instance of its own, so nothing of a policy outlives a call; one
//! preopened directory, or none while it only inspects; and [`Limits`]. What each of these is for stands in the threat model
//! of the [crate]. Nothing here knows MCP.

pub mod bindings;
mod call;
mod engine;
mod filesystem;
pub(crate) mod gate;
mod inert;
mod limits;
mod output;
mod places;
mod state;
mod streams;
mod text;

pub use bindings::exports::lro::filter::lro_filter::{Descriptor, Plan, PolicyError, Verdict};
pub use bindings::lro::filter::types;
pub use call::{CallError, Cost, OutputDirectory, Written};
pub use engine::{CONCURRENT_CALLS_MAX, EPOCH_TICK, Prepared, PreparedExtraction, Sandbox};
pub use limits::Limits;
pub use lro_payload::{Part, PartError, PartKind, Payload, PayloadReader, ReadError, SLICE_BYTES_MAX};
pub use output::Quota;
pub use places::{CONCURRENT_QUESTIONS_MAX, STOCK_MAX};
pub(crate) use text::one_line;

//! Runs policies and queries: engine, limits, file system, calls.
//!
//! A policy is untrusted. Each call gets its own store and instance, so no state of a policy outlives a call; one
//! preopened directory, or none for an inspection; and [`Limits`]. The threat model of the [crate] explains what each
//! is for. Nothing here depends on MCP.

pub mod bindings;
mod call;
mod document;
mod engine;
mod epoch;
mod extraction;
mod filesystem;
pub(crate) mod gate;
mod inert;
mod limits;
mod output;
mod permits;
mod room;
mod state;
mod streams;
mod text;
mod v0_1;
mod versions;

pub use bindings::exports::lro::filter::lro_filter::{Descriptor, Plan, PolicyError, Verdict};
pub use bindings::lro::filter::types;
pub use call::{CallError, Cost, OutputDirectory, Written};
pub use document::PreparedDocumentReader;
pub(crate) use engine::engine_for;
pub use engine::{CONCURRENT_CALLS_MAX, Code, EPOCH_TICK, Prepared, Sandbox, SandboxSettings};
pub(crate) use extraction::Answered;
pub use extraction::PreparedExtraction;
pub use limits::Limits;
pub(crate) use lro_contract::text::one_line;
pub use lro_payload::{Part, PartError, PartKind, Payload, PayloadReader, ReadError, SLICE_BYTES_MAX};
pub use output::Quota;
pub(crate) use output::{Change, Watch};
pub(crate) use permits::PoolPermit;
pub use permits::{CONCURRENT_QUESTIONS_MAX, STOCK_MAX};
pub use room::Addressing;

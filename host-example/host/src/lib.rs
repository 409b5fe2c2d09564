//! Keeps large tool results out of a model's context without losing a byte of them.
//!
//! A *policy*, a WASI component of the world `lro-policy`, looks at each tool result and says: pass it, offload it to
//! files and answer with a descriptor, truncate it, or reject it with advice. This crate loads policies, runs each call
//! in its own sandbox, and stores the files.
//!
//! ```
//! use lro_host::filter::{Filter, Request};
//! use lro_host::mcp::{self, ToolResult};
//! use lro_host::policy::{DEFAULT_POLICY, LoadOptions, Policy};
//! use lro_host::sandbox::{Limits, Sandbox};
//! use lro_host::settings::FailureMode;
//! use lro_host::store::{Store, StoreConfig};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let directory = directory.path().join("offloads");
//! let sandbox = Sandbox::new()?;
//! let filter = Filter {
//!     slot: Policy::from_bytes(&sandbox, DEFAULT_POLICY, &LoadOptions::default())?.into(),
//!     store: Ok(Store::open(StoreConfig::new(directory))?),
//!     limits: Limits::default(),
//!     failure: FailureMode::Open,
//!     documents: None,
//! };
//! let rows = vec![r#"{"city":"Bern","note":null}"#; 5000].join(",").replace('"', "\\\"");
//! let message = format!(r#"{{"content":[{{"type":"text","text":"[{rows}]"}}]}}"#);
//! let result = ToolResult::parse(message.into())?;
//! let decision = filter.apply(&Request::new("default", "cities"), result.payload());
//! let reply = mcp::answer(&result, &decision.outcome);
//! assert!(reply.len() < 2000);
//! # Ok(())
//! # }
//! ```
//!
//! [`Filter::apply`](filter::Filter::apply) blocks. On tokio, use [`Filter::apply_async`](filter::Filter::apply_async):
//! it decides about a small result on the task that awaits it, and about any other on tokio's blocking threads. For
//! other executors, [`Filter::job`](filter::Filter::job) returns both halves.
//!
//! | module | what it does | knows |
//! |---|---|---|
//! | [`mcp`] | parses MCP tool results, builds replies, offers tools to read offloads | everything below |
//! | [`filter`] | one result through one policy | `documents`, `policy`, `store`, `settings` |
//! | [`documents`] | the text of PDF and Word documents and of spreadsheets | `policy` |
//! | [`read`] | pages of an offload, signed cursors | `store` |
//! | [`extract`] | queries over an offload | `policy`, `store` |
//! | [`compose`] | a policy and what a host does around it, as one component for any runtime | nothing |
//! | [`settings`] | the policy settings of a tool, the failure mode | nothing |
//! | [`policy`] | loads policies: checks, compiles, caches, swaps, parks | `sandbox`, `store` |
//! | [`store`] | offload directories: staging, publishing, expiry, quotas | nothing |
//! | [`sandbox`] | engine, limits, the file system that a policy sees, one call | `wit/` |
//! | [`job`] | work that starts on any thread and may finish on a blocking one | nothing |
//! | [`faults`] | catches panics of the host, fail points for tests | nothing |
//!
//! To embed it without MCP, build a [`Payload`](sandbox::Payload) from parts; [`mcp`] is then not needed.
//!
//! The threat model is in [`threat_model`], how to embed the crate in `host-example/docs/how-to/embedding.md`.

#[macro_use]
mod components;

mod ahead;
mod at_once;
pub mod compose;
mod digest;
pub mod documents;
pub mod extract;
pub mod faults;
pub mod filter;
pub mod job;
pub mod mcp;
pub mod policy;
pub mod read;
pub mod sandbox;
pub mod store;
mod units;

/// The target of the `tracing` spans of calls: `policy` and `write` here, more in a gateway. They are of the level `info`, and say
/// nothing of arguments and results. Nothing is done for them while no subscriber takes them.
pub const SPANS: &str = "lro_spans";

pub use job::Job;
pub use lro_contract::settings;

#[cfg(doc)]
#[doc = include_str!("../../../SECURITY.md")]
pub mod threat_model {}

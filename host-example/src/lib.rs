//! Keeps large tool results out of a model's context without losing a byte of them.
//!
//! A *policy*, a WASI component of the world `lro-policy`, looks at each tool result and says: pass it, offload it to
//! files and answer with a descriptor, truncate it, or reject it with advice. This crate loads policies, runs each call in
//! a sandbox of its own, and keeps the files.
//!
//! ```
//! use lro_host::filter::{Filter, Request};
//! use lro_host::mcp::ToolResult;
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
//!     policy: Policy::from_bytes(&sandbox, DEFAULT_POLICY, &LoadOptions::default())?,
//!     store: Ok(Store::open(StoreConfig::new(directory))?),
//!     limits: Limits::default(),
//!     failure: FailureMode::Open,
//! };
//! let rows = vec![r#"{"city":"Bern","note":null}"#; 5000].join(",").replace('"', "\\\"");
//! let message = format!(r#"{{"content":[{{"type":"text","text":"[{rows}]"}}]}}"#);
//! let result = ToolResult::parse(message.into())?;
//! let decision = filter.apply(&Request::new("default", "cities"), result.payload());
//! let reply = result.answer(&decision.outcome);
//! assert!(reply.len() < 2000);
//! # Ok(())
//! # }
//! ```
//!
//! [`Filter::apply`](filter::Filter::apply) blocks; asynchronous callers use
//! [`Filter::apply_async`](filter::Filter::apply_async).
//!
//! | module | what it does | knows |
//! |---|---|---|
//! | [`gateway`] | stands in front of an MCP server | everything below |
//! | [`mcp`] | takes MCP tool results apart and builds replies | everything below |
//! | [`filter`] | one result through one policy | `policy`, `store`, `settings` |
//! | [`read`] | pages of what was offloaded, signed cursors | `store` |
//! | [`extract`] | questions about what was offloaded | `policy`, `store` |
//! | [`settings`] | configuration: file, environment, flags | defaults of the others |
//! | [`policy`] | loads policies: checks, compiles, caches | `sandbox` |
//! | [`store`] | output directories: staging, publishing, expiry, quotas | nothing |
//! | [`transport`] | lines, child processes, event streams | nothing |
//! | [`sandbox`] | engine, limits, the file system a policy sees, one call | `wit/` |
//!
//! Someone who embeds it without MCP makes a [`Payload`](sandbox::Payload) of parts and needs no [`mcp`].

mod digest;
pub mod extract;
pub mod filter;
pub mod gateway;
pub mod mcp;
pub mod policy;
pub mod read;
pub mod sandbox;
pub mod settings;
pub mod store;
pub mod transport;

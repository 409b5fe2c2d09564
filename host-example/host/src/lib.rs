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
//! | [`filter`] | one result through one policy | `policy`, `store`, `settings` |
//! | [`read`] | pages of an offload, signed cursors | `store` |
//! | [`extract`] | queries over an offload | `policy`, `store` |
//! | [`settings`] | the policy settings of a tool, the failure mode | nothing |
//! | [`policy`] | loads policies: checks, compiles, caches, swaps, parks | `sandbox`, `store` |
//! | [`store`] | offload directories: staging, publishing, expiry, quotas | nothing |
//! | [`sandbox`] | engine, limits, the file system that a policy sees, one call | `wit/` |
//! | [`job`] | work that starts on any thread and may finish on a blocking one | nothing |
//! | [`faults`] | catches panics of the host, fail points for tests | nothing |
//!
//! To embed it without MCP, build a [`Payload`](sandbox::Payload) from parts; [`mcp`] is then not needed.
//!
//! # Threat model
//!
//! | who | is trusted with |
//! |---|---|
//! | the host process, its configuration, who may write to its directories | everything |
//! | a policy | the results of the tenants it is configured for, one at a time, and what the model is told of them |
//! | the component that answers questions | one published directory, to read |
//! | a tenant | its own offloads, by handle |
//! | MCP servers and clients, tool results, jq programs | nothing: they are data |
//!
//! A policy decides what a model reads, so one that lies about the content of a result is not defended against; choose and
//! pin policies as you would code. What it says of its files is checked. Everything else it might do is kept in by the
//! sandbox; tests named here are in `tests/hostile` unless another place is given.
//!
//! | threat | mechanism | shown by |
//! |---|---|---|
//! | never ends, in any export, its start, its allocator or a host call | epoch deadline; the host waits with the same deadline | `contained`, attacks that end in `deadline` |
//! | uses up memory, tables, stack | limits of the call, and a share of the pool that each call has to itself | `limits::tables_and_memories_are_bounded`, `neighbours` |
//! | takes the room of other calls | a component of too many things is not loaded | `limits::a_component_of_too_many_things_is_not_loaded` |
//! | gives different answers on slower machines | fuel, where it is asked for | `limits::fuel_is_the_same_every_time` |
//! | leaves its directory: `..`, absolute paths, links, slashes, races | one preopen; a path is one name; no links; each file opened beneath the directory | `advisories`, `tests/it/sandbox.rs` |
//! | gets at environment, clock, network or random numbers | what is not linked cannot be imported; what runtimes of languages import gives nothing | `inert`, `tests/swap` |
//! | changes what it may only read | a read-only preopen, and never a second one | `advisories::what_may_be_read_cannot_be_changed` |
//! | fills the disk | bytes and files counted while they are written, by file and not by handle, gaps too; quotas of the store in blocks and inodes | `limits::a_gap_counts_as_written`, `streams`, `store::quotas_hold_on_the_disk` |
//! | uses up descriptors of the process | files it holds are counted, whatever holds them | `limits::open_files_are_counted`, `streams` |
//! | names that a shell or terminal acts upon | refused at creation and at publishing | `limits::only_safe_names_are_created` |
//! | floods or forges a log | its text is cut and put on one line without control characters | `limits::text_for_the_log_is_short_and_plain` |
//! | floods the model | limits of a step and of a descriptor, for advice too | `limits::advice_is_no_longer_than_a_descriptor` |
//! | lies about its files | names, sizes, records and JSON are compared with the disk before anything is published | `contained`, attacks that end in `answer` |
//! | answers with what breaks the reader: cycles, depth, numbers, pointers | checked when it crosses; depth is bounded | `limits::a_condition_of_many_steps_is_refused`, `modules` |
//! | sees another tenant, session or call | store, instance and directory of their own for each call | `isolation`, `limits::an_instance_in_stock_keeps_nothing` |
//! | slows others down | it gives its thread back at every tick, and goes on on threads of its tenant: it competes for processor time and nothing else | `neighbours`, `tests/gateway/neighbours.rs` |
//! | uses up the places of the pool | questions have half of them, stock is counted apart; what finds none waits, and never passes | `places` |
//! | adds up over time | everything of a call dies with its store | `leaks` |
//! | a known way out of wasmtime's file system | versions, and the mechanisms above | `advisories`, by id |
//!
//! Around the sandbox:
//!
//! | threat | mechanism | shown by |
//! |---|---|---|
//! | an answer that a lenient client reads and the policy did not see | whatever could answer a call of a tool is filtered or refused (crate `lro-gateway`) | `tests/gateway/unseen.rs`, fuzz target `envelope` |
//! | a server reads tokens, offloads, keys, policies | its environment is named; namespaces hide the directories; the gateway is not dumpable | `tests/gateway/nosy.rs` |
//! | somebody puts code in the place of compiled code | it comes back by a sealed memfd; the cache is keyed, and what was checked is what is loaded | `tests/gateway/compiled.rs` |
//! | one tenant, or one address without tokens, takes all connections, requests, streams, sessions or memory | shared pools of which a part is left for others, timeouts of progress | `tests/gateway/crowd.rs` |
//! | leaves `/.well-known/`, smuggles headers or hosts | plain paths only, named headers, one host | `tests/gateway/headers.rs` |
//! | a server with a hostile output schema | checking is bounded in bytes, steps and levels; what it cannot answer is `block` | `tests/gateway/lasting.rs` |
//! | data that a terminal acts upon | escaped when standard output is one | `cli::a_terminal_gets_no_control_characters` |
//! | paths of the host in answers | errors have a text of their own for clients | `http::errors_tell_clients_no_paths` |
//!
//! A panic of the host itself ends one call, like any failure (`tests/fail-points`), and no power loss leaves an offload that is
//! published and not whole (`tests/faults`).
//!
//! Whatever fails, the failure mode answers. Not defended against: embedders whose tenants together admit more calls than
//! [`CONCURRENT_CALLS_MAX`](sandbox::CONCURRENT_CALLS_MAX); eight or more tenants that act together; tokens that can be guessed;
//! what can be guessed from the time that calls of others take; a server of the same user where the system allows no namespaces,
//! or one that plants programs for that user; a fault of the compiler or of the kernel, for which a process should be run as a
//! user who owns nothing else.

mod digest;
pub mod extract;
pub mod faults;
pub mod filter;
pub mod job;
pub mod mcp;
pub mod policy;
pub mod read;
pub mod sandbox;
pub mod settings;
pub mod store;

pub use job::Job;

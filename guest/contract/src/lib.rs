//! The contract between host and policy in plain Rust types: settings and queries, which the configuration and models write,
//! and the manifest, digests and indexes of an offload.
//!
//! It knows no sandbox and no protocol, and compiles to WebAssembly: a host in Rust, and the component that does a host's work
//! in other languages, read the same settings and record an offload in the same bytes.
//!
//! | module | what it has |
//! |---|---|
//! | [`settings`] | the settings of a policy, and the failure mode |
//! | [`query`] | typed queries as models write them, and manifests store them |
//! | [`manifest`] | what `manifest.json` records of an offload |
//! | [`digest`] | digests, checksums and line indexes of files |
//! | [`text`] | text from a policy on one line |
//! | [`ulid`] | ids of offloads, and times |
//! | [`conversions!`], [`query_conversions!`], [`sanitizing!`] | between these types and those that bindings generate |

mod conversions;
pub mod digest;
pub mod manifest;
pub mod query;
pub mod settings;
pub mod text;
pub mod ulid;

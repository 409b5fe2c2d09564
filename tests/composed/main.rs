//! Policies composed with what a host does around them, as one component: in wasmtime, beside the host in Rust.

#![expect(clippy::unwrap_used, reason = "these are tests")]

mod bounds;
mod faults;
mod reading;
mod replies;
mod settings;
mod support;
mod swap;
mod vectors;

//! The store in a bucket: what holds for a directory too, what is its own, what stores share in place of lists, sessions, encryption, what a service
//! refuses, and faults of the network and the server.

#![expect(clippy::unwrap_used, clippy::panic, reason = "these are tests")]

mod arriving;
mod early;
mod encrypted;
mod faults;
mod jobs;
mod ledger;
mod own;
mod refused;
mod same;
mod sessions;
mod support;

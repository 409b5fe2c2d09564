//! End-to-end tests, one binary.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

mod ahead_of_time;
mod bad_input;
mod bench_compare;
mod crash;
mod descriptor;
mod differential;
mod extract;
mod questions;
mod real_data;
mod sandbox;
mod strings;
mod texts;
mod tokens;
mod tools;
mod vectors;
mod wit;

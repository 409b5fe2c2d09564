//! End-to-end tests, one binary.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

mod ahead_of_time;
// These need commands and settings of files that Windows does not have.
#[cfg(unix)]
mod bad_input;
#[cfg(unix)]
mod bench_compare;
mod crash;
#[cfg(unix)]
mod descriptor;
mod differential;
mod extract;
mod questions;
#[cfg(unix)]
mod real_data;
mod sandbox;
mod strings;
mod texts;
mod tokens;
mod tools;
mod vectors;
mod wit;

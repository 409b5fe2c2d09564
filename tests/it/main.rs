//! End-to-end tests, one binary.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

mod ahead_of_time;
// Mounts, limits and modes of Unix.
#[cfg(unix)]
mod bad_disk;
mod bad_input;
// The program that compares is run by Python, and `make test-data` installs none for Windows.
#[cfg(unix)]
mod bench_compare;
mod crash;
mod descriptor;
mod differential;
mod extract;
mod instances;
mod questions;
// As above: it is another program in Python that checks the data.
#[cfg(unix)]
mod real_data;
mod sandbox;
mod strings;
mod texts;
mod tokens;
mod tools;
mod vectors;
mod wit;

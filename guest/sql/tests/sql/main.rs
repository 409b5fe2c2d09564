//! Queries in SQL over tables in memory.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod duckdb;
mod errors;
mod hostile;
mod subset;
mod support;

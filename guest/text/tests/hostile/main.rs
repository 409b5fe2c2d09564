//! Hostile text is read, searched and outlined in bounded memory, or ends with a named error.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod memory;
mod readers;
mod search;

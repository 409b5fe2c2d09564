//! What becomes of loads, swaps and calls when the host itself fails, panics, is held up or ends at one of its steps. After
//! each, what is documented holds, and the next one works.
//!
//! The steps are those that the library names by `fail_point!`. A step that takes too long ends the tests and is named.

#![expect(clippy::unwrap_used, clippy::panic, reason = "these are tests")]

mod calls;
mod exits;
mod loads;
mod support;

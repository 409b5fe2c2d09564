//! What the default policy decides about a result, natively: no test needs a component.

#![expect(clippy::panic, reason = "a test fails by panicking")]

mod plan;
mod support;
mod verdict;

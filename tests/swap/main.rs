//! Policies that change while calls go on: swaps, refusals, parking, trials.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

mod breaker;
mod failure;
mod load;
mod model;
mod registry;
mod replay;
mod signing;
mod soak;
mod storm;
mod support;
mod trial;
mod watch;

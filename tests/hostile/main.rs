//! Policies that attack: what each can reach, how long it takes, and what it leaves behind. One binary; the policies are
//! those of `tests/policies` and components written as text, which no compiler would make.

#![expect(clippy::unwrap_used, clippy::panic, reason = "these are tests")]

mod advisories;
mod attacks;
mod contained;
mod inert;
mod isolation;
mod leaks;
mod limits;
mod modules;
mod neighbours;
mod permits;
mod streams;
mod support;

//! The gateway between real servers and real clients, one binary. Each test names the rows of the acceptance list it proves.

#![expect(clippy::unwrap_used, clippy::panic, reason = "these are tests")]

mod clients;
mod faults;
mod real;
mod servers;
mod support;
mod transparent;
mod wire;

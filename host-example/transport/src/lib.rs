//! Splits byte streams into messages: lines of a pipe, events of a `text/event-stream`.
//!
//! A message is one [`bytes::Bytes`], whatever its size. Up to [`MessageLimits::memory_bytes`] it is kept in memory. A
//! longer message, or one for which its [`Share`] has no memory left, is written to an anonymous file and
//! memory-mapped, so that the system can reclaim its pages. A message larger than [`MessageLimits::message_bytes`] is
//! rejected.
//!
//! Nothing here parses the content of a message.

mod child;
mod diagnostics;
mod isolation;
mod lines;
mod pool;
mod spool;

pub use child::{LOG_BYTES_DEFAULT, Launch, ServerProcess, write_line};
pub use isolation::{Isolation, ServerUser, enter};
pub use lines::{Cut, HEAD_BYTES_MAX, Line, Lines, TAIL_BYTES_MAX};
pub use lro_http::Event;
pub use lro_system::widen_pipe;
pub use pool::{Permit, Pool};
pub use spool::{
    DISK_BYTES_DEFAULT, DiskBudget, MEMORY_BYTES_DEFAULT, MESSAGE_BYTES_DEFAULT, MessageLimits, Share, Spool,
    SpoolError,
};

/// Splits an event stream into events, each kept as any message is.
pub type EventReader = lro_http::EventReader<Spool>;

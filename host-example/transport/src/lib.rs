//! Messages out of byte streams: lines of a pipe, events of a `text/event-stream`.
//!
//! A message comes out as one [`bytes::Bytes`], whatever its size. Only the first [`MessageLimits::memory_bytes`] of it are
//! kept in memory; a longer one is written to a file without a name and comes out as a map of that file, so that the
//! system may drop its pages and read them again. So does one for which its [`Share`] has no memory left. A message past [`MessageLimits::message_bytes`] does not come out.
//!
//! Nothing here knows what a message says.

mod child;
mod diagnostics;
mod isolation;
mod lines;
mod pool;
mod spool;
mod sse;

pub use child::{LOG_BYTES_DEFAULT, Launch, ServerProcess, write_line};
pub use isolation::{Isolation, ServerUser, enter};
pub use lines::{Cut, HEAD_BYTES_MAX, Line, Lines, TAIL_BYTES_MAX, widen_pipe};
pub use pool::{Place, Pool};
pub use spool::{
    DISK_BYTES_DEFAULT, DiskBudget, MEMORY_BYTES_DEFAULT, MESSAGE_BYTES_DEFAULT, MessageLimits, Share, Spool,
    SpoolError,
};
pub use sse::{Event, EventReader};

//! What differs between Linux, macOS and Windows, behind functions that are the same on all of them.
//!
//! Where a system lacks something, a function does nothing or returns an error, and says so in its documentation. What that
//! weakens is listed in `SECURITY.md`.

pub mod files;
mod group;
mod pipe;
pub mod process;

pub use group::Group;
pub use pipe::{NonBlockingPipe, Readiness, widen_pipe};

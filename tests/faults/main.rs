//! What the disk and the system can do to an offload: power that fails after any system call, and system calls that fail,
//! stall or are the last of the process. The calls are those of the real command, as `strace` sees them.

#![expect(clippy::unwrap_used, clippy::panic, reason = "these are tests")]

mod calls;
mod disk;
mod power;
mod support;
mod trace;

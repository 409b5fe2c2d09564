//! Bounds of a compiling child that the system enforces, and how it ends at them.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, nice, setrlimit};

/// Nice value of a child.
const NICENESS: i32 = 5;

/// How a child ended that did not succeed.
pub(super) enum End {
    /// At its limit of processor time.
    OutOfTime,
    /// By another signal.
    Signal(i32),
    /// On its own.
    Status,
}

/// Limits memory, output and processor time of this process, which writes no core. macOS takes the limit of memory and does
/// not enforce it.
pub(super) fn limit_this_process(memory_bytes: u64, seconds: u64) -> io::Result<()> {
    hide_from_others()?;
    let limits =
        [(Resource::Core, 0), (Resource::As, memory_bytes), (Resource::Fsize, memory_bytes), (Resource::Cpu, seconds)];
    for (resource, limit) in limits {
        let Rlimit { maximum, .. } = getrlimit(resource);
        let current = Some(maximum.map_or(limit, |maximum| maximum.min(limit)));
        setrlimit(resource, Rlimit { current, maximum })?;
    }
    nice(NICENESS)?;
    Ok(())
}

/// The host runs the output of this process, so no other process of this user may trace it or open its files.
#[cfg(target_os = "linux")]
fn hide_from_others() -> io::Result<()> {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};

    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Does nothing: the system has its own rules for who may trace a process.
#[cfg(not(target_os = "linux"))]
fn hide_from_others() -> io::Result<()> {
    Ok(())
}

/// How a child ended.
pub(super) fn end(status: ExitStatus) -> End {
    match status.signal() {
        Some(signal) if signal == Signal::XCPU.as_raw() => End::OutOfTime,
        Some(signal) => End::Signal(signal),
        None => End::Status,
    }
}

/// Whether the system does not execute a program because it is for another processor, as when this process is emulated.
pub(super) fn is_foreign_program(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::NOEXEC)
}

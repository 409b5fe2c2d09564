//! Bounds of a compiling child that the system enforces, and how it ends at them.

use std::io;
use std::process::ExitStatus;

#[cfg(unix)]
pub(super) use self::unix::{end, is_foreign_program, limit_this_process};
#[cfg(windows)]
pub(super) use self::windows::{end, is_foreign_program, limit_this_process};

/// How a child ended that did not succeed.
pub(super) enum End {
    /// At its limit of processor time.
    OutOfTime,
    /// By another signal.
    Signal(i32),
    /// On its own.
    Status,
}

#[cfg(unix)]
mod unix {
    use std::os::unix::process::ExitStatusExt;

    use rustix::io::Errno;
    use rustix::process::{Resource, Rlimit, Signal, getrlimit, nice, setrlimit};

    use super::{End, ExitStatus, io};

    /// Nice value of a child.
    const NICENESS: i32 = 5;

    /// Limits memory, output and processor time of this process. No core is written.
    pub(in super::super) fn limit_this_process(memory_bytes: u64, seconds: u64) -> io::Result<()> {
        hide_from_others()?;
        let limits = [
            (Resource::Core, 0),
            // The system for which it does nothing is named in SECURITY.md.
            (Resource::As, memory_bytes),
            (Resource::Fsize, memory_bytes),
            (Resource::Cpu, seconds),
        ];
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

    #[cfg(not(target_os = "linux"))]
    fn hide_from_others() -> io::Result<()> {
        Ok(())
    }

    pub(in super::super) fn end(status: ExitStatus) -> End {
        match status.signal() {
            Some(signal) if signal == Signal::XCPU.as_raw() => End::OutOfTime,
            Some(signal) => End::Signal(signal),
            None => End::Status,
        }
    }

    /// Whether a program cannot be started because it is for another processor, which something emulates for this process.
    pub(in super::super) fn is_foreign_program(error: &io::Error) -> bool {
        Errno::from_io_error(error) == Some(Errno::NOEXEC)
    }
}

#[cfg(windows)]
mod windows {
    use super::{End, ExitStatus, io};

    /// The system has no such limits; the parent watches the clock.
    pub(in super::super) fn limit_this_process(_memory_bytes: u64, _seconds: u64) -> io::Result<()> {
        Ok(())
    }

    pub(in super::super) fn end(_: ExitStatus) -> End {
        End::Status
    }

    pub(in super::super) fn is_foreign_program(_: &io::Error) -> bool {
        false
    }
}

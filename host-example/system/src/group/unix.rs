use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// A child and the processes that it starts, which are killed together. Unix: its process group; Windows: a job.
///
/// The child must not be reaped before the last use: as a zombie it keeps the id of its group from being reused.
#[derive(Debug)]
pub struct Group {
    leader: Pid,
}

impl Group {
    /// Has a command start a group.
    pub fn prepare(command: &mut Command) {
        command.process_group(0);
    }

    /// The group of a child that a prepared command has started. Windows: what the child has started before this call is
    /// not in the group.
    ///
    /// # Errors
    /// Windows: when there cannot be another job.
    pub fn of(child: &Child) -> io::Result<Self> {
        Ok(Self { leader: Pid::from_child(child) })
    }

    /// Asks all processes to end: SIGTERM. Windows: does nothing, as programs without a window cannot be asked.
    pub fn ask_to_end(&self) {
        // It fails if they have ended.
        let _ = kill_process_group(self.leader, Signal::TERM);
    }

    /// Kills all processes.
    pub fn kill(&self) {
        let _ = kill_process_group(self.leader, Signal::KILL);
    }

    /// Waits until the child has ended, whatever it has started.
    pub fn wait(&self) {
        let _ = waitid(WaitId::Pid(self.leader), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
    }

    /// Whether the child has ended.
    pub fn has_ended(&self) -> bool {
        let now = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        !matches!(waitid(WaitId::Pid(self.leader), now), Ok(None))
    }
}

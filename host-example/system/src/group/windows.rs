#![expect(unsafe_code, reason = "the standard library has no jobs, and does not wait for a process by its handle")]

use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle, FromRawHandle, OwnedHandle};
use std::os::windows::process::CommandExt;
use std::process::{Child, Command};
use std::ptr;

use windows_sys::Win32::Foundation::WAIT_TIMEOUT;
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectExtendedLimitInformation, SetInformationJobObject,
    TerminateJobObject,
};
use windows_sys::Win32::System::Threading::{CREATE_NO_WINDOW, INFINITE, WaitForSingleObject};

use crate::process::succeeded;

/// Exit code of what is killed.
const KILLED: u32 = 1;

/// A child and the processes that it starts, which are killed together: a job. They are killed when it is dropped, too.
#[derive(Debug)]
pub struct Group {
    job: OwnedHandle,
    child: OwnedHandle,
}

impl Group {
    /// Has a command start a group, without a window.
    pub fn prepare(command: &mut Command) {
        command.creation_flags(CREATE_NO_WINDOW);
    }

    /// The group of a child that a prepared command has started. What the child has started before this call is not in the
    /// group.
    ///
    /// # Errors
    /// When there cannot be another job.
    pub fn of(child: &Child) -> io::Result<Self> {
        // SAFETY: both arguments may be null.
        let job = unsafe { CreateJobObjectW(ptr::null(), ptr::null()) };
        if job.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was just created, and nothing else closes it.
        let job = unsafe { OwnedHandle::from_raw_handle(job) };
        let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
        // SAFETY: the job is open, and the pointer and the length are those of the structure that belongs to the class.
        let limited = unsafe {
            SetInformationJobObject(
                job.as_raw_handle(),
                JobObjectExtendedLimitInformation,
                (&raw const limits).cast(),
                size_of_val(&limits) as u32,
            )
        };
        succeeded(limited)?;
        // SAFETY: both handles are open.
        succeeded(unsafe { AssignProcessToJobObject(job.as_raw_handle(), child.as_raw_handle()) })?;
        Ok(Self { job, child: child.as_handle().try_clone_to_owned()? })
    }

    /// Does nothing: programs without a window cannot be asked to end.
    pub fn ask_to_end(&self) {}

    /// Kills all processes.
    pub fn kill(&self) {
        // SAFETY: the job is open. It fails if they have ended.
        unsafe { TerminateJobObject(self.job.as_raw_handle(), KILLED) };
    }

    /// Waits until the child has ended, whatever it has started.
    pub fn wait(&self) {
        // SAFETY: the handle is open.
        unsafe { WaitForSingleObject(self.child.as_raw_handle(), INFINITE) };
    }

    /// Whether the child has ended.
    pub fn has_ended(&self) -> bool {
        // SAFETY: the handle is open.
        let waited = unsafe { WaitForSingleObject(self.child.as_raw_handle(), 0) };
        waited != WAIT_TIMEOUT
    }
}

//! This process and its children: limits, streams, and how they end.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};

#[cfg(unix)]
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};

/// Keeps other processes of this user from tracing this one and from opening its files. Elsewhere than on Linux it does
/// nothing: the system has its own rules for that.
///
/// # Errors
/// When the system refuses.
pub fn hide_from_others() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};

        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    }
    Ok(())
}

/// How many files this process may open; `None` if there is no limit, as on Windows.
pub fn open_files() -> Option<u64> {
    #[cfg(unix)]
    return getrlimit(Resource::Nofile).current;
    #[cfg(windows)]
    None
}

/// Raises the limit of open files, as far as permitted. Never lowers it.
///
/// # Errors
/// When the system refuses.
pub fn raise_open_files(wanted: u64) -> io::Result<()> {
    #[cfg(unix)]
    {
        let limits = getrlimit(Resource::Nofile);
        let current = wanted.min(limits.maximum.unwrap_or(u64::MAX));
        if limits.current.is_some_and(|now| now < current) {
            setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..limits })?;
        }
    }
    #[cfg(windows)]
    let _ = wanted;
    Ok(())
}

/// Address space that this process may have, in bytes; `None` if there is no limit of its own, as on Windows.
pub fn address_space() -> Option<u64> {
    #[cfg(unix)]
    return getrlimit(Resource::As).current;
    #[cfg(windows)]
    None
}

/// Limits address space, size of files and processor time of this process, which writes no core and gives way to others.
/// macOS does not enforce the limit of address space, and Windows has none of these limits: see [`unlimited_memory`].
///
/// # Errors
/// When the system refuses.
pub fn limit_this_process(memory_bytes: u64, seconds: u64) -> io::Result<()> {
    #[cfg(unix)]
    {
        /// What is added to the nice value.
        const NICENESS: i32 = 5;

        let limits = [
            (Resource::Core, 0),
            (Resource::As, memory_bytes),
            (Resource::Fsize, memory_bytes),
            (Resource::Cpu, seconds),
        ];
        for (resource, limit) in limits {
            let Rlimit { maximum, .. } = getrlimit(resource);
            let current = Some(maximum.map_or(limit, |maximum| maximum.min(limit)));
            setrlimit(resource, Rlimit { current, maximum })?;
        }
        rustix::process::nice(NICENESS)?;
        Ok(())
    }
    #[cfg(windows)]
    {
        use windows_sys::Win32::System::Threading::{BELOW_NORMAL_PRIORITY_CLASS, GetCurrentProcess, SetPriorityClass};

        let _ = (memory_bytes, seconds);
        #[expect(unsafe_code, reason = "the standard library sets no priorities")]
        // SAFETY: the handle is that of this process, and always valid.
        let set = unsafe { SetPriorityClass(GetCurrentProcess(), BELOW_NORMAL_PRIORITY_CLASS) };
        succeeded(set)
    }
}

/// Memory that a child uses, in bytes, on systems that do not enforce [`limit_this_process`] themselves: macOS and Windows.
/// `None` elsewhere, and for a child that has ended.
pub fn unlimited_memory(child: &Child) -> Option<u64> {
    #[cfg(target_os = "macos")]
    {
        let mut usage = std::mem::MaybeUninit::<libc::rusage_info_v2>::zeroed();
        let id = i32::try_from(child.id()).ok()?;
        #[expect(unsafe_code, reason = "the standard library knows nothing of the memory of a process")]
        // SAFETY: the buffer is a structure of the version that is asked for, all of whose fields may be zero.
        let usage = unsafe {
            (libc::proc_pid_rusage(id, libc::RUSAGE_INFO_V2, usage.as_mut_ptr().cast()) == 0)
                .then(|| usage.assume_init())
        };
        Some(usage?.ri_phys_footprint)
    }
    #[cfg(windows)]
    {
        use std::os::windows::io::AsRawHandle;

        use windows_sys::Win32::System::ProcessStatus::{K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};

        let mut counters = PROCESS_MEMORY_COUNTERS::default();
        let length = size_of_val(&counters) as u32;
        #[expect(unsafe_code, reason = "the standard library knows nothing of the memory of a process")]
        // SAFETY: the handle is open, and the length is that of the structure.
        let found = unsafe { K32GetProcessMemoryInfo(child.as_raw_handle(), &raw mut counters, length) };
        succeeded(found).ok()?;
        Some(counters.PagefileUsage as u64)
    }
    #[cfg(not(any(target_os = "macos", windows)))]
    {
        let _ = child;
        None
    }
}

/// The file of a program. Windows: of a name without extension, what a shell would find with it in the folders of `path`, such
/// as `npx.cmd`; elsewhere, and where nothing is found, the name as it is.
pub fn found_program(name: &OsStr, path: &OsStr) -> PathBuf {
    let name = Path::new(name);
    #[cfg(windows)]
    {
        const EXTENSIONS: [&str; 4] = ["exe", "com", "cmd", "bat"];

        let folders = match name.components().count() {
            1 => std::env::split_paths(path).collect(),
            _ => vec![PathBuf::new()],
        };
        if name.extension().is_none() {
            let files = folders
                .iter()
                .flat_map(|folder| EXTENSIONS.map(|extension| folder.join(name).with_extension(extension)));
            if let Some(found) = files.into_iter().find(|file| file.is_file()) {
                return found;
            }
        }
    }
    #[cfg(unix)]
    let _ = path;
    name.to_owned()
}

/// Whether a program can be found: a name in the folders of `path`, anything longer where it leads. Windows looks for names in
/// further places, so there each counts as found.
pub fn is_program(name: &OsStr, path: &OsStr) -> bool {
    let file = found_program(name, path);
    match file.components().count() {
        1 => cfg!(windows) || std::env::split_paths(path).any(|folder| folder.join(&file).is_file()),
        _ => file.is_file(),
    }
}

/// The signal that has ended a process; `None` if it has exited, as on Windows always.
pub fn signal(status: ExitStatus) -> Option<i32> {
    #[cfg(unix)]
    return std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(windows)]
    {
        let _ = status;
        None
    }
}

/// Whether a process has ended at its limit of processor time.
pub fn ran_out_of_time(status: ExitStatus) -> bool {
    #[cfg(unix)]
    return signal(status) == Some(Signal::XCPU.as_raw());
    #[cfg(windows)]
    {
        let _ = status;
        false
    }
}

/// Whether the system does not execute a program because it is for another processor, as when this process is emulated.
pub fn is_foreign_program(error: &io::Error) -> bool {
    #[cfg(unix)]
    let number = rustix::io::Errno::NOEXEC.raw_os_error();
    #[cfg(windows)]
    let number = windows_sys::Win32::Foundation::ERROR_BAD_EXE_FORMAT as i32;
    error.raw_os_error() == Some(number)
}

/// Standard input as a file, without the buffer and lock of the standard library.
///
/// # Errors
/// When it is closed.
pub fn standard_input() -> io::Result<File> {
    unbuffered(&io::stdin())
}

/// Standard output as a file, without the buffer and lock of the standard library.
///
/// # Errors
/// When it is closed.
pub fn standard_output() -> io::Result<File> {
    unbuffered(&io::stdout())
}

#[cfg(unix)]
fn unbuffered(stream: &impl std::os::fd::AsFd) -> io::Result<File> {
    Ok(stream.as_fd().try_clone_to_owned()?.into())
}

#[cfg(windows)]
fn unbuffered(stream: &impl std::os::windows::io::AsHandle) -> io::Result<File> {
    Ok(stream.as_handle().try_clone_to_owned()?.into())
}

/// Converts the result of a function of Windows.
#[cfg(windows)]
pub(crate) fn succeeded(result: windows_sys::core::BOOL) -> io::Result<()> {
    if result == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

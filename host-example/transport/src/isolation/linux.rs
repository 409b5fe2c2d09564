//! Isolation by namespaces and capabilities.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, PipeReader, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::cmsg_space;
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use rustix::process::{Gid, Uid, getgid, getuid};
use rustix::stdio::{dup2_stdin, stdin};
use rustix::thread::{
    CapabilitySet, CapabilitySets, UnshareFlags, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid, unshare_unsafe,
};

use super::{Isolation, ServerUser};
use crate::Launch;

/// Maximum time to start a server; no step of it waits.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Report of the launcher before it executes the server.
const READY: &str = "ready";

/// Prefix of an error number in a report.
const SYSTEM: &str = "os ";

/// Capabilities that a server running as root keeps: for files of other users, its own processes, and low ports. Others
/// could let it escape.
const KEPT_CAPABILITIES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::NET_BIND_SERVICE);

impl Isolation {
    /// Tests the isolation with a process that exits at once.
    ///
    /// # Errors
    /// Why a server cannot be isolated here.
    pub fn probe(&self) -> io::Result<()> {
        let output = self.command().env_clear().stdin(Stdio::null()).output()?;
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr);
        Err(io::Error::other(text.trim().to_owned()))
    }

    /// Starts a server that reads from `input`; `prepare` sets up the rest of the command. The launcher reports over a
    /// socket, its standard input, which closes when it executes the server.
    pub(crate) fn spawn(
        &self,
        launch: &Launch,
        input: &PipeReader,
        prepare: impl FnOnce(&mut Command),
    ) -> io::Result<Child> {
        let (mut ours, theirs) = UnixStream::pair()?;
        send(&ours, input)?;
        let mut command = self.command();
        command.arg("--").arg(&launch.program).args(&launch.arguments);
        prepare(&mut command);
        let mut child = command.stdin(OwnedFd::from(theirs)).spawn()?;
        // The command holds the other end of the socket.
        drop(command);
        ours.set_read_timeout(Some(START_TIMEOUT))?;
        let mut report = String::new();
        let read = ours.read_to_string(&mut report).map(drop);
        if let Err(error) = read.and_then(|()| started(&report)) {
            let _ = child.kill();
            child.wait()?;
            return Err(error);
        }
        Ok(child)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        for path in &self.hidden {
            command.arg("--hide").arg(path);
        }
        if let Some(ServerUser { uid, gid }) = self.user {
            command.arg("--user").arg(format!("{uid}:{gid}"));
        }
        command
    }
}

/// Parses the report of the launcher.
fn started(report: &str) -> io::Result<()> {
    match report.strip_prefix(READY) {
        Some("") => Ok(()),
        Some(error) => match error.strip_prefix(SYSTEM).and_then(|number| number.parse().ok()) {
            Some(number) => Err(io::Error::from_raw_os_error(number)),
            None => Err(io::Error::other(error.to_owned())),
        },
        None if report.is_empty() => Err(io::Error::other("the launcher ended before it was isolated")),
        None => Err(io::Error::other(format!("it cannot be isolated: {report}"))),
    }
}

/// Main function of the launcher of an [`Isolation`]: isolates this process, and executes the server. Without a command
/// it only isolates itself, as a test. The process must be single-threaded.
///
/// # Errors
/// Why the process cannot be isolated. With a command, errors are reported to the parent process instead.
pub fn enter(hidden: &[PathBuf], user: Option<ServerUser>, command: &[OsString]) -> io::Result<()> {
    let Some((program, arguments)) = command.split_first() else { return confine(hidden, user) };
    let mut report = take_input()?;
    if let Err(error) = confine(hidden, user) {
        return report.write_all(error.to_string().as_bytes());
    }
    report.write_all(READY.as_bytes())?;
    let error = become_program(program, arguments).map_or_else(|error| error, |never| match never {});
    let text = error.raw_os_error().map_or_else(|| error.to_string(), |number| format!("{SYSTEM}{number}"));
    report.write_all(text.as_bytes())
}

fn become_program(program: &OsString, arguments: &[OsString]) -> io::Result<Infallible> {
    Err(Command::new(program).args(arguments).exec())
}

/// Sends the server's standard input to the launcher.
fn send(socket: &UnixStream, input: &PipeReader) -> io::Result<()> {
    let input = [input.as_fd()];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&input)) {
        return Err(ErrorKind::OutOfMemory.into());
    }
    // Descriptors need at least one byte of data.
    sendmsg(socket, &[IoSlice::new(b".")], &mut control, SendFlags::empty())?;
    Ok(())
}

/// Receives the server's standard input from the socket on this process's standard input, and replaces it. Returns the
/// socket, which closes on exec.
fn take_input() -> io::Result<File> {
    let socket = stdin().try_clone_to_owned()?;
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(&socket, &mut [IoSliceMut::new(&mut [0])], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let input = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    dup2_stdin(input.ok_or(ErrorKind::InvalidInput)?)?;
    Ok(socket.into())
}

fn confine(hidden: &[PathBuf], user: Option<ServerUser>) -> io::Result<()> {
    unshare_mounts().map_err(to("create a mount namespace"))?;
    for path in hidden {
        hide(path).map_err(|error| to(&format!("hide {}", path.display()))(error))?;
    }
    give_up_privileges(user)
}

/// Creates a mount namespace. Later mounts of the system propagate into it, and none out of it.
fn unshare_mounts() -> io::Result<()> {
    // SAFETY: the flags do not unshare the descriptor table, and there is no other thread.
    #[expect(unsafe_code, reason = "the safe wrapper is deprecated, because it accepts unsafe flags")]
    let unshare = |flags| unsafe { unshare_unsafe(flags) };
    match unshare(UnshareFlags::NEWNS) {
        Err(Errno::PERM) => {
            let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
            unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
            // Required before an unprivileged process may map its group.
            fs::write("/proc/self/setgroups", "deny")?;
            fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
            fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))?;
        }
        unshared => unshared?,
    }
    Ok(mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?)
}

/// Mounts something empty over a path, unless this user cannot access it anyway.
fn hide(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => Ok(()),
        Ok(metadata) if metadata.is_dir() => {
            let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
            Ok(mount("tmpfs", path, "tmpfs", flags, c"mode=000,size=4096")?)
        }
        found => found.and_then(|_| Ok(mount_bind("/dev/null", path)?)),
    }
}

fn give_up_privileges(user: Option<ServerUser>) -> io::Result<()> {
    let permitted = capabilities(None)?.permitted;
    if permitted.contains(CapabilitySet::SETPCAP) {
        bound_capabilities().map_err(to("give up capabilities"))?;
    }
    if let Some(ServerUser { uid, gid }) = user {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        let changed = set_thread_groups(&[gid])
            .and_then(|()| set_thread_res_gid(gid, gid, gid))
            .and_then(|()| set_thread_res_uid(uid, uid, uid));
        changed.map_err(|error| to("run as another user, which requires root")(error.into()))?;
    }
    let kept = if getuid().is_root() { KEPT_CAPABILITIES & permitted } else { CapabilitySet::empty() };
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    let given_up = clear_ambient_capability_set().and_then(|()| set_capabilities(None, sets));
    given_up.and_then(|()| set_no_new_privs(true)).map_err(|error| to("give up privileges")(error.into()))
}

/// Drops all other capabilities from the bounding set, so that no program executed later can regain them.
fn bound_capabilities() -> io::Result<()> {
    for number in 0..u64::BITS {
        let one = CapabilitySet::from_bits_retain(1 << number);
        if KEPT_CAPABILITIES.contains(one) {
            continue;
        }
        match remove_capability_from_bounding_set(one) {
            // Past the last capability.
            Err(Errno::INVAL) => break,
            removed => removed?,
        }
    }
    Ok(())
}

/// Adds the failed action to an error.
fn to(what: &str) -> impl FnOnce(io::Error) -> io::Error {
    let what = what.to_owned();
    move |error| io::Error::new(error.kind(), format!("cannot {what}: {error}"))
}

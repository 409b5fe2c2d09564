//! Groups of processes and pipes to them. The other process is this test again.

#![expect(clippy::unwrap_used, reason = "these are tests")]

use std::ffi::OsStr;
use std::io::{self, ErrorKind, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{env, fs};

use lro_system::process::{found_program, is_foreign_program, is_program, ran_out_of_time, signal};
use lro_system::{Group, NonBlockingPipe};
use tempfile::TempDir;

/// What the other process does; the tests of this process pass without it.
const ROLE: &str = "LRO_SYSTEM_TEST_ROLE";

/// Longest wait for another process.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts this test again, in a group of its own, to do something else.
fn other(test: &str, role: &str, prepare: impl FnOnce(&mut Command)) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]).env(ROLE, role);
    prepare(&mut command);
    Group::prepare(&mut command);
    command.spawn().unwrap()
}

fn role() -> Option<String> {
    env::var(ROLE).ok()
}

#[test]
fn a_group_is_killed_with_what_it_has_started() {
    const NAME: &str = "a_group_is_killed_with_what_it_has_started";
    match role().as_deref() {
        // Its own child has the same output, so that this ends only when both have.
        Some("parent") => {
            // It is in the group of this process.
            let own = Command::new(env::current_exe().unwrap())
                .args([NAME, "--exact", "--nocapture"])
                .env(ROLE, "child")
                .spawn();
            println!("started");
            own.unwrap().wait().unwrap();
        }
        Some(_) => drop(io::stdin().read(&mut [0])),
        None => {
            let (output, to) = io::pipe().unwrap();
            let (input, keep) = io::pipe().unwrap();
            let mut child = other(NAME, "parent", |command| {
                command.stdin(input).stdout(to.try_clone().unwrap()).stderr(Stdio::null());
            });
            drop(to);
            let group = Group::of(&child).unwrap();
            let mut output = io::BufReader::new(output);
            let mut line = String::new();
            while !line.contains("started") {
                line.clear();
                assert_ne!(io::BufRead::read_line(&mut output, &mut line).unwrap(), 0, "it has ended");
            }
            assert!(!group.has_ended());
            group.ask_to_end();
            group.kill();
            // Neither holds it open any more.
            output.read_to_end(&mut Vec::new()).unwrap();
            group.wait();
            assert!(group.has_ended());
            let status = child.wait().unwrap();
            assert!(!status.success() && !ran_out_of_time(status));
            assert_eq!(signal(status).is_some(), cfg!(unix));
            drop(keep);
        }
    }
}

#[test]
fn a_pipe_is_written_to_without_waiting() {
    const NAME: &str = "a_pipe_is_written_to_without_waiting";
    if role().is_some() {
        let mut bytes = Vec::new();
        io::stdin().read_to_end(&mut bytes).unwrap();
        assert!(bytes.iter().enumerate().all(|(place, byte)| *byte == (place % 251) as u8));
        println!("received {}", bytes.len());
        return;
    }
    const BYTES: usize = 4 << 20;
    let bytes: Vec<u8> = (0..BYTES).map(|place| (place % 251) as u8).collect();
    let (input, pipe) = io::pipe().unwrap();
    let (mut pipe, readiness) = NonBlockingPipe::new(pipe).unwrap();
    // Nobody reads yet, so that there is room for a part at most.
    let mut written = 0;
    let error = loop {
        match pipe.write(&bytes[written..]) {
            Ok(more) => written += more,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert!(written > 0 && written < BYTES, "{written}");
    let child = other(NAME, "reader", |command| {
        command.stdin(input).stdout(Stdio::piped());
    });
    while written < BYTES {
        match pipe.write(&bytes[written..]) {
            Ok(more) => written += more,
            Err(error) if error.kind() == ErrorKind::WouldBlock => readiness.wait(PATIENCE),
            Err(error) => panic!("{error}"),
        }
    }
    // The other end sees the end of the pipe when both are closed.
    drop((pipe, readiness));
    let output = child.wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains(&format!("received {BYTES}")), "{output:?}");
}

#[test]
fn a_pipe_without_a_reader_is_broken() {
    let (input, pipe) = io::pipe().unwrap();
    let (mut pipe, readiness) = NonBlockingPipe::new(pipe).unwrap();
    drop(input);
    let error = loop {
        match pipe.write(b"message") {
            Err(error) if error.kind() == ErrorKind::WouldBlock => readiness.wait(PATIENCE),
            Err(error) => break error,
            Ok(_) => {}
        }
    };
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
}

#[test]
fn a_program_is_found_as_a_shell_finds_it() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("tool.cmd"), b"").unwrap();
    let found = found_program(OsStr::new("tool"), directory.path().as_os_str());
    match cfg!(windows) {
        true => assert_eq!(found, directory.path().join("tool.cmd")),
        false => assert_eq!(found, OsStr::new("tool")),
    }
    assert_eq!(found_program(OsStr::new("absent"), directory.path().as_os_str()), OsStr::new("absent"));
    let whole = directory.path().join("tool.cmd");
    assert!(
        is_program(OsStr::new("tool.cmd"), directory.path().as_os_str())
            && is_program(whole.as_os_str(), OsStr::new(""))
    );
    assert!(!is_program(directory.path().join("absent").as_os_str(), directory.path().as_os_str()));
    assert_eq!(is_program(OsStr::new("absent"), directory.path().as_os_str()), cfg!(windows));
}

#[test]
fn a_program_for_another_processor_is_told_from_one_that_is_missing() {
    let missing = Command::new(env::temp_dir().join("no-such-program")).spawn().unwrap_err();
    assert!(!is_foreign_program(&missing), "{missing}");
    let mut file = tempfile::Builder::new().suffix(".exe").tempfile().unwrap();
    file.write_all(&[0x7f, b'E', b'L', b'F', 0, 0, 0, 0]).unwrap();
    #[cfg(unix)]
    fs::set_permissions(file.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let path = file.into_temp_path();
    // A process that another test is about to start may hold it open for a moment.
    let error = loop {
        let error = Command::new(&path).spawn().unwrap_err();
        if error.kind() != ErrorKind::ExecutableFileBusy {
            break error;
        }
    };
    assert!(is_foreign_program(&error), "{error:?}");
}

//! Paths of programs, and a process whose standard streams are lines of text.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lro_tests::{target, workspace};

/// Longest wait for one line: long enough for a busy machine; a gateway that lost an answer would wait for ever.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Longest wait for a process to end after its input is closed.
const END_PATIENCE: Duration = PATIENCE;

/// Variables by their names.
pub(crate) type Environment = BTreeMap<String, String>;

/// An installed program or file. Panics with the command to run when it is missing.
pub(crate) fn installed(path: &str) -> String {
    present(target().join("test-data").join(path), "make test-data")
}

/// A file of `tests/tools/clients`.
pub(crate) fn driver(name: &str) -> String {
    present(workspace().join("tests/tools/clients").join(name), "git checkout tests/tools/clients")
}

/// The command under test.
pub(crate) fn lro() -> String {
    present(target().join("release/lro"), "make build")
}

/// Node 22 from its package, or the installed Node where the package does not exist.
pub(crate) fn node() -> String {
    let packaged = target().join("test-data/mcp/node_modules/.bin/node");
    if packaged.exists() { path_text(&packaged) } else { "node".to_owned() }
}

/// Python with the servers and clients.
pub(crate) fn python() -> String {
    installed("venv/bin/python")
}

/// A file of a package of the Model Context Protocol.
pub(crate) fn mcp_package(path: &str) -> String {
    installed(&format!("mcp/node_modules/@modelcontextprotocol/{path}"))
}

fn present(path: PathBuf, hint: &str) -> String {
    assert!(path.exists(), "{} is not there: run `{hint}`", path.display());
    path_text(&path)
}

/// The text of a path. Panics when it is not UTF-8.
pub(crate) fn path_text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// Variables by their names.
pub(crate) fn environment(pairs: &[(&str, &str)]) -> Environment {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Owned words of a command.
pub(crate) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The output of a command whose input are these texts as JSON.
pub(crate) fn piped(command: &mut Command, texts: &[String]) -> Vec<u8> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let texts = serde_json::to_vec(texts).unwrap();
    let writer = std::thread::spawn(move || input.write_all(&texts));
    let output = child.wait_with_output().unwrap();
    let written = writer.join().unwrap();
    assert!(output.status.success() && written.is_ok(), "{}, {written:?}: run `make test-data`", output.status);
    output.stdout
}

/// A process and its descendants, which end when this is dropped.
pub(crate) struct Process {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    output: Receiver<String>,
    errors: Arc<Mutex<String>>,
}

/// The output of a process at its end.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) lines: Vec<String>,
    pub(crate) errors: String,
}

impl Process {
    /// Starts a command. Its standard error is kept for messages.
    pub(crate) fn start(command: &[String], variables: &Environment) -> Self {
        use std::os::unix::process::CommandExt;
        let (program, arguments) = command.split_first().unwrap();
        let mut child = Command::new(program)
            .args(arguments)
            .envs(variables)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("{program}: {error}"));
        let (sender, output) = channel();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            let mut line = Vec::new();
            while lines.read_until(b'\n', &mut line).unwrap_or(0) > 0 {
                let text = String::from_utf8(std::mem::take(&mut line)).unwrap();
                if sender.send(text.trim_end_matches('\n').to_owned()).is_err() {
                    return;
                }
            }
        });
        let errors = Arc::new(Mutex::new(String::new()));
        let (mut stream, log) = (child.stderr.take().unwrap(), Arc::clone(&errors));
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut chunk) {
                log.lock().unwrap().push_str(&String::from_utf8_lossy(&chunk[..count]));
            }
        });
        let input = child.stdin.take();
        Self { name: command.join(" "), child, input, output, errors }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes a line.
    pub(crate) fn send(&mut self, line: &str) {
        let written = self.input.as_mut().unwrap().write_all(format!("{line}\n").as_bytes());
        written.unwrap_or_else(|error| panic!("{}: {error}: {}", self.name, self.errors()));
    }

    /// The next line. Panics when none comes in time.
    pub(crate) fn line(&self) -> String {
        self.line_within(PATIENCE).unwrap_or_else(|| panic!("{}: no answer: {}", self.name, self.errors()))
    }

    /// The next line, if it comes within this time.
    pub(crate) fn line_within(&self, patience: Duration) -> Option<String> {
        match self.output.recv_timeout(patience) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => panic!("{}: ended: {}", self.name, self.errors()),
        }
    }

    /// Its standard error so far.
    pub(crate) fn errors(&self) -> String {
        self.errors.lock().unwrap().clone()
    }

    /// Waits for a line with this text on the standard error, and returns the rest of the line.
    pub(crate) fn told(&mut self, beginning: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let errors = self.errors();
            let rest = errors.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            if let Some((_, rest)) = rest.filter_map(|line| line.split_once(beginning)).next() {
                return rest.trim().to_owned();
            }
            let running = self.child.try_wait().unwrap().is_none();
            assert!(running && Instant::now() < end, "{} never said `{beginning}`: {errors}", self.name);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Closes its input and waits for its end. Panics when it does not end in time.
    pub(crate) fn end(mut self) -> Ended {
        drop(self.input.take());
        let end = Instant::now() + END_PATIENCE;
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None => assert!(Instant::now() < end, "{} does not end: {}", self.name, self.errors()),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut lines = Vec::new();
        loop {
            match self.output.recv_timeout(END_PATIENCE) {
                Ok(line) => lines.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("{} left a process behind", self.name),
            }
        }
        Ended { status, lines, errors: self.errors() }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The group includes its descendants; that the group no longer exists is not a failure.
        let group = format!("-{}", self.child.id());
        let _ = Command::new("sh").args(["-c", r#"kill -9 "$0" 2> /dev/null"#, &group]).status();
        let _ = self.child.wait();
    }
}

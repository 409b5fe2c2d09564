//! The command under `strace`, and the calls in the log.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use lro_tests::target;

use crate::support::output;

/// One system call that ended.
#[derive(Debug)]
pub(crate) struct Call {
    /// Of its thread.
    pub(crate) thread: u32,
    pub(crate) name: String,
    /// As printed: texts and paths in hexadecimal.
    pub(crate) arguments: Vec<String>,
    /// What it returned; `None` when it failed.
    pub(crate) result: Option<i64>,
    /// How many calls had ended when it began.
    pub(crate) began: usize,
}

impl Call {
    /// Descriptor and path of an argument such as `3</dir>` or `AT_FDCWD</dir>`. `None` when the file has no name any more.
    pub(crate) fn descriptor(&self, index: usize) -> Option<(i64, PathBuf)> {
        let argument = self.arguments.get(index)?;
        let (number, path) = argument.split_once('<')?;
        Some((number.parse().unwrap_or(-1), path_of(path.strip_suffix('>')?)))
    }

    /// The bytes of an argument that is a text.
    pub(crate) fn bytes(&self, index: usize) -> Vec<u8> {
        let argument = &self.arguments[index];
        let text = argument.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        unescape(text.unwrap_or_else(|| panic!("not a whole text: {argument:.80}")))
    }

    /// The path that a directory and a name in it lead to.
    pub(crate) fn path_at(&self, directory: usize) -> PathBuf {
        let name = OsString::from_vec(self.bytes(directory + 1));
        self.descriptor(directory).map_or_else(|| PathBuf::from(&name), |(_, path)| path.join(&name))
    }

    pub(crate) fn path(&self, index: usize) -> PathBuf {
        PathBuf::from(OsString::from_vec(self.bytes(index)))
    }
}

fn path_of(text: &str) -> PathBuf {
    PathBuf::from(OsString::from_vec(unescape(text)))
}

/// `\x61\x62` as bytes; what is not escaped stays.
fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len() / 4);
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match (first, after) {
            (b'\\', [b'x', high, low, after @ ..]) => {
                let digit = |digit: &u8| char::from(*digit).to_digit(16).unwrap() as u8;
                bytes.push(digit(high) << 4 | digit(low));
                rest = after;
            }
            _ => bytes.push(*first),
        }
    }
    bytes
}

/// The calls of a log, in the order in which they ended. One that never ended is left out.
pub(crate) fn parse(log: &str) -> Vec<Call> {
    let (mut calls, mut begun) = (Vec::<Call>::new(), Vec::<(u32, usize, String)>::new());
    for line in log.lines() {
        let (thread, text) = line.split_once(' ').unwrap_or_else(|| panic!("no line of strace: {line:.200}"));
        let (thread, text) = (thread.parse().unwrap(), text.trim_start());
        if text.starts_with("+++") || text.starts_with("---") {
            continue;
        }
        if let Some(beginning) = text.strip_suffix("<unfinished ...>") {
            begun.push((thread, calls.len(), beginning.to_owned()));
            continue;
        }
        let (began, text) = match text.strip_prefix("<... ") {
            Some(end) => {
                let at = begun.iter().position(|(waiting, ..)| *waiting == thread).unwrap();
                let (_, began, beginning) = begun.swap_remove(at);
                (began, beginning + end.split_once("resumed>").unwrap().1)
            }
            None => (calls.len(), text.to_owned()),
        };
        calls.extend(call(thread, began, &text));
    }
    calls
}

/// `None` for a call that never returns.
fn call(thread: u32, began: usize, text: &str) -> Option<Call> {
    let (call, result) = text.rsplit_once("= ").unwrap_or_else(|| panic!("no result: {text:.200}"));
    let (name, arguments) = call.trim_end().strip_suffix(')')?.split_once('(')?;
    let number: String = result.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    let value = match number.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => number.parse().ok(),
    };
    let (name, arguments) = (name.to_owned(), split(arguments));
    Some(Call { thread, name, arguments, result: value.filter(|value| *value >= 0), began })
}

/// Arguments are divided by commas outside of texts and brackets.
fn split(text: &str) -> Vec<String> {
    let (mut arguments, mut depth, mut is_text, mut start) = (Vec::new(), 0, false, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' => is_text = !is_text,
            _ if is_text => {}
            b'{' | b'[' | b'(' => depth += 1,
            b'}' | b']' | b')' => depth -= 1,
            b',' if depth == 0 => {
                arguments.push(text[start..at].trim().to_owned());
                start = at + 1;
            }
            _ => {}
        }
    }
    arguments.push(text[start..].trim().to_owned());
    arguments
}

/// `strace` of all threads, with a log. Panics where no process may trace another.
pub(crate) fn strace(options: &[&str], log: &Path) -> Command {
    static PERMITTED: OnceLock<()> = OnceLock::new();
    PERMITTED.get_or_init(|| {
        let mut attempt = Command::new("strace");
        attempt.args(["-f", "-o", "/dev/null", "true"]);
        let traced = output(attempt);
        let said = String::from_utf8_lossy(&traced.stderr);
        let hint = "allow ptrace; in a container that is the capability SYS_PTRACE";
        assert!(traced.status.success(), "no process may be traced here: {said}: {hint}");
    });
    let mut command = Command::new("strace");
    command.args(["-f", "-q"]).args(options).arg("-o").arg(log);
    command
}

/// Adds the command that is tested, with nothing of the environment but a cache in which the policy is compiled already.
pub(crate) fn with_lro(mut command: Command, arguments: &[&str]) -> Command {
    static COMPILED: OnceLock<()> = OnceLock::new();
    let (lro, cache) = (target().join("release/lro"), Path::new(env!("CARGO_TARGET_TMPDIR")).join("faults"));
    assert!(lro.exists(), "{} is not there: run `make build`", lro.display());
    COMPILED.get_or_init(|| {
        let mut inspect = Command::new(&lro);
        inspect.arg("inspect").env_clear().env("XDG_CACHE_HOME", &cache).stdin(Stdio::null());
        let inspected = output(inspect);
        assert!(inspected.status.success(), "{}", String::from_utf8_lossy(&inspected.stderr));
    });
    command.arg(lro).args(arguments).env_clear().stdin(Stdio::null());
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("XDG_CACHE_HOME", cache);
    command
}

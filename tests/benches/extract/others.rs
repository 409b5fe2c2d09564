//! The programs to compare reading back with: jq, DuckDB and `wc` on the same records.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The version of jq, or the reason why it is missing.
pub(crate) fn jq_version() -> Result<String, String> {
    let output = Command::new("jq").arg("--version").output().map_err(|error| format!("jq: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Runs `tail -n +2 FILE | jq -c ARGUMENTS > OUTPUT`; returns the time taken.
pub(crate) fn jq(file: &Path, arguments: &[&str], output: &Path) -> Duration {
    let output = File::create(output).unwrap();
    let started = Instant::now();
    let mut tail = Command::new("tail").args(["-n", "+2"]).arg(file).stdout(Stdio::piped()).spawn().unwrap();
    let records = tail.stdout.take().unwrap();
    let status = Command::new("jq").arg("-c").args(arguments).stdin(records).stdout(output).status().unwrap();
    assert!(status.success() && tail.wait().unwrap().success(), "jq {arguments:?}: {status}");
    started.elapsed()
}

/// Lines of a file, as `wc` counts them.
pub(crate) fn wc(file: &Path) -> u64 {
    let output = Command::new("wc").arg("-l").arg(file).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    printed.split_whitespace().next().unwrap().parse().unwrap()
}

/// DuckDB in a separate process, with the records as JSON lines.
pub(crate) struct Duck {
    process: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
    pub(crate) version: String,
}

impl Duck {
    /// Starts it; fails with the reason when it is not installed.
    pub(crate) fn new(records: &Path) -> Result<Self, String> {
        let python = lro_tests::target().join("test-data/venv/bin/python");
        let hint = |what: &str| format!("DuckDB: {what}: run `make bench`");
        let import = ["-c", "import duckdb; print(duckdb.__version__)"];
        let found = Command::new(&python).args(import).output().map_err(|error| hint(&error.to_string()))?;
        if !found.status.success() {
            return Err(hint(String::from_utf8_lossy(&found.stderr).lines().last().unwrap_or_default()));
        }
        let version = String::from_utf8_lossy(&found.stdout).trim().to_owned();
        let script = lro_tests::workspace().join("tests/tools/duck.py");
        let mut command = Command::new(python);
        let mut process =
            command.arg(script).arg(records).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let questions = process.stdin.take().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        Ok(Self { process, questions, answers, version })
    }

    /// Time of a query with so many threads, without the start of the process, and its rows as objects. The columns are `given`
    /// or detected.
    pub(crate) fn ask(&mut self, sql: &str, given: bool, threads: u32) -> (Duration, Vec<Value>) {
        writeln!(self.questions, "{}", json!({ "sql": sql, "given": given, "threads": threads })).unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        let mut answer: Value = serde_json::from_str(&line).expect("DuckDB answers");
        let Value::Array(rows) = answer["rows"].take() else { panic!("no rows: {answer}") };
        (Duration::from_secs_f64(answer["seconds"].as_f64().unwrap()), rows)
    }
}

impl Drop for Duck {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

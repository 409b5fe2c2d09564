//! Results of every form, as servers give them: each question of a model is answered by one call.
//!
//! `tests/kinds/kinds.json` has the table: which tool of which server, what a model asks, and a command of other programs
//! that works out the answer from the result itself; and beside it the `grep` with which a reader with a shell, who knows the
//! files of the offload, finds the answer in them. Some results were recorded, as their servers need large things to be
//! installed; each is the text that the tool returned:
//!
//! | file in `tests/kinds` | tool and server | of what |
//! |---|---|---|
//! | `snapshot.txt` | `browser_snapshot`, @playwright/mcp 0.0.83 | a page of 270 invented orders |
//! | `postgres.txt` | `query`, @modelcontextprotocol/server-postgres 0.6.2 | 414 airports of vega-datasets |
//! | `directory.txt` | `list_directory`, @wonderwhy-er/desktop-commander 0.2.52 | the files of an npm package |
//! | `workbook.md` | `convert_to_markdown`, markitdown-mcp 0.0.1a7 | a workbook of 900 airports |

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use lro_tests::{read, target, workspace};
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::savings::{Reading, savings};
use crate::servers::{Gateway, Server, excel, filesystem, git, memory, motherduck, ripgrep, sqlite};
use crate::support::{driver, installed, path_text, python};
use crate::wire::{Wire, call, shake_hands};

/// One kind of result.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Kind {
    kind: String,
    server: String,
    tool: String,
    arguments: Value,
    /// More flags of the gateway.
    #[serde(default)]
    flags: Vec<String>,
    questions: Vec<Question>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    /// Arguments of `lro_extract` besides the handle.
    ask: Value,
    /// jq program on the results of the answer.
    see: String,
    /// Shell command that prints what the program should see. It finds the result in the files `$RESULT` (its text blocks,
    /// joined by line feeds), `$BLOCKS` (their texts as a JSON array) and `$STRUCTURED`.
    expect: String,
    /// Absent where `grep` and `sed` cannot answer: for sums, groups, and what is greatest.
    grep: Option<Grep>,
}

/// One call of `grep` or `sed`, as short an output as is plausible.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Grep {
    /// Command in the directory of the offload.
    run: String,
    /// Shell command that turns what it prints into what the program of the question should see. Absent when it prints that.
    see: Option<String>,
}

/// What it took to answer the questions about one kind. Each call answers one.
struct Row {
    kind: String,
    /// Bytes of the result.
    bytes: usize,
    /// Estimated tokens of the descriptor in its place.
    tokens: u64,
    answers: Vec<Answer>,
    failures: Vec<String>,
    reading: Reading,
}

/// Bytes that answer a question.
struct Answer {
    /// The result of `lro_extract`, all its JSON.
    extract: usize,
    /// What `grep` prints.
    grep: Option<usize>,
}

#[test]
fn every_kind_of_result_is_answered_in_one_call() {
    let kinds: Vec<Kind> = serde_json::from_str(&read(&workspace().join("tests/kinds/kinds.json"))).unwrap();
    // Servers take longer to start than to answer.
    let mut running: BTreeMap<&str, Running> = BTreeMap::new();
    let rows: Vec<Row> = kinds
        .iter()
        .map(|kind| measured(kind, running.entry(&kind.server).or_insert_with(|| Running::new(&kind.server))))
        .collect();
    println!("{}", table(&rows));
    let failures: Vec<&str> = rows.iter().flat_map(|row| &row.failures).map(String::as_str).collect();
    assert!(failures.is_empty(), "{} questions failed:\n{}", failures.len(), failures.join("\n"));
    savings(rows.into_iter().map(|row| row.reading).collect());
}

/// The rows as a table, and their sums. A `-` is a question that `grep` cannot answer.
fn table(rows: &[Row]) -> String {
    let mut table = String::from(
        "| kind | bytes | descriptor tokens | calls | bytes to answer | calls of grep | bytes of grep |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for Row { kind, bytes, tokens, answers, failures, .. } in rows {
        let wrong = if failures.is_empty() { "" } else { " (wrong)" };
        let extract: Vec<String> = answers.iter().map(|answer| answer.extract.to_string()).collect();
        let grep: Vec<String> =
            answers.iter().map(|answer| answer.grep.map_or("-".to_owned(), |bytes| bytes.to_string())).collect();
        let greps = answers.iter().filter(|answer| answer.grep.is_some()).count();
        let (calls, extract, grep) = (answers.len(), extract.join(", "), grep.join(", "));
        writeln!(table, "| {kind}{wrong} | {bytes} | {tokens} | {calls} | {extract} | {greps} | {grep} |").unwrap();
    }
    let answers: Vec<&Answer> = rows.iter().flat_map(|row| &row.answers).collect();
    let both: Vec<(usize, usize)> = answers.iter().filter_map(|answer| Some((answer.extract, answer.grep?))).collect();
    let (extract, grep) = both.iter().fold((0, 0), |(extract, grep), both| (extract + both.0, grep + both.1));
    let (all, greps) = (answers.len(), both.len());
    writeln!(table, "\ngrep answers {greps} of {all} questions with {grep} bytes, lro_extract the same with {extract}")
        .unwrap();
    table
}

/// A server, alone and behind gateways.
struct Running {
    server: Server,
    alone: Wire,
    /// A gateway for each list of flags.
    behind: BTreeMap<Vec<String>, (Gateway, Wire)>,
}

impl Running {
    fn new(name: &str) -> Self {
        let server = server(name);
        let alone = opened(server.wire(), &server);
        Self { server, alone, behind: BTreeMap::new() }
    }

    /// A gateway with these flags before the server.
    fn behind(&mut self, flags: &[String]) -> &mut (Gateway, Wire) {
        let server = &self.server;
        self.behind.entry(flags.to_vec()).or_insert_with(|| {
            let gateway = Gateway::new(&flags.iter().map(String::as_str).collect::<Vec<_>>());
            let wire = opened(gateway.wire(server), server);
            (gateway, wire)
        })
    }
}

/// A connection on which calls can be made.
fn opened(mut wire: Wire, server: &Server) -> Wire {
    if !server.modern {
        shake_hands(&mut wire);
    }
    wire
}

fn measured(kind: &Kind, running: &mut Running) -> Row {
    let modern = running.server.modern;
    let tool = json!({"name": kind.tool, "arguments": expanded(&kind.arguments, &running.server)});
    let request = call(kind.kind.as_str(), &tool, modern);
    let files = TempDir::new().unwrap();
    let direct = running.alone.result(&request);
    assert!(direct["isError"] != true, "{direct}");
    let blocks: Vec<&str> =
        direct["content"].as_array().unwrap().iter().filter_map(|block| block["text"].as_str()).collect();
    fs::write(files.path().join("result"), blocks.join("\n")).unwrap();
    fs::write(files.path().join("blocks"), json!(blocks).to_string()).unwrap();
    fs::write(files.path().join("structured"), direct["structuredContent"].to_string()).unwrap();

    let (gateway, wire) = running.behind(&kind.flags);
    let reply = wire.result(&request);
    let text = reply["content"][0]["text"].as_str().unwrap_or_default();
    let mut row = Row {
        kind: kind.kind.clone(),
        bytes: direct.to_string().len(),
        tokens: 0,
        answers: Vec::new(),
        failures: Vec::new(),
        reading: Reading {
            kind: kind.kind.clone(),
            result: blocks.join("\n"),
            descriptor: text.to_owned(),
            answers: Vec::new(),
        },
    };
    let descriptor: Value = serde_json::from_str(text).unwrap_or_default();
    let Some(handle) = descriptor["handle"].as_str() else {
        row.failures.push(format!("{}: not offloaded, {} bytes", kind.kind, row.bytes));
        return row;
    };
    row.tokens = lro_jsonl::tokens(text);
    let offload = gateway.files(handle)[0].parent().unwrap().to_owned();
    for (number, question) in (1_usize..).zip(&kind.questions) {
        let mut arguments = question.ask.clone();
        arguments["handle"] = handle.into();
        let id = format!("{} {number}", kind.kind);
        let answer = wire.result(&call(id, &json!({"name": "lro_extract", "arguments": arguments}), modern));
        let seen = jq(&question.see, &answer["structuredContent"]["results"]);
        let expected = shell(&question.expect, files.path());
        if seen != expected {
            row.failures.push(format!("{}, question {number}: {seen} instead of {expected}: {answer}", kind.kind));
        }
        let grep = question.grep.as_ref().map(|grep| {
            let (bytes, found) = found(grep, &offload, files.path());
            if found != expected {
                let Grep { run, .. } = grep;
                row.failures.push(format!("{}, question {number}: {found} instead of {expected}: {run}", kind.kind));
            }
            bytes
        });
        row.reading.answers.push(answer["content"][0]["text"].as_str().unwrap_or_default().to_owned());
        row.answers.push(Answer { extract: answer.to_string().len(), grep });
    }
    row
}

/// The server of this name in the table.
fn server(name: &str) -> Server {
    let data = installed_path("npm/node_modules/vega-datasets/data");
    match name {
        "filesystem" => filesystem(&target().join("test-data")),
        "excel" => excel(&Path::new(&data).join("airports.csv")),
        "git" => git(),
        "kinds" => filesystem(&workspace().join("tests/kinds")),
        "memory" => memory(),
        "motherduck" => motherduck(),
        "ripgrep" => ripgrep(),
        "sqlite" => sqlite(),
        "shapes" => Server::new("shapes", vec![python(), driver("shapes_server.py"), data]),
        "shapes-1" => {
            let python = installed("venv-sqlite/bin/python");
            Server::new("shapes-1", vec![python, driver("shapes_server.py"), data])
        }
        other => panic!("there is no server `{other}`"),
    }
}

/// The arguments with the paths that only this machine knows.
fn expanded(arguments: &Value, server: &Server) -> Value {
    let places = [
        ("$DATA", installed_path("npm/node_modules/vega-datasets/data")),
        ("$NPM", installed_path("npm/node_modules")),
        ("$MCP", installed_path("mcp/node_modules")),
        ("$KINDS", path_text(&workspace().join("tests/kinds").canonicalize().unwrap())),
        ("$REPOSITORY", path_text(&server.files.path().join("repository"))),
    ];
    let text = places.iter().fold(arguments.to_string(), |text, (name, path)| text.replace(name, path));
    serde_json::from_str(&text).unwrap()
}

/// Absolute path of a folder of the test data, without symbolic links: the file server compares such paths.
fn installed_path(path: &str) -> String {
    let folder = target().join("test-data").join(path);
    path_text(
        &folder.canonicalize().unwrap_or_else(|error| panic!("{}: {error}: run `make test-data`", folder.display())),
    )
}

fn jq(program: &str, value: &Value) -> Value {
    let mut command = Command::new("jq");
    command.args(["-c", "--argjson", "value", &value.to_string(), "-n", &format!("$value | {program}")]);
    json_of(&mut command)
}

fn shell(script: &str, files: &Path) -> Value {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    for (name, file) in [("RESULT", "result"), ("BLOCKS", "blocks"), ("STRUCTURED", "structured")] {
        command.env(name, files.join(file));
    }
    json_of(&mut command)
}

/// The bytes that a `grep` on the files of an offload prints, and the answer in them.
fn found(grep: &Grep, offload: &Path, files: &Path) -> (usize, Value) {
    assert!(["grep ", "sed -n "].iter().any(|program| grep.run.starts_with(program)), "{}", grep.run);
    let output = Command::new("sh").args(["-c", &grep.run]).current_dir(offload).output().unwrap();
    let printed = files.join("printed");
    fs::write(&printed, &output.stdout).unwrap();
    let mut see = Command::new("sh");
    see.args(["-c", grep.see.as_deref().unwrap_or("cat")]).stdin(File::open(&printed).unwrap());
    (output.stdout.len(), json_of(&mut see))
}

/// What a command prints as JSON, or why it failed.
fn json_of(command: &mut Command) -> Value {
    let output = command.output().unwrap_or_else(|error| panic!("{error}: run `make test-data`"));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| {
        json!({"failed": String::from_utf8_lossy(&output.stderr), "printed": String::from_utf8_lossy(&output.stdout)})
    })
}

//! The servers of a configuration, and its text with the gateway before them, or without it.

use std::collections::HashSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::tree::{self, Node, Value};

/// What of the gateway's command line comes before that of a server.
const GATEWAY: [&str; 2] = ["gateway", "--"];

/// File names of the command `lro`, without an extension.
const COMMAND: &str = "lro";

/// A file that cannot be read as what its name says.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// JSON, with or without comments.
    #[error("this is not JSON: {0}")]
    Json(String),
    /// TOML.
    #[error("this is not TOML: {0}")]
    Toml(String),
}

/// How a client reaches a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// As a process that it starts.
    Started,
    /// By the gateway.
    Behind,
    /// At a URL.
    Remote,
    /// It is the command `lro` itself, with other arguments.
    Own,
    /// In another way.
    Unknown,
}

/// A server of a configuration.
#[derive(Clone, Debug)]
pub struct Server {
    /// Its name.
    pub name: String,
    /// How the client reaches it.
    pub state: State,
    /// The program that the client starts, if it starts one.
    command: String,
    line: Line,
}

/// Where a server's command line is.
#[derive(Clone, Debug, Default)]
struct Line {
    /// The command, and then the arguments, if any.
    command: Range<usize>,
    /// Arguments, or the whole command line if it is one list.
    list: Option<List>,
    /// Whether the list has the command too.
    whole: bool,
    /// What comes between the command and a list of arguments that has to be added.
    arguments: String,
}

#[derive(Clone, Debug)]
struct List {
    span: Range<usize>,
    elements: Vec<Range<usize>>,
}

/// A configuration of a client.
pub struct Document<'a> {
    text: &'a str,
    servers: Vec<Server>,
}

impl<'a> Document<'a> {
    /// Reads a file. `servers` are the keys under which servers stand, `*` being any key. An empty file has none.
    ///
    /// # Errors
    ///
    /// The text is not JSON, or, with `is_toml`, not TOML.
    pub fn parse(text: &'a str, is_toml: bool, servers: &[&[&str]]) -> Result<Self, ParseError> {
        let root = match is_toml {
            true => Some(tree::of_toml(text).map_err(ParseError::Toml)?),
            false => tree::of_json(text).map_err(ParseError::Json)?,
        };
        let mut found = Vec::new();
        for keys in servers {
            root.iter().for_each(|root| below(root, keys, &mut found));
        }
        let servers = found.into_iter().map(|(name, node)| server(text, is_toml, name, node)).collect();
        Ok(Self { text, servers })
    }

    /// The servers, in the order of the file.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The text with `lro gateway --` before the servers that the client starts and `wanted` chooses by name. `lro` is the
    /// program, as the client shall start it.
    pub fn with_gateway(&self, lro: &Path, wanted: impl Fn(&str) -> bool) -> String {
        let program = literal(&lro.to_string_lossy());
        let mut edits = Vec::new();
        for server in self.servers.iter().filter(|server| server.state == State::Started && wanted(&server.name)) {
            self.put_before(&server.line, &program, &mut edits);
        }
        spliced(self.text, edits)
    }

    /// The text without `lro gateway --`, wherever it stands before a server.
    pub fn without_gateway(&self) -> String {
        let mut edits = Vec::new();
        for server in self.servers.iter().filter(|server| server.state == State::Behind) {
            self.take_away(&server.line, &mut edits);
        }
        spliced(self.text, edits)
    }

    /// The program and the servers with which [`Document::with_gateway`] may have made this text.
    pub(crate) fn gateway(&self) -> Option<(PathBuf, HashSet<&str>)> {
        let behind = || self.servers.iter().filter(|server| server.state == State::Behind);
        let program = PathBuf::from(&behind().next()?.command);
        Some((program, behind().map(|server| server.name.as_str()).collect()))
    }

    fn put_before(&self, line: &Line, program: &str, edits: &mut Vec<(Range<usize>, String)>) {
        let command = &self.text[line.command.clone()];
        let mut first = GATEWAY.map(literal).to_vec();
        if line.whole {
            first.insert(0, program.to_owned());
        } else {
            first.push(command.to_owned());
            edits.push((line.command.clone(), program.to_owned()));
        }
        match &line.list {
            Some(List { span, elements }) => {
                // Each on a separate line, where the others are.
                let gap = elements.first().map_or("", |element| &self.text[span.start + 1..element.start]);
                let gap = if gap.is_empty() || !gap.trim().is_empty() { " " } else { gap };
                let separator = [",", gap].concat();
                let mut added = first.join(&separator);
                let at = elements.first().map_or(span.start + 1, |element| element.start);
                if !elements.is_empty() {
                    added.push_str(&separator);
                }
                edits.push((at..at, added));
            }
            None => {
                let added = format!("{}[{}]", line.arguments, first.join(", "));
                edits.push((line.command.end..line.command.end, added));
            }
        }
    }

    fn take_away(&self, line: &Line, edits: &mut Vec<(Range<usize>, String)>) {
        // The program and its two arguments, or these and the server's command: three elements either way.
        let Some(List { span, elements }) = &line.list else { return };
        let [first, _, last, rest @ ..] = elements.as_slice() else { return };
        if !line.whole {
            edits.push((line.command.clone(), self.text[last.clone()].to_owned()));
        }
        let added = !line.whole && self.text.get(line.command.end..span.start) == Some(&line.arguments);
        match rest {
            [next, ..] => edits.push((first.start..next.start, String::new())),
            // The list was added with them.
            [] if added => edits.push((line.command.end..span.end, String::new())),
            [] => edits.push((first.start..last.end, String::new())),
        }
    }
}

/// The servers that stand below these keys.
fn below<'n>(node: &'n Node, keys: &[&str], found: &mut Vec<(&'n str, &'n Node)>) {
    let Value::Map(entries) = &node.value else { return };
    match keys {
        [] => found.extend(entries.iter().map(|(name, node)| (name.as_str(), node))),
        ["*", rest @ ..] => entries.iter().for_each(|(_, node)| below(node, rest, found)),
        [key, rest @ ..] => node.get(key).into_iter().for_each(|node| below(node, rest, found)),
    }
}

fn server(text: &str, is_toml: bool, name: &str, node: &Node) -> Server {
    let list = |node: &Node| match &node.value {
        Value::List(elements) => {
            Some(List { span: node.span.clone(), elements: elements.iter().map(|e| e.span.clone()).collect() })
        }
        _ => None,
    };
    // What comes between a command and arguments that it does not have yet.
    let arguments = |command: &Range<usize>| match is_toml {
        false => ", \"args\": ".to_owned(),
        true if text[node.span.clone()].starts_with('{') => ", args = ".to_owned(),
        true => format!("\n{}args = ", dotted(text, command.start)),
    };
    let (words, line) = match (node.get("command"), node.get("args")) {
        (Some(Node { span, value: Value::Text(command) }), given) => {
            let (list, more) = (given.and_then(list), given.map_or(Some(vec![]), strings));
            let line = Line { command: span.clone(), list, whole: false, arguments: arguments(span) };
            (more.map(|more| [vec![command.as_str()], more].concat()).unwrap_or_default(), line)
        }
        (Some(command), None) => {
            (strings(command).unwrap_or_default(), Line { list: list(command), whole: true, ..Line::default() })
        }
        _ => (vec![], Line::default()),
    };
    let remote = ["url", "httpUrl", "serverUrl"].iter().any(|key| node.get(key).is_some());
    let state = match words.as_slice() {
        [] if remote => State::Remote,
        [] => State::Unknown,
        [command, first, second, _, ..] if is_lro(command) && [*first, *second] == GATEWAY => State::Behind,
        [command, ..] if is_lro(command) => State::Own,
        _ => State::Started,
    };
    let command = words.first().copied().unwrap_or_default().to_owned();
    Server { name: name.to_owned(), state, command, line }
}

/// The keys before `command` in a line of TOML such as `server.command = "…"`, whose value begins here.
fn dotted(text: &str, value: usize) -> &str {
    let line = text[..value].rsplit('\n').next().unwrap_or_default();
    let key = line.trim_end().strip_suffix('=').unwrap_or_default().trim_end();
    key.rfind('.').map_or("", |dot| &key[..=dot])
}

/// The strings of a list of strings.
fn strings(node: &Node) -> Option<Vec<&str>> {
    let Value::List(elements) = &node.value else { return None };
    elements
        .iter()
        .map(|element| match &element.value {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

fn is_lro(command: &str) -> bool {
    // A configuration may have been written on another system.
    let name = command.rsplit(['/', '\\']).next().unwrap_or_default();
    name.strip_suffix(".exe").unwrap_or(name) == COMMAND
}

/// A string as JSON and TOML have it: the escapes that are used are those of both.
fn literal(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The text with these places replaced.
pub(crate) fn spliced(text: &str, mut edits: Vec<(Range<usize>, String)>) -> String {
    edits.sort_by_key(|(range, _)| range.start);
    let mut new = String::with_capacity(text.len());
    let mut at = 0;
    for (range, added) in edits {
        new.push_str(&text[at..range.start]);
        new.push_str(&added);
        at = range.end;
    }
    new.push_str(&text[at..]);
    new
}

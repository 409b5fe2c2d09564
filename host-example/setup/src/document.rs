//! The servers of a configuration, and its text with the gateway before them, or without it.

use std::ops::Range;
use std::path::Path;

use crate::tree::{self, Node, Value};

/// What of the gateway's command line comes before that of a server.
const GATEWAY: [&str; 2] = ["gateway", SEPARATOR];

/// What separates flags of the gateway from the command of a server.
const SEPARATOR: &str = "--";

/// Subcommands that are MCP servers.
const SERVERS: [&str; 2] = ["gateway", "serve"];

/// Names of the command: that of the program, and that of the packages for npm and PyPI.
const COMMANDS: [&str; 2] = ["lro-filter", "lro"];

/// Programs that start a command of a package, which they name in an argument.
const RUNNERS: [&str; 9] = ["bunx", "cmd", "npm", "npx", "pipx", "pnpm", "uv", "uvx", "yarn"];

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
    /// By the gateway, which starts it.
    Behind,
    /// By the gateway, which has no command of a server after `--`: the server may be at a URL.
    Gateway,
    /// At a URL.
    Remote,
    /// It is the command `lro` itself, with another subcommand.
    Own,
    /// It has a command, but the value of this key is in a form that is not known.
    Malformed(&'static str),
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
    /// The keys under which it stands, and its name.
    pub(crate) keys: Vec<String>,
    /// The program that the client starts, if it starts one.
    pub(crate) command: String,
    /// Whether its command line is one of a gateway, whatever the program is called.
    pub(crate) resembles_gateway: bool,
    /// Whether its command line begins with what [`Document::with_gateway`] puts there: the path of a program, and no flags.
    pub(crate) begins_as_set_up: bool,
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
    /// How many words are those of the gateway, up to and with `--`.
    gateway: usize,
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
    pub(crate) text: &'a str,
    servers: Vec<Server>,
}

impl<'a> Document<'a> {
    /// Reads a file. `servers` are the keys under which servers stand, `*` being any key. An empty file has none. `lro` is the
    /// program that runs: a command of its file name is the gateway too, whatever that name is.
    ///
    /// # Errors
    ///
    /// The text is not JSON, or, with `is_toml`, not TOML.
    pub fn parse(text: &'a str, is_toml: bool, servers: &[&[&str]], lro: &Path) -> Result<Self, ParseError> {
        let root = match is_toml {
            true => Some(tree::of_toml(text).map_err(ParseError::Toml)?),
            false => tree::of_json(text).map_err(ParseError::Json)?,
        };
        let mut found = Vec::new();
        for keys in servers {
            root.iter().for_each(|root| below(root, keys, &[], &mut found));
        }
        let lro = lro.to_string_lossy();
        let servers = found.into_iter().map(|(keys, node)| server(text, is_toml, &keys, node, &lro)).collect();
        Ok(Self { text, servers })
    }

    /// The servers, in the order of the file.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The server of another text that stands in the same place.
    pub(crate) fn counterpart(&self, other: &Server) -> Option<&Server> {
        self.servers.iter().find(|server| server.keys == other.keys)
    }

    /// The text with `lro gateway --` before the servers that the client starts and `wanted` chooses. `lro` is the program, as
    /// the client shall start it.
    pub fn with_gateway(&self, lro: &Path, wanted: impl Fn(&Server) -> bool) -> String {
        let program = literal(&lro.to_string_lossy());
        let mut edits = Vec::new();
        for server in self.servers.iter().filter(|server| server.state == State::Started && wanted(server)) {
            self.put_before(&server.line, &program, &mut edits);
        }
        spliced(self.text, edits)
    }

    /// The text without `lro gateway --`, and without the flags before `--`, where it stands before a server that `wanted`
    /// chooses.
    pub fn without_gateway(&self, wanted: impl Fn(&Server) -> bool) -> String {
        let mut edits = Vec::new();
        for server in self.servers.iter().filter(|server| server.state == State::Behind && wanted(server)) {
            self.take_away(&server.line, &mut edits);
        }
        spliced(self.text, edits)
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
        let Some(List { span, elements }) = &line.list else { return };
        // Whether the program is one of them or the server's command comes behind them: as many elements as words.
        let Some((own, rest)) = elements.split_at_checked(line.gateway) else { return };
        let [first, .., last] = own else { return };
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

/// The servers that stand below these keys, each with the keys to it. `above` are those to the node.
fn below<'n>(node: &'n Node, keys: &[&'n str], above: &[&'n str], found: &mut Vec<(Vec<&'n str>, &'n Node)>) {
    let Value::Map(entries) = &node.value else { return };
    let keys_to = |key| [above, &[key]].concat();
    match keys {
        [] => found.extend(entries.iter().map(|(name, node)| (keys_to(name), node))),
        ["*", rest @ ..] => entries.iter().for_each(|(key, node)| below(node, rest, &keys_to(key), found)),
        [key, rest @ ..] => node.get(key).into_iter().for_each(|node| below(node, rest, &keys_to(key), found)),
    }
}

fn server(text: &str, is_toml: bool, keys: &[&str], node: &Node, lro: &str) -> Server {
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
    let (words, mut line) = match (node.get("command"), node.get("args")) {
        (Some(Node { span, value: Value::Text(command) }), given) => {
            let (list, more) = (given.and_then(list), given.map_or(Some(vec![]), strings));
            let line = Line { command: span.clone(), list, arguments: arguments(span), ..Line::default() };
            (more.map(|more| [vec![command.as_str()], more].concat()).unwrap_or_default(), line)
        }
        (Some(command), None) => {
            (strings(command).unwrap_or_default(), Line { list: list(command), whole: true, ..Line::default() })
        }
        _ => (vec![], Line::default()),
    };
    let remote = ["url", "httpUrl", "serverUrl"].iter().any(|key| node.get(key).is_some());
    let command = words.first().copied().unwrap_or_default();
    let state;
    (state, line.gateway) = match words.as_slice() {
        [] if remote => (State::Remote, 0),
        [] => (malformed(node).map_or(State::Unknown, State::Malformed), 0),
        words => started(words, lro),
    };
    let begins_as_set_up =
        Path::new(command).has_root() && words.get(1..).is_some_and(|words| words.starts_with(&GATEWAY));
    Server {
        name: keys.last().copied().unwrap_or_default().to_owned(),
        state,
        keys: keys.iter().map(|&key| key.to_owned()).collect(),
        command: command.to_owned(),
        resembles_gateway: started(&words, command).0 == State::Behind,
        begins_as_set_up,
        line,
    }
}

/// The key whose value is not what it is in a command line, if there is a command.
fn malformed(node: &Node) -> Option<&'static str> {
    match &node.get("command")?.value {
        Value::Text(_) => Some("args"),
        // Nothing is what an empty list starts.
        Value::List(words) if words.is_empty() => None,
        _ => Some("command"),
    }
}

/// How a server is reached that these words start, and how many of them are those of the gateway before it. `lro` is the program
/// that runs.
fn started(words: &[&str], lro: &str) -> (State, usize) {
    let Some(subcommand) = subcommand(words, lro) else { return (State::Started, 0) };
    if words.get(subcommand) != Some(&GATEWAY[0]) {
        return (State::Own, 0);
    }
    let separator = behind_flags(words, subcommand + 1);
    match words.get(separator..) {
        // A gateway may have been put before another.
        Some([SEPARATOR, server @ ..]) if !server.is_empty() => (State::Behind, separator + 1 + started(server, lro).1),
        _ => (State::Gateway, 0),
    }
}

/// Where the subcommand of `lro` is, if the words start it.
fn subcommand(words: &[&str], lro: &str) -> Option<usize> {
    let is_own = |word: &str| is_program(word) || program_name(word) == program_name(lro);
    let (command, arguments) = words.split_first()?;
    if is_own(command) {
        return Some(behind_flags(words, 1));
    }
    if !RUNNERS.contains(&program_name(command)) {
        return None;
    }
    // A runner has subcommands and flags of its own, such as `uvx --from lro-filter lro gateway`.
    let packages = arguments.iter().enumerate().filter(|(_, word)| is_own(word));
    let mut subcommands = packages.map(|(index, _)| behind_flags(words, index + 2));
    subcommands.find(|at| words.get(*at).is_some_and(|word| SERVERS.contains(word)))
}

/// The first word from `at` that is neither a flag nor the value of one.
fn behind_flags(words: &[&str], mut at: usize) -> usize {
    let is_flag = |word: &str| word.starts_with('-') && word != SEPARATOR;
    while let Some(flag) = words.get(at).filter(|word| is_flag(word)) {
        let has_value = |next: &&str| !flag.contains('=') && !next.starts_with('-') && !SERVERS.contains(next);
        at += if words.get(at + 1).is_some_and(has_value) { 2 } else { 1 };
    }
    at
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

/// Whether a word of a command line names the command `lro`: by its path, as a package of npm or PyPI, with or without a version.
pub fn is_program(word: &str) -> bool {
    let name = program_name(word);
    COMMANDS.iter().filter_map(|command| name.strip_prefix(command)).any(is_version)
}

/// Nothing, or what names a version behind the name of a program or package: `-0.1.0`, `@latest`, `==0.1.0`.
fn is_version(text: &str) -> bool {
    let is_number = |text: &str| text.chars().all(|character| character.is_ascii_digit() || character == '.');
    text.is_empty() || text.starts_with('@') || text.starts_with("==") || text.strip_prefix('-').is_some_and(is_number)
}

/// The name of a program without its folder and extension.
fn program_name(path: &str) -> &str {
    // A configuration may have been written on another system.
    let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
    [".exe", ".cmd"].iter().find_map(|extension| name.strip_suffix(extension)).unwrap_or(name)
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

//! Events of agents: what each says of a finished call, and where the text is that its model would see.
//!
//! An event is read as spans of its text. So numbers, unknown members and cut characters stay what they are in whatever goes back.

use std::env;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use bytes::Bytes;
use lro_gateway::QUERY_BYTES_MAX;
use lro_gateway::settings::Size;
use lro_json::write::string;
use lro_setup::is_program;
use lro_system::files::open_without_waiting;

use super::agent::{Agent, Answer};
use super::texts::{is_texts, member, places, replaced, text_member, text_of, text_of_result, without};
use super::{EVENT_BYTES_MAX, is_within};

/// Tools whose answer tells a person what changed; the model gets a line.
const CLAUDE_UNSEEN: [&str; 5] = ["Edit", "MultiEdit", "NotebookEdit", "TodoWrite", "Write"];

/// How Claude Code begins a text in the place of one that it has put in a file, and what it says before the name of that file.
const CLAUDE_FILED: [&str; 2] = ["Error: result (", "Output has been saved to "];

/// How Claude Code begins the names of MCP tools.
const CLAUDE_MCP: &str = "mcp__";

/// How Codex begins what it has cut, the rest of which is nowhere.
const CODEX_CUT: &str = "Warning: truncated output";

/// How Copilot begins a text in the place of one that it has put in a file, up to its size.
const COPILOT_FILED: &str = "Output too large to read at once (";

/// A part of the names of these files.
const COPILOT_FILE: &str = "copilot-tool-output-";

/// What Gemini CLI puts around data from outside.
const GEMINI_UNTRUSTED: [&str; 2] = ["<untrusted_context>\n", "\n</untrusted_context>"];

/// What Gemini CLI puts before the output of a command.
const GEMINI_OUTPUT: &str = "Output: ";

/// How the lines begin that Gemini CLI puts behind the output of a command.
const GEMINI_STATUS: [&str; 5] = ["Error: ", "Exit Code: ", "Signal: ", "Background PIDs: ", "Process Group PGID: "];

/// The folder in which opencode puts results, below that of the user's data.
const OPENCODE_FOLDER: &str = "opencode/tool-output";

/// Subcommands that read offloads.
const READERS: [&str; 6] = ["extract", "sql", "read", "search", "inspect", "offload"];

/// A finished call of a tool.
pub(super) struct Event<'a> {
    agent: Agent,
    /// The session, empty if the event names none.
    pub(super) session: String,
    /// The tool, as the agent names it.
    pub(super) tool: String,
    /// Where the agent keeps what was said, if it says so.
    transcript: Option<String>,
    /// The arguments as JSON.
    arguments: &'a str,
    /// What the tool answered, as JSON.
    response: &'a str,
}

/// A result to be filtered.
pub(super) struct Output {
    /// An MCP tool result.
    pub(super) result: Bytes,
    /// The text as a JSON string, if the result has nothing else.
    literal: Option<String>,
    /// Whether the agent would show less than all of it.
    pub(super) is_cut: bool,
}

impl Output {
    fn of_literal(literal: &str, is_error: bool) -> Self {
        let result = format!(r#"{{"content":[{{"type":"text","text":{literal}}}],"isError":{is_error}}}"#);
        Self { result: result.into(), literal: Some(literal.to_owned()), is_cut: false }
    }

    fn of_text(text: &str, is_error: bool) -> Self {
        Self::of_literal(&string(text), is_error)
    }

    /// A text that the agent has put in a file.
    fn of_file(text: &str, is_error: bool) -> Self {
        Self { is_cut: true, ..Self::of_text(text, is_error) }
    }

    fn of_result(result: &str) -> Self {
        Self { result: Bytes::copy_from_slice(result.as_bytes()), literal: None, is_cut: false }
    }

    pub(super) fn is_within(&self, size: Size) -> bool {
        match &self.literal {
            Some(literal) => is_within(literal, size),
            None => self.result.len() as u64 <= size.amount,
        }
    }
}

impl<'a> Event<'a> {
    /// Reads an event. `None` if it is not of a finished call, or in a form that is not known.
    pub(super) fn read(agent: Agent, text: &'a str) -> anyhow::Result<Option<Self>> {
        lro_json::members(text).map_err(|error| anyhow!("the event is not a JSON object: {error}"))?;
        let (session, tool, arguments, response, event) = match agent {
            Agent::Claude | Agent::Codex => {
                ("session_id", "tool_name", "tool_input", "tool_response", Some("PostToolUse"))
            }
            Agent::Gemini => ("session_id", "tool_name", "tool_input", "tool_response", Some("AfterTool")),
            Agent::Cursor => ("conversation_id", "tool_name", "tool_input", "tool_output", Some("postToolUse")),
            Agent::Copilot => ("sessionId", "toolName", "toolArgs", "toolResult", None),
            Agent::Opencode => ("sessionID", "tool", "args", "output", None),
        };
        let is_other = |name| text_member(text, "hook_event_name").as_deref() != Some(name);
        // Cursor runs the hooks of Claude Code as well, and takes other answers.
        let is_of_cursor = agent == Agent::Claude && member(text, "cursor_version").is_some();
        if event.is_some_and(is_other) || is_of_cursor {
            return Ok(None);
        }
        let (Some(tool), Some(response)) = (text_member(text, tool), member(text, response)) else { return Ok(None) };
        let session = text_member(text, session).unwrap_or_default();
        let (transcript, arguments) = (text_member(text, "transcript_path"), member(text, arguments).unwrap_or("{}"));
        Ok(Some(Self { agent, session, tool, transcript, arguments, response }))
    }

    /// The arguments, for the header of files.
    pub(super) fn query(&self) -> Option<String> {
        (self.arguments.len() <= QUERY_BYTES_MAX).then(|| self.arguments.to_owned())
    }

    /// Whether the call reads offloads: by their tools, by the command, or in their directory. What it gets is what was asked for,
    /// and as an offload would be asked for again.
    pub(super) fn reads_offloads(&self, dir: &Path) -> bool {
        let is_start = |at: usize| !self.tool.get(..at).is_some_and(|text| text.ends_with(char::is_alphanumeric));
        if self.tool.match_indices("lro_").any(|(at, _)| is_start(at)) {
            return true;
        }
        let literal = string(&dir.to_string_lossy());
        if self.arguments.contains(literal.trim_matches('"')) {
            return true;
        }
        let arguments = text_of(&format!("\"{}\"", self.arguments));
        arguments.split([';', '|', '&', '\n']).any(is_reading_command)
    }

    /// The answer, in which `filter` has replaced what the model would see; `None` if all passes.
    pub(super) fn answer(&self, filter: impl FnMut(&Output) -> Option<Bytes>) -> anyhow::Result<Option<Answer>> {
        Ok(match self.agent {
            Agent::Claude => self.of_claude(filter),
            Agent::Codex => self.of_codex(filter),
            Agent::Copilot => self.of_copilot(filter),
            Agent::Cursor => self.of_cursor(filter),
            Agent::Gemini => self.of_gemini(filter),
            Agent::Opencode => self.of_opencode(filter),
        })
    }

    /// The value of the same form: Claude Code ignores any other.
    fn of_claude(&self, mut filter: impl FnMut(&Output) -> Option<Bytes>) -> Option<Answer> {
        if CLAUDE_UNSEEN.contains(&&*self.tool) {
            return None;
        }
        let response = self.response;
        let updated = if response.starts_with('"') {
            let output = match self.filed_by_claude(&text_of(response)) {
                Some(file) => Output::of_file(&read(&file)?, false),
                None => Output::of_literal(response, false),
            };
            string(&text_of_reply(&filter(&output)?))
        } else if is_texts(response) {
            let reply = filter(&Output::of_result(&format!(r#"{{"content":{response}}}"#)))?;
            member(std::str::from_utf8(&reply).ok()?, "content")?.to_owned()
        } else {
            // MCP servers write the results of their tools themselves, with any member.
            let is_own = !self.tool.starts_with(CLAUDE_MCP);
            let filed = text_member(response, "persistedOutputPath").map(PathBuf::from);
            let filed = filed.filter(|file| is_own && self.is_of_session(file));
            let mut new: Vec<(Range<usize>, String)> = Vec::new();
            let (mut is_filed, stdout) = (false, member(response, "stdout").map(|text| text.as_ptr()));
            for place in places(response) {
                let literal = response.get(place.clone())?;
                let is_stdout = stdout == Some(literal.as_ptr());
                let output = match &filed {
                    Some(file) if is_stdout => Output::of_file(&read(file)?, false),
                    _ => Output::of_literal(literal, false),
                };
                if let Some(reply) = filter(&output) {
                    is_filed |= is_stdout && filed.is_some();
                    new.push((place, text_of_reply(&reply)));
                }
            }
            if new.is_empty() {
                return None;
            }
            let updated = replaced(response, &new);
            if is_filed { without(&updated, &["persistedOutputPath", "persistedOutputSize"]) } else { updated }
        };
        let output = format!(r#"{{"hookEventName":"PostToolUse","updatedToolOutput":{updated}}}"#);
        Some(Answer::of("hookSpecificOutput", output))
    }

    /// The file that a text of Claude Code names in its first line. A tool could write such a text too, so the file has to be one
    /// of this session.
    fn filed_by_claude(&self, text: &str) -> Option<PathBuf> {
        let [begins, saved] = CLAUDE_FILED;
        let (_, path) = text.strip_prefix(begins)?.lines().next()?.split_once(saved)?;
        let path = Path::new(path.strip_suffix('.').unwrap_or(path));
        self.is_of_session(path).then(|| path.to_owned())
    }

    /// Whether a file is one in which Claude Code has put a result of this session.
    fn is_of_session(&self, path: &Path) -> bool {
        let folder = |transcript| Path::new(transcript).with_extension("").join("tool-results");
        self.transcript.as_deref().is_some_and(|transcript| is_file_in(path, &folder(transcript)))
    }

    /// A reason, which Codex shows in place of the result.
    fn of_codex(&self, mut filter: impl FnMut(&Output) -> Option<Bytes>) -> Option<Answer> {
        let output = if self.response.starts_with('"') {
            let text = text_of(self.response);
            (!text.starts_with(CODEX_CUT)).then(|| Output::of_text(&text, false))?
        } else {
            member(self.response, "content").map(|_| Output::of_result(self.response))?
        };
        let reason = string(&text_of_reply(&filter(&output)?));
        Some(Answer::of("decision", string("block")).and("reason", reason))
    }

    fn of_copilot(&self, mut filter: impl FnMut(&Output) -> Option<Bytes>) -> Option<Answer> {
        let literal = member(self.response, "textResultForLlm").filter(|value| value.starts_with('"'))?;
        let is_error = text_member(self.response, "resultType").is_some_and(|kind| kind != "success");
        let text = text_of(literal);
        let output = match filed_by_copilot(&text) {
            Some(file) => Output::of_file(&read(&file)?, is_error),
            None => Output::of_literal(literal, is_error),
        };
        let reply = text_of_reply(&filter(&output)?);
        let start = literal.as_ptr() as usize - self.response.as_ptr() as usize;
        let result = replaced(self.response, &[(start..start + literal.len(), reply)]);
        Some(Answer::of("modifiedResult", result))
    }

    /// Cursor replaces results of MCP tools alone.
    fn of_cursor(&self, mut filter: impl FnMut(&Output) -> Option<Bytes>) -> Option<Answer> {
        if !self.tool.starts_with("MCP:") {
            return None;
        }
        let inside = if self.response.starts_with('"') { text_of(self.response) } else { self.response.to_owned() };
        member(&inside, "content")?;
        let reply = filter(&Output::of_result(&inside))?;
        Some(Answer::of("updated_mcp_tool_output", String::from_utf8(reply.into()).ok()?))
    }

    /// A refusal, whose reason Gemini CLI gives to its model in place of the result.
    fn of_gemini(&self, mut filter: impl FnMut(&Output) -> Option<Bytes>) -> Option<Answer> {
        let shown = member(self.response, "llmContent")?;
        let is_error = member(self.response, "error").is_some_and(|error| error != "null");
        let text = match shown.as_bytes().first()? {
            b'"' => text_of(shown),
            b'{' => text_member(shown, "text")?,
            _ => {
                let parts = lro_json::elements(shown).ok()?;
                // Beside images and such, a text could not stand alone.
                parts.into_iter().map(|part| text_member(part, "text")).collect::<Option<Vec<_>>>()?.join("\n")
            }
        };
        let [before, data, after] = split_of_gemini(&text);
        let reply = text_of_reply(&filter(&Output::of_text(data, is_error))?);
        let reason = string(&[before, &reply, after].concat());
        Some(Answer::of("decision", string("deny")).and("reason", reason))
    }

    /// Members that the plugin sets.
    fn of_opencode(&self, mut filter: impl FnMut(&Output) -> Option<Bytes>) -> Option<Answer> {
        // MCP servers write the results of their tools themselves, with any member: content tells them from opencode's own.
        let set = if member(self.response, "content").is_some_and(|value| value.starts_with('[')) {
            String::from_utf8(filter(&Output::of_result(self.response))?.into()).ok()?
        } else {
            let literal = member(self.response, "output").filter(|value| value.starts_with('"'))?;
            let filed = member(self.response, "metadata").and_then(|data| text_member(data, "outputPath"));
            let output = match filed.map(PathBuf::from).filter(|file| is_of_opencode(file)) {
                Some(file) => Output::of_file(&read(&file)?, false),
                None => Output::of_literal(literal, false),
            };
            format!(r#"{{"output":{}}}"#, string(&text_of_reply(&filter(&output)?)))
        };
        Some(Answer::of("set", set))
    }
}

fn text_of_reply(reply: &[u8]) -> String {
    text_of_result(&String::from_utf8_lossy(reply))
}

/// Whether a command of a shell begins `lro` with a subcommand that reads.
fn is_reading_command(command: &str) -> bool {
    let mut words =
        command.split([' ', '\t', '"', '\'', '(', ')', '`', '$', ',', ':', '{', '[']).filter(|word| !word.is_empty());
    words.any(is_program) && words.any(|word| READERS.contains(&word))
}

/// The text of a file in which an agent has put a result. `None` if it cannot be had: then the agent's own words stay.
fn read(file: &Path) -> Option<String> {
    let file = open_without_waiting(file).ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.len() > EVENT_BYTES_MAX {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(EVENT_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// The file that a text of Copilot names in its first line. A tool could write such a text too, so the file has to be one of those
/// that Copilot writes, by its name and place.
fn filed_by_copilot(text: &str) -> Option<PathBuf> {
    let (_, path) = text.strip_prefix(COPILOT_FILED)?.lines().next()?.split_once(". Saved to: ")?;
    let path = PathBuf::from(path);
    let is_named = path.file_name()?.to_str()?.contains(COPILOT_FILE);
    (is_named && is_file_in(&path, &env::temp_dir())).then_some(path)
}

/// Whether a file is one in which opencode has put a result, by its place. A tool of a plugin could name another.
fn is_of_opencode(path: &Path) -> bool {
    let data = env::var_os("XDG_DATA_HOME").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let data = data.or_else(|| Some(env::home_dir()?.join(".local/share")));
    data.is_some_and(|data| is_file_in(path, &data.join(OPENCODE_FOLDER)))
}

/// Whether there is a file directly in a folder, and no link.
fn is_file_in(path: &Path, folder: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    let is_there = path.parent().and_then(real).is_some_and(|parent| real(folder) == Some(parent));
    is_there && path.symlink_metadata().is_ok_and(|metadata| metadata.is_file())
}

/// What Gemini CLI puts before a result, the result, and what it puts behind it.
fn split_of_gemini(text: &str) -> [&str; 3] {
    let mut start = 0;
    let mut end = text.len();
    let [open, close] = GEMINI_UNTRUSTED;
    if text.starts_with(open) && text.ends_with(close) && text.len() >= open.len() + close.len() {
        (start, end) = (open.len(), end - close.len());
    }
    let inside = |start, end| text.get(start..end).unwrap_or_default();
    if inside(start, end).starts_with(GEMINI_OUTPUT) {
        start += GEMINI_OUTPUT.len();
        while let Some((before, line)) = inside(start, end).rsplit_once('\n')
            && GEMINI_STATUS.iter().any(|status| line.starts_with(status))
        {
            end = start + before.len();
        }
    }
    [inside(0, start), inside(start, end), inside(end, text.len())]
}

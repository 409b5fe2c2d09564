//! Hooks of agents: what is added to their configurations, so that results of their own tools are filtered, and how it goes
//! again.

use std::fs;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::json;
use similar::TextDiff;
use tempfile::NamedTempFile;

use crate::client::{Below, Home, Scope};
use crate::document::{ParseError, spliced};
use crate::file::{Configuration, FileError};
use crate::plan::SetupError;
use crate::tree::{self, Node, Value};

/// What is put behind the name of a configuration to name its backup. Another than that of the servers, which may stand in the same
/// file.
const BACKUP: &str = ".before-lro-hooks";

/// Seconds that an agent waits for a hook. The first one on a machine compiles the policy.
const TIMEOUT_SECONDS: u32 = 60;

/// The plugin of opencode, with the place of the command in it.
const PLUGIN: &str = include_str!("opencode.js");
const PLUGIN_COMMAND: &str = "\"LRO\"";

/// An agent, and where its hooks are.
#[derive(Clone, Copy, Debug)]
pub struct HookClient {
    /// Short name, for the command line.
    pub name: &'static str,
    /// Its name.
    pub title: &'static str,
    /// What a person has to do so that the hook runs, if anything.
    pub advice: Option<&'static str>,
    /// The directory that is there if the agent is.
    folder: (Below, &'static str),
    /// Files: the user's, and that of a project.
    files: &'static [(Below, &'static str)],
    form: Form,
}

/// What a hook is in a file.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// An entry of a list.
    Entry {
        /// The keys under which the list stands.
        keys: [&'static str; 2],
        /// A file that has nothing yet.
        empty: &'static str,
        /// The entry that runs a command.
        entry: fn(&str) -> serde_json::Value,
    },
    /// The whole file.
    Plugin,
}

const PLAIN: &str = "{}";
const VERSION: &str = "{\n  \"version\": 1\n}";

/// The agents that are known, in order of their names.
pub const fn hook_clients() -> &'static [HookClient] {
    &[
        HookClient {
            name: "claude",
            title: "Claude Code",
            advice: None,
            folder: (Below::Home, ".claude"),
            files: &[(Below::Home, ".claude/settings.json"), (Below::Project, ".claude/settings.json")],
            form: Form::Entry { keys: ["hooks", "PostToolUse"], empty: PLAIN, entry: of_claude },
        },
        HookClient {
            name: "codex",
            title: "Codex",
            advice: Some("Codex asks once whether it may run the hook"),
            folder: (Below::Home, ".codex"),
            files: &[(Below::Home, ".codex/hooks.json"), (Below::Project, ".codex/hooks.json")],
            form: Form::Entry { keys: ["hooks", "PostToolUse"], empty: PLAIN, entry: of_claude },
        },
        HookClient {
            name: "copilot",
            title: "GitHub Copilot CLI",
            advice: None,
            folder: (Below::Home, ".copilot"),
            files: &[
                (Below::Home, ".copilot/hooks/lro-filter.json"),
                (Below::Project, ".github/hooks/lro-filter.json"),
            ],
            form: Form::Entry { keys: ["hooks", "postToolUse"], empty: VERSION, entry: of_copilot },
        },
        HookClient {
            name: "cursor",
            title: "Cursor",
            advice: None,
            folder: (Below::Home, ".cursor"),
            files: &[(Below::Home, ".cursor/hooks.json"), (Below::Project, ".cursor/hooks.json")],
            form: Form::Entry { keys: ["hooks", "postToolUse"], empty: VERSION, entry: of_cursor },
        },
        HookClient {
            name: "gemini",
            title: "Gemini CLI",
            advice: None,
            folder: (Below::Home, ".gemini"),
            files: &[(Below::Home, ".gemini/settings.json"), (Below::Project, ".gemini/settings.json")],
            form: Form::Entry { keys: ["hooks", "AfterTool"], empty: PLAIN, entry: of_gemini },
        },
        HookClient {
            name: "opencode",
            title: "opencode",
            advice: None,
            folder: (Below::Config, "opencode"),
            files: &[
                (Below::Config, "opencode/plugins/lro-filter.js"),
                (Below::Project, ".opencode/plugins/lro-filter.js"),
            ],
            form: Form::Plugin,
        },
    ]
}

fn of_claude(command: &str) -> serde_json::Value {
    json!({"matcher": "*", "hooks": [{"type": "command", "command": command, "timeout": TIMEOUT_SECONDS}]})
}

fn of_copilot(command: &str) -> serde_json::Value {
    json!({"type": "command", "bash": command, "powershell": command, "timeoutSec": TIMEOUT_SECONDS})
}

fn of_cursor(command: &str) -> serde_json::Value {
    json!({"command": command, "matcher": "^MCP:", "timeout": TIMEOUT_SECONDS})
}

fn of_gemini(command: &str) -> serde_json::Value {
    let milliseconds = TIMEOUT_SECONDS * 1000;
    let hook = json!({"name": "lro-filter", "type": "command", "command": command, "timeout": milliseconds});
    json!({"matcher": "*", "hooks": [hook]})
}

impl HookClient {
    /// Whether the agent has been used on this machine.
    pub fn is_there(&self, home: &Home) -> bool {
        let (below, folder) = self.folder;
        below.folder(home, Path::new("")).join(folder).is_dir()
    }

    /// The file of the user or of a project, whether it exists or not.
    pub fn file(&self, home: &Home, project: &Path, scope: Scope) -> Option<PathBuf> {
        let is_meant = |below: &Below| (*below == Below::Project) == (scope == Scope::Project);
        let (below, file) = self.files.iter().find(|(below, _)| is_meant(below))?;
        Some(below.folder(home, project).join(file))
    }

    /// The text with the hook. `command` runs it.
    fn with_hook(&self, text: &str, program: &Path) -> Result<String, ParseError> {
        match self.form {
            Form::Plugin => Ok(PLUGIN.replace(PLUGIN_COMMAND, &json!(program.to_string_lossy()).to_string())),
            Form::Entry { keys, empty, entry } => {
                let text = if text.trim().is_empty() { empty } else { text };
                let command = format!("{} hook {}", quoted(&program.to_string_lossy()), self.name);
                let with = with_entry(text, &keys, &entry(&command).to_string())?;
                Ok(if with.ends_with('\n') { with } else { with + "\n" })
            }
        }
    }

    /// The text without the hook; `None` if nothing is left of what was added.
    fn without_hook(&self, text: &str) -> Result<Option<String>, ParseError> {
        match self.form {
            Form::Plugin => Ok(None),
            Form::Entry { keys, empty, .. } => {
                let without = without_entry(text, &keys, |entry| self.is_own(entry))?;
                let is_empty = without.split_whitespace().eq(empty.split_whitespace());
                Ok((!is_empty).then_some(without))
            }
        }
    }

    /// Whether a text has the hook.
    fn has_hook(&self, text: &str) -> Result<bool, ParseError> {
        match self.form {
            Form::Plugin => Ok(true),
            Form::Entry { keys, .. } => {
                let root = tree::of_json(text).map_err(ParseError::Json)?;
                let list = root.as_ref().and_then(|root| keys.iter().try_fold(root, |node, key| node.get(key)));
                let entries = match list.map(|node| &node.value) {
                    Some(Value::List(entries)) => entries.as_slice(),
                    _ => &[],
                };
                Ok(entries.iter().any(|entry| self.is_own(entry)))
            }
        }
    }

    /// Whether an entry runs the hook, wherever the command is.
    fn is_own(&self, entry: &Node) -> bool {
        match &entry.value {
            Value::Text(text) => text.contains("lro") && text.contains(&format!(" hook {}", self.name)),
            Value::List(entries) => entries.iter().any(|entry| self.is_own(entry)),
            Value::Map(members) => members.iter().any(|(_, entry)| self.is_own(entry)),
            Value::Other => false,
        }
    }
}

/// A word of a shell.
fn quoted(word: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "/._-:\\+@".contains(character);
    match word.chars().all(is_plain) && (cfg!(windows) || !word.contains('\\')) {
        true => word.to_owned(),
        false if cfg!(windows) => format!("\"{word}\""),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Adds an entry to the end of a list below these keys; what is missing of them is added too.
fn with_entry(text: &str, keys: &[&str], entry: &str) -> Result<String, ParseError> {
    let root = tree::of_json(text).map_err(ParseError::Json)?;
    let root = root.ok_or_else(|| ParseError::Json("it has no value".to_owned()))?;
    let (mut node, mut missing) = (&root, keys);
    while let [key, rest @ ..] = missing
        && let Some(below) = node.get(key)
    {
        (node, missing) = (below, rest);
    }
    let last = match (&node.value, missing) {
        (Value::List(entries), []) => entries.last(),
        (Value::Map(members), [_, ..]) => members.last().map(|(_, value)| value),
        _ => return Err(ParseError::Json(format!("`{}` is not what it should be", keys.join(".")))),
    };
    let inner = missing
        .iter()
        .skip(1)
        .rev()
        .fold(if missing.is_empty() { entry.to_owned() } else { format!("[{entry}]") }, |inner, key| {
            format!("{{{}: {inner}}}", json!(key))
        });
    let added = missing.first().map_or_else(|| inner.clone(), |key| format!("{}: {inner}", json!(key)));
    let edit = match last {
        Some(last) => {
            let line = text.get(..last.span.start).unwrap_or_default().rsplit_once('\n').map(|(_, line)| line);
            let indent = line.map(|line| &line[..line.len() - line.trim_start().len()]);
            let gap = indent.map_or_else(|| " ".to_owned(), |indent| format!("\n{indent}"));
            (last.span.end..last.span.end, format!(",{gap}{added}"))
        }
        None => {
            let indent = if node.span.start == root.span.start { "\n  " } else { "" };
            let end = if indent.is_empty() { "" } else { "\n" };
            let inside = node.span.start + 1..node.span.end - 1;
            let is_blank = text.get(inside.clone()).is_some_and(|inside| inside.trim().is_empty());
            (if is_blank { inside } else { node.span.start + 1..node.span.start + 1 }, format!("{indent}{added}{end}"))
        }
    };
    Ok(spliced(text, vec![edit]))
}

/// Takes away the entries that `is_own` finds in a list below these keys, and what is empty then.
fn without_entry(text: &str, keys: &[&str], is_own: impl Fn(&Node) -> bool) -> Result<String, ParseError> {
    let root = tree::of_json(text).map_err(ParseError::Json)?;
    let Some(mut node) = root.as_ref() else { return Ok(text.to_owned()) };
    // The place of the list, or of the outermost object that has nothing but it.
    let mut whole: Option<(&Node, usize)> = None;
    for key in keys {
        let Value::Map(members) = &node.value else { return Ok(text.to_owned()) };
        let Some(index) = members.iter().rposition(|(name, _)| name == key) else { return Ok(text.to_owned()) };
        if members.len() > 1 || whole.is_none() {
            whole = Some((node, index));
        }
        let Some((_, below)) = members.get(index) else { return Ok(text.to_owned()) };
        node = below;
    }
    let Value::List(entries) = &node.value else { return Ok(text.to_owned()) };
    let spans: Vec<Range<usize>> = entries.iter().map(|entry| entry.span.clone()).collect();
    let own: Vec<usize> = (0..entries.len()).filter(|index| is_own(&entries[*index])).collect();
    if own.is_empty() {
        return Ok(text.to_owned());
    }
    if own.len() < entries.len() {
        let edits = own.into_iter().map(|index| (separated(text, &spans, index, node), String::new())).collect();
        return Ok(spliced(text, edits));
    }
    let Some((holder, index)) = whole else { return Ok(text.to_owned()) };
    let Value::Map(members) = &holder.value else { return Ok(text.to_owned()) };
    let spans: Vec<Range<usize>> = members
        .iter()
        .map(|(name, value)| {
            let literal = json!(name).to_string();
            let start = text.get(..value.span.start).and_then(|before| before.rfind(&literal));
            start.unwrap_or(value.span.start)..value.span.end
        })
        .collect();
    Ok(spliced(text, vec![(separated(text, &spans, index, holder), String::new())]))
}

/// An element with the comma that separates it from another.
fn separated(text: &str, spans: &[Range<usize>], index: usize, holder: &Node) -> Range<usize> {
    let span = spans.get(index).cloned().unwrap_or_default();
    match (index.checked_sub(1).and_then(|before| spans.get(before)), spans.get(index + 1)) {
        (Some(before), _) => before.end..span.end,
        (None, Some(after)) => span.start..after.start,
        // Alone: with a comma behind it and the space around it.
        (None, None) => {
            let inside = holder.span.start + 1..holder.span.end - 1;
            let is_plain = |part: Option<&str>| {
                part.is_some_and(|part| part.trim_matches([',', ' ', '\n', '\r', '\t']).is_empty())
            };
            let around = is_plain(text.get(inside.start..span.start)) && is_plain(text.get(span.end..inside.end));
            if around { inside } else { span }
        }
    }
}

/// What will change for a hook, known before anything does.
#[derive(Debug)]
pub struct HookPlan {
    file: PathBuf,
    /// The file as it is, if it is there.
    configuration: Option<Configuration>,
    /// Its text then; `None` if it goes.
    new: Option<String>,
    /// Whether the backup is made, or goes.
    backup: Option<bool>,
}

impl HookPlan {
    /// Adds the hook of an agent to a file, unless it has it. `lro` is the program, as the agent shall start it.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is not what its name says.
    pub fn set_up(client: &HookClient, file: PathBuf, lro: &Path) -> Result<Self, SetupError> {
        let configuration = read(&file)?;
        let old = configuration.as_ref().map(Configuration::text);
        let failed = |source| SetupError::Parse { file: file.clone(), source };
        let has = old.map(|old| client.has_hook(old)).transpose().map_err(failed)?.unwrap_or_default();
        let is_plugin = matches!(client.form, Form::Plugin);
        let new = match old {
            // The program may have moved.
            Some(old) if has && !is_plugin => {
                let without = client.without_hook(old).map_err(failed)?.unwrap_or_default();
                let again = client.with_hook(&without, lro).map_err(failed)?;
                let commands = |text: &str| text.matches(&quoted(&lro.to_string_lossy())).count();
                if commands(&again) == commands(old) { old.to_owned() } else { again }
            }
            old => client.with_hook(old.unwrap_or_default(), lro).map_err(failed)?,
        };
        let backup = (old.is_some() && !has).then_some(true);
        Ok(Self { file, configuration, new: Some(new), backup })
    }

    /// Takes the hook away again. A file that is as it was set up gets the bytes of its backup, or goes if there was none. From a
    /// file that was changed since, only the hook goes, and the backup stays.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is not what its name says.
    pub fn undo(client: &HookClient, file: PathBuf, lro: &Path) -> Result<Self, SetupError> {
        let configuration = read(&file)?;
        let Some(old) = configuration.as_ref() else {
            return Ok(Self { file, configuration, new: None, backup: None });
        };
        let failed = |source| SetupError::Parse { file: file.clone(), source };
        if !client.has_hook(old.text()).map_err(failed)? {
            let new = Some(old.text().to_owned());
            return Ok(Self { file, configuration, new, backup: None });
        }
        let before = old.backup()?;
        let made = before.as_ref().and_then(|before| client.with_hook(before.text(), lro).ok());
        let (new, backup) = match before {
            Some(before) if made.as_deref() == Some(old.text()) => (Some(before.text().to_owned()), Some(false)),
            _ => (client.without_hook(old.text()).map_err(failed)?, None),
        };
        Ok(Self { file, configuration, new, backup })
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    fn old(&self) -> Option<&str> {
        self.configuration.as_ref().map(Configuration::text)
    }

    /// Whether the file does not exist yet and will be created.
    pub fn creates(&self) -> bool {
        self.configuration.is_none() && self.new.is_some()
    }

    /// Whether the file will be removed, because it has nothing but the hook.
    pub fn removes(&self) -> bool {
        self.configuration.is_some() && self.new.is_none()
    }

    /// Whether the file will have another text, come or go.
    pub fn changes(&self) -> bool {
        self.new.as_deref() != self.old()
    }

    /// What changes, as a unified diff without context: other lines may have secrets.
    pub fn difference(&self) -> String {
        let name = self.file.display().to_string();
        TextDiff::from_lines(self.old().unwrap_or_default(), self.new.as_deref().unwrap_or_default())
            .unified_diff()
            .context_radius(0)
            .header(&name, &name)
            .to_string()
    }

    /// Changes the file. Its backup is there before.
    ///
    /// # Errors
    ///
    /// The file was changed after it was read, or a file cannot be written.
    pub fn carry_out(&self) -> Result<(), SetupError> {
        let failed = |source| SetupError::File(FileError::Write { file: self.file.clone(), source });
        match (&self.configuration, &self.new) {
            (Some(old), Some(new)) => {
                if self.backup == Some(true) {
                    old.back_up(old.text())?;
                }
                old.replace(new)?;
                if self.backup == Some(false) {
                    old.remove_backup()?;
                }
            }
            (Some(_), None) => fs::remove_file(&self.file).map_err(failed)?,
            (None, Some(new)) => created(&self.file, new).map_err(failed)?,
            (None, None) => {}
        }
        Ok(())
    }

    /// The backup that there is once the plan is carried out.
    pub fn backup(&self) -> Option<PathBuf> {
        let file = self.configuration.as_ref()?.backup_file();
        match self.backup {
            Some(true) => Some(file),
            Some(false) => None,
            None => file.exists().then_some(file),
        }
    }
}

fn read(file: &Path) -> Result<Option<Configuration>, SetupError> {
    Ok(Configuration::read(file)?.map(|configuration| configuration.with_backup(BACKUP)))
}

/// A new file, whole or not at all.
fn created(file: &Path, text: &str) -> std::io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut new = NamedTempFile::new_in(folder)?;
    new.write_all(text.as_bytes())?;
    new.as_file().sync_all()?;
    new.persist_noclobber(file)?;
    Ok(())
}

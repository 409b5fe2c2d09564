//! Output: data unchanged to stdout unless that is a terminal; messages and tables without control characters.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::time::SystemTime;

use lro_host::store::rfc3339;
use serde::Serialize;

use crate::flags::{ColorChoice, LogFormat};

/// Writes messages to stderr.
pub(crate) struct Terminal {
    colors: bool,
    format: LogFormat,
}

/// A message as a JSON log line.
#[derive(Serialize)]
struct Logged<'a> {
    timestamp: String,
    level: &'a str,
    message: &'a str,
}

impl Terminal {
    /// Decides once whether to use colors.
    pub(crate) fn new(choice: ColorChoice, format: LogFormat) -> Self {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colors = match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => io::stderr().is_terminal() && !no_color,
        };
        Self { colors, format }
    }

    /// Whether messages have colors.
    pub(crate) fn colors(&self) -> bool {
        self.colors
    }

    /// Prints an error that ends the command.
    pub(crate) fn error(&self, text: &str) {
        self.labelled("error", "ERROR", "31", text);
    }

    /// Prints a warning.
    pub(crate) fn warning(&self, text: &str) {
        self.labelled("warning", "WARN", "33", text);
    }

    /// Prints a hint.
    pub(crate) fn hint(&self, text: &str) {
        self.labelled("hint", "INFO", "36", text);
    }

    /// Prints a message. Ignores a closed stderr.
    pub(crate) fn message(&self, text: &str) {
        match self.format {
            LogFormat::Text => drop(writeln!(io::stderr(), "{}", printable(text))),
            LogFormat::Json => log("INFO", text),
        }
    }

    fn labelled(&self, label: &str, level: &str, color: &str, text: &str) {
        if self.format == LogFormat::Json {
            return log(level, text);
        }
        let text = printable(text);
        let _ = match self.colors {
            true => writeln!(io::stderr(), "\x1b[1;{color}m{label}:\x1b[0m {text}"),
            false => writeln!(io::stderr(), "{label}: {text}"),
        };
    }
}

/// Writes a message to stderr as a JSON log line.
fn log(level: &str, message: &str) {
    let timestamp = rfc3339(SystemTime::now());
    if let Ok(line) = serde_json::to_string(&Logged { timestamp, level, message }) {
        let _ = writeln!(io::stderr(), "{}", printable(&line));
    }
}

/// Whether a character controls a terminal or changes the text direction. Line feeds and tabs are safe.
fn is_unsafe(character: char) -> bool {
    (character.is_control() && !matches!(character, '\n' | '\t'))
        || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Escapes characters that control a terminal, such as `\u001b`. JSON keeps its values, because it has such characters
/// only in strings. The exception is the carriage return as a line break, which becomes a line feed.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return text.into();
    }
    let mut printable = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_unsafe) {
        let (safe, from) = rest.split_at(at);
        printable.push_str(safe);
        let mut characters = from.chars();
        match characters.next() {
            Some('\r') if characters.as_str().starts_with('\n') => {}
            Some('\r') => printable.push('\n'),
            Some(character) => drop(write!(printable, "\\u{:04x}", u32::from(character))),
            None => {}
        }
        rest = characters.as_str();
    }
    printable.push_str(rest);
    printable.into()
}

/// Writes bytes to stdout unchanged, or to a terminal as [`printable`] text.
pub(crate) fn data(bytes: &[u8]) -> io::Result<()> {
    if io::stdout().is_terminal() { text(&String::from_utf8_lossy(bytes)) } else { raw(bytes) }
}

/// Writes a table or a line of text to stdout. Always escaped, because a pipe may lead to a terminal too.
pub(crate) fn text(text: &str) -> io::Result<()> {
    raw(printable(text).as_bytes())
}

/// Writes bytes to stdout unchanged, even to a terminal.
pub(crate) fn raw(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

/// Writes one line of JSON to stdout.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(data(&line)?)
}

/// Formats two aligned columns.
pub(crate) fn columns(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.iter().map(|(name, value)| format!("{name:width$}  {value}\n")).collect()
}

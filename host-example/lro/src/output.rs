//! What is printed: data to stdout as it is, unless that is a terminal; messages and tables without anything a terminal would
//! act upon.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::time::SystemTime;

use lro_host::store::rfc3339;
use serde::Serialize;

use crate::flags::{ColorChoice, LogFormat};

/// Where messages go.
pub(crate) struct Terminal {
    colors: bool,
    format: LogFormat,
}

/// A message as a line of the log.
#[derive(Serialize)]
struct Logged<'a> {
    timestamp: String,
    level: &'a str,
    message: &'a str,
}

impl Terminal {
    /// Messages go to stderr; whether they have colors is decided once.
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

    /// Something that ends the command.
    pub(crate) fn error(&self, text: &str) {
        self.labelled("error", "ERROR", "31", text);
    }

    /// Something that did not go as asked.
    pub(crate) fn warning(&self, text: &str) {
        self.labelled("warning", "WARN", "33", text);
    }

    /// A way out.
    pub(crate) fn hint(&self, text: &str) {
        self.labelled("hint", "INFO", "36", text);
    }

    /// A text for people. When stderr is closed there is nobody to tell.
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

/// Writes a message to stderr as an event of the log.
fn log(level: &str, message: &str) {
    let timestamp = rfc3339(SystemTime::now());
    if let Ok(line) = serde_json::to_string(&Logged { timestamp, level, message }) {
        let _ = writeln!(io::stderr(), "{}", printable(&line));
    }
}

/// Whether a terminal acts upon a character, or lets it change the direction of writing. Line feeds and tabs are harmless.
fn is_unsafe(character: char) -> bool {
    (character.is_control() && !matches!(character, '\n' | '\t'))
        || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A text for a terminal: what that would act upon is escaped, `\u001b`. JSON stays JSON with the same values, as it has such
/// characters in strings only, but for carriage returns: they end a line, so a line feed takes their place.
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

/// Writes bytes to stdout as they are; to a terminal as [`printable`] text.
pub(crate) fn data(bytes: &[u8]) -> io::Result<()> {
    if io::stdout().is_terminal() { text(&String::from_utf8_lossy(bytes)) } else { raw(bytes) }
}

/// Writes a table or a line for people to stdout. It may reach a terminal through a pipe too.
pub(crate) fn text(text: &str) -> io::Result<()> {
    raw(printable(text).as_bytes())
}

/// Writes bytes to stdout, whatever a terminal makes of them.
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

/// Two columns, the first as wide as it needs to be.
pub(crate) fn columns(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.iter().map(|(name, value)| format!("{name:width$}  {value}\n")).collect()
}

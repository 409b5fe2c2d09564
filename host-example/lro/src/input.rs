//! Reads the input once, without copies, and detects its type: tool result, text or binary.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use indicatif::{ProgressBar, ProgressStyle};
use lro_host::mcp::ToolResult;
use lro_host::sandbox::{Part, PartKind, Payload};

use crate::flags::{CallArguments, InputForm};
use crate::output::Terminal;

/// Maximum size of the input: 4 GiB, the default limit of what a policy may write.
pub(crate) const INPUT_BYTES_MAX: u64 = 4 << 30;

/// Size in bytes from which on progress is shown on a terminal.
const PROGRESS_FROM_BYTES: u64 = 8 << 20;

/// Bytes read between progress updates.
const STEP_BYTES: u64 = 1 << 20;

/// What people see who give no file.
const READING: &str = "reading standard input until its end (Ctrl-D); name a file to read that instead";

/// Wrapped around every input as it is read, so that JSON input can serve as the structured content of a tool result
/// without a copy.
const BEFORE: &str = r#"{"content":[],"structuredContent":"#;
const AFTER: &str = "}";

/// An input in memory.
pub(crate) struct Input {
    /// The input between [`BEFORE`] and [`AFTER`].
    wrapped: Bytes,
    /// The tool result, if the input is one.
    tool_result: Option<Box<ToolResult>>,
    payload: Arc<Payload>,
}

impl Input {
    /// Reads the input and detects its type. Who is to type it is told so.
    pub(crate) fn read(arguments: &CallArguments, terminal: &Terminal) -> anyhow::Result<Self> {
        let mut wrapped = match &arguments.file {
            Some(path) if path.as_os_str() != "-" => {
                read_file(path).with_context(|| format!("cannot read `{}`", path.display()))?
            }
            _ => {
                if io::stdin().is_terminal() {
                    terminal.message(READING);
                }
                read_all(io::stdin().lock(), None).context("cannot read stdin")?
            }
        };
        if matches!(arguments.form, Some(InputForm::Json)) {
            blank_mark(&mut wrapped);
        }
        let wrapped = Bytes::from(wrapped);
        let bytes = inside(&wrapped);
        let (tool_result, part) = match arguments.form {
            Some(InputForm::ToolResult) => (Some(ToolResult::parse(bytes)?), None),
            Some(InputForm::Json) => (None, Some(json_part(&wrapped)?)),
            Some(InputForm::Text) => {
                (None, Some(Part::text(PartKind::Text, bytes).context("the input is not UTF-8 text")?))
            }
            Some(InputForm::Binary) => (None, Some(binary_part(bytes))),
            None => match ToolResult::parse(bytes.clone()) {
                Ok(tool_result) => (Some(tool_result), None),
                Err(_) => {
                    (None, Some(Part::text(PartKind::Text, bytes.clone()).unwrap_or_else(|_| binary_part(bytes))))
                }
            },
        };
        let payload = match &tool_result {
            Some(tool_result) => Arc::clone(tool_result.payload()),
            None => Arc::new(Payload::new(part.into_iter().collect())),
        };
        Ok(Self { wrapped, tool_result: tool_result.map(Box::new), payload })
    }

    /// The input bytes.
    pub(crate) fn bytes(&self) -> Bytes {
        inside(&self.wrapped)
    }

    /// The tool result, if the input is one.
    pub(crate) fn tool_result(&self) -> Option<&ToolResult> {
        self.tool_result.as_deref()
    }

    /// The parts that a policy sees.
    pub(crate) fn payload(&self) -> &Arc<Payload> {
        &self.payload
    }

    /// Wraps JSON input as the structured content of a tool result.
    pub(crate) fn as_structured(&self) -> Option<ToolResult> {
        let tool_result = ToolResult::parse(self.wrapped.clone()).ok()?;
        let [part] = tool_result.payload().parts() else { return None };
        // Several values would show up as further members of the wrapping object.
        (part.size() == self.bytes().trim_ascii().len() as u64).then_some(tool_result)
    }

    /// Shows a spinner while a policy processes a large input, until dropped.
    pub(crate) fn policy_progress(&self) -> Progress {
        let mut progress = Progress::new(None);
        if self.bytes().len() as u64 > PROGRESS_FROM_BYTES {
            progress.show("{spinner} {msg} {elapsed}", "running the policy");
        }
        progress
    }
}

/// Puts white space in the place of the byte order mark that may stand before JSON.
fn blank_mark(wrapped: &mut [u8]) {
    const MARK: [u8; 3] = *b"\xEF\xBB\xBF";
    if let Some(beginning) = wrapped.get_mut(BEFORE.len()..BEFORE.len() + MARK.len())
        && *beginning == MARK
    {
        beginning.fill(b' ');
    }
}

fn inside(wrapped: &Bytes) -> Bytes {
    wrapped.slice(BEFORE.len()..wrapped.len() - AFTER.len())
}

fn binary_part(bytes: Bytes) -> Part {
    Part::binary(bytes).with_media_type("application/octet-stream")
}

fn json_part(wrapped: &Bytes) -> anyhow::Result<Part> {
    check_json(wrapped)?;
    let bytes = inside(wrapped);
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    // Structured content is an object or an array; other values count as text.
    let kind = if matches!(first, Some(b'{' | b'[')) { PartKind::Structured } else { PartKind::Text };
    Ok(Part::text(kind, bytes)?)
}

/// Checks that the input is a single JSON value: the wrapping object then has exactly one more member.
fn check_json(wrapped: &[u8]) -> anyhow::Result<()> {
    let before = BEFORE.len();
    let text = match std::str::from_utf8(wrapped) {
        Ok(text) => text,
        Err(error) => bail!("the input is not JSON: not UTF-8 at byte {}", error.valid_up_to() - before),
    };
    match lro_json::members(text) {
        Ok(members) => match members.as_slice() {
            [_, _] => Ok(()),
            [_, first, ..] => bail!("the input is not JSON: more than one value, at byte {}", first.value.len()),
            _ => bail!("the input is not JSON: no value at byte 0"),
        },
        Err(mut error) => {
            let length = (text.len() - before - AFTER.len()) as u64;
            error.offset = error.offset.saturating_sub(before as u64);
            if error.offset >= length {
                // The error is at the brace appended to the input, or after it.
                bail!("the input is not JSON: it ends too early or with a bracket too many, after {length} bytes");
            }
            Err(anyhow::Error::new(error).context("the input is not JSON"))
        }
    }
}

fn read_file(path: &Path) -> anyhow::Result<Vec<u8>> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let size = metadata.is_file().then_some(metadata.len());
    read_all(file, size)
}

/// Reads to the end, and wraps the input in [`BEFORE`] and [`AFTER`].
fn read_all(mut source: impl Read, size: Option<u64>) -> anyhow::Result<Vec<u8>> {
    let mut bytes = BEFORE.as_bytes().to_vec();
    check_size(size.unwrap_or(0))?;
    // One more byte, so that the end is detected without reallocating.
    let room = usize::try_from(size.unwrap_or(0))? + AFTER.len() + 1;
    bytes.try_reserve(room).context("not enough memory")?;
    let mut progress = Progress::new(size);
    loop {
        let read = source.by_ref().take(STEP_BYTES).read_to_end(&mut bytes)?;
        if read == 0 {
            break;
        }
        let total = (bytes.len() - BEFORE.len()) as u64;
        check_size(total)?;
        progress.advance(total);
    }
    bytes.extend_from_slice(AFTER.as_bytes());
    Ok(bytes)
}

fn check_size(bytes: u64) -> anyhow::Result<()> {
    if bytes > INPUT_BYTES_MAX {
        bail!("the input is larger than {INPUT_BYTES_MAX} bytes");
    }
    Ok(())
}

/// A progress line that disappears in the end. Not shown if stderr is not a terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
    size: Option<u64>,
    is_shown: bool,
}

impl Progress {
    fn new(size: Option<u64>) -> Self {
        Self { bar: ProgressBar::hidden(), size, is_shown: false }
    }

    fn show(&mut self, template: &str, message: &'static str) {
        if self.is_shown || !io::stderr().is_terminal() {
            return;
        }
        self.is_shown = true;
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = self.size.map_or_else(ProgressBar::no_length, ProgressBar::new);
        self.bar = bar.with_style(style).with_message(message);
        // Draws now: on a busy machine all may be read before the thread of the ticks runs.
        self.bar.tick();
        self.bar.enable_steady_tick(Duration::from_millis(100));
    }

    fn advance(&mut self, total: u64) {
        if self.size.unwrap_or(total) <= PROGRESS_FROM_BYTES {
            return;
        }
        let template = match self.size {
            Some(_) => "{msg} {wide_bar} {bytes}/{total_bytes}",
            None => "{spinner} {msg} {bytes}",
        };
        self.show(template, "reading");
        self.bar.set_position(total);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

//! What has come of the result of a call before its end: records in the store, which clients read under the handle of the job.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bytes::Bytes;
use lro_host::mcp::{self, Id, Message, ToolPage};
use lro_host::store::{Growing, Store, StoreError, Ulid};
use lro_json::write::string;
use parking_lot::Mutex;
use serde_json::value::RawValue;

/// Bytes that wait in memory before they are written for a call that is no job yet.
const WAITING_BYTES: usize = 1 << 20;

/// Most bytes that wait in memory. What comes then is missed.
const WAITING_BYTES_MAX: usize = 8 << 20;

/// What has come of the result of one call.
#[derive(Debug)]
pub(crate) struct Parts {
    /// The handle of the job that the call becomes.
    pub(crate) handle: Ulid,
    /// When the call began.
    pub(super) begun: Instant,
    tenant: String,
    tool: String,
    is_job: AtomicBool,
    waiting: Mutex<Waiting>,
    /// Locked while records are written, so that they keep their order.
    written: Mutex<Written>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Records, each with its line feed.
    lines: Vec<u8>,
    /// Whether somebody is about to write them.
    is_due: bool,
    /// Number of the last notification.
    last: Option<u64>,
    missed: u64,
}

#[derive(Debug, Default)]
enum Written {
    #[default]
    Nothing,
    Some(Box<Growing>),
    /// No more is written.
    Over,
}

impl Parts {
    /// For a call of this tool, which began then.
    ///
    /// # Errors
    /// When the system has no random bytes for the handle.
    pub(crate) fn new(tenant: &str, tool: &str, begun: Instant) -> std::io::Result<Self> {
        Ok(Self {
            handle: Ulid::generate()?,
            begun,
            tenant: tenant.to_owned(),
            tool: tool.to_owned(),
            is_job: AtomicBool::new(false),
            waiting: Mutex::default(),
            written: Mutex::default(),
        })
    }

    /// The call has become a job: what has come outlives this process.
    pub(super) fn begin(&self) {
        self.is_job.store(true, Ordering::Release);
    }

    /// Takes the records of a notification, unless it came before. Returns whether [`Parts::write`] is to be called.
    pub(crate) fn hear(&self, notification: &Message) -> bool {
        let number = notification.value(&["params", "seq"]).and_then(|json| serde_json::from_slice::<u64>(&json).ok());
        {
            let mut waiting = self.waiting.lock();
            if let (Some(number), last) = (number, waiting.last) {
                if last.is_some_and(|last| number <= last) {
                    return false;
                }
                let expected = last.map_or(0, |last| last + 1);
                waiting.missed = waiting.missed.saturating_add(number - expected);
                waiting.last = Some(number);
            }
        }
        self.push(notification.value(&["params"]).map(|params| records_of(&params)).unwrap_or_default())
    }

    /// Takes the items of a page: JSON values with commas between them. Returns as [`Parts::hear`].
    pub(crate) fn take_items(&self, items: &str) -> bool {
        self.push(lines_of(&format!("[{items}]")))
    }

    /// Takes the lines of a text, each a record: the JSON that it is, or else a string. Returns as [`Parts::hear`].
    pub(crate) fn take_lines(&self, text: &str) -> bool {
        let mut lines = Vec::with_capacity(text.len());
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            match serde_json::from_str::<&RawValue>(line) {
                Ok(json) => push_line(&mut lines, json.get()),
                Err(_) => push_line(&mut lines, &string(line)),
            }
        }
        self.push(lines)
    }

    fn push(&self, lines: Vec<u8>) -> bool {
        let mut waiting = self.waiting.lock();
        if lines.is_empty() {
            return false;
        }
        if !waiting.lines.is_empty() && waiting.lines.len() + lines.len() > WAITING_BYTES_MAX {
            waiting.missed = waiting.missed.saturating_add(1);
            return false;
        }
        waiting.lines.extend_from_slice(&lines);
        let is_due = self.is_job.load(Ordering::Acquire) || waiting.lines.len() >= WAITING_BYTES;
        is_due && !std::mem::replace(&mut waiting.is_due, true)
    }

    /// Notifications that did not come, or that memory had no room for.
    pub(crate) fn missed(&self) -> u64 {
        self.waiting.lock().missed
    }

    /// Writes what waits. Blocks.
    pub(crate) fn write(&self, store: &Store) {
        let mut written = self.written.lock();
        let lines = {
            let mut waiting = self.waiting.lock();
            waiting.is_due = false;
            std::mem::take(&mut waiting.lines)
        };
        if matches!(*written, Written::Over) {
            return;
        }
        if let Err(error) = self.append(&mut written, store, &lines) {
            let (tenant, tool, error) = (&self.tenant, &self.tool, &error as &dyn std::error::Error);
            tracing::warn!(tenant, job = %self.handle, tool, error, "cannot keep more of what comes of a result");
            *written = Written::Over;
        }
    }

    fn append(&self, written: &mut Written, store: &Store, lines: &[u8]) -> Result<(), StoreError> {
        if matches!(written, Written::Nothing) {
            if lines.is_empty() {
                return Ok(());
            }
            *written = Written::Some(Box::new(store.grow(&self.tenant, self.handle, &self.tool)?));
        }
        let Written::Some(growing) = written else { return Ok(()) };
        growing.push(lines)?;
        if self.is_job.load(Ordering::Acquire) {
            growing.outlive();
        }
        Ok(())
    }

    /// The call has ended. What has come is removed if the `whole` result is there. Blocks.
    pub(super) fn end(&self, store: &Store, whole: bool) {
        if !whole {
            self.write(store);
        }
        let ended = match std::mem::replace(&mut *self.written.lock(), Written::Over) {
            Written::Some(growing) if whole => {
                growing.discard();
                Ok(())
            }
            Written::Some(growing) => growing.keep(),
            Written::Nothing | Written::Over => Ok(()),
        };
        if let Err(error) = ended {
            let (tenant, tool, error) = (&self.tenant, &self.tool, &error as &dyn std::error::Error);
            tracing::warn!(tenant, job = %self.handle, tool, error, "cannot record that no more comes of a result");
        }
    }
}

/// The records in the parameters of a notification with a part of a result: the items of its list, or without one its blocks
/// and its structured content.
fn records_of(params: &Bytes) -> Vec<u8> {
    let answer = Message::read(mcp::response(&Id::own("part"), &String::from_utf8_lossy(params)));
    if let Some(page) = ToolPage::of(&answer, None) {
        return lines_of(&format!("[{}]", page.items()));
    }
    let value = |key| answer.value(&["result", key]).filter(|value| value != "null");
    let mut lines = value("content").map(|blocks| lines_of(&String::from_utf8_lossy(&blocks))).unwrap_or_default();
    if let Some(structured) = value("structuredContent") {
        push_line(&mut lines, &String::from_utf8_lossy(&structured));
    }
    lines
}

/// The elements of an array in JSON, one a line.
fn lines_of(array: &str) -> Vec<u8> {
    let mut lines = Vec::with_capacity(array.len());
    lro_json::elements(array).unwrap_or_default().into_iter().for_each(|element| push_line(&mut lines, element));
    lines
}

/// Adds a JSON value as a line. Line feeds in it are white space: in a string they have escapes.
fn push_line(lines: &mut Vec<u8>, json: &str) {
    lines.extend(json.bytes().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }));
    lines.push(b'\n');
}

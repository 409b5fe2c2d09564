//! Logs the standard error of a server line by line, rate limited.

use std::io::{ErrorKind, Read};
use std::time::{Duration, Instant};

/// Period of the rate limit.
const PERIOD: Duration = Duration::from_secs(60);

/// Maximum length of a logged line, in bytes.
const LINE_BYTES_MAX: usize = 4 << 10;

/// Approximate size of a log line besides its text, in bytes.
const LINE_OVERHEAD_BYTES: u64 = 100;

/// Logs the standard error of a server until it is closed.
pub(super) struct Diagnostics {
    /// Process id of the server.
    server: u32,
    /// Maximum bytes in the log per [`PERIOD`].
    bytes_max: u64,
    bytes: u64,
    since: Instant,
    dropped: Dropped,
}

#[derive(Default)]
struct Dropped {
    lines: u64,
    bytes: u64,
}

impl Diagnostics {
    pub(super) fn new(server: u32, bytes_max: u64) -> Self {
        Self { server, bytes_max, bytes: 0, since: Instant::now(), dropped: Dropped::default() }
    }

    /// Reads to the end. Blocks.
    pub(super) fn log(&mut self, mut stream: impl Read) {
        let (mut chunk, mut line, mut cut) = ([0; 8 << 10], Vec::new(), 0);
        loop {
            let read = match stream.read(&mut chunk) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Ok(read @ 1..) => read,
                Ok(_) | Err(_) => break,
            };
            for piece in chunk.get(..read).unwrap_or_default().split_inclusive(|byte| *byte == b'\n') {
                let (whole, rest) = piece.split_at(piece.len().min(LINE_BYTES_MAX - line.len()));
                line.extend_from_slice(whole);
                cut += rest.len() as u64;
                if piece.ends_with(b"\n") {
                    self.line(&line, cut);
                    line.clear();
                    cut = 0;
                }
            }
        }
        self.line(&line, cut);
        self.log_dropped();
    }

    /// Logs a line, from which `cut` bytes were truncated, if the rate limit allows.
    fn line(&mut self, line: &[u8], cut: u64) {
        let text = escaped(String::from_utf8_lossy(line).trim_end());
        if text.is_empty() {
            return;
        }
        if self.since.elapsed() >= PERIOD {
            self.log_dropped();
            (self.bytes, self.since) = (0, Instant::now());
        }
        let bytes = text.len() as u64 + LINE_OVERHEAD_BYTES;
        let server = self.server;
        if self.bytes.saturating_add(bytes) > self.bytes_max {
            if self.dropped.lines == 0 {
                let limit = self.bytes_max;
                tracing::warn!(
                    server,
                    limit,
                    "the server writes more to its standard error than is logged in a minute"
                );
            }
            self.dropped.lines += 1;
            self.dropped.bytes += line.len() as u64 + cut;
            return;
        }
        self.bytes += bytes;
        match cut {
            0 => tracing::warn!(server, "{text}"),
            _ => tracing::warn!(server, cut, "{text}"),
        }
    }

    /// Logs how much was dropped.
    fn log_dropped(&mut self) {
        let Dropped { lines, bytes } = std::mem::take(&mut self.dropped);
        if lines > 0 {
            tracing::warn!(server = self.server, lines, bytes, "of the server's standard error were left out");
        }
    }
}

/// Escapes control characters, and those that change the text direction, so that the text is safe for terminals and log
/// readers.
fn escaped(text: &str) -> String {
    let acts = |character: char| {
        character != '\t' && character.is_control()
            || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match acts(character) {
            true => shown.extend(character.escape_unicode()),
            false => shown.push(character),
        }
    }
    shown
}

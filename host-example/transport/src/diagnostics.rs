//! What a server writes to its standard error: in the log, line by line, within a bound.

use std::io::{ErrorKind, Read};
use std::time::{Duration, Instant};

use rustix::process::Pid;

/// How long the bound on what is logged holds before it begins anew.
const PERIOD: Duration = Duration::from_secs(60);

/// Longest line that is logged whole.
const LINE_BYTES_MAX: usize = 4 << 10;

/// What a line takes in the log besides its own bytes, about.
const LINE_OVERHEAD_BYTES: u64 = 100;

/// Logs what a server writes until it closes its end.
pub(super) struct Diagnostics {
    /// Process of the server.
    server: Pid,
    /// Most bytes of the log in a [`PERIOD`].
    bytes_max: u64,
    bytes: u64,
    since: Instant,
    left_out: LeftOut,
}

#[derive(Default)]
struct LeftOut {
    lines: u64,
    bytes: u64,
}

impl Diagnostics {
    pub(super) fn new(server: Pid, bytes_max: u64) -> Self {
        Self { server, bytes_max, bytes: 0, since: Instant::now(), left_out: LeftOut::default() }
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
        self.tell();
    }

    /// Logs a line, of which so many bytes were cut off, if the bound allows.
    fn line(&mut self, line: &[u8], cut: u64) {
        let text = escaped(String::from_utf8_lossy(line).trim_end());
        if text.is_empty() {
            return;
        }
        if self.since.elapsed() >= PERIOD {
            self.tell();
            (self.bytes, self.since) = (0, Instant::now());
        }
        let bytes = text.len() as u64 + LINE_OVERHEAD_BYTES;
        let server = self.server.as_raw_nonzero();
        if self.bytes.saturating_add(bytes) > self.bytes_max {
            if self.left_out.lines == 0 {
                let limit = self.bytes_max;
                tracing::warn!(
                    server,
                    limit,
                    "the server writes more to its standard error than is logged in a minute"
                );
            }
            self.left_out.lines += 1;
            self.left_out.bytes += line.len() as u64 + cut;
            return;
        }
        self.bytes += bytes;
        match cut {
            0 => tracing::warn!(server, "{text}"),
            _ => tracing::warn!(server, cut, "{text}"),
        }
    }

    /// Says what was left out.
    fn tell(&mut self) {
        let LeftOut { lines, bytes } = std::mem::take(&mut self.left_out);
        if lines > 0 {
            tracing::warn!(
                server = self.server.as_raw_nonzero(),
                lines,
                bytes,
                "of the server's standard error were left out"
            );
        }
    }
}

/// A text on which no terminal and no reader of a log acts: control characters, and those that turn the direction of writing, are
/// shown by their numbers.
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

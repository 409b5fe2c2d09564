//! Lines equal those of a naive split of the stream, wherever reads end, whatever spills to a file, and however long
//! lines are.
#![no_main]

use std::io::{Error, ErrorKind, Read};
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use lro_transport::{Cut, HEAD_BYTES_MAX, Line, Lines, MessageLimits, SpoolError, TAIL_BYTES_MAX};

/// Marks a run of one letter, with its length in the next byte.
const RUN: u8 = 0xFF;

/// Bytes of a run per unit of its length: two such runs are shorter or longer than the buffers.
const RUN_BYTES: usize = 1021;

/// Size in bytes from which a stream gets no more runs.
const STREAM_BYTES_MAX: usize = 300_000;

/// Most bytes of a line in memory.
const MEMORY_BYTES: [usize; 4] = [0, 100, 70_000, usize::MAX];

/// Most bytes of a line.
const MESSAGE_BYTES: [u64; 4] = [u64::MAX, 5, 60_000, 200_000];

/// Reads a stream in pieces of two alternating sizes, interrupted between them.
struct Pieces<'a> {
    rest: &'a [u8],
    sizes: [usize; 2],
    reads: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.reads += 1;
        if self.reads % 3 == 0 {
            return Err(Error::from(ErrorKind::Interrupted));
        }
        let size = self.sizes[self.reads % 2].min(buffer.len());
        self.rest.read(&mut buffer[..size])
    }
}

/// Expands an input to a stream longer than the fuzzer could generate.
fn stream(input: &[u8]) -> Vec<u8> {
    let mut stream = Vec::with_capacity(input.len());
    let mut input = input.iter();
    while let Some(byte) = input.next() {
        match (byte, stream.len() < STREAM_BYTES_MAX) {
            (&RUN, true) => {
                let times = input.next().copied().unwrap_or_default();
                stream.resize(stream.len() + usize::from(times) * RUN_BYTES, b'x');
            }
            _ => stream.push(*byte),
        }
    }
    stream
}

fn check_cut(cut: &Cut, line: &[u8], limit: u64) {
    assert!(line.len() as u64 > limit);
    assert_eq!(cut.bytes, line.len() as u64);
    assert_eq!(cut.head, line[..line.len().min(HEAD_BYTES_MAX)]);
    assert_eq!(cut.tail, line[line.len().saturating_sub(TAIL_BYTES_MAX)..]);
    assert!(matches!(cut.reason, SpoolError::TooLarge { limit: told } if told == limit));
}

fuzz_target!(|data: &[u8]| {
    let Some((&[choice, small, large], input)) = data.split_first_chunk() else { return };
    let stream = stream(input);
    let limit = MESSAGE_BYTES[usize::from(choice >> 2) % 4];
    let limits = MessageLimits {
        memory_bytes: MEMORY_BYTES[usize::from(choice) % 4],
        message_bytes: limit,
        ..MessageLimits::default()
    };
    // Single-byte steps through long runs would take seconds.
    let sizes = [usize::from(small) + 1 + stream.len() / 500, (usize::from(large) + 1) * RUN_BYTES];
    let mut lines = Lines::new(Pieces { rest: &stream, sizes, reads: 0 }, Arc::new(limits));
    let breaks = stream.iter().filter(|byte| **byte == b'\n').count();
    for (index, line) in stream.split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty()) {
        match lines.next().expect("the stream never fails").expect("one more line") {
            Line::Cut(cut) => check_cut(&cut, line, limit),
            Line::Whole(bytes) => assert!(bytes == line && index < breaks && line.len() as u64 <= limit),
            Line::Partial(bytes) => assert!(bytes == line && index == breaks && line.len() as u64 <= limit),
        }
    }
    assert!(lines.next().expect("the stream never fails").is_none());
});

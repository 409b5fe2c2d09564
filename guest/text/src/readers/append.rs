//! Appends short texts. In a component, a copy of a length that the compiler does not know is a call out of it, which takes as
//! long as ten copies of a fixed length.

use std::ops::Range;

/// Bytes that are copied at once.
pub(crate) const CHUNK: usize = 16;

/// Longest text that is copied in chunks, in bytes.
const CHUNKS_BYTES_MAX: usize = 64;

/// Appends a range of a text. It is fast where [`CHUNK`] bytes follow the range.
#[inline(always)]
pub(crate) fn append(lines: &mut Vec<u8>, text: &[u8], range: Range<usize>) {
    let length = range.end - range.start;
    if length > CHUNKS_BYTES_MAX || text.len() - range.end < CHUNK {
        return lines.extend_from_slice(&text[range]);
    }
    let end = lines.len() + length;
    let (chunks, _) = text[range.start..].as_chunks::<CHUNK>();
    for chunk in chunks.iter().take(length.div_ceil(CHUNK)) {
        lines.extend_from_slice(chunk);
    }
    lines.truncate(end);
}

/// A text that is appended again and again.
#[derive(Debug)]
pub(crate) struct Phrase {
    /// The text, and zeros.
    padded: Vec<u8>,
    length: usize,
}

impl Phrase {
    pub(crate) fn new(text: &[u8]) -> Self {
        let mut padded = text.to_vec();
        padded.resize(text.len() + CHUNK, 0);
        Self { padded, length: text.len() }
    }

    pub(crate) fn text(&self) -> &[u8] {
        &self.padded[..self.length]
    }

    #[inline(always)]
    pub(crate) fn append_to(&self, lines: &mut Vec<u8>) {
        append(lines, &self.padded, 0..self.length);
    }
}

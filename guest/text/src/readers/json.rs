//! One JSON value at a time: where it ends, whether it is valid, and its bytes without white space.

use lro_json::Validator;
use lro_json::masks::{escaped, prefix_xor};

use super::error::Fault;
use super::masks::{BLOCK, Block};

/// A JSON value that is being read.
#[derive(Debug, Default)]
pub(crate) struct Value {
    validator: Validator,
    /// Open containers.
    depth: u64,
    /// All ones in a string.
    in_string: u64,
    escaped: bool,
}

impl Value {
    /// Reads on at the beginning of `text`, which is the first byte of the value or follows what was read before, and
    /// appends the value without white space to `lines`.
    ///
    /// Returns the length of the rest of the value, or `None` when the value goes on after `text`. A number, literal
    /// or string outside containers ends before white space.
    pub(crate) fn read(&mut self, text: &str, lines: &mut Vec<u8>) -> Result<Option<usize>, Fault> {
        let bytes = text.as_bytes();
        let mut start = 0;
        let mut end = None;
        while start < bytes.len() && end.is_none() {
            let block = &bytes[start..];
            end = self.block(block, lines).map(|length| start + length);
            start += BLOCK.min(block.len());
        }
        self.validator.push(&text[..end.unwrap_or(text.len())]).map_err(|error| Fault::Json(error.kind))?;
        if end.is_some() {
            std::mem::take(self).finish()?;
        }
        Ok(end)
    }

    /// Ends the value at the end of the text.
    pub(crate) fn finish(self) -> Result<(), Fault> {
        self.validator.finish().map_err(|error| Fault::Json(error.kind))
    }

    /// Reads up to 64 bytes; returns the index after the last byte of the value when it is among them.
    #[inline(always)]
    fn block(&mut self, bytes: &[u8], lines: &mut Vec<u8>) -> Option<usize> {
        let block = Block::new(bytes);
        let length = bytes.len().min(BLOCK);
        let backslash = block.equal(b'\\');
        let escaped = escaped(backslash, self.escaped);
        self.escaped = (backslash & !escaped) >> (length - 1) & 1 == 1;
        let quote = block.equal(b'"') & !escaped;
        let in_string = prefix_xor(quote) ^ self.in_string;
        self.in_string = 0_u64.wrapping_sub(in_string >> (length - 1) & 1);
        let outside = !(in_string | quote);
        let white = block.at_most(b' ') & outside;
        let end = self.end(block.equal_folded(b'{') & outside, block.equal_folded(b'}') & outside, white);
        copy(&bytes[..end.unwrap_or(length)], white, lines);
        end
    }

    /// Follows the brackets of a block to the end of the value.
    #[inline(always)]
    fn end(&mut self, open: u64, close: u64, white: u64) -> Option<usize> {
        if self.depth > u64::from(close.count_ones()) {
            self.depth = self.depth + u64::from(open.count_ones()) - u64::from(close.count_ones());
            return None;
        }
        let mut tokens = open | close | white;
        while tokens != 0 {
            let bit = tokens & tokens.wrapping_neg();
            let index = bit.trailing_zeros() as usize;
            if open & bit != 0 {
                self.depth += 1;
            } else if close & bit != 0 {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 {
                    return Some(index + 1);
                }
            } else if self.depth == 0 {
                return Some(index);
            }
            tokens &= tokens - 1;
        }
        None
    }
}

/// Appends the bytes that are not white space.
#[inline(always)]
pub(crate) fn copy(bytes: &[u8], mut white: u64, lines: &mut Vec<u8>) {
    let mut from = 0;
    while white != 0 {
        let at = white.trailing_zeros() as usize;
        if at >= bytes.len() {
            break;
        }
        lines.extend_from_slice(&bytes[from..at]);
        let run = (white >> at).trailing_ones() as usize;
        from = (at + run).min(bytes.len());
        white &= u64::MAX.checked_shl((at + run) as u32).unwrap_or_default();
    }
    lines.extend_from_slice(&bytes[from..]);
}

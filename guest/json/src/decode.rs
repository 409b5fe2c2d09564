//! Checks, measures and decodes the inside of a JSON string literal, 64 bytes at a time.
//!
//! JSON text inside a JSON string has an escape about every five bytes. Therefore the decoder first finds all
//! backslashes of a block, as one bit mask, and removes them from it at once. Where the processor cannot do that, or a block
//! has escapes of six bytes, it copies the runs between the escapes with stores of fixed length.

use crate::escape::{EscapeError, simple, unescape};
use crate::masks::{BLOCK, Masks, equal, escaped};
use crate::simd::compress;

/// Length of one store in bytes; a shorter run costs one store.
const STORE: usize = 16;

/// The reason why bytes are not the inside of a JSON string, and the index of the first byte of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StringError {
    /// An invalid escape, a control character or an unescaped quotation mark.
    Invalid(usize),
    /// Half of a surrogate pair, which has no UTF-8 encoding.
    LoneSurrogate(usize),
}

/// Checks the inside of a string from `start`, which is not inside an escape, to `until`, or to the end of an escape that
/// crosses it. Returns the index where it stopped and the decoded length in bytes. Does not check that it is UTF-8.
///
/// # Errors
///
/// [`StringError`]: of several within 64 bytes, any.
pub fn check_string(source: &[u8], start: usize, until: usize) -> Result<(usize, u64), StringError> {
    let mut at = start;
    // Bytes that decoding removes.
    let mut saved = 0;
    let mut after_backslash = false;
    // End of the last `\u` escape or pair of them, whose digits are checked.
    let mut checked = start;
    while let Some(block) = source.get(at..until).and_then(|rest| rest.first_chunk::<BLOCK>()) {
        let Masks { backslash, quote, control, .. } = Masks::of_block(block);
        let escaped = escaped(backslash, after_backslash);
        after_backslash = (backslash & !escaped) >> (BLOCK - 1) == 1;
        if quote & !escaped != 0 {
            return Err(StringError::Invalid(at + (quote & !escaped).trailing_zeros() as usize));
        }
        if control {
            let position = block.iter().position(|byte| *byte < 0x20).unwrap_or_default();
            return Err(StringError::Invalid(at + position));
        }
        // Every escape loses its backslash; escapes other than `\"` and `\\` are checked one by one.
        saved += (backslash & !escaped).count_ones() as usize;
        let mut others = escaped & !(quote | backslash);
        while others != 0 {
            let position = at + others.trailing_zeros() as usize;
            others &= others - 1;
            let byte = source.get(position).copied().unwrap_or_default();
            if simple(byte) == 0 && position > checked {
                let (length, bytes) = escape_length(source, position - 1)?;
                checked = position - 1 + length;
                saved += length - length / 6 - bytes;
            }
        }
        at += BLOCK;
    }
    if checked > at {
        // In a pair, the backslash of the second half may not have been seen yet.
        saved += usize::from(checked >= at + 6);
        at = checked;
    } else if after_backslash {
        // The escape is read again from its beginning.
        at -= 1;
        saved -= 1;
    }
    while at < until {
        match source.get(at) {
            Some(b'\\') => {
                let (length, bytes) = escape_length(source, at)?;
                at += length;
                saved += length - bytes;
            }
            Some(b'"' | 0..=0x1F) | None => return Err(StringError::Invalid(at)),
            Some(_) => at += 1,
        }
    }
    Ok((at, (at - start - saved) as u64))
}

/// Decodes whole characters of `source`, which [`check_string`] accepted, until `source` ends or `output` is full. Returns
/// the bytes read and the bytes written.
#[must_use]
pub fn decode_string(source: &[u8], output: &mut [u8]) -> (usize, usize) {
    let (mut at, mut put) = (0, 0);
    // A run is copied in stores of `STORE` bytes, so both sides need that many bytes beyond the block.
    while at + BLOCK + STORE <= source.len() && put + BLOCK + STORE <= output.len() {
        let Some(block) = source.get(at..).and_then(|rest| rest.first_chunk::<BLOCK>()) else { break };
        let Some(room) = output.get_mut(put..).and_then(|room| room.first_chunk_mut::<BLOCK>()) else { break };
        let mut backslashes = equal(block, b'\\');
        if let Some((read, written)) = decode_block(block, backslashes, room) {
            at += read;
            put += written;
            continue;
        }
        let mut from = 0;
        while backslashes != 0 {
            let position = backslashes.trailing_zeros() as usize;
            copy_run(source, at + from, output, put, position - from);
            put += position - from;
            let byte = source.get(at + position + 1).map_or(0, |byte| simple(*byte));
            if byte != 0 {
                output[put] = byte;
                put += 1;
                from = position + 2;
                backslashes = after_escape(backslashes, source, at + position);
            } else {
                let Ok((character, length)) = unescape(source.get(at + position..).unwrap_or_default()) else {
                    return (at + position, put);
                };
                put += character.encode_utf8(&mut output[put..]).len();
                from = position + length;
                backslashes &= (!0_u64).unbounded_shl(from as u32);
            }
        }
        if from < BLOCK {
            copy_run(source, at + from, output, put, BLOCK - from);
            put += BLOCK - from;
        }
        at += from.max(BLOCK);
    }
    decode_tail(source, at, output, put)
}

/// Decodes a block at once: returns the bytes read, one less when the last one begins an escape, and the bytes written. `None`
/// when the block has an escape of six bytes, or the processor cannot remove bytes from it.
#[inline(always)]
fn decode_block(block: &[u8; BLOCK], backslashes: u64, output: &mut [u8; BLOCK]) -> Option<(usize, usize)> {
    if backslashes == 0 {
        *output = *block;
        return Some((BLOCK, BLOCK));
    }
    let escaped = escaped(backslashes, false);
    let kept = escaped | !backslashes;
    let written = compress(block, kept, output)?;
    let mut others = escaped & !(backslashes | equal(block, b'"'));
    while others != 0 {
        let bit = others.trailing_zeros();
        let before = (kept & ((1 << bit) - 1)).count_ones();
        output[before as usize] = Some(simple(block[bit as usize])).filter(|byte| *byte != 0)?;
        others &= others - 1;
    }
    Some((BLOCK - usize::from(kept >> (BLOCK - 1) == 0), written))
}

/// Decodes character by character, near the end of the source or of the output.
fn decode_tail(source: &[u8], mut at: usize, output: &mut [u8], mut put: usize) -> (usize, usize) {
    while let Some(byte) = source.get(at) {
        let mut character = [0; 4];
        let (length, bytes) = if *byte == b'\\' {
            let Ok((decoded, length)) = unescape(source.get(at..).unwrap_or_default()) else { break };
            (length, decoded.encode_utf8(&mut character).len())
        } else {
            let bytes = match byte {
                0xF0.. => 4,
                0xE0.. => 3,
                0xC0.. => 2,
                // Also a continuation byte, after a block that ended inside a character; there is room for it.
                _ => 1,
            };
            let Some(raw) = source.get(at..at + bytes) else { break };
            character[..bytes].copy_from_slice(raw);
            (bytes, bytes)
        };
        let Some(room) = output.get_mut(put..put + bytes) else { break };
        room.copy_from_slice(&character[..bytes]);
        at += length;
        put += bytes;
    }
    (at, put)
}

/// Copies `length` bytes, at most a block, and up to `STORE` bytes more.
#[inline(always)]
fn copy_run(source: &[u8], from: usize, output: &mut [u8], to: usize, length: usize) {
    let mut done = 0;
    loop {
        output[to + done..to + done + STORE].copy_from_slice(&source[from + done..from + done + STORE]);
        done += STORE;
        if done >= length {
            break;
        }
    }
}

/// Clears the lowest backslash, which begins the escape at `at`, and the one that it may escape. Fast because the next
/// position does not depend on the length of this escape.
#[inline(always)]
fn after_escape(backslashes: u64, source: &[u8], at: usize) -> u64 {
    let rest = backslashes & backslashes.wrapping_sub(1);
    if source.get(at + 1) == Some(&b'\\') { rest & rest.wrapping_sub(1) } else { rest }
}

/// Length of the escape at `at` and of its character in UTF-8, in bytes.
#[inline(always)]
fn escape_length(source: &[u8], at: usize) -> Result<(usize, usize), StringError> {
    match unescape(source.get(at..).unwrap_or_default()) {
        Ok((character, length)) => Ok((length, character.len_utf8())),
        Err(EscapeError::Invalid) => Err(StringError::Invalid(at)),
        Err(EscapeError::LoneSurrogate(_)) => Err(StringError::LoneSurrogate(at)),
    }
}

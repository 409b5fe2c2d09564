//! Checks, measures and decodes the inside of a JSON string literal, 64 bytes at a time.
//!
//! JSON text inside a JSON string has an escape about every five bytes. Therefore the decoder first finds all
//! backslashes of a block, as one bit mask, and copies the runs between them with stores of fixed length.

use crate::PartError;

/// Bytes per bit mask.
pub const BLOCK: usize = 64;
/// Length of one store in bytes; a shorter run costs one store.
const STORE: usize = 16;

/// The decoded byte for each byte after a backslash; 0 for `u` and for escapes that JSON does not allow.
const SIMPLE: [u8; 256] = {
    let mut table = [0; 256];
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table[b'/' as usize] = b'/';
    table[b'b' as usize] = 8;
    table[b'f' as usize] = 12;
    table[b'n' as usize] = b'\n';
    table[b'r' as usize] = b'\r';
    table[b't' as usize] = b'\t';
    table
};

/// Checks `source` from `start`, which is not inside an escape, to `until`, or to the end of an escape that crosses it.
/// Returns the index where it stopped and the decoded length in bytes.
pub(super) fn measure(source: &[u8], start: usize, until: usize) -> Result<(usize, u64), PartError> {
    let mut at = start;
    // Bytes that decoding removes.
    let mut saved = 0;
    let mut after_backslash = false;
    // End of the last `\u` escape or pair of them, whose digits are checked.
    let mut checked = start;
    while let Some(block) = source.get(at..until).and_then(|rest| rest.first_chunk::<BLOCK>()) {
        let (backslashes, quotes) = (equal(block, b'\\'), equal(block, b'"'));
        let escaped = escaped(backslashes, &mut after_backslash);
        if quotes & !escaped != 0 {
            return Err(PartError::NotJsonString(at + (quotes & !escaped).trailing_zeros() as usize));
        }
        if block.iter().fold(false, |found, byte| found | (*byte < 0x20)) {
            let position = block.iter().position(|byte| *byte < 0x20).unwrap_or_default();
            return Err(PartError::NotJsonString(at + position));
        }
        // Every escape loses its backslash; escapes other than `\"` and `\\` are checked one by one.
        saved += (backslashes & !escaped).count_ones() as usize;
        let mut others = escaped & !(quotes | backslashes);
        while others != 0 {
            let position = at + others.trailing_zeros() as usize;
            others &= others - 1;
            let byte = source.get(position).copied().unwrap_or_default();
            if SIMPLE[byte as usize] == 0 && position > checked {
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
            Some(b'"' | 0..=0x1F) | None => return Err(PartError::NotJsonString(at)),
            Some(_) => at += 1,
        }
    }
    Ok((at, (at - start - saved) as u64))
}

/// Decodes whole characters of `source`, which was checked before, until `source` ends or `output` is full. Returns the
/// bytes read and the bytes written.
pub(super) fn decode(source: &[u8], output: &mut [u8]) -> (usize, usize) {
    let (mut at, mut put) = (0, 0);
    // A run is copied in stores of `STORE` bytes, so both sides need that many bytes beyond the block.
    while at + BLOCK + STORE <= source.len() && put + BLOCK + STORE <= output.len() {
        let Some(block) = source.get(at..).and_then(|rest| rest.first_chunk::<BLOCK>()) else { break };
        let mut backslashes = equal(block, b'\\');
        let mut from = 0;
        while backslashes != 0 {
            let position = backslashes.trailing_zeros() as usize;
            copy_run(source, at + from, output, put, position - from);
            put += position - from;
            let simple = source.get(at + position + 1).map_or(0, |byte| SIMPLE[*byte as usize]);
            if simple != 0 {
                output[put] = simple;
                put += 1;
                from = position + 2;
                backslashes = after_escape(backslashes, source, at + position);
            } else {
                let Ok((character, length)) = unicode_escape(source, at + position) else {
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

/// Decodes character by character, near the end of the source or of the output.
fn decode_tail(source: &[u8], mut at: usize, output: &mut [u8], mut put: usize) -> (usize, usize) {
    while let Some(byte) = source.get(at) {
        let mut character = [0; 4];
        let (length, bytes) = if *byte == b'\\' {
            let simple = source.get(at + 1).map_or(0, |byte| SIMPLE[*byte as usize]);
            if simple != 0 {
                character[0] = simple;
                (2, 1)
            } else {
                let Ok((decoded, length)) = unicode_escape(source, at) else { break };
                (length, decoded.encode_utf8(&mut character).len())
            }
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
fn escape_length(source: &[u8], at: usize) -> Result<(usize, usize), PartError> {
    if source.get(at + 1).is_some_and(|byte| SIMPLE[*byte as usize] != 0) {
        return Ok((2, 1));
    }
    let (character, length) = unicode_escape(source, at)?;
    Ok((length, character.len_utf8()))
}

/// The character of a `\uXXXX` escape or of a surrogate pair of two, and the length of the escapes.
fn unicode_escape(source: &[u8], at: usize) -> Result<(char, usize), PartError> {
    let first = code_unit(source, at).ok_or(PartError::NotJsonString(at))?;
    if let Some(character) = char::from_u32(first) {
        return Ok((character, 6));
    }
    let second = if first < 0xDC00 { code_unit(source, at + 6) } else { None };
    let second = second.filter(|unit| (0xDC00..=0xDFFF).contains(unit)).ok_or(PartError::LoneSurrogate(at))?;
    let character = char::from_u32(0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00));
    character.map(|character| (character, 12)).ok_or(PartError::LoneSurrogate(at))
}

fn code_unit(source: &[u8], at: usize) -> Option<u32> {
    let digits = source.get(at..)?.strip_prefix(b"\\u")?.first_chunk::<4>()?;
    digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)?))
}

/// Length in bytes of the inside of the string that starts at `start`, up to its closing quotation mark; `None` without
/// one. Checks nothing else.
pub fn string_length(source: &[u8], start: usize) -> Option<usize> {
    let rest = source.get(start..)?;
    let (blocks, last) = rest.as_chunks::<BLOCK>();
    let mut after_backslash = false;
    for (index, block) in blocks.iter().enumerate() {
        let quotes = equal(block, b'"') & !escaped(equal(block, b'\\'), &mut after_backslash);
        if quotes != 0 {
            return Some(index * BLOCK + quotes.trailing_zeros() as usize);
        }
    }
    for (index, byte) in last.iter().enumerate() {
        match byte {
            _ if after_backslash => after_backslash = false,
            b'"' => return Some(rest.len() - last.len() + index),
            b'\\' => after_backslash = true,
            _ => {}
        }
    }
    None
}

/// Sets bit `n` when a backslash escapes byte `n`, given the mask of the backslashes of a block. `after_backslash` says
/// whether the previous block ended in an escaping backslash, and is updated for the next.
#[inline(always)]
pub fn escaped(backslashes: u64, after_backslash: &mut bool) -> u64 {
    const ODD: u64 = 0xAAAA_AAAA_AAAA_AAAA;
    let first = u64::from(*after_backslash);
    let candidates = backslashes & !first;
    // A run of backslashes alternates between escaping and escaped: the subtraction carries that through each run.
    let alternating = (((candidates << 1) | ODD).wrapping_sub(candidates)) ^ ODD;
    *after_backslash = (alternating & backslashes) >> 63 == 1;
    alternating ^ (backslashes | first)
}

/// Bit `n` is set when byte `n` of the block equals `byte`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[expect(unsafe_code, reason = "vectors are loaded through pointers")]
pub fn equal(block: &[u8; BLOCK], byte: u8) -> u64 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};
    let (lanes, _) = block.as_chunks::<16>();
    lanes.iter().rev().fold(0, |bits, lane| {
        // SAFETY: every x86-64 processor has SSE2, and the lane is 16 readable bytes; the load needs no alignment.
        let lane = unsafe {
            let equal = _mm_cmpeq_epi8(_mm_loadu_si128(lane.as_ptr().cast()), _mm_set1_epi8(byte.cast_signed()));
            _mm_movemask_epi8(equal)
        };
        bits << 16 | u64::from(lane.cast_unsigned())
    })
}

/// Bit `n` is set when byte `n` of the block equals `byte`.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn equal(block: &[u8; BLOCK], byte: u8) -> u64 {
    block.iter().rev().fold(0, |bits, other| bits << 1 | u64::from(*other == byte))
}

//! Finds the requested members of each record, 64 bytes at a time and without parsing the rest.

use lro_json::masks::{BLOCK, Masks, Strings};
use lro_json::{unescaped_lossy, walk};

use crate::ExtractError;
use crate::keys::same;

/// Position of a missing member.
const MISSING: u32 = u32::MAX;

/// One line of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    /// Number in the file, counted from 0.
    pub(crate) number: u64,
    /// Offset in the file.
    pub(crate) offset: u64,
    /// The line without its line feed.
    pub(crate) line: &'a [u8],
    /// Index in the line of the value of each requested member.
    found: &'a [u32],
}

impl Record<'_> {
    /// Index in the line of the value of the member with this index.
    #[inline(always)]
    pub(crate) fn member(&self, index: usize) -> Option<usize> {
        self.found.get(index).filter(|at| **at != MISSING).map(|at| *at as usize)
    }
}

/// A requested key at the top level of the records, and the last eight bytes of its usual spelling.
#[derive(Clone, Debug)]
struct RequestedKey {
    key: Vec<u8>,
    /// The key between quotes.
    quoted: Vec<u8>,
    suffix: u64,
    mask: u64,
}

impl RequestedKey {
    fn new(key: Vec<u8>) -> Self {
        let quoted = [b"\"", key.as_slice(), b"\""].concat();
        let mut suffix = [0; 8];
        let mut mask = [0; 8];
        for ((byte, bits), from) in suffix.iter_mut().zip(&mut mask).rev().zip(quoted.iter().rev()) {
            (*byte, *bits) = (*from, 0xFF);
        }
        Self { key, quoted, suffix: u64::from_le_bytes(suffix), mask: u64::from_le_bytes(mask) }
    }

    /// Whether this is the string that ends with a quote at the end of `before`, whose last eight bytes are `suffix`.
    #[inline(always)]
    fn ends(&self, suffix: u64, before: &[u8]) -> bool {
        suffix & self.mask == self.suffix && {
            let start = before.len().checked_sub(self.quoted.len());
            start.and_then(|start| before.get(start..)).is_some_and(|end| same(end, &self.quoted))
                // The first quote begins a string, so it is not escaped.
                && start.and_then(|start| before.get(start.wrapping_sub(1))) != Some(&b'\\')
        }
    }
}

/// One of 64 bits, from the last two characters of a key.
#[inline(always)]
fn filter_bit(suffix: u64) -> u64 {
    1_u64.wrapping_shl((suffix >> 48) as u32 ^ ((suffix >> 40) as u32).wrapping_mul(5))
}

/// Scans lines and finds the requested members of each.
#[derive(Clone, Debug)]
pub(crate) struct Finder {
    wanted: Vec<RequestedKey>,
    /// The filter bits of the requested keys.
    filter: u64,
    found: Vec<u32>,
    /// Lines so far.
    pub(crate) examined: u64,
}

impl Finder {
    /// A finder of the members with these keys.
    pub(crate) fn new(keys: &[Vec<u8>]) -> Self {
        let wanted: Vec<RequestedKey> = keys.iter().map(|key| RequestedKey::new(key.clone())).collect();
        let bit = |wanted: &RequestedKey| if wanted.key.is_empty() { u64::MAX } else { filter_bit(wanted.suffix) };
        let filter = wanted.iter().fold(0, |filter, wanted| filter | bit(wanted));
        Self { wanted, filter, found: vec![MISSING; keys.len()], examined: 0 }
    }

    /// Calls `each` with every record of a run of complete lines that begins at `offset` in the file.
    pub(crate) fn scan(
        &mut self,
        offset: u64,
        lines: &[u8],
        mut each: impl FnMut(Record<'_>) -> Result<(), ExtractError>,
    ) -> Result<(), ExtractError> {
        let mut state = ScanState::default();
        let mut strings = Strings::default();
        let mut start = 0;
        while start < lines.len() {
            let masks = Masks::of(lines.get(start..).unwrap_or_default());
            if masks.backslash != 0 {
                state.backslash = start + BLOCK - masks.backslash.leading_zeros() as usize;
            }
            let inside = strings.next(&masks, BLOCK - 1).inside;
            let colons = masks.colon & !inside;
            // JSON has no line feed inside a string.
            let wrong = masks.structure & inside;
            let wrong = if wrong == 0 { 0 } else { line_feeds(lines, start, wrong) };
            let mut structure = masks.structure & !inside | wrong;
            let mut done = 0;
            loop {
                // After the last one, all remaining bits.
                let lowest = structure & structure.wrapping_neg();
                let below = lowest.wrapping_sub(1);
                if state.depth == 1 {
                    self.members(lines, start, colons & below & !done, &mut state);
                }
                if lowest == 0 {
                    break;
                }
                done = below;
                let index = start + structure.trailing_zeros() as usize;
                match lines.get(index).copied().unwrap_or_default() {
                    b'\n' if state.depth == 0 && wrong & lowest == 0 => {
                        self.end_line(offset, lines, state.line, index, &mut each)?;
                        state.line = index + 1;
                        state.token = index + 1;
                    }
                    b'\n' => return Err(ExtractError::Damaged(self.examined)),
                    bracket if opens(bracket) => state.depth += 1,
                    _ if state.depth == 0 => return Err(ExtractError::Damaged(self.examined)),
                    _ => state.depth -= 1,
                }
                structure &= structure - 1;
            }
            start += BLOCK;
        }
        Ok(())
    }

    /// Checks the members whose colons are given.
    #[inline(always)]
    fn members(&mut self, lines: &[u8], start: usize, mut colons: u64, state: &mut ScanState) {
        while colons != 0 {
            let colon = start + colons.trailing_zeros() as usize;
            let before = lines.get(..colon).unwrap_or_default();
            match before.last_chunk::<8>() {
                Some(suffix) if suffix[7] == b'"' && (state.backslash <= state.token || is_plain(before)) => {
                    let suffix = u64::from_le_bytes(*suffix);
                    if self.filter & filter_bit(suffix) != 0 {
                        for (wanted, found) in self.wanted.iter().zip(&mut self.found) {
                            if wanted.ends(suffix, before) {
                                *found = (colon + 1 - state.line) as u32;
                            }
                        }
                    }
                }
                _ => self.member(before, state.line),
            }
            state.token = colon;
            colons &= colons - 1;
        }
    }

    /// Checks one member in any spelling: with escapes, or with white space before its colon.
    #[cold]
    fn member(&mut self, before: &[u8], line: usize) {
        let trimmed = before.trim_ascii_end();
        let Some(raw) = last_string(trimmed.get(line..).unwrap_or_default()) else { return };
        let key = unescaped_lossy(raw);
        if let Some(index) = self.wanted.iter().position(|wanted| wanted.key == key)
            && let Some(found) = self.found.get_mut(index)
        {
            *found = (before.len() + 1 - line) as u32;
        }
    }

    #[inline(always)]
    fn end_line(
        &mut self,
        offset: u64,
        lines: &[u8],
        start: usize,
        end: usize,
        each: &mut impl FnMut(Record<'_>) -> Result<(), ExtractError>,
    ) -> Result<(), ExtractError> {
        let line = lines.get(start..end).unwrap_or_default();
        if !begins_value(line) {
            return Err(ExtractError::Damaged(self.examined));
        }
        each(Record { number: self.examined, offset: offset + start as u64, line, found: &self.found })?;
        self.examined += 1;
        self.found.fill(MISSING);
        Ok(())
    }
}

/// The state of a scan.
#[derive(Clone, Copy, Debug, Default)]
struct ScanState {
    /// Index of the first byte of the line.
    line: usize,
    /// Open brackets.
    depth: u32,
    /// Index of the last colon at depth 1, or of the first byte of the line.
    token: usize,
    /// Index after the last backslash of the current block, also when it lies ahead.
    backslash: usize,
}

#[inline(always)]
fn begins_value(line: &[u8]) -> bool {
    let first = match line.first() {
        Some(b' ' | b'\t' | b'\r') => line.get(walk::skip_white(line, 0)),
        first => first,
    };
    matches!(first, Some(b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n'))
}

/// Whether the string that ends with the last byte of `before` has no escapes.
fn is_plain(before: &[u8]) -> bool {
    let special = before.iter().rev().skip(1).position(|byte| matches!(byte, b'"' | b'\\'));
    special.is_some_and(|back| {
        let quote = before.len() - 2 - back;
        before.get(quote) == Some(&b'"') && before.get(quote.wrapping_sub(1)) != Some(&b'\\')
    })
}

/// Whether a bracket opens.
#[inline(always)]
fn opens(bracket: u8) -> bool {
    bracket & 2 != 0
}

/// The line feeds among the given bytes of a block.
#[cold]
fn line_feeds(lines: &[u8], start: usize, mask: u64) -> u64 {
    (0..BLOCK).filter(|bit| mask >> bit & 1 == 1 && lines.get(start + bit) == Some(&b'\n')).map(|bit| 1 << bit).sum()
}

/// The string at the end of `text`, between its quotes.
fn last_string(text: &[u8]) -> Option<&[u8]> {
    let inner = text.strip_suffix(b"\"")?;
    let mut end = inner.len();
    loop {
        let quote = inner.get(..end)?.iter().rposition(|&byte| byte == b'"')?;
        let backslashes = inner.get(..quote)?.iter().rev().take_while(|&&byte| byte == b'\\').count();
        if backslashes % 2 == 0 {
            return inner.get(quote + 1..);
        }
        end = quote;
    }
}

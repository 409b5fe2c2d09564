//! Cuts a text that comes in slices into regions of whole lines, the same ones however it is sliced.

use memchr::{memchr, memrchr};

use crate::shorten::floor_char;

/// Bytes of a block. Regions end at the last line break of a block, whose place in the text is a multiple of this; a slice
/// of this size is read where it lies, others are copied.
pub(crate) const BLOCK_BYTES: usize = 256 * 1024;

/// Bytes of a line that are kept until its end is seen. A longer line becomes several regions.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// Bytes that the next region of a long line repeats, so that what lies across the cut is seen whole in one of them.
pub const OVERLAP_BYTES: usize = 512;

/// Whole lines, or a piece of a long one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region<'a> {
    pub(crate) bytes: &'a [u8],
    /// Bytes at the beginning that lie inside the line that the last region ended in, and whose matches it gave; 0 if the
    /// region begins with a line.
    pub(crate) given: usize,
    /// The last line goes on in the next region.
    pub(crate) open: bool,
}

impl Region<'_> {
    /// Index of the first byte that begins a line; the length if none does.
    pub(crate) fn first_line(&self) -> usize {
        if self.given == 0 { 0 } else { memchr(b'\n', self.bytes).map_or(self.bytes.len(), |at| at + 1) }
    }

    /// Index of the first byte of the line around `at`, or of the region.
    pub(crate) fn line_start(&self, at: usize) -> usize {
        memrchr(b'\n', self.bytes.get(..at).unwrap_or_default()).map_or(0, |index| index + 1)
    }

    /// Whether a line begins at `at`.
    pub(crate) fn starts_line(&self, at: usize) -> bool {
        match at.checked_sub(1) {
            Some(last) => self.bytes.get(last) == Some(&b'\n'),
            None => self.given == 0,
        }
    }

    /// Index up to which matches may begin: those behind it are found in the next region.
    pub(crate) fn last_start(&self) -> usize {
        if self.open { self.bytes.len() - OVERLAP_BYTES } else { self.bytes.len() }
    }
}

/// The lines of `text`, the last one first, back to the one that begins at `first`.
pub(crate) fn last_lines(text: &[u8], first: usize) -> impl Iterator<Item = &[u8]> {
    let mut end = text.len();
    std::iter::from_fn(move || {
        let lines = text.get(first..end).filter(|lines| !lines.is_empty())?;
        let start = memrchr(b'\n', lines.strip_suffix(b"\n").unwrap_or(lines)).map_or(0, |at| at + 1);
        end = first + start;
        lines.get(start..)
    })
}

/// The part of the text that is not cut yet.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    /// Less than a block.
    block: Vec<u8>,
    /// The line that the last block ended in, or the overlap.
    carry: Vec<u8>,
    /// As in the next [`Region`].
    given: usize,
}

impl Regions {
    /// Calls `each` with every region that is complete.
    pub(crate) fn push(&mut self, mut slice: &[u8], each: &mut impl FnMut(Region<'_>)) {
        while !slice.is_empty() {
            let wanted = BLOCK_BYTES - self.block.len();
            let Some((now, later)) = slice.split_at_checked(wanted) else {
                self.block.extend_from_slice(slice);
                return;
            };
            slice = later;
            if self.block.is_empty() {
                self.cut(now, each);
            } else {
                self.block.extend_from_slice(now);
                self.cut_buffered(each);
            }
        }
    }

    /// Calls `each` with what is left.
    pub(crate) fn finish(&mut self, each: &mut impl FnMut(Region<'_>)) {
        self.cut_buffered(each);
        if !self.carry.is_empty() {
            each(Region { bytes: &self.carry, given: self.given, open: false });
            self.carry.clear();
        }
    }

    fn cut_buffered(&mut self, each: &mut impl FnMut(Region<'_>)) {
        let mut block = std::mem::take(&mut self.block);
        self.cut(&block, each);
        block.clear();
        self.block = block;
    }

    fn cut(&mut self, mut block: &[u8], each: &mut impl FnMut(Region<'_>)) {
        if !self.carry.is_empty() {
            let end = memchr(b'\n', block).map(|at| at + 1);
            let (first, rest) = block.split_at(end.unwrap_or(block.len()));
            self.carry.extend_from_slice(first);
            if end.is_none() {
                self.give_long(each);
                return;
            }
            each(Region { bytes: &self.carry, given: self.given, open: false });
            self.carry.clear();
            self.given = 0;
            block = rest;
        }
        let (lines, rest) = block.split_at(memrchr(b'\n', block).map_or(0, |at| at + 1));
        if !lines.is_empty() {
            each(Region { bytes: lines, given: 0, open: false });
        }
        self.carry.extend_from_slice(rest);
        self.give_long(each);
    }

    /// Gives the line in `carry` away, except for the overlap, if it is too long to keep.
    fn give_long(&mut self, each: &mut impl FnMut(Region<'_>)) {
        if self.carry.len() <= LINE_BYTES_MAX {
            return;
        }
        each(Region { bytes: &self.carry, given: self.given, open: true });
        let next = self.carry.len() - OVERLAP_BYTES;
        let start = floor_char(&self.carry, next - 1);
        self.carry.drain(..start);
        self.given = next - start;
    }
}

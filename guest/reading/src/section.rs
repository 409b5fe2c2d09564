//! Lines and ranges of a file of an offload.

use std::ops::Range;

use lro_contract::manifest::FileRecord;
use memchr::{memchr, memchr_iter};

/// Bytes per read when searching for a line: about the distance between index entries.
const SEARCH_BYTES: usize = 64 * 1024;

/// A file of a published offload. Nothing that is read counts before the file is known to be as its record says.
pub trait Section {
    /// Why a file cannot be read.
    type Error;

    /// The record of the file in the manifest.
    fn record(&self) -> &FileRecord;

    /// Reads `length` bytes from an offset on; fewer at the end of the file.
    ///
    /// # Errors
    /// When the file cannot be read.
    fn bytes(&self, offset: u64, length: usize) -> Result<Vec<u8>, Self::Error>;

    /// Numbers and offsets of the indexed lines, in order, the first line included.
    ///
    /// # Errors
    /// When the index cannot be read, or has changed.
    fn known(&self) -> Result<&[(u64, u64)], Self::Error>;

    /// Returns the range of a line, without its line feed, or `None` after the last line. Lines are counted from 0, in
    /// a JSONL file without the header line. Only records and texts have lines.
    ///
    /// # Errors
    /// As for [`Section::bytes`] and [`Section::known`].
    fn line(&self, number: u64) -> Result<Option<Range<u64>>, Self::Error> {
        if !self.record().has_lines() || number >= self.record().records {
            return Ok(None);
        }
        let (start, next) = (start(self, number)?, start(self, number + 1)?);
        let last = next.saturating_sub(1);
        let has_feed = last >= start && self.bytes(last, 1)?.first() == Some(&b'\n');
        Ok(Some(start..if has_feed { last } else { next }))
    }

    /// Returns whole lines from `first` on, without line feeds: at most `count_max` lines and `bytes_max` bytes in
    /// total. Empty if the line does not exist or is larger; use [`Section::line`] and [`Section::bytes`] to read parts
    /// of it.
    ///
    /// # Errors
    /// As for [`Section::line`].
    fn lines(&self, first: u64, count_max: usize, bytes_max: usize) -> Result<Vec<Vec<u8>>, Self::Error> {
        if !self.record().has_lines() || first >= self.record().records {
            return Ok(Vec::new());
        }
        // Includes the line feeds.
        let block_bytes = bytes_max.saturating_add(count_max);
        let block = self.bytes(start(self, first)?, block_bytes)?;
        let (mut lines, mut rest, mut left) = (Vec::new(), block.as_slice(), bytes_max);
        while lines.len() < count_max && !rest.is_empty() {
            let end = match memchr(b'\n', rest) {
                Some(feed) => feed,
                // The line ends after the block, or the file ends without a line feed.
                None if block.len() == block_bytes => break,
                None => rest.len(),
            };
            let Some(room) = left.checked_sub(end) else { break };
            left = room;
            lines.push(rest.get(..end).unwrap_or_default().to_vec());
            rest = rest.get(end + 1..).unwrap_or_default();
        }
        Ok(lines)
    }

    /// Offset of the first line that begins at an offset, which is not 0, or behind it; the size of the file if none does.
    ///
    /// # Errors
    /// As for [`Section::bytes`].
    fn next_line(&self, offset: u64) -> Result<u64, Self::Error> {
        let mut from = offset.saturating_sub(1);
        while from < self.record().bytes {
            let block = self.bytes(from, SEARCH_BYTES)?;
            match memchr(b'\n', &block) {
                Some(feed) => return Ok(from + feed as u64 + 1),
                None if block.is_empty() => break,
                None => from += block.len() as u64,
            }
        }
        Ok(self.record().bytes)
    }
}

/// Offset of a line, or the size of the file after the last line.
fn start<S: Section + ?Sized>(section: &S, number: u64) -> Result<u64, S::Error> {
    let known = section.known()?;
    let nearest = known.partition_point(|(line, _)| *line <= number).checked_sub(1);
    let first = (0, section.record().digest_from);
    let (line, mut offset) = nearest.and_then(|at| known.get(at)).copied().unwrap_or(first);
    let mut skip = number - line;
    while skip > 0 {
        let block = section.bytes(offset, SEARCH_BYTES)?;
        if block.is_empty() {
            break;
        }
        let mut passed = 0;
        for feed in memchr_iter(b'\n', &block) {
            passed = feed + 1;
            skip -= 1;
            if skip == 0 {
                break;
            }
        }
        offset += if skip == 0 { passed } else { block.len() } as u64;
    }
    Ok(offset)
}

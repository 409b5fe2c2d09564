//! Reads a file in slices and passes on complete lines.

use crate::{ExtractError, Read, Source};

/// Bytes read at a time.
const SLICE_BYTES: u64 = 256 * 1024;

/// Bytes of a text or of records that are searched at a time: a searcher takes them without a copy.
const SEARCHED_BYTES: u64 = 256 * 1024;

/// Longest record, in bytes: 16 MiB. The file is never held in memory, but a record is.
pub const RECORD_BYTES_MAX: usize = 16 << 20;

/// Calls `each` with runs of complete lines, each with its line feed, and their offset in the file.
pub(crate) fn each_run(
    source: &Source,
    read: &mut Read<'_>,
    mut each: impl FnMut(u64, &[u8]) -> Result<(), ExtractError>,
) -> Result<(), ExtractError> {
    let mut offset = source.start;
    // The beginning of an incomplete line.
    let mut open = Vec::new();
    while offset < source.bytes {
        let slice = read_slice(read, offset, (source.bytes - offset).min(SLICE_BYTES))?;
        let begun = open.len();
        let mut rest = slice.as_slice();
        if begun > 0 {
            let end = rest.iter().position(|&byte| byte == b'\n').map_or(rest.len(), |end| end + 1);
            let (tail, next) = rest.split_at(end);
            extend(&mut open, tail)?;
            rest = next;
            if tail.ends_with(b"\n") {
                each(offset - begun as u64, &open)?;
                open.clear();
            }
        }
        if open.is_empty() {
            let end = rest.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
            let (run, tail) = rest.split_at(end);
            let run_offset = offset + (slice.len() - rest.len()) as u64;
            if !run.is_empty() {
                each(run_offset, run)?;
            }
            extend(&mut open, tail)?;
        }
        offset += slice.len() as u64;
    }
    if !open.is_empty() {
        let run_offset = offset - open.len() as u64;
        open.push(b'\n');
        each(run_offset, &open)?;
    }
    Ok(())
}

/// Calls `each` with slices of the records or of the text, in their order.
pub(crate) fn each_slice(
    source: &Source,
    read: &mut Read<'_>,
    mut each: impl FnMut(&[u8]),
) -> Result<(), ExtractError> {
    let mut offset = source.start;
    while offset < source.bytes {
        let slice = read_slice(read, offset, (source.bytes - offset).min(SEARCHED_BYTES))?;
        each(&slice);
        offset += slice.len() as u64;
    }
    Ok(())
}

/// Reads up to `length` bytes, at least one.
fn read_slice(read: &mut Read<'_>, offset: u64, length: u64) -> Result<Vec<u8>, ExtractError> {
    let mut slice = read(offset, u32::try_from(length).unwrap_or(u32::MAX)).map_err(ExtractError::Io)?;
    slice.truncate(usize::try_from(length).unwrap_or(usize::MAX));
    if slice.is_empty() { Err(ExtractError::Io(format!("the file ends at byte {offset}"))) } else { Ok(slice) }
}

/// Reads a line of `length` bytes again, with its line feed.
pub(crate) fn read_line(read: &mut Read<'_>, offset: u64, length: u64) -> Result<Vec<u8>, ExtractError> {
    let mut line = Vec::with_capacity(usize::try_from(length).unwrap_or_default() + 1);
    while (line.len() as u64) < length {
        let missing = length - line.len() as u64;
        line.extend_from_slice(&read_slice(read, offset + line.len() as u64, missing.min(SLICE_BYTES))?);
    }
    line.push(b'\n');
    Ok(line)
}

fn extend(open: &mut Vec<u8>, bytes: &[u8]) -> Result<(), ExtractError> {
    if open.len() + bytes.len() > RECORD_BYTES_MAX {
        return Err(ExtractError::Limit(format!("record-bytes: a record is longer than {RECORD_BYTES_MAX} bytes")));
    }
    // Doubling the capacity would take three times the record during the copy.
    open.reserve_exact(bytes.len());
    open.extend_from_slice(bytes);
    Ok(())
}

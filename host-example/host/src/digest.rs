//! Digests and checksums of files on disk, read in one sequential pass.

use std::fs::File;
use std::hash::Hasher as _;
use std::io;

use lro_contract::digest::{Checksum, FileDigest, FileHasher};
use lro_system::files::append_at;
use twox_hash::XxHash3_64;

use crate::ahead::Giver;

/// Maximum number of bytes per read: 256 KiB, which stay in a processor's own cache. Components read as many.
const BLOCK_BYTES: usize = 256 * 1024;

/// The checksum of a file from `from` on, and the size of the file. Hands its blocks on.
pub(crate) fn checksum(file: &File, from: u64, giver: &mut Giver) -> io::Result<(Checksum, u64)> {
    let (mut hasher, mut next) = (XxHash3_64::new(), from);
    each_block(file, from, |block| {
        hasher.write(block);
        next += block.len() as u64;
        giver.give(block);
        Ok(())
    })?;
    Ok((Checksum(hasher.finish()), next))
}

/// Reads a whole file. `None` if a header line is expected and the file has no line feed.
pub(crate) fn digest(file: &File, has_header: bool) -> io::Result<Option<FileDigest>> {
    let (mut hasher, mut next) = (FileHasher::new(has_header), 0);
    each_block(file, 0, |block| {
        hasher.add(next, block);
        next += block.len() as u64;
        Ok(())
    })?;
    Ok(hasher.finish())
}

/// Reads a file from `from` to its end. `read` may take a block.
fn each_block(file: &File, from: u64, mut read: impl FnMut(&mut Vec<u8>) -> io::Result<()>) -> io::Result<()> {
    let (mut block, mut next) = (Vec::new(), from);
    loop {
        block.clear();
        block.reserve_exact(BLOCK_BYTES);
        let length = append_at(file, next, &mut block)?;
        if length == 0 {
            return Ok(());
        }
        next += length as u64;
        read(&mut block)?;
    }
}

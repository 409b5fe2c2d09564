//! Owns the results and the files of a policy's calls. The files are in memory, and nothing is imported.
#![cfg(target_arch = "wasm32")]

use std::cell::RefCell;

use lro_results::{ErrorCode, Results, State, Storage, bindings};

/// Least bytes of a block that no more bytes are appended to.
const BLOCK_BYTES: usize = 64 << 10;

thread_local! {
    static STATE: RefCell<State<Memory>> = RefCell::default();
}

type Component = Results<Memory>;

bindings::export!(Component with_types_in bindings);

/// Files in memory.
#[derive(Default)]
struct Memory;

/// A file: blocks one behind the other, as they were written, so that a large file is never copied to grow.
#[derive(Default)]
struct File {
    blocks: Vec<Block>,
    bytes: u64,
}

struct Block {
    start: u64,
    bytes: Vec<u8>,
}

impl File {
    fn append(&mut self, bytes: Vec<u8>) -> Result<(), ErrorCode> {
        let full = |_| ErrorCode::InsufficientSpace;
        let length = bytes.len() as u64;
        match self.blocks.last_mut().filter(|block| block.bytes.len() + bytes.len() <= BLOCK_BYTES) {
            Some(last) => {
                last.bytes.try_reserve(bytes.len()).map_err(full)?;
                last.bytes.extend_from_slice(&bytes);
            }
            None => {
                self.blocks.try_reserve(1).map_err(full)?;
                self.blocks.push(Block { start: self.bytes, bytes });
            }
        }
        self.bytes += length;
        Ok(())
    }

    /// Overwrites what there is at an offset; returns what lies beyond the end.
    fn overwrite(&mut self, offset: u64, mut bytes: Vec<u8>) -> Vec<u8> {
        let inside = usize::try_from(self.bytes.saturating_sub(offset)).unwrap_or(usize::MAX).min(bytes.len());
        let beyond = bytes.split_off(inside);
        let mut rest = bytes.as_slice();
        let first = self.blocks.partition_point(|block| block.start + block.bytes.len() as u64 <= offset);
        for block in self.blocks.iter_mut().skip(first) {
            let from = usize::try_from(offset.saturating_sub(block.start)).unwrap_or(usize::MAX);
            let Some(room) = block.bytes.get_mut(from..) else { break };
            let (now, later) = rest.split_at(room.len().min(rest.len()));
            room.iter_mut().zip(now).for_each(|(to, from)| *to = *from);
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        beyond
    }
}

impl Storage for Memory {
    type File = File;

    fn with<T>(work: impl FnOnce(&mut State<Self>) -> T) -> T {
        STATE.with_borrow_mut(work)
    }

    fn open(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn create(&mut self, _: &str) -> Result<File, ErrorCode> {
        Ok(File::default())
    }

    fn write(&mut self, file: &mut File, offset: u64, bytes: Vec<u8>) -> Result<(), ErrorCode> {
        let beyond = if offset < file.bytes { file.overwrite(offset, bytes) } else { bytes };
        if beyond.is_empty() { Ok(()) } else { file.append(beyond) }
    }

    fn read(&self, file: &File, offset: u64, length: u64) -> Result<Vec<u8>, ErrorCode> {
        let index = file.blocks.partition_point(|block| block.start + block.bytes.len() as u64 <= offset);
        let Some(block) = file.blocks.get(index) else { return Ok(Vec::new()) };
        let from = usize::try_from(offset - block.start).unwrap_or(usize::MAX);
        let rest = block.bytes.get(from..).unwrap_or_default();
        let length = usize::try_from(length).unwrap_or(usize::MAX).min(rest.len());
        Ok(rest.get(..length).unwrap_or_default().to_vec())
    }

    fn clear(&mut self, file: &mut File) -> Result<(), ErrorCode> {
        *file = File::default();
        Ok(())
    }

    fn rename(&mut self, _: &str, _: &str) -> Result<(), ErrorCode> {
        Ok(())
    }

    fn remove(&mut self, _: &str) -> Result<(), ErrorCode> {
        Ok(())
    }
}

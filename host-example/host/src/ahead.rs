//! A file that is read once for two: the thread that compares it with its checksum hands its blocks on to the component that is
//! asked about it.

use std::mem;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Blocks that wait for the component. Then the thread waits for it.
const BLOCKS_WAITING: usize = 3;

/// Gives the blocks of a file, one after another, until nobody takes them any more.
#[derive(Debug)]
pub(crate) struct Giver(Option<SyncSender<Vec<u8>>>);

/// Takes them.
#[derive(Debug)]
pub(crate) struct Ahead {
    /// Name of the file.
    name: String,
    /// Offset of the next block.
    next: u64,
    blocks: Receiver<Vec<u8>>,
}

/// For the file of this name, from an offset on.
pub(crate) fn ahead(name: &str, from: u64) -> (Giver, Ahead) {
    let (giver, blocks) = sync_channel(BLOCKS_WAITING);
    (Giver(Some(giver)), Ahead { name: name.to_owned(), next: from, blocks })
}

impl Giver {
    /// Gives nothing.
    pub(crate) const fn nobody() -> Self {
        Self(None)
    }

    /// Gives the next block, and leaves an empty one; waits while many are not taken yet.
    pub(crate) fn give(&mut self, block: &mut Vec<u8>) {
        if let Some(giver) = &self.0
            && let Err(refused) = giver.send(mem::take(block))
        {
            *block = refused.0;
            self.0 = None;
        }
    }
}

impl Ahead {
    /// Whether it is of the file of this name.
    pub(crate) fn is_of(&self, name: &str) -> bool {
        self.name == name
    }

    /// The next block, if it begins at an offset and has at most so many bytes. After `None`, it must not be used.
    pub(crate) fn take(&mut self, offset: u64, bytes_max: u64) -> Option<Vec<u8>> {
        if offset != self.next {
            return None;
        }
        let block = self.blocks.recv().ok()?;
        let bytes = block.len() as u64;
        self.next += bytes;
        (bytes <= bytes_max).then_some(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_given_in_order_until_one_is_skipped() {
        let (mut giver, mut ahead) = ahead("text", 10);
        assert!(ahead.is_of("text") && !ahead.is_of("other"));
        for bytes in [vec![1; 4], vec![2; 3], vec![3; 5]] {
            let mut block = bytes;
            giver.give(&mut block);
            assert!(block.is_empty());
        }
        assert_eq!(ahead.take(10, 4), Some(vec![1; 4]));
        assert_eq!(ahead.take(14, 9), Some(vec![2; 3]));
        assert_eq!(ahead.take(17, 4), None, "a block of five bytes");
        let (_, mut elsewhere) = super::ahead("text", 10);
        assert_eq!(elsewhere.take(11, 9), None);
        assert_eq!(elsewhere.take(10, 9), None, "nobody gives");
    }

    #[test]
    fn a_block_that_nobody_takes_comes_back() {
        let (mut giver, taker) = ahead("text", 0);
        drop(taker);
        for _ in 0..2 * BLOCKS_WAITING {
            let mut block = vec![7];
            giver.give(&mut block);
            assert_eq!(block, [7]);
        }
    }
}

//! Files that a component is asked about while another thread still reads them.
//!
//! A file on the disk is read once for two: the thread that compares it with its checksum hands its blocks on. A file of a
//! bucket is written by the thread that copies it, and the component reads what has arrived.

use std::mem;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use parking_lot::{Condvar, Mutex};

/// Blocks that wait for the component. Then the thread waits for it.
const BLOCKS_WAITING: usize = 3;

/// Distance in bytes between two positions of a file at which its reader is woken: what a component reads at once.
const STEP_BYTES: u64 = 256 * 1024;

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

/// What other threads read for a call.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    pub(crate) ahead: Option<Ahead>,
    /// What comes of the files of each directory, by its number.
    pub(crate) arrivals: Vec<Vec<Arrival>>,
}

/// A file that is being written, from its beginning to its end, for who reads it. Clones share their state.
#[derive(Clone, Debug)]
pub(crate) struct Arrival(Arc<Arriving>);

/// The same for who writes it. When this is dropped, nothing more comes: the file is complete, or its copy has failed.
#[derive(Debug)]
pub(crate) struct Arriver(Arc<Arriving>);

#[derive(Debug)]
struct Arriving {
    name: String,
    progress: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Progress {
    bytes: u64,
    is_over: bool,
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

impl Incoming {
    /// What comes of the file of this name in the directory of this number.
    pub(crate) fn file(&mut self, directory: usize, name: &str) -> (Option<Ahead>, Option<Arrival>) {
        let arrival = self.arrivals.get(directory).into_iter().flatten().find(|arrival| arrival.is_of(name));
        (self.ahead.take_if(|ahead| ahead.is_of(name)), arrival.cloned())
    }
}

impl Arriver {
    /// Of the file of this name, of which nothing is there.
    pub(crate) fn of(name: &str) -> Self {
        let (progress, changed) = (Mutex::default(), Condvar::new());
        Self(Arc::new(Arriving { name: name.to_owned(), progress, changed }))
    }

    pub(crate) fn arrival(&self) -> Arrival {
        Arrival(Arc::clone(&self.0))
    }

    /// Says that more bytes were written.
    pub(crate) fn add(&self, bytes: usize) {
        let mut progress = self.0.progress.lock();
        let before = progress.bytes;
        progress.bytes += bytes as u64;
        // The reader is not woken for every piece.
        if before / STEP_BYTES != progress.bytes / STEP_BYTES {
            self.0.changed.notify_all();
        }
    }
}

impl Drop for Arriver {
    fn drop(&mut self) {
        self.0.progress.lock().is_over = true;
        self.0.changed.notify_all();
    }
}

impl Arrival {
    /// Whether it is of the file of this name.
    pub(crate) fn is_of(&self, name: &str) -> bool {
        self.0.name == name
    }

    /// Waits until so many bytes are there behind an offset, and returns how many are; fewer if no more come.
    pub(crate) fn wait_behind(&self, offset: u64, bytes: u64) -> u64 {
        let mut progress = self.0.progress.lock();
        while progress.bytes < offset.saturating_add(bytes) && !progress.is_over {
            self.0.changed.wait(&mut progress);
        }
        progress.bytes.saturating_sub(offset)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn what_has_not_arrived_is_waited_for_until_nothing_more_comes() {
        let arriver = Arriver::of("text");
        let arrival = arriver.arrival();
        assert!(arrival.is_of("text") && !arrival.is_of("other"));
        arriver.add(10);
        assert_eq!(arrival.wait_behind(4, 2), 6);
        let reader = arrival.clone();
        let waiting = thread::spawn(move || (reader.wait_behind(10, 9), reader.wait_behind(15, 1)));
        arriver.add(5);
        drop(arriver);
        assert_eq!(waiting.join().ok(), Some((5, 0)));
        assert_eq!(arrival.wait_behind(12, 1), 3);
    }

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

//! What a query holds in memory.

use std::cell::Cell;

use crate::Error;

/// Most bytes that a query holds for joins, groups, DISTINCT and orders together: 24 MiB. With a record of 16 MiB and a copy
/// of its largest field, a query then stays below 64 MiB.
pub const HELD_BYTES_MAX: usize = 24 << 20;

/// Bytes held by all parts of a running query.
#[derive(Debug, Default)]
pub(crate) struct Memory(Cell<usize>);

/// Bytes held by one part; given back when it ends.
#[derive(Debug)]
pub(crate) struct Held<'m> {
    memory: &'m Memory,
    bytes: usize,
}

impl Memory {
    /// Nothing held yet.
    pub(crate) fn hold(&self) -> Held<'_> {
        Held { memory: self, bytes: 0 }
    }
}

impl Held<'_> {
    /// Holds more bytes.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), Error> {
        let all = self.memory.0.get().saturating_add(bytes);
        if all > HELD_BYTES_MAX {
            return Err(Error::Limit(format!(
                "held-bytes: joins, groups, DISTINCT and ORDER BY of the query hold more than {HELD_BYTES_MAX} bytes: name \
                 fewer columns, add conditions, or a LIMIT to ORDER BY"
            )));
        }
        self.memory.0.set(all);
        self.bytes += bytes;
        Ok(())
    }

    /// Gives some bytes back.
    pub(crate) fn give(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.memory.0.set(self.memory.0.get() - bytes);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.give(self.bytes);
    }
}

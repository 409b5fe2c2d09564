//! Results that are read more than once: for their columns, and to be written.

use std::env;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use tempfile::SpooledTempFile;

/// Bytes of results that are held in memory: 8 MiB, more than a usual answer has. More are in a file without a name.
const MEMORY_BYTES_MAX: usize = 8 << 20;

/// Results as JSON Lines, each with a line feed.
pub(crate) struct Rows(SpooledTempFile);

impl Rows {
    /// No results yet. Those that need a file have it in `directory`.
    pub(crate) fn new(directory: &Path) -> Self {
        Self(SpooledTempFile::new_in(MEMORY_BYTES_MAX, directory))
    }

    pub(crate) fn of(lines: &str) -> io::Result<Self> {
        let mut rows = Self::new(&env::temp_dir());
        rows.write_all(lines.as_bytes())?;
        Ok(rows)
    }
}

impl Read for Rows {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes)
    }
}

impl Seek for Rows {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.0.seek(position)
    }
}

impl Write for Rows {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

//! Results that are read more than once: for their columns, and to be written.

use std::env;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::path::Path;

use tempfile::SpooledTempFile;

/// Bytes of results that are held in memory: 8 MiB, more than a usual answer has. More are in a file without a name.
const MEMORY_BYTES_MAX: usize = 8 << 20;

/// Bytes that are read at a time.
const READ_BYTES: usize = 256 << 10;

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

    /// Calls `each` with each result, without its line feed.
    pub(crate) fn each(&mut self, mut each: impl FnMut(&str) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let mut reader = BufReader::with_capacity(READ_BYTES, self.read()?);
        let mut line = String::new();
        while reader.read_line(&mut line)? > 0 {
            each(line.strip_suffix('\n').unwrap_or(&line))?;
            line.clear();
        }
        Ok(())
    }

    /// Reads from the beginning.
    pub(crate) fn read(&mut self) -> io::Result<impl Read> {
        self.0.rewind()?;
        Ok(&mut self.0)
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

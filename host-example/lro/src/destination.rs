//! Where results go: standard output, or a file that appears when it is complete.

use std::ffi::OsStr;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use tempfile::NamedTempFile;

use crate::output;

/// The flags that name a file.
#[derive(Args)]
pub(crate) struct Destination {
    /// Write the results to this file, up to 100,000 and 4 MiB unless --limit says otherwise; only you can read it
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Replace the file if there is one
    #[arg(long, requires = "output")]
    force: bool,
}

impl Destination {
    /// Writes what `write` does. A terminal gets no control characters of the data.
    pub(crate) fn write(&self, write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>) -> anyhow::Result<()> {
        if let Some(path) = &self.output {
            return self.file(path, write).with_context(|| format!("cannot write {}", path.display()));
        }
        if io::stdout().is_terminal() {
            let mut text = Vec::new();
            write(&mut text)?;
            return Ok(output::data(&text)?);
        }
        let mut stdout = BufWriter::new(io::stdout().lock());
        write(&mut stdout)?;
        Ok(stdout.flush()?)
    }

    /// Writes a file under another name in the same directory, and renames it.
    fn file(&self, path: &Path, write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let directory = path.parent().filter(|parent| *parent != OsStr::new("")).unwrap_or(Path::new("."));
        let mut file = BufWriter::new(NamedTempFile::new_in(directory)?);
        write(&mut file)?;
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.as_file().sync_all()?;
        if self.force {
            file.persist(path).map_err(|error| error.error)?;
            return Ok(());
        }
        match file.persist_noclobber(path).map_err(|error| error.error) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                bail!("it exists: choose another name, or replace it with --force")
            }
            persisted => persisted.map(drop).map_err(Into::into),
        }
    }
}

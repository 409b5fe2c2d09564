//! Where results go: standard output, or a file that appears when it is complete.

use std::env;
use std::ffi::OsStr;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use tempfile::NamedTempFile;

use crate::output;
use crate::rows::Rows;

/// The flags that name a file.
#[derive(Args)]
pub(crate) struct Destination {
    /// Write all results to this file, without the limits of an answer; only you can read it. `-` is standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if there is one
    #[arg(long, requires = "output")]
    force: bool,
}

/// What writes the results.
type Writing<'a> = &'a mut (dyn Write + Send);

impl Destination {
    /// Whether an answer has to be whole, whatever its size.
    pub(crate) fn is_whole(&self) -> bool {
        self.output.is_some()
    }

    /// The file, unless it is standard output.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.output.as_deref().filter(|path| *path != Path::new("-"))
    }

    /// Collects results that `ask` writes as JSON Lines. Many of them need a file, which is where they go.
    pub(crate) fn rows<T>(&self, ask: impl FnOnce(&mut dyn Write) -> anyhow::Result<T>) -> anyhow::Result<(Rows, T)> {
        let rows = self.path().map_or_else(|| Rows::new(&env::temp_dir()), |path| Rows::new(directory(path)));
        let mut out = BufWriter::new(rows);
        let answer = ask(&mut out)?;
        Ok((out.into_inner().map_err(io::IntoInnerError::into_error)?, answer))
    }

    /// Writes what `write` does. A terminal gets no control characters of the data.
    pub(crate) fn write(&self, write: impl FnOnce(Writing<'_>) -> anyhow::Result<()>) -> anyhow::Result<()> {
        if let Some(path) = self.path() {
            return self.file(path, write).with_context(|| format!("cannot write {}", path.display()));
        }
        if io::stdout().is_terminal() {
            let mut text = Vec::new();
            write(&mut text)?;
            return Ok(output::data(&text)?);
        }
        let mut stdout = BufWriter::new(io::stdout());
        write(&mut stdout)?;
        Ok(stdout.flush()?)
    }

    /// Writes a file under another name in the same directory, and renames it.
    fn file(&self, path: &Path, write: impl FnOnce(Writing<'_>) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let mut file = BufWriter::new(NamedTempFile::new_in(directory(path))?);
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

/// The directory that a file is in.
fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| *parent != OsStr::new("")).unwrap_or(Path::new("."))
}

//! A file of the records, one a line, that grows page by page, and what is needed to go on with it.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use lro_gateway::collect::{Count, Kept};
use lro_system::files::private_files;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tempfile::NamedTempFile;

use super::next_of;

/// What the name of the file beside it ends with that says how to go on.
const RESUME: &str = ".resume";

/// How far a file is.
#[derive(Serialize, Deserialize)]
pub(super) struct Position {
    /// The arguments that continue, a JSON object.
    pub(super) next: Box<RawValue>,
    pub(super) count: Count,
    /// Size of the file with these records.
    bytes: u64,
}

pub(super) struct LinesFile {
    pub(super) path: PathBuf,
    file: File,
    bytes: u64,
    /// Whether there are pages in it.
    is_kept: bool,
}

impl Drop for LinesFile {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = remove(&self.path);
        }
    }
}

impl LinesFile {
    /// Creates a file that only its owner can read, in place of another only if that is wanted.
    pub(super) fn create(path: &Path, replaces: bool) -> anyhow::Result<Self> {
        let mut options = private_files();
        let options = if replaces { options.create(true).truncate(true) } else { options.create_new(true) };
        let file = options.open(path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                anyhow::anyhow!("it exists: choose another name, go on with --resume, or replace it with --force")
            }
            _ => error.into(),
        });
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        remove(&resume_path(path))?;
        Ok(Self { path: path.to_owned(), file, bytes: 0, is_kept: false })
    }

    /// Whether a path is that of a file whose collection ended early.
    pub(super) fn can_go_on(path: &Path) -> bool {
        resume_path(path).exists()
    }

    /// Opens a file whose collection ended early. What came after the last whole page is dropped.
    pub(super) fn reopen(path: &Path) -> anyhow::Result<(Self, Position)> {
        let context = || format!("cannot go on with {}", path.display());
        let state = fs::read(resume_path(path)).with_context(context)?;
        let position: Position = serde_json::from_slice(&state).with_context(context)?;
        let mut file = OpenOptions::new().write(true).open(path).with_context(context)?;
        if file.metadata()?.len() < position.bytes {
            bail!("{}: it has less than the {} bytes that were written", context(), position.bytes);
        }
        file.set_len(position.bytes).with_context(context)?;
        file.seek(SeekFrom::End(0)).with_context(context)?;
        Ok((Self { path: path.to_owned(), file, bytes: position.bytes, is_kept: true }, position))
    }

    /// Appends the records of a page, and then notes how to go on after them. `count` is that of the whole file.
    pub(super) fn keep(&mut self, kept: &Kept<'_>, count: Count) -> anyhow::Result<()> {
        let lines = lines(kept.page.items())?;
        let context = || format!("cannot write {}", self.path.display());
        self.file.write_all(&lines).with_context(context)?;
        self.is_kept = true;
        self.bytes += lines.len() as u64;
        let state = resume_path(&self.path);
        let Some(next) = next_of(kept.following) else { return remove(&state) };
        let position = Position { next: RawValue::from_string(next)?, count, bytes: self.bytes };
        let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = NamedTempFile::new_in(directory).with_context(context)?;
        serde_json::to_writer(&mut file, &position)?;
        file.persist(&state).with_context(context)?;
        Ok(())
    }

    /// Ends the file, which is whole, or cannot be gone on with.
    pub(super) fn end(&self) -> anyhow::Result<()> {
        remove(&resume_path(&self.path))
    }
}

/// The records of a page, one a line. A line break between the tokens of a record becomes a space.
fn lines(items: &str) -> anyhow::Result<Vec<u8>> {
    let array = format!("[{items}]");
    let mut lines = Vec::with_capacity(array.len());
    for record in lro_json::elements(&array)? {
        lines.extend(record.bytes().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }));
        lines.push(b'\n');
    }
    Ok(lines)
}

fn resume_path(path: &Path) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(RESUME);
    name.into()
}

fn remove(path: &Path) -> anyhow::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

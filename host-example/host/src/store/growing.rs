//! Results that grow: what has come of one so far can be read before the rest is there.
//!
//! The directory `{root}/{tenant}/.growing-{ULID}/` has one file of records and `about.json`. It is removed after the whole
//! result is published under the same id: from the rename on, readers find that alone.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::time::SystemTime;

use lro_json::write::string;
use memchr::{memchr, memchr_iter, memrchr};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::directory::{Directory, bytes_on_disk};
use super::error::failed;
use super::usage::{Counted, Kind};
use super::{
    FileKind, FileRecord, Growth, Offload, OffloadRecord, Origin, QuotaKind, RecordShape, Store, StoreError, Ulid,
    rfc3339, tenant_name,
};

/// Name of the only section of a result that grows.
pub const PARTIAL_SECTION: &str = "partial";

/// File of that section.
const FILE_NAME: &str = "partial.jsonl";
/// File that says whose result it is.
const ABOUT_NAME: &str = "about.json";
/// Maximum size of that file.
const ABOUT_BYTES_MAX: u64 = 1 << 20;
/// Prefix of the name of the directory.
const GROWING: &str = ".growing-";
/// Bytes per read when lines are counted.
const BLOCK_BYTES: usize = 256 << 10;

/// A result that grows. Dropping it removes what has come, unless it was kept.
#[derive(Debug)]
pub struct Growing {
    store: Store,
    tenant: String,
    parent: Directory,
    directory: Directory,
    about: About,
    file: File,
    bytes: u64,
    /// Disk usage that the store has counted.
    counted: u64,
    is_kept: bool,
}

/// The content of [`ABOUT_NAME`].
#[derive(Clone, Debug, Serialize, Deserialize)]
struct About {
    id: Ulid,
    tenant: String,
    tool: String,
    created: String,
    /// The store that it grows in; `None` when it has ended.
    owner: Option<Ulid>,
}

/// Where the whole lines of a file are.
#[derive(Debug, Default)]
struct Lines {
    /// Length of the first line.
    header: u64,
    /// End of the last line.
    end: u64,
    /// Lines after the first.
    count: u64,
}

impl Store {
    /// Begins a result of which nothing has come yet. Readers find it as an offload with the section
    /// [`PARTIAL_SECTION`] until one with this id is published.
    ///
    /// # Errors
    /// [`StoreError::Quota`], [`StoreError::NoSpace`] or [`StoreError::Io`]; the latter also if the id already grows.
    pub fn grow(&self, tenant: &str, id: Ulid, tool: &str) -> Result<Growing, StoreError> {
        let opened = self.current_root()?;
        let name = tenant_name(tenant);
        let parent = self.tenant_directory(&opened.root, &name)?;
        let growing = growing_name(id);
        let Some(directory) = parent.create_directory(&growing)? else {
            return Err(failed("create", parent.path.join(growing))(io::Error::from(io::ErrorKind::AlreadyExists)));
        };
        let created = rfc3339(SystemTime::now());
        let header = format!(
            "{{\"type\":\"mcp_lro\",\"operation\":{},\"section\":\"{PARTIAL_SECTION}\",\"complete\":false,\"timestamp\":{}}}\n",
            string(tool),
            string(&created)
        );
        let about =
            About { id, tenant: tenant.to_owned(), tool: tool.to_owned(), created, owner: Some(opened.owner.id) };
        let begin = || {
            let file = directory.create_file(FILE_NAME)?;
            about.write(&directory, self.inner.config.synchronizes())?;
            Ok(file)
        };
        let file = begin().inspect_err(|_| {
            self.delete(&directory.path, &name, id, 0);
        })?;
        let (store, tenant) = (self.clone(), tenant.to_owned());
        let mut growing =
            Growing { store, tenant, parent, directory, about, file, bytes: 0, counted: 0, is_kept: false };
        growing.push(header.as_bytes())?;
        Ok(growing)
    }

    /// Finds a result that is not whole.
    pub(super) fn find_growing(&self, tenant: &str, id: Ulid) -> Result<Offload, StoreError> {
        let directory = self.opened()?.root.directory(tenant_name(tenant))?.directory(growing_name(id))?;
        let about = About::read(&directory)?;
        if about.tenant != tenant || about.id != id {
            return Err(StoreError::NotFound { path: directory.path });
        }
        let growth = self.growth(&about)?;
        let expires = self.growing_expires(&directory, growth)?;
        if expires <= SystemTime::now() {
            return Err(StoreError::Expired { id });
        }
        let (file, _) = directory.file(FILE_NAME)?;
        let lines = Lines::of(&file).map_err(failed("read", directory.path.join(FILE_NAME)))?;
        let record = about.into_record(&lines);
        let path = directory.path;
        let offload = self.offload(tenant, id, None, record);
        Ok(Offload { path, expires, growth: Some(growth), ..offload })
    }

    /// When what has come of a result expires: never while it grows, then by the time since the last of it came.
    fn growing_expires(&self, directory: &Directory, growth: Growth) -> Result<SystemTime, StoreError> {
        let since = match growth {
            Growth::Running => SystemTime::now(),
            Growth::Lost | Growth::Ended => {
                let (file, _) = directory.file(FILE_NAME)?;
                let modified = file.metadata().and_then(|metadata| metadata.modified());
                modified.map_err(failed("examine", directory.path.join(FILE_NAME)))?
            }
        };
        Ok(since + self.inner.config.time_to_live)
    }

    /// Whether a sweep removes a directory of this kind: it is older than the time to live, or damaged.
    pub(super) fn is_over(&self, directory: &Directory, now: SystemTime) -> Result<bool, StoreError> {
        let Ok(about) = About::read(directory) else {
            // It may be about to be written.
            return Ok(false);
        };
        let growth = self.growth(&about)?;
        Ok(growth != Growth::Running && self.growing_expires(directory, growth)? <= now)
    }

    /// Counts a directory of this kind. One that does not grow any more can make room.
    pub(super) fn count_growing(&self, directory: &Directory, id: Ulid, counted: &mut Counted) {
        let (Ok(bytes), Ok(about)) = (directory.bytes_on_disk(), About::read(directory)) else { return };
        match self.growth(&about) {
            Ok(Growth::Lost | Growth::Ended) => {
                counted.removable.insert((id, Kind::Growing), bytes);
            }
            Ok(Growth::Running) | Err(_) => counted.running += bytes,
        }
    }

    fn growth(&self, about: &About) -> Result<Growth, StoreError> {
        Ok(match about.owner {
            None => Growth::Ended,
            Some(owner) if self.is_gone(owner)? => Growth::Lost,
            Some(_) => Growth::Running,
        })
    }
}

impl Growing {
    /// The id, under which readers find it.
    pub fn id(&self) -> Ulid {
        self.about.id
    }

    /// Appends records: lines of JSON, each with its line feed.
    ///
    /// # Errors
    /// [`StoreError::Quota`], [`StoreError::NoSpace`] or [`StoreError::Io`]. Nothing is appended then.
    pub fn push(&mut self, lines: &[u8]) -> Result<(), StoreError> {
        let (bytes, limit) = (self.bytes + lines.len() as u64, self.store.inner.config.file_bytes_max);
        if bytes > limit {
            return Err(StoreError::Quota { which: QuotaKind::File, limit, needed: bytes });
        }
        // The directory and the other file are a block and an inode each, too.
        let needed = bytes_on_disk(bytes, 0) + bytes_on_disk(0, 0) + bytes_on_disk(1, 0);
        let more = needed.saturating_sub(self.counted);
        if more > 0 {
            let name = tenant_name(&self.tenant);
            self.store.make_room_for(&name, more, |ledger| ledger.add_running(&name, more))?;
            self.counted = needed;
        }
        let path = || self.directory.path.join(FILE_NAME);
        if let Err(error) = self.file.write_all(lines) {
            // Readers see no half of a line either way.
            let end = self.file.set_len(self.bytes).and_then(|()| self.file.seek(SeekFrom::End(0)));
            end.map_err(failed("write", path()))?;
            return Err(failed("write", path())(error));
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Leaves what has come to readers if this process ends: it is lost then.
    pub fn outlive(&mut self) {
        self.is_kept = true;
    }

    /// Removes what has come.
    pub fn discard(mut self) {
        self.is_kept = false;
    }

    /// Keeps what has come, although no more will.
    ///
    /// # Errors
    /// [`StoreError::NoSpace`] or [`StoreError::Io`]; it is lost then, once this store is closed.
    pub fn keep(mut self) -> Result<(), StoreError> {
        self.is_kept = true;
        self.about.owner = None;
        self.about.write(&self.directory, self.store.inner.config.synchronizes())
    }
}

impl Drop for Growing {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        let (tenant, id) = (tenant_name(&self.tenant), self.about.id);
        self.store.inner.ledger.lock().remove_running(&tenant, self.counted);
        // Two steps, so that readers never find it without its file.
        let path = self.store.detach_growing(&self.parent, id).unwrap_or_else(|_| self.directory.path.clone());
        self.store.delete(&path, &tenant, id, self.counted);
    }
}

impl About {
    fn read(directory: &Directory) -> Result<Self, StoreError> {
        let bytes = directory.read(ABOUT_NAME, ABOUT_BYTES_MAX)?;
        serde_json::from_slice(&bytes)
            .map_err(|source| StoreError::Manifest { path: directory.path.join(ABOUT_NAME), source })
    }

    fn write(&self, directory: &Directory, durable: bool) -> Result<(), StoreError> {
        // A struct of texts always serializes.
        directory.put_with(ABOUT_NAME, &serde_json::to_vec(self).unwrap_or_default(), durable)
    }

    fn into_record(self, lines: &Lines) -> OffloadRecord {
        let file = FileRecord {
            name: FILE_NAME.to_owned(),
            kind: FileKind::Records,
            section: PARTIAL_SECTION.to_owned(),
            parts: Vec::new(),
            origin: Origin::Content,
            form: None,
            derived_from: None,
            pointer: None,
            shape: Some(RecordShape::Elements),
            media_type: "application/jsonl".to_owned(),
            records: lines.count,
            bytes: lines.end,
            schema: None,
            queries: Vec::new(),
            // It changes.
            sha256: None,
            xxh3: None,
            digest_from: lines.header,
            index: None,
        };
        let (tool, created, descriptor) = (self.tool, self.created, RawValue::NULL.to_owned());
        OffloadRecord { tool, session: None, created, descriptor, files: vec![file] }
    }
}

impl Lines {
    fn of(mut file: &File) -> io::Result<Self> {
        let (mut lines, mut at, mut block) = (Self::default(), 0, vec![0; BLOCK_BYTES]);
        loop {
            let length = match file.read(&mut block) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                length => length?,
            };
            let read = block.get(..length).unwrap_or_default();
            if read.is_empty() {
                lines.count = lines.count.saturating_sub(1);
                return Ok(lines);
            }
            if lines.header == 0 {
                lines.header = memchr(b'\n', read).map_or(0, |feed| at + feed as u64 + 1);
            }
            lines.count += memchr_iter(b'\n', read).count() as u64;
            lines.end = memrchr(b'\n', read).map_or(lines.end, |feed| at + feed as u64 + 1);
            at += length as u64;
        }
    }
}

/// The name of the directory of a result that grows.
pub(super) fn growing_name(id: Ulid) -> String {
    format!("{GROWING}{id}")
}

/// The id in such a name.
pub(super) fn growing_id(name: &str) -> Option<Ulid> {
    name.strip_prefix(GROWING)?.parse().ok()
}

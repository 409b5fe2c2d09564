//! Parts of large files that are uploaded while a policy writes them.
//!
//! A policy completes the header of a file at its end, so the first part waits for that. A later one is sent when the policy has
//! written all of it and a transfer is free; publishing sends the others. Until then the bucket has no object. If a policy does
//! anything but append, which is rare, all that was sent is aborted, and publishing uploads the files as they are then.

use std::collections::BTreeMap;
use std::fs::File;
use std::mem;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

use super::bucket::{self, Bucket};
use super::cipher::{ObjectCipher, OffloadCipher};
use super::directory::Directory;
use super::objects::{PART_BYTES, Parts};
use super::{FileRecord, StoreError, Ulid};

/// The early parts of one offload.
pub(crate) struct Early {
    bucket: Arc<Bucket>,
    /// Directory name of the tenant.
    tenant: String,
    id: Ulid,
    /// Where the policy writes.
    directory: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_given_up: bool,
    cipher: Option<OffloadCipher>,
    files: BTreeMap<String, Appended>,
}

/// A file that was only appended to behind its first part.
#[derive(Default)]
struct Appended {
    bytes: u64,
    upload: Option<Sending>,
}

/// The upload of a file of at least two parts.
struct Sending {
    parts: Parts,
    file: Arc<File>,
    cipher: Option<Arc<ObjectCipher>>,
    /// Number of the part to be sent next.
    next: u64,
}

/// What was uploaded of an offload before it was complete.
pub(super) struct Begun {
    pub(super) cipher: Option<OffloadCipher>,
    /// By name of the file.
    pub(super) parts: BTreeMap<String, Parts>,
}

impl Early {
    pub(super) fn new(bucket: Arc<Bucket>, tenant: String, id: Ulid, directory: PathBuf) -> Self {
        Self { bucket, tenant, id, directory, state: Mutex::default() }
    }

    /// Learns that these bytes of a file are written.
    pub(crate) fn written(&self, name: &str, offset: u64, bytes: u64) {
        let mut state = self.state.lock();
        if state.is_given_up {
            return;
        }
        if !state.files.contains_key(name) {
            state.files.insert(name.to_owned(), Appended::default());
        }
        let State { files, cipher, .. } = &mut *state;
        let Some(file) = files.get_mut(name) else { return };
        let end = offset.saturating_add(bytes);
        let appends = offset == file.bytes || offset < file.bytes && end <= PART_BYTES;
        file.bytes = file.bytes.max(end);
        // Publishing says what is wrong, if it is more than that.
        if !appends || self.send(name, file, cipher).is_err() {
            state.give_up();
        }
    }

    /// Aborts what was sent, as the files are not what they were.
    pub(crate) fn give_up(&self) {
        self.state.lock().give_up();
    }

    /// Sends the parts that are complete, as far as transfers are free.
    fn send(&self, name: &str, file: &mut Appended, cipher: &mut Option<OffloadCipher>) -> Result<(), StoreError> {
        if file.bytes < 2 * PART_BYTES {
            return Ok(());
        }
        let sending = match &mut file.upload {
            Some(sending) => sending,
            none => none.insert(self.begin(name, cipher)?),
        };
        while (sending.next + 1) * PART_BYTES <= file.bytes
            && self.bucket.objects.send(&mut sending.parts, sending.next, &sending.file, sending.cipher.as_ref())
        {
            sending.next += 1;
        }
        Ok(())
    }

    fn begin(&self, name: &str, cipher: &mut Option<OffloadCipher>) -> Result<Sending, StoreError> {
        let key = format!("{}/{name}", bucket::key(&self.tenant, self.id));
        if cipher.is_none() {
            *cipher = self.bucket.encrypting(&self.tenant)?;
        }
        let cipher = cipher.as_ref().map(|cipher| cipher.object(&key)).transpose()?.map(Arc::new);
        let (file, _) = Directory::open(self.directory.clone())?.file(name)?;
        Ok(Sending { parts: self.bucket.objects.parts(&key), file: Arc::new(file), cipher, next: 1 })
    }

    /// What was sent of these files, once nothing writes to them any more. `None` if that is nothing.
    pub(super) fn finish(&self, files: &[FileRecord]) -> Option<Begun> {
        let mut state = self.state.lock();
        let is_as_seen = |(name, seen): (&String, &Appended)| {
            seen.upload.is_none() || files.iter().any(|file| file.name == *name && file.bytes == seen.bytes)
        };
        if !state.files.iter().all(is_as_seen) {
            state.give_up();
        }
        let State { cipher, files, .. } = mem::take(&mut *state);
        let begun = |(name, file): (String, Appended)| Some((name, file.upload?.parts));
        let parts: BTreeMap<String, Parts> = files.into_iter().filter_map(begun).collect();
        (!parts.is_empty()).then_some(Begun { cipher, parts })
    }
}

impl State {
    /// Other bytes are never encrypted with the same cipher.
    fn give_up(&mut self) {
        *self = Self { is_given_up: true, ..Self::default() };
    }
}

impl std::fmt::Debug for Early {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Early").field("directory", &self.directory).finish_non_exhaustive()
    }
}

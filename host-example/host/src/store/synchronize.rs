//! Synchronizes files to the disk, before an offload is published or behind the answer.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use serde::{Deserialize, Serialize};
use tracing::warn;

use super::StoreError;
use super::directory::Directory;
use crate::at_once::each_at_once;

/// Number of files synced in parallel: a journal commits them together.
const SYNCS_AT_ONCE: usize = 4;

/// Number of published offloads that wait for [`Fsync::After`]; whoever publishes another one waits for the disk.
const WAITING_MAX: usize = 64;

/// When a published offload is synchronized to the disk.
///
/// Other processes never see partial offloads, and the failure of a process loses nothing, in each case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fsync {
    /// Before it is published: a power failure loses nothing that was answered.
    #[default]
    Before,
    /// At once, but behind the answer: a power failure may lose or damage what was published in the moment before it. Who reads a
    /// damaged offload gets an error, as sizes and digests are in its manifest.
    After,
    /// When the system does it by itself: the same, for as long as that takes, often half a minute.
    Never,
}

/// A published offload.
pub(super) struct Published {
    pub(super) directory: PathBuf,
    /// Its files.
    pub(super) names: Vec<String>,
}

/// Synchronizes what was published, one offload after the other. Ends when all of it is done.
#[derive(Debug, Default)]
pub(super) struct Behind(OnceLock<Option<Worker>>);

#[derive(Debug)]
struct Worker {
    sender: Option<SyncSender<Published>>,
    thread: Option<JoinHandle<()>>,
}

impl Behind {
    /// Hands an offload over. Without a thread, it is synchronized here.
    pub(super) fn add(&self, published: Published) {
        let worker = self.0.get_or_init(|| Worker::start().ok());
        match worker.as_ref().and_then(|worker| worker.sender.as_ref()) {
            Some(sender) => {
                if let Err(refused) = sender.send(published) {
                    refused.0.synchronize();
                }
            }
            None => published.synchronize(),
        }
    }
}

impl Worker {
    fn start() -> std::io::Result<Self> {
        let (sender, receiver): (_, Receiver<Published>) = sync_channel(WAITING_MAX);
        let work = move || receiver.iter().for_each(|published| published.synchronize());
        let thread = thread::Builder::new().name("lro-sync".into()).spawn(work)?;
        Ok(Self { sender: Some(sender), thread: Some(thread) })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take()
            && let Err(panic) = thread.join()
        {
            warn!(?panic, "offloads were not synchronized to the disk");
        }
    }
}

impl Published {
    fn synchronize(&self) {
        match self.try_synchronize() {
            // It expired or was removed.
            Ok(()) | Err(StoreError::NotFound { .. }) => {}
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                warn!(error, "a published offload may be lost if the power fails");
            }
        }
    }

    fn try_synchronize(&self) -> Result<(), StoreError> {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        synchronize(&Directory::open(self.directory.clone())?, &names)?;
        match self.directory.parent() {
            Some(parent) => Directory::open(parent.to_owned())?.sync(),
            None => Ok(()),
        }
    }
}

/// Synchronizes these files of a directory, and its entries.
pub(super) fn synchronize(directory: &Directory, names: &[&str]) -> Result<(), StoreError> {
    let entries = None;
    let all = names.iter().copied().map(Some).chain([entries]).collect();
    let synchronize = |name: Option<&str>| name.map_or_else(|| directory.sync(), |name| directory.sync_file(name));
    each_at_once("lro-sync", SYNCS_AT_ONCE, all, synchronize).map(drop)
}

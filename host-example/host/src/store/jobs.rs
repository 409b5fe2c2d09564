//! Records of jobs: calls that go on without the request that began them.
//!
//! The records of a tenant are files in `{root}/{tenant}/.jobs/`, each written under another name and renamed. The name
//! says the state: `{ULID}.running-{owner}` while the store `owner` runs the job, `{ULID}.ended` from its end on, and
//! `{ULID}.lost` once a sweep has found that the owner is gone. What a record holds is not the store's concern. In a bucket,
//! they are [objects](super::bucket_jobs).
//!
//! Records count toward the quotas, and old ones of ended jobs are removed to make room, as old offloads are.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read;
use std::time::SystemTime;

use tracing::warn;

use super::directory::{Directory, bytes_on_disk, file_bytes};
use super::error::failed;
use super::sweep::open_if_directory;
use super::usage::{Counted, Kind};
use super::{Store, StoreError, Ulid, tenant_name};

/// Directory of the records, in that of a tenant. It begins with a dot, so it is not an offload.
pub(super) const JOBS: &str = ".jobs";

/// Maximum size of the record of a job that runs, 1 MiB: it holds a call without its result.
pub(super) const RUNNING_BYTES_MAX: u64 = 1 << 20;

/// The state of a job, as far as its record shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// It runs in a store that is open.
    Running {
        /// Whether that is this one.
        is_own: bool,
    },
    /// Its store was closed, or its process ended, before the job did.
    Lost,
    /// It has ended.
    Ended,
}

/// A record of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRecord {
    /// The state.
    pub state: JobState,
    /// What was written last.
    pub bytes: Vec<u8>,
}

/// The state in the name of a record. A later one counts where several are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mark {
    /// Of the owner or, in a bucket, the lease.
    Running(Ulid),
    Lost,
    Ended,
}

impl Mark {
    fn parse(name: &OsStr) -> Option<(Ulid, Self)> {
        let (id, mark) = name.to_str()?.split_once('.')?;
        Some((id.parse().ok()?, Self::of(mark)?))
    }

    fn name(self, id: Ulid) -> String {
        format!("{id}.{}", self.text())
    }

    pub(super) fn of(text: &str) -> Option<Self> {
        Some(match text {
            "ended" => Self::Ended,
            "lost" => Self::Lost,
            text => Self::Running(text.strip_prefix("running-")?.parse().ok()?),
        })
    }

    pub(super) fn text(self) -> String {
        match self {
            Self::Running(owner) => format!("running-{owner}"),
            Self::Lost => "lost".to_owned(),
            Self::Ended => "ended".to_owned(),
        }
    }
}

impl Store {
    /// Records that this store runs a job. Until [`Store::end_job`], the job is lost if the process ends; in a bucket, once its
    /// lease is over, [`BucketConfig::lease_time`](super::BucketConfig::lease_time) after it was renewed last.
    ///
    /// # Errors
    /// [`StoreError::Quota`], [`StoreError::NoSpace`], [`StoreError::Io`] or [`StoreError::Bucket`].
    pub fn begin_job(&self, tenant: &str, id: Ulid, record: &[u8]) -> Result<(), StoreError> {
        let tenant = tenant_name(tenant);
        if let Some(bucket) = self.bucket()? {
            return bucket.begin_job(&tenant, id, record, self.quotas());
        }
        let mark = Mark::Running(self.owner()?);
        let bytes = bytes_on_disk(record.len() as u64, 0);
        self.make_room_for(&tenant, bytes, |ledger| ledger.add_running(&tenant, bytes))?;
        self.jobs_directory(&tenant)?.put_with(&mark.name(id), record, self.inner.config.synchronizes())
    }

    /// Records that a job has ended, and removes the records of the tenant beyond `kept_max` that ended first. The record
    /// expires [`StoreConfig::time_to_live`](super::StoreConfig::time_to_live) after that.
    ///
    /// # Errors
    /// [`StoreError::Quota`], [`StoreError::NoSpace`], [`StoreError::Io`] or [`StoreError::Bucket`], if the record is not
    /// written.
    pub fn end_job(&self, tenant: &str, id: Ulid, record: &[u8], kept_max: usize) -> Result<(), StoreError> {
        let name = tenant_name(tenant);
        if let Some(bucket) = self.bucket()? {
            return bucket.end_job(&name, id, record, kept_max, self.quotas());
        }
        let directory = self.jobs_directory(&name)?;
        let running = Mark::Running(self.owner()?).name(id);
        let before = directory.file(&running).map_or(0, |(_, metadata)| file_bytes(&metadata));
        let bytes = bytes_on_disk(record.len() as u64, 0);
        self.make_room_for(&name, bytes, |ledger| ledger.add_ended(&name, id, bytes, before))?;
        directory.put_with(&Mark::Ended.name(id), record, self.inner.config.synchronizes())?;
        // The job has its record, whatever becomes of others.
        if let Err(error) = directory.remove_if_there(&running).and_then(|()| make_room(&directory, kept_max)) {
            warn!(tenant, error = &error as &dyn std::error::Error, "cannot remove the record of a job");
        }
        Ok(())
    }

    /// Reads the first `bytes_max` bytes of the record of a job of this tenant.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], also for a record that has expired; [`StoreError::Io`]; [`StoreError::Bucket`].
    pub fn job(&self, tenant: &str, id: Ulid, bytes_max: u64) -> Result<JobRecord, StoreError> {
        if let Some(bucket) = self.bucket()? {
            return bucket.job(&tenant_name(tenant), id, bytes_max, self.inner.config.time_to_live);
        }
        let directory = self.opened()?.root.directory(tenant_name(tenant))?.directory(JOBS)?;
        // Most are asked for after their end; the others need the name of their store.
        let (mark, found) = match directory.file(&Mark::Ended.name(id)) {
            Err(StoreError::NotFound { path }) => {
                let mark = marks(&directory)?.remove(&id).and_then(|marks| marks.into_iter().max());
                let mark = mark.ok_or(StoreError::NotFound { path })?;
                match directory.file(&mark.name(id)) {
                    // Another process has just ended it.
                    Err(StoreError::NotFound { .. }) => (Mark::Ended, directory.file(&Mark::Ended.name(id))?),
                    found => (mark, found?),
                }
            }
            found => (Mark::Ended, found?),
        };
        let state = match mark {
            Mark::Ended => JobState::Ended,
            Mark::Lost => JobState::Lost,
            Mark::Running(owner) if self.is_gone(owner)? => JobState::Lost,
            Mark::Running(owner) => JobState::Running { is_own: owner == self.owner()? },
        };
        let path = directory.path.join(mark.name(id));
        if !matches!(mark, Mark::Running(_)) && self.has_record_expired(&directory, mark, id, SystemTime::now())? {
            return Err(StoreError::NotFound { path });
        }
        let mut bytes = Vec::new();
        found.0.take(bytes_max).read_to_end(&mut bytes).map_err(failed("read", path))?;
        Ok(JobRecord { state, bytes })
    }

    /// The jobs of this tenant that have a record, newest first.
    ///
    /// # Errors
    /// [`StoreError::Io`]; [`StoreError::Bucket`].
    pub fn jobs(&self, tenant: &str) -> Result<Vec<Ulid>, StoreError> {
        if let Some(bucket) = self.bucket()? {
            return bucket.jobs(&tenant_name(tenant));
        }
        let directory = self.opened()?.root.directory(tenant_name(tenant)).and_then(|parent| parent.directory(JOBS));
        match directory {
            Err(StoreError::NotFound { .. }) => Ok(Vec::new()),
            directory => Ok(marks(&directory?)?.into_keys().rev().collect()),
        }
    }

    /// Removes expired records, and marks those as lost whose store is gone.
    pub(super) fn sweep_jobs(&self, parent: &Directory, now: SystemTime) -> Result<(), StoreError> {
        let Some(directory) = open_if_directory(parent, OsStr::new(JOBS))? else { return Ok(()) };
        directory.remove_stale_temporaries()?;
        for (id, marks) in marks(&directory)? {
            let has_ended = marks.iter().any(|mark| !matches!(mark, Mark::Running(_)));
            for mark in marks {
                match mark {
                    Mark::Running(owner) if self.is_gone(owner)? => {
                        // Its time to live begins when somebody can learn that it is lost.
                        if !has_ended {
                            let bytes = directory.read(&mark.name(id), RUNNING_BYTES_MAX)?;
                            directory.put_with(&Mark::Lost.name(id), &bytes, self.inner.config.synchronizes())?;
                        }
                        directory.remove_if_there(&mark.name(id))?;
                    }
                    Mark::Running(_) => {}
                    Mark::Lost | Mark::Ended => {
                        if self.has_record_expired(&directory, mark, id, now)? {
                            directory.remove_if_there(&mark.name(id))?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether a record was written longer ago than the time to live. One that is gone has.
    fn has_record_expired(
        &self,
        directory: &Directory,
        mark: Mark,
        id: Ulid,
        now: SystemTime,
    ) -> Result<bool, StoreError> {
        match written(directory, &mark.name(id)) {
            Err(StoreError::NotFound { .. }) => Ok(true),
            written => Ok(written? + self.inner.config.time_to_live <= now),
        }
    }

    /// Opens the directory of the records of the tenant with this directory name, and creates it if it is missing.
    fn jobs_directory(&self, tenant: &str) -> Result<Directory, StoreError> {
        let opened = self.current_root()?;
        let parent = self.tenant_directory(&opened.root, tenant)?;
        match parent.create_directory(JOBS)? {
            Some(created) => {
                if self.inner.config.synchronizes() {
                    parent.sync()?;
                }
                Ok(created)
            }
            None => parent.directory(JOBS),
        }
    }
}

/// Counts the records in the directory of a tenant. One that is gone does not count.
pub(super) fn count_jobs(parent: &Directory, counted: &mut Counted) -> Result<(), StoreError> {
    let Some(directory) = open_if_directory(parent, OsStr::new(JOBS))? else { return Ok(()) };
    for (id, marks) in marks(&directory)? {
        for mark in marks {
            let Ok((_, metadata)) = directory.file(&mark.name(id)) else { continue };
            match mark {
                Mark::Running(_) => counted.running += file_bytes(&metadata),
                Mark::Lost | Mark::Ended => {
                    *counted.removable.entry((id, Kind::Record)).or_default() += file_bytes(&metadata);
                }
            }
        }
    }
    Ok(())
}

/// Removes the record of a job that does not run, in the directory of a tenant.
pub(super) fn remove_record(parent: &Directory, id: Ulid) -> Result<(), StoreError> {
    let directory = parent.directory(JOBS)?;
    directory.remove_if_there(&Mark::Ended.name(id)).and_then(|()| directory.remove_if_there(&Mark::Lost.name(id)))
}

/// The records in a directory, by job.
fn marks(directory: &Directory) -> Result<BTreeMap<Ulid, Vec<Mark>>, StoreError> {
    let mut found: BTreeMap<Ulid, Vec<Mark>> = BTreeMap::new();
    for name in directory.names()? {
        if let Some((id, mark)) = Mark::parse(&name?) {
            found.entry(id).or_default().push(mark);
        }
    }
    Ok(found)
}

/// When a record was written.
fn written(directory: &Directory, name: &str) -> Result<SystemTime, StoreError> {
    let (file, _) = directory.file(name)?;
    let written = file.metadata().and_then(|metadata| metadata.modified());
    written.map_err(failed("examine", directory.path.join(name)))
}

/// Removes the records that were written first, of jobs that do not run, until there are at most `kept_max`.
fn make_room(directory: &Directory, kept_max: usize) -> Result<(), StoreError> {
    let marks = marks(directory)?.into_iter().flat_map(|(id, marks)| marks.into_iter().map(move |mark| (id, mark)));
    let names: Vec<String> =
        marks.filter(|(_, mark)| !matches!(mark, Mark::Running(_))).map(|(id, mark)| mark.name(id)).collect();
    let surplus = names.len().saturating_sub(kept_max);
    if surplus == 0 {
        return Ok(());
    }
    // One that another process removed is gone either way.
    let mut kept: Vec<(SystemTime, String)> =
        names.into_iter().filter_map(|name| Some((written(directory, &name).ok()?, name))).collect();
    kept.sort_unstable();
    kept.iter().take(surplus).try_for_each(|(_, name)| directory.remove_if_there(name))
}

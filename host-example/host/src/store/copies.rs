//! Copies, in the root, of offloads that lie in a bucket. Questions need all files of one; quotas of the root bound them.

use std::sync::Arc;

use super::directory::Directory;
use super::ranges::RangeReader;
use super::{FileRecord, Offload, Reader, Store, StoreError, bucket, tenant_name};

impl Store {
    /// Copies an offload from the bucket, and opens the directory of the copy.
    pub(super) fn copy(&self, offload: &Offload) -> Result<Directory, StoreError> {
        let open = || Directory::open(offload.path.clone());
        let Some(bucket) = self.bucket()? else { return open() };
        bucket.one_at_a_time(offload.id, || {
            // Another thread may have just copied it.
            if let Ok(copy) = open() {
                return Ok(copy);
            }
            let staging = self.stage(&offload.tenant, offload.id)?;
            let key = bucket::key(&tenant_name(&offload.tenant), offload.id);
            for file in &offload.record.files {
                let empty = staging.directory.create_file(&file.name)?;
                bucket.objects.download(&format!("{key}/{}", file.name), empty, file.bytes)?;
            }
            let time_to_live = offload.expires.duration_since(offload.id.time()).ok();
            // Another process may have.
            let kept = staging.with_time_to_live(time_to_live).keep(&offload.record);
            kept.and_then(|()| open()).or_else(|error| open().map_err(|_| error))
        })
    }

    /// Opens a file in the bucket.
    pub(super) fn open_in_bucket(&self, offload: &Offload, record: &FileRecord) -> Result<Reader, StoreError> {
        let Some(bucket) = self.bucket()? else { return Err(StoreError::NotFound { path: offload.path.clone() }) };
        let key = bucket::key(&tenant_name(&offload.tenant), offload.id);
        Ok(Reader::in_bucket(RangeReader::new(Arc::clone(bucket), key, record.clone()), record))
    }
}

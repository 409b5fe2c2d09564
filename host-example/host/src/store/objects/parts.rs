//! Uploads of files, in parts if they are large.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::{io, mem};

use futures_util::stream::{self, StreamExt, TryStreamExt};
use lro_system::files::read_exact_at;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{MultipartId, ObjectStore, ObjectStoreExt, PutPayload};
use tokio::runtime::Runtime;
use tokio::sync::{OnceCell, OwnedSemaphorePermit};
use tokio::task::{JoinHandle, spawn_blocking};
use twox_hash::XxHash3_64;

use super::{Failure, runtime};
use crate::store::bucket::Upload;
use crate::store::cipher::{ObjectCipher, sealed_bytes};
use crate::store::ranges::BLOCK_BYTES;

/// Size of a part: 8 MiB, as S3 takes 10,000 of them.
pub(in crate::store) const PART_BYTES: u64 = 8 << 20;
/// Parts of one file that are read or on their way at the same time.
const PARTS_AT_ONCE: usize = 3;

/// The upload of a file in parts. Until it is completed there is no object; dropped before that, it is aborted.
pub(in crate::store) struct Parts {
    store: Arc<dyn MultipartStore>,
    path: Path,
    id: Arc<OnceCell<MultipartId>>,
    /// Those that were sent before the file was complete, by number from 0.
    sent: BTreeMap<u64, JoinHandle<Result<Part, Failure>>>,
}

/// A part that was uploaded, and the checksums of its blocks.
type Part = (PartId, Vec<u64>);

/// The file that parts are read from, and what they are encrypted with.
#[derive(Clone, Copy)]
pub(super) struct PartSource<'a> {
    pub(super) file: &'a Arc<File>,
    pub(super) cipher: Option<&'a Arc<ObjectCipher>>,
}

impl PartSource<'_> {
    /// Reads a part, encrypts it, and returns the checksums of its blocks with it.
    async fn read(self, part: Range<u64>) -> Result<(Vec<u8>, Vec<u64>), Failure> {
        let (file, mut bytes) = (Arc::clone(self.file), vec![0; (part.end - part.start) as usize]);
        let (cipher, first) = (self.cipher.map(Arc::clone), part.start / BLOCK_BYTES as u64);
        spawn_blocking(move || {
            read_exact_at(&file, part.start, &mut bytes)?;
            let sums: Vec<u64> = bytes.chunks(BLOCK_BYTES).map(XxHash3_64::oneshot).collect();
            let sealed = cipher.map(|cipher| cipher.seal(first, &bytes)).transpose()?;
            Ok((sealed.unwrap_or(bytes), sums))
        })
        .await?
    }
}

impl Parts {
    /// An upload of which nothing is sent yet.
    pub(super) fn new(store: Arc<dyn MultipartStore>, path: Path) -> Self {
        Self { store, path, id: Arc::default(), sent: BTreeMap::new() }
    }

    /// Whether another part may be on its way beside those that are.
    pub(super) fn takes_more(&self) -> bool {
        self.sent.values().filter(|part| !part.is_finished()).count() < PARTS_AT_ONCE
    }

    /// Sends a whole part of a file that goes on behind it, with the permit for the transfer.
    pub(super) fn send(&mut self, runtime: &Runtime, number: u64, from: PartSource<'_>, permit: OwnedSemaphorePermit) {
        let (store, path, id) = (Arc::clone(&self.store), self.path.clone(), Arc::clone(&self.id));
        let (file, cipher) = (Arc::clone(from.file), from.cipher.map(Arc::clone));
        let sending = runtime.spawn(async move {
            let _permit = permit;
            let id = id.get_or_try_init(|| store.create_multipart(&path)).await?;
            let part = number * PART_BYTES..(number + 1) * PART_BYTES;
            send_part(&*store, &path, id, number, part, PartSource { file: &file, cipher: cipher.as_ref() }).await
        });
        self.sent.insert(number, sending);
    }

    /// What is uploaded. What has failed is to be sent again.
    async fn arrived(&mut self) -> BTreeMap<u64, Part> {
        let mut arrived = BTreeMap::new();
        while let Some((number, sending)) = self.sent.pop_first() {
            if let Ok(Ok(part)) = sending.await {
                arrived.insert(number, part);
            }
        }
        arrived
    }

    /// Aborts the upload, if there is one.
    fn abort(&mut self) -> Option<impl Future<Output = ()> + Send + 'static> {
        let (sent, id) = (mem::take(&mut self.sent), mem::take(&mut self.id));
        let (store, path) = (Arc::clone(&self.store), self.path.clone());
        let has_begun = !sent.is_empty() || id.initialized();
        let abort = async move {
            // A part that arrives later would stay.
            for sending in sent.into_values() {
                let _ = sending.await;
            }
            // A rule of the bucket removes it otherwise.
            if let Some(id) = id.get() {
                let _ = store.abort_multipart(&path, id).await;
            }
        };
        has_begun.then_some(abort)
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        if let Some(abort) = self.abort()
            && let Ok(runtime) = runtime()
        {
            runtime.spawn(abort);
        }
    }
}

/// Uploads a file of this size, in parts if it is large. Returns the checksums of its blocks.
pub(super) async fn upload_file(
    store: &dyn ObjectStore,
    file: Arc<File>,
    as_object: Upload,
) -> Result<Vec<u64>, Failure> {
    let Upload { bytes, cipher, mut parts, .. } = as_object;
    let cipher = cipher.map(Arc::new);
    let from = PartSource { file: &file, cipher: cipher.as_ref() };
    if bytes <= PART_BYTES {
        let (whole, sums) = from.read(0..bytes).await?;
        store.put(&parts.path, PutPayload::from(whole)).await?;
        return Ok(sums);
    }
    let uploaded = upload_parts(store, &mut parts, bytes, from).await;
    if uploaded.is_err()
        && let Some(abort) = parts.abort()
    {
        abort.await;
    }
    uploaded
}

/// Uploads the parts of a file of this size that are not on their way, and completes it. Returns the checksums of its blocks.
async fn upload_parts(
    store: &dyn ObjectStore,
    parts: &mut Parts,
    bytes: u64,
    from: PartSource<'_>,
) -> Result<Vec<u64>, Failure> {
    let arrived = parts.arrived().await;
    let Parts { store: multipart, path, id, .. } = &*parts;
    let id = id.get_or_try_init(|| multipart.create_multipart(path)).await?;
    let rest = (0..).zip(ranges(bytes)).filter(|(number, _)| !arrived.contains_key(number));
    let sending = stream::iter(rest).map(|(number, part)| {
        let sending = send_part(&**multipart, path, id, number, part, from);
        async move { sending.await.map(|part| (number, part)) }
    });
    let rest: BTreeMap<u64, Part> = sending.buffer_unordered(PARTS_AT_ONCE).try_collect().await?;
    let all: BTreeMap<u64, Part> = arrived.into_iter().chain(rest).collect();
    let (ids, sums): (Vec<PartId>, Vec<Vec<u64>>) = all.into_values().unzip();
    let completed = multipart.complete_multipart(path, id, ids).await;
    if let Err(error) = completed {
        // The answer may have been lost, and the request that repeats it finds no upload any more.
        let size = if from.cipher.is_some() { sealed_bytes(bytes) } else { bytes };
        if !store.head(path).await.is_ok_and(|found| found.size == size) {
            return Err(error.into());
        }
    }
    // There is nothing to abort any more.
    parts.id = Arc::default();
    Ok(sums.concat())
}

/// Uploads a part of a file.
async fn send_part(
    store: &dyn MultipartStore,
    path: &Path,
    id: &MultipartId,
    number: u64,
    part: Range<u64>,
    from: PartSource<'_>,
) -> Result<Part, Failure> {
    let (bytes, sums) = from.read(part).await?;
    let number = usize::try_from(number).map_err(io::Error::other)?;
    Ok((store.put_part(path, id, number, bytes.into()).await?, sums))
}

/// The parts of a file of this size.
fn ranges(bytes: u64) -> impl Iterator<Item = Range<u64>> {
    (0..bytes.div_ceil(PART_BYTES)).map(move |part| part * PART_BYTES..bytes.min((part + 1) * PART_BYTES))
}

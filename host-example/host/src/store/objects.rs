//! Objects of a bucket, by the crate `object_store`, for threads that wait.
//!
//! Requests run on threads of their own, so that any thread may wait for one. The crate repeats a request that fails, with
//! growing pauses, until [`BucketConfig::retry_time`] is over.

mod parts;

use std::error::Error;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Arc, Once};
use std::time::Duration;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientConfigKey, GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload,
    RetryConfig, UpdateVersion,
};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio::task::JoinError;

pub(super) use self::parts::{PART_BYTES, Parts};
use self::parts::{PartSource, upload_file};
use super::bucket::{Found, Object, Upload, Version};
use super::cipher::ObjectCipher;
use super::directory::Directory;
use super::error::failed;
use super::{BucketConfig, StoreError};

/// Files of one offload that are uploaded or downloaded at the same time.
pub(super) const TRANSFERS_AT_ONCE: usize = 4;
/// Pieces of a download, of less than half a MiB, that wait for the thread that writes them.
const CHUNKS_WAITING: usize = 32;
/// Most objects that a list passes on together: as many as S3 has in a page.
const PAGE_OBJECTS: usize = 1000;
/// Such pages that wait for the thread that asked for them.
const PAGES_WAITING: usize = 2;
/// Files that a store uploads or downloads at the same time. With those above, they bound its memory: 8 uploads of 3 parts are 192
/// MiB, and downloads are less.
const STORE_TRANSFERS_MAX: usize = 8;
/// First pause before a request is repeated.
const PAUSE: Duration = Duration::from_millis(100);
/// Longest such pause.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Threads on which requests run.
const THREADS: usize = 2;
/// What services call a bucket that is not there.
const NO_BUCKET: [&str; 2] = ["NoSuchBucket", "ContainerNotFound"];
/// How requests are refused. Of requests that list, the crate gives the status in its text alone.
const REFUSED: [&str; 2] = ["status code: 401", "status code: 403"];
/// What machines in a cloud are asked for credentials when the environment has none.
const METADATA: [&str; 4] = ["/latest/api/token", "/latest/meta-data", "/computeMetadata/", "/metadata/identity/"];

/// The objects below a prefix of a bucket. A key is relative to that.
pub(super) struct Objects {
    store: Arc<dyn ObjectStore>,
    multipart: Arc<dyn MultipartStore>,
    prefix: Path,
    /// The prefix, for messages.
    url: String,
    transfers: Arc<Semaphore>,
}

impl std::fmt::Debug for Objects {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Objects").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Objects {
    /// Takes credentials from the environment. Sends no request.
    pub(super) fn open(config: &BucketConfig) -> Result<Self, StoreError> {
        static PROVIDER: Once = Once::new();
        // Fails only if the program has installed a provider already, which serves as well.
        PROVIDER.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
        let url = config.url.trim_end_matches('/').to_owned();
        let failed = |source| StoreError::bucket("open", PathBuf::from(&url), source);
        let (store, multipart) = bucket_of(&url, config).map_err(|source| {
            let advice = format!("the address or one of {} is wrong or missing", credentials(&url));
            failed(Advised { advice, source }.into())
        })?;
        let prefix = url.split_once("://").and_then(|(_, rest)| rest.split_once('/')).map_or("", |(_, prefix)| prefix);
        let prefix = Path::parse(prefix).map_err(|source| failed(source.into()))?;
        Ok(Self { store, multipart, prefix, url, transfers: Arc::new(Semaphore::new(STORE_TRANSFERS_MAX)) })
    }

    /// The address of an object, for messages.
    pub(super) fn place(&self, key: &str) -> PathBuf {
        PathBuf::from(format!("{}/{key}", self.url))
    }

    /// Reads an object of at most `bytes_max` bytes.
    pub(super) fn get(&self, key: &str, bytes_max: u64) -> Result<Vec<u8>, StoreError> {
        self.find(key, bytes_max).map(|found| found.bytes)
    }

    /// As [`Objects::get`], with its version and when it was written.
    pub(super) fn find(&self, key: &str, bytes_max: u64) -> Result<Found, StoreError> {
        let (store, path) = (Arc::clone(&self.store), self.path(key));
        let read = async move {
            let found = store.get(&path).await?;
            if found.meta.size > bytes_max {
                return Ok(None);
            }
            let (modified, version) = (found.meta.last_modified.into(), found.meta.version.clone());
            let version = Version { e_tag: found.meta.e_tag.clone(), version };
            Ok::<_, object_store::Error>(Some(Found { bytes: found.bytes().await?.into(), modified, version }))
        };
        let reason = "it is larger than the limit";
        self.wait("read", key, read)?.ok_or_else(|| StoreError::Unexpected { path: self.place(key), reason })
    }

    /// Reads the first bytes of an object.
    pub(super) fn first(&self, key: &str, bytes_max: u64) -> Result<Vec<u8>, StoreError> {
        if bytes_max == 0 {
            return Ok(Vec::new());
        }
        let (store, path) = (Arc::clone(&self.store), self.path(key));
        let read = async move {
            let options = GetOptions { range: Some(GetRange::Bounded(0..bytes_max)), ..GetOptions::default() };
            store.get_opts(&path, options).await?.bytes().await
        };
        self.wait("read", key, read).map(Vec::from)
    }

    /// Reads a range of an object.
    pub(super) fn range(&self, key: &str, range: Range<u64>) -> Result<Vec<u8>, StoreError> {
        let (store, path) = (Arc::clone(&self.store), self.path(key));
        self.wait("read", key, async move { store.get_range(&path, range).await }).map(Vec::from)
    }

    /// Writes an object.
    pub(super) fn put(&self, key: &str, bytes: Vec<u8>) -> Result<(), StoreError> {
        let (store, path) = (Arc::clone(&self.store), self.path(key));
        self.wait("write", key, async move { store.put(&path, PutPayload::from(bytes)).await }).map(drop)
    }

    /// Writes an object if it is of this version; without one, if there is none. Returns its new version if it did.
    pub(super) fn put_if(
        &self,
        key: &str,
        bytes: Vec<u8>,
        version: Option<&Version>,
    ) -> Result<Option<Version>, StoreError> {
        use object_store::Error::{AlreadyExists, NotFound, Precondition};
        let (store, path, is_update) = (Arc::clone(&self.store), self.path(key), version.is_some());
        let mode = version
            .cloned()
            .map_or(PutMode::Create, |Version { e_tag, version }| PutMode::Update(UpdateVersion { e_tag, version }));
        let put = async move {
            match store.put_opts(&path, PutPayload::from(bytes), PutOptions::from(mode)).await {
                Err(AlreadyExists { .. } | Precondition { .. }) => Ok(None),
                Err(NotFound { .. }) if is_update => Ok(None),
                put => put.map(|put| Some(Version { e_tag: put.e_tag, version: put.version })),
            }
        };
        self.wait("write", key, put)
    }

    /// An upload of which nothing is sent yet.
    pub(super) fn parts(&self, key: &str) -> Parts {
        Parts::new(Arc::clone(&self.multipart), self.path(key))
    }

    /// Sends a part of a file that goes on behind it. Returns whether it is on its way: not when others are, or no transfer is
    /// free.
    pub(super) fn send(
        &self,
        parts: &mut Parts,
        number: u64,
        file: &Arc<File>,
        cipher: Option<&Arc<ObjectCipher>>,
    ) -> bool {
        if !parts.takes_more() {
            return false;
        }
        let Ok(permit) = Arc::clone(&self.transfers).try_acquire_owned() else { return false };
        let Ok(runtime) = runtime() else { return false };
        parts.send(runtime, number, PartSource { file, cipher }, permit);
        true
    }

    /// Uploads files of a directory. Returns the checksums of the blocks of each.
    pub(super) fn upload(&self, directory: Directory, files: Vec<Upload>) -> Result<Vec<Vec<u64>>, StoreError> {
        let Some(first) = files.first().map(|file| file.key.clone()) else { return Ok(Vec::new()) };
        let (store, transfers) = (Arc::clone(&self.store), Arc::clone(&self.transfers));
        let directory = Arc::new(directory);
        let uploads = stream::iter(files).map(move |file| {
            let (store, transfers, directory) = (Arc::clone(&store), Arc::clone(&transfers), Arc::clone(&directory));
            async move {
                let _permit = transfers.acquire().await.map_err(io::Error::other)?;
                let (opened, _) = directory.file(&file.name)?;
                upload_file(&*store, Arc::new(opened), file).await
            }
        });
        self.wait::<_, Failure>("write", &first, uploads.buffered(TRANSFERS_AT_ONCE).try_collect())
    }

    /// Downloads the first `bytes` bytes of an object, and passes them on in order, as they arrive.
    pub(super) fn download(
        &self,
        key: &str,
        bytes: u64,
        mut each: impl FnMut(&[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let (store, transfers, path) = (Arc::clone(&self.store), Arc::clone(&self.transfers), self.path(key));
        let (chunks, arrived) = arrivals(CHUNKS_WAITING);
        let ended = self.start(key, async move {
            let _permit = transfers.acquire().await.map_err(io::Error::other)?;
            let mut next = 0;
            while next < bytes {
                let begun = next;
                let options = GetOptions::new().with_range(Some(next..bytes));
                let mut arriving = store.get_opts(&path, options).await?.into_stream();
                loop {
                    let chunk = match arriving.try_next().await {
                        Ok(Some(chunk)) => chunk,
                        Ok(None) if next < bytes => return Err(io::Error::from(ErrorKind::UnexpectedEof).into()),
                        Ok(None) => break,
                        // What has come need not come again.
                        Err(_) if next - begun >= PART_BYTES => break,
                        Err(error) => return Err(error.into()),
                    };
                    next += chunk.len() as u64;
                    chunks.pass(chunk).await?;
                }
            }
            Ok::<_, Failure>(())
        })?;
        arrived.each(|chunk| each(&chunk)).and_then(|()| self.end("read", key, ended))
    }

    /// Passes all objects below a key to a function, as they arrive, in the order of the bucket: S3, Google and Azure sort by key.
    pub(super) fn list(
        &self,
        below: &str,
        mut each: impl FnMut(Object) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let (store, path, prefix) = (Arc::clone(&self.store), self.path(below), self.prefix.clone());
        let (pages, arrived) = arrivals(PAGES_WAITING);
        let ended = self.start(below, async move {
            let mut listed = store.list(Some(&path)).ready_chunks(PAGE_OBJECTS);
            while let Some(page) = listed.next().await {
                let mut objects = Vec::with_capacity(page.len());
                for found in page {
                    let found = found?;
                    let key = found.location.prefix_match(&prefix).map(|parts| parts.collect::<Path>().to_string());
                    let Some(key) = key else { continue };
                    objects.push(Object { key, bytes: found.size, modified: found.last_modified.into() });
                }
                pages.pass(objects).await?;
            }
            Ok::<_, Failure>(())
        })?;
        let passed = arrived.each(|page: Vec<Object>| page.into_iter().try_for_each(&mut each));
        passed.and_then(|()| self.end("list", below, ended))
    }

    /// Deletes objects, those that are there.
    pub(super) fn delete(&self, keys: &[String]) -> Result<(), StoreError> {
        let Some(first) = keys.first() else { return Ok(()) };
        let (store, paths) = (Arc::clone(&self.store), keys.iter().map(|key| self.path(key)).collect::<Vec<_>>());
        let delete = async move {
            let mut deleted = store.delete_stream(stream::iter(paths).map(Ok).boxed());
            while let Some(deleted) = deleted.next().await {
                match deleted {
                    Err(object_store::Error::NotFound { .. }) => {}
                    deleted => drop(deleted?),
                }
            }
            Ok::<_, object_store::Error>(())
        };
        self.wait("delete", first, delete)
    }

    /// Adds what to do about an error, where that is known.
    fn advised(&self, source: object_store::Error) -> Box<dyn Error + Send + Sync> {
        let variables = credentials(&self.url);
        let advice = if says(&source, &NO_BUCKET) {
            "the bucket does not exist: create it, or change `store`".to_owned()
        } else if says(&source, &METADATA) {
            format!("there are no credentials: set {variables}")
        } else if says(&source, &REFUSED) {
            // Each service says in its own way which permission is missing.
            format!(
                "the credentials are refused: set {variables} to ones that may read, write, list and delete: {source}"
            )
        } else {
            return source.into();
        };
        // Each cause of such an error repeats the whole answer of the service.
        tracing::debug!(%source, "the bucket cannot be used");
        advice.into()
    }

    fn path(&self, key: &str) -> Path {
        self.prefix.parts().chain(Path::from(key).parts()).collect()
    }

    /// Waits for a request. The calling thread may belong to another runtime.
    fn wait<T: Send + 'static, E: Into<Failure> + Send + 'static>(
        &self,
        action: &'static str,
        key: &str,
        request: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let started = self.start(key, request)?;
        self.end(action, key, started)
    }

    /// Starts a request on the threads of the buckets.
    fn start<T: Send + 'static, E: Into<Failure> + Send + 'static>(
        &self,
        key: &str,
        request: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Result<Receiver<Result<T, Failure>>, StoreError> {
        let (sender, receiver) = sync_channel(1);
        runtime().map_err(failed("start threads for", self.place(key)))?.spawn(async move {
            // Nobody may wait for it any more.
            let _ = sender.send(request.await.map_err(Into::into));
        });
        Ok(receiver)
    }

    /// Waits for the end of a request.
    fn end<T>(&self, action: &'static str, key: &str, started: Receiver<Result<T, Failure>>) -> Result<T, StoreError> {
        let ended = started.recv().unwrap_or_else(|_| Err(io::Error::other("the request has panicked").into()));
        ended.map_err(|failure| match failure {
            // What is written and not found is an upload that the bucket no longer knows, or a bucket that is not there.
            Failure::Bucket(error @ object_store::Error::NotFound { .. })
                if action == "read" && !says(&error, &NO_BUCKET) =>
            {
                StoreError::NotFound { path: self.place(key) }
            }
            Failure::Bucket(source) => StoreError::bucket(action, self.place(key), self.advised(source)),
            Failure::System(source) => failed(action, self.place(key))(source),
            Failure::Store(error) => error,
        })
    }
}

/// An error of a bucket, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[error("{advice}")]
struct Advised {
    advice: String,
    source: object_store::Error,
}

/// Passes on what a request gets, to the thread that asked for it.
struct Passing<T> {
    sender: Sender<T>,
    room: Arc<Semaphore>,
}

/// What a request gets, in order.
struct Arrived<T> {
    receiver: Receiver<T>,
    room: Arc<Semaphore>,
}

/// Both ends of it: at most `waiting` wait to be taken.
fn arrivals<T>(waiting: usize) -> (Passing<T>, Arrived<T>) {
    let (sender, receiver) = channel();
    let room = Arc::new(Semaphore::new(waiting));
    (Passing { sender, room: Arc::clone(&room) }, Arrived { receiver, room })
}

impl<T> Passing<T> {
    /// An error once nobody takes any more.
    async fn pass(&self, arrived: T) -> Result<(), io::Error> {
        self.room.acquire().await.map_err(io::Error::other)?.forget();
        self.sender.send(arrived).map_err(|_| io::Error::from(ErrorKind::BrokenPipe))
    }
}

impl<T> Arrived<T> {
    /// Takes everything until the request ends, or until an error.
    fn each(self, mut each: impl FnMut(T) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let passed = self.receiver.iter().try_for_each(|arrived| {
            self.room.add_permits(1);
            each(arrived)
        });
        // If not all were taken, the request is not to wait.
        self.room.close();
        passed
    }
}

/// Whether the text of an error has one of these in it.
fn says(error: &object_store::Error, texts: &[&str]) -> bool {
    let error = error.to_string();
    texts.iter().any(|text| error.contains(text))
}

/// The variables that most take to say who they are.
fn credentials(url: &str) -> &'static str {
    match url.split_once("://").map(|(scheme, _)| scheme) {
        Some("gs") => "GOOGLE_APPLICATION_CREDENTIALS or GOOGLE_SERVICE_ACCOUNT",
        Some("az") => "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
        _ => "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION",
    }
}

/// Why a request has failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Bucket(#[from] object_store::Error),
    /// On this machine.
    #[error(transparent)]
    System(#[from] io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<JoinError> for Failure {
    fn from(error: JoinError) -> Self {
        Self::System(error.into())
    }
}

/// A bucket, and the same for uploads in parts.
type Stores = (Arc<dyn ObjectStore>, Arc<dyn MultipartStore>);

/// The bucket of an address.
fn bucket_of(url: &str, config: &BucketConfig) -> Result<Stores, object_store::Error> {
    let retry = RetryConfig {
        backoff: BackoffConfig { init_backoff: PAUSE, max_backoff: PAUSE_MAX, ..BackoffConfig::default() },
        max_retries: usize::MAX,
        retry_timeout: config.retry_time,
    };
    let timeout = format!("{}ms", config.request_time.as_millis());
    // Through its key, as other options of the client come from the environment.
    macro_rules! bucket {
        ($builder:ident, $key:ident) => {{
            let timeout_key = $key::Client(ClientConfigKey::Timeout);
            let mut builder = $builder::from_env().with_url(url).with_config(timeout_key, timeout).with_retry(retry);
            for (key, value) in &config.options {
                builder = builder.with_config(key.parse()?, value);
            }
            let bucket = Arc::new(builder.build()?);
            (Arc::clone(&bucket) as Arc<dyn ObjectStore>, bucket as Arc<dyn MultipartStore>)
        }};
    }
    Ok(match url.split_once("://").map(|(scheme, _)| scheme) {
        Some("gs") => bucket!(GoogleCloudStorageBuilder, GoogleConfigKey),
        Some("az") => bucket!(MicrosoftAzureBuilder, AzureConfigKey),
        _ => bucket!(AmazonS3Builder, AmazonS3ConfigKey),
    })
}

/// The threads on which requests to all buckets run.
fn runtime() -> io::Result<&'static Runtime> {
    static RUNTIME: Mutex<Option<&'static Runtime>> = Mutex::new(None);
    let mut runtime = RUNTIME.lock();
    if let Some(runtime) = *runtime {
        return Ok(runtime);
    }
    let started = Builder::new_multi_thread().worker_threads(THREADS).thread_name("lro-bucket").enable_all().build()?;
    Ok(*runtime.insert(Box::leak(Box::new(started))))
}

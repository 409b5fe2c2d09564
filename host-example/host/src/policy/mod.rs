//! Policies: from bytes to something that can be called, with every check before the first instruction is compiled, and
//! from one version to the next while calls go on.
//!
//! | type | what it is |
//! |---|---|
//! | [`Policy`] | a checked and compiled component |
//! | [`Slot`] | what the calls of one tenant go through: the current [`Version`], its breaker, a trial of the next one |
//! | [`Registry`] | the slots by tenant, and where their policies come from |
//! | [`Watch`] | loads what changes on the disk |
//!
//! A component may have to be signed. Signatures are those of `minisign` and `rsign2`: Ed25519 over BLAKE2b-512, detached,
//! one line of key and one small text file, which `minisign -S` makes and people can check by hand. They are verified by the
//! crate `minisign-verify`, which has no dependencies of its own and knows nothing but this one format.

mod breaker;
mod cache;
mod compiler;
mod contract;
mod kept;
mod registry;
mod slot;
mod source;
mod trial;
mod watch;

pub use breaker::BreakerSettings;
pub use breaker::PARKED;
pub use cache::CompileCache;
pub use compiler::{
    COMPILE_MEMORY_BYTES_DEFAULT, COMPILE_TIME_DEFAULT, CompileLimits, CompilePlace, Compiler, compile_as_child,
};
pub use contract::{ALLOWED_IMPORTS, Contract, INERT_IMPORTS, VERSION, WORLD};
pub(crate) use contract::{EXTRACTION, World};
pub use minisign_verify::PublicKey;
pub use registry::LOADS;
pub use registry::{Attempt, Loaded, Refused, Registry, RegistryError, RegistrySettings, TenantPolicy};
pub(crate) use slot::Admitted;
pub use slot::{Admission, Slot, SlotError, SlotSettings, SlotStatus, Version};
pub use source::{SIGNATURE_BYTES_MAX, SIGNATURE_SUFFIX, Source};
pub(crate) use trial::Comparison;
pub use trial::{TRIAL_EXAMPLES_MAX, TRIAL_QUEUE_MAX, Trial, TrialExample, TrialOutcome, TrialReport};
pub use watch::{DEBOUNCE, DEBOUNCE_MAX, Watch};

pub use crate::digest::{Digest, ParseDigestError};

use crate::faults::fail_point;
use crate::sandbox::{Limits, Prepared, Sandbox, gate, one_line};
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};
use wasmtime::component::Component;

/// Default of [`LoadOptions::bytes_max`]: 64 MiB. The default policy has about 0.2 MiB.
pub const POLICY_BYTES_MAX: u64 = 64 << 20;

/// Longest time in which a policy has to start: 5 s. The default policy takes less than one millisecond.
pub const START_TIME_MAX: Duration = Duration::from_secs(5);

/// The default policy, `guest/policy` of this workspace.
pub const DEFAULT_POLICY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/lro_policy.wasm"));

/// Most bytes of what an error tells in the words of the component.
const TOLD_BYTES_MAX: usize = 1_000;

/// Why a policy was not loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The file could not be read.
    #[error("cannot read policy `{path}`")]
    Read {
        /// The file.
        path: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Not a regular file.
    #[error("policy `{0}` is not a regular file")]
    NotAFile(String),
    /// Larger than [`LoadOptions::bytes_max`], or a signature larger than [`SIGNATURE_BYTES_MAX`].
    #[error("policy of {found} bytes: larger than {limit} bytes")]
    TooLarge {
        /// Its size.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// The bytes differ from the pinned ones.
    #[error("policy has SHA-256 {found}, but {expected} is pinned")]
    Pin {
        /// The pinned digest.
        expected: Digest,
        /// That of the bytes.
        found: Digest,
    },
    /// No WebAssembly, or cut.
    #[error("policy is not a WebAssembly component: {}", told(.0))]
    Malformed(String),
    /// A signature is wanted, and there is none.
    #[error("policy is not signed: it needs a signature beside it (`{SIGNATURE_SUFFIX}`)")]
    Unsigned,
    /// None of the trusted keys made the signature, or the component is not what was signed.
    #[error("policy has a signature that is not accepted: {0}")]
    Signature(String),
    /// WebAssembly, but without the component layer.
    #[error("policy is a core module, not a component: build it as a component for the world `{WORLD}`")]
    CoreModule,
    /// A component of another world.
    #[error("policy does not export `{export}`, so it is not of the world `{world}`; it exports {}", listed(.exports))]
    World {
        /// The wanted world.
        world: &'static str,
        /// The interface it should export.
        export: &'static str,
        /// What it does export.
        exports: Vec<String>,
    },
    /// A component for another version of the contract.
    #[error("policy is built for lro:filter@{}; this host runs {VERSION} and what it is compatible with", told(.found))]
    Version {
        /// The version it exports.
        found: String,
    },
    /// It wants something no policy gets: neither of [`ALLOWED_IMPORTS`] nor of [`INERT_IMPORTS`].
    #[error("policy imports `{}`, which no policy gets; it can use {}", told(.name), ALLOWED_IMPORTS.join(", "))]
    Import {
        /// The imported interface.
        name: String,
    },
    /// It does not compile, or its imports or exports have other types than the contract says.
    #[error("policy does not compile or does not keep the contract: {}", told(.0))]
    Compile(String),
    /// Longer than [`CompileLimits::time`].
    #[error("policy takes longer than {} ms to compile (limit time)", .0.as_millis())]
    CompileTime(Duration),
    /// More than [`CompileLimits::memory_bytes`].
    #[error("policy needs more than {0} bytes of memory to be compiled (limit memory-bytes)")]
    CompileMemory(u64),
    /// [`CompileLimits::at_once`] other components were being compiled all the time.
    #[error("policy waited {} ms for its turn to be compiled", .0.as_millis())]
    CompileQueue(Duration),
    /// No instance of it could be made.
    #[error("policy cannot be started: it {}", told(.0))]
    Start(String),
    /// The host panicked while it loaded the policy.
    #[error("the host panicked while it loaded the policy: {}", told(.0))]
    Panic(String),
}

impl PolicyError {
    /// The error as clients are told it: nothing of where files lie on this machine. Its whole text belongs in the log.
    pub(crate) fn for_client(&self) -> String {
        match self {
            Self::Read { source, .. } => format!("the policy cannot be read: {source}"),
            Self::NotAFile(_) => "the policy is not a regular file".to_owned(),
            Self::Compile(_) => "the policy cannot be compiled".to_owned(),
            error => error.to_string(),
        }
    }
}

/// A text with names of the component's making.
fn told(text: &str) -> String {
    one_line(text, TOLD_BYTES_MAX)
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "nothing".to_owned() } else { told(&names.join(", ")) }
}

/// How a policy is loaded.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// Refuse any bytes but those of this digest. None.
    pub pin: Option<Digest>,
    /// Refuse what none of these keys signed. Without keys, signatures are not looked at. None.
    pub signers: Vec<PublicKey>,
    /// Largest component. 64 MiB.
    pub bytes_max: u64,
    /// Where compiled code is kept. Nowhere.
    pub cache: Option<CompileCache>,
    /// What compiles. A thread, with the default limits.
    pub compiler: Compiler,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self { pin: None, signers: Vec::new(), bytes_max: POLICY_BYTES_MAX, cache: None, compiler: Compiler::default() }
    }
}

/// A policy that can be called. A clone shares everything with its original.
#[derive(Clone, Debug)]
pub struct Policy {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    prepared: Prepared,
    digest: Digest,
    contract: Contract,
    bytes: u64,
    compile_time: Option<Duration>,
}

impl Policy {
    /// Loads a component: pin, size, signature, kind, imports and version are checked, in this order, before it is compiled;
    /// then one instance is made, as a test. The bytes that were checked are the bytes that are compiled.
    ///
    /// # Errors
    /// With the first check that fails.
    pub fn load(sandbox: &Sandbox, source: &Source, options: &LoadOptions) -> Result<Self, PolicyError> {
        let digest = identify(&source.bytes, options)?;
        if !options.signers.is_empty() {
            source.check_signature(&options.signers)?;
        }
        Self::compile(sandbox, &source.bytes, digest, options)
    }

    /// As [`Policy::load`], for bytes without a signature.
    ///
    /// # Errors
    /// As [`Policy::load`].
    pub fn from_bytes(sandbox: &Sandbox, bytes: &[u8], options: &LoadOptions) -> Result<Self, PolicyError> {
        let digest = identify(bytes, options)?;
        if !options.signers.is_empty() {
            return Err(PolicyError::Unsigned);
        }
        Self::compile(sandbox, bytes, digest, options)
    }

    /// As [`Policy::load`], for a file and the signature beside it, read by [`Source::read`].
    ///
    /// # Errors
    /// As [`Policy::load`] and [`Source::read`].
    pub fn from_file(sandbox: &Sandbox, path: &Path, options: &LoadOptions) -> Result<Self, PolicyError> {
        Self::load(sandbox, &Source::read(path, options.bytes_max)?, options)
    }

    fn compile(sandbox: &Sandbox, bytes: &[u8], digest: Digest, options: &LoadOptions) -> Result<Self, PolicyError> {
        fail_point!("policy::verify", |error: std::io::Error| PolicyError::Malformed(error.to_string()));
        let contract = contract::read(bytes, &contract::POLICY)?;
        let (component, compile_time) = compile(sandbox, bytes, &digest, options)?;
        let prepared = sandbox.prepare(&component).map_err(|error| PolicyError::Compile(format!("{error:#}")))?;
        prepared.instantiate(&start_limits()).map_err(|error| PolicyError::Start(error.to_string()))?;
        let bytes = bytes.len() as u64;
        Ok(Self { inner: Arc::new(Inner { prepared, digest, contract, bytes, compile_time }) })
    }

    /// What is called.
    pub fn prepared(&self) -> &Prepared {
        &self.inner.prepared
    }

    /// Whether it is the built-in policy.
    pub fn is_default(&self) -> bool {
        static DIGEST: LazyLock<Digest> = LazyLock::new(|| Digest::of(DEFAULT_POLICY));
        self.inner.digest == *DIGEST
    }

    /// SHA-256 of the component.
    pub fn digest(&self) -> &Digest {
        &self.inner.digest
    }

    /// Version of the contract, and imports.
    pub fn contract(&self) -> &Contract {
        &self.inner.contract
    }

    /// Size of the component in bytes.
    pub fn bytes(&self) -> u64 {
        self.inner.bytes
    }

    /// How long compiling took; none when the code came from the cache.
    pub fn compile_time(&self) -> Option<Duration> {
        self.inner.compile_time
    }
}

/// Checks and compiles the bytes of a component of a world.
pub(crate) fn load(
    sandbox: &Sandbox,
    bytes: &[u8],
    options: &LoadOptions,
    world: &'static World,
) -> Result<Component, PolicyError> {
    let digest = identify(bytes, options)?;
    contract::read(bytes, world)?;
    compile(sandbox, bytes, &digest, options).map(|(component, _)| component)
}

/// Bounds of the instance that is made as a test: whether a call may use as much is decided at each call.
fn start_limits() -> Limits {
    Limits { wall_time: START_TIME_MAX, memory_bytes: usize::MAX, table_elements: usize::MAX, ..Limits::default() }
}

/// The digest of a component, which has to be the pinned one.
fn identify(bytes: &[u8], options: &LoadOptions) -> Result<Digest, PolicyError> {
    let digest = Digest::of(bytes);
    if let Some(expected) = options.pin.filter(|pin| *pin != digest) {
        return Err(PolicyError::Pin { expected, found: digest });
    }
    let found = bytes.len() as u64;
    if found > options.bytes_max {
        return Err(PolicyError::TooLarge { found, limit: options.bytes_max });
    }
    Ok(digest)
}

fn compile(
    sandbox: &Sandbox,
    bytes: &[u8],
    digest: &Digest,
    options: &LoadOptions,
) -> Result<(Component, Option<Duration>), PolicyError> {
    let engine = sandbox.engine();
    if let Some(component) = options.cache.as_ref().and_then(|cache| cache.load(engine, digest)) {
        return Ok((component, None));
    }
    let started = Instant::now();
    let component = options.compiler.compile(engine, bytes)?;
    let time = started.elapsed();
    if let Some(cache) = &options.cache {
        cache.store(engine, digest, &component);
    }
    Ok((component, Some(time)))
}

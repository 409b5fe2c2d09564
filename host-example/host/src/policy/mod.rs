//! Policies: loading them, with every check before anything is compiled, and replacing them while calls run.
//!
//! | type | purpose |
//! |---|---|
//! | [`Policy`] | a checked and compiled component |
//! | [`Slot`] | the policy of one tenant: the current [`Version`], its breaker, a trial of the next one |
//! | [`Registry`] | the slots of all tenants, and the sources of their policies |
//! | [`Watch`] | reloads policies that change on disk |
//! | [`Fetch`], [`ComponentCache`] | policies from elsewhere, and the last of them on disk |
//!
//! Signatures can be required. They are those of `minisign` and `rsign2`: Ed25519 over BLAKE2b-512, detached, a
//! one-line key and a small text file that `minisign -S` creates and people can check by hand. The crate
//! `minisign-verify` verifies them; it has no dependencies and supports only this format. The trusted comment of a
//! signature may name the tenant, the version and the end of a policy: see [`Claims`].

mod ahead_of_time;
mod anonymous;
mod breaker;
mod built_in;
mod cache;
mod claims;
mod code;
mod compiler;
mod contract;
mod fetch;
mod kept;
mod registry;
mod slot;
mod source;
mod trial;
mod watch;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use ahead_of_time::compile_ahead;
pub use breaker::{BreakerSettings, parked_count};
pub(crate) use built_in::BuiltIn;
use built_in::DEFAULT_POLICY_DIGEST;
pub use cache::{COMPILE_CACHE_BYTES_DEFAULT, CompileCache};
pub use claims::{Claims, SignedVersion};
pub use compiler::{
    COMPILE_MEMORY_BYTES_DEFAULT, COMPILE_TIME_DEFAULT, CompileLimits, CompilePlace, Compiler, compile_as_child,
};
pub use contract::{ALLOWED_IMPORTS, Contract, INERT_IMPORTS, VERSIONS, WORLD};
pub use fetch::{ComponentCache, Fetch, Freshness};
pub use lro_contract::digest::{Digest, ParseDigestError};
pub use minisign_verify::PublicKey;
pub use registry::{
    Attempt, Conditions, Loaded, Location, Refused, Registry, RegistryError, RegistrySettings, TenantPolicy,
    load_counts,
};
pub(crate) use slot::Admitted;
pub use slot::{Admission, Slot, SlotError, SlotSettings, SlotStatus, Version};
pub use source::{SIGNATURE_BYTES_MAX, SIGNATURE_SUFFIX, Source};
pub(crate) use trial::Comparison;
pub use trial::{TRIAL_EXAMPLES_MAX, TRIAL_QUEUE_MAX, Trial, TrialExample, TrialOutcome, TrialReport};
use wasmtime::Engine;
use wasmtime::component::Component;
pub use watch::{DEBOUNCE, DEBOUNCE_MAX, Watch};

use crate::faults::fail_point;
use crate::sandbox::{Limits, Prepared, Sandbox, gate, one_line};

/// Default of [`LoadOptions::bytes_max`]: 64 MiB. The built-in policy has about 1.1 MiB.
pub const POLICY_BYTES_MAX: u64 = 64 << 20;

/// Maximum time that a policy takes to start: 5 s. The built-in policy takes less than 1 ms.
const START_TIME_MAX: Duration = Duration::from_secs(5);

/// The built-in policy, `guest/policy` of this workspace.
pub const DEFAULT_POLICY: &[u8] = component!("lro_policy.wasm");

/// Maximum size of component text quoted in an error, in bytes.
const QUOTE_BYTES_MAX: usize = 1_000;

/// Why a policy was not loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file could not be read.
    #[error("cannot read policy `{path}`")]
    Read {
        /// The file.
        path: String,
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
    /// It could not be fetched from elsewhere.
    #[error("cannot fetch policy `{name}`: {reason}")]
    Fetch {
        /// Its name there.
        name: String,
        /// Why.
        reason: String,
    },
    /// Not a regular file.
    #[error("policy `{0}` is not a regular file")]
    NotAFile(String),
    /// The component is larger than [`LoadOptions::bytes_max`], or the signature larger than [`SIGNATURE_BYTES_MAX`].
    #[error("policy or signature has {found} bytes, more than the limit of {limit} bytes")]
    TooLarge {
        /// Its size.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// The digest is not the pinned one.
    #[error("policy has SHA-256 {found}, but {expected} is pinned")]
    Pin {
        /// The pinned digest.
        expected: Digest,
        /// The digest of the component.
        found: Digest,
    },
    /// Not valid WebAssembly.
    #[error("policy is not a WebAssembly component: {}", quoted(.0))]
    Malformed(String),
    /// A signature is required and missing.
    #[error("policy is not signed: it needs a signature beside it (`{SIGNATURE_SUFFIX}`)")]
    Unsigned,
    /// The signature is not from a trusted key, or does not match the component.
    #[error("policy has a signature that is not accepted: {0}")]
    Signature(String),
    /// The trusted comment of the signature has a word that is not understood: see [`Claims`].
    #[error("policy has a signature with `{}` in its trusted comment, which needs {expected}", quoted(.word))]
    Claim {
        /// The word.
        word: String,
        /// What it needs.
        expected: &'static str,
    },
    /// The signature is for another tenant.
    #[error("policy is signed for the tenant `{}`, not for `{}`", quoted(.signed), quoted(.tenant))]
    Tenant {
        /// The tenant that the signature names.
        signed: String,
        /// The tenant that it was to be loaded for.
        tenant: String,
    },
    /// The signature says that the policy may no longer be loaded.
    #[error("policy has a signature that expired at {expires}; it is now {now}")]
    Expired {
        /// The end, as in RFC 3339.
        expires: String,
        /// The time of the check, as in RFC 3339.
        now: String,
    },
    /// The signature states an earlier version than that of the current policy, or none.
    #[error(
        "policy has the version {}, and the tenant's has {serving}: an older one is loaded only on request (--allow-older)",
        .found.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string)
    )]
    Older {
        /// The version in the signature.
        found: Option<SignedVersion>,
        /// The version of the current policy.
        serving: SignedVersion,
    },
    /// WebAssembly, but without the component layer.
    #[error("policy is a core module, not a component: build it as a component for the world `{WORLD}`")]
    CoreModule,
    /// The component targets another world.
    #[error("policy does not export `{}`, so it is not of the world `{WORLD}`; it exports {}", contract::EXPORT, listed(.exports))]
    World {
        /// The actual exports.
        exports: Vec<String>,
    },
    /// The component is built for an incompatible version of the contract.
    #[error("policy is built for lro:filter@{}; this host runs {}", quoted(.found), named(&VERSIONS))]
    Version {
        /// The version it exports.
        found: String,
    },
    /// The component imports an interface that is neither in [`ALLOWED_IMPORTS`] nor in [`INERT_IMPORTS`].
    #[error(
        "policy imports `{}`, which policies may not use; they may use {}, and import without effect {}",
        quoted(.name), ALLOWED_IMPORTS.join(", "), INERT_IMPORTS.join(", ")
    )]
    Import {
        /// The imported interface.
        name: String,
    },
    /// It does not compile, or its imports or exports have other types than in the contract.
    #[error("policy does not compile or does not match the contract: {}", quoted(.0))]
    Compile(String),
    /// Compiling took longer than [`CompileLimits::time`].
    #[error("policy takes longer than {} ms to compile (loading.compile-ms)", .0.as_millis())]
    CompileTime(Duration),
    /// Compiling needed more than [`CompileLimits::memory_bytes`].
    #[error("policy needs more than {0} bytes of memory to be compiled (loading.compile-memory-bytes)")]
    CompileMemory(u64),
    /// [`CompileLimits::at_once`] other components were being compiled for all of [`CompileLimits::time`].
    #[error("policy waited {} ms to be compiled, because too many others are being compiled: try again", .0.as_millis())]
    CompileQueue(Duration),
    /// It cannot be instantiated.
    #[error("policy cannot be started: it {}", quoted(.0))]
    Start(String),
    /// The host panicked while it loaded the policy.
    #[error("the host panicked while it loaded the policy: {}", quoted(.0))]
    Panic(String),
}

impl LoadError {
    /// Error message for clients, without paths of this machine. The full message belongs in the log.
    pub(crate) fn for_client(&self) -> String {
        match self {
            Self::Read { source, .. } => format!("the policy cannot be read: {source}"),
            Self::Fetch { .. } => "the policy cannot be fetched".to_owned(),
            Self::NotAFile(_) => "the policy is not a regular file".to_owned(),
            Self::Compile(_) => "the policy cannot be compiled".to_owned(),
            Self::Tenant { .. } => "the policy is signed for another tenant".to_owned(),
            error => error.to_string(),
        }
    }
}

/// Escapes and shortens text that comes from a component.
fn quoted(text: &str) -> String {
    one_line(text, QUOTE_BYTES_MAX)
}

fn named(versions: &[semver::Version]) -> String {
    versions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "nothing".to_owned() } else { quoted(&names.join(", ")) }
}

/// Options for loading a policy.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// Accept only a component with this digest. Default: `None`.
    pub pin: Option<Digest>,
    /// Accept only components signed by one of these keys. Without keys, signatures are ignored. Default: none.
    pub signers: Vec<PublicKey>,
    /// The tenant that it is loaded for: a signature for another one is refused. Default: `None`, any.
    pub tenant: Option<String>,
    /// Maximum size of the component, in bytes. Default: 64 MiB.
    pub bytes_max: u64,
    /// Cache of compiled code. Default: `None`.
    pub cache: Option<CompileCache>,
    /// The compiler. Default: on a thread, with default limits.
    pub compiler: Compiler,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            pin: None,
            signers: Vec::new(),
            tenant: None,
            bytes_max: POLICY_BYTES_MAX,
            cache: None,
            compiler: Compiler::default(),
        }
    }
}

/// A policy that is ready to be called. Clones share their state.
#[derive(Clone, Debug)]
pub struct Policy {
    inner: Arc<Inner>,
    claims: Arc<Claims>,
}

#[derive(Debug)]
struct Inner {
    prepared: Prepared,
    digest: Digest,
    contract: Contract,
    bytes: u64,
    compile_time: Option<Duration>,
}

impl Inner {
    fn compile(sandbox: &Sandbox, bytes: &[u8], digest: Digest, options: &LoadOptions) -> Result<Arc<Self>, LoadError> {
        fail_point!("policy::verify", |error: std::io::Error| LoadError::Malformed(error.to_string()));
        let contract = contract::read(bytes)?;
        let (component, compile_time) = compile(sandbox, bytes, &digest, options)?;
        let prepared = sandbox.prepare(&component).map_err(|error| LoadError::Compile(format!("{error:#}")))?;
        prepared.instantiate(&start_limits()).map_err(|error| LoadError::Start(error.to_string()))?;
        Ok(Arc::new(Self { prepared, digest, contract, bytes: bytes.len() as u64, compile_time }))
    }
}

impl Policy {
    /// Loads a component. Checks pin, size, signature, kind, imports and version, in this order, then compiles it and
    /// creates one instance as a test, which may take 5 s. The bytes that are checked are the bytes that are compiled.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn load(sandbox: &Sandbox, source: &Source, options: &LoadOptions) -> Result<Self, LoadError> {
        let digest = built_in::digest(&source.bytes);
        check_identity(&source.bytes, &digest, options)?;
        let claims = if options.signers.is_empty() { Claims::default() } else { source.check_signature(options)? };
        Ok(Self { inner: Inner::compile(sandbox, &source.bytes, digest, options)?, claims: Arc::new(claims) })
    }

    /// As [`Policy::load`], for bytes without a signature.
    ///
    /// # Errors
    /// As [`Policy::load`].
    pub fn from_bytes(sandbox: &Sandbox, bytes: &[u8], options: &LoadOptions) -> Result<Self, LoadError> {
        let digest = built_in::digest(bytes);
        check_identity(bytes, &digest, options)?;
        if !options.signers.is_empty() {
            return Err(LoadError::Unsigned);
        }
        Ok(Self { inner: Inner::compile(sandbox, bytes, digest, options)?, claims: Arc::default() })
    }

    /// As [`Policy::load`], for a file and the signature beside it, read by [`Source::read`].
    ///
    /// # Errors
    /// As [`Policy::load`] and [`Source::read`].
    pub fn from_file(sandbox: &Sandbox, path: &Path, options: &LoadOptions) -> Result<Self, LoadError> {
        Self::load(sandbox, &Source::read(path, options.bytes_max)?, options)
    }

    /// The compiled component.
    pub fn prepared(&self) -> &Prepared {
        &self.inner.prepared
    }

    /// Whether it is the built-in policy.
    pub fn is_default(&self) -> bool {
        self.inner.digest == DEFAULT_POLICY_DIGEST
    }

    /// SHA-256 of the component.
    pub fn digest(&self) -> &Digest {
        &self.inner.digest
    }

    /// What its signature says; nothing if none was asked for.
    pub fn claims(&self) -> &Claims {
        &self.claims
    }

    /// Its contract version and imports.
    pub fn contract(&self) -> &Contract {
        &self.inner.contract
    }

    /// Size of the component in bytes.
    pub fn bytes(&self) -> u64 {
        self.inner.bytes
    }

    /// Time it took to compile; `None` if the code came from the cache, or with this crate.
    pub fn compile_time(&self) -> Option<Duration> {
        self.inner.compile_time
    }
}

/// Compiles a component of this crate, without the limits for components of others.
fn compile_built_in(sandbox: &Sandbox, bytes: &[u8], cache: Option<&CompileCache>) -> wasmtime::Result<Component> {
    let engine = sandbox.engine();
    let (component, _) = cached(engine, &built_in::digest(bytes), cache, || Component::from_binary(engine, bytes))?;
    Ok(component)
}

/// Limits of the test instance. The limits of calls apply at each call.
fn start_limits() -> Limits {
    Limits { wall_time: START_TIME_MAX, memory_bytes: usize::MAX, table_elements: usize::MAX, ..Limits::default() }
}

/// Checks pin and size of a component with this digest.
fn check_identity(bytes: &[u8], digest: &Digest, options: &LoadOptions) -> Result<(), LoadError> {
    if let Some(expected) = options.pin.filter(|pin| pin != digest) {
        return Err(LoadError::Pin { expected, found: *digest });
    }
    let found = bytes.len() as u64;
    if found > options.bytes_max {
        return Err(LoadError::TooLarge { found, limit: options.bytes_max });
    }
    Ok(())
}

fn compile(
    sandbox: &Sandbox,
    bytes: &[u8],
    digest: &Digest,
    options: &LoadOptions,
) -> Result<(Component, Option<Duration>), LoadError> {
    let engine = sandbox.engine();
    cached(engine, digest, options.cache.as_ref(), || options.compiler.compile(sandbox, bytes))
}

/// Takes the code that this crate brings, or from the cache, or compiles and stores it. Returns the time to compile with it.
fn cached<E>(
    engine: &Engine,
    digest: &Digest,
    cache: Option<&CompileCache>,
    compile: impl FnOnce() -> Result<Component, E>,
) -> Result<(Component, Option<Duration>), E> {
    let ready = ahead_of_time::load(engine, digest).or_else(|| cache.and_then(|cache| cache.load(engine, digest)));
    if let Some(component) = ready {
        return Ok((component, None));
    }
    let started = Instant::now();
    let component = compile()?;
    let time = started.elapsed();
    if let Some(cache) = cache {
        cache.store(engine, digest, &component);
    }
    Ok((component, Some(time)))
}

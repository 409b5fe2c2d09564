//! Policies: from bytes to something that can be called, with every check before the first instruction is compiled.

mod cache;
mod contract;

pub use cache::CompileCache;
pub use contract::{ALLOWED_IMPORTS, Contract, VERSION, WORLD};
pub(crate) use contract::{EXTRACTION, World};

pub use crate::digest::{Digest, ParseDigestError};

use crate::sandbox::{Prepared, Sandbox};
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};
use wasmtime::component::Component;

/// Largest component that is read: 64 MiB. The default policy has about 0.2 MiB.
pub const POLICY_BYTES_MAX: u64 = 64 << 20;

/// The default policy, `guest/policy` of this workspace.
pub const DEFAULT_POLICY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/lro_policy.wasm"));

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
    /// Larger than [`POLICY_BYTES_MAX`].
    #[error("policy of {0} bytes: larger than {POLICY_BYTES_MAX} bytes")]
    TooLarge(u64),
    /// The bytes differ from the pinned ones.
    #[error("policy has SHA-256 {found}, but {expected} is pinned")]
    Pin {
        /// The pinned digest.
        expected: Digest,
        /// That of the bytes.
        found: Digest,
    },
    /// No WebAssembly, or cut.
    #[error("policy is not a WebAssembly component: {0}")]
    Malformed(String),
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
    #[error("policy is built for lro:filter@{found}; this host runs {VERSION} and what it is compatible with")]
    Version {
        /// The version it exports.
        found: String,
    },
    /// It wants something no policy gets.
    #[error("policy imports `{name}`, which no policy gets; allowed are {}", ALLOWED_IMPORTS.join(", "))]
    Import {
        /// The imported interface.
        name: String,
    },
    /// It does not compile, or its imports or exports have other types than the contract says.
    #[error("policy does not compile or does not keep the contract: {0}")]
    Compile(String),
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

/// How a policy is loaded.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// Refuse any bytes but those of this digest.
    pub pin: Option<Digest>,
    /// Where compiled code is kept.
    pub cache: Option<CompileCache>,
}

/// A policy that can be called.
#[derive(Clone, Debug)]
pub struct Policy {
    prepared: Prepared,
    digest: Digest,
    contract: Contract,
    bytes: u64,
    compile_time: Option<Duration>,
}

impl Policy {
    /// Loads a component from its bytes: pin, size, kind, imports and version are checked, in this order, before it is
    /// compiled. The bytes that were checked are the bytes that are compiled.
    ///
    /// # Errors
    /// With the first check that fails.
    pub fn from_bytes(sandbox: &Sandbox, bytes: &[u8], options: &LoadOptions) -> Result<Self, PolicyError> {
        let Loaded { component, digest, contract, compile_time } = load(sandbox, bytes, options, &contract::POLICY)?;
        let prepared = sandbox.prepare(&component).map_err(|error| PolicyError::Compile(format!("{error:#}")))?;
        Ok(Self { prepared, digest, contract, bytes: bytes.len() as u64, compile_time })
    }

    /// Loads a component from a file.
    ///
    /// # Errors
    /// As [`Policy::from_bytes`], and when the file cannot be read or is not a regular one.
    pub fn from_file(sandbox: &Sandbox, path: &Path, options: &LoadOptions) -> Result<Self, PolicyError> {
        Self::from_bytes(sandbox, &read_file(path)?, options)
    }

    /// What is called.
    pub fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    /// SHA-256 of the component.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Version of the contract, and imports.
    pub fn contract(&self) -> &Contract {
        &self.contract
    }

    /// Size of the component in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How long compiling took; none when the code came from the cache.
    pub fn compile_time(&self) -> Option<Duration> {
        self.compile_time
    }
}

/// A component that passed every check and is compiled.
pub(crate) struct Loaded {
    pub(crate) component: Component,
    digest: Digest,
    contract: Contract,
    compile_time: Option<Duration>,
}

/// Checks and compiles a component of a world.
pub(crate) fn load(
    sandbox: &Sandbox,
    bytes: &[u8],
    options: &LoadOptions,
    world: &'static World,
) -> Result<Loaded, PolicyError> {
    let digest = Digest::of(bytes);
    if let Some(expected) = options.pin.filter(|pin| *pin != digest) {
        return Err(PolicyError::Pin { expected, found: digest });
    }
    let size = bytes.len() as u64;
    if size > POLICY_BYTES_MAX {
        return Err(PolicyError::TooLarge(size));
    }
    let contract = contract::read(bytes, world)?;
    let (component, compile_time) = compile(sandbox, bytes, &digest, options)?;
    Ok(Loaded { component, digest, contract, compile_time })
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
    let component =
        Component::from_binary(engine, bytes).map_err(|error| PolicyError::Compile(format!("{error:#}")))?;
    let time = started.elapsed();
    if let Some(cache) = &options.cache {
        cache.store(engine, digest, &component);
    }
    Ok((component, Some(time)))
}

fn read_file(path: &Path) -> Result<Vec<u8>, PolicyError> {
    let failed = |source| PolicyError::Read { path: path.display().to_string(), source };
    // Without O_NONBLOCK a FIFO would wait for a writer.
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, rustix::fs::Mode::empty()).map_err(|error| failed(error.into()))?;
    let file = std::fs::File::from(file);
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(PolicyError::NotAFile(path.display().to_string()));
    }
    if metadata.len() > POLICY_BYTES_MAX {
        return Err(PolicyError::TooLarge(metadata.len()));
    }
    let mut bytes = Vec::new();
    file.take(POLICY_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

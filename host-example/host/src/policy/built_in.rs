//! Components that this crate brings, each loaded when it is first needed.

use std::sync::{Arc, Once};
use std::{ptr, thread};

use parking_lot::Mutex;
use wasmtime::component::Component;

use super::{CompileCache, DEFAULT_POLICY, Digest, LoadError, compile_built_in};
use crate::documents::DOCUMENT_COMPONENT;
use crate::extract::{EXTRACT_COMPONENT, SQL_COMPONENT};
use crate::sandbox::Sandbox;

/// Digest of the built-in policy.
pub(super) const DEFAULT_POLICY_DIGEST: Digest =
    Digest(*include_bytes!(concat!(env!("OUT_DIR"), "/lro_policy.sha256")));

/// Components of this crate that are loaded, with their digests, which were computed when it was built.
static DIGESTS: [(&[u8], Digest); 4] = [
    (DEFAULT_POLICY, DEFAULT_POLICY_DIGEST),
    (EXTRACT_COMPONENT, Digest(*include_bytes!(concat!(env!("OUT_DIR"), "/lro_extract.sha256")))),
    (SQL_COMPONENT, Digest(*include_bytes!(concat!(env!("OUT_DIR"), "/lro_extract_sql.sha256")))),
    (DOCUMENT_COMPONENT, Digest(*include_bytes!(concat!(env!("OUT_DIR"), "/lro_document_text.sha256")))),
];

/// The digest of a component. Most are those of this crate, and a comparison takes a tenth of the time of a digest.
pub(super) fn digest(component: &[u8]) -> Digest {
    let known = DIGESTS.iter().find(|(bytes, _)| ptr::eq(*bytes, component) || *bytes == component);
    known.map_or_else(|| Digest::of(component), |(_, digest)| *digest)
}

/// A component of this crate, and what it is prepared as.
#[derive(Debug)]
pub(crate) struct BuiltIn<P> {
    sandbox: Sandbox,
    bytes: &'static [u8],
    cache: Option<CompileCache>,
    prepare: fn(&Sandbox, &Component) -> wasmtime::Result<P>,
    loaded: Mutex<Option<P>>,
    /// The start of the thread that loads it.
    in_background: Once,
}

impl<P: Clone> BuiltIn<P> {
    pub(crate) fn new(
        sandbox: &Sandbox,
        bytes: &'static [u8],
        cache: Option<CompileCache>,
        prepare: fn(&Sandbox, &Component) -> wasmtime::Result<P>,
    ) -> Self {
        Self { sandbox: sandbox.clone(), bytes, cache, prepare, loaded: Mutex::default(), in_background: Once::new() }
    }

    /// Loads the component unless it is loaded. Blocks. After an error, the next call tries again.
    pub(crate) fn get(&self) -> Result<P, LoadError> {
        let mut loaded = self.loaded.lock();
        if let Some(prepared) = &*loaded {
            return Ok(prepared.clone());
        }
        let component = compile_built_in(&self.sandbox, self.bytes, self.cache.as_ref());
        let prepared = component.and_then(|component| (self.prepare)(&self.sandbox, &component));
        let prepared = prepared.map_err(|error| LoadError::Compile(format!("{error:#}")))?;
        Ok(loaded.insert(prepared).clone())
    }
}

impl<P: Clone + Send + 'static> BuiltIn<P> {
    /// Has another thread load the component, once. Without a thread, or after an error, [`BuiltIn::get`] loads it.
    pub(crate) fn get_in_background(this: &Arc<Self>) {
        this.in_background.call_once(|| {
            let this = Arc::clone(this);
            let _ = thread::Builder::new().name("lro-load".into()).spawn(move || drop(this.get()));
        });
    }
}

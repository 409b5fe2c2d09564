//! Components of this crate in machine code that was made before the crate was built, so that the first start on a machine
//! compiles nothing. Packages of the command have it; another build compiles when it first needs a component.
//!
//! A file is the digest of a component and its code. wasmtime loads the code only if its own version, the settings of the
//! engine and the features of the processor fit; otherwise the component is compiled, like any other.

use wasmtime::Engine;
use wasmtime::component::Component;

use super::{Digest, LoadError, code};
use crate::sandbox::engine_for;

/// The files of the directory that `LRO_COMPILED` named when this crate was built; none without it.
static FILES: &[&[u8]] = include!(concat!(env!("OUT_DIR"), "/compiled.rs"));

/// Loads the code of a component, if this crate has it and it fits here.
pub(super) fn load(engine: &Engine, digest: &Digest) -> Option<Component> {
    let code = FILES.iter().find_map(|file| file.strip_prefix(&digest.0))?;
    let loaded = code::load(engine, code);
    loaded.inspect_err(|error| tracing::debug!(%error, %digest, "compiled code does not fit here")).ok()
}

/// Compiles a component of this crate for machines of a target, such as `x86_64-unknown-linux-musl`: a file of the directory
/// that `LRO_COMPILED` names for a build.
///
/// On x86-64 the code needs a processor of level 3, which has AVX2.
///
/// # Errors
/// [`LoadError::Compile`] when wasmtime was built without a compiler for the target, which the feature `all-processors` brings, or the
/// component does not compile.
pub fn compile_ahead(component: &[u8], target: &str) -> Result<Vec<u8>, LoadError> {
    let code = engine_for(target).and_then(|engine| engine.precompile_component(component));
    let code = code.map_err(|error| LoadError::Compile(format!("for {target}: {error:#}")))?;
    Ok([&Digest::of(component).0, code.as_slice()].concat())
}

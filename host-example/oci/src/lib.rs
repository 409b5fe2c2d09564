//! WebAssembly components in OCI registries.
//!
//! A component is an artifact as the Cloud Native Computing Foundation lays it out and as `wkg` makes it: a manifest of
//! the type [`MANIFEST`], its configuration of the type [`CONFIG`], and one layer of the type [`LAYER`], the component.
//! A minisign signature is in the annotation [`SIGNATURE`] of the manifest.
//!
//! | type | purpose |
//! |---|---|
//! | [`Reference`] | the name of an artifact, `oci://HOST[:PORT]/NAME[:TAG][@sha256:DIGEST]` |
//! | [`Registries`] | pulls and pushes artifacts over the distribution API |
//! | [`Credentials`] | user names and passwords, by registry |
//!
//! Nothing that a registry sends is taken before its digest is checked. Plain HTTP is spoken to this machine alone, and
//! to hosts that are named. Nothing here limits time: drop a future to end it.

mod access;
mod component;
mod credentials;
mod error;
mod manifest;
mod reference;
mod registries;

pub use credentials::{Credentials, CredentialsError};
pub use error::{Error, Step};
pub use manifest::{CONFIG, LAYER, MANIFEST, MANIFEST_BYTES_MAX, SIGNATURE};
pub use reference::{Digest, ParseReferenceError, Reference, SCHEME};
pub use registries::{Artifact, Registries};

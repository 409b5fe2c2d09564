//! Manifests, and the configuration beside a component.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::component::Interfaces;
use crate::reference::Digest;

/// Media type of a manifest.
pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Media type of the configuration beside a component.
pub const CONFIG: &str = "application/vnd.wasm.config.v0+json";

/// Media type of a component.
pub const LAYER: &str = "application/wasm";

/// Annotation of a manifest with the minisign signature of its component, the whole text of a `.minisig` file.
pub const SIGNATURE: &str = "io.github.lro-filter.minisig";

/// Maximum size of a manifest: 1 MiB.
pub const MANIFEST_BYTES_MAX: u64 = 1 << 20;

/// What a manifest says of a blob.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    pub(crate) media_type: String,
    pub(crate) digest: Digest,
    /// In bytes.
    pub(crate) size: u64,
}

impl Descriptor {
    pub(crate) fn of(media_type: &str, bytes: &[u8]) -> Self {
        Self { media_type: media_type.to_owned(), digest: Digest::of(bytes), size: bytes.len() as u64 }
    }
}

/// A manifest.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    pub(crate) schema_version: u32,
    pub(crate) media_type: Option<String>,
    pub(crate) config: Descriptor,
    pub(crate) layers: Vec<Descriptor>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
}

/// The configuration of a component. The same component always has the same one, so that its manifest, too, has the same
/// digest wherever it is pushed.
pub(crate) fn configuration(layer: &Descriptor, interfaces: &Interfaces) -> Vec<u8> {
    let Interfaces { imports, exports } = interfaces;
    let value = json!({
        "created": "1970-01-01T00:00:00Z",
        "architecture": "wasm",
        "os": "wasip2",
        "layerDigests": [layer.digest],
        "component": { "exports": exports, "imports": imports, "target": null },
    });
    value.to_string().into_bytes()
}

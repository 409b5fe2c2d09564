//! Pulling and pushing.

use std::collections::BTreeMap;

use reqwest::header::{ACCEPT, CONTENT_TYPE, LOCATION};
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::access::{Access, printable};
use crate::component::Interfaces;
use crate::credentials::Credentials;
use crate::error::{Error, Step};
use crate::manifest::{self, CONFIG, Descriptor, LAYER, MANIFEST, MANIFEST_BYTES_MAX, Manifest, SIGNATURE};
use crate::reference::{Digest, Reference};

/// What is asked for. With more types than are taken, a registry says what it has, instead of that it has nothing.
const ACCEPTED: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, \
    application/vnd.docker.distribution.manifest.v2+json, application/vnd.docker.distribution.manifest.list.v2+json";

/// How registries are spoken to.
#[derive(Clone, Debug, Default)]
pub struct Registries {
    /// User names and passwords.
    pub credentials: Credentials,
    /// Registries, as `HOST` or `HOST:PORT`, that are spoken to without TLS. Those on this machine always are.
    pub plain_http: Vec<String>,
}

/// A component in a registry, found by its manifest.
pub struct Artifact {
    /// SHA-256 of the manifest.
    pub digest: Digest,
    /// SHA-256 of the component.
    pub component: Digest,
    /// Size of the component in bytes.
    pub bytes: u64,
    /// Its minisign signature, which nobody has checked.
    pub signature: Option<String>,
    access: Access,
}

impl Registries {
    /// Gets the manifest of an artifact.
    ///
    /// # Errors
    /// When the registry does not give it, when it does not have the digest of the reference, or when it is not that of a
    /// component.
    pub async fn resolve(&self, reference: &Reference) -> Result<Artifact, Error> {
        let mut access = Access::new(reference, self)?;
        let url = access.url(&format!("manifests/{}", reference.version()))?;
        let response = access.send(Method::GET, &url, |request| request.header(ACCEPT, ACCEPTED)).await?;
        let response = access.expect(response, Step::Manifest, || "such artifact".to_owned())?;
        let declared = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let bytes = access.read(response, MANIFEST_BYTES_MAX).await?;
        let digest = Digest::of(&bytes);
        if let Some(expected) = reference.digest.filter(|expected| *expected != digest) {
            return Err(Error::Digest { expected, found: digest });
        }
        let (layer, signature) = component_of(&bytes, declared, &access)?;
        Ok(Artifact { digest, component: layer.digest, bytes: layer.size, signature, access })
    }

    /// Pushes a component and its minisign signature, if it has one, under the tag of the reference. Returns the digest of
    /// the manifest, which is the same wherever the same component with the same signature is pushed.
    ///
    /// # Errors
    /// When the bytes are not a component, the reference has a digest, or the registry does not take it.
    pub async fn push(
        &self,
        reference: &Reference,
        component: &[u8],
        signature: Option<&str>,
    ) -> Result<Digest, Error> {
        if reference.digest.is_some() {
            return Err(Error::PushDigest);
        }
        let interfaces = Interfaces::of(component).map_err(Error::Push)?;
        let mut access = Access::new(reference, self)?;
        let layer = Descriptor::of(LAYER, component);
        let configuration = manifest::configuration(&layer, &interfaces);
        let annotations = signature.map(|text| (SIGNATURE.to_owned(), text.to_owned()));
        let manifest = Manifest {
            schema_version: 2,
            media_type: Some(MANIFEST.to_owned()),
            config: Descriptor::of(CONFIG, &configuration),
            layers: vec![layer],
            annotations: annotations.into_iter().collect::<BTreeMap<_, _>>(),
        };
        let text = serde_json::to_vec(&manifest).map_err(|error| Error::Push(error.to_string()))?;
        for bytes in [component, &configuration] {
            upload(&mut access, bytes).await?;
        }
        let url = access.url(&format!("manifests/{}", reference.version()))?;
        let with = |request: reqwest::RequestBuilder| request.header(CONTENT_TYPE, MANIFEST).body(text.clone());
        let response = access.send(Method::PUT, &url, with).await?;
        access.expect(response, Step::Manifest, || "place for this name".to_owned())?;
        Ok(Digest::of(&text))
    }
}

impl Artifact {
    /// Gets the component. It is hashed while it arrives, and nothing beyond its size is read.
    ///
    /// # Errors
    /// When it has more than `bytes_max` bytes, does not arrive whole, or does not have its digest.
    pub async fn download(mut self, bytes_max: u64) -> Result<Vec<u8>, Error> {
        if self.bytes > bytes_max {
            return Err(Error::TooLarge { limit: bytes_max, found: Some(self.bytes) });
        }
        let url = self.access.url(&format!("blobs/{}", self.component))?;
        let response = self.access.send(Method::GET, &url, |request| request).await?;
        let response = self.access.expect(response, Step::Blob, || format!("component {}", self.component))?;
        let (mut bytes, mut hash) = (Vec::new(), Sha256::new());
        let (access, size) = (&self.access, self.bytes);
        access
            .stream(response, |chunk| {
                if (bytes.len() + chunk.len()) as u64 > size {
                    return Err(access.invalid(&format!("it sends more than the {size} bytes of the manifest")));
                }
                hash.update(chunk);
                bytes.extend_from_slice(chunk);
                Ok(())
            })
            .await?;
        let (expected, found) = (self.component, Digest(hash.finalize().into()));
        if found != expected {
            return Err(Error::Digest { expected, found });
        }
        Ok(bytes)
    }
}

impl std::fmt::Debug for Artifact {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { digest, component, bytes, .. } = self;
        let mut shown = formatter.debug_struct("Artifact");
        shown.field("digest", digest).field("component", component).field("bytes", bytes).finish_non_exhaustive()
    }
}

/// The layer and the signature of a manifest, which must be that of a component.
fn component_of(
    bytes: &[u8],
    declared: Option<String>,
    access: &Access,
) -> Result<(Descriptor, Option<String>), Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Kind {
        media_type: Option<String>,
    }
    let other = |found: String| Err(Error::NotAComponent { found });
    let kind: Kind = serde_json::from_slice(bytes).map_err(|_| access.invalid("the manifest is not a JSON object"))?;
    match kind.media_type.or(declared) {
        Some(kind) if kind == MANIFEST => {}
        kind => return other(format!("`{}`", printable(&kind.unwrap_or_default()))),
    }
    let wrong =
        |error: serde_json::Error| access.invalid(&format!("the manifest is wrong: {}", printable(&error.to_string())));
    let mut manifest: Manifest = serde_json::from_slice(bytes).map_err(wrong)?;
    if manifest.config.media_type != CONFIG {
        return other(format!("an artifact with the configuration `{}`", printable(&manifest.config.media_type)));
    }
    let signature = manifest.annotations.remove(SIGNATURE);
    let layers = manifest.layers.len();
    match manifest.layers.pop() {
        Some(layer) if layers == 1 && layer.media_type == LAYER => Ok((layer, signature)),
        Some(layer) if layers == 1 => other(format!("an artifact with the layer `{}`", printable(&layer.media_type))),
        _ => Err(Error::Layers(layers)),
    }
}

/// Stores a blob, unless the registry has it.
async fn upload(access: &mut Access, bytes: &[u8]) -> Result<(), Error> {
    let digest = Digest::of(bytes);
    let url = access.url(&format!("blobs/{digest}"))?;
    // Registries may ask for more rights for what follows, so a refusal is not the end.
    if access.send(Method::HEAD, &url, |request| request).await?.status() == StatusCode::OK {
        return Ok(());
    }
    access.forget();
    let url = access.url("blobs/uploads/")?;
    let begun = access.send(Method::POST, &url, |request| request.body("")).await?;
    let begun = access.expect(begun, Step::Blob, || "place for this name".to_owned())?;
    let location = begun.headers().get(LOCATION).and_then(|location| location.to_str().ok()).unwrap_or_default();
    let mut url = access.url(location)?;
    url.query_pairs_mut().append_pair("digest", &digest.to_string());
    let bytes = bytes.to_vec();
    let with =
        |request: reqwest::RequestBuilder| request.header(CONTENT_TYPE, "application/octet-stream").body(bytes.clone());
    let stored = access.send(Method::PUT, &url, with).await?;
    access.expect(stored, Step::Blob, || "upload that it began".to_owned()).map(drop)
}

//! The bytes of a policy and its signature, read once, so that the checked bytes are the compiled ones.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use lro_system::files::open_without_waiting;
use minisign_verify::Signature;

use super::{Claims, LoadError, LoadOptions};
use crate::faults::fail_point;

/// Maximum size of a signature file: 4 KiB. A typical one has 0.3 KiB.
pub const SIGNATURE_BYTES_MAX: u64 = 4 << 10;

/// Suffix that turns the path of a policy into that of its signature.
pub const SIGNATURE_SUFFIX: &str = ".minisig";

/// A component and its signature.
#[derive(Clone, Debug)]
pub struct Source {
    /// The component.
    pub bytes: Vec<u8>,
    /// Its detached signature in the format of `minisign` and `rsign2`.
    pub signature: Option<String>,
}

impl Source {
    /// Reads a component of at most `bytes_max` bytes, and the signature beside it: the path with [`SIGNATURE_SUFFIX`].
    ///
    /// Follows symbolic links, because Kubernetes volumes consist of them.
    ///
    /// # Errors
    /// When the component cannot be read, is not a regular file, or is too large, or when an existing signature cannot
    /// be read.
    pub fn read(path: &Path, bytes_max: u64) -> Result<Self, LoadError> {
        // Read the signature first: a writer that replaces both writes it last, so a new signature never meets an old
        // component.
        let signature = match read_file(&signature_path(path), SIGNATURE_BYTES_MAX) {
            Ok(text) => Some(String::from_utf8_lossy(&text).into_owned()),
            Err(LoadError::Read { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        Ok(Self { bytes: read_file(path, bytes_max)?, signature })
    }

    /// Checks that one of the keys signed the component, and that the signature is for this tenant and this time. Legacy
    /// signatures, which are not prehashed, are rejected.
    pub(super) fn check_signature(&self, options: &LoadOptions) -> Result<Claims, LoadError> {
        let text = self.signature.as_deref().ok_or(LoadError::Unsigned)?;
        let refused = |error: minisign_verify::Error| LoadError::Signature(error.to_string());
        let signature = Signature::decode(text).map_err(refused)?;
        let mut answer = Err(minisign_verify::Error::UnexpectedKeyId);
        for signer in &options.signers {
            answer = match signer.verify(&self.bytes, &signature, false) {
                Err(minisign_verify::Error::UnexpectedKeyId) => continue,
                answer => answer,
            };
            break;
        }
        answer.map_err(refused)?;
        let claims = Claims::parse(signature.trusted_comment())?;
        claims.check(options.tenant.as_deref(), SystemTime::now())?;
        Ok(claims)
    }
}

impl From<&[u8]> for Source {
    fn from(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec(), signature: None }
    }
}

/// Path of the signature of a policy.
pub(super) fn signature_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(SIGNATURE_SUFFIX);
    name.into()
}

fn read_file(path: &Path, bytes_max: u64) -> Result<Vec<u8>, LoadError> {
    let failed = |source| LoadError::Read { path: path.display().to_string(), source };
    let file = open_without_waiting(path).map_err(failed)?;
    fail_point!("policy::read", failed);
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(LoadError::NotAFile(path.display().to_string()));
    }
    let too_large = |found| LoadError::TooLarge { found, limit: bytes_max };
    if metadata.len() > bytes_max {
        return Err(too_large(metadata.len()));
    }
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes).map_err(failed)?;
    match bytes.len() as u64 {
        // The file grew during the read.
        found if found > bytes_max => Err(too_large(found)),
        _ => Ok(bytes),
    }
}

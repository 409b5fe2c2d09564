//! The bytes of a policy and its signature, read once: what is checked is what is compiled.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use minisign_verify::{PublicKey, Signature};

use super::{Digest, PolicyError};
use crate::faults::fail_point;

/// Largest signature file that is read: 4 KiB. One has about 0.3 KiB.
pub const SIGNATURE_BYTES_MAX: u64 = 4 << 10;

/// Added to the path of a policy, it gives that of its signature.
pub const SIGNATURE_SUFFIX: &str = ".minisig";

/// What a policy is loaded from.
#[derive(Clone, Debug)]
pub struct Source {
    /// The component.
    pub bytes: Vec<u8>,
    /// The text of its detached signature, as `minisign` and `rsign2` write it.
    pub signature: Option<String>,
}

impl Source {
    /// Reads a component of at most `bytes_max` bytes, and the signature beside it: the path with [`SIGNATURE_SUFFIX`].
    ///
    /// A symbolic link is followed, as the volumes of Kubernetes are made of them.
    ///
    /// # Errors
    /// When the component cannot be read, is not a regular file, or is too large; when there is a signature and it cannot
    /// be read.
    pub fn read(path: &Path, bytes_max: u64) -> Result<Self, PolicyError> {
        // The signature comes first: whoever replaces both writes it last, so a new one never meets an old component.
        let signature = match read_file(&signature_path(path), SIGNATURE_BYTES_MAX) {
            Ok(text) => Some(String::from_utf8_lossy(&text).into_owned()),
            Err(PolicyError::Read { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        Ok(Self { bytes: read_file(path, bytes_max)?, signature })
    }

    /// Checks that one of these keys signed the component. A signature of the legacy form, which is not prehashed, does not
    /// count.
    pub(super) fn check_signature(&self, signers: &[PublicKey]) -> Result<(), PolicyError> {
        let text = self.signature.as_deref().ok_or(PolicyError::Unsigned)?;
        let refused = |error: minisign_verify::Error| PolicyError::Signature(error.to_string());
        let signature = Signature::decode(text).map_err(refused)?;
        let mut answer = Err(minisign_verify::Error::UnexpectedKeyId);
        for signer in signers {
            answer = match signer.verify(&self.bytes, &signature, false) {
                Err(minisign_verify::Error::UnexpectedKeyId) => continue,
                answer => answer,
            };
            break;
        }
        answer.map_err(refused)
    }

    /// Tells two sources apart.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        (Digest::of(&self.bytes), self.signature.clone())
    }
}

impl From<&[u8]> for Source {
    fn from(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec(), signature: None }
    }
}

/// The digest of a component, and its signature.
pub(super) type Fingerprint = (Digest, Option<String>);

/// Where the signature of a policy lies.
pub(super) fn signature_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(SIGNATURE_SUFFIX);
    name.into()
}

fn read_file(path: &Path, bytes_max: u64) -> Result<Vec<u8>, PolicyError> {
    let failed = |source| PolicyError::Read { path: path.display().to_string(), source };
    // Without O_NONBLOCK a FIFO would wait for a writer.
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, rustix::fs::Mode::empty()).map_err(|error| failed(error.into()))?;
    let file = File::from(file);
    fail_point!("policy::read", failed);
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(PolicyError::NotAFile(path.display().to_string()));
    }
    let too_large = |found| PolicyError::TooLarge { found, limit: bytes_max };
    if metadata.len() > bytes_max {
        return Err(too_large(metadata.len()));
    }
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes).map_err(failed)?;
    match bytes.len() as u64 {
        // It grew while it was read.
        found if found > bytes_max => Err(too_large(found)),
        _ => Ok(bytes),
    }
}

//! Offloads as files to download: the proposal SEP-2631, "File Objects and Transfer", in its text of 2026-06-16.
//!
//! A digest of the proposal covers a whole file, that of a published JSONL file its records only. So the file of a section
//! of records is downloaded without its header line.

use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lro_mcp::{INTERNAL_ERROR, percent_decoded as decoded};
use serde_json::{Value, json};

use super::tools::{INVALID_PARAMS, ProtocolError, Tools, client_message};
use crate::read::{Ticket, TicketError};
use crate::store::{Digest, FileRecord, Offload, Reader, Section, StoreError, Ulid, rfc3339};

/// The beginning of the URIs of files: `mcp-file://lro-filter/OFFLOAD/FILE`.
pub const FILE_URI: &str = "mcp-file://lro-filter/";

/// A file to download, verified.
#[derive(Debug)]
pub struct Download {
    reader: Reader,
    /// Its name, of letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// Its media type, as the policy wrote it.
    pub media_type: String,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 of these bytes.
    pub sha256: Digest,
}

/// Why a file cannot be downloaded.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// The ticket is rejected.
    #[error(transparent)]
    Ticket(#[from] TicketError),
    /// The offload is gone, or its file has changed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Download {
    /// Reads `length` bytes from an offset on; fewer at the end. Blocks.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, StoreError> {
        self.reader.bytes(self.reader.record().digest_from.saturating_add(offset), length)
    }
}

impl Tools {
    /// Answers `files/authorizeDownload` for a tenant: the result as JSON, with an address that begins with `base` and
    /// is valid for `lifetime`, or until the offload expires. Blocks.
    ///
    /// # Errors
    /// When the URI is invalid, or its file does not exist.
    pub fn authorize_download(
        &self,
        tenant: &str,
        uri: &str,
        base: &str,
        lifetime: Duration,
    ) -> Result<String, ProtocolError> {
        let failed = |code| move |message: String| ProtocolError { code, message };
        let invalid =
            || failed(INVALID_PARAMS)(format!("`{uri}` is not the URI of a file: expected {FILE_URI}OFFLOAD/FILE"));
        let (id, name) = parts(uri).ok_or_else(invalid)?;
        let in_store = |error: &StoreError| failed(INVALID_PARAMS)(client_message(tenant, error));
        let offload = self.store().find(tenant, id).map_err(|error| in_store(&error))?;
        let found = offload.record().files.iter().enumerate().find(|(_, file)| file.name == name);
        let (number, file) = found.ok_or_else(invalid)?;
        let key = self.pages().key();
        let key = key.map_err(|error| failed(INTERNAL_ERROR)(client_message(tenant, &error)))?;
        let expires = (SystemTime::now() + lifetime).min(offload.expires());
        let ticket = Ticket {
            tenant: tenant.to_owned(),
            offload: id,
            file: u16::try_from(number).map_err(|_| invalid())?,
            expires,
        };
        let download = json!({
            "transport": "https",
            "method": "GET",
            "url": format!("{base}{}", key.sign_ticket(&ticket)),
            "expiresAt": rfc3339(expires),
        });
        Ok(json!({ "file": file_value(&offload, file), "download": download }).to_string())
    }

    /// Verifies a ticket.
    ///
    /// # Errors
    /// [`DownloadError`] if it is rejected, or the key cannot be read.
    pub fn ticket(&self, text: &str) -> Result<Ticket, DownloadError> {
        Ok(self.pages().key()?.open_ticket(text, SystemTime::now())?)
    }

    /// Opens the file of a ticket, and verifies it. Blocks, for as long as [`Reader::verify`].
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn download(&self, ticket: &Ticket) -> Result<Download, StoreError> {
        let offload = self.store().find(&ticket.tenant, ticket.offload)?;
        let missing = || StoreError::NotFound { path: offload.path().to_owned() };
        let file = offload.record().files.get(usize::from(ticket.file)).ok_or_else(missing)?;
        let sha256 = file.sha256.ok_or_else(missing)?;
        let reader = offload.open(&file.name)?;
        reader.verify()?;
        let (name, media_type) = (file.name.clone(), file.media_type.clone());
        Ok(Download { reader, name, media_type, bytes: size(file), sha256 })
    }
}

/// Content blocks with the files of an offload.
pub fn file_blocks(offload: &Offload) -> Vec<String> {
    let block = |file| json!({ "type": "file", "file": file_value(offload, file) }).to_string();
    offload.record().files.iter().map(block).collect()
}

fn file_value(offload: &Offload, file: &FileRecord) -> Value {
    let mut value = json!({
        "uri": format!("{FILE_URI}{}/{}", offload.id(), file.name),
        "name": file.name,
        "mimeType": file.media_type,
        "size": size(file),
    });
    if let Some(Digest(digest)) = file.sha256 {
        value["digest"] = json!({ "algorithm": "sha-256", "value": URL_SAFE_NO_PAD.encode(digest) });
    }
    value
}

/// The bytes that the digest covers.
fn size(file: &FileRecord) -> u64 {
    file.bytes.saturating_sub(file.digest_from)
}

fn parts(uri: &str) -> Option<(Ulid, String)> {
    let (offload, name) = uri.strip_prefix(FILE_URI)?.split_once('/')?;
    Some((offload.parse().ok()?, decoded(name)?))
}

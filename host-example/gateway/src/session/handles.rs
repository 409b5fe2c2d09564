//! Handle references, `lro://HANDLE/SECTION`, in the arguments of a call: the gateway replaces them by the data, which
//! bypasses the model.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use lro_host::mcp;
use lro_host::store::{FileKind, Offload, Reader, Section, StoreError, Ulid};
use lro_transport::{Spool, SpoolError};

use crate::session::Session;

/// Scheme of references, and of the URIs of the gateway's resources.
pub(crate) const SCHEME: &str = "lro://";

/// Bytes to read at a time; a multiple of 3, so that base64 has padding only at the end.
const SLICE_BYTES: usize = 3 << 16;

/// Why a reference could not be replaced.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandleError {
    #[error("`{0}` is not a reference to a section: expected lro://HANDLE/SECTION")]
    Malformed(String),
    #[error("cannot read `{reference}`: {}", source.for_client())]
    Store { reference: String, source: StoreError },
    #[error("there is no section `{0}`: use a name from the descriptor")]
    NoSection(String),
    #[error("the gateway has no store to read references from: see its log")]
    NoStore,
    #[error(transparent)]
    TooLarge(#[from] SpoolError),
    #[error("`{0}` is a part of a result whose end has not come: wait for its job, or pass the records that you read")]
    Incomplete(String),
    #[error("`{0}` is not UTF-8")]
    NotText(String),
}

/// Whether JSON text may contain a reference.
pub(crate) fn mentions(json: &str) -> bool {
    json.contains(SCHEME) || json.contains(r"lro:\/\/")
}

/// Whether the argument `handle` is a handle of this gateway.
pub(crate) fn knows(session: &Session, arguments: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Arguments {
        handle: String,
    }
    let handle = serde_json::from_str(arguments).ok().and_then(|Arguments { handle }| handle.parse::<Ulid>().ok());
    let store = session.rules.filter.store.as_ref().ok();
    let found = handle.zip(store).map(|(handle, store)| store.find(&session.owner.tenant, handle));
    matches!(found, Some(Ok(_) | Err(StoreError::Expired { .. })))
}

/// Replaces each argument that is a reference by its data: an array of the records, a string with the text, the value
/// itself, or a base64 string.
pub(crate) fn replaced(session: &Session, message: &mcp::Message) -> Result<Bytes, HandleError> {
    let strings = message.strings(&["params", "arguments"], |text| text.starts_with(SCHEME));
    let mut spool = Spool::new(session.rules.limits.clone());
    let bytes = message.bytes();
    let mut at = 0;
    for (span, reference) in strings {
        spool.push(bytes.get(at..span.start).unwrap_or_default())?;
        write(session, &reference, &mut spool)?;
        at = span.end;
    }
    spool.push(bytes.get(at..).unwrap_or_default())?;
    Ok(spool.finish()?)
}

fn write(session: &Session, reference: &str, spool: &mut Spool) -> Result<(), HandleError> {
    let malformed = || HandleError::Malformed(reference.to_owned());
    let (handle, section) =
        reference.strip_prefix(SCHEME).and_then(|rest| rest.split_once('/')).ok_or_else(malformed)?;
    let id: Ulid = handle.parse().map_err(|_| malformed())?;
    let failed = |source| HandleError::Store { reference: reference.to_owned(), source };
    let store = session.rules.filter.store.as_ref().map_err(|_| HandleError::NoStore)?;
    let offload = store.find(&session.owner.tenant, id).map_err(failed)?;
    if offload.growth().is_some() {
        return Err(HandleError::Incomplete(reference.to_owned()));
    }
    let reader =
        open(&offload, section).ok_or_else(|| HandleError::NoSection(reference.to_owned()))?.map_err(failed)?;
    reader.verify().map_err(failed)?;
    copy(&reader, spool, reference)
}

fn open(offload: &Offload, section: &str) -> Option<Result<Reader, StoreError>> {
    let name = offload.record().file(section)?.name.clone();
    Some(offload.open(&name))
}

/// Copies a section as one JSON value.
fn copy(reader: &Reader, spool: &mut Spool, reference: &str) -> Result<(), HandleError> {
    let record = reader.record();
    let (open, close): (&[u8], &[u8]) = match record.kind {
        FileKind::Records => (b"[", b"]"),
        FileKind::Text | FileKind::Bytes => (b"\"", b"\""),
        FileKind::Value => (b"", b""),
    };
    spool.push(open)?;
    // Skip the header line.
    let mut offset = if record.kind == FileKind::Records { record.digest_from } else { 0 };
    while offset < record.bytes {
        let failed = |source| HandleError::Store { reference: reference.to_owned(), source };
        let mut slice = reader.bytes(offset, SLICE_BYTES).map_err(failed)?;
        if record.kind == FileKind::Text {
            slice.truncate(whole_characters(&slice));
        }
        if slice.is_empty() {
            return Err(HandleError::NotText(reference.to_owned()));
        }
        offset += slice.len() as u64;
        let is_last = offset >= record.bytes;
        match record.kind {
            FileKind::Records => {
                if is_last && slice.last() == Some(&b'\n') {
                    slice.pop();
                }
                slice.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b',');
                spool.push(&slice)?;
            }
            FileKind::Text => {
                let text = String::from_utf8(slice).map_err(|_| HandleError::NotText(reference.to_owned()))?;
                let quoted = serde_json::Value::from(text).to_string();
                spool.push(quoted.as_bytes().get(1..quoted.len() - 1).unwrap_or_default())?;
            }
            FileKind::Bytes => spool.push(STANDARD.encode(&slice).as_bytes())?,
            FileKind::Value => spool.push(&slice)?,
        }
    }
    Ok(spool.push(close)?)
}

/// The length of the text without an incomplete character at its end.
fn whole_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    }
}

//! The parts of the result, read in slices.

use std::sync::Arc;

use bytes::Bytes;
use lro_payload::{Part, PartKind, Payload, PayloadReader, ReadError};

use crate::bindings::exports::lro::filter0_1_0::types as v0_1;
use crate::bindings::exports::lro::filter0_2_0::types as newest;
use crate::{Results, Storage};

/// The parts, until the first of them is read.
#[derive(Default)]
pub(crate) struct ResultOfCall {
    parts: Vec<PartOfCall>,
    reader: Option<PayloadReader>,
}

struct PartOfCall {
    kind: newest::PartKind,
    media_type: Option<String>,
    name: Option<String>,
    bytes: Vec<u8>,
}

impl ResultOfCall {
    pub(crate) fn add_part(
        &mut self,
        kind: newest::PartKind,
        media_type: Option<String>,
        name: Option<String>,
        bytes: u64,
    ) {
        let bytes = Vec::with_capacity(usize::try_from(bytes).unwrap_or_default());
        self.parts.push(PartOfCall { kind, media_type, name, bytes });
    }

    /// Appends to the last part.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        if let Some(part) = self.parts.last_mut() {
            part.bytes.extend_from_slice(bytes);
        }
    }

    fn reader(&mut self) -> &mut PayloadReader {
        let Self { parts, reader } = self;
        reader.get_or_insert_with(|| {
            let parts = std::mem::take(parts).into_iter().map(PartOfCall::into_part).collect();
            PayloadReader::new(Arc::new(Payload::new(parts)))
        })
    }
}

impl PartOfCall {
    fn into_part(self) -> Part {
        let Self { kind, media_type, name, bytes } = self;
        let bytes = Bytes::from(bytes);
        // Every text came as a string.
        let mut part = match kind {
            newest::PartKind::Text => Part::checked_text(PartKind::Text, bytes),
            newest::PartKind::Structured => Part::checked_text(PartKind::Structured, bytes),
            newest::PartKind::Block => Part::checked_text(PartKind::Block, bytes),
            newest::PartKind::Meta => Part::checked_text(PartKind::Meta, bytes),
            newest::PartKind::Binary => Part::binary(bytes),
        };
        (part.media_type, part.name) = (media_type, name);
        part
    }
}

/// A handle of the result. There is one result, whatever the handle.
pub struct Handle<S>(pub(crate) std::marker::PhantomData<S>);

/// The resource `tool-result` of one version of the contract.
macro_rules! tool_result {
    ($version:ident, |$part:ident| $of_version:expr) => {
        impl<S: Storage> $version::Guest for Results<S> {
            type ToolResult = Handle<S>;
        }

        impl<S: Storage> $version::GuestToolResult for Handle<S> {
            fn parts(&self) -> Vec<$version::Part> {
                let of_version = |$part: &Part| {
                    let kind = match $part.kind {
                        PartKind::Text => $version::PartKind::Text,
                        PartKind::Structured => $version::PartKind::Structured,
                        PartKind::Binary => $version::PartKind::Binary,
                        PartKind::Block => $version::PartKind::Block,
                        PartKind::Meta => $version::PartKind::Meta,
                    };
                    let (media_type, name) = ($part.media_type.clone(), $part.name.clone());
                    $version::Part { kind, media_type, name, ..$of_version }
                };
                S::with(|state| state.result.reader().payload().parts().iter().map(of_version).collect())
            }

            fn read_text(&self, part: u32, offset: u64, length: u32) -> Result<String, $version::ReadError> {
                let read = S::with(|state| state.result.reader().read_text(part, offset, length));
                read.map_err(Into::into)
            }

            fn read_bytes(&self, part: u32, offset: u64, length: u32) -> Result<Vec<u8>, $version::ReadError> {
                let read = S::with(|state| state.result.reader().read_bytes(part, offset, length));
                read.map_err(Into::into)
            }
        }

        impl From<ReadError> for $version::ReadError {
            fn from(error: ReadError) -> Self {
                match error {
                    ReadError::NoSuchPart => Self::NoSuchPart,
                    ReadError::WrongKind => Self::WrongKind,
                    ReadError::InsideCharacter(start) => Self::InsideCharacter(start),
                    ReadError::Undecodable(_) => Self::Failed(error.to_string()),
                }
            }
        }
    };
}

tool_result!(newest, |part| newest::Part {
    kind: newest::PartKind::Text,
    media_type: None,
    name: None,
    size: part.size(),
    complete: true,
});
tool_result!(v0_1, |part| v0_1::Part { kind: v0_1::PartKind::Text, media_type: None, name: None, size: part.size() });

//! The parts of the result, read in slices.

use bytes::Bytes;
use lro_mcp::{ParseError, ToolResult};
use lro_payload::{Part, PartKind, PayloadReader, ReadError};

use crate::bindings::exports::lro::filter0_1_0::types as v0_1;
use crate::bindings::exports::lro::filter0_2_0::types as newest;
use crate::{Results, Storage};

/// The result of the call under way, with the reader of its parts.
#[derive(Default)]
pub(crate) struct ResultOfCall(Option<(ToolResult, PayloadReader)>);

impl ResultOfCall {
    /// Takes a message apart.
    pub(crate) fn parse(message: Bytes) -> Result<Self, ParseError> {
        let result = ToolResult::parse(message)?;
        let reader = PayloadReader::new(result.payload().clone());
        Ok(Self(Some((result, reader))))
    }

    /// The result; `None` when its message was released.
    pub(crate) fn get(&self) -> Option<&ToolResult> {
        self.0.as_ref().map(|(result, _)| result)
    }

    /// Releases the message, if the result is of it.
    pub(crate) fn release(&mut self, message: &Bytes) {
        self.0.take_if(|(result, _)| result.pass().as_ptr() == message.as_ptr());
    }

    fn parts(&self) -> &[Part] {
        self.get().map(|result| result.payload().parts()).unwrap_or_default()
    }

    fn read<T>(&mut self, read: impl FnOnce(&mut PayloadReader) -> Result<T, ReadError>) -> Result<T, ReadError> {
        let (_, reader) = self.0.as_mut().ok_or(ReadError::NoSuchPart)?;
        read(reader)
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
                S::with(|state| state.result.parts().iter().map(of_version).collect())
            }

            fn read_text(&self, part: u32, offset: u64, length: u32) -> Result<String, $version::ReadError> {
                let read = S::with(|state| state.result.read(|reader| reader.read_text(part, offset, length)));
                read.map_err(Into::into)
            }

            fn read_bytes(&self, part: u32, offset: u64, length: u32) -> Result<Vec<u8>, $version::ReadError> {
                let read = S::with(|state| state.result.read(|reader| reader.read_bytes(part, offset, length)));
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

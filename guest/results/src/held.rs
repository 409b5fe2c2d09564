//! What the adapter asks for.

use std::marker::PhantomData;

use crate::bindings::exports::lro::adapter::held::{Bounds, CloseError, PartKind, Written};
use crate::bindings::exports::lro::adapter::{files, held, held_v0_1};
use crate::bindings::exports::lro::filter0_1_0::types as v0_1;
use crate::bindings::exports::lro::filter0_2_0::types as newest;
use crate::directory::Directory;
use crate::result::{Handle, ResultOfCall};
use crate::{Results, Storage};

/// Maximum bytes of one read.
const READ_BYTES_MAX: u32 = 1 << 20;

impl<S: Storage> held::Guest for Results<S> {
    fn begin(bounds: Bounds) {
        S::with(|state| {
            state.result = ResultOfCall::default();
            state.directory = Directory::new(bounds);
            state.random = 0;
        });
    }

    fn add_part(kind: PartKind, media_type: Option<String>, name: Option<String>, bytes: u64) {
        S::with(|state| state.result.add_part(kind, media_type, name, bytes));
    }

    fn append_text(text: String) {
        S::with(|state| state.result.append(text.as_bytes()));
    }

    fn append_bytes(bytes: Vec<u8>) {
        S::with(|state| state.result.append(&bytes));
    }

    fn handle() -> newest::ToolResult {
        newest::ToolResult::new(Handle::<S>(PhantomData))
    }

    fn open() -> Result<(), String> {
        S::with(|state| state.directory.open())
    }

    fn close() -> Result<Vec<Written>, CloseError> {
        let files = S::with(|state| state.directory.close())?;
        let written = files.into_iter().map(|(name, digest)| Written {
            name,
            bytes: digest.bytes,
            sha256: digest.sha256.0.to_vec(),
            xxh3: digest.xxh3.0,
            digest_from: digest.digest_from,
            lines: digest.lines,
            index: digest.index,
        });
        Ok(written.collect())
    }

    fn add_file(name: String, bytes: Vec<u8>) -> Result<(), String> {
        S::with(|state| state.directory.add(&name, bytes)).map_err(|code| format!("`{name}`: {code}"))
    }

    fn discard() {
        S::with(|state| state.directory.discard());
    }
}

impl<S: Storage> held_v0_1::Guest for Results<S> {
    fn handle() -> v0_1::ToolResult {
        v0_1::ToolResult::new(Handle::<S>(PhantomData))
    }
}

impl<S: Storage> files::Guest for Results<S> {
    fn read_file(name: String, offset: u64, length: u32) -> Option<Vec<u8>> {
        S::with(|state| {
            let file = state.directory.file(&name)?;
            state.directory.read(file, offset, length.min(READ_BYTES_MAX).into()).ok()
        })
    }
}

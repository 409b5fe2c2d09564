//! What the adapter asks for.

use std::marker::PhantomData;

use lro_contract::settings;
use lro_mcp::{Replacement, ToolResult, Truncation};

use crate::bindings::exports::lro::adapter::held::{Bounds, CloseError, Found, Size, Written};
use crate::bindings::exports::lro::adapter::{files, held, held_v01};
use crate::bindings::exports::lro::filter0_1_0::types as v0_1;
use crate::bindings::exports::lro::filter0_2_0::types as newest;
use crate::directory::Directory;
use crate::result::{Handle, ResultOfCall};
use crate::{Results, Storage};

/// Maximum bytes of one read.
const READ_BYTES_MAX: u32 = 1 << 20;

impl<S: Storage> held::Guest for Results<S> {
    fn begin(tool_result: u32, bounds: Bounds) -> Result<Found, String> {
        S::with(|state| {
            state.directory = Directory::new(bounds);
            state.random = 0;
            let message =
                state.messages.get(tool_result).ok_or_else(|| format!("there is no message {tool_result}"))?;
            state.result = ResultOfCall::parse(message).map_err(|error| error.to_string())?;
            let is = |of: fn(&ToolResult) -> bool| state.result.get().is_some_and(of);
            Ok(Found { is_error: is(ToolResult::is_error), not_for_policy: is(ToolResult::not_for_policy) })
        })
    }

    fn handle() -> newest::ToolResult {
        newest::ToolResult::new(Handle::<S>(PhantomData))
    }

    fn open(digests: bool) -> Result<(), String> {
        S::with(|state| state.directory.open(digests))
    }

    fn close() -> Result<Vec<Written>, CloseError> {
        let files = S::with(|state| state.directory.close())?;
        let written = files.into_iter().map(|(name, (summary, sha256))| Written {
            name,
            bytes: summary.bytes,
            sha256: sha256.map(|digest| digest.0.to_vec()),
            xxh3: summary.xxh3.0,
            digest_from: summary.digest_from,
            lines: summary.lines,
            index: summary.index,
        });
        Ok(written.collect())
    }

    fn add_file(name: String, bytes: Vec<u8>) -> Result<(), String> {
        S::with(|state| state.directory.add(&name, bytes)).map_err(|code| format!("`{name}`: {code}"))
    }

    fn discard() {
        S::with(|state| state.directory.discard());
    }

    fn rejected(text: String) -> String {
        in_place::<S>(|result| result.rejected(&text))
    }

    fn truncated(limit: Size, suffix: String, warning: String) -> String {
        let limit = settings::Size {
            amount: limit.amount,
            unit: match limit.unit {
                newest::SizeUnit::Bytes => settings::SizeUnit::Bytes,
                newest::SizeUnit::Characters => settings::SizeUnit::Characters,
                newest::SizeUnit::Tokens => settings::SizeUnit::Tokens,
            },
        };
        in_place::<S>(|result| result.truncated(&Truncation { limit, suffix: &suffix, warning: &warning }))
    }

    fn offloaded(descriptor: String, kept: Vec<bool>) -> String {
        let replacement = Replacement { descriptor: &descriptor, kept: &kept, ..Replacement::default() };
        in_place::<S>(|result| result.offloaded(&replacement))
    }
}

/// What goes on in place of the message of the call, which is UTF-8.
fn in_place<S: Storage>(replace: impl FnOnce(&ToolResult) -> Vec<u8>) -> String {
    let bytes = S::with(|state| state.result.get().map(replace)).unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

impl<S: Storage> held_v01::Guest for Results<S> {
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

//! A policy to start from: writes large texts to files, and shows the model where they are.
//!
//! This file has the two calls of the contract and the access to the host. The decisions are in [`policy`].

mod policy;

use bindings::exports::lro::filter::lro_filter::{Call, Descriptor, Guest, Plan, PolicyError, ToolResult, Verdict};
use bindings::wasi::filesystem::preopens::get_directories;
use bindings::wasi::filesystem::types::{Descriptor as File, DescriptorFlags, ErrorCode, OpenFlags, PathFlags};
use policy::{Directory, Source};

/// Rust types of the WIT files.
mod bindings {
    wit_bindgen::generate!({ path: "wit", world: "lro-policy", generate_all });
}

/// Bytes read at a time.
const SLICE_BYTES: u32 = 256 * 1024;

struct Policy;

#[cfg(target_family = "wasm")]
bindings::export!(Policy with_types_in bindings);

impl Guest for Policy {
    fn inspect_result(call: Call, payload: &ToolResult) -> Result<Verdict, PolicyError> {
        policy::inspect(&call, &payload.parts(), payload)
    }

    fn write_sections(call: Call, payload: &ToolResult, plan: Plan) -> Result<Descriptor, PolicyError> {
        let Some((directory, _)) = get_directories().into_iter().next() else {
            return Err(PolicyError::Io("no directory is preopened".to_owned()));
        };
        policy::write(&call, &payload.parts(), &plan, payload, &mut Preopened { directory, file: None })
    }
}

impl Source for ToolResult {
    fn read(&self, part: u32, offset: u64) -> Result<String, PolicyError> {
        self.read_text(part, offset, SLICE_BYTES).map_err(PolicyError::Read)
    }
}

/// The only directory a policy may write to, and the file being written.
struct Preopened {
    directory: File,
    file: Option<File>,
}

impl Directory for Preopened {
    fn create(&mut self, name: &str) -> Result<(), PolicyError> {
        let flags = OpenFlags::CREATE | OpenFlags::EXCLUSIVE;
        self.file =
            Some(self.directory.open_at(PathFlags::empty(), name, flags, DescriptorFlags::WRITE).map_err(failed)?);
        Ok(())
    }

    fn write(&mut self, mut bytes: &[u8], mut offset: u64) -> Result<(), PolicyError> {
        let Some(file) = &self.file else {
            return Err(PolicyError::Other("written before it was created".to_owned()));
        };
        while !bytes.is_empty() {
            // A host may write fewer bytes than requested.
            let written = file.write(bytes, offset).map_err(failed)?;
            let rest =
                usize::try_from(written).ok().filter(|written| *written > 0).and_then(|written| bytes.get(written..));
            let wrong = || PolicyError::Io(format!("{written} bytes of {} were written", bytes.len()));
            bytes = rest.ok_or_else(wrong)?;
            offset += written;
        }
        Ok(())
    }
}

fn failed(code: ErrorCode) -> PolicyError {
    match code {
        ErrorCode::InsufficientSpace | ErrorCode::Quota | ErrorCode::FileTooLarge => PolicyError::NoSpace,
        other => PolicyError::Io(other.message().to_owned()),
    }
}

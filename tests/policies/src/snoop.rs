//! Searches its memory and its directory for data of others.

use std::collections::BTreeSet;
use std::hint::black_box;

use crate::answer;
use crate::bindings::lro::filter::types::ToolResult;
use crate::bindings::wasi::filesystem::types::{DescriptorFlags, OpenFlags, PathFlags};
use crate::output::{Outcome, directory, failed, write};

/// The prefix of every secret, each byte reduced by one, so that the pattern itself is found nowhere.
const PREFIX_LESS_ONE: &[u8] = b"RDBQDS,";

/// Bytes of a secret: its prefix, the tenant, a number.
const SECRET_BYTES: usize = 20;

/// Memory filled with the secret, and grown by to search.
const FILLED_BYTES: usize = 2 << 20;

/// Fills its memory and a file with the result, which is a secret.
pub(crate) fn plant(payload: &ToolResult) -> Outcome {
    let secret = payload.read_text(0, 0, 1 << 16).unwrap_or_default();
    black_box(secret.repeat(FILLED_BYTES / secret.len().max(1)));
    Ok(answer("{}".to_owned(), vec![write("secret.txt", &secret)?]))
}

/// Reports every secret in its memory, in new memory, and in files that it can open by any name of another tenant.
#[expect(unsafe_code, reason = "no safe reference reaches memory that was never allocated")]
pub(crate) fn search(payload: &ToolResult) -> Outcome {
    let own = payload.read_text(0, 0, 1 << 16).unwrap_or_default();
    core::arch::wasm32::memory_grow::<0>(FILLED_BYTES / 65536);
    let mut found = BTreeSet::new();
    let bytes = core::arch::wasm32::memory_size::<0>() * 65536;
    // SAFETY: the range is memory of this instance; the first page is skipped, so that the address is not null.
    let memory = unsafe { std::slice::from_raw_parts(65536 as *const u8, bytes - 65536) };
    collect(memory, &mut found);
    let directory = directory()?;
    let listing = directory.read_directory().map_err(failed)?;
    while let Some(entry) = listing.read_directory_entry().map_err(failed)? {
        found.insert(format!("file {}", entry.name));
    }
    for name in ["secret.txt", "../secret.txt"] {
        let file = directory.open_at(PathFlags::SYMLINK_FOLLOW, name, OpenFlags::empty(), DescriptorFlags::READ);
        if let Ok((bytes, _)) = file.and_then(|file| file.read(1 << 16, 0)) {
            collect(&bytes, &mut found);
        }
    }
    found.remove(&own);
    let found: Vec<_> = found.into_iter().collect();
    Ok(answer(format!("{{\"found\":{found:?}}}"), Vec::new()))
}

fn collect(bytes: &[u8], found: &mut BTreeSet<String>) {
    let is_secret = |window: &&[u8]| window.iter().zip(PREFIX_LESS_ONE).all(|(byte, less)| *byte == *less + 1);
    for secret in bytes.windows(SECRET_BYTES).filter(is_secret) {
        found.insert(String::from_utf8_lossy(secret).into_owned());
    }
}

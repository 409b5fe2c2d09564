//! Exhausts the limits of a call.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::bindings::exports::lro::filter::lro_filter::{Descriptor, PolicyError};
use crate::bindings::lro::filter::types::{ReadError, ToolResult};
use crate::bindings::wasi::filesystem::preopens::get_directories;

/// Bytes allocated at a time: small enough to get close to the limit.
const MEMORY_STEP_BYTES: usize = 1 << 20;

/// Calls of this instance.
static CALLS: AtomicU64 = AtomicU64::new(0);

pub(crate) fn endlessly() -> ! {
    let mut turns = 0_u64;
    loop {
        turns = black_box(turns.wrapping_add(1));
    }
}

/// Spends its time inside the host.
pub(crate) fn read_endlessly(payload: &ToolResult) -> ! {
    loop {
        let _ = black_box(payload.read_text(0, 0, u32::MAX));
    }
}

/// Reads the result byte by byte, repeatedly.
pub(crate) fn read_bytewise(payload: &ToolResult) -> ! {
    loop {
        let mut offset = 0;
        while payload.read_text(0, offset, 1).is_ok_and(|text| !black_box(text).is_empty()) {
            offset += 1;
        }
    }
}

/// Reads beyond the end of a part and of the list of parts. Reports `true` for each answer that is as promised.
pub(crate) fn read_past_the_end(payload: &ToolResult) -> Result<Descriptor, PolicyError> {
    let size = payload.parts()[0].size;
    let empty = |offset| payload.read_text(0, offset, u32::MAX).is_ok_and(|text| text.is_empty());
    let absent = |part| matches!(payload.read_text(part, 0, 1), Err(ReadError::NoSuchPart));
    let told = [empty(size), empty(size + 1), empty(u64::MAX), absent(1), absent(u32::MAX)];
    Ok(crate::answer(format!("{{\"told\":{told:?}}}"), Vec::new()))
}

/// Syncs to the disk repeatedly.
pub(crate) fn sync_endlessly() -> ! {
    let directories = get_directories();
    loop {
        for (directory, _) in &directories {
            let _ = black_box(directory.sync());
        }
    }
}

/// Lists its directory repeatedly.
pub(crate) fn list_endlessly() -> ! {
    let directories = get_directories();
    loop {
        for (directory, _) in &directories {
            let _ = black_box(directory.read_directory().map(drop));
        }
    }
}

pub(crate) fn memory() -> ! {
    let mut held: Vec<Vec<u8>> = Vec::new();
    loop {
        held.push(black_box(vec![1; MEMORY_STEP_BYTES]));
    }
}

pub(crate) fn stack() -> ! {
    trap_with(deeper(1))
}

/// Not a tail call: the sum needs the frame.
fn deeper(depth: u64) -> u64 {
    let frame = black_box([depth; 64]);
    let below = if black_box(depth) == 0 { 0 } else { deeper(black_box(depth + 1)) };
    below + frame.iter().sum::<u64>()
}

pub(crate) fn trap() -> ! {
    trap_with(0)
}

fn trap_with(value: u64) -> ! {
    black_box(value);
    std::process::abort()
}

/// The number of calls of this instance, and a report of it.
pub(crate) fn remember() -> (u64, Descriptor) {
    let calls = CALLS.fetch_add(1, Ordering::Relaxed) + 1;
    (calls, crate::answer(format!("{{\"calls\":{calls}}}"), Vec::new()))
}

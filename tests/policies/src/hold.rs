//! Opens too many handles, keeps them, or forges them.

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::bindings::exports::lro::filter::lro_filter::{Descriptor as Answer, PolicyError};
use crate::bindings::lro::filter::types::ToolResult;
use crate::bindings::wasi::filesystem::preopens::get_directories;
use crate::bindings::wasi::filesystem::types::{Descriptor, OpenFlags};
use crate::output::{Outcome, create, directory, failed, open};
use crate::{answer, file};

/// The handle of an earlier call.
static KEPT: AtomicU32 = AtomicU32::new(0);

/// Opens one file repeatedly and never closes it.
pub(crate) fn files(amount: usize) -> Outcome {
    let directory = directory()?;
    create(&directory, "one.txt").map(drop).map_err(failed)?;
    let opened: Result<Vec<_>, _> = (0..amount).map(|_| open(&directory, "one.txt", OpenFlags::empty())).collect();
    told(opened?.len())
}

/// Opens and closes one file repeatedly, which is allowed without limit.
pub(crate) fn open_and_close(amount: usize) -> Outcome {
    let directory = directory()?;
    create(&directory, "one.txt").map(drop).map_err(failed)?;
    for _ in 0..amount {
        drop(open(&directory, "one.txt", OpenFlags::empty())?);
        drop(get_directories());
        drop(directory.read_directory().map_err(failed)?);
    }
    Ok(answer("{}".to_owned(), vec![file("one.txt", 0)]))
}

pub(crate) fn listings(amount: usize) -> Outcome {
    let directory = directory()?;
    let listings: Result<Vec<_>, _> = (0..amount).map(|_| directory.read_directory().map_err(failed)).collect();
    told(listings?.len())
}

pub(crate) fn directories(amount: usize) -> Outcome {
    told((0..amount).map(|_| get_directories()).collect::<Vec<_>>().len())
}

fn told(held: usize) -> Outcome {
    Ok(answer(format!("{{\"held\":{held}}}"), Vec::new()))
}

/// Keeps a handle for a later call.
pub(crate) fn keep(payload: &ToolResult) {
    KEPT.store(payload.handle(), Ordering::Relaxed);
}

/// Uses the handle of an earlier call, or reports that there is none.
pub(crate) fn kept() -> Outcome {
    match KEPT.load(Ordering::Relaxed) {
        0 => Err(PolicyError::Other("nothing was kept".to_owned())),
        handle => forged(handle as usize),
    }
}

/// Uses a forged handle.
#[expect(unsafe_code, reason = "bindings make handles of numbers only where it is unsafe")]
pub(crate) fn forged(handle: usize) -> Result<Answer, PolicyError> {
    // SAFETY: the host checks every handle, which is under test; it is never dropped here.
    let descriptor = unsafe { ManuallyDrop::new(Descriptor::from_handle(handle as u32)) };
    descriptor.write(b"forged", 0).map_err(failed)?;
    told(1)
}

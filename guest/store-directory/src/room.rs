//! Room: what has expired is removed, and the oldest offloads where new ones have no room.

use crate::bindings::exports::lro::http::store::Bounds;
use crate::bindings::wasi::clocks0_3_0::system_clock::now;
use crate::bindings::wasi::filesystem0_2_12::types::{Descriptor, DescriptorFlags, PathFlags};
use crate::bindings::wasi::random0_3_0::random::get_random_u64;
use crate::opened;

/// Age in seconds at which a staging directory is one of a call that was ended.
const STAGING_SECONDS: i64 = 600;

/// Beginning of the name of a staging directory; the time follows, in seconds since 1970, and a random number.
const STAGING: &str = ".staging-";

/// Beginning of the name of an offload that is being removed.
const REMOVING: &str = ".removing-";

/// Length of an id.
const ID_BYTES: usize = 26;

/// A name for a new staging directory.
pub(crate) fn staging_name() -> String {
    format!("{STAGING}{}-{:016x}", now().seconds, get_random_u64())
}

/// Removes the staging directories of calls that were ended.
pub(crate) fn sweep_staging(root: &Descriptor) {
    let oldest = now().seconds.saturating_sub(STAGING_SECONDS);
    let is_old = |name: &String| {
        let time =
            name.strip_prefix(STAGING).and_then(|rest| rest.split_once('-')).map(|(time, _)| time.parse::<i64>());
        time.is_some_and(|time| time.is_ok_and(|time| time < oldest))
    };
    names(root).iter().filter(|name| is_old(name)).for_each(|name| remove(root, name));
}

/// Makes room for the offload in a staging directory. The error is a sentence without its full stop.
pub(crate) fn made(root: &Descriptor, tenant: &str, staging: &str, bounds: &Bounds) -> Result<(), String> {
    let Bounds { oldest, bytes: bytes_max, offloads: offloads_max } = bounds;
    let needed = bytes(root, staging);
    if needed > *bytes_max {
        return Err(format!("the files have {needed} bytes, and the store holds {bytes_max}"));
    }
    let flags = DescriptorFlags::READ | DescriptorFlags::MUTATE_DIRECTORY;
    let directory = opened(root, tenant, flags)
        .map_err(|code| format!("the directory of the tenant `{tenant}` cannot be opened: {code}"))?;
    let names = names(&directory);
    // Another instance may have ended while it removed them.
    names.iter().filter(|name| name.starts_with(REMOVING)).for_each(|name| remove(&directory, name));
    let mut kept: Vec<(&String, u64)> = Vec::new();
    for name in names.iter().filter(|name| is_id(name)) {
        match name < oldest {
            true => withdraw(&directory, name),
            false => kept.push((name, bytes(&directory, name))),
        }
    }
    kept.sort();
    let mut held: u64 = kept.iter().map(|(_, bytes)| bytes).sum();
    let mut left = kept.len();
    for (name, bytes) in kept {
        if held + needed <= *bytes_max && left < *offloads_max as usize {
            break;
        }
        withdraw(&directory, name);
        held -= bytes;
        left -= 1;
    }
    Ok(())
}

/// Removes a directory and its files. The next sweep removes what this one cannot.
pub(crate) fn remove(parent: &Descriptor, name: &str) {
    let flags = DescriptorFlags::READ | DescriptorFlags::MUTATE_DIRECTORY;
    if let Ok(directory) = opened(parent, name, flags) {
        names(&directory).iter().for_each(|file| _ = directory.unlink_file_at(file));
    }
    let _ = parent.remove_directory_at(name);
}

/// Removes an offload: readers find all of it or nothing.
fn withdraw(directory: &Descriptor, name: &str) {
    let removing = format!("{REMOVING}{name}");
    if directory.rename_at(name, directory, &removing).is_ok() {
        remove(directory, &removing);
    }
}

/// Bytes of the files in a directory.
fn bytes(parent: &Descriptor, name: &str) -> u64 {
    let Ok(directory) = opened(parent, name, DescriptorFlags::READ) else { return 0 };
    let size = |file: &String| directory.stat_at(PathFlags::empty(), file).map_or(0, |found| found.size);
    names(&directory).iter().map(size).sum()
}

/// The names in a directory; none if it cannot be listed.
fn names(directory: &Descriptor) -> Vec<String> {
    let Ok(listing) = directory.read_directory() else { return Vec::new() };
    std::iter::from_fn(|| listing.read_directory_entry().ok().flatten()).map(|entry| entry.name).collect()
}

fn is_id(name: &str) -> bool {
    name.len() == ID_BYTES && name.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
}

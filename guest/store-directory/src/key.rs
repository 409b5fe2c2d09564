//! The key that signs cursors: a file that all who use the directory share.

use crate::bindings::wasi::filesystem0_2_12::types::{Descriptor, DescriptorFlags, ErrorCode, OpenFlags, PathFlags};
use crate::bindings::wasi::random0_3_0::random::{get_random_bytes, get_random_u64};

const NAME: &str = ".cursor-key";
const BYTES: u64 = 32;

/// The key, which is made where there is none. The error is a sentence without its full stop.
pub(crate) fn of(root: &Descriptor) -> Result<Vec<u8>, String> {
    let key = match read(root) {
        Err(ErrorCode::NoEntry) => make(root).and_then(|()| read(root)),
        read => read,
    };
    let key = key.map_err(|code| format!("the file `{NAME}` can be neither read nor made: {code}"))?;
    let is_whole = key.len() as u64 == BYTES;
    is_whole.then_some(key).ok_or_else(|| format!("the file `{NAME}` has not {BYTES} bytes: remove it"))
}

fn read(root: &Descriptor) -> Result<Vec<u8>, ErrorCode> {
    let file = root.open_at(PathFlags::empty(), NAME, OpenFlags::empty(), DescriptorFlags::READ)?;
    file.read(BYTES + 1, 0).map(|(bytes, _)| bytes)
}

/// Makes the key, which appears with all its bytes. Another instance may be as far.
fn make(root: &Descriptor) -> Result<(), ErrorCode> {
    let name = format!(".new-{:016x}.tmp", get_random_u64());
    let (open, flags) = (OpenFlags::CREATE | OpenFlags::EXCLUSIVE, DescriptorFlags::WRITE);
    let file = root.open_at(PathFlags::empty(), &name, open, flags)?;
    let written = file.write(&get_random_bytes(BYTES), 0);
    let linked = written.and_then(|_| root.link_at(PathFlags::empty(), &name, root, NAME));
    root.unlink_file_at(&name)?;
    match linked {
        Err(ErrorCode::Exist) => Ok(()),
        linked => linked,
    }
}

//! The files in the preopened directories of a component.

use crate::bindings::wasi::filesystem::preopens::get_directories;
use crate::bindings::wasi::filesystem::types::{Descriptor, DescriptorFlags, ErrorCode, OpenFlags, PathFlags};
use crate::{ExtractError, ReadSource, Source};

/// Opens all sources, and calls `answer` with a function that reads them.
///
/// # Errors
/// [`ExtractError::Io`] if a source cannot be opened, and those of `answer`.
pub fn with_files<T>(
    sources: &[Source],
    answer: impl FnOnce(&mut ReadSource<'_>) -> Result<T, ExtractError>,
) -> Result<T, ExtractError> {
    let directories: Vec<Descriptor> = get_directories().into_iter().map(|(directory, _)| directory).collect();
    let files = sources.iter().map(|source| opened(&directories, source)).collect::<Result<Vec<_>, _>>();
    let files = files.map_err(ExtractError::Io)?;
    answer(&mut |index, offset, length| {
        let (Some(file), Some(source)) = (files.get(index), sources.get(index)) else { return Ok(Vec::new()) };
        let read = file.read(u64::from(length), offset);
        read.map(|(bytes, _)| bytes).map_err(|code| failure(source, code))
    })
}

fn opened(directories: &[Descriptor], source: &Source) -> Result<Descriptor, String> {
    let number = source.directory as usize;
    let directory = directories.get(number).ok_or_else(|| format!("directory {number} is not preopened"))?;
    let opened = directory.open_at(PathFlags::empty(), &source.name, OpenFlags::empty(), DescriptorFlags::READ);
    opened.map_err(|code| failure(source, code))
}

fn failure(source: &Source, code: ErrorCode) -> String {
    format!("{}: {}", source.name, code.message())
}

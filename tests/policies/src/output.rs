//! Writes too much, or reports wrong files.

use crate::bindings::exports::lro::filter::lro_filter::{Descriptor as Answer, PolicyError};
use crate::bindings::lro::filter::types::{
    Condition, File, FileKind, Operator, Origin, Query, SectionShape, StoredQuery, Test,
};
use crate::bindings::wasi::filesystem::preopens::get_directories;
use crate::bindings::wasi::filesystem::types::{Descriptor, DescriptorFlags, ErrorCode, OpenFlags, PathFlags};
use crate::{answer, file};

/// Bytes per write of the behaviours that write many.
const BLOCK_BYTES: usize = 1 << 20;

pub(crate) type Outcome = Result<Answer, PolicyError>;

pub(crate) fn directory() -> Result<Descriptor, PolicyError> {
    match get_directories().into_iter().next() {
        Some((directory, _)) => Ok(directory),
        None => Err(PolicyError::Io("no directory is preopened".to_owned())),
    }
}

pub(crate) fn create(directory: &Descriptor, name: &str) -> Result<Descriptor, ErrorCode> {
    directory.open_at(PathFlags::empty(), name, OpenFlags::CREATE | OpenFlags::EXCLUSIVE, DescriptorFlags::WRITE)
}

pub(crate) fn failed(code: ErrorCode) -> PolicyError {
    match code {
        ErrorCode::InsufficientSpace | ErrorCode::Quota | ErrorCode::FileTooLarge => PolicyError::NoSpace,
        other => PolicyError::Io(other.name().to_owned()),
    }
}

pub(crate) fn write(name: &str, text: &str) -> Result<File, PolicyError> {
    create(&directory()?, name).map_err(failed)?.write(text.as_bytes(), 0).map_err(failed)?;
    Ok(file(name, text.len() as u64))
}

fn empty(files: Vec<File>) -> Outcome {
    Ok(answer("{}".to_owned(), files))
}

pub(crate) fn many_files(amount: usize) -> Outcome {
    let directory = directory()?;
    let mut files = Vec::new();
    for number in 0..amount {
        create(&directory, &format!("{number}.txt")).map_err(failed)?;
        files.push(file(&format!("{number}.txt"), 0));
    }
    empty(files)
}

/// Writes until an error, and returns it.
pub(crate) fn many_bytes(blocks: usize) -> Outcome {
    let (written, error) = write_blocks(blocks)?;
    error.map_or_else(|| empty(vec![file("big.bin", written)]), |code| Err(failed(code)))
}

/// Writes until an error, and reports success.
pub(crate) fn many_bytes_silently(blocks: usize) -> Outcome {
    let (written, _) = write_blocks(blocks)?;
    empty(vec![file("big.bin", written)])
}

fn write_blocks(blocks: usize) -> Result<(u64, Option<ErrorCode>), PolicyError> {
    let big = create(&directory()?, "big.bin").map_err(failed)?;
    let (block, mut written) = (vec![b'x'; BLOCK_BYTES], 0);
    for _ in 0..blocks {
        match big.write(&block, written) {
            Ok(length) => written += length,
            Err(code) => return Ok((written, Some(code))),
        }
    }
    Ok((written, None))
}

/// Writes the same bytes repeatedly: the file stays small, the work does not.
pub(crate) fn overwrite(blocks: usize) -> Outcome {
    let small = create(&directory()?, "small.bin").map_err(failed)?;
    let block = vec![b'x'; BLOCK_BYTES];
    for _ in 0..blocks {
        small.write(&block, 0).map_err(failed)?;
    }
    empty(vec![file("small.bin", BLOCK_BYTES as u64)])
}

/// Changes the middle of a file after it was written.
pub(crate) fn rewrite(blocks: usize) -> Outcome {
    let (written, _) = write_blocks(blocks)?;
    let again = open(&directory()?, "big.bin", OpenFlags::empty())?;
    again.write(b"changed", written / 2).map_err(failed)?;
    empty(vec![file("big.bin", written)])
}

/// Renames a file after it was written, and writes another one of its name.
pub(crate) fn rename_large(blocks: usize) -> Outcome {
    let (written, _) = write_blocks(blocks)?;
    let directory = directory()?;
    directory.rename_at("big.bin", &directory, "other.bin").map_err(failed)?;
    empty(vec![file("other.bin", written), write("big.bin", "another")?])
}

/// Writes one byte at a large offset: a large sparse file.
pub(crate) fn sparse(offset: usize) -> Outcome {
    let offset = offset as u64 * BLOCK_BYTES as u64;
    create(&directory()?, "sparse.bin").map_err(failed)?.write(b"x", offset).map_err(failed)?;
    empty(vec![file("sparse.bin", offset + 1)])
}

/// Swaps two files of equal size after they were written.
pub(crate) fn exchange() -> Outcome {
    let (first, second) = (write("first.txt", "first")?, write("second.txt", "other")?);
    let directory = directory()?;
    for (old, new) in [("first.txt", "third.txt"), ("second.txt", "first.txt"), ("third.txt", "second.txt")] {
        directory.rename_at(old, &directory, new).map_err(failed)?;
    }
    empty(vec![first, second])
}

pub(crate) fn open(directory: &Descriptor, name: &str, flags: OpenFlags) -> Result<Descriptor, PolicyError> {
    directory.open_at(PathFlags::empty(), name, flags, DescriptorFlags::WRITE).map_err(failed)
}

/// Truncates a file after it was written, and continues after the gap.
pub(crate) fn truncate() -> Outcome {
    let first = write("first.txt", "hello")?;
    let again = open(&directory()?, "first.txt", OpenFlags::TRUNCATE)?;
    again.write(b" world", first.bytes).map_err(failed)?;
    empty(vec![File { bytes: 11, ..first }])
}

/// Renames a file to its own name, and then overwrites its beginning.
pub(crate) fn rename_to_itself() -> Outcome {
    let first = write("first.txt", "hello")?;
    let directory = directory()?;
    directory.rename_at("first.txt", &directory, "first.txt").map_err(failed)?;
    open(&directory, "first.txt", OpenFlags::empty())?.write(b"abc", 0).map_err(failed)?;
    empty(vec![first])
}

/// Splits the header line into two lines after the records were written.
pub(crate) fn split_header() -> Outcome {
    let text = "header\n{}\n";
    let written = create(&directory()?, "items.jsonl").map_err(failed)?;
    written.write(text.as_bytes(), 0).map_err(failed)?;
    written.write(b"\n", 2).map_err(failed)?;
    let listed = file("items.jsonl", text.len() as u64);
    empty(vec![File { kind: FileKind::Records, records: 2, ..listed }])
}

/// Writes three records, and reports a number of them.
pub(crate) fn records(name: &str, count: u64) -> Outcome {
    let written = write(name, "{\"header\":0}\n1\n2\n3\n")?;
    empty(vec![File { kind: FileKind::Records, records: count, ..written }])
}

pub(crate) fn honest() -> Outcome {
    empty(vec![write("honest.txt", "the whole truth\n")?])
}

/// Writes a file, and another that says of itself where it comes from.
pub(crate) fn derived(origin: Origin, from: Option<&str>) -> Outcome {
    let original = write("honest.txt", "the whole truth\n")?;
    let derived = write("derived.txt", "a part of it\n")?;
    empty(vec![original, File { origin, derived_from: from.map(str::to_owned), ..derived }])
}

pub(crate) fn lie_about_size() -> Outcome {
    let written = write("short.txt", "short")?;
    empty(vec![File { bytes: written.bytes + 1, ..written }])
}

pub(crate) fn unlisted() -> Outcome {
    write("hidden.txt", "hidden")?;
    empty(vec![write("shown.txt", "shown")?])
}

pub(crate) fn listed_twice() -> Outcome {
    let written = write("once.txt", "once")?;
    empty(vec![written.clone(), written])
}

/// Uses the name of the host's own file.
pub(crate) fn manifest() -> Outcome {
    empty(vec![write("manifest.json", "{}")?])
}

pub(crate) fn bad_schema() -> Outcome {
    let written = write("shown.txt", "shown")?;
    empty(vec![File { schema: Some("{not JSON".to_owned()), ..written }])
}

/// Tries to create directories, and continues when it cannot.
pub(crate) fn many_directories(amount: usize) -> Outcome {
    let directory = directory()?;
    let made = (0..amount).filter(|number| directory.create_directory_at(&format!("d{number}")).is_ok()).count();
    Err(PolicyError::Io(format!("made {made} directories")))
}

/// Never more than one file at a time.
pub(crate) fn create_and_remove(amount: usize) -> Outcome {
    let directory = directory()?;
    for _ in 0..amount {
        create(&directory, "again.txt").map_err(failed)?;
        directory.unlink_file_at("again.txt").map_err(failed)?;
    }
    empty(Vec::new())
}

/// Renames one file over another, and lists both.
pub(crate) fn rename_over() -> Outcome {
    let files = vec![write("first.txt", "first")?, write("second.txt", "second")?];
    let directory = directory()?;
    directory.rename_at("first.txt", &directory, "second.txt").map_err(failed)?;
    empty(files)
}

/// Writes sparse files of some MiB each, which would have to be read to be hashed.
pub(crate) fn sparse_files(megabytes: usize) -> Outcome {
    let directory = directory()?;
    let last = megabytes as u64 * BLOCK_BYTES as u64;
    let mut files = Vec::new();
    for number in 0..8 {
        let name = format!("{number}.bin");
        create(&directory, &name).map_err(failed)?.write(b"x", last).map_err(failed)?;
        files.push(file(&name, last + 1));
    }
    empty(files)
}

/// Reports the greatest value for every number of a descriptor.
pub(crate) fn greatest_numbers() -> Outcome {
    let written = write("true.txt", "true")?;
    let told = File { parts: vec![u32::MAX], records: u64::MAX, shape: Some(SectionShape::Members), ..written.clone() };
    Ok(Answer { offloaded_tokens: u64::MAX, ..answer("{}".to_owned(), vec![told]) })
}

/// Writes a file with a query whose condition has these steps.
pub(crate) fn query(steps: Vec<Condition>) -> Outcome {
    let written = write("items.jsonl", "{\"header\":0}\n1\n")?;
    let query = Query {
        where_: steps,
        group: None,
        select: Vec::new(),
        distinct: false,
        sort: Vec::new(),
        sample: None,
        count: false,
        offset: 0,
        limit: None,
    };
    let stored = StoredQuery { name: "items".to_owned(), description: String::new(), query };
    empty(vec![File { kind: FileKind::Records, records: 1, queries: vec![stored], ..written }])
}

/// A test, negated repeatedly: each step refers to the one before.
pub(crate) fn nested(depth: usize) -> Vec<Condition> {
    let test =
        Test { field: "a".to_owned(), operator: Operator::Exists, value: None, ignore_case: false, parameter: None };
    let negations = (0..depth).map(|step| Condition::Negation(step as u32));
    std::iter::once(Condition::Test(test)).chain(negations).collect()
}

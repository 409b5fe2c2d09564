//! Shared by the tests: an input, processes, and a reader of the store.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{RwLock, RwLockReadGuard};

use lro_host::store::{Section, Store, Ulid};
use tempfile::TempDir;

/// Held for writing while a process starts. Until it executes its program, the child has a copy of all descriptors,
/// including the locks that show a store which owners live.
static STARTING: RwLock<()> = RwLock::new(());

/// Starts a process.
pub(crate) fn spawn(command: &mut Command) -> Child {
    let _starting = STARTING.write().unwrap();
    command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}: run `make test-data`"))
}

/// Runs a process to its end.
pub(crate) fn output(mut command: Command) -> Output {
    spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped())).wait_with_output().unwrap()
}

/// No process starts while this is held: for code that checks the owners of a store.
pub(crate) fn none_starts() -> RwLockReadGuard<'static, ()> {
    STARTING.read().unwrap()
}

/// Rows of about 60 bytes.
pub(crate) fn rows(count: usize) -> String {
    let rows = (0..count).map(|id| format!(r#"{{"id":{id},"text":"{}"}}"#, "x".repeat(id % 90)));
    format!("[{}]", rows.collect::<Vec<_>>().join(","))
}

/// Names in a directory; empty when it is missing.
pub(crate) fn names(path: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(path).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// A directory in memory where available, because the test itself decides what a disk loses.
pub(crate) fn scratch() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap()
}

/// Reads a whole offload as a reader does.
pub(crate) fn verify(store: &Store, tenant: &str, id: Ulid) -> Result<(), String> {
    let offload = store.find(tenant, id).map_err(|error| format!("{error:?}"))?;
    for file in &offload.record().files {
        let read = offload.open(&file.name).and_then(|reader| {
            reader.verify()?;
            reader.lines(file.records.saturating_sub(1), 1, usize::MAX >> 1)
        });
        read.map_err(|error| error.to_string())?;
    }
    Ok(())
}

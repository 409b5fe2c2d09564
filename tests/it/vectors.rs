//! The vectors in `tests/vectors` are what this host makes of them.

use std::collections::BTreeSet;
use std::path::Path;

use lro_host::policy::Policy;
use lro_tests::vectors::{self, Vector};
use lro_tests::{default_policy, patient, sandbox, target};
use tempfile::TempDir;

/// Set to anything, the vectors are written instead of compared, for a review by `git diff`.
const WRITE: &str = "LRO_WRITE_VECTORS";

#[test]
fn the_default_policy_gives_the_vectors() {
    compare(&default_policy(), &vectors::default_policy(), &Vector::folder());
}

#[test]
fn the_redacting_policy_gives_the_vectors() {
    let component = target().join("wasm32-unknown-unknown/component/lro_redact.wasm");
    let policy = Policy::from_file(sandbox(), &component, &patient()).unwrap();
    compare(&policy, &vectors::redacting_policy(), &Vector::folder().join("redact"));
}

fn compare(policy: &Policy, vectors: &[Vector], folder: &Path) {
    for vector in vectors {
        let directory = TempDir::new().unwrap();
        let (path, outcome) =
            (folder.join(&vector.name).with_extension("json"), vector.outcome(policy, directory.path()));
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(&path, &outcome).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(expected == outcome, "{} differs; write it with {WRITE}=1, and review it", path.display());
    }
    let names: BTreeSet<String> = vectors.iter().map(|vector| format!("{}.json", vector.name)).collect();
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let files: BTreeSet<String> = entries.filter(|name| name.ends_with(".json")).collect();
    assert_eq!(files, names, "a file of no vector, or two vectors of one name");
}

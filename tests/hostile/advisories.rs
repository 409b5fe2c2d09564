//! Published ways out of wasmtime's file system, by the id of the advisory: none of them leads out here, for reasons of our
//! own and because the version in use is not affected.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::time::Duration;

use lro_host::sandbox::bindings::extraction::exports::lro::filter::lro_query::{Budget, Jq, Question, Source};
use lro_host::sandbox::types::FileKind;
use lro_host::sandbox::{CallError, Limits, Quota};
use lro_tests::{hostile_policy, read, rounds, sandbox, target, workspace};
use tempfile::TempDir;
use wasmtime::component::Component;

use crate::support::{attempts, tight, together, write};

// GHSA-vqjp-4c8c-hfgg, RUSTSEC-2026-0269: a slash at the end of a path, or of what a link points to, leads out.
#[test]
fn a_slash_at_the_end_leads_nowhere() {
    let _together = together();
    let root = TempDir::new().unwrap();
    let (elsewhere, directory) = (root.path().join("elsewhere"), root.path().join("directory"));
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::create_dir(&directory).unwrap();
    for secret in [elsewhere.join("secret.txt"), root.path().join("outside.txt")] {
        std::fs::write(secret, "secret").unwrap();
    }
    symlink("../elsewhere/", directory.join("planted-slash")).unwrap();
    symlink(format!("{}/", elsewhere.display()), directory.join("planted-directory")).unwrap();
    symlink("../outside.txt/", directory.join("planted-link")).unwrap();

    let limits = Limits { files: 1000, wall_time: Duration::from_secs(10), ..tight() };
    let written = write(&hostile_policy(), &limits, "write-outside", &directory).unwrap();
    let attempts: Vec<_> = attempts(&written)
        .into_iter()
        .filter(|(_, path, _)| path.starts_with("planted-") || path.ends_with('/'))
        .collect();
    assert!(attempts.len() > 80, "{} attempts", attempts.len());
    // Removing or renaming the link itself touches nothing that it points to.
    let harmless = |what: &str, path: &str| !path.contains('/') && ["remove", "rename from"].contains(&what);
    for (what, path, outcome) in attempts {
        assert!(outcome != "ok" || harmless(&what, &path), "{what} {path}");
    }
    assert_eq!(read(&elsewhere.join("secret.txt")) + &read(&root.path().join("outside.txt")), "secretsecret");
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 1);
}

// Links that leave the directory and come back, or go by what the kernel knows of this process.
#[test]
fn links_out_and_back_lead_nowhere() {
    let _together = together();
    let root = TempDir::new().unwrap();
    let directory = root.path().join("directory");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("kept.txt"), "kept").unwrap();
    symlink("../directory/kept.txt", directory.join("planted-link")).unwrap();
    symlink("/proc/self/cwd", directory.join("planted-directory")).unwrap();
    symlink(Path::new("/proc/self/root").join(""), directory.join("planted-slash")).unwrap();
    let limits = Limits { files: 1000, wall_time: Duration::from_secs(10), ..tight() };
    let written = write(&hostile_policy(), &limits, "write-outside", &directory).unwrap();
    let opened = ["read", "write", "create", "examine", "read link"];
    let attempts: Vec<_> = attempts(&written)
        .into_iter()
        .filter(|(what, path, _)| path.starts_with("planted-") && opened.iter().any(|opened| what.starts_with(opened)))
        .collect();
    assert!(attempts.len() > 60, "{} attempts", attempts.len());
    assert!(attempts.iter().all(|(.., outcome)| outcome != "ok"), "{attempts:?}");
    assert_eq!(read(&directory.join("kept.txt")), "kept");
}

// What lies under a name changes while it is opened. No policy can do this: somebody else would have to.
#[test]
fn a_link_swapped_in_while_opening_leads_nowhere() {
    let _together = together();
    let root = TempDir::new().unwrap();
    let directory = root.path().join("directory");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(root.path().join("secret.txt"), "secret").unwrap();
    std::fs::write(directory.join("swapped"), "harmless").unwrap();
    symlink("../secret.txt", directory.join("link")).unwrap();
    symlink("..", directory.join("swapped-directory")).unwrap();
    let exchange = || {
        let (one, other) = (directory.join("swapped"), directory.join("link"));
        std::fs::rename(&one, directory.join("third")).unwrap();
        std::fs::rename(&other, &one).unwrap();
        std::fs::rename(directory.join("third"), &other).unwrap();
    };
    let limits = Limits { wall_time: Duration::from_secs(30), ..tight() };
    let opens = rounds("LRO_RACE_ROUNDS", 10_000);
    // Whether the file and the link were both opened often. The directory was in every round, which is never permitted.
    let is_race = |read: &BTreeMap<String, usize>, calls: usize| {
        let times = |outcome| read.get(outcome).copied().unwrap_or_default();
        times("harmless") > opens / 100 && times("not-permitted") > calls * opens + opens / 100
    };
    let read = std::thread::scope(|scope| {
        let opening = scope.spawn(|| {
            let mut read = BTreeMap::<String, usize>::new();
            // The two may take turns for long where other programs keep the processors busy.
            for calls in 1..=CALLS_MAX {
                let written = write(&hostile_policy(), &limits, &format!("swapped:{opens}"), &directory).unwrap();
                let more: BTreeMap<String, usize> = serde_json::from_str(&written.descriptor.content).unwrap();
                assert_eq!(more.values().sum::<usize>(), opens * 2);
                more.into_iter().for_each(|(outcome, times)| *read.entry(outcome).or_default() += times);
                if is_race(&read, calls) {
                    return read;
                }
            }
            panic!("no race: {read:?}")
        });
        for pauses in (0..PAUSES_MAX).cycle().take_while(|_| !opening.is_finished()) {
            exchange();
            (0..pauses).for_each(|_| std::hint::spin_loop());
        }
        opening.join().unwrap()
    });
    assert!(!read.contains_key("secret"), "{read:?}");
}

/// Most calls until each of what is exchanged has been opened often enough.
const CALLS_MAX: usize = 50;

/// Most pauses of a processor between two exchanges: with none, they fall into step with what opens.
const PAUSES_MAX: usize = 1_000;

// GHSA-4ch3-9j33-3pmj (RUSTSEC-2026-0188): a link or a rename between directories of different permissions;
// GHSA-2r75-cxrj-cmph: a file that may only be read is cut off by opening it.
#[test]
fn what_may_be_read_cannot_be_changed() {
    let _together = together();
    let path = target().join("wasm32-unknown-unknown/component/lro_test_policies.wasm");
    let component = Component::from_file(sandbox().engine(), path).unwrap();
    let prepared = sandbox().prepare_extraction(&component).unwrap();
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("items.jsonl");
    std::fs::write(&file, "{\"header\":0}\n1\n").unwrap();
    let before = std::fs::metadata(&file).unwrap();

    let source = Source {
        name: "items.jsonl".to_owned(),
        directory: 0,
        section: "items".to_owned(),
        kind: FileKind::Records,
        start: 13,
        bytes: 15,
        records: 1,
    };
    let question = Question::Jq(Jq { filter: ".".to_owned(), slurp: false, arguments: Vec::new() });
    let budget = Budget { bytes: 10_000, tokens: 10_000 };
    let opened = File::open(directory.path()).unwrap();
    let (answer, cost) = prepared.extract(&tight(), vec![opened], &[source], &question, budget).unwrap();
    let answer = answer.unwrap();
    assert_eq!(answer.results, 25, "{}", answer.lines);
    for line in answer.lines.lines() {
        let (what, outcome): (String, String) = serde_json::from_str(line).unwrap();
        assert_ne!(outcome, "ok", "{what}");
    }
    assert_eq!(cost.written_bytes, 0);
    let after = std::fs::metadata(&file).unwrap();
    assert_eq!(read(&file), "{\"header\":0}\n1\n");
    assert_eq!(
        (after.mtime(), after.mtime_nsec(), after.mode(), after.nlink()),
        (before.mtime(), before.mtime_nsec(), before.mode(), 1)
    );
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

// GHSA-4ch3-9j33-3pmj: there is one directory only, however often it is asked for, and no link of any kind within it
#[test]
fn there_is_one_directory_and_no_link() {
    let _together = together();
    let directory = TempDir::new().unwrap();
    let limits = Limits { files: 1000, ..tight() };
    let written = write(&hostile_policy(), &limits, "write-outside", directory.path()).unwrap();
    let links: Vec<_> = attempts(&written).into_iter().filter(|(what, ..)| what.ends_with(" link")).collect();
    assert_eq!(links.len(), 6);
    assert!(links.iter().all(|(.., outcome)| outcome == "not-permitted"), "{links:?}");
    let held = write(&hostile_policy(), &Limits { open_files: 1, ..tight() }, "hold-directories:1", directory.path());
    assert_eq!(held.unwrap().descriptor.content, r#"{"held":1}"#);
    let error = write(&hostile_policy(), &Limits { open_files: 1, ..tight() }, "hold-directories:2", directory.path());
    assert!(matches!(error, Err(CallError::Quota(Quota::OpenFiles(1)))), "{error:?}");
}

// The versions that the advisories about files name as repaired.
#[test]
fn the_versions_in_use_are_repaired() {
    let lock: toml::Table = read(&workspace().join("Cargo.lock")).parse().unwrap();
    let packages = lock["package"].as_array().unwrap();
    for (name, least) in [("wasmtime", [48, 0, 0]), ("wasmtime-wasi", [48, 0, 0]), ("cap-primitives", [4, 0, 3])] {
        let versions: Vec<Vec<u32>> = packages
            .iter()
            .filter(|package| package["name"].as_str() == Some(name))
            .map(|package| package["version"].as_str().unwrap().split('.').map(|part| part.parse().unwrap()).collect())
            .collect();
        assert!(!versions.is_empty(), "{name} is not in use");
        assert!(versions.iter().all(|version| version.as_slice() >= least.as_slice()), "{name} {versions:?}");
    }
}

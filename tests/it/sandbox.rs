//! What an untrusted policy can do: only what it was given, and only as much.

use std::collections::BTreeSet;
#[cfg(unix)]
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use lro_host::filter::{Decision, Filter, FilterError, Outcome};
use lro_host::policy::DEFAULT_POLICY;
use lro_host::sandbox::{CallError, Limits, Quota};
use lro_host::settings::{FailureMode, PolicySettings};
use lro_host::store::{Digest, MANIFEST_NAME};
use lro_tests::{
    always, assert_memory_of_the_start, call_of, filter, filter_with, hostile_policy, offloaded, request, structured,
    text,
};
use tempfile::TempDir;

/// The wall time of calls that are to reach it. The others have what a busy machine may take.
const SHORT: Duration = Duration::from_secs(1);

/// Limits that are met soon.
fn tight() -> Limits {
    Limits {
        wall_time: Duration::from_secs(60),
        memory_bytes: 8 << 20,
        written_bytes: 16 << 20,
        files: 16,
        crossing_bytes: 1 << 20,
        ..Limits::default()
    }
}

/// A filter with the hostile policies, tight limits, and an answer that shows every failure.
fn hostile(root: &Path) -> Filter {
    Filter { limits: tight(), failure: FailureMode::Closed, ..filter_with(hostile_policy(), root) }
}

/// The same, with little time.
fn hurried(root: &Path) -> Filter {
    Filter { limits: Limits { wall_time: SHORT, ..tight() }, ..hostile(root) }
}

fn act(filter: &Filter, behaviour: &str) -> Decision {
    let settings = PolicySettings { custom: Some(behaviour.to_owned()), ..always() };
    filter.apply(&request(settings), &text("a result"))
}

/// Acts out a behaviour that the sandbox ends.
fn contained(behaviour: &str) -> CallError {
    match refused(behaviour) {
        FilterError::Call(error) => error,
        other => panic!("{behaviour}: {other}"),
    }
}

/// Acts out a behaviour; then the next call must work and nothing may be left of the failed one.
fn refused(behaviour: &str) -> FilterError {
    let root = TempDir::new().unwrap();
    let filter = hostile(root.path());
    refused_by(&filter, root.path(), behaviour)
}

fn refused_by(filter: &Filter, root: &Path, behaviour: &str) -> FilterError {
    let decision = act(filter, behaviour);
    let failure = decision.failure.unwrap_or_else(|| panic!("{behaviour}: no failure but {:?}", decision.outcome));
    assert!(matches!(decision.outcome, Outcome::Fail(_)), "{behaviour}: {:?}", decision.outcome);
    assert_eq!(published(root), BTreeSet::new(), "{behaviour}: something is left");
    let next = offloaded(act(filter, "honest"));
    assert_eq!(std::fs::read_to_string(next.offload.path().join("honest.txt")).unwrap(), "the whole truth\n");
    failure
}

/// Everything in the directory of the tenant.
fn published(root: &Path) -> BTreeSet<String> {
    let Ok(entries) = std::fs::read_dir(root.join(lro_tests::TENANT)) else { return BTreeSet::new() };
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn an_endless_loop_ends_at_the_deadline() {
    for behaviour in ["loop", "inspect-loop", "read", "inspect-read"] {
        let root = TempDir::new().unwrap();
        let started = Instant::now();
        let error = refused_by(&hurried(root.path()), root.path(), behaviour);
        assert!(started.elapsed() >= SHORT, "{behaviour} took {:?}", started.elapsed());
        assert!(
            matches!(error, FilterError::Call(CallError::Deadline(limit)) if limit == SHORT),
            "{behaviour}: {error}"
        );
        assert!(error.to_string().contains("wall-time-ms"), "{error}");
    }
}

#[test]
fn a_memory_bomb_is_told_from_a_trap() {
    for behaviour in ["memory", "inspect-memory"] {
        let error = contained(behaviour);
        assert!(matches!(error, CallError::Memory(limit) if limit == tight().memory_bytes), "{behaviour}: {error}");
        assert!(error.to_string().contains("memory-bytes"), "{error}");
    }
    for (behaviour, function) in [("trap", "write-sections"), ("inspect-trap", "inspect-result")] {
        let error = contained(behaviour);
        assert!(matches!(error, CallError::Trap(_)), "{behaviour}: {error}");
        let said = error.to_string();
        assert!(said.starts_with(&format!("failed: in `{function}`: ")) && said.contains("a panic"), "{said}");
    }
}

#[test]
fn deep_recursion_ends_in_an_error() {
    for behaviour in ["stack", "inspect-stack"] {
        let error = contained(behaviour);
        assert!(matches!(error, CallError::Stack), "{behaviour}: {error}");
        assert!(error.to_string().contains("stack"), "{error}");
    }
}

#[test]
fn a_giant_answer_is_not_copied() {
    // As much as fits into the memory of the policy.
    for behaviour in ["big-descriptor:1500000", "many-notes:2000", "inspect-advice:4000000", "inspect-plan:100000"] {
        let error = contained(behaviour);
        assert!(matches!(error, CallError::Crossing(limit) if limit == tight().crossing_bytes), "{behaviour}: {error}");
    }
}

// A descriptor that may cross but is longer than the settings allow.
#[test]
fn a_descriptor_over_its_limit_is_refused() {
    let error = refused("big-descriptor:50000");
    assert!(error.to_string().contains("descriptor over its limit"), "{error}");
}

// Every behaviour is bounded by the limits of its own call, whatever the limits of the others.
#[test]
fn each_call_has_limits_of_its_own() {
    let root = TempDir::new().unwrap();
    let wall_time = Duration::from_secs(6);
    let patient = Filter { limits: Limits { wall_time, ..tight() }, ..hostile(root.path()) };
    let ends_at = |decision: Decision, limit| {
        let failure = decision.failure.unwrap();
        assert!(matches!(failure, FilterError::Call(CallError::Deadline(met)) if met == limit), "{failure}");
    };
    std::thread::scope(|scope| {
        let long = scope.spawn(|| ends_at(act(&patient, "loop"), wall_time));
        for _ in 0..3 {
            ends_at(act(&hurried(root.path()), "loop"), SHORT);
        }
        assert!(!long.is_finished(), "short calls waited for the end of a long one");
    });
}

#[test]
fn files_and_bytes_are_counted_while_they_are_written() {
    for behaviour in ["many-files:1000000", "many-bytes:100000", "overwrite:100000"] {
        let error = contained(behaviour);
        let (met, name) = match behaviour {
            "many-files:1000000" => (Quota::Files(tight().files), "limit files"),
            _ => (Quota::WrittenBytes(tight().written_bytes), "limit written-bytes"),
        };
        assert!(matches!(error, CallError::Quota(quota) if quota == met), "{behaviour}: {error}");
        assert!(error.to_string().contains(name) && error.is_no_space(), "{error}");
    }
}

// A policy that was stopped and says nothing about it holds no more than its limit.
#[test]
fn a_silenced_quota_is_still_a_limit() {
    let root = TempDir::new().unwrap();
    let decision = act(&hostile(root.path()), "many-bytes-silently:100000");
    match decision.outcome {
        Outcome::Offload(offloaded) => {
            let bytes: u64 = offloaded.offload.record().files.iter().map(|file| file.bytes).sum();
            assert!(bytes <= tight().written_bytes, "{bytes} bytes");
        }
        Outcome::Fail(_) => assert!(matches!(decision.failure, Some(FilterError::Call(CallError::Quota { .. })))),
        other => panic!("{other:?}"),
    }
}

// One byte far behind the quota makes a large file that takes no room.
#[test]
fn a_sparse_file_counts_with_its_length() {
    let error = refused("sparse:2000000");
    let text = error.to_string();
    assert!(["quota", "written-bytes", "limit", "large"].iter().any(|word| text.contains(word)), "{text}");
}

#[test]
fn a_lying_descriptor_is_refused() {
    let lies = [
        ("lie-size", "size"),
        ("lie-absent", "absent"),
        ("lie-unlisted", "not listed"),
        ("lie-twice", "twice"),
        ("lie-name", "name is not allowed"),
        ("lie-manifest", "name is not allowed"),
        ("lie-not-json", "not a JSON object"),
        ("lie-not-object", "not a JSON object"),
        ("lie-schema", "schema"),
        ("lie-derived", "keeps no content"),
        ("lie-derived-of-derived", "keeps no content"),
        ("lie-underived", "derived from no file"),
        ("lie-derived-content", "content that is derived"),
        ("inspect-join:0", "not an earlier part that is written"),
        ("inspect-join:1", "not an earlier part that is written"),
        ("inspect-join:7", "not an earlier part that is written"),
    ];
    for (behaviour, reason) in lies {
        let error = refused(behaviour);
        assert!(error.to_string().contains(reason), "{behaviour}: {error}");
    }
}

// Digests are those of the files under their last names.
#[test]
fn files_that_change_places_keep_true_digests() {
    for behaviour in ["exchange", "truncate", "rename-to-itself"] {
        let root = TempDir::new().unwrap();
        let offloaded = offloaded(act(&hostile(root.path()), behaviour));
        for file in &offloaded.offload.record().files {
            let path = offloaded.offload.path().join(&file.name);
            let digest = Digest::of(&std::fs::read(path).unwrap());
            assert_eq!(file.sha256, Some(digest), "{behaviour}: {}", file.name);
        }
    }
}

// The header ends at the first line feed of the file as it is in the end.
#[test]
fn a_header_that_changes_its_length_is_noticed() {
    let root = TempDir::new().unwrap();
    let offloaded = offloaded(act(&hostile(root.path()), "split-header"));
    let [file] = offloaded.offload.record().files.as_slice() else { panic!("{:?}", offloaded.offload) };
    assert_eq!(std::fs::read(offloaded.offload.path().join(&file.name)).unwrap(), b"he\nder\n{}\n");
    assert_eq!((file.digest_from, file.records, file.sha256), (3, 2, Some(Digest::of(b"der\n{}\n"))));
}

// Digests are kept by name, so that a file has one name only.
#[test]
fn a_file_has_one_name() {
    let root = TempDir::new().unwrap();
    let offloaded = offloaded(act(&hostile(root.path()), "spellings"));
    let descriptor: serde_json::Value = serde_json::from_str(&offloaded.descriptor).unwrap();
    let attempts: Vec<(String, String, String)> = serde_json::from_value(descriptor["attempts"].clone()).unwrap();
    assert_eq!(attempts.len(), 48);
    let others: Vec<_> = attempts.iter().filter(|(_, _, outcome)| outcome != "not-permitted").collect();
    assert_eq!(others, Vec::<&(String, String, String)>::new());
}

// The host counts the records itself, whatever the file is called.
#[test]
fn a_lie_about_the_number_of_records_is_refused() {
    let root = TempDir::new().unwrap();
    for behaviour in ["lie-count", "lie-count-unnamed"] {
        for count in [0, 2, 4] {
            let error = refused(&format!("{behaviour}:{count}"));
            assert!(matches!(error, FilterError::Answer(_)), "{behaviour}: {error:?}");
            assert!(error.to_string().contains("number of records"), "{behaviour}: {error}");
        }
        let offloaded = offloaded(act(&hostile(root.path()), &format!("{behaviour}:3")));
        assert_eq!(offloaded.offload.record().files[0].records, 3);
    }
}

#[test]
fn nothing_outside_the_directory_can_be_reached() {
    let root = TempDir::new().unwrap();
    let outside = root.path().join("outside.txt");
    std::fs::write(&outside, "secret").unwrap();
    let filter = hostile(&root.path().join("store"));
    // The tenant's directory is the parent of every staging directory.
    let first = offloaded(act(&filter, "honest"));
    let parent = first.offload.path().parent().unwrap();
    std::fs::write(parent.join("outside.txt"), "secret").unwrap();

    let staging =
        filter.store.as_ref().unwrap().stage(lro_tests::TENANT, lro_host::store::Ulid::generate().unwrap()).unwrap();
    let elsewhere = root.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::write(elsewhere.join("secret.txt"), "secret").unwrap();
    #[cfg(unix)]
    for (to, name) in
        [(&outside, "planted-link"), (&elsewhere, "planted-directory"), (&elsewhere.join(""), "planted-slash")]
    {
        symlink(to, staging.path().join(name)).unwrap();
    }

    let attempts = attempts(&filter, staging.path());
    assert!(attempts.len() > 150, "{} attempts", attempts.len());
    // Renaming or removing a planted link itself touches nothing outside. Where none is planted, such a file is the policy's own.
    let harmless = |what: &str, path: &str| {
        ["planted-link", "planted-slash"].contains(&path)
            && (cfg!(windows) || ["remove", "rename from"].contains(&what))
    };
    let escapes: Vec<_> =
        attempts.iter().filter(|(what, path, outcome)| outcome == "ok" && !harmless(what, path)).collect();
    assert_eq!(escapes, Vec::<&(String, String, String)>::new());

    for secret in [&outside, &parent.join("outside.txt"), &elsewhere.join("secret.txt")] {
        assert_eq!(std::fs::read_to_string(secret).unwrap(), "secret", "{}", secret.display());
    }
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 1);
}

/// What, where, and how it ended, of every attempt to leave a directory.
fn attempts(filter: &Filter, directory: &Path) -> Vec<(String, String, String)> {
    let settings = PolicySettings { custom: Some("write-outside".to_owned()), ..always() };
    let call = call_of(request(settings));
    let payload = text("a result");
    let limits = Limits { files: 1000, ..tight() };
    let prepared = filter.slot.current().unwrap().policy.prepared().clone();
    let (verdict, _) = prepared.inspect(&limits, &call, &payload).unwrap();
    let lro_host::sandbox::Verdict::Offload(plan) = verdict else { panic!("{verdict:?}") };
    let (written, _) = prepared.write(&limits, &call, &payload, &plan, directory).unwrap();
    let descriptor: serde_json::Value = serde_json::from_str(&written.descriptor.content).unwrap();
    serde_json::from_value(descriptor["attempts"].clone()).unwrap()
}

// Nothing survives a call, and who only inspects sees no directory.
#[test]
fn a_call_inherits_nothing() {
    let root = TempDir::new().unwrap();
    let filter = hostile(root.path());
    for _ in 0..3 {
        assert_eq!(offloaded(act(&filter, "remember")).descriptor, r#"{"calls":1}"#);
    }
    let Outcome::Reject(directories) = act(&filter, "inspect-directories").outcome else { panic!("not rejected") };
    assert_eq!(directories, "0");
}

#[test]
fn the_failure_mode_answers_for_a_trap() {
    let root = TempDir::new().unwrap();
    for (mode, behaviour) in [
        (FailureMode::Open, "inspect-trap"),
        (FailureMode::Open, "trap"),
        (FailureMode::Closed, "trap"),
        (FailureMode::Truncate, "inspect-trap"),
    ] {
        let decision = act(&Filter { failure: mode, ..hostile(root.path()) }, behaviour);
        assert!(decision.failure.is_some(), "{behaviour}");
        match (mode, behaviour, decision.outcome) {
            (FailureMode::Open, "inspect-trap", Outcome::Pass) | (FailureMode::Closed, _, Outcome::Fail(_)) => {}
            (_, _, Outcome::Truncate { warning: Some(_), .. }) => {}
            (mode, behaviour, outcome) => panic!("{mode:?} {behaviour}: {outcome:?}"),
        }
    }
}

#[test]
fn a_small_result_takes_no_memory_beyond_that_of_the_start() {
    let root = TempDir::new().unwrap();
    assert_memory_of_the_start(&filter(root.path()), DEFAULT_POLICY);
}

// The same call gives the same bytes.
#[test]
fn the_same_call_gives_the_same_bytes() {
    let root = TempDir::new().unwrap();
    let filter = filter(root.path());
    let records: Vec<String> = (0..500).map(|id| format!(r#"{{"id":{id},"name":"n{}","x":{id}.5}}"#, id % 7)).collect();
    let payload = structured(format!(r#"{{"rows":[{}],"total":500}}"#, records.join(",")));
    let call = call_of(request(lro_tests::always_full()));
    let run = |directory: &Path| {
        let prepared = filter.slot.current().unwrap().policy.prepared().clone();
        let (verdict, _) = prepared.inspect(&Limits::default(), &call, &payload).unwrap();
        let lro_host::sandbox::Verdict::Offload(plan) = verdict else { panic!("{verdict:?}") };
        let (written, _) = prepared.write(&Limits::default(), &call, &payload, &plan, directory).unwrap();
        let mut files: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let contents: Vec<_> =
            files.iter().map(|file| (file.file_name().unwrap().to_owned(), std::fs::read(file).unwrap())).collect();
        (written.descriptor, contents)
    };
    let (first, second) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (one, other) = (run(first.path()), run(second.path()));
    assert!(!one.1.is_empty() && one.1.iter().all(|(name, _)| name != MANIFEST_NAME));
    assert_eq!(one, other);
}

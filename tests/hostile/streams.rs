//! Streams of files that outlive the descriptors they were made from, whose handles other files get. As modules: the test
//! policies import what the contract names and no streams, so that every host runs them.

use std::path::Path;

use lro_host::sandbox::types::PlannedPart;
use lro_host::sandbox::{CallError, Limits, Plan, Quota, Written};
use lro_host::store::Digest;
use lro_tests::{call_of, request, settings, text};
use tempfile::TempDir;

use crate::modules::{component_of, load};

const WORLD: &str = "
    package lro:streams;
    world policy { include lro:filter/lro-policy@0.2.0; import wasi:io/streams@0.2.12; }";

/// Opens files by name, makes streams of them, writes through either and lets go of either. Where one of these fails, the
/// policy traps.
const FILES: &str = r#"
    (import "wasi:filesystem/preopens@0.2.12" "get-directories" (func $directories (param i32)))
    (import "wasi:filesystem/types@0.2.12" "[method]descriptor.open-at"
        (func $open-at (param i32 i32 i32 i32 i32 i32 i32)))
    (import "wasi:filesystem/types@0.2.12" "[method]descriptor.write" (func $write-at (param i32 i32 i32 i64 i32)))
    (import "wasi:filesystem/types@0.2.12" "[method]descriptor.write-via-stream"
        (func $write-via (param i32 i64 i32)))
    (import "wasi:filesystem/types@0.2.12" "[resource-drop]descriptor" (func $close (param i32)))
    (import "wasi:io/streams@0.2.12" "[method]output-stream.blocking-write-and-flush"
        (func $flush (param i32 i32 i32 i32)))
    (import "wasi:io/streams@0.2.12" "[resource-drop]output-stream" (func $end (param i32)))
    (data (i32.const 1024) "a.txt") (data (i32.const 1032) "b.txt") (data (i32.const 1040) "c.txt")
    (data (i32.const 2048) "aaaaaaaabbbbbbbbthe third{}")
    (global $free (mut i32) (i32.const 65536))
    (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
        global.get $free
        (global.set $free (i32.and (i32.add (i32.add (global.get $free) (local.get 3)) (i32.const 7)) (i32.const -8))))
    (func $must (result i32)
        (if (i32.load8_u (i32.const 528)) (then unreachable))
        (i32.load (i32.const 532)))
    (func $open (param $name i32) (result i32)
        (call $open-at (i32.load (i32.load (i32.const 512))) (i32.const 0) (local.get $name) (i32.const 5)
            (i32.const 1) (i32.const 3) (i32.const 528))
        (call $must))
    (func $stream (param $file i32) (param $offset i64) (result i32)
        (call $write-via (local.get $file) (local.get $offset) (i32.const 528))
        (call $must))
    (func $write (param $file i32) (param $text i32) (param $length i32) (param $offset i64)
        (call $write-at (local.get $file) (local.get $text) (local.get $length) (local.get $offset) (i32.const 528))
        (drop (call $must)))
    (func $put (param $stream i32) (param $text i32) (param $length i32)
        (call $flush (local.get $stream) (local.get $text) (local.get $length) (i32.const 528))
        (drop (call $must)))"#;

/// What becomes of a policy that writes by these instructions. It lists no files, as it publishes none.
fn write(limits: &Limits, instructions: &str, directory: &Path) -> Result<Written, CallError> {
    let module = format!(
        r#"{FILES} (func (export "lro:filter/lro-filter@0.2.0#write-sections") (param i32) (result i32)
            (local $file i32) (local $first i32) (local $second i32) (local $count i32)
            (call $directories (i32.const 512)) {instructions} (call $release (i32.const 1))
            (i32.store (i32.const 648) (i32.const 2073)) (i32.store (i32.const 652) (i32.const 2)) (i32.const 640))"#
    );
    let policy = load(&component_of(&module, Some(WORLD))).unwrap();
    let (call, plan) = (call_of(request(settings())), Plan { parts: vec![PlannedPart::Text] });
    policy.prepared().write(limits, &call, &text("a result"), &plan, directory).map(|(written, _)| written)
}

fn again(count: u32, instructions: &str) -> String {
    format!(
        "(loop $again {instructions} (local.set $count (i32.add (local.get $count) (i32.const 1)))
            (br_if $again (i32.lt_u (local.get $count) (i32.const {count}))))"
    )
}

// A file is open, and counted, as long as a stream of it is there; and once, however many streams it has.
#[test]
fn a_stream_counts_as_the_file_it_keeps_open() {
    let outcome = |open_files, instructions: &str| {
        let limits = Limits { open_files, files: u32::MAX, ..Limits::default() };
        match write(&limits, instructions, TempDir::new().unwrap().path()) {
            Err(CallError::Quota(quota)) => Some(quota),
            written => {
                written.unwrap();
                None
            }
        }
    };
    let kept = "(local.set $file (call $open (i32.const 1024))) (drop (call $stream (local.get $file) (i64.const 0)))
        (call $close (local.get $file))";
    // The directory is open too.
    assert_eq!(outcome(64, &again(63, kept)), None);
    for count in [64, 4_000] {
        assert_eq!(outcome(64, &again(count, kept)), Some(Quota::OpenFiles(64)), "{count}");
    }
    let more = again(1_000, "(drop (call $stream (local.get $file) (i64.const 0)))");
    let many = format!("(local.set $file (call $open (i32.const 1024))) {more} (call $close (local.get $file))");
    assert_eq!(outcome(2, &many), None);
    let given_back = "(local.set $file (call $open (i32.const 1024)))
        (local.set $first (call $stream (local.get $file) (i64.const 0)))
        (call $close (local.get $file)) (call $end (local.get $first))";
    assert_eq!(outcome(2, &again(4_000, given_back)), None);
}

// What a stream writes is accounted to its own file, whichever file has the handle by now.
#[test]
fn a_stale_stream_writes_for_its_own_file() {
    let directory = TempDir::new().unwrap();
    // Each of the first two is written by a stream while the next one has its handle.
    let instructions = "
        (local.set $file (call $open (i32.const 1024)))
        (local.set $first (call $stream (local.get $file) (i64.const 0)))
        (call $close (local.get $file))
        (if (i32.ne (local.get $file) (call $open (i32.const 1032))) (then unreachable))
        (local.set $second (call $stream (local.get $file) (i64.const 0)))
        (call $put (local.get $first) (i32.const 2048) (i32.const 8))
        (call $close (local.get $file))
        (if (i32.ne (local.get $file) (call $open (i32.const 1040))) (then unreachable))
        (call $put (local.get $second) (i32.const 2056) (i32.const 8))
        (call $write (local.get $file) (i32.const 2064) (i32.const 9) (i64.const 0))";
    let written = write(&Limits::default(), instructions, directory.path()).unwrap();
    assert_eq!(written.digests.len(), 3);
    for (name, text) in [("a.txt", "aaaaaaaa"), ("b.txt", "bbbbbbbb"), ("c.txt", "the third")] {
        assert_eq!(std::fs::read_to_string(directory.path().join(name)).unwrap(), text);
        let digest = &written.digests[name];
        assert_eq!((digest.sha256, digest.bytes), (Digest::of(text.as_bytes()), text.len() as u64), "{name}");
    }
}

// The gap before such a write counts too, for another file reached as far.
#[test]
fn a_stale_stream_leaves_no_gap_uncounted() {
    let gap = 1_u64 << 20;
    let instructions = format!(
        "(local.set $file (call $open (i32.const 1024)))
        (local.set $first (call $stream (local.get $file) (i64.const {gap})))
        (call $close (local.get $file))
        (if (i32.ne (local.get $file) (call $open (i32.const 1032))) (then unreachable))
        (call $write (local.get $file) (i32.const 2048) (i32.const 1) (i64.const {gap}))
        (call $put (local.get $first) (i32.const 2048) (i32.const 1))"
    );
    let run = |written_bytes| {
        let limits = Limits { written_bytes, ..Limits::default() };
        write(&limits, &instructions, TempDir::new().unwrap().path())
    };
    let both = 2 * (gap + 1);
    run(both).unwrap();
    let refused = run(both - 1).unwrap_err();
    assert!(matches!(refused, CallError::Quota(Quota::WrittenBytes(limit)) if limit == both - 1), "{refused}");
}

//! Policies that import what runtimes of languages bring along: they load, and get nothing by it but the streams of their own
//! files.

use lro_host::sandbox::types::PlannedPart;
use lro_host::sandbox::{CallError, Limits, Plan, PolicyError, Quota, Verdict};
use lro_tests::{call_of, request, settings, text};
use tempfile::TempDir;

use crate::modules::{component_of, inspects, load};

/// The contract, and interfaces of older versions of WASI besides.
const WORLD: &str = "
    package lro:inert;
    world policy {
        include lro:filter/lro-policy@0.2.0;
        import wasi:cli/environment@0.2.3;
        import wasi:cli/exit@0.2.3;
        import wasi:cli/stdout@0.2.3;
        import wasi:clocks/monotonic-clock@0.2.12;
        import wasi:random/random@0.2.3;
    }
    package wasi:cli@0.2.3 {
        interface environment { get-environment: func() -> list<tuple<string, string>>; }
        interface exit { exit: func(status: result); }
        interface stdout {
            use wasi:io/streams@0.2.12.{output-stream};
            get-stdout: func() -> output-stream;
        }
    }
    package wasi:random@0.2.3 {
        interface random { get-random-bytes: func(len: u64) -> list<u8>; get-random-u64: func() -> u64; }
    }";

const IMPORTS: &str = r#"
    (import "wasi:cli/environment@0.2.3" "get-environment" (func $environment (param i32)))
    (import "wasi:cli/exit@0.2.3" "exit" (func $exit (param i32)))
    (import "wasi:cli/stdout@0.2.3" "get-stdout" (func $stdout (result i32)))
    (import "wasi:io/streams@0.2.12" "[method]output-stream.blocking-write-and-flush"
        (func $write (param i32 i32 i32 i32)))
    (import "wasi:clocks/monotonic-clock@0.2.12" "now" (func $now (result i64)))
    (import "wasi:clocks/monotonic-clock@0.2.12" "subscribe-duration" (func $after (param i64) (result i32)))
    (import "wasi:io/poll@0.2.12" "[method]pollable.block" (func $block (param i32)))
    (import "wasi:random/random@0.2.3" "get-random-u64" (func $random (result i64)))
    (import "wasi:random/random@0.2.3" "get-random-bytes" (func $bytes (param i64 i32)))"#;

/// Gives the tool result back and answers `pass`, which is all zeros.
const PASS: &str = "(call $release (i32.const 1)) (i32.const 0)";

/// What `inspect-result` of these instructions answers.
fn inspect(instructions: &str) -> Result<Verdict, CallError> {
    let policy = load(&component_of(&format!("{IMPORTS} {}", inspects(instructions)), Some(WORLD))).unwrap();
    let inspected = policy.prepared().inspect(&Limits::default(), &call_of(request(settings())), &text("a result"));
    inspected.map(|(verdict, _)| verdict)
}

#[test]
fn there_is_no_environment_and_no_time() {
    let environment = "(call $environment (i32.const 512)) (if (i32.load (i32.const 516)) (then unreachable))";
    let time = "(if (i64.ne (call $now) (i64.const 0)) (then unreachable))";
    assert_eq!(inspect(&format!("{environment} {time} {PASS}")).unwrap(), Verdict::Pass);
}

#[test]
fn output_goes_nowhere_and_nothing_has_to_be_waited_for() {
    let write = "(call $write (call $stdout) (i32.const 0) (i32.const 4096) (i32.const 512))
        (if (i32.load8_u (i32.const 512)) (then unreachable))";
    let sleep = "(call $block (call $after (i64.const 3600000000000)))";
    // Handles that are left to the end of the call are no error: the instance ends with it.
    assert_eq!(inspect(&format!("{write} {sleep} {PASS}")).unwrap(), Verdict::Pass);
}

#[test]
fn random_numbers_are_the_same_in_every_call() {
    let letters = |address: u32| {
        let letter = "(i64.or (i64.and (call $random) (i64.const 0x0f0f0f0f0f0f0f0f)) (i64.const 0x4040404040404040))";
        format!("(i64.store (i32.const {address}) {letter})")
    };
    let reject = "(i32.store8 (i32.const 8) (i32.const 3)) (i32.store (i32.const 16) (i32.const 512))
        (i32.store (i32.const 20) (i32.const 16))";
    let answer = || match inspect(&format!("{} {} {reject} {PASS}", letters(512), letters(520))).unwrap() {
        Verdict::Reject(advice) => advice,
        other => panic!("{other:?}"),
    };
    let (first, second) = (answer(), answer());
    assert_eq!(first, second);
    assert_ne!(first[..8], first[8..]);
}

#[test]
fn what_they_could_take_up_is_bounded() {
    let failure = |instructions: &str| inspect(&format!("{instructions} {PASS}")).unwrap_err();
    let exit = failure("(call $exit (i32.const 0))");
    assert!(matches!(&exit, CallError::Trap(text) if text.contains("called exit")), "{exit}");
    let bytes = failure("(call $bytes (i64.const -1) (i32.const 512))");
    assert!(matches!(&bytes, CallError::Trap(text) if text.contains("random bytes")), "{bytes}");
    let handles = failure("(loop (drop (call $stdout)) (br 0)) unreachable");
    assert!(matches!(&handles, CallError::Trap(_)), "{handles}");
    let pollables = failure("(loop (drop (call $after (i64.const 0))) (br 0)) unreachable");
    assert!(matches!(&pollables, CallError::Trap(_)), "{pollables}");
}

/// Writes "abcd" and "efgh" through one stream, "abcd" at the end through another, reads from the third byte on, and answers
/// `no-space`. What is written before stays in the directory.
const STREAMS: &str = r#"
    (import "wasi:filesystem/preopens@0.2.12" "get-directories" (func $directories (param i32)))
    (import "wasi:filesystem/types@0.2.12" "[method]descriptor.open-at"
        (func $open (param i32 i32 i32 i32 i32 i32 i32)))
    (import "wasi:filesystem/types@0.2.12" "[method]descriptor.write-via-stream" (func $writer (param i32 i64 i32)))
    (import "wasi:filesystem/types@0.2.12" "[method]descriptor.append-via-stream" (func $appender (param i32 i32)))
    (import "wasi:filesystem/types@0.2.12" "[method]descriptor.read-via-stream" (func $reader (param i32 i64 i32)))
    (import "wasi:io/streams@0.2.12" "[method]output-stream.blocking-write-and-flush"
        (func $write (param i32 i32 i32 i32)))
    (import "wasi:io/streams@0.2.12" "[method]input-stream.blocking-read" (func $read (param i32 i64 i32)))
    (data (i32.const 1024) "a.txt") (data (i32.const 2048) "abcdefgh")
    (global $free (mut i32) (i32.const 65536))
    (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
        global.get $free
        (global.set $free (i32.and (i32.add (i32.add (global.get $free) (local.get 3)) (i32.const 7)) (i32.const -8))))
    (func $must (param $result i32) (result i32)
        (if (i32.load8_u (local.get $result)) (then unreachable))
        (i32.load offset=4 (local.get $result)))
    (func (export "lro:filter/lro-filter@0.2.0#write-sections") (param i32) (result i32)
        (local $file i32) (local $stream i32)
        (call $directories (i32.const 512))
        (call $open (i32.load (i32.load (i32.const 512))) (i32.const 0) (i32.const 1024) (i32.const 5)
            (i32.const 1) (i32.const 3) (i32.const 528))
        (local.set $file (call $must (i32.const 528)))
        (call $writer (local.get $file) (i64.const 0) (i32.const 528))
        (local.set $stream (call $must (i32.const 528)))
        (call $write (local.get $stream) (i32.const 2048) (i32.const 4) (i32.const 528))
        (drop (call $must (i32.const 528)))
        (call $write (local.get $stream) (i32.const 2052) (i32.const 4) (i32.const 528))
        (drop (call $must (i32.const 528)))
        (call $appender (local.get $file) (i32.const 528))
        (call $write (call $must (i32.const 528)) (i32.const 2048) (i32.const 4) (i32.const 528))
        (drop (call $must (i32.const 528)))
        (call $reader (local.get $file) (i64.const 2) (i32.const 528))
        (call $read (call $must (i32.const 528)) (i64.const 100) (i32.const 528))
        (if (i32.ne (i32.load (call $must (i32.const 528))) (i32.const 0x66656463)) (then unreachable))
        (if (i32.ne (i32.load (i32.const 536)) (i32.const 10)) (then unreachable))
        (i32.store8 (i32.const 640) (i32.const 1)) (i32.store8 (i32.const 648) (i32.const 2))
        (call $release (i32.const 1)) (i32.const 640))"#;

#[test]
fn streams_of_files_count_as_what_descriptors_write() {
    let policy = load(&component_of(STREAMS, Some(WORLD))).unwrap();
    let write = |limits: &Limits| {
        let directory = TempDir::new().unwrap();
        let (call, plan) = (call_of(request(settings())), Plan { parts: vec![PlannedPart::Text] });
        let written = policy.prepared().write(limits, &call, &text("a result"), &plan, directory.path());
        (written.unwrap_err(), std::fs::read_to_string(directory.path().join("a.txt")).unwrap())
    };
    let (error, file) = write(&Limits::default());
    assert!(matches!(error, CallError::Policy(PolicyError::NoSpace)), "{error}");
    assert_eq!(file, "abcdefghabcd");
    let (error, file) = write(&Limits { written_bytes: 7, ..Limits::default() });
    assert!(matches!(error, CallError::Quota(Quota::WrittenBytes(7))), "{error}");
    assert_eq!(file, "abcd");
}

//! Memory does not grow with the document, time grows linearly, and errors name limits.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]
#![expect(unsafe_code, reason = "an allocator that counts has to be unsafe")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use lro_json::SyntaxErrorKind;
use lro_jsonl::{
    BLOCK_BYTES, Document, Error, FileReport, KEY_BYTES_MAX, Options, Output, Section, Shape, Splitter, Stream, Target,
};
use support::split;

/// Counts allocated bytes and their peak.
struct Counting;

/// Every test holds this lock, because the allocator counts for all threads.
static ALONE: Mutex<()> = Mutex::new(());

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// An output that only counts.
#[derive(Default)]
struct Count {
    files: Vec<FileReport>,
    bytes: u64,
}

impl Output for Count {
    type Error = Infallible;

    fn begin(&mut self, _target: Target<'_>) -> Result<(), Infallible> {
        Ok(())
    }

    fn write(&mut self, _stream: Stream, bytes: &[u8]) -> Result<(), Infallible> {
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn end(&mut self, _stream: Stream, report: FileReport) -> Result<(), Infallible> {
        self.files.push(report);
        Ok(())
    }
}

fn options() -> Options {
    let sections = vec![Section { pointer: "/rows".into(), shape: Shape::Elements }];
    Options { sections, inline_bytes: 1024, inline_total: 4096, profile: true, ..Options::default() }
}

/// Splits `head`, `count` times `piece`, `tail`; also returns the peak memory.
fn stream(head: &str, piece: &str, count: usize, tail: &str) -> (Document, Count, usize) {
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let mut splitter = Splitter::new(options(), Count::default());
    splitter.push(head).expect("valid");
    for _ in 0..count {
        splitter.push(piece).expect("valid");
    }
    splitter.push(tail).expect("valid");
    let (document, output) = splitter.finish().expect("valid");
    (document, output, MOST.load(Ordering::Relaxed) - before)
}

/// The bound in the documentation of `Splitter`, rounded up: two blocks, the inline values, the scanner, a profile.
const MEMORY_BYTES_MAX: usize = 2 * BLOCK_BYTES + 64 * 1024;

/// One million records, a string of 200 MB, a number, a record and a key of 8 MB: all in the same memory.
#[test]
fn memory_is_bounded() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let long = "0123456789abcdef".repeat(BLOCK_BYTES / 16);
    let digits = "1234567890".repeat(BLOCK_BYTES / 10);
    let rows = "{\"id\":1},".repeat(1_000);
    let (count, some) = (200_000_000 / BLOCK_BYTES, 8_000_000 / BLOCK_BYTES);
    let cases = [
        ("{\"rows\":[", rows.as_str(), 1_000, "1]}", 1_000_001),
        ("{\"rows\":[\"", &long, count, "\"]}", 1),
        ("{\"rows\":[1", &digits, some, "]}", 1),
        ("{\"rows\":[{\"a\":[", &rows, 800, "1]}]}", 1),
        ("{\"rows\":[{\"", &long, some, "\":1}]}", 1),
        ("{\"rows\":\"", &long, some, "\"}", 1),
        ("{\"other\":\"", &long, some, "\"}", 1),
        ("{\"other\":[", &rows, 100, "1]}", 100_001),
        ("\"", &long, some, "\"", 1),
    ];
    for (head, piece, count, tail, records) in cases {
        let before = processor_ticks();
        let (document, output, memory) = stream(head, piece, count, tail);
        assert!(processor_ticks() - before < 6_000, "{head}: more hundredths of a second");
        assert_eq!(output.files.len(), 1, "{head}: {document:?}");
        assert_eq!(output.files[0].records, records, "{head}");
        assert_eq!(output.files[0].bytes, output.bytes, "{head}");
        assert_eq!(document.bytes, (head.len() + piece.len() * count + tail.len()) as u64);
        assert!(memory < MEMORY_BYTES_MAX, "{memory} bytes for {head}");
    }

    // A million members outside all sections, which are too many to stay inline.
    let member = "\"name\":\"value\",".repeat(1_000);
    let (document, output, memory) = stream("{", &member, 1_000, "\"last\":1}");
    assert!(!document.inline.is_empty());
    assert_eq!(output.files[0].records + document.inline.len() as u64, 1_000_001);
    assert!(memory < MEMORY_BYTES_MAX, "{memory} bytes");
}

/// A key outside all sections may be as long as the limit, and no longer; in a record it may be longer.
#[test]
fn keys_of_the_skeleton_are_limited() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let document =
        |before: &str, length: usize, after: &str| format!("{before}\"{}\":1{after}", "k".repeat(length - 2));
    assert!(split(&[&document("{", KEY_BYTES_MAX, "}")], &options()).is_ok());
    let error = split(&[&document("{", KEY_BYTES_MAX + 1, "}")], &options()).map(|_| ()).expect_err("too long");
    assert_eq!(error.kind, SyntaxErrorKind::KeyLimit(KEY_BYTES_MAX));
    assert!(error.to_string().contains("65536"));
    assert!(split(&[&document("{\"rows\":[{", KEY_BYTES_MAX + 1, "}]}")], &options()).is_ok());
}

/// The splitter returns the error of the output, and the output is available afterwards.
#[test]
fn a_failing_output_stops() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    #[derive(Debug, Default)]
    struct Full(u64);

    impl Output for Full {
        type Error = &'static str;

        fn begin(&mut self, _target: Target<'_>) -> Result<(), Self::Error> {
            Ok(())
        }

        fn write(&mut self, _stream: Stream, bytes: &[u8]) -> Result<(), Self::Error> {
            self.0 += bytes.len() as u64;
            if self.0 > 2 * BLOCK_BYTES as u64 { Err("full") } else { Ok(()) }
        }

        fn end(&mut self, _stream: Stream, _report: FileReport) -> Result<(), Self::Error> {
            Ok(())
        }
    }

    let mut output = Full::default();
    let mut splitter = Splitter::new(options(), &mut output);
    splitter.push("{\"rows\":[1").expect("no file yet full");
    let error = (0..100).find_map(|_| splitter.push(&",12345678".repeat(10_000)).err());
    assert_eq!(error, Some(Error::Output("full")));
    drop(splitter);
    assert!(output.0 > 2 * BLOCK_BYTES as u64);
}

/// Processor time of this thread in hundredths of a second, which does not depend on the load of the machine. Zero on other
/// systems than Linux, which have no such file.
fn processor_ticks() -> u64 {
    if !cfg!(target_os = "linux") {
        return 0;
    }
    let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("Linux has it");
    let (_, fields) = stat.rsplit_once(')').expect("the name of the thread is in parentheses");
    fields.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("a number of ticks")).sum()
}

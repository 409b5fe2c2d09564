//! Hostile text is searched and outlined in bounded memory.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]
#![expect(unsafe_code, reason = "an allocator that counts is unsafe to write")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use lro_text::outline::Outliner;
use lro_text::search::{LineReader, Pattern, RecordSearcher, Search, Searcher};

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

const MIB: usize = 1024 * 1024;

/// What an outline may take in a policy, and a search in a query.
const OUTLINE_BYTES: usize = 6 * MIB;
const SEARCH_BYTES: usize = 40 * MIB;

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn searches() -> Vec<Search> {
    let search = |pattern, rank| Search {
        pattern,
        ignore_case: true,
        before: if rank { 0 } else { 100 },
        after: if rank { 0 } else { 100 },
        limit: if rank { 100 } else { 10_000 },
        offset: 0,
        count_only: false,
        rank,
    };
    vec![
        search(Pattern::Literal("a".into()), false),
        search(Pattern::Literal("needle".into()), false),
        search(Pattern::Regex("(a|b)*c|[a-z]+x".into()), false),
        search(Pattern::Words(vec!["a needle heading".into()]), true),
    ]
}

/// Pushes `piece` as often as it takes to have `bytes` of it; runs everything there is on it.
fn survive(piece: &[u8], bytes: usize) {
    let slice = piece.repeat((256 * 1024 / piece.len()).max(1));
    let slices = (bytes / slice.len()).max(1);
    let peak = |limit: usize, run: &mut dyn FnMut()| {
        let before = NOW.load(Ordering::Relaxed);
        MOST.store(before, Ordering::Relaxed);
        run();
        let taken = MOST.load(Ordering::Relaxed) - before;
        assert!(taken < limit, "{} MiB of {} MiB", taken / MIB, limit / MIB);
    };
    peak(OUTLINE_BYTES, &mut || {
        let mut outliner = Outliner::default();
        (0..slices).for_each(|_| outliner.push(&slice));
        std::hint::black_box(outliner.finish());
    });
    for search in searches() {
        peak(SEARCH_BYTES, &mut || {
            let mut searcher = Searcher::new(&search).expect("a valid search");
            (0..slices).for_each(|_| searcher.push(&slice));
            std::hint::black_box(searcher.finish());
        });
    }
    peak(SEARCH_BYTES, &mut || {
        let mut searcher = RecordSearcher::new(&searches().remove(0)).expect("a valid search");
        (0..slices).for_each(|_| searcher.push(&slice));
        std::hint::black_box(searcher.finish());
    });
    for (from, to) in [(1, i64::MAX), (i64::MIN, -1), (5, -5)] {
        peak(SEARCH_BYTES, &mut || {
            let mut reader = LineReader::new(from, to).expect("valid numbers");
            (0..slices).for_each(|_| reader.push(&slice));
            std::hint::black_box(reader.finish());
        });
    }
}

#[test]
fn one_line_of_200_mb() {
    let _alone = alone();
    survive(b"lorem ipsum a ", 200 * MIB);
}

#[test]
fn a_million_headings() {
    let _alone = alone();
    survive(b"# heading a\n", 12 * MIB);
}

#[test]
fn lines_without_content() {
    let _alone = alone();
    survive(b"\n", 4 * MIB);
    survive(b"\0\0\0\n\0", 4 * MIB);
    survive(b"\xFF\xFE\x80\n", 4 * MIB);
}

#[test]
fn deep_indentation() {
    let _alone = alone();
    let deep: Vec<u8> = (0..2000).flat_map(|depth| [b" ".repeat(depth), b"a:\n".to_vec()].concat()).collect();
    survive(&deep, 8 * MIB);
}

#[test]
fn messages_that_differ() {
    let _alone = alone();
    let log: String = (0..200_000)
        .map(|number: u32| {
            let word: String = (0..6).map(|place| char::from(b'g' + (number >> (place * 3) & 7) as u8)).collect();
            format!("12:00:00 INFO {word} {word}\n")
        })
        .collect();
    survive(log.as_bytes(), log.len());
}

#[test]
fn headings_of_html_without_end() {
    let _alone = alone();
    survive(b"<html><h1><h2 ", 8 * MIB);
}

#[test]
fn json_that_opens_only() {
    let _alone = alone();
    survive(b"[[\"a\",{\"\\u00", 8 * MIB);
}

//! Search and outlines.

use lro_text::outline::Outliner;
use lro_text::search::{LineReader, Pattern, RecordSearcher, Search, Searcher};

use crate::memory::{alone, peak};

const MIB: usize = 1024 * 1024;

/// What an outline may take in a policy, and a search in a query.
const OUTLINE_BYTES: usize = 6 * MIB;
const SEARCH_BYTES: usize = 40 * MIB;

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
    let within = |limit: usize, run: &mut dyn FnMut()| {
        let ((), taken) = peak(run);
        assert!(taken < limit, "{} MiB of {} MiB", taken / MIB, limit / MIB);
    };
    within(OUTLINE_BYTES, &mut || {
        let mut outliner = Outliner::default();
        (0..slices).for_each(|_| outliner.push(&slice));
        std::hint::black_box(outliner.finish());
    });
    for search in searches() {
        within(SEARCH_BYTES, &mut || {
            let mut searcher = Searcher::new(&search).expect("a valid search");
            (0..slices).for_each(|_| searcher.push(&slice));
            std::hint::black_box(searcher.finish());
        });
    }
    within(SEARCH_BYTES, &mut || {
        let mut searcher = RecordSearcher::new(&searches().remove(0)).expect("a valid search");
        (0..slices).for_each(|_| searcher.push(&slice));
        std::hint::black_box(searcher.finish());
    });
    for (from, to) in [(1, i64::MAX), (i64::MIN, -1), (5, -5)] {
        within(SEARCH_BYTES, &mut || {
            let mut reader = LineReader::new(from, to).expect("valid numbers");
            (0..slices).for_each(|_| reader.push(&slice));
            std::hint::black_box(reader.finish());
        });
    }
}

#[test]
fn one_line_longer_than_its_memory() {
    let _alone = alone();
    survive(b"lorem ipsum a ", 64 * MIB);
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

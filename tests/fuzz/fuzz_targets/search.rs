//! A search finds the lines that a walk finds, and an outline lies in its text, however the text is sliced.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lro_text::outline::{Outline, Outliner};
use lro_text::search::{Found, Pattern, Search, Searcher};

/// Patterns behind the first byte of the input: literals, words and expressions.
const PATTERNS: [(&str, bool); 8] = [
    ("a", false),
    ("ab", false),
    ("# heading", false),
    ("ERROR", false),
    ("[a-z]+:", true),
    ("(?:ab|ba|ERROR)\\b", true),
    ("^\\s*$", true),
    ("(a*)*b", true),
];

/// Marks a run of one letter, so that lines get longer than a region.
const RUN: u8 = 0xFF;
const RUN_BYTES: usize = 70_000;

/// Size in bytes from which a text gets no more runs.
const TEXT_BYTES_MAX: usize = 500_000;

fn found(search: &Search, text: &[u8], length: usize) -> Found {
    let mut searcher = Searcher::new(search).expect("a valid search");
    text.chunks(length).for_each(|slice| searcher.push(slice));
    searcher.finish()
}

fn outline(text: &[u8], length: usize) -> Outline {
    let mut outliner = Outliner::default();
    text.chunks(length).for_each(|slice| outliner.push(slice));
    outliner.finish()
}

fuzz_target!(|data: &[u8]| {
    let Some((&[choice, flags, size], input)) = data.split_first_chunk() else { return };
    let mut text = Vec::with_capacity(input.len());
    for &byte in input {
        match byte {
            RUN if text.len() < TEXT_BYTES_MAX => text.resize(text.len() + RUN_BYTES, b'x'),
            _ => text.push(byte),
        }
    }
    let (pattern, is_regex) = PATTERNS[usize::from(choice) % PATTERNS.len()];
    let rank = flags & 1 != 0 && !is_regex;
    let search = Search {
        pattern: match is_regex {
            true => Pattern::Regex(pattern.into()),
            false if rank || flags & 2 != 0 => Pattern::Words(vec![pattern.into()]),
            false => Pattern::Literal(pattern.into()),
        },
        ignore_case: flags & 4 != 0,
        before: if rank { 0 } else { u32::from(flags >> 3 & 3) },
        after: if rank { 0 } else { u32::from(flags >> 5 & 3) },
        limit: 100,
        offset: u64::from(flags >> 7),
        count_only: false,
        rank,
    };
    let length = 1 + usize::from(size) * usize::from(size);
    let whole = found(&search, &text, text.len().max(1));
    assert_eq!(found(&search, &text, length), whole);
    let lines = text.split_inclusive(|byte| *byte == b'\n').count() as u64;
    assert_eq!(whole.lines, lines);
    assert!(whole.hits.iter().all(|hit| (1..=lines).contains(&hit.line)));
    if !rank && !is_regex && !search.ignore_case && !input.contains(&RUN) {
        let has = |line: &[u8]| line.windows(pattern.len()).any(|window| window == pattern.as_bytes());
        let matches = text.split_inclusive(|byte| *byte == b'\n').filter(|line| line.len() <= 65_536 && has(line));
        assert_eq!(whole.matches, matches.count() as u64);
    }
    let outlined = outline(&text, text.len().max(1));
    assert_eq!(outline(&text, length), outlined);
    assert_eq!(outlined.lines, lines);
    assert!(outlined.entries.iter().all(|entry| (1..=lines).contains(&entry.line)));
});

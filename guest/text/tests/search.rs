//! Searches find what a search line by line finds, however the text is sliced.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use lro_text::search::{Found, LineReader, Pattern, Search, SearchError, Searcher};
use proptest::prelude::*;
use regex::{Regex, RegexBuilder};

fn search(pattern: Pattern) -> Search {
    Search { pattern, ignore_case: false, before: 0, after: 0, limit: 1000, offset: 0, count_only: false, rank: false }
}

fn literal(text: &str) -> Search {
    search(Pattern::Literal(text.into()))
}

fn regex(text: &str) -> Search {
    search(Pattern::Regex(text.into()))
}

fn found(search: &Search, text: &[u8]) -> Found {
    sliced(search, text, text.len().max(1))
}

fn sliced(search: &Search, text: &[u8], length: usize) -> Found {
    let mut searcher = Searcher::new(search).expect("a valid search");
    text.chunks(length).for_each(|slice| searcher.push(slice));
    searcher.finish()
}

/// The lines that match, and those around them, by a walk over all lines.
struct Expected {
    lines: Vec<(u64, Vec<String>, String, Vec<String>)>,
    matches: u64,
    total: u64,
}

fn expected(search: &Search, text: &str) -> Expected {
    let matchers: Vec<Regex> = match &search.pattern {
        Pattern::Regex(regex) => vec![regex.clone()],
        Pattern::Literal(literal) => vec![regex::escape(literal)],
        Pattern::Words(words) => words.iter().map(|word| regex::escape(word)).collect(),
    }
    .iter()
    .map(|regex| {
        let mut builder = RegexBuilder::new(regex);
        builder.case_insensitive(search.ignore_case).multi_line(true).crlf(true).build().expect("a valid expression")
    })
    .collect();
    let lines: Vec<&str> = text.split_inclusive('\n').map(|line| line.strip_suffix('\n').unwrap_or(line)).collect();
    let is_match = |line: &str| {
        let line = line.strip_suffix('\r').unwrap_or(line);
        matchers.iter().all(|matcher| matcher.is_match(line))
    };
    let matching: Vec<usize> = (0..lines.len()).filter(|&index| is_match(lines[index])).collect();
    let limit = if search.count_only { 0 } else { search.limit as usize };
    let wanted: Vec<usize> = matching.iter().copied().skip(search.offset as usize).take(limit).collect();
    let text = |index: usize| lines[index].strip_suffix('\r').unwrap_or(lines[index]).to_owned();
    let mut shown = 0;
    let mut hits = Vec::new();
    for (position, &index) in wanted.iter().enumerate() {
        let before: Vec<_> = (shown.max(index.saturating_sub(search.before as usize))..index).map(text).collect();
        let next = wanted.get(position + 1).copied().unwrap_or(lines.len());
        shown = (index + 1 + search.after as usize).min(next);
        hits.push((index as u64 + 1, before, text(index), (index + 1..shown).map(text).collect()));
    }
    Expected { lines: hits, matches: matching.len() as u64, total: lines.len() as u64 }
}

fn assert_as_expected(search: &Search, text: &str, found: &Found) {
    let expected = expected(search, text);
    let hits = found.hits.iter().map(|hit| (hit.line, hit.before.clone(), hit.text.clone(), hit.after.clone()));
    assert_eq!(hits.collect::<Vec<_>>(), expected.lines, "{search:?} in {text:?}");
    assert_eq!((found.matches, found.lines), (expected.matches, expected.total), "{search:?} in {text:?}");
}

/// Lines of few words, so that patterns match often.
fn texts() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        8 => "[abAB]{1,3}",
        4 => Just("timeout".to_owned()),
        2 => Just("Error: ".to_owned()),
        1 => Just("é É ſ K \u{212A}".to_owned()),
        4 => Just(" ".to_owned()),
        3 => Just("\n".to_owned()),
        1 => Just("\r\n".to_owned()),
        1 => "[ -~]{0,90}",
    ];
    prop::collection::vec(word, 0..120).prop_map(|words| {
        let mut text = String::new();
        for word in words {
            // Lines stay so short that none is shortened.
            let line = text.rsplit('\n').next().unwrap_or_default().len();
            text.push_str(if line > 100 { "\n" } else { "" });
            text.push_str(&word);
        }
        text
    })
}

/// Expressions with and without literals, whose meaning does not depend on the Kelvin sign.
const EXPRESSIONS: [&str; 18] = [
    "a",
    "ab",
    "(?i)timeout",
    "error.*timeout",
    "Error|timeout",
    "(ab|ba)+$",
    "^[ab]+",
    "^$",
    "\\bab\\b",
    "[^a]b",
    "(?i)e.ror: +a",
    "a{2,3}b?",
    "\\w+out",
    "(?:abb|baa|bab|Error|timeout|aab)",
    "a\\s*b",
    "\\d{2}",
    "é",
    "(?i)É",
];

fn patterns() -> impl Strategy<Value = Pattern> {
    prop_oneof![
        "[abAB]{1,4}".prop_map(Pattern::Literal),
        prop::sample::select(vec!["timeout", "TIMEOUT", "r: a", "é", "É ", "b\u{212A}"])
            .prop_map(|literal| Pattern::Literal(literal.into())),
        prop::collection::vec("[abAB]{1,3}|timeout", 1..4).prop_map(Pattern::Words),
        prop::sample::select(EXPRESSIONS.to_vec()).prop_map(|regex| Pattern::Regex(regex.into())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_search_finds_what_a_walk_over_the_lines_finds(
        text in texts(),
        pattern in patterns(),
        ignore_case: bool,
        (before, after) in (0_u32..4, 0_u32..4),
        (limit, offset) in (0_u32..6, 0_u64..4),
        count_only in prop::bool::weighted(0.1),
        length in 1_usize..200,
    ) {
        let search = Search { ignore_case, before, after, limit, offset, count_only, ..search(pattern) };
        assert_as_expected(&search, &text, &sliced(&search, text.as_bytes(), length));
    }

    #[test]
    fn lines_are_those_with_the_numbers(text in texts(), from in -9_i64..9, to in -9_i64..9, length in 1_usize..200) {
        let lines: Vec<&str> = text.lines().collect();
        let reader = LineReader::new(from, to);
        if from == 0 || to == 0 || (from < 0) == (to < 0) && to < from {
            prop_assert_eq!(reader.err(), Some(SearchError::LineNumbers { from, to }));
            return Ok(());
        }
        let mut reader = reader.expect("valid numbers");
        text.as_bytes().chunks(length).for_each(|slice| reader.push(slice));
        let read = reader.finish();
        let number = |number: i64| if number > 0 { number } else { lines.len() as i64 + 1 + number };
        let expected: Vec<_> = (1..=lines.len() as i64).filter(|line| (number(from)..=number(to)).contains(line)).collect();
        prop_assert_eq!(read.lines.iter().map(|line| line.line as i64).collect::<Vec<_>>(), expected);
        prop_assert!(read.lines.iter().all(|line| line.text == lines[line.line as usize - 1]));
        prop_assert_eq!((read.total, read.complete), (lines.len() as u64, true));
    }
}

/// Two megabytes of lines of all lengths, some longer than a region.
fn large() -> String {
    let mut text = String::new();
    for number in 0_usize..9000 {
        text.push_str(&format!("line {number} "));
        let length = number * number % 197 + if number % 3000 == 2999 { 400_000 } else { 0 };
        let end = text.len() + length;
        while text.len() < end {
            text.push_str(["lorem ", "ipsum ", "dolor é "][number % 3]);
        }
        text.push('\n');
    }
    text
}

#[test]
fn slices_of_every_size_give_the_same() {
    let text = large();
    let searches = [
        Search { before: 3, after: 2, ..literal("line 17") },
        Search { before: 1, ignore_case: true, ..literal("DOLOR") },
        Search { after: 1, ..regex("(7|8)99\\d? .*m") },
        Search { before: 2, ..regex("e [0-9]+8 ") },
        Search { rank: true, limit: 20, ..search(Pattern::Words(vec!["which line has dolor or 177?".into()])) },
        Search { before: 5, ..literal("em lo") },
    ];
    for search in searches {
        let whole = found(&search, text.as_bytes());
        assert!(whole.matches > 2, "{search:?}");
        for length in [100, 4096, 65_537, 256 * 1024, 300_000] {
            assert_eq!(sliced(&search, text.as_bytes(), length), whole, "{search:?} in slices of {length}");
        }
    }
}

#[test]
fn lines_that_fit_are_found_across_blocks() {
    let text: String = (0..60_000).map(|number| format!("{number} {}\n", "word ".repeat(number % 23))).collect();
    for search in [
        Search { before: 2, after: 2, limit: 1000, ..literal("77 word") },
        Search { before: 1, limit: 1000, ..regex("[0-9]*99 (word ){5}$") },
        Search {
            after: 3,
            limit: 1000,
            ignore_case: true,
            ..search(Pattern::Words(vec!["WORD".into(), "1234".into()]))
        },
    ] {
        assert_as_expected(&search, &text, &found(&search, text.as_bytes()));
    }
}

#[test]
fn in_a_long_line_each_match_is_a_hit_with_its_offset() {
    let mut line = String::new();
    for number in 0..3000 {
        line.push_str(&format!("{}<{number}>", "é".repeat(100)));
    }
    let text = format!("first\n{line}\nlast <7>\n");
    for (search, lines) in [(literal("<1500>"), vec![2]), (regex("<(7|2999)>"), vec![2, 2, 3])] {
        let found = found(&search, text.as_bytes());
        assert_eq!(found.hits.iter().map(|hit| hit.line).collect::<Vec<_>>(), lines, "{search:?}");
        assert_eq!((found.lines, found.long_lines), (3, true));
        assert!(found.hits.iter().all(|hit| hit.text.len() <= 420 && hit.text.contains('<')), "{:?}", found.hits);
    }
    let patterns = [
        (literal(">é"), ">é"),
        (literal("éé"), "éé"),
        (regex(">é+<2"), ">é+<2"),
        (regex("é{90,120}<[0-9]*5>"), "é{90,120}<[0-9]*5>"),
    ];
    for (search, pattern) in patterns {
        let expected: Vec<u64> = Regex::new(pattern)
            .expect("a valid expression")
            .find_iter(&line)
            .map(|found| found.start() as u64)
            .collect();
        let search = Search { limit: 10_000, ..search };
        for length in [70_000, text.len()] {
            let found = sliced(&search, text.as_bytes(), length);
            assert_eq!(found.matches, expected.len() as u64, "{pattern}");
            let offsets: Vec<u64> = found.hits.iter().filter_map(|hit| hit.offset).collect();
            assert_eq!(offsets, expected[..found.hits.len()], "{pattern}");
        }
    }
}

#[test]
fn words_have_to_be_in_one_piece_of_a_long_line() {
    let text = format!("{}near by{}far{}\n", "x".repeat(50_000), "x".repeat(50_000), "x".repeat(50_000));
    let words = |words: &[&str]| search(Pattern::Words(words.iter().map(|&word| word.to_owned()).collect()));
    assert_eq!(found(&words(&["near", "by"]), text.as_bytes()).matches, 1);
    let apart = found(&words(&["near", "far"]), text.as_bytes());
    assert_eq!((apart.matches, apart.long_lines), (0, true));
    assert!(!found(&literal("near"), b"near\nfar\n").long_lines);
}

#[test]
fn what_is_wrong_is_named() {
    let too_many = Search { before: 101, ..literal("a") };
    for (search, message) in [
        (regex("a(b"), "\"a(b\" is not a regular expression: unclosed group"),
        (regex("a\\nb"), "\"a\\\\nb\" matches only text with a line break"),
        (regex("(\\w{100}){100}"), "the regular expression is too large: compiled, it has more than 2097152 bytes"),
        (literal(""), "the pattern is empty"),
        (search(Pattern::Words(vec![String::new()])), "the pattern is empty"),
        (too_many, "`before` is 101, at most 100 is possible"),
        (Search { rank: true, ..literal("a") }, "`rank` orders passages by words"),
    ] {
        let error = Searcher::new(&search).expect_err("an error").to_string();
        assert!(error.starts_with(message), "{error}");
    }
}

#[test]
fn an_expression_that_backtracks_elsewhere_takes_linear_time() {
    let text = format!("{}!\n", "a".repeat(60_000)).repeat(20);
    assert_eq!(found(&regex("^(a*)*b$"), text.as_bytes()).matches, 0);
    assert_eq!(found(&regex("(a|aa)+$"), text.as_bytes()).matches, 0);
}

// An expression may match nothing at the end of a text, where no line begins.
#[test]
fn an_empty_match_at_the_end_is_of_the_last_line() {
    for expression in ["$", "^$", "^\\s*$", "\\s*$", "x*", "\\z", "c$|^$"] {
        for text in ["", "abc", "abc\r", "\r", "a\r\r", "abc\n", "abc\n\r", "abc\r\n\r\n", "a\n\nb"] {
            let search = regex(expression);
            assert_as_expected(&search, text, &found(&search, text.as_bytes()));
            assert_eq!(
                sliced(&search, text.as_bytes(), 1),
                found(&search, text.as_bytes()),
                "{expression} in {text:?}"
            );
        }
    }
}

#[test]
fn a_shown_line_surrounds_its_match() {
    let line = format!("{}needle{}\n", "a ".repeat(4000), "b ".repeat(4000));
    let hit = found(&literal("needle"), line.as_bytes()).hits.remove(0);
    assert!(hit.text.starts_with('…') && hit.text.ends_with('…') && hit.text.contains("needle"), "{}", hit.text);
    assert!(hit.text.len() <= 400 + 2 * '…'.len_utf8());
}

#[test]
fn pages_follow_each_other() {
    let text: String = (0..10).map(|number| format!("hit {number}\n")).collect();
    let page = |offset| {
        let found = found(&Search { limit: 4, offset, ..literal("hit") }, text.as_bytes());
        (found.hits.iter().map(|hit| hit.line).collect::<Vec<_>>(), found.next)
    };
    assert_eq!(page(0), (vec![1, 2, 3, 4], Some(4)));
    assert_eq!(page(4), (vec![5, 6, 7, 8], Some(8)));
    assert_eq!(page(8), (vec![9, 10], None));
    assert_eq!(page(20), (vec![], None));
}

#[test]
fn a_hit_is_a_json_record() {
    let text = "# A \"title\"\nbefore\nhit\n";
    let hit = found(&Search { before: 1, ..literal("hit") }, text.as_bytes()).hits.remove(0);
    let mut json = String::new();
    hit.write_json(&mut json);
    let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let expected = serde_json::json!({"line": 3, "text": "hit", "where": ["A \"title\""], "before": ["before"]});
    assert_eq!(value, expected);
}

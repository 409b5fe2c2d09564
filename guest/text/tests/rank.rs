//! Ranked passages.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use lro_text::search::{Found, Pattern, Search, SearchError, Searcher};

fn ask(question: &str, limit: u32, offset: u64) -> Search {
    Search {
        pattern: Pattern::Words(vec![question.into()]),
        ignore_case: true,
        before: 0,
        after: 0,
        limit,
        offset,
        count_only: false,
        rank: true,
    }
}

fn found(search: &Search, text: &str) -> Found {
    let mut searcher = Searcher::new(search).expect("a valid search");
    text.as_bytes().chunks(1000).for_each(|slice| searcher.push(slice));
    searcher.finish()
}

/// Paragraphs of words, each a few lines, under headings.
fn text() -> String {
    let words = ["server", "client", "socket", "timeout", "retry", "page", "cursor", "token", "file", "lock"];
    (0_usize..2000)
        .map(|number| {
            let heading = if number % 10 == 0 { format!("# Part {}\n\n", number / 10) } else { String::new() };
            let body: Vec<_> =
                (0..5 + number * 7 % 20).map(|index| words[(number * index + index * index) % 10]).collect();
            format!("{heading}{}.\n\n", body.join(if number % 3 == 0 { " " } else { "\n" }))
        })
        .collect()
}

#[test]
fn rare_words_count_more_and_forms_of_a_word_are_one() {
    let text = "# Install\n\nThe server starts.\n\n# Trouble\n\nIf retries time out, the server waits.\n\nThe server is a server.\n\n\
        # Other\n\nNothing here.\n";
    let found = found(&ask("why does the server not retry?", 10, 0), text);
    let hits: Vec<_> = found.hits.iter().map(|hit| (hit.line, hit.place.join("/"))).collect();
    // "retries" is not "retry", but "server" is in both paragraphs under "Trouble" and the shorter one has it twice.
    assert_eq!(hits, [(9, "Trouble".into()), (3, "Install".into()), (7, "Trouble".into())]);
    assert_eq!((found.matches, found.approximate, found.next), (3, false, None));
    assert!(found.hits.windows(2).all(|pair| pair[0].score >= pair[1].score));
}

#[test]
fn scores_are_those_of_bm25() {
    let text = text();
    let passages: Vec<&str> = text.split_inclusive("\n\n").collect();
    let terms = ["timeout", "cursor"];
    let count = |passage: &str, term: &str| {
        passage.split(|letter: char| !letter.is_alphanumeric()).filter(|word| *word == term).count() as f64
    };
    let total = passages.len() as f64;
    let average = text.len() as f64 / total;
    let rarity = |term: &str| {
        let having = passages.iter().filter(|passage| count(passage, term) > 0.0).count() as f64;
        (1.0 + (total - having + 0.5) / (having + 0.5)).ln()
    };
    let rarities = terms.map(rarity);
    let mut line = 1;
    let mut expected: Vec<(u64, u64)> = Vec::new();
    for passage in &passages {
        let length = 0.25 + 0.75 * passage.len() as f64 / average;
        let score: f64 = terms
            .iter()
            .zip(rarities)
            .map(|(term, rarity)| rarity * count(passage, term) * 2.2 / (count(passage, term) + 1.2 * length))
            .sum();
        if score > 0.0 {
            expected.push(((score * 1000.0) as u64, line));
        }
        line += passage.matches('\n').count() as u64;
    }
    expected.sort_by_key(|(score, line)| (std::cmp::Reverse(*score), *line));
    let found = found(&ask("timeout cursors", 50, 0), &text);
    assert_eq!(found.matches, expected.len() as u64);
    assert!(!found.approximate);
    let scores: Vec<_> = found.hits.iter().map(|hit| hit.score).collect();
    assert_eq!(scores, expected.iter().take(50).map(|(score, _)| *score).collect::<Vec<_>>());
    assert!(found.hits.iter().all(|hit| expected.contains(&(hit.score, hit.line))));
}

#[test]
fn pages_of_ranked_passages_follow_each_other() {
    let text = text();
    let first = found(&ask("retry lock", 20, 0), &text);
    let second = found(&ask("retry lock", 10, 10), &text);
    assert_eq!(first.hits[10..], second.hits[..]);
    assert_eq!((first.next, second.next), (Some(20), Some(20)));
}

#[test]
fn a_log_is_ranked_line_by_line_and_in_bounded_memory() {
    let mut log: String =
        (0..40_000).map(|number| format!("2026-01-02T03:04:05Z INFO request {number} done\n")).collect();
    log.push_str("2026-01-02T03:04:06Z ERROR request 40000 refused\n");
    let found = found(&ask("which request was refused", 3, 0), &log);
    assert_eq!(found.matches, 40_001);
    assert_eq!(found.hits[0].line, 40_001);
    assert_eq!(found.hits[0].place, ["2026-01-02T03:04:06Z", "ERROR"]);
    assert!(found.approximate);
}

#[test]
fn words_that_say_nothing_are_left_out_unless_there_are_no_others() {
    let text = "to be or not\n\nthe answer\n";
    assert_eq!(found(&ask("what is the answer", 9, 0), text).matches, 1);
    assert_eq!(found(&ask("to be", 9, 0), text).matches, 1);
    assert_eq!(Searcher::new(&ask("?!", 9, 0)).err(), Some(SearchError::Empty));
    assert!(matches!(Searcher::new(&ask("a", 9, 5000)), Err(SearchError::OverLimit { .. })));
}

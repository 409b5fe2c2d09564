//! Searches a file as a query does: `find [--regex|--words|--rank|--outline] [--ignore-case] [--count] PATTERN FILE`.

#![expect(clippy::expect_used, reason = "an example fails by panicking")]

use std::io::Read;

use lro_text::outline::Outliner;
use lro_text::search::{Pattern, Search, Searcher};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let [.., pattern, path] = arguments.as_slice() else {
        eprintln!("find [--regex|--words|--rank|--outline] [--ignore-case] [--count] PATTERN FILE");
        std::process::exit(2);
    };
    let words = || pattern.split(' ').map(str::to_owned).collect();
    let search = Search {
        pattern: match () {
            () if has("--regex") => Pattern::Regex(pattern.clone()),
            () if has("--words") || has("--rank") => Pattern::Words(words()),
            () => Pattern::Literal(pattern.clone()),
        },
        ignore_case: has("--ignore-case"),
        before: 0,
        after: 0,
        limit: 10,
        offset: 0,
        count_only: has("--count"),
        rank: has("--rank"),
    };
    let mut file = std::fs::File::open(path).expect("a file");
    let mut slice = vec![0; 256 * 1024];
    let mut read = |each: &mut dyn FnMut(&[u8])| {
        loop {
            let mut length = 0;
            while length < slice.len() {
                match file.read(&mut slice[length..]).expect("a readable file") {
                    0 => break,
                    more => length += more,
                }
            }
            each(&slice[..length]);
            if length < slice.len() {
                return;
            }
        }
    };
    let mut json = String::new();
    if has("--outline") {
        let mut outliner = Outliner::default();
        read(&mut |slice| outliner.push(slice));
        let outline = outliner.finish();
        for entry in outline.best(20) {
            entry.write_json(&mut json);
            json.push('\n');
        }
        println!("{json}{} ({} entries) {:?}", outline.kind, outline.entries.len(), outline.notes);
        return;
    }
    let mut searcher = Searcher::new(&search).unwrap_or_else(|error| {
        eprintln!("{error}");
        std::process::exit(2);
    });
    read(&mut |slice| searcher.push(slice));
    let found = searcher.finish();
    for hit in &found.hits {
        hit.write_json(&mut json);
        json.push('\n');
    }
    println!("{json}{} matches in {} lines", found.matches, found.lines);
}

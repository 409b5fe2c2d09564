//! Files of installed packages: searches find what a walk finds, and outlines name their kinds.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::ops::Range;
use std::path::{Path, PathBuf};

use lro_text::outline::Outliner;
use lro_text::search::{Pattern, Search, Searcher};

/// Files of each kind, and their bytes.
const FILES: usize = 60;
const BYTES: Range<usize> = 2_000..200_000;

/// Readable files whose names end so, in the order of their paths, from packages spread over all there are.
fn files(ending: &str) -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-data");
    assert!(root.is_dir(), "{} is missing: run `make test-data`", root.display());
    let (mut folders, mut paths) =
        (["npm/node_modules", "mcp/node_modules", "venv/lib"].map(|name| root.join(name)).to_vec(), Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => paths.push(entry.path()),
                _ => {}
            }
        }
    }
    paths.retain(|path| {
        let size = path.metadata().map_or(0, |file| file.len() as usize);
        path.to_string_lossy().ends_with(ending) && BYTES.contains(&size)
    });
    paths.sort();
    let step = (paths.len() / FILES).max(1);
    let texts = paths.into_iter().step_by(step);
    texts.filter_map(|path| Some((path.clone(), std::fs::read_to_string(&path).ok()?))).collect()
}

fn matches(pattern: Pattern, ignore_case: bool, text: &str) -> u64 {
    let search =
        Search { pattern, ignore_case, before: 0, after: 0, limit: 0, offset: 0, count_only: true, rank: false };
    let mut searcher = Searcher::new(&search).expect("a valid search");
    text.as_bytes().chunks(5000).for_each(|slice| searcher.push(slice));
    searcher.finish().matches
}

#[test]
fn searches_find_what_a_walk_finds() {
    let mut compared = 0;
    for (path, text) in ["README.md", ".py", ".js"].into_iter().flat_map(files) {
        // Longer lines are searched in pieces.
        if text.lines().any(|line| line.len() > 60_000) {
            continue;
        }
        let lines = |test: &dyn Fn(&str) -> bool| text.lines().filter(|line| test(line)).count() as u64;
        for literal in ["import", "e", "The ", "://"] {
            let expected = lines(&|line| line.contains(literal));
            assert_eq!(matches(Pattern::Literal(literal.into()), false, &text), expected, "{literal} in {path:?}");
            let folded = lines(&|line| line.to_ascii_lowercase().contains(&literal.to_ascii_lowercase()));
            assert_eq!(matches(Pattern::Literal(literal.into()), true, &text), folded, "{literal} in {path:?}");
        }
        for expression in [r"[A-Z]\w+\(", r"\b(return|export|def)\b.*\d", r"^\s*$", r"https?://[^\s)]+"] {
            let regex = regex::Regex::new(expression).unwrap_or_else(|error| panic!("{error}"));
            let expected = lines(&|line| regex.is_match(line));
            assert_eq!(matches(Pattern::Regex(expression.into()), false, &text), expected, "{expression} in {path:?}");
        }
        compared += 1;
    }
    assert!(compared > 100, "{compared} files");
}

#[test]
fn outlines_name_the_kind_of_most_files() {
    let definitions = |text: &str, words: &[&str]| {
        text.lines().filter(|line| words.iter().any(|word| line.trim_start().starts_with(word))).count() > 2
    };
    type Has<'a> = &'a dyn Fn(&str) -> bool;
    let kinds: [(&str, &str, Has<'_>); 3] = [
        ("README.md", "Markdown", &|text| text.starts_with("# ")),
        (".py", "Python", &|text| definitions(text, &["def ", "class "])),
        (".js", "JavaScript", &|text| definitions(text, &["function ", "class ", "const ", "var ", "let "])),
    ];
    for (ending, kind, is_typical) in kinds {
        let files: Vec<_> = files(ending).into_iter().filter(|(_, text)| is_typical(text)).collect();
        let mut others = Vec::new();
        for (path, text) in &files {
            let mut outliner = Outliner::default();
            outliner.push(text.as_bytes());
            let outline = outliner.finish();
            if !outline.kind.starts_with(kind) {
                others.push((path, outline.kind));
            }
        }
        assert!(files.len() >= 10, "{} files {ending}", files.len());
        assert!(others.len() * 10 <= files.len(), "of {} files {ending}: {others:#?}", files.len());
    }
}

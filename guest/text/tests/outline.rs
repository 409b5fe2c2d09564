//! Outlines of every kind of text, however it is sliced.

use lro_text::outline::{ENTRIES_MAX, Outline, Outliner};
use proptest::prelude::*;

fn sliced(text: &[u8], length: usize) -> Outline {
    let mut outliner = Outliner::default();
    text.chunks(length).for_each(|slice| outliner.push(slice));
    outliner.finish()
}

fn outline(text: &str) -> Outline {
    sliced(text.as_bytes(), text.len().max(1))
}

/// Entries as tuples: line, level, title, lines.
fn entries(outline: &Outline) -> Vec<(u64, u32, &str, u64)> {
    outline.entries.iter().map(|entry| (entry.line, entry.level, &*entry.title, entry.lines)).collect()
}

#[test]
fn markdown() {
    let text = "# Top\nintro\n\nSecond\n------\n```\n# code\n```\n### Third\nx\n# Next\ny\n";
    let outline = outline(text);
    assert_eq!(entries(&outline), [(1, 1, "Top", 10), (4, 2, "Second", 7), (9, 3, "Third", 2), (11, 1, "Next", 2)]);
    assert_eq!(outline.kind, "Markdown with 4 headings");
    assert_eq!(outline.lines, 12);
}

#[test]
fn html() {
    let text = "<!doctype html>\n<body><h1>A</h1><h2>B <i>c</i></h2>\n<p>x</p>\n<h2>D</h2></body>\n";
    let outline = outline(text);
    assert_eq!(entries(&outline), [(2, 1, "A", 3), (2, 2, "B c", 2), (4, 2, "D", 1)]);
    assert_eq!(outline.kind, "HTML with 3 headings");
}

#[test]
fn diff() {
    let text = "diff --git a/a.rs b/a.rs\n--- a/a.rs\n+++ b/a.rs\n@@ -1,2 +1,3 @@\n x\n-y\n+z\n+w\ndiff --git a/b b/b\n\
        --- a/b\n+++ b/b\n@@ -1 +0,0 @@\n-gone\n";
    let outline = outline(text);
    assert_eq!(entries(&outline), [(1, 1, "a.rs (+2 -1)", 8), (9, 1, "b (+0 -1)", 5)]);
    assert_eq!(outline.kind, "diff of 2 files, 2 lines added, 2 removed");
}

#[test]
fn source_code() {
    let text = "use a;\n\nstruct A {\n    b: u8,\n}\n\nimpl A {\n    fn c(&self) {\n        d();\n    }\n}\n\nconst X: u8 = 1;\nfn e() {}\n";
    let outline = outline(text);
    let expected = [(3, 1, "struct A", 4), (7, 1, "impl A", 6), (8, 2, "fn c(&self)", 5), (14, 1, "fn e() {}", 1)];
    assert_eq!(entries(&outline), expected);
    assert_eq!(outline.kind, "Rust source with 4 definitions");
}

#[test]
fn snapshot() {
    let text = "- banner [ref=e1]:\n  - link \"Home\" [ref=e2]:\n    - /url: /\n  - generic [ref=e3]: text\n- main [ref=e4]:\n\
        \x20 - heading \"Title\" [level=1] [ref=e5]\n  - button \"Go\" [ref=e6] [cursor=pointer]\n";
    let outline = outline(text);
    let expected = [
        (1, 1, "banner [ref=e1]", 4),
        (2, 2, "link \"Home\" [ref=e2]", 2),
        (5, 1, "main [ref=e4]", 3),
        (6, 2, "heading \"Title\" [level=1] [ref=e5]", 1),
        (7, 2, "button \"Go\" [ref=e6] [cursor=pointer]", 1),
    ];
    assert_eq!(entries(&outline), expected);
    assert_eq!(outline.kind, "accessibility snapshot with 5 named elements");
}

#[test]
fn matches_of_a_search() {
    let text = "src/a.rs:3:fn main() {\nsrc/a.rs-4-    run();\nsrc/a.rs:9:fn run() {\n--\nC:\\b.rs:12:5:fn b() {\n\
        src/a.rs:30:fn late() {\n";
    let outline = outline(text);
    let expected = [(1, 1, "src/a.rs", 4), (5, 1, "C:\\b.rs", 1), (6, 1, "src/a.rs", 1)];
    assert_eq!(entries(&outline), expected);
    assert_eq!(outline.kind, "matches in 3 files");
    // Times are no paths, and two lines are no search.
    assert!(self::outline("10:20:30 one\n10:20:31 two\n10:20:32 three\n").kind.starts_with("log of 3 lines"));
    assert_eq!(self::outline("see a.txt:1:b\n\nsee a.txt:2:b\n").kind, "text of 3 lines in 2 blocks");
}

#[test]
fn files_one_after_another() {
    let (rust, notes) = ("use b;\nimpl A {\n    fn c() {}\n}\nconst D: u8 = 1;\n", "# Notes\n---\nkey:\n");
    let rule = "=".repeat(16);
    for (text, [line, next]) in [
        (format!("==> src/a.rs <==\n{rust}\n==> NOTES.md <==\n{notes}"), [1, 8]),
        (format!("/src/a.rs:\n{rust}\n---\n/NOTES.md:\n{notes}"), [1, 9]),
        (format!("Summary\n{rule}\nFile: src/a.rs\n{rule}\n{rust}\n{rule}\nFile: NOTES.md\n{rule}\n{notes}"), [3, 12]),
        (
            format!("<files>\n<file path=\"src/a.rs\">\n{rust}</file>\n\n<file path=\"NOTES.md\">\n{notes}</file>\n"),
            [2, 10],
        ),
    ] {
        let outline = outline(&text);
        assert_eq!(outline.kind, "text of 2 files", "{text}");
        let [first, definition, inner, second] = outline.entries.as_slice() else { panic!("{text}: {outline:?}") };
        assert_eq!((first.line, first.level, first.lines), (line, 1, next - line), "{text}");
        assert_eq!((&*definition.title, definition.level, definition.lines), ("impl A", 2, 3), "{text}");
        assert_eq!((&*inner.title, inner.level), ("fn c() {}", 3), "{text}");
        assert_eq!((second.line, second.level), (next, 1), "{text}");
        assert!(first.title.ends_with("src/a.rs") && second.title.ends_with("NOTES.md"), "{outline:?}");
    }
    // One file, documents in YAML, and the log of two files.
    let log = "==> a.log <==\n10:20:30 one\n10:20:31 two\n==> b.log <==\n10:20:32 three\n";
    for text in [&*format!("==> src/a.rs <==\n{rust}"), "a:\n  b: 1\n---\nc:\n  d: 1\n---\ne:\n", log] {
        assert!(!outline(text).kind.contains("files"), "{text}");
    }
}

#[test]
fn a_markdown_text_of_tables_is_markdown() {
    let mut text = String::from("# Settings\n\n| name | default |\n|---|---|\n");
    (0..30).for_each(|row| text.push_str(&format!("| `key_{row}` | {row} |\n")));
    assert_eq!(outline(&text).kind, "Markdown with 1 heading");
    let list = "# Notes\n\n- one\n  that goes on with `code` and a dash — here\n- two\n  with `more`\n";
    assert_eq!(outline(list).kind, "Markdown with 1 heading");
}

#[test]
fn trees_are_indented_text() {
    for tree in [
        ".\n├── a\n│   ├── b\n│   └── c\n└── d\n",
        ".\n|-- a\n|   |-- b\n|   `-- c\n`-- d\n",
        "app@1.0.0\n+-- a@1\n| +-- b@2\n| `-- c@3\n`-- d@4\n",
    ] {
        let outline = outline(tree);
        assert_eq!(outline.kind, "indented text of 5 lines", "{tree}");
        assert_eq!(entries(&outline)[1].3, 3, "{tree}");
    }
}

#[test]
fn rust_is_not_taken_for_javascript() {
    let text = "use a::B;\n\nfn c(b: B) -> u8 {\n    let x = 1;\n    let y = d(x);\n    const Z: u8 = 3;\n    let f = |z| z + y;\n\
        \x20   let g = f(y);\n    match b {\n        B::E => 1,\n        B::F(x) => x,\n        B::G { y, .. } => y,\n        _ => Z,\n    }\n}\n";
    assert_eq!(outline(text).kind, "Rust source with 1 definition");
    let text = "const a = require('a');\n\nlet b = 1;\nconst c = (d) => d + b;\nmodule.exports = { c };\n";
    assert_eq!(outline(text).kind, "JavaScript or TypeScript source with 1 definition");
    let text = "export declare class A {\n    private readonly b;\n    private c: string;\n    public d(e: string): void;\n    \
        protected f(): Promise<void>;\n}\n";
    assert!(outline(text).kind.starts_with("JavaScript or TypeScript source"), "{}", outline(text).kind);
}

#[test]
fn yaml_is_no_markdown_for_its_comments_and_rules() {
    let text = "# Where it listens\nport: 1\n---\nport: 2\n---\nport: 3\n";
    assert_eq!(outline(text).kind, "indented text of 6 lines");
    let text = "---\nkey: a\ntitle: b\ntag: c\nby: d\n---\n# Top\nText.\n";
    assert_eq!(outline(text).kind, "Markdown with 1 heading");
    let text = "## 1.0\n\n- Fix: one\n- Fix: two\n- Fix: three\n- Fix: four\n- Fix: five\n";
    assert_eq!(outline(text).kind, "Markdown with 1 heading");
}

#[test]
fn a_script_of_a_shell_is_no_markdown_for_its_comments() {
    let text =
        "#!/usr/bin/env bash\n# Says hello.\nset -eu\n\nhello() {\n    echo hello\n}\n\n# Twice.\nhello\nhello\n";
    let outline = outline(text);
    assert_eq!(outline.kind, "shell source with 1 definition");
    assert_eq!(entries(&outline), [(5, 1, "hello()", 5)]);
}

#[test]
fn indented_text() {
    let text = "a:\n  b: 1\n  c:\n    d: 2\n  e: 3\nf: 4\n";
    let outline = outline(text);
    assert_eq!(entries(&outline), [(1, 1, "a", 5), (3, 2, "c", 2), (6, 1, "f: 4", 1)]);
    assert_eq!(outline.kind, "indented text of 6 lines");
}

#[test]
fn log() {
    let mut text = String::new();
    for number in 0..30 {
        let level = if number % 3 == 0 { "ERROR" } else { "INFO" };
        text.push_str(&format!("2026-01-02T03:04:{number:02}Z {level} worker-{number} took {number}.5 ms for /a/b{number} \"x{number}\" 0f3a9b{number:02x}\n"));
        text.push_str("    continued\n");
    }
    text.push_str("2026-01-02T03:05:00Z WARN 123e4567-e89b-12d3-a456-426614174000 from 10.0.0.1:80\n");
    let outline = outline(&text);
    let expected = [
        (1, 1, "ERROR", 10),
        (61, 1, "WARN", 1),
        (3, 1, "INFO", 20),
        (3, 2, "INFO worker-<n> took <n> ms for <path> <text> <hex>", 20),
        (1, 2, "ERROR worker-<n> took <n> ms for <path> <text> <hex>", 10),
        (61, 2, "WARN <uuid> from <n>", 1),
    ];
    assert_eq!(entries(&outline), expected);
    assert_eq!(outline.kind, "log of 61 lines, 3 levels, from 2026-01-02T03:04:00Z to 2026-01-02T03:05:00Z");
}

/// The range in the outline of a log with these times.
fn range(times: &[&str]) -> String {
    let text: String = times.iter().map(|time| format!("{time} INFO one\n")).collect();
    let kind = outline(&text).kind;
    kind.split_once("1 level, from ").map(|(_, range)| range.to_owned()).unwrap_or(kind)
}

#[test]
fn the_range_of_a_log_is_from_its_least_to_its_greatest_time() {
    let newest_first = ["2026-01-02T03:04:07Z", "2026-01-02T03:04:06Z", "2026-01-02T03:04:05Z"];
    assert_eq!(range(&newest_first), "2026-01-02T03:04:05Z to 2026-01-02T03:04:07Z");
    let merged =
        ["2026-01-02 03:04:06,500", "2026-01-02 03:04:05,250", "2026-01-02 03:04:06,750", "2026-01-02 03:04:06"];
    assert_eq!(range(&merged), "2026-01-02 03:04:05,250 to 2026-01-02 03:04:06,750");
    let months = ["[01/Feb/2026:00:00:01 +0100]", "[31/Jan/2026:23:59:59 +0100]", "[01/Feb/2026:00:00:00 +0100]"];
    assert_eq!(range(&months), "31/Jan/2026:23:59:59 +0100 to 01/Feb/2026:00:00:01 +0100");
    let without_year = ["Feb 10 09:00:00", "Feb  9 10:00:00", "Mar  1 00:00:00", "Feb 11 00:00:00"];
    assert_eq!(range(&without_year), "Feb  9 10:00:00 to Mar  1 00:00:00");
    assert_eq!(range(&["10:00:02", "10:00:01", "10:00:00"]), "10:00:00 to 10:00:02");
}

#[test]
fn the_range_of_a_log_whose_times_have_no_order_is_from_first_to_last() {
    let zones = ["2026-03-29T01:59:59+01:00", "2026-03-29T03:00:00+02:00", "2026-03-29T02:10:00+01:00"];
    assert_eq!(range(&zones), "2026-03-29T01:59:59+01:00 to 2026-03-29T02:10:00+01:00");
    let formats = ["2026-01-02 03:04:05", "2026-01-02 03:04:07", "Jan  2 03:04:06"];
    assert_eq!(range(&formats), "2026-01-02 03:04:05 to Jan  2 03:04:06");
    assert_eq!(range(&["Foo  2 03:04:07", "Foo  2 03:04:06", "Foo  2 03:04:05"]), "Foo  2 03:04:07 to Foo  2 03:04:05");
    // Over the new year, and over midnight.
    assert_eq!(range(&["Dec 30 10:00:00", "Dec 31 10:00:00", "Jan  1 10:00:00"]), "Dec 30 10:00:00 to Jan  1 10:00:00");
    assert_eq!(range(&["22:00:00", "23:30:00", "01:15:00"]), "22:00:00 to 01:15:00");
}

#[test]
fn the_range_of_a_log_does_not_need_a_time_in_its_last_line() {
    let text =
        "2026-01-02T03:04:07Z INFO one\n2026-01-02T03:04:05Z INFO two\n2026-01-02T03:04:06Z INFO three\n\tat main\n";
    let kind = outline(text).kind;
    assert!(kind.ends_with("from 2026-01-02T03:04:05Z to 2026-01-02T03:04:07Z"), "{kind}");
}

#[test]
fn blocks() {
    let outline = outline("\nOne block,\nof two lines.\n\n\nAnother one.\n");
    assert_eq!(entries(&outline), [(2, 1, "One block,", 2), (6, 1, "Another one.", 1)]);
    assert_eq!(outline.kind, "text of 6 lines in 2 blocks");
    assert_eq!(sliced(b"", 1).kind, "empty text");
}

#[test]
fn the_best_are_whole_levels_and_then_the_longest() {
    let text = "# A\n## A1\n## A2\nx\nx\n# B\n## B1\nx\n";
    let outline = outline(text);
    let best = |count| outline.best(count).iter().map(|entry| &*entry.title).collect::<Vec<_>>();
    assert_eq!(best(1), ["A"]);
    assert_eq!(best(3), ["A", "A2", "B"]);
    assert_eq!(best(9), ["A", "A1", "A2", "B", "B1"]);
}

#[test]
fn too_many_entries_lose_their_deepest_level() {
    let text: String = (0..300).map(|top| format!("# {top}\n{}", "## deep\n".repeat(50))).collect();
    let thinned = outline(&text);
    assert_eq!(thinned.entries.len(), 300);
    assert!(thinned.entries.iter().all(|entry| entry.level == 1 && entry.lines == 51));
    assert_eq!(thinned.kind, "Markdown with 15,300 headings");
    assert_eq!(thinned.notes, ["15,000 entries are left out: those below level 1"]);
    let flat = outline(&"# same\n".repeat(1_000_000));
    assert_eq!(flat.entries.len(), ENTRIES_MAX);
    assert_eq!(flat.notes, ["990,000 entries are left out: those after the first 10,000"]);
}

/// Lines of all kinds of text, in any order.
fn mixtures() -> impl Strategy<Value = String> {
    let line = prop::sample::select(vec![
        "# heading",
        "## deeper",
        "===",
        "---",
        "```",
        "<h1>a",
        "<!doctype html>",
        "diff --git a/x b/x",
        "+++ b/x",
        "@@ -1,3 +1,3 @@",
        "+a",
        "-b",
        " c",
        "- button \"x\" [ref=e1]:",
        "  - link [ref=e2]",
        "a:",
        "  b: 1",
        "├── x",
        "fn a() {",
        "}",
        "    let x = 1;",
        "class A:",
        "    def b(self):",
        "2026-01-02 03:04:05 ERROR x 1",
        "text",
        "",
        "\u{0}\u{1}",
        "é…",
        "\t\t\t",
        "commit 0123456789",
    ]);
    prop::collection::vec((line, 0_usize..3), 0..60)
        .prop_map(|lines| lines.iter().map(|(line, indent)| format!("{}{line}\n", "  ".repeat(*indent))).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_range_of_a_log_holds_all_its_times(
        times in prop::collection::vec((1990..2040, 1_usize..13, 1..29, 0..24, 0..60, prop::option::of(0..1000)), 3..40),
        is_named: bool, length in 1_usize..100,
    ) {
        const MONTHS: [&str; 12] =
            ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let spelled = |&(year, month, day, hour, minute, thousandths): &(i32, usize, i32, i32, i32, Option<i32>)| {
            let fraction = thousandths.map(|thousandths| format!(".{thousandths:03}")).unwrap_or_default();
            match is_named {
                true => format!("{day:02}/{}/{year}:{hour:02}:{minute:02}:07{fraction} +0200", MONTHS[month - 1]),
                false => format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:07{fraction} +0200"),
            }
        };
        let text: String = times.iter().map(|time| format!("{} INFO one\n", spelled(time))).collect();
        let kind = sliced(text.as_bytes(), length).kind;
        let (least, greatest) = (times.iter().min().map(spelled), times.iter().max().map(spelled));
        let range = format!("from {} to {}", least.unwrap_or_default(), greatest.unwrap_or_default());
        prop_assert!(kind.ends_with(&range), "{kind}: {range}");
    }

    #[test]
    fn slices_do_not_matter_and_entries_lie_in_the_text(text in mixtures(), length in 1_usize..100) {
        let whole = sliced(text.as_bytes(), text.len().max(1));
        prop_assert_eq!(&sliced(text.as_bytes(), length), &whole);
        for entry in &whole.entries {
            prop_assert!((1..=whole.lines).contains(&entry.line), "{:?}", entry);
            prop_assert!(entry.lines > 0 && entry.line + entry.lines <= whole.lines + 1 || whole.kind.starts_with("log"));
            prop_assert!(entry.level > 0 && !entry.title.contains('\n'));
        }
        let lines = whole.entries.iter().map(|entry| entry.line);
        prop_assert!(whole.kind.starts_with("log") || lines.is_sorted());
    }
}

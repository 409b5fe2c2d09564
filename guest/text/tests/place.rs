//! A hit says where it stands.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use lro_text::search::{Pattern, Search, Searcher};

/// The places of all lines with `literal`.
fn places(text: &str, literal: &str) -> Vec<Vec<String>> {
    let search = Search {
        pattern: Pattern::Literal(literal.into()),
        ignore_case: false,
        before: 0,
        after: 0,
        limit: 100,
        offset: 0,
        count_only: false,
        rank: false,
    };
    let mut searcher = Searcher::new(&search).expect("a valid search");
    text.as_bytes().chunks(7).for_each(|slice| searcher.push(slice));
    searcher.finish().hits.into_iter().map(|hit| hit.place).collect()
}

#[track_caller]
fn assert_place(text: &str, literal: &str, place: &[&str]) {
    assert_eq!(places(text, literal), [place], "of {literal:?} in\n{text}");
}

#[test]
fn headings_of_markdown() {
    let text = "---\ntitle: x\n---\nGuide\n=====\n\nintro\n\n## Install ##\n\n```sh\n# not a heading\nrun me\n```\n\n\
        Setup\n-----\n### Keys\nset the key\n\n<h2 align=\"center\">Raw <b>HTML</b> &amp; more</h2>\ntail\n";
    assert_place(text, "intro", &["Guide"]);
    assert_place(text, "run me", &["Guide", "Install"]);
    assert_place(text, "set the key", &["Guide", "Setup", "Keys"]);
    assert_place(text, "### Keys", &["Guide", "Setup"]);
    assert_place(text, "tail", &["Guide", "Raw HTML & more"]);
}

#[test]
fn headings_of_html_also_on_one_line() {
    let lines = "<!DOCTYPE html>\n<html><body>\n<h1 id='a'>One\n  &lt;two&gt;</h1>\n<p>first</p>\n<H2>Deep</H2>\n<p>second</p>\n";
    assert_place(lines, "first", &["One <two>"]);
    assert_place(lines, "second", &["One <two>", "Deep"]);
    let one_line = format!("{lines}{}<h2>Late</h2><p>third</p>", "<p>filler</p>".repeat(40_000)).replace('\n', " ");
    assert_place(&one_line, "third", &["One <two>", "Late"]);
}

#[test]
fn files_of_matches() {
    let deep = format!("{}/c.rs", "folder/".repeat(30));
    let text = format!("src/a.rs:3:fn main\nsrc/b.rs:9:fn run\nsrc/b.rs-10-}}\n--\n{deep}:1:fn deep\n");
    assert_place(&text, "fn main", &["src/a.rs"]);
    assert_place(&text, "-10-}", &["src/b.rs"]);
    assert_place(&text, "fn deep", &[&deep[deep.len() - 160..]]);
}

#[test]
fn files_and_definitions_in_them() {
    let text = "<file path=\"src/a.rs\">\nimpl A {\n    fn b() {\n        one();\n    }\n}\nconst C: u8 = 2;\n</file>\n\n\
        <file path=\"NOTES.md\">\nthree\n    four\n</file>\n";
    assert_place(text, "one()", &["src/a.rs", "impl A", "fn b()"]);
    assert_place(text, "const C", &["src/a.rs"]);
    assert_place(text, "four", &["NOTES.md"]);
    assert_place(text, "NOTES", &[]);
}

#[test]
fn parents_by_indentation() {
    let yaml = "spec:\n  containers:\n  - name: web\n    ports:\n    - containerPort: 80\n  - name: db\n    image: pg\nstatus: ok\n";
    assert_place(yaml, "containerPort", &["spec", "containers", "name: web", "ports"]);
    assert_place(yaml, "image: pg", &["spec", "containers", "name: db"]);
    assert_place(yaml, "status", &[]);
    let snapshot = "### Page\n- Page Snapshot:\n```yaml\n- main [ref=e2]:\n  - navigation \"Top\" [ref=e3]:\n    - link \"Home\" [ref=e4]\n\
        \x20 - list [ref=e5]:\n    - listitem [ref=e6]: Price 12\n```\n";
    assert_place(snapshot, "Home", &["main [ref=e2]", "navigation \"Top\" [ref=e3]"]);
    let tree = ".\n├── src\n│   ├── a.rs\n│   └── deep\n│       └── b.rs\n└── tests\n    └── c.rs\n";
    assert_place(tree, "b.rs", &[".", "src", "deep"]);
    assert_place(tree, "c.rs", &[".", "tests"]);
}

#[test]
fn the_middle_of_a_long_chain_is_left_out() {
    let text: String = (0..20).map(|depth| format!("{}key{depth}:\n", "  ".repeat(depth))).collect();
    let expected =
        ["key0", "key1", "key2", "…", "key11", "key12", "key13", "key14", "key15", "key16", "key17", "key18"];
    assert_place(&text, "key19", &expected);
}

#[test]
fn file_and_hunk_of_a_diff() {
    let text = "commit 0123456789abcdef\nAuthor: A\n\n    message\n\ndiff --git a/x.rs b/y.rs\nindex 1..2 100644\n--- a/x.rs\n+++ b/y.rs\n\
        @@ -1,2 +1,3 @@ fn a()\n context\n--- removed\n++++ added\n+more\n@@ -9 +10 @@\n-old\n+new\n--- plain\n+++ plain.txt\tdate\n@@ -1 +1 @@\n-p\n+q\n";
    assert_place(text, "++++ added", &["commit 0123456789abcdef", "y.rs", "@@ -1,2 +1,3 @@ fn a()"]);
    assert_place(text, "+new", &["commit 0123456789abcdef", "y.rs", "@@ -9 +10 @@"]);
    assert_place(text, "+q", &["commit 0123456789abcdef", "plain.txt", "@@ -1 +1 @@"]);
}

#[test]
fn definitions_of_source_code() {
    let rust = "use std::fmt;\n\npub struct A {\n    field: u8,\n}\n\nimpl A {\n    /// Doc.\n    pub(crate) const fn get(&self) -> u8 {\n        if self.field > 1 {\n            return one;\n        }\n        0\n    }\n}\nstatic X: u8 = 2;\n";
    assert_place(rust, "return one", &["impl A", "pub(crate) const fn get(&self) -> u8"]);
    assert_place(rust, "field: u8", &["pub struct A"]);
    assert_place(rust, "static X", &[]);
    let python = "import os\n\nclass A(B):\n    x = 1\n\n    async def run(self):\n        return here\n\ndef main():\n    yonder()\n\nlast = 1\n";
    assert_place(python, "here", &["class A(B)", "async def run(self)"]);
    assert_place(python, "yonder", &["def main()"]);
    assert_place(python, "last", &[]);
    let script = "import x from 'y';\nexport default class Store {\n  async load(id) {\n    return this.here;\n  }\n}\nexport const go = async (a) => {\n  yonder(a);\n};\n";
    assert_place(script, "here", &["export default class Store", "async load(id)"]);
    assert_place(script, "yonder", &["export const go = async (a) =>"]);
    let go = "package main\n\nimport \"fmt\"\n\ntype T struct {\n\ta int\n}\n\nfunc (t *T) Run() error {\n\tfmt.Println(t.a)\n\treturn nil\n}\n";
    assert_place(go, "Println", &["func (t *T) Run() error"]);
    let java = "package a;\nimport b;\npublic class Main {\n    private final int x = 1;\n    public static void main(String[] args) {\n        call(x);\n    }\n}\n";
    assert_place(java, "call(x)", &["public class Main", "public static void main(String[] args)"]);
    let c = "#include <stdio.h>\nstruct point {\n  int x;\n};\nstatic int\nhelp(void);\nint main(int argc, char **argv)\n{\n  if (argc) {\n    puts(\"here\");\n  }\n  return 0;\n}\n";
    assert_place(c, "here", &["int main(int argc, char **argv)"]);
    assert_place(c, "int x", &["struct point"]);
}

#[test]
fn time_and_level_of_a_log_line() {
    let log = "2026-01-02T03:04:05.678Z INFO start\n2026-01-02 03:04:06,1 [error] broken\n  at deep.Stack(Trace.java:1)\n\
        Jan  2 03:04:07 host app[12]: level=warn slow\n1.2.3.4 - - [02/Jan/2026:03:04:08 +0100] \"GET / HTTP/1.1\" 200\n";
    assert_place(log, "start", &["2026-01-02T03:04:05.678Z", "INFO"]);
    assert_place(log, "broken", &["2026-01-02 03:04:06,1", "ERROR"]);
    assert_place(log, "deep.Stack", &["2026-01-02 03:04:06,1", "ERROR"]);
    assert_place(log, "slow", &["Jan  2 03:04:07", "WARNING"]);
    assert_place(log, "GET /", &["02/Jan/2026:03:04:08 +0100"]);
}

#[test]
fn plain_text_has_no_place() {
    assert_place("One paragraph.\n\nAnother one, with a needle.\n", "needle", &[]);
}

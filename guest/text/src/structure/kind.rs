//! Says what kind a text is of, from its beginning.

use memchr::memmem;

use super::files::Files;
use super::log::stamp;
use super::source::{self, Language};
use super::{diff, indent_of, lines, markdown, matches};

/// Bytes from which the kind is recognized.
const HEAD_BYTES: usize = 64 * 1024;

/// Bytes of a line that are looked at: the rest of longer ones says little.
const LINE_BYTES: usize = 400;

/// Bytes in which HTML says that it is HTML.
const HTML_BYTES: usize = 1024;

/// Fewer lines of files that a search found may be anything.
const MATCHES_MIN: usize = 3;

/// Fewer lines that begin a file may be anything.
const FILES_MIN: usize = 2;

/// How much more a line counts that only one language has.
const SIGN_WEIGHT: usize = 3;

/// What a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Markdown,
    Html,
    Diff,
    /// An accessibility snapshot of a page, as Playwright writes it.
    Snapshot,
    /// YAML, a tree, XML, an outline.
    Indented,
    Source(Language),
    Log,
    /// What a search found in files: `path:line:text`.
    Matches,
    /// Files one after another.
    Files,
    /// Paragraphs, or anything else.
    Plain,
}

/// How many lines look like what.
#[derive(Debug, Default)]
struct Counts {
    /// Lines with content, except for comments.
    lines: usize,
    headings: usize,
    /// Headings that are no comment in any other kind of text.
    sections: usize,
    hunks: usize,
    files: usize,
    /// With `[ref=`.
    refs: usize,
    stamped: usize,
    /// With the path of a file and the number of a line.
    matches: usize,
    /// That begin a file of several.
    begun: usize,
    tags: usize,
    closing_tags: usize,
    /// `key:` and `- element`.
    entries: usize,
    indented: usize,
    /// With the lines of a tree.
    branches: usize,
    /// That end, or begin, as statements do.
    statements: usize,
    /// Definitions, and other lines that only one language has.
    definitions: [usize; Language::ALL.len()],
    signs: [usize; Language::ALL.len()],
}

impl Kind {
    /// The kind of a text that begins so. Only [`HEAD_BYTES`] are read.
    pub(crate) fn of(head: &[u8]) -> Self {
        let head = head.get(..head.len().min(HEAD_BYTES)).unwrap_or_default();
        let counts = Counts::of(behind_front_matter(head));
        let share = |count: usize, percent: usize| count > 0 && count * 100 >= counts.lines * percent;
        let beginning = head.get(..head.len().min(HTML_BYTES)).unwrap_or_default().to_ascii_lowercase();
        let begins_with = |tag: &str| memmem::find(&beginning, tag.as_bytes()).is_some();
        if counts.begun >= FILES_MIN && !share(counts.stamped, 40) {
            return Self::Files;
        }
        if counts.hunks > 0 && counts.files > 0 {
            return Self::Diff;
        }
        if counts.refs >= 2 && share(counts.refs, 20) {
            return Self::Snapshot;
        }
        if head.trim_ascii_start().starts_with(b"<") && (begins_with("<!doctype html") || begins_with("<html")) {
            return Self::Html;
        }
        if share(counts.stamped, 40) {
            return Self::Log;
        }
        if counts.matches >= MATCHES_MIN && share(counts.matches, 80) {
            return Self::Matches;
        }
        if source::is_script_of_shell(head) {
            return Self::Source(Language::Shell);
        }
        if let Some((language, evidence)) = counts.language()
            && (share(counts.statements, 40) || share(evidence, 20))
        {
            return Self::Source(language);
        }
        let is_keyed = share(counts.entries, 60) && share(counts.indented, 20)
            || share(counts.entries, 80) && counts.sections == 0;
        if share(counts.branches, 40) || is_keyed || share(counts.entries, 40) && share(counts.indented, 50) {
            return Self::Indented;
        }
        if share(counts.tags, 60) && counts.closing_tags > 0 {
            return if memmem::find(head, b"<div").is_some() { Self::Html } else { Self::Indented };
        }
        if counts.headings > 0 && !share(counts.statements, 60) {
            return Self::Markdown;
        }
        if share(counts.entries, 80) || share(counts.indented, 60) { Self::Indented } else { Self::Plain }
    }
}

impl Counts {
    fn of(head: &[u8]) -> Self {
        let mut counts = Self::default();
        let (mut is_code, mut previous): (bool, &[u8]) = (false, b"");
        let mut files = Files::default();
        for line in lines(head) {
            counts.begun += usize::from(files.path(line).is_some());
            let line = line.get(..line.len().min(LINE_BYTES)).unwrap_or_default();
            let text = line.trim_ascii();
            if text.starts_with(b"```") {
                is_code = !is_code;
            }
            if text.is_empty() {
                previous = b"";
                continue;
            }
            counts.lines += usize::from(!is_comment(text) && text != b"---");
            if !is_code {
                counts.add(line, text, previous);
            }
            counts.refs += usize::from(text.starts_with(b"- ") && memmem::find(text, b"[ref=").is_some());
            previous = line;
        }
        counts
    }

    /// Counts a line with content outside of code in Markdown.
    fn add(&mut self, line: &[u8], text: &[u8], previous: &[u8]) {
        let (columns, rest) = indent_of(line);
        let is_underline = text.len() >= 3
            && (text.iter().all(|&byte| byte == b'=') || text.iter().all(|&byte| byte == b'-'))
            && previous.first().is_some_and(u8::is_ascii_alphanumeric)
            // Between documents of YAML.
            && !(text == b"---" && is_entry(previous.trim_ascii()));
        let is_commented = previous.starts_with(b"#") && !previous.starts_with(b"##");
        let level = markdown::level(line);
        self.headings += usize::from(level < u32::MAX && !is_commented || is_underline);
        self.sections += usize::from((2..u32::MAX).contains(&level) || is_underline);
        self.hunks += usize::from(line.trim_ascii_end().strip_prefix(b"@@ ").and_then(diff::hunk_counts).is_some());
        self.files += usize::from(line.starts_with(b"+++ ") || line.starts_with(b"diff --git "));
        let stamp = stamp(line);
        self.stamped += usize::from(stamp.time.is_some() || stamp.level.is_some() && columns == 0);
        self.matches += usize::from(matches::path(line).is_some());
        self.tags += usize::from(text.starts_with(b"<"));
        self.closing_tags += usize::from(memmem::find(text, b"</").is_some());
        self.entries += usize::from(is_entry(text));
        let indent = line.get(..line.len() - rest.len()).unwrap_or_default();
        self.branches += usize::from(indent.iter().any(|byte| matches!(byte, 0xE2 | b'|' | b'`' | b'+')));
        if is_comment(text) {
            return;
        }
        self.indented += usize::from(columns > 0);
        self.statements += usize::from(is_statement(text));
        if let Some(language) = source::sign(text)
            && let Some(count) = self.signs.get_mut(language as usize)
        {
            *count += 1;
        }
        for (language, count) in Language::ALL.into_iter().zip(&mut self.definitions) {
            *count += usize::from(source::is_definition(language, columns, rest.trim_ascii_end()));
        }
    }

    /// The language that most lines speak for, and how many; nothing if it is not certain.
    fn language(&self) -> Option<(Language, usize)> {
        let counted = self.definitions.into_iter().zip(self.signs);
        let counted = Language::ALL.into_iter().zip(counted).rev();
        let (language, (definitions, signs)) =
            counted.max_by_key(|(_, (definitions, signs))| definitions + SIGN_WEIGHT * signs)?;
        (definitions > 0 && signs > 0 || definitions > 1 || signs > 2).then_some((language, definitions + signs))
    }
}

/// The text behind the front matter of Markdown, or behind the first document of YAML: what follows says which it is.
fn behind_front_matter(head: &[u8]) -> &[u8] {
    const RULE: &[u8] = b"---\n";
    let inside = head.strip_prefix(RULE).unwrap_or_default();
    let rest = memmem::find(inside, b"\n---\n").and_then(|at| inside.get(at + 1 + RULE.len()..));
    rest.filter(|rest| !rest.trim_ascii().is_empty()).unwrap_or(head)
}

/// `key: value`, `key:`, `- element`.
fn is_entry(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"- ").unwrap_or(text);
    let key = text.iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"_-.\"'/$ ".contains(byte)).count();
    let is_key = key > 0
        && text.get(key) == Some(&b':')
        && matches!(text.get(key + 1), None | Some(b' '))
        && text.get(..key).is_some_and(|key| key.iter().filter(|&&byte| byte == b' ').count() < 3);
    is_key || text == b"-"
}

/// A line of a comment in most languages; in Markdown, a heading or an element of a list.
fn is_comment(text: &[u8]) -> bool {
    text.starts_with(b"//")
        || text.starts_with(b"/*")
        || text.starts_with(b"*")
        || text == b"#"
        || text.starts_with(b"# ")
}

fn is_statement(text: &[u8]) -> bool {
    const BEGINNINGS: [&[u8]; 12] = [
        b"import ",
        b"from ",
        b"use ",
        b"def ",
        b"class ",
        b"return",
        b"#include",
        b"if ",
        b"for ",
        b"//",
        b"elif ",
        b"package ",
    ];
    matches!(text.last(), Some(b'{' | b'}' | b';' | b'(' | b')' | b','))
        || text.ends_with(b"):")
        || text == b"else:"
        || BEGINNINGS.iter().any(|beginning| text.starts_with(beginning))
        || memmem::find(text, b" = ").is_some()
}

//! The outline of a text: its headings, files, definitions, elements, messages or blocks.
//!
//! ```text
//! let mut outliner = Outliner::default();
//! for slice in text { outliner.push(slice); }
//! let outline = outliner.finish();
//! ```
//!
//! | text | entries | level |
//! |---|---|---|
//! | Markdown, HTML | headings | theirs |
//! | diff | commits and files, with lines added and removed | depth |
//! | source code | definitions | depth |
//! | accessibility snapshot | elements with a label, and landmarks, with their `ref` | depth |
//! | YAML, trees, XML | lines that others belong to | depth |
//! | log | levels; the most frequent messages | 1; 2 |
//! | matches of a search | the files they are in | 1 |
//! | files one after another | the files; definitions in them | 1; depth |
//! | anything else | blocks between empty lines, by their first line | 1 |
//!
//! An outline has at most [`ENTRIES_MAX`] entries: of a longer one, the deepest levels are left out. Memory is bounded by
//! them, about 3 MiB, and two blocks of 256 KiB.

mod entries;
mod messages;
mod times;

use std::fmt::Write;

pub use entries::ENTRIES_MAX;
use entries::Entries;
use lro_json::write::{push_string, thousands};
use memchr::memchr_iter;
pub use messages::MESSAGES_MAX;
use messages::Messages;

use crate::regions::{Region, Regions};
use crate::shorten::beginning;
use crate::structure::{COMMIT, HUNK, Kind, Mark, TITLE_BYTES_MAX, Tracker, headings, html_text, lines};

/// Elements of a page that are worth an entry without a label.
const LANDMARKS: [&str; 14] = [
    "banner",
    "navigation",
    "main",
    "contentinfo",
    "complementary",
    "region",
    "search",
    "form",
    "dialog",
    "alert",
    "table",
    "tablist",
    "menu",
    "heading",
];

/// What a text is, and what it is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// The kind of text in words: `Markdown with 14 headings`, `log of 12,034 lines, 3 levels`.
    pub kind: String,
    /// The entries, in the order of the text; of a log, levels and then messages, the most frequent first.
    pub entries: Vec<Entry>,
    /// What the entries leave out, in words.
    pub notes: Vec<String>,
    /// Lines of the text.
    pub lines: u64,
}

/// Something that a text is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Number of its first line, from 1.
    pub line: u64,
    /// How deep it is, from 1.
    pub level: u32,
    /// What it says, at most 160 bytes.
    pub title: String,
    /// Lines up to the next entry of the same level or above; of a level or a message of a log, lines that have it.
    pub lines: u64,
}

impl Entry {
    /// Appends the entry as a JSON object: `{"line":…,"level":…,"title":…,"lines":…}`.
    pub fn write_json(&self, out: &mut String) {
        let _ = write!(out, "{{\"line\":{},\"level\":{},\"title\":", self.line, self.level);
        push_string(out, &self.title);
        let _ = write!(out, ",\"lines\":{}}}", self.lines);
    }
}

impl Outline {
    /// The entries that say most about the text, at most `count` of them, in the order of the outline: whole levels from
    /// the first, and of the level that is too large the entries with most lines.
    #[must_use]
    pub fn best(&self, count: usize) -> Vec<&Entry> {
        let mut chosen: Vec<usize> = (0..self.entries.len()).collect();
        chosen.sort_by_key(|&index| self.entries.get(index).map(|entry| (entry.level, std::cmp::Reverse(entry.lines))));
        chosen.truncate(count);
        chosen.sort_unstable();
        chosen.into_iter().filter_map(|index| self.entries.get(index)).collect()
    }
}

/// Makes the outline of a text.
#[derive(Debug, Default)]
pub struct Outliner {
    regions: Regions,
    /// Missing before the first region: it says the kind of text.
    state: Option<State>,
}

#[derive(Debug)]
struct State {
    tracker: Tracker,
    entries: Entries,
    messages: Messages,
    /// Line breaks so far.
    breaks: u64,
    within_line: bool,
    /// The last line has content.
    within_block: bool,
    /// A line that is an entry if the next one belongs to it.
    waiting: Option<(u64, u32, String)>,
    /// Entries that are not what the kind counts: commits of a diff, definitions in files.
    uncounted: u64,
    /// Lines added and removed before the file of a diff that is open.
    file: Option<(u64, u64)>,
}

impl Outliner {
    /// Reads the next slice of the text.
    pub fn push(&mut self, slice: &[u8]) {
        let Self { regions, state } = self;
        regions.push(slice, &mut |region| state.get_or_insert_with(|| State::new(region)).region(region));
    }

    /// Ends the text.
    #[must_use]
    pub fn finish(mut self) -> Outline {
        let Self { regions, state } = &mut self;
        regions.finish(&mut |region| state.get_or_insert_with(|| State::new(region)).region(region));
        match self.state {
            Some(state) => state.finish(),
            None => Outline { kind: "empty text".into(), entries: Vec::new(), notes: Vec::new(), lines: 0 },
        }
    }
}

impl State {
    fn new(first: Region<'_>) -> Self {
        let kind = Kind::of(first.bytes);
        Self {
            tracker: Tracker::new(kind),
            entries: Entries::new(matches!(kind, Kind::Markdown | Kind::Html)),
            messages: Messages::default(),
            breaks: 0,
            within_line: false,
            within_block: false,
            waiting: None,
            uncounted: 0,
            file: None,
        }
    }

    fn region(&mut self, region: Region<'_>) {
        if self.tracker.kind() == Kind::Html {
            self.html(region);
        } else {
            let first = self.breaks + 1 + u64::from(region.given > 0);
            for (number, line) in (first..).zip(lines(region.bytes.get(region.first_line()..).unwrap_or_default())) {
                self.line(number, line);
            }
        }
        self.breaks += memchr_iter(b'\n', region.bytes).count() as u64;
        self.within_line = region.bytes.last().is_some_and(|&byte| byte != b'\n');
    }

    fn html(&mut self, region: Region<'_>) {
        let (mut number, mut counted) = (self.breaks + 1, 0);
        headings(region.bytes, &mut |at, level, title| {
            number += memchr_iter(b'\n', region.bytes.get(counted..at).unwrap_or_default()).count() as u64;
            counted = at;
            if (region.given..region.last_start()).contains(&at) {
                self.entries.add(number, level, html_text(title));
            }
        });
    }

    fn line(&mut self, number: u64, line: &[u8]) {
        let kind = self.tracker.kind();
        match kind {
            Kind::Log => return self.messages.line(number, line),
            Kind::Plain => return self.block(number, line),
            _ => {}
        }
        let changes = self.tracker.changes();
        let mark = self.tracker.line(line);
        match (kind, mark) {
            (Kind::Source(_) | Kind::Files, None) => self.entries.end_to_depth(number, self.tracker.depth()),
            (_, None) => {}
            (Kind::Indented, Some(mark)) => {
                let next = (number, mark.level, self.tracker.title());
                self.indented(Some(next));
            }
            (Kind::Snapshot, Some(mark)) => self.element(number, mark),
            (Kind::Diff, Some(mark)) if mark.level == HUNK => {}
            (Kind::Diff, Some(mark)) => {
                self.end_file(changes);
                self.entries.add(number, mark.level, self.tracker.title());
                self.uncounted += u64::from(mark.level == COMMIT);
                self.file = (mark.level != COMMIT).then_some(changes);
            }
            (_, Some(mark)) => {
                self.uncounted += u64::from(kind == Kind::Files && mark.level > 0);
                self.entries.add(number - u64::from(mark.back), mark.level, self.tracker.title());
            }
        }
    }

    /// A line is an entry if the next one is deeper, or nothing is around it.
    fn indented(&mut self, next: Option<(u64, u32, String)>) {
        let deeper = next.as_ref().map_or(0, |next| next.1);
        if let Some((line, level, title)) = std::mem::replace(&mut self.waiting, next) {
            if level < deeper || self.entries.is_outermost(level) {
                self.entries.add(line, level, title);
            } else {
                self.entries.end(line, level);
            }
        }
    }

    fn element(&mut self, number: u64, mark: Mark) {
        let title = self.tracker.title();
        if is_worth_an_entry(&title) {
            self.entries.add(number, mark.level, title);
        } else {
            self.entries.end(number, mark.level);
        }
    }

    /// Says in the title of a file what was changed in it.
    fn end_file(&mut self, changes: (u64, u64)) {
        if let Some(before) = self.file.take() {
            self.entries.annotate(&format!(" (+{} -{})", changes.0 - before.0, changes.1 - before.1));
        }
    }

    fn block(&mut self, number: u64, line: &[u8]) {
        let has_content = !line.trim_ascii().is_empty();
        match (self.within_block, has_content) {
            (false, true) => self.entries.add(number, 1, beginning(line.trim_ascii(), TITLE_BYTES_MAX)),
            (true, false) => self.entries.end(number, 1),
            _ => {}
        }
        self.within_block = has_content;
    }

    fn finish(mut self) -> Outline {
        let lines = self.breaks + u64::from(self.within_line);
        let kind = self.tracker.kind();
        if kind == Kind::Log {
            return self.messages.outline(lines);
        }
        let changes = self.tracker.changes();
        self.indented(None);
        self.end_file(changes);
        let seen = self.entries.seen - self.uncounted;
        let (entries, notes) = self.entries.finish(lines + 1);
        Outline { kind: in_words(kind, lines, seen, changes), entries, notes, lines }
    }
}

/// Whether an element of a page has a label, or says where others are.
fn is_worth_an_entry(element: &str) -> bool {
    let role = element.split([' ', ':']).next().unwrap_or_default();
    element.contains("[ref=") && (element.contains('"') || LANDMARKS.contains(&role))
}

fn in_words(kind: Kind, lines: u64, entries: u64, (added, removed): (u64, u64)) -> String {
    let counted = |one: &str| format!("{} {one}{}", thousands(entries), if entries == 1 { "" } else { "s" });
    let of_lines = format!("of {} line{}", thousands(lines), if lines == 1 { "" } else { "s" });
    match kind {
        Kind::Markdown => format!("Markdown with {}", counted("heading")),
        Kind::Html => format!("HTML with {}", counted("heading")),
        Kind::Diff => {
            format!("diff of {}, {} lines added, {} removed", counted("file"), thousands(added), thousands(removed))
        }
        Kind::Snapshot => format!("accessibility snapshot with {}", counted("named element")),
        Kind::Indented => format!("indented text {of_lines}"),
        Kind::Source(language) => format!("{} source with {}", language.name(), counted("definition")),
        Kind::Matches => format!("matches in {}", counted("file")),
        Kind::Files => format!("text of {}", counted("file")),
        Kind::Log | Kind::Plain => format!("text {of_lines} in {}", counted("block")),
    }
}

//! Recognizes what a text is made of, line by line: headings, indentation, diffs, files, source code, logs.

mod diff;
mod files;
mod html;
mod indent;
mod kind;
mod log;
mod markdown;
mod matches;
mod source;
mod time;

use diff::Diff;
pub(crate) use diff::{COMMIT, HUNK};
use files::Files;
pub(crate) use html::{headings, text as html_text};
use indent::indent_of;
pub(crate) use kind::Kind;
pub(crate) use log::{Level, stamp};
use markdown::Markdown;
use matches::Matches;
use memchr::memchr;
pub(crate) use time::{Layout, Time};

use crate::shorten::floor_char;

/// Parents that a line may have. Deeper ones are left out.
pub(crate) const DEPTH_MAX: usize = 64;

/// Parents that a place names: the outermost ones and, after `…`, the innermost ones.
const OUTERMOST: usize = 3;
const INNERMOST: usize = 8;

/// Bytes of a title that are kept.
pub(crate) const TITLE_BYTES_MAX: usize = 160;

/// Bytes before a line of a log in which its time is looked for, if it has none: stack traces.
const LOOK_BACK_BYTES: usize = 16 * 1024;

/// Follows the structure of a text.
#[derive(Debug)]
pub(crate) struct Tracker {
    kind: Kind,
    markdown: Markdown,
    diff: Diff,
    matches: Matches,
    files: Files,
    parents: Parents,
}

/// A line that others belong to: a heading, a file, a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The depth. Only the order matters: steps may be missing.
    pub(crate) level: u32,
    /// The line before has the title.
    pub(crate) back: bool,
}

impl Tracker {
    pub(crate) fn new(kind: Kind) -> Self {
        let (markdown, diff, matches) = (Markdown::default(), Diff::default(), Matches::default());
        Self { kind, markdown, diff, matches, files: Files::default(), parents: Parents::default() }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// Follows the next bytes: lines, the first of which may be a rest, and the last of which may be a beginning.
    pub(crate) fn advance(&mut self, text: &[u8], begins_line: bool) {
        match self.kind {
            Kind::Log | Kind::Plain => {}
            Kind::Html => headings(text, &mut |_, level, title| self.parents.push(level, html_text(title).as_bytes())),
            _ => {
                let rest = if begins_line { 0 } else { memchr(b'\n', text).map_or(text.len(), |end| end + 1) };
                for line in lines(text.get(rest..).unwrap_or_default()) {
                    self.line(line);
                }
            }
        }
    }

    /// Follows one line. A mark is a new [`Tracker::title`].
    #[inline]
    pub(crate) fn line(&mut self, line: &[u8]) -> Option<Mark> {
        match self.kind {
            // Headings of HTML need not stand alone on a line.
            Kind::Log | Kind::Plain | Kind::Html => None,
            Kind::Markdown => self.markdown.line(line, &mut self.parents),
            Kind::Diff => self.diff.line(line, &mut self.parents),
            Kind::Matches => self.matches.line(line, &mut self.parents),
            Kind::Files => self.files.line(line, &mut self.parents),
            Kind::Snapshot | Kind::Indented => indent::line(line, &mut self.parents),
            Kind::Source(language) => source::line(language, line, &mut self.parents),
        }
    }

    /// The title of the last mark.
    pub(crate) fn title(&self) -> String {
        self.parents.all().last().map(Parent::shown).unwrap_or_default()
    }

    /// How many lines the next one belongs to.
    pub(crate) fn depth(&self) -> usize {
        self.parents.used
    }

    /// Lines that a diff added and removed so far.
    pub(crate) fn changes(&self) -> (u64, u64) {
        self.diff.changes
    }

    /// Where `line`, the next one, stands, from the outside in. `before` is text that ends before it.
    pub(crate) fn place(&self, before: &[u8], line: &[u8]) -> Vec<String> {
        let level = match self.kind {
            Kind::Log => return log_place(before, line),
            Kind::Matches => return matches::path(line).map(matches::shown).map(lossy).into_iter().collect(),
            Kind::Snapshot | Kind::Indented => indent::level_and_text(line).map_or(u32::MAX, |(level, _)| level),
            Kind::Files => self.files.level(line),
            Kind::Source(_) => source::level(line),
            Kind::Markdown => markdown::level(line),
            _ => u32::MAX,
        };
        let parents = self.parents.all();
        let parents = parents.get(..parents.partition_point(|parent| parent.level < level)).unwrap_or_default();
        match parents.len().checked_sub(INNERMOST) {
            Some(left) if left > OUTERMOST => {
                let (outermost, inner) = parents.split_at(OUTERMOST);
                let innermost = inner.get(left - OUTERMOST..).unwrap_or_default();
                let left_out = std::iter::once("…".to_owned());
                outermost.iter().map(Parent::shown).chain(left_out).chain(innermost.iter().map(Parent::shown)).collect()
            }
            _ => parents.iter().map(Parent::shown).collect(),
        }
    }
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

/// Time and level of a line of a log, or of the last line before it that has them.
fn log_place(before: &[u8], line: &[u8]) -> Vec<String> {
    let lately = before.get(before.len().saturating_sub(LOOK_BACK_BYTES)..).unwrap_or_default();
    let earlier = lately.strip_suffix(b"\n").unwrap_or(lately).rsplit(|&byte| byte == b'\n');
    let found =
        std::iter::once(line).chain(earlier).map(stamp).find(|stamp| stamp.time.is_some() || stamp.level.is_some());
    let Some(found) = found else { return Vec::new() };
    let time = found.time.map(|time| lossy(time.text));
    time.into_iter().chain(found.level.map(|(level, _)| level.name().to_owned())).collect()
}

/// The chain of lines that the next one belongs to.
#[derive(Debug, Default)]
struct Parents {
    /// Entries behind `used` keep their memory for the next ones.
    entries: Vec<Parent>,
    used: usize,
}

#[derive(Debug)]
struct Parent {
    level: u32,
    title: Vec<u8>,
}

impl Parent {
    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.title).trim_end_matches([' ', '\t', '\r', '{', ':']).into()
    }
}

impl Parents {
    fn all(&self) -> &[Parent] {
        self.entries.get(..self.used).unwrap_or_default()
    }

    /// Ends all parents of this level and of deeper ones.
    #[inline]
    fn end(&mut self, level: u32) {
        while self.all().last().is_some_and(|parent| parent.level >= level) {
            self.used -= 1;
        }
    }

    fn push(&mut self, level: u32, title: &[u8]) {
        self.end(level);
        if self.used == DEPTH_MAX {
            self.used -= 1;
        }
        let title = title.get(..floor_char(title, title.len().min(TITLE_BYTES_MAX))).unwrap_or_default();
        match self.entries.get_mut(self.used) {
            Some(entry) => {
                entry.level = level;
                entry.title.clear();
                entry.title.extend_from_slice(title);
            }
            None => self.entries.push(Parent { level, title: title.to_vec() }),
        }
        self.used += 1;
    }
}

/// The lines of a text, with their line breaks.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
        let (line, behind) = rest.split_at(end);
        rest = behind;
        (!line.is_empty()).then_some(line)
    })
}

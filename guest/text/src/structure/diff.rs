//! Commits, files and hunks of unified diffs.

use super::{Mark, Parents};

/// Levels of the marks.
pub(crate) const COMMIT: u32 = 1;
const FILE: u32 = 2;
pub(crate) const HUNK: u32 = 3;

/// The state between lines.
#[derive(Debug, Default)]
pub(super) struct Diff {
    /// Lines that the hunk still has of the old and of the new file.
    rest: (u64, u64),
    /// The file has its mark already, from `diff --git`.
    named: bool,
    /// Lines added and removed so far.
    pub(super) changes: (u64, u64),
}

impl Diff {
    pub(super) fn line(&mut self, line: &[u8], parents: &mut Parents) -> Option<Mark> {
        if self.rest != (0, 0) && self.hunk_line(line) {
            return None;
        }
        let text = line.trim_ascii_end();
        let (level, title) = if let Some(names) = text.strip_prefix(b"diff --git ") {
            self.named = true;
            (FILE, new_name(names))
        } else if let Some(name) = text.strip_prefix(b"+++ ") {
            if std::mem::take(&mut self.named) {
                return None;
            }
            let name = name.split(|&byte| byte == b'\t').next().unwrap_or_default();
            (FILE, name.strip_prefix(b"b/").unwrap_or(name))
        } else if let Some(counts) = text.strip_prefix(b"@@ ").and_then(hunk_counts) {
            (self.rest, self.named) = (counts, false);
            (HUNK, text)
        } else if is_commit(text) {
            (COMMIT, text)
        } else {
            return None;
        };
        parents.push(level, title);
        Some(Mark { level, back: false })
    }

    /// Counts a line of a hunk; false if it is none.
    fn hunk_line(&mut self, line: &[u8]) -> bool {
        let (old, new) = match line.first() {
            Some(b'+') => (0, 1),
            Some(b'-') => (1, 0),
            // Some programs cut the space of an empty line.
            Some(b' ' | b'\n' | b'\r') | None => (1, 1),
            Some(b'\\') => (0, 0),
            Some(_) => {
                self.rest = (0, 0);
                return false;
            }
        };
        self.changes.0 += u64::from((old, new) == (0, 1));
        self.changes.1 += u64::from((old, new) == (1, 0));
        self.rest = (self.rest.0.saturating_sub(old), self.rest.1.saturating_sub(new));
        true
    }
}

/// The new name in `a/old b/new`, also in quotes.
fn new_name(names: &[u8]) -> &[u8] {
    let at = names.windows(3).rposition(|window| window == b" b/").map(|at| at + 3);
    let quoted = names.windows(4).rposition(|window| window == b" \"b/").map(|at| at + 4);
    let name = at.max(quoted).and_then(|at| names.get(at..)).unwrap_or(names);
    if quoted.is_some() { name.strip_suffix(b"\"").unwrap_or(name) } else { name }
}

/// Lines of the old and of the new file in `-1,2 +3,4 @@`; a missing count is 1.
pub(super) fn hunk_counts(header: &[u8]) -> Option<(u64, u64)> {
    let mut words = header.split(|&byte| byte == b' ');
    let old = words.next()?.strip_prefix(b"-")?;
    let new = words.next()?.strip_prefix(b"+")?;
    if words.next()? != b"@@" {
        return None;
    }
    let count = |range: &[u8]| -> Option<u64> {
        let mut parts = std::str::from_utf8(range).ok()?.split(',');
        parts.next()?.parse::<u64>().ok()?;
        parts.next().map_or(Some(1), |count| count.parse().ok())
    };
    Some((count(old)?, count(new)?))
}

/// `commit` and a hash, as `git log -p` writes it.
fn is_commit(text: &[u8]) -> bool {
    text.strip_prefix(b"commit ").is_some_and(|rest| {
        rest.len() >= 7 && rest.iter().take(40).take_while(|&&byte| byte != b' ').all(u8::is_ascii_hexdigit)
    })
}

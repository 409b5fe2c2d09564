//! Entries while a text is read: open until the next one of their level, and thinned out when there are too many.

use lro_json::write::thousands;

use super::Entry;

/// Entries that an outline has at most.
pub const ENTRIES_MAX: usize = 10_000;

/// Entries inside entries. Deeper ones are left out.
const DEPTH_MAX: usize = crate::structure::DEPTH_MAX;

/// The entries so far.
#[derive(Debug)]
pub(super) struct Entries {
    /// Entries get the level that the text gives them, otherwise their depth.
    keeps_levels: bool,
    kept: Vec<Entry>,
    open: Vec<Open>,
    /// Entries that came, also those that are not kept.
    pub(super) seen: u64,
    /// Deeper entries are left out.
    level_limit: Option<u32>,
    /// All entries are of one level, and those that follow are left out.
    is_full: bool,
}

/// An entry whose end is not seen.
#[derive(Debug)]
struct Open {
    /// The level in the text, of which only the order matters.
    level: u32,
    /// Missing if the entry is left out.
    index: Option<usize>,
}

impl Entries {
    pub(super) fn new(keeps_levels: bool) -> Self {
        Self { keeps_levels, kept: Vec::new(), open: Vec::new(), seen: 0, level_limit: None, is_full: false }
    }

    /// Whether an entry of this level would have none around it.
    pub(super) fn is_outermost(&self, level: u32) -> bool {
        self.open.iter().all(|open| open.level >= level)
    }

    /// Ends the entries of this level and of deeper ones before a line.
    pub(super) fn end(&mut self, line: u64, level: u32) {
        while let Some(open) = self.open.pop_if(|open| open.level >= level) {
            if let Some(entry) = open.index.and_then(|index| self.kept.get_mut(index)) {
                entry.lines = line.saturating_sub(entry.line).max(1);
            }
        }
    }

    /// Ends the innermost entries before a line until only so many are open.
    pub(super) fn end_to_depth(&mut self, line: u64, depth: usize) {
        if let Some(level) = self.open.get(depth).map(|open| open.level) {
            self.end(line, level);
        }
    }

    pub(super) fn add(&mut self, line: u64, level: u32, title: String) {
        self.end(line, level);
        self.seen += 1;
        if self.open.len() == DEPTH_MAX {
            return;
        }
        let shown = if self.keeps_levels { level } else { self.open.len() as u32 + 1 };
        let is_shown = |limit: Option<u32>| limit.is_none_or(|limit| shown <= limit);
        if self.kept.len() == ENTRIES_MAX && is_shown(self.level_limit) && !self.is_full {
            self.thin_out(shown);
        }
        let is_kept = is_shown(self.level_limit) && self.kept.len() < ENTRIES_MAX;
        self.open.push(Open { level, index: is_kept.then_some(self.kept.len()) });
        if is_kept {
            self.kept.push(Entry { line, level: shown, title, lines: 0 });
        }
    }

    /// Appends to the title of the entry that came last.
    pub(super) fn annotate(&mut self, text: &str) {
        let last = self.open.last().and_then(|open| open.index);
        if let Some(entry) = last.and_then(|index| self.kept.get_mut(index)) {
            entry.title.push_str(text);
        }
    }

    /// All entries and what they leave out. `end` is the number of the line behind the last one.
    pub(super) fn finish(mut self, end: u64) -> (Vec<Entry>, Vec<String>) {
        self.end(end, 0);
        let left_out = self.seen - self.kept.len() as u64;
        let below = self.level_limit.map(|limit| format!("those below level {limit}"));
        let behind = self.is_full.then(|| format!("those after the first {}", thousands(ENTRIES_MAX as u64)));
        let mut which: Vec<_> = below.into_iter().chain(behind).collect();
        if which.is_empty() {
            which.push(format!("those inside more than {DEPTH_MAX} others"));
        }
        let note = || format!("{} entries are left out: {}", thousands(left_out), which.join(" and "));
        let notes = (left_out > 0).then(note).into_iter().collect();
        (self.kept, notes)
    }

    /// Leaves out the deepest level, if there are several.
    fn thin_out(&mut self, next: u32) {
        let levels = || self.kept.iter().map(|entry| entry.level);
        let (Some(deepest), Some(first)) = (levels().max(), levels().min()) else { return };
        let deepest = deepest.max(next);
        if deepest == first {
            self.is_full = true;
            return;
        }
        let limit = deepest - 1;
        self.level_limit = Some(limit);
        let mut places = Vec::with_capacity(self.kept.len());
        let mut count = 0;
        for entry in &self.kept {
            let is_kept = entry.level <= limit;
            places.push(is_kept.then_some(count));
            count += usize::from(is_kept);
        }
        self.kept.retain(|entry| entry.level <= limit);
        for open in &mut self.open {
            open.index = open.index.and_then(|index| places.get(index).copied().flatten());
        }
    }
}

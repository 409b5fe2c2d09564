//! Headings of Markdown: ATX, setext and HTML, outside of fences and front matter.

use super::{Mark, Parents, TITLE_BYTES_MAX, html};
use crate::shorten::floor_char;

/// The state between lines.
#[derive(Debug, Default)]
pub(super) struct Markdown {
    /// What ends the code or the front matter that the next line is in: a byte, and how often at least.
    fence: Option<(u8, usize)>,
    /// The beginning of the line before, if it may be the text of a setext heading.
    previous: Vec<u8>,
    /// A line came already.
    begun: bool,
}

impl Markdown {
    pub(super) fn line(&mut self, line: &[u8], parents: &mut Parents) -> Option<Mark> {
        let text = line.trim_ascii_end();
        let is_first = !std::mem::replace(&mut self.begun, true);
        if let Some((byte, least)) = self.fence {
            let run = run_of(text, byte);
            if run >= least && run == text.len() {
                self.fence = None;
            }
            return None;
        }
        if is_first && text == b"---" {
            self.fence = Some((b'-', 3));
            return None;
        }
        let mark = match text.first() {
            Some(b'#') => atx(text).map(|(level, title)| {
                parents.push(level, title);
                Mark { level, back: false }
            }),
            Some(&byte @ (b'`' | b'~')) => {
                let run = run_of(text, byte);
                // Back quotes behind the first ones are code in a line.
                let opens = run >= 3 && !text.get(run..).unwrap_or_default().contains(&b'`');
                self.fence = opens.then_some((byte, run));
                None
            }
            Some(&byte @ (b'=' | b'-')) if !self.previous.is_empty() && run_of(text, byte) == text.len() => {
                let level = if byte == b'=' { 1 } else { 2 };
                parents.push(level, &self.previous);
                Some(Mark { level, back: true })
            }
            Some(b'<') => {
                let mut mark = None;
                html::headings(text, &mut |_, level, title| {
                    parents.push(level, html::text(title).as_bytes());
                    mark = Some(Mark { level, back: false });
                });
                mark
            }
            _ => None,
        };
        self.previous.clear();
        if mark.is_none() && may_be_title(text) {
            let end = floor_char(text, text.len().min(TITLE_BYTES_MAX));
            self.previous.extend_from_slice(text.get(..end).unwrap_or_default().trim_ascii());
        }
        mark
    }
}

/// The level of the heading that a line is; above all levels if it is none.
pub(super) fn level(line: &[u8]) -> u32 {
    atx(line.trim_ascii_end()).map_or(u32::MAX, |(level, _)| level)
}

fn atx(text: &[u8]) -> Option<(u32, &[u8])> {
    let run = run_of(text, b'#');
    let rest = text.get(run..)?;
    if !(1..=6).contains(&run) || !matches!(rest.first(), None | Some(b' ' | b'\t')) {
        return None;
    }
    let title = rest.trim_ascii();
    let closing = title.iter().rev().take_while(|&&byte| byte == b'#').count();
    let without = title.get(..title.len() - closing).unwrap_or_default();
    let title = if without.is_empty() || without.ends_with(b" ") { without.trim_ascii_end() } else { title };
    Some((run as u32, title))
}

/// Whether a line of `=` or `-` below makes this one a heading: it is part of a paragraph.
fn may_be_title(text: &[u8]) -> bool {
    let first = text.first().copied().unwrap_or(b' ');
    !matches!(first, b' ' | b'\t' | b'#' | b'>' | b'|' | b'<' | b'`' | b'~' | b'=' | b'-' | b'+' | b'*')
        || text.starts_with(b"**")
        || text.starts_with(b"`") && !text.starts_with(b"```")
}

fn run_of(text: &[u8], byte: u8) -> usize {
    text.iter().take_while(|&&other| other == byte).count()
}

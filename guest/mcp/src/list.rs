//! Pages of a list that a server answers whole.

use std::ops::Range;

use bytes::Bytes;

use super::announce::appended;
use super::message::Message;
use super::result::CURSOR;
use super::span::{self, Span};
use super::text::quoted;

/// A whole list, such as the tools of an answer to `tools/list`.
#[derive(Clone, Debug)]
pub struct WholeList {
    answer: Bytes,
    result: Span,
    /// The array with its brackets.
    list: Span,
    items: Vec<Span>,
    /// The null of a `nextCursor`, if the result has one.
    no_cursor: Option<Span>,
}

impl WholeList {
    /// The array `name` of the result; `None` without one, and when the server names a next page itself.
    pub fn of(answer: &Message, name: &str) -> Option<Self> {
        let bytes = answer.bytes();
        let result = answer.find(&["result"])?;
        let list = answer.find(&["result", name]).filter(|list| bytes.get(list.start) == Some(&b'['))?;
        let (members, _) = span::members(bytes, result.start, usize::MAX, |_, _| None);
        let mut cursors =
            members.into_iter().filter(|member| span::string(bytes, &member.key).as_deref() == Some(CURSOR));
        let no_cursor = cursors.next().map(|cursor| cursor.value);
        let is_null = no_cursor.as_ref().is_none_or(|cursor| bytes.get(cursor.clone()) == Some(b"null"));
        if !is_null || cursors.next().is_some() {
            return None;
        }
        let items = span::each_element(bytes, list.start).collect();
        Some(Self { answer: bytes.clone(), result, list, items, no_cursor })
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The array as JSON.
    pub fn json(&self) -> &[u8] {
        self.answer.get(self.list.clone()).unwrap_or_default()
    }

    /// The answer with these items alone, and the cursor of the page after them. Everything else is preserved byte for
    /// byte.
    pub fn page(&self, items: Range<usize>, next: Option<&str>) -> Bytes {
        let shown = self.items.get(items).unwrap_or_default();
        let shown = shown.first().zip(shown.last()).map(|(first, last)| first.start..last.end);
        let shown = shown.and_then(|shown| self.answer.get(shown)).unwrap_or_default();
        let mut edits = vec![(self.list.start + 1..self.list.end - 1, shown.to_vec())];
        if let Some(next) = next.map(quoted) {
            edits.extend(match self.no_cursor.clone() {
                Some(value) => Some((value, next.into_bytes())),
                None => appended(&self.answer, &self.result, b"{}", &[format!("\"{CURSOR}\":{next}")]),
            });
        }
        edits.sort_by_key(|(span, _)| span.start);
        span::spliced(&self.answer, edits)
    }
}

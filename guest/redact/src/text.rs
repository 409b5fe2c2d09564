//! The text of a JSON string, with the position of each character.

use std::borrow::Cow;

use lro_json::unescape_lossy;

/// A text without escapes, with the mapping to the original.
pub(crate) struct Decoded<'a> {
    pub(crate) text: Cow<'a, str>,
    /// The end of each escape, in the text and in the string.
    ends: Vec<(usize, usize)>,
}

impl<'a> Decoded<'a> {
    /// A text without escapes.
    pub(crate) fn plain(text: &'a str) -> Self {
        Self { text: Cow::Borrowed(text), ends: Vec::new() }
    }

    /// Whether it is the string itself.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.text, Cow::Borrowed(_))
    }

    /// The position in the string of a position in the text.
    pub(crate) fn position(&self, at: usize) -> usize {
        let before = self.ends.partition_point(|(end, _)| *end <= at);
        let (end, position) = before.checked_sub(1).and_then(|last| self.ends.get(last)).copied().unwrap_or_default();
        position + (at - end)
    }
}

/// Decodes the inside of a JSON string. A lone surrogate, which a `String` cannot hold, becomes U+FFFD.
pub(crate) fn decoded(string: &str) -> Decoded<'_> {
    let Some(first) = string.find('\\') else {
        return Decoded::plain(string);
    };
    let (mut text, mut ends, mut at) = (String::with_capacity(string.len()), Vec::new(), 0);
    let mut next = Some(first);
    while let Some(length) = next {
        let (plain, escape) = string[at..].split_at(length);
        text.push_str(plain);
        let (character, length) = unescape_lossy(escape.as_bytes());
        text.push(character);
        // Text that is not JSON may have any character after a backslash.
        at = string.len() - escape.len() + escape.ceil_char_boundary(length);
        ends.push((text.len(), at));
        next = string.get(at..).and_then(|rest| rest.find('\\'));
    }
    text.push_str(&string[at..]);
    Decoded { text: Cow::Owned(text), ends }
}

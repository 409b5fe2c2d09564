//! Patterns for names of tools and clients, in which `*` matches any characters.

/// The value of the longest matching pattern, of two equally long ones the first in alphabetical order. `entries` must
/// be in alphabetical order.
pub(super) fn most_specific<'a, T>(
    entries: impl DoubleEndedIterator<Item = (&'a str, T)>,
    fits: impl Fn(&str) -> bool,
) -> Option<T> {
    // `max_by_key` takes the last of equals, so the order is reversed to take the first.
    let fitting = entries.rev().filter(|(pattern, _)| fits(pattern));
    fitting.max_by_key(|(pattern, _)| pattern.len()).map(|(_, value)| value)
}

/// Whether a pattern matches the whole text, in at most `pattern` times `text` steps.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut position) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while position < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                retry = Some((at, position));
                at += 1;
            }
            Some(byte) if Some(byte) == text.get(position) => {
                at += 1;
                position += 1;
            }
            _ => {
                let Some((star, from)) = retry else { return false };
                retry = Some((star, from + 1));
                (at, position) = (star + 1, from + 1);
            }
        }
    }
    pattern.iter().skip(at).all(|byte| *byte == b'*')
}

//! Headings of HTML.

use memchr::{memchr, memchr_iter};

use super::TITLE_BYTES_MAX;

/// Bytes of a heading that are read, with the tags in it.
const HEADING_BYTES_MAX: usize = 1024;

/// Calls `each` with the index, the level and the content of every heading, tags included.
pub(crate) fn headings(text: &[u8], each: &mut impl FnMut(usize, u32, &[u8])) {
    let mut from = 0;
    for at in memchr_iter(b'<', text) {
        let tag = text.get(at..).unwrap_or_default();
        let [b'<', b'h' | b'H', level @ b'1'..=b'6', b'>' | b' ' | b'\t' | b'\n', ..] = tag else { continue };
        if at < from {
            continue;
        }
        let tag = tag.get(..tag.len().min(HEADING_BYTES_MAX)).unwrap_or_default();
        let Some(start) = memchr(b'>', tag).map(|end| end + 1) else { continue };
        let content = tag.get(start..).unwrap_or_default();
        let end = content.windows(3).position(|end| matches!(end, [b'<', b'/', b'h' | b'H'])).unwrap_or(content.len());
        from = at + start + end;
        each(at, u32::from(level - b'0'), content.get(..end).unwrap_or_default().trim_ascii());
    }
}

/// What is seen of a piece of HTML: without tags, with single spaces, and with the usual entities decoded.
pub(crate) fn text(html: &[u8]) -> String {
    let mut out = String::with_capacity(html.len().min(TITLE_BYTES_MAX));
    let mut is_tag = false;
    for character in String::from_utf8_lossy(html).chars() {
        match character {
            '<' => is_tag = true,
            '>' if is_tag => is_tag = false,
            _ if is_tag => {}
            white if white.is_whitespace() => {
                if !out.is_empty() && !out.ends_with(' ') {
                    out.push(' ');
                }
            }
            other => out.push(other),
        }
    }
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&nbsp;", " "), ("&amp;", "&")];
    let decoded = entities.iter().fold(
        out,
        |text, (entity, decoded)| {
            if text.contains(entity) { text.replace(entity, decoded) } else { text }
        },
    );
    decoded.trim().into()
}

//! `Link` headers, by which a page names the next (RFC 8288), as servers hand them on in text and in JSON.

/// Longest header, in bytes, that is read: 16 KiB.
const HEADER_BYTES_MAX: usize = 16 << 10;

/// The target of the first link with `rel="next"` in the value of a header.
pub(super) fn next_of_value(value: &str) -> Option<&str> {
    let mut rest = value.get(..value.floor_char_boundary(HEADER_BYTES_MAX))?;
    loop {
        let (target, after) = rest.trim_start_matches([' ', '\t', ',']).strip_prefix('<')?.split_once('>')?;
        let (is_next, end) = parameters(after);
        if is_next {
            return Some(target);
        }
        rest = end;
    }
}

/// The same in the lines of a text that are `Link` headers.
pub(super) fn next_of_lines(text: &str) -> Option<&str> {
    text.lines().filter_map(link_of_line).find_map(next_of_value)
}

/// A text apart: header lines, and what follows the blank line after them. `None` when it does not begin with headers.
pub(super) fn body_after_headers(text: &str) -> Option<(&str, &str)> {
    if text.trim_start().starts_with(['{', '[']) {
        return None;
    }
    let (head, body) = text.split_once("\r\n\r\n").or_else(|| text.split_once("\n\n"))?;
    is_headers(head).then_some((head, body))
}

/// Whether a text is header lines alone, perhaps after the status line of HTTP.
pub(super) fn is_headers(text: &str) -> bool {
    let mut lines = text.trim().lines().enumerate();
    text.len() <= HEADER_BYTES_MAX
        && lines.all(|(index, line)| (index == 0 && line.starts_with("HTTP/")) || header(line).is_some())
}

/// The value of a line that is a `Link` header.
fn link_of_line(line: &str) -> Option<&str> {
    header(line).filter(|(name, _)| name.eq_ignore_ascii_case("link")).map(|(_, value)| value)
}

/// Name and value of a header line.
fn header(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    is_name.then(|| (name, value.trim()))
}

/// Reads the parameters of a link: whether it leads to the next page, and what follows it. Of several `rel`, the first counts.
fn parameters(text: &str) -> (bool, &str) {
    let (mut relation, mut rest) = (None, text);
    while let Some(after) = rest.trim_start().strip_prefix(';') {
        let after = after.trim_start();
        let name_end = after.find(['=', ';', ',']).unwrap_or(after.len());
        let (name, after) = after.split_at(name_end);
        let Some(value) = after.strip_prefix('=') else {
            rest = after;
            continue;
        };
        let (value, after) = match value.trim_start().strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => value.split_at(value.find([';', ',']).unwrap_or(value.len())),
        };
        if name.trim().eq_ignore_ascii_case("rel") {
            relation = relation.or(Some(value));
        }
        rest = after;
    }
    let is_next =
        relation.is_some_and(|relation| relation.split_whitespace().any(|one| one.eq_ignore_ascii_case("next")));
    (is_next, rest)
}

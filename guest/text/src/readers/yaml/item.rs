//! One item of a list: blocks by indentation.

use super::scalar;
use crate::readers::error::Fault;
use crate::readers::string::quote;

/// Most nested blocks of an item: 64. They are read by recursion.
const DEPTH_MAX: usize = 64;

/// The lines of an item, from the current one on.
pub(super) struct Lines<'a> {
    lines: std::iter::Peekable<std::str::Lines<'a>>,
    /// What is left of a line whose beginning was read: its indentation and its text.
    rest: Option<Line<'a>>,
}

/// A line without its indentation.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    pub(super) indent: usize,
    pub(super) text: &'a str,
}

impl<'a> Line<'a> {
    fn new(line: &'a str) -> Self {
        let text = line.trim_start_matches(' ');
        Self { indent: line.len() - text.len(), text }
    }

    pub(super) fn is_blank(&self) -> bool {
        self.text.trim_matches(' ').is_empty()
    }
}

impl<'a> Lines<'a> {
    /// The next line, of any kind, without taking it.
    pub(super) fn peek_any(&mut self) -> Option<Line<'a>> {
        self.rest.or_else(|| self.lines.peek().map(|line| Line::new(line)))
    }

    /// Takes a line.
    pub(super) fn take(&mut self) {
        if self.rest.take().is_none() {
            self.lines.next();
        }
    }

    /// The next line that is neither blank nor a comment.
    fn peek(&mut self) -> Option<Line<'a>> {
        loop {
            let line = self.peek_any()?;
            if !line.is_blank() && !line.text.starts_with('#') {
                return Some(line);
            }
            self.take();
        }
    }
}

/// Writes an item, which has to be a map, as JSON.
pub(super) fn write(item: &str, json: &mut Vec<u8>) -> Result<(), Fault> {
    let mut lines = Lines { lines: item.lines().peekable(), rest: None };
    let first = lines.peek().ok_or(Fault::Yaml)?;
    if key(first.text)?.is_none() {
        return Err(Fault::Yaml);
    }
    block(&mut lines, 1, 0, json)?;
    if lines.peek().is_some() { Err(Fault::Yaml) } else { Ok(()) }
}

/// Writes the block that begins at the next line, which is indented by at least `indent`; null if there is none.
fn block(lines: &mut Lines<'_>, indent: usize, depth: usize, json: &mut Vec<u8>) -> Result<(), Fault> {
    let Some(line) = lines.peek().filter(|line| line.indent >= indent) else {
        json.extend_from_slice(b"null");
        return Ok(());
    };
    if depth == DEPTH_MAX {
        return Err(Fault::Depth);
    }
    if entry(line.text).is_some() {
        sequence(lines, line.indent, depth, json)
    } else if key(line.text)?.is_some() {
        map(lines, line.indent, depth, json)
    } else {
        lines.take();
        scalar::write(line.text, lines, indent, json)
    }
}

fn sequence(lines: &mut Lines<'_>, indent: usize, depth: usize, json: &mut Vec<u8>) -> Result<(), Fault> {
    let mut separator = b'[';
    while let Some(line) = lines.peek().filter(|line| line.indent == indent) {
        let Some(rest) = entry(line.text) else { break };
        json.push(separator);
        separator = b',';
        lines.take();
        if !rest.is_empty() {
            lines.rest = Some(Line { indent: indent + line.text.len() - rest.len(), text: rest });
        }
        block(lines, indent + 1, depth + 1, json)?;
    }
    json.push(b']');
    Ok(())
}

fn map(lines: &mut Lines<'_>, indent: usize, depth: usize, json: &mut Vec<u8>) -> Result<(), Fault> {
    let mut separator = b'{';
    while let Some(line) = lines.peek().filter(|line| line.indent == indent) {
        let Some((name, value)) = key(line.text)? else { return Err(Fault::Yaml) };
        json.push(separator);
        separator = b',';
        quote(name.as_bytes(), json);
        json.push(b':');
        lines.take();
        if !value.is_empty() && !value.starts_with('#') {
            scalar::write(value, lines, indent + 1, json)?;
        } else if lines.peek().is_some_and(|next| next.indent == indent && entry(next.text).is_some()) {
            // A sequence may stand as far left as the key it belongs to.
            sequence(lines, indent, depth + 1, json)?;
        } else {
            block(lines, indent + 1, depth + 1, json)?;
        }
    }
    json.push(b'}');
    Ok(())
}

/// The rest of an entry of a sequence, behind `- `.
fn entry(text: &str) -> Option<&str> {
    let rest = text.strip_prefix('-')?;
    (rest.is_empty() || rest.starts_with(' ')).then(|| rest.trim_start_matches(' '))
}

/// The key at the beginning of a line, and what follows its colon.
fn key(text: &str) -> Result<Option<(String, &str)>, Fault> {
    let (name, rest) = match text.as_bytes().first() {
        Some(b'"' | b'\'') => match scalar::quoted_key(text)? {
            Some(found) => found,
            None => return Ok(None),
        },
        Some(b'?') => return Err(Fault::Yaml),
        _ => {
            let colon = text.match_indices(':').map(|(at, _)| at).find(|at| {
                let after = text.as_bytes().get(at + 1);
                after.is_none_or(|&byte| byte == b' ')
            });
            let Some(colon) = colon else { return Ok(None) };
            let name = text[..colon].trim_end_matches(' ');
            if !scalar::is_plain(name) || name.contains(['[', ']', '{', '}', ',']) || name.contains(" #") {
                return Err(Fault::Yaml);
            }
            // Merge keys need anchors; JSON has no name for a key that is not a string.
            if name == "<<" || scalar::is_keyword(name) {
                return Err(Fault::Yaml);
            }
            (name.to_owned(), &text[colon + 1..])
        }
    };
    Ok(Some((name, rest.trim_start_matches(' '))))
}

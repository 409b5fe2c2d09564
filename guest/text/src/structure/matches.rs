//! Matches of a search in files, as `grep -n`, `rg` and compilers print them: `path:line:text`, and `path-line-text` around
//! them.

use memchr::memchr_iter;

use super::{Mark, Parents, TITLE_BYTES_MAX};
use crate::shorten::ceil_char;

/// Bytes of a path that are looked at.
const PATH_BYTES_MAX: usize = 1024;

/// The state between lines.
#[derive(Debug, Default)]
pub(super) struct Matches {
    /// The file of the last line.
    path: Vec<u8>,
}

impl Matches {
    /// A line of another file than the one before is a mark.
    pub(super) fn line(&mut self, line: &[u8], parents: &mut Parents) -> Option<Mark> {
        let path = path(line)?;
        if path == self.path {
            return None;
        }
        self.path.clear();
        self.path.extend_from_slice(path);
        parents.push(1, shown(path));
        Some(Mark { level: 1, back: false })
    }
}

/// The path of the file that a line is from.
pub(super) fn path(line: &[u8]) -> Option<&[u8]> {
    let line = line.get(..line.len().min(PATH_BYTES_MAX)).unwrap_or_default();
    if line.first().is_none_or(u8::is_ascii_whitespace) {
        return None;
    }
    let is_number = |at: usize, end: u8| {
        let rest = line.get(at + 1..).unwrap_or_default();
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        digits > 0 && rest.get(digits) == Some(&end)
    };
    let found = |separator: u8| {
        let at = memchr_iter(separator, line).find(|&at| is_number(at, separator))?;
        line.get(..at).filter(|path| is_path(path))
    };
    found(b':').or_else(|| found(b'-'))
}

/// The end of a path says more than its beginning.
pub(super) fn shown(path: &[u8]) -> &[u8] {
    path.get(ceil_char(path, path.len().saturating_sub(TITLE_BYTES_MAX))..).unwrap_or_default()
}

fn is_path(bytes: &[u8]) -> bool {
    bytes.iter().any(|byte| matches!(byte, b'/' | b'\\' | b'.'))
}

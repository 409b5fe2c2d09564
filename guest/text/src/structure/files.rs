//! Files one after another in one text, as `head`, programs that pack a repository, and servers that read several files
//! write them. Each begins with a line that has its path:
//!
//! | line | written by |
//! |---|---|
//! | `==> path <==` | `head`, `tail` |
//! | `path:`, first or behind `---` | the reference server for files |
//! | `File: path` behind a line of `=` | repomix, gitingest |
//! | `<file path="path">` | repomix |

use super::matches::shown;
use super::source::{self, Language};
use super::{Mark, Parents};

/// Shortest line of `=` that frames a path.
const RULE_BYTES_MIN: usize = 8;

/// The state between lines.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Files {
    before: Before,
    /// The language of the file that the last line is in.
    language: Option<Language>,
}

/// What the line before says about the next one.
#[derive(Clone, Copy, Debug, Default)]
enum Before {
    /// The text begins, or `---` ended a file.
    #[default]
    End,
    /// A line of `=`.
    Rule,
    Other,
}

impl Files {
    /// A line with the path of a file is a mark, and so are the definitions in it.
    pub(super) fn line(&mut self, line: &[u8], parents: &mut Parents) -> Option<Mark> {
        match self.path(line) {
            Some(path) => {
                self.language = Language::of_path(path);
                parents.push(0, shown(path));
                Some(Mark { level: 0, back: false })
            }
            None => source::line(self.language?, line, parents),
        }
    }

    /// The path of the file that begins with the next line, if one does.
    pub(super) fn path<'a>(&mut self, line: &'a [u8]) -> Option<&'a [u8]> {
        let text = line.trim_ascii_end();
        let before = std::mem::replace(&mut self.before, Before::of(text));
        let framed = || match before {
            Before::End => text.strip_suffix(b":").filter(|path| is_path(path)),
            Before::Rule => text.strip_prefix(b"File: ").or_else(|| text.strip_prefix(b"FILE: ")),
            Before::Other => None,
        };
        let headed = || text.strip_prefix(b"==> ")?.strip_suffix(b" <==");
        let tagged = || text.strip_prefix(b"<file path=\"")?.strip_suffix(b"\">");
        let path = headed().or_else(tagged).or_else(framed)?;
        (!path.is_empty()).then_some(path)
    }

    /// The level that the next line would have: files are outside of all else.
    pub(super) fn level(mut self, line: &[u8]) -> u32 {
        if self.path(line).is_some() { 0 } else { source::level(line) }
    }
}

impl Before {
    fn of(text: &[u8]) -> Self {
        match text {
            b"---" => Self::End,
            _ if text.len() >= RULE_BYTES_MIN && text.iter().all(|&byte| byte == b'=') => Self::Rule,
            _ => Self::Other,
        }
    }
}

/// Whether a text can be a path, and not the key of a document in YAML.
fn is_path(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, b'/' | b'\\'))
        && text.first().is_some_and(|first| first.is_ascii_alphanumeric() || b"/\\._~".contains(first))
}

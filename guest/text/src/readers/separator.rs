//! The line by which CSV of spreadsheets names its delimiter: `sep=;`.

const NAME: &[u8; 4] = b"sep=";

/// The delimiter that a line names, the first one of a text, without its line end and a byte order mark: a tab or a sign of
/// ASCII other than a quote behind `sep=`.
#[must_use]
pub fn named_delimiter(line: &str) -> Option<u8> {
    match line.as_bytes() {
        [name @ .., delimiter] if name.eq_ignore_ascii_case(NAME) && is_delimiter(*delimiter) => Some(*delimiter),
        _ => None,
    }
}

fn is_delimiter(byte: u8) -> bool {
    byte == b'\t' || byte.is_ascii_punctuation() && byte != b'"'
}

/// Tells whether a text begins with the line that names this delimiter.
#[derive(Debug)]
pub(crate) struct SeparatorLine {
    delimiter: u8,
    /// The beginning of the text as far as it is that of the line.
    pub(crate) held: Vec<u8>,
}

/// What a text begins with.
pub(crate) enum Beginning {
    /// The line, or nothing else so far.
    Unclear,
    /// The line; so many bytes of the piece belong to it.
    Line(usize),
    /// Something else, from this byte of the piece on.
    Other(usize),
}

impl SeparatorLine {
    pub(crate) fn new(delimiter: u8) -> Self {
        Self { delimiter, held: Vec::new() }
    }

    pub(crate) fn read(&mut self, text: &[u8]) -> Beginning {
        for (at, &byte) in text.iter().enumerate() {
            if !self.may_follow(byte) {
                return Beginning::Other(at);
            }
            self.held.push(byte);
            if byte == b'\n' {
                return Beginning::Line(at + 1);
            }
        }
        Beginning::Unclear
    }

    /// Whether a text that ends here is that line.
    pub(crate) fn is_complete(&self) -> bool {
        self.held.len() > NAME.len()
    }

    fn may_follow(&self, byte: u8) -> bool {
        match (NAME.get(self.held.len()), self.held.last()) {
            (Some(expected), _) => byte.eq_ignore_ascii_case(expected),
            (None, Some(b'=')) if self.held.len() == NAME.len() => byte == self.delimiter,
            (None, Some(b'\r')) => byte == b'\n',
            _ => matches!(byte, b'\r' | b'\n'),
        }
    }
}

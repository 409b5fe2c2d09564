//! Tokens whose end must be found first, and tokens that cross the end of a block or slice.

use lro_json::Block;

use super::Profile;

/// Bytes kept of a token that crosses the end of a slice: more than any limit on a token, including a key written in
/// escapes of six bytes.
const CUT_BYTES_MAX: usize = 2048;

/// A token whose end is not yet seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Cut {
    /// Its kind, and its index in the slice.
    open: Option<(Token, usize)>,
    /// Its bytes from previous slices, up to [`CUT_BYTES_MAX`], and whether it has a point or exponent.
    bytes: Vec<u8>,
    decimal: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Key,
    /// A string, already counted by type, whose value is to be counted.
    String,
    Number,
}

impl Profile {
    /// Reads a key that is not the expected one; `false` when its end is not in the block, or the tokens after it are
    /// to be skipped.
    #[inline(never)]
    pub(super) fn other_key(&mut self, text: &[u8], block: &Block, start: usize, token: u64) -> bool {
        self.other_string(Token::Key, text, block, start, token) && self.reader.skipped == 0
    }

    /// Counts the value of a string; `false` when its end is not in the block.
    #[inline(always)]
    pub(super) fn count_string(&mut self, text: &[u8], block: &Block, start: usize, token: u64) -> bool {
        self.other_string(Token::String, text, block, start, token)
    }

    #[inline(always)]
    fn other_string(&mut self, kind: Token, text: &[u8], block: &Block, start: usize, token: u64) -> bool {
        let ends = block.string_end & !(token - 1);
        if ends == 0 {
            self.reader.cut.open = Some((kind, start));
            return false;
        }
        self.token(kind, text, start, block.start + ends.trailing_zeros() as usize + 1);
        true
    }

    /// Reads a number with an exponent, a long one, or one near the end of the slice; `false` when its end is not in
    /// the block.
    #[inline(never)]
    pub(super) fn other_number(&mut self, text: &[u8], block: &Block, start: usize, token: u64) -> bool {
        let bit = token.trailing_zeros();
        let length = (block.scalar_bytes >> bit).trailing_ones();
        if (bit + length) as usize >= block.length {
            self.reader.cut.open = Some((Token::Number, start));
            return false;
        }
        self.token(Token::Number, text, start, start + length as usize);
        true
    }

    /// Looks for the end of the open token in a block; `false` when it is not there.
    #[inline(never)]
    pub(super) fn read_end(&mut self, text: &[u8], block: &Block) -> bool {
        let Some((token, start)) = self.reader.cut.open else {
            return true;
        };
        let length = match token {
            Token::Number => block.scalar_bytes.trailing_ones(),
            _ => block.string_end.trailing_zeros() + 1,
        } as usize;
        if length > block.length || (token == Token::Number && length == block.length) {
            return false;
        }
        self.reader.cut.open = None;
        let end = block.start + length;
        if self.reader.cut.bytes.is_empty() {
            self.token(token, text, start, end);
        } else {
            self.reader.cut.add(&text[start..end]);
            self.cut_token(token);
        }
        true
    }

    /// Ends a slice: keeps the beginning of an open token.
    pub(crate) fn end_slice(&mut self, text: &[u8]) {
        if let Some((_, start)) = &mut self.reader.cut.open {
            let piece = &text[*start..];
            *start = 0;
            self.reader.cut.add(piece);
        }
    }

    /// Ends the document: a number at its end is complete.
    pub(crate) fn end_document(&mut self) {
        if let Some((token, _)) = self.reader.cut.open.take() {
            self.cut_token(token);
        }
    }

    fn cut_token(&mut self, token: Token) {
        let mut bytes = std::mem::take(&mut self.reader.cut.bytes);
        if std::mem::take(&mut self.reader.cut.decimal) && bytes.len() >= CUT_BYTES_MAX {
            // The point or exponent may be in the part that was not kept.
            bytes.push(b'.');
        }
        self.token(token, &bytes, 0, bytes.len());
        bytes.clear();
        self.reader.cut.bytes = bytes;
    }

    /// Handles a token with a known end.
    #[inline(always)]
    fn token(&mut self, token: Token, text: &[u8], start: usize, end: usize) {
        let property = self.reader.container.property as usize;
        match (token, self.nodes.get_mut(property)) {
            (Token::Key, _) => self.key(text, start, end),
            (Token::String, Some(node)) => node.counter.add(text, start, end),
            (Token::Number, Some(node)) => node.add_number(text, start, end),
            (_, None) => {}
        }
    }
}

impl Cut {
    #[inline(always)]
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    fn add(&mut self, piece: &[u8]) {
        self.decimal |= piece.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E'));
        let left = CUT_BYTES_MAX.saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(piece.get(..left).unwrap_or(piece));
    }
}

//! The size of a text in the three units of a threshold: bytes, characters, estimated tokens.

use lro_json::masks::{BLOCK, Masks, Strings};

/// Measures a text that is given in pieces.
///
/// # Tokens
///
/// An estimate that does not depend on the model: a character counts a quarter of a token when it is ASCII or Latin
/// (up to U+02FF), half a token in the other alphabets (U+0300 to U+1FFF: Greek, Cyrillic, Hebrew, Arabic, Indic, Thai
/// and so on), and one token from U+2000 on (punctuation and symbols, kana, CJK, Hangul, emoji). The sum is rounded up.
/// Four characters per token is the usual rule of thumb for English; a tokenizer rarely needs more than one token for
/// a common CJK character or emoji.
///
/// ```
/// let mut size = lro_jsonl::Measure::json();
/// size.push("{ \"a\": [1, 2] }");
/// assert_eq!((size.bytes(), size.characters(), size.tokens()), (11, 11, 3));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Measure {
    compact: bool,
    strings: Strings,
    bytes: u64,
    characters: u64,
    quarters: u64,
}

impl Measure {
    /// Measures JSON as if it were compact: white space outside strings does not count. The text is not validated.
    #[must_use]
    pub fn json() -> Self {
        Self { compact: true, ..Self::default() }
    }

    /// Measures a text as it is.
    #[must_use]
    pub fn text() -> Self {
        Self::default()
    }

    /// Adds the next piece.
    pub fn push(&mut self, text: &str) {
        let bytes = text.as_bytes();
        self.bytes += bytes.len() as u64;
        for chunk in bytes.chunks(COUNT_BYTES) {
            self.count(chunk);
        }
        if self.compact {
            let white = self.white(bytes);
            self.bytes -= white;
            self.characters -= white;
            self.quarters -= white;
        }
    }

    /// Bytes of UTF-8.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Unicode scalar values.
    #[must_use]
    pub fn characters(&self) -> u64 {
        self.characters
    }

    /// Estimated tokens, rounded up.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.quarters.div_ceil(4)
    }

    /// Counts the characters that begin in `chunk` and their quarters of a token, both from their first bytes alone.
    fn count(&mut self, chunk: &[u8]) {
        let (mut characters, mut beyond_latin, mut beyond_alphabets) = (0_u8, 0_u8, 0_u8);
        for &byte in chunk {
            characters += u8::from(byte & 0xC0 != 0x80);
            beyond_latin += u8::from(byte >= FIRST_BYTE_0300);
            beyond_alphabets += u8::from(byte >= FIRST_BYTE_2000);
        }
        self.characters += u64::from(characters);
        self.quarters += u64::from(characters) + u64::from(beyond_latin) + 2 * u64::from(beyond_alphabets);
    }

    /// Counts the white space outside strings.
    fn white(&mut self, bytes: &[u8]) -> u64 {
        let mut white = 0;
        for block in bytes.chunks(BLOCK) {
            let (masks, last) = (Masks::of(block), block.len() - 1);
            let inside = self.strings.next(&masks, last).inside;
            white += u64::from((masks.low & !inside & (u64::MAX >> (BLOCK - 1 - last))).count_ones());
        }
        white
    }
}

/// Bytes per chunk: few enough for the counts to fit in a `u8`, and a multiple of the widest vector register.
const COUNT_BYTES: usize = 192;

/// First UTF-8 byte of U+0300, the first character beyond Latin and its modifier letters.
const FIRST_BYTE_0300: u8 = 0xCC;

/// First UTF-8 byte of U+2000.
const FIRST_BYTE_2000: u8 = 0xE2;

/// Estimated tokens of a whole text; [`Measure`] describes the rule.
#[must_use]
pub fn tokens(text: &str) -> u64 {
    let mut measure = Measure::text();
    measure.push(text);
    measure.tokens()
}

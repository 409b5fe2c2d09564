//! The size of a text in the three units of a threshold: bytes, characters, estimated tokens.

use lro_json::masks::{BLOCK, Masks, Strings};

use crate::tokens::Tokens;

/// Measures a text that is given in pieces. The tokens are [estimated](tokens()).
///
/// ```
/// let mut size = lro_jsonl::Measure::json();
/// size.push("{ \"a\": [1, 2] }");
/// assert_eq!((size.bytes(), size.characters(), size.tokens()), (11, 11, 8));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Measure {
    compact: bool,
    without_tokens: bool,
    strings: Strings,
    bytes: u64,
    characters: u64,
    tokens: Tokens,
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

    /// Leaves out the tokens, which take most of the time: [`Measure::tokens`] is 0.
    #[must_use]
    pub fn without_tokens(self) -> Self {
        Self { without_tokens: true, ..self }
    }

    /// Adds the next piece.
    pub fn push(&mut self, text: &str) {
        if self.compact {
            self.push_compact(text);
        } else {
            self.add(text);
        }
    }

    fn add(&mut self, text: &str) {
        self.bytes += text.len() as u64;
        self.characters += characters(text.as_bytes());
        if !self.without_tokens {
            self.tokens.push(text);
        }
    }

    /// Adds what is not white space outside strings.
    fn push_compact(&mut self, text: &str) {
        let (mut compact, mut from) = (String::new(), 0);
        for (index, block) in text.as_bytes().chunks(BLOCK).enumerate() {
            let (masks, last) = (Masks::of(block), block.len() - 1);
            let inside = self.strings.next(&masks, last).inside;
            let mut white = masks.low & !inside & (u64::MAX >> (BLOCK - 1 - last));
            while white != 0 {
                let at = index * BLOCK + white.trailing_zeros() as usize;
                compact.push_str(text.get(from..at).unwrap_or_default());
                from = at + 1;
                white &= white - 1;
            }
        }
        let rest = text.get(from..).unwrap_or_default();
        if from == 0 {
            return self.add(rest);
        }
        compact.push_str(rest);
        self.add(&compact);
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

    /// Estimated tokens.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.tokens.tokens().min(self.bytes)
    }
}

/// Counts the characters of a text, by their first bytes.
fn characters(text: &[u8]) -> u64 {
    let of = |chunk: &[u8]| chunk.iter().map(|byte| u8::from(byte & 0xC0 != 0x80)).sum::<u8>();
    text.chunks(COUNT_BYTES).map(|chunk| u64::from(of(chunk))).sum()
}

/// Bytes per chunk: few enough for the count to fit in a `u8`, and a multiple of the widest vector register.
const COUNT_BYTES: usize = 192;

/// Estimated tokens of a whole text.
///
/// # The rule
///
/// The larger of what the tokenizers `o200k_base` and Claude 2 need, estimated from classes of characters. Letters are those of
/// ASCII, U+0080 to U+02FF and U+1E00 to U+1EFF; a *piece* begins at a letter after anything else, and at an ASCII capital after a
/// letter that is none. Breaks are CR and LF; signs are the other characters of ASCII but digits, space and tab. The estimate is
/// the sum of these hundredths of a token, rounded up, but no more than the text has bytes:
///
/// | hundredths | for each |
/// |---|---|
/// | 115 | first letter of a piece; 30 if it is `t` or `T` |
/// | 85 | second letter of a piece after `t` or `T`, unless it is `h` or `H` |
/// | 30 | letter of a piece from the ninth on; 60 from the seventeenth on, unless it is of ASCII and equals its predecessor |
/// | 108 | second capital of a run of ASCII capitals |
/// | 112 | `a`, `i`, `o` or `u`, any case, the fourth letter of a piece or a later one, before a character that is not a letter |
/// | 114 | first, fourth, seventh … digit of a run |
/// | 85 | run of digits after a space |
/// | 79 | first sign of a run |
/// | 11, 16 | further sign, unlike its predecessor, or equal to it |
/// | 110, 6 | first break of a run, further break |
/// | 42 | tab |
/// | 1 | space after a space |
/// | see `BEYOND_ASCII` | character beyond ASCII, also a letter |
///
/// The page "Token counts" of the documentation says how good it is.
#[must_use]
pub fn tokens(text: &str) -> u64 {
    let mut tokens = Tokens::default();
    tokens.push(text);
    tokens.tokens().min(text.len() as u64)
}

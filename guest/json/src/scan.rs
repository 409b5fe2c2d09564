//! Reads a document 64 bytes at a time: finds its tokens and validates them, mostly on all 64 bytes at once.
//!
//! Each class of bytes is a bit mask. The grammar is checked as a relation between neighbouring tokens: a mask shifted
//! by one and carried over white space ([`follow`]) marks where the next token must begin, and the type of the
//! enclosing container decides which token is allowed there. Only brackets, numbers, literals and escapes are checked
//! one by one.

use crate::masks::{self, BLOCK, InStrings, Masks, Strings, follow};
use crate::scalar::{self, Checked, Scalar};
use crate::{SyntaxError, SyntaxErrorKind};

/// Most nested containers of a document: 1,024. Deeper documents are rare, and parsers reject them (`serde_json` by
/// default beyond 128).
pub const DEPTH_MAX: usize = 1024;

/// The tokens of 64 bytes, one bit per byte, all outside strings and valid where they stand. Bits beyond the end of the
/// slice are unset except in `white`.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Index of the first byte in the slice.
    pub start: usize,
    /// Length in bytes: 64, or fewer in the last block of a slice.
    pub length: usize,
    /// White space.
    pub white: u64,
    /// `{` and `[`.
    pub open: u64,
    /// `}` and `]`.
    pub close: u64,
    /// `,`.
    pub comma: u64,
    /// `:`.
    pub colon: u64,
    /// First quotes of strings.
    pub string: u64,
    /// First quotes of keys, a part of `string`.
    pub key: u64,
    /// Last quotes of strings.
    pub string_end: u64,
    /// First bytes of numbers and literals.
    pub scalar: u64,
    /// All bytes of numbers and literals.
    pub scalar_bytes: u64,
}

/// Reads one document, given in slices: [`begin`](Self::begin) and [`end`](Self::end) around the blocks of each slice,
/// then [`finish`](Self::finish). Must not be used after an error.
///
/// ```
/// let mut scanner = lro_json::Scanner::new();
/// let (mut keys, mut start) = (0, 0);
/// let slice = br#"{"a": {"b": "c"}}"#;
/// scanner.begin(slice)?;
/// while start < slice.len() {
///     let block = scanner.block(slice, start)?;
///     keys += block.key.count_ones();
///     start += block.length;
/// }
/// scanner.end(slice);
/// assert_eq!((keys, scanner.finish()?), (2, 15));
/// # Ok::<(), lro_json::SyntaxError>(())
/// ```
// Each `u64` is 0 or 1.
#[derive(Clone, Debug)]
pub struct Scanner {
    /// Bytes of all previous slices.
    offset: u64,
    /// White space outside strings so far, in bytes.
    white_bytes: u64,
    /// Which of the open containers are objects, the innermost at `depth - 1`.
    objects: [bool; DEPTH_MAX],
    depth: usize,
    strings: Strings,
    in_key: u64,
    in_scalar: u64,
    key_due: u64,
    value_due: u64,
    colon_due: u64,
    after_separator: u64,
    /// A number or literal that is cut by the end of the last slice.
    scalar: Option<Scalar>,
    /// Hex digits of an escape that must follow in the next slice.
    hex_due: usize,
}

impl Default for Scanner {
    fn default() -> Self {
        Self::new()
    }
}

impl Scanner {
    /// A scanner at the beginning of a document.
    #[must_use]
    pub fn new() -> Self {
        Self {
            offset: 0,
            white_bytes: 0,
            objects: [false; DEPTH_MAX],
            depth: 0,
            strings: Strings::default(),
            in_key: 0,
            in_scalar: 0,
            key_due: 0,
            value_due: 1,
            colon_due: 0,
            after_separator: 0,
            scalar: None,
            hex_due: 0,
        }
    }

    /// Begins a slice, cut between any two bytes: completes the tokens that the end of the last one cut.
    ///
    /// # Errors
    ///
    /// [`SyntaxError`] in one of these tokens.
    pub fn begin(&mut self, text: &[u8]) -> Result<(), SyntaxError> {
        let due = self.hex_due.min(text.len());
        if let Some(wrong) = text.iter().take(due).position(|byte| !byte.is_ascii_hexdigit()) {
            return Err(self.error(wrong, SyntaxErrorKind::InvalidEscape));
        }
        self.hex_due -= due;
        if let Some(scalar) = self.scalar.take() {
            match scalar.read(text, 0) {
                Checked::Complete => {}
                Checked::Open(scalar) => self.scalar = Some(scalar),
                Checked::Wrong(index, kind) => return Err(self.error(index, kind)),
            }
        }
        Ok(())
    }

    /// Ends a slice.
    pub fn end(&mut self, text: &[u8]) {
        self.offset += text.len() as u64;
    }

    /// Ends the document and returns its size in bytes without white space.
    ///
    /// # Errors
    ///
    /// When the document ends too early.
    pub fn finish(&self) -> Result<u64, SyntaxError> {
        let cut = self.scalar.is_some_and(|scalar| !scalar.is_complete());
        if self.strings.is_inside() || self.depth > 0 || self.value_due != 0 || cut {
            return Err(self.error(0, SyntaxErrorKind::UnexpectedEnd));
        }
        Ok(self.offset - self.white_bytes)
    }

    /// An error at an index of the slice.
    #[must_use]
    pub fn error(&self, index: usize, kind: SyntaxErrorKind) -> SyntaxError {
        SyntaxError { kind, offset: self.offset + index as u64 }
    }

    /// Reads the block that begins at `start`: at the beginning of the slice, behind the last block, or where
    /// [`resume`](Self::resume) says.
    ///
    /// # Errors
    ///
    /// The first [`SyntaxError`] of the block.
    #[inline(always)]
    pub fn block(&mut self, text: &[u8], start: usize) -> Result<Block, SyntaxError> {
        let masks = Masks::of(&text[start..]);
        self.classified(text, start, &masks)
    }

    /// Goes back to the comma at `bit` of the block that was read last, behind which an element of an array follows. The next
    /// block begins behind that comma, or behind the comma of any later element of that array, where the elements between were
    /// validated otherwise and have `white` bytes of white space.
    ///
    /// `depth` is the number of containers that are open there. None of them may have been closed in the block.
    pub fn resume(&mut self, block: &Block, bit: u32, depth: usize, white: usize) {
        let beyond = u64::MAX >> (BLOCK - block.length) & u64::MAX.unbounded_shl(bit + 1);
        self.white_bytes -= u64::from((block.white & beyond).count_ones());
        self.white_bytes += white as u64;
        self.depth = depth;
        self.strings = Strings::default();
        self.forget_tokens();
        (self.value_due, self.after_separator) = (1, 1);
    }

    /// Forgets what is open but containers and strings, and what is due.
    fn forget_tokens(&mut self) {
        (self.in_key, self.in_scalar, self.key_due, self.value_due) = (0, 0, 0, 0);
        (self.colon_due, self.after_separator, self.scalar, self.hex_due) = (0, 0, None, 0);
    }

    /// Skips the innermost container, or one around it, from the block at `start` on: finds its end, and validates
    /// nothing in it. `inside` is the number of open containers in it, and `start` a multiple of 64; both are moved on.
    ///
    /// Returns the block with its closing bracket, whose bytes before the bracket count as white space, or `None` when the
    /// slice ends before.
    ///
    /// # Errors
    ///
    /// The first [`SyntaxError`] of that block.
    pub fn skip(&mut self, text: &[u8], start: &mut usize, inside: &mut usize) -> Result<Option<Block>, SyntaxError> {
        let depth = self.depth.saturating_sub(*inside);
        let mut end = None;
        while end.is_none() && *start < text.len() {
            let rest = &text[*start..];
            let length = rest.len().min(BLOCK);
            let masks = Masks::of(rest);
            let InStrings { inside: in_string, quote, .. } = self.strings.next(&masks, length - 1);
            let outside = !(in_string | quote);
            end = masks::closing(masks.open & outside, masks.close & outside, inside);
            *start += if end.is_none() { length } else { 0 };
        }
        self.forget_tokens();
        self.depth = depth + *inside;
        let Some(bit) = end else { return Ok(None) };
        self.strings = Strings::default();
        let mut block = [b' '; BLOCK];
        for (to, from) in block.iter_mut().zip(&text[*start..]).skip(bit) {
            *to = *from;
        }
        self.classified(text, *start, &Masks::of_block(&block)).map(Some)
    }

    /// Reads the block of these masks.
    #[inline(always)]
    fn classified(&mut self, text: &[u8], start: usize, masks: &Masks) -> Result<Block, SyntaxError> {
        let rest = &text[start..];
        let length = rest.len().min(BLOCK);
        let last = length.saturating_sub(1);
        let valid = u64::MAX >> (BLOCK - 1 - last);
        let mut first_error = FirstError(None);

        let InStrings { inside: in_string, quote, escaped } = self.strings.next(masks, last);
        let outside = !(in_string | quote);
        let white = masks.low & outside;
        let open = masks.open & outside;
        let close = masks.close & outside;
        let comma = masks.comma & outside;
        let colon = masks.colon & outside;
        let scalar_bytes = outside & !(white | open | close | comma | colon);
        let scalar = scalar_bytes & !(scalar_bytes << 1 | self.in_scalar);
        self.in_scalar = scalar_bytes >> last & 1;
        let string = quote & in_string;
        let string_end = quote & !in_string;
        if white != 0 {
            self.white_bytes += u64::from((white & valid).count_ones());
        }

        let (objects, outermost) = self.containers(text, start, open | close, open, &mut first_error);

        let keys_due = follow((open | comma) & objects, &mut self.key_due, white);
        let values_due = follow((open | comma) & !objects | colon, &mut self.value_due, white);
        let after_separators = follow(comma | colon, &mut self.after_separator, white);
        let key = string & keys_due;
        let (ends, in_key) = in_string.overflowing_add(key | self.in_key);
        self.in_key = u64::from(in_key);
        let colons_due = follow(ends & string_end, &mut self.colon_due, white);
        let value = scalar | (string & !key) | open;
        let misplaced = keys_due & !(string | close)
            | values_due & !(value | close)
            | after_separators & close
            | value & !values_due
            | colon ^ colons_due
            | comma & outermost;
        if misplaced & valid != 0 {
            first_error.add(start + misplaced.trailing_zeros() as usize, SyntaxErrorKind::UnexpectedToken);
        }

        if masks.control {
            let (control, white_control) = masks::controls(rest);
            let wrong = control & (in_string | !white_control);
            if wrong != 0 {
                first_error.add(start + wrong.trailing_zeros() as usize, SyntaxErrorKind::ControlCharacter);
            }
        }
        if escaped & valid != 0 {
            self.escapes(text, start, escaped & in_string & valid, &mut first_error);
        }
        self.scalars(text, start, scalar, &mut first_error);
        if let Some((index, kind)) = first_error.0 {
            return Err(self.error(index, kind));
        }
        Ok(Block { start, length, white, open, close, comma, colon, string, key, string_end, scalar, scalar_bytes })
    }
}

impl Scanner {
    /// Follows the brackets of a block. Returns two masks: the bytes inside an object, and the bytes outside all
    /// containers. An opening bracket counts as inside, a closing one as outside.
    #[inline(always)]
    fn containers(
        &mut self,
        text: &[u8],
        start: usize,
        mut brackets: u64,
        open: u64,
        first_error: &mut FirstError,
    ) -> (u64, u64) {
        let mut outermost = if self.depth == 0 { u64::MAX } else { 0 };
        let mut objects = self.innermost();
        while brackets != 0 {
            let bracket = brackets & brackets.wrapping_neg();
            let below = bracket - 1;
            let index = start + bracket.trailing_zeros() as usize;
            // Set in `{` and `}`, unset in `[` and `]`.
            let object = text[index] & 0x20 != 0;
            if open & bracket != 0 {
                let Some(slot) = self.objects.get_mut(self.depth) else {
                    first_error.add(index, SyntaxErrorKind::DepthLimit);
                    break;
                };
                *slot = object;
                self.depth += 1;
                outermost &= below;
            } else {
                if self.depth == 0 || (self.innermost() != 0) != object {
                    first_error.add(index, SyntaxErrorKind::MismatchedBracket);
                    break;
                }
                self.depth -= 1;
                if self.depth == 0 {
                    outermost |= !below;
                }
            }
            objects = objects & below | self.innermost() & !below;
            brackets &= brackets - 1;
        }
        (objects, outermost)
    }

    /// All ones when the innermost open container is an object.
    #[inline(always)]
    fn innermost(&self) -> u64 {
        let object = self.objects.get(self.depth.wrapping_sub(1)).is_some_and(|&object| object);
        0_u64.wrapping_sub(u64::from(object))
    }

    #[inline(always)]
    fn scalars(&mut self, text: &[u8], start: usize, mut scalars: u64, first_error: &mut FirstError) {
        while scalars != 0 {
            match scalar::check(text, start + scalars.trailing_zeros() as usize) {
                Checked::Complete => {}
                Checked::Open(scalar) => self.scalar = Some(scalar),
                Checked::Wrong(index, kind) => return first_error.add(index, kind),
            }
            scalars &= scalars - 1;
        }
    }

    /// Checks the bytes after backslashes.
    fn escapes(&mut self, text: &[u8], start: usize, mut escaped: u64, first_error: &mut FirstError) {
        while escaped != 0 {
            let index = start + escaped.trailing_zeros() as usize;
            match text[index] {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                b'u' => {
                    let digits = &text[index + 1..];
                    if let Some(wrong) = digits.iter().take(4).position(|byte| !byte.is_ascii_hexdigit()) {
                        return first_error.add(index + 1 + wrong, SyntaxErrorKind::InvalidEscape);
                    }
                    self.hex_due = 4_usize.saturating_sub(digits.len());
                }
                _ => return first_error.add(index, SyntaxErrorKind::InvalidEscape),
            }
            escaped &= escaped - 1;
        }
    }
}

/// The error with the lowest index in a block; the checks find errors in any order.
struct FirstError(Option<(usize, SyntaxErrorKind)>);

impl FirstError {
    #[cold]
    fn add(&mut self, index: usize, kind: SyntaxErrorKind) {
        // An error inside a token is more specific than an unexpected token.
        let specific = kind != SyntaxErrorKind::UnexpectedToken;
        if self.0.is_none_or(|(first, _)| index < first || (index == first && specific)) {
            self.0 = Some((index, kind));
        }
    }
}

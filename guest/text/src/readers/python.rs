//! Python's `repr` of lists, tuples and dicts, as JSON.
//!
//! | Python | JSON |
//! |---|---|
//! | `'…'`, `"…"` | a string |
//! | `12`, `1.5`, `1e+16` | the same number, digit by digit |
//! | `True`, `False`, `None` | `true`, `false`, `null` |
//! | `[…]`, `(…)` | an array |
//! | `{'key': …}`, `{1: …}` | an object; whole numbers as keys become strings |
//!
//! Everything else is a fault: sets, bytes, `inf`, `nan`, `datetime(…)`, `<object>`.

use lro_json::{DEPTH_MAX, Validator};

use super::error::Fault;
use super::records::Records;
use super::string::escape;

/// Longest number, in bytes: 8 KiB. Python prints whole numbers of up to 4,300 digits.
const WORD_BYTES_MAX: usize = 8 * 1024;

/// Reads literals, one on each line or one over many lines.
#[derive(Debug, Default)]
pub(crate) struct Python {
    /// Whether the text has one literal alone.
    document: bool,
    open: Vec<Open>,
    due: Due,
    place: Place,
    /// The beginning of a number, a name, or the digits of an escape.
    word: Vec<u8>,
    /// Whether the line has a literal already.
    after_literal: bool,
}

/// An open container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    List,
    /// Whether it has a comma: `(1)` is a number in parentheses.
    Tuple {
        comma: bool,
    },
    Dict,
}

/// What may follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Due {
    /// A value, or a key in a dict.
    #[default]
    Item,
    /// The same, or the end of the container.
    First,
    /// After a comma: an item before which a comma is due, or the end of the container.
    Next,
    /// `:`.
    Colon,
    /// The value of a key.
    Value,
    /// `,` or the end of the container.
    Comma,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Between,
    /// In a number or a name.
    Word,
    /// In a string with this quote.
    String(u8),
    /// After a backslash in a string.
    Escape(u8),
    /// In the digits of an escape, of which so many are still to come.
    Digits(u8, usize),
}

impl Python {
    pub(crate) fn new(document: bool) -> Self {
        Self { document, ..Self::default() }
    }

    pub(crate) fn push(&mut self, text: &[u8], records: &mut Records) -> Result<(), Fault> {
        let mut rest = text;
        while let Some((&first, after)) = rest.split_first() {
            match self.place {
                Place::Between => {
                    self.token(first, records)?;
                    rest = after;
                }
                Place::Word if is_word(first) => {
                    if self.word.len() == WORD_BYTES_MAX {
                        return Err(Fault::Literal);
                    }
                    self.word.push(first);
                    rest = after;
                }
                Place::Word => self.end_word(records)?,
                Place::String(quote) => {
                    let length = rest.iter().position(|&byte| byte == quote || byte == b'\\' || byte == b'\n');
                    let (plain, after) = rest.split_at(length.unwrap_or(rest.len()));
                    escape(plain, 0..plain.len(), &mut records.lines);
                    rest = after;
                    if let Some((&byte, after)) = rest.split_first() {
                        rest = after;
                        match byte {
                            b'\\' => self.place = Place::Escape(quote),
                            b'\n' => return Err(Fault::Literal),
                            _ => {
                                records.lines.push(b'"');
                                self.place = Place::Between;
                                self.end_item();
                            }
                        }
                    }
                }
                Place::Escape(quote) => {
                    self.escape(first, quote, records)?;
                    rest = after;
                }
                Place::Digits(quote, due) => {
                    self.word.push(first);
                    rest = after;
                    self.place = Place::Digits(quote, due - 1);
                    if due == 1 {
                        self.end_digits(records)?;
                        self.place = Place::String(quote);
                    }
                }
            }
        }
        Ok(())
    }

    /// Handles the first byte of a token.
    fn token(&mut self, byte: u8, records: &mut Records) -> Result<(), Fault> {
        match byte {
            b'\n' => self.after_literal = false,
            b' ' | b'\t' | b'\r' => {}
            b',' if self.due == Due::Comma => {
                self.due = Due::Next;
                if let Some(Open::Tuple { comma }) = self.open.last_mut() {
                    *comma = true;
                }
            }
            b':' if self.due == Due::Colon => {
                records.lines.push(b':');
                self.due = Due::Value;
            }
            b']' | b')' | b'}' => self.close(byte, records)?,
            b'[' | b'(' | b'{' => {
                self.begin_item(false, records)?;
                self.open(byte, records)?;
            }
            b'\'' | b'"' if !self.open.is_empty() => {
                self.begin_item(true, records)?;
                records.lines.push(b'"');
                self.place = Place::String(byte);
            }
            _ if is_word(byte) && !self.open.is_empty() => {
                self.begin_item(true, records)?;
                self.word.clear();
                self.word.push(byte);
                self.place = Place::Word;
            }
            _ => return Err(Fault::Literal),
        }
        Ok(())
    }

    /// Checks that an item may begin here and writes the comma before it.
    fn begin_item(&mut self, may_be_key: bool, records: &mut Records) -> Result<(), Fault> {
        match self.due {
            Due::Colon | Due::Comma => return Err(Fault::Literal),
            _ if self.is_key() && !may_be_key => return Err(Fault::Literal),
            Due::Next => records.lines.push(b','),
            Due::Item | Due::First | Due::Value => {}
        }
        if self.open.is_empty() {
            if self.after_literal {
                return Err(Fault::AfterValue);
            }
            if self.document && records.report.records > 0 {
                return Err(Fault::Second);
            }
        }
        Ok(())
    }

    fn is_key(&self) -> bool {
        self.open.last() == Some(&Open::Dict) && self.due != Due::Value
    }

    fn end_item(&mut self) {
        self.due = if self.is_key() { Due::Colon } else { Due::Comma };
    }

    fn open(&mut self, bracket: u8, records: &mut Records) -> Result<(), Fault> {
        if self.open.len() == DEPTH_MAX {
            return Err(Fault::Depth);
        }
        let open = match bracket {
            b'[' => Open::List,
            b'(' => Open::Tuple { comma: false },
            _ => Open::Dict,
        };
        records.lines.push(if open == Open::Dict { b'{' } else { b'[' });
        self.open.push(open);
        self.due = Due::First;
        Ok(())
    }

    fn close(&mut self, bracket: u8, records: &mut Records) -> Result<(), Fault> {
        if !matches!(self.due, Due::First | Due::Next | Due::Comma) {
            return Err(Fault::Literal);
        }
        let json = match (self.open.pop(), bracket) {
            (Some(Open::List), b']') => b']',
            (Some(Open::Tuple { comma }), b')') if comma || self.due == Due::First => b']',
            (Some(Open::Dict), b'}') => b'}',
            _ => return Err(Fault::Literal),
        };
        records.lines.push(json);
        if self.open.is_empty() {
            records.end();
            self.due = Due::Item;
            self.after_literal = true;
        } else {
            // A container is never a key.
            self.due = Due::Comma;
        }
        Ok(())
    }

    fn end_word(&mut self, records: &mut Records) -> Result<(), Fault> {
        let lines = &mut records.lines;
        let is_key = self.is_key();
        let is_whole = |word: &[u8]| word.strip_prefix(b"-").unwrap_or(word).iter().all(u8::is_ascii_digit);
        match self.word.as_slice() {
            word if is_key && is_whole(word) && is_json(word) => {
                lines.push(b'"');
                lines.extend_from_slice(word);
                lines.push(b'"');
            }
            _ if is_key => return Err(Fault::Literal),
            b"None" => lines.extend_from_slice(b"null"),
            b"True" => lines.extend_from_slice(b"true"),
            b"False" => lines.extend_from_slice(b"false"),
            word @ [b'-' | b'0'..=b'9', ..] if is_json(word) => lines.extend_from_slice(word),
            _ => return Err(Fault::Literal),
        }
        self.place = Place::Between;
        self.end_item();
        Ok(())
    }

    fn escape(&mut self, letter: u8, quote: u8, records: &mut Records) -> Result<(), Fault> {
        self.place = Place::String(quote);
        let plain = match letter {
            b'\\' | b'\'' | b'"' => letter,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'x' | b'u' | b'U' => {
                self.word.clear();
                let digits = if letter == b'x' {
                    2
                } else if letter == b'u' {
                    4
                } else {
                    8
                };
                self.place = Place::Digits(quote, digits);
                return Ok(());
            }
            _ => return Err(Fault::Literal),
        };
        escape(&[plain], 0..1, &mut records.lines);
        Ok(())
    }

    /// Writes the character of an escape with digits. A lone surrogate stays an escape.
    fn end_digits(&mut self, records: &mut Records) -> Result<(), Fault> {
        let digits = std::str::from_utf8(&self.word).map_err(|_| Fault::Literal)?;
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Fault::Literal);
        }
        let code = u32::from_str_radix(digits, 16).map_err(|_| Fault::Literal)?;
        match char::from_u32(code) {
            Some(character) => {
                let mut buffer = [0; 4];
                let length = character.encode_utf8(&mut buffer).len();
                escape(&buffer, 0..length, &mut records.lines);
            }
            None if (0xD800..0xE000).contains(&code) => {
                records.lines.extend_from_slice(format!("\\u{code:04x}").as_bytes());
            }
            None => return Err(Fault::Literal),
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<(), Fault> {
        if self.open.is_empty() && self.place == Place::Between { Ok(()) } else { Err(Fault::End) }
    }
}

/// Whether a byte can be in a number or a name.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'+' | b'-')
}

/// Whether a word is a number in JSON.
fn is_json(word: &[u8]) -> bool {
    let mut validator = Validator::new();
    std::str::from_utf8(word).is_ok_and(|word| validator.push(word).is_ok()) && validator.finish().is_ok()
}

//! Records as jq values, one in the place of the one before.
//!
//! Records of one file look alike. The value of the last one is kept, and while nobody else holds it, the next record only
//! replaces what is in it: keys, maps and most memory stay. Strings without escapes are spans of the slice.
//!
//! Whatever is out of the ordinary, right or wrong, is left to the parser of jaq.

use crate::json;
use bytes::Bytes;
use jaq_json::{Map, Num, Rc, Val};

/// Deepest nesting that is read here.
const DEPTH_MAX: usize = 64;

/// Most digits of an integer that is read here: it fits in 64 bits.
const DIGITS_MAX: usize = 18;

/// The last record, as a whole and as an object of some members.
#[derive(Debug, Default)]
pub(crate) struct Records {
    whole: Val,
    reduced: Val,
}

impl Records {
    /// The value of the line at a place of a slice without control characters but line feeds; none when it is out of the
    /// ordinary.
    pub(crate) fn read(&mut self, slice: &Bytes, start: usize, end: usize) -> Option<Val> {
        let mut cursor = Cursor { text: slice.get(..end)?, at: start, slice };
        cursor.fill(&mut self.whole, 0)?;
        (cursor.at == end).then(|| self.whole.clone())
    }

    /// An object of these keys, with the values that begin at these places of the slice and end before `end`; null where
    /// there is none.
    pub(crate) fn reduced(
        &mut self,
        slice: &Bytes,
        end: usize,
        keys: &[String],
        places: impl Iterator<Item = Option<usize>>,
    ) -> Option<Val> {
        if !matches!(&self.reduced, Val::Obj(members) if Rc::strong_count(members) == 1) {
            let member = |key: &String| (Val::utf8_str(key.clone()), Val::Null);
            self.reduced = Val::Obj(Rc::new(keys.iter().map(member).collect()));
        }
        let Val::Obj(members) = &mut self.reduced else { return None };
        let mut cursor = Cursor { text: slice.get(..end)?, at: 0, slice };
        for ((_, value), place) in Rc::get_mut(members)?.iter_mut().zip(places) {
            match place {
                Some(at) => {
                    cursor.at = at;
                    cursor.fill(value, 1)?;
                }
                None => *value = Val::Null,
            }
        }
        Some(self.reduced.clone())
    }
}

/// A place in the slice. The lines are compact JSON: white space between tokens is out of the ordinary.
struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
    slice: &'a Bytes,
}

impl Cursor<'_> {
    #[inline(always)]
    fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or_default()
    }

    /// Goes past a byte, if it is this one.
    #[inline(always)]
    fn take(&mut self, byte: u8) -> bool {
        let taken = self.peek() == byte;
        self.at += usize::from(taken);
        taken
    }

    /// Reads a value into the place of another.
    fn fill(&mut self, value: &mut Val, depth: usize) -> Option<()> {
        match self.peek() {
            b'"' => self.string(value),
            b'{' if depth < DEPTH_MAX => self.object(value, depth + 1),
            b'[' if depth < DEPTH_MAX => self.array(value, depth + 1),
            b't' => self.word(b"true", value, Val::Bool(true)),
            b'f' => self.word(b"false", value, Val::Bool(false)),
            b'n' => self.word(b"null", value, Val::Null),
            b'-' | b'0'..=b'9' => self.number(value),
            _ => None,
        }
    }

    fn word(&mut self, word: &[u8], value: &mut Val, meaning: Val) -> Option<()> {
        let end = self.at + word.len();
        if self.text.get(self.at..end)? != word {
            return None;
        }
        self.at = end;
        *value = meaning;
        Some(())
    }

    /// The inside of a string without escapes, and goes past it.
    #[inline(always)]
    fn plain(&mut self) -> Option<(usize, usize)> {
        let string = json::string(self.text, self.at).ok()?;
        let start = self.at + 1;
        self.at = string.end;
        (!string.has_escapes).then_some((start, string.end - 1))
    }

    #[inline(always)]
    fn string(&mut self, value: &mut Val) -> Option<()> {
        let string = json::string(self.text, self.at).ok()?;
        let text = if string.has_escapes {
            Bytes::from(simply_unescaped(string.bytes)?)
        } else {
            self.slice.slice(self.at + 1..string.end - 1)
        };
        self.at = string.end;
        match value {
            Val::TStr(old) => **old = text,
            other => *other = Val::TStr(Box::new(text)),
        }
        Some(())
    }

    fn array(&mut self, value: &mut Val, depth: usize) -> Option<()> {
        self.at += 1;
        if !matches!(value, Val::Arr(items) if Rc::strong_count(items) == 1) {
            *value = Val::Arr(Rc::new(Vec::new()));
        }
        let Val::Arr(items) = value else { return None };
        let items = Rc::get_mut(items)?;
        let mut count = 0;
        if !self.take(b']') {
            loop {
                if count == items.len() {
                    items.push(Val::Null);
                }
                self.fill(items.get_mut(count)?, depth)?;
                count += 1;
                if self.take(b']') {
                    break;
                }
                if !self.take(b',') {
                    return None;
                }
            }
        }
        items.truncate(count);
        Some(())
    }

    fn object(&mut self, value: &mut Val, depth: usize) -> Option<()> {
        self.at += 1;
        if !matches!(value, Val::Obj(members) if Rc::strong_count(members) == 1) {
            *value = Val::Obj(Rc::new(Map::default()));
        }
        let Val::Obj(members) = value else { return None };
        let members = Rc::get_mut(members)?;
        let mut count = 0;
        if !self.take(b'}') {
            loop {
                if self.peek() != b'"' {
                    return None;
                }
                let (start, end) = self.plain()?;
                if !self.take(b':') {
                    return None;
                }
                self.member(members, count, start, end, depth)?;
                count += 1;
                if self.take(b'}') {
                    break;
                }
                if !self.take(b',') {
                    return None;
                }
            }
        }
        members.truncate(count);
        Some(())
    }

    /// Reads the value of the member at this place: usually that of the key which was here in the last record.
    #[inline(always)]
    fn member(&mut self, members: &mut Map, index: usize, start: usize, end: usize, depth: usize) -> Option<()> {
        let key = self.text.get(start..end)?;
        if let Some((Val::TStr(last), value)) = members.get_index_mut(index)
            && last.as_ref().as_ref() == key
        {
            return self.fill(value, depth);
        }
        members.truncate(index);
        let key = Val::TStr(Box::new(Bytes::copy_from_slice(key)));
        let mut value = Val::Null;
        self.fill(&mut value, depth)?;
        // A key that comes twice is out of the ordinary.
        members.insert(key, value).is_none().then_some(())
    }

    fn number(&mut self, value: &mut Val) -> Option<()> {
        let start = self.at;
        let is_negative = self.take(b'-');
        let digits = self.digits()?;
        if digits.len() > 1 && digits.first() == Some(&b'0') {
            return None;
        }
        let is_short = digits.len() <= DIGITS_MAX;
        let amount = digits.iter().fold(0_i64, |sum, digit| sum.wrapping_mul(10).wrapping_add(i64::from(digit - b'0')));
        let mut is_integer = true;
        if self.take(b'.') {
            is_integer = false;
            self.digits()?;
        }
        if self.peek() | 0x20 == b'e' {
            is_integer = false;
            self.at += 1;
            if matches!(self.peek(), b'+' | b'-') {
                self.at += 1;
            }
            self.digits()?;
        }
        if is_integer {
            let amount = is_short.then_some(if is_negative { -amount } else { amount })?;
            *value = Val::Num(Num::from_integral(amount));
            return Some(());
        }
        let text = std::str::from_utf8(self.text.get(start..self.at)?).ok()?;
        match value {
            Val::Num(Num::Dec(last)) if Rc::strong_count(last) == 1 => {
                let last = Rc::get_mut(last)?;
                last.clear();
                last.push_str(text);
            }
            other => *other = Val::Num(Num::Dec(Rc::new(text.to_owned()))),
        }
        Some(())
    }

    /// One digit or more.
    #[inline(always)]
    fn digits(&mut self) -> Option<&[u8]> {
        let rest = self.text.get(self.at..)?;
        let count = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
        self.at += count;
        rest.get(..count).filter(|digits| !digits.is_empty())
    }
}

/// A string with its escapes replaced, where none of them is a code unit.
fn simply_unescaped(raw: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.iter().position(|&byte| byte == b'\\') {
        text.extend_from_slice(rest.get(..at)?);
        text.push(match rest.get(at + 1)? {
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            same @ (b'"' | b'\\' | b'/') => *same,
            _ => return None,
        });
        rest = rest.get(at + 2..)?;
    }
    text.extend_from_slice(rest);
    Some(text)
}

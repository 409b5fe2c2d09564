//! Reads records as jq values, each in place of the previous one.
//!
//! Records of one file are alike. The value of the last one is kept, and while nothing else holds it, the next record
//! only replaces its contents: keys, maps and most memory are reused. Strings without escapes are spans of the slice.
//!
//! Anything unusual, valid or not, is left to the parser of jaq.

use bytes::Bytes;
use jaq_json::{Map, Num, Rc, Val};
use lro_json::{unescaped, walk};

/// Deepest nesting read here.
const DEPTH_MAX: usize = 64;

/// Most digits of an integer read here, which fits in 64 bits.
const DIGITS_MAX: usize = 18;

/// The last record, as a whole and as an object of some members.
#[derive(Debug, Default)]
pub(crate) struct Records {
    whole: Val,
    reduced: Val,
}

impl Records {
    /// The value of a line of a slice, which has no control characters except line feeds; `None` when the line is
    /// unusual.
    pub(crate) fn read(&mut self, slice: &Bytes, start: usize, end: usize) -> Option<Val> {
        let mut cursor = Cursor { text: slice.get(..end)?, at: start, slice };
        cursor.fill(&mut self.whole, 0)?;
        (cursor.at == end).then(|| self.whole.clone())
    }

    /// An object of these keys, with the values at these indices of the slice, which end before `end`; null for a
    /// missing one.
    pub(crate) fn reduced(
        &mut self,
        slice: &Bytes,
        end: usize,
        keys: &[String],
        starts: impl Iterator<Item = Option<usize>>,
    ) -> Option<Val> {
        if !matches!(&self.reduced, Val::Obj(members) if Rc::strong_count(members) == 1) {
            let member = |key: &String| (Val::utf8_str(key.clone()), Val::Null);
            self.reduced = Val::Obj(Rc::new(keys.iter().map(member).collect()));
        }
        let Val::Obj(members) = &mut self.reduced else { return None };
        let mut cursor = Cursor { text: slice.get(..end)?, at: 0, slice };
        for ((_, value), start) in Rc::get_mut(members)?.iter_mut().zip(starts) {
            match start {
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

/// A position in the slice. The lines are compact JSON: white space between tokens is unusual.
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

    /// Skips a byte, if it is this one.
    #[inline(always)]
    fn take(&mut self, byte: u8) -> bool {
        let taken = self.peek() == byte;
        self.at += usize::from(taken);
        taken
    }

    /// Reads a value and overwrites another with it.
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

    /// Reads a string without escapes; returns the span of its inside.
    #[inline(always)]
    fn plain(&mut self) -> Option<(usize, usize)> {
        let string = walk::string(self.text, self.at).ok()?;
        let start = self.at + 1;
        self.at = string.end;
        (!string.has_escapes).then_some((start, string.end - 1))
    }

    #[inline(always)]
    fn string(&mut self, value: &mut Val) -> Option<()> {
        let string = walk::string(self.text, self.at).ok()?;
        let text = if string.has_escapes {
            Bytes::from(unescaped(string.bytes).ok()?)
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

    /// Reads the value of the member at this index, which usually has the same key as in the last record.
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
        // A duplicate key is unusual.
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

    /// Reads one or more digits.
    #[inline(always)]
    fn digits(&mut self) -> Option<&[u8]> {
        let rest = self.text.get(self.at..)?;
        let count = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
        self.at += count;
        rest.get(..count).filter(|digits| !digits.is_empty())
    }
}

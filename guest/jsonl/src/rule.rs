//! The estimate of tokens, character by character, as `size-unit` of the contract defines it. The file needs nothing else: a
//! policy may copy it. Costs are in hundredths of a token.

pub(super) const PIECE: u64 = 115;
pub(super) const PIECE_T: u64 = 30;
pub(super) const AFTER_T: u64 = PIECE - PIECE_T;
pub(super) const LONG: u64 = 30;
pub(super) const LONGER: u64 = 30;
pub(super) const CAPITALS: u64 = 108;
pub(super) const VOWEL: u64 = 112;
pub(super) const DIGITS: u64 = 114;
pub(super) const DIGITS_AFTER_SPACE: u64 = 85;
pub(super) const SIGN: u64 = 79;
pub(super) const OTHER_SIGN: u64 = 11;
pub(super) const SAME_SIGN: u64 = 16;
pub(super) const BREAK: u64 = 110;
pub(super) const FURTHER_BREAK: u64 = 6;
pub(super) const TAB: u64 = 42;
pub(super) const FURTHER_SPACE: u64 = 1;

/// A character beyond ASCII, from the code point on.
const BEYOND_ASCII: [(u32, u64); 35] = [
    (0x80, 217),
    (0x100, 263),
    (0x300, 50),
    (0x370, 133),
    (0x400, 58),
    (0x450, 283),
    (0x530, 215),
    (0x590, 107),
    (0x600, 110),
    (0x900, 134),
    (0x980, 217),
    (0xA00, 318),
    (0xB00, 217),
    (0xE00, 180),
    (0xE80, 304),
    (0x1000, 101),
    (0x10A0, 137),
    (0x1100, 101),
    (0x1200, 302),
    (0x1E00, 287),
    (0x1F00, 133),
    (0x2000, 120),
    (0x2070, 172),
    (0x2500, 180),
    (0x25A0, 172),
    (0x3000, 90),
    (0x3040, 104),
    (0x3100, 101),
    (0xA000, 250),
    (0xAC00, 143),
    (0xD7A4, 250),
    (0xF900, 101),
    (0xFB00, 250),
    (0xFE00, 90),
    (0x1_0000, 241),
];

pub(super) const POSITION_MAX: u32 = 16;
pub(super) const CAPITALS_MAX: u32 = 2;

/// What the cost of the next character depends on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct State {
    pub(super) class: Class,
    /// The last character if it was ASCII.
    pub(super) last: u8,
    /// Letters of the piece before the last letter, at most 16.
    pub(super) position: u32,
    /// Digits of the run so far, modulo 3.
    pub(super) digits: u32,
    /// Capitals of the run so far, at most 2.
    pub(super) capitals: u32,
}

/// Class of the last character.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Class {
    #[default]
    Other,
    Letter,
    Digit,
    Sign,
    Break,
    Tab,
    Space,
}

impl Class {
    pub(super) fn of(character: char) -> Self {
        match character {
            'A'..='Z' | 'a'..='z' | '\u{80}'..='\u{2FF}' | '\u{1E00}'..='\u{1EFF}' => Self::Letter,
            '0'..='9' => Self::Digit,
            ' ' => Self::Space,
            '\t' => Self::Tab,
            '\r' | '\n' => Self::Break,
            '\0'..='\x7F' => Self::Sign,
            _ => Self::Other,
        }
    }
}

impl State {
    /// Whether the last character is a `t` that begins a piece.
    pub(super) fn is_t(&self) -> bool {
        self.class == Class::Letter && self.position == 0 && self.last | 0x20 == b't'
    }

    /// Whether the last character is a vowel that costs when no letter follows.
    pub(super) fn is_open(&self) -> bool {
        self.class == Class::Letter && self.position >= 3 && is_vowel(self.last)
    }

    /// Hundredths of a token of the next character.
    pub(crate) fn next(&mut self, character: char) -> u64 {
        let (class, before) = (Class::of(character), *self);
        let is_first = class != before.class;
        let mut cost = if class != Class::Letter && before.is_open() { VOWEL } else { 0 };
        let last = u8::try_from(character).ok().filter(u8::is_ascii).unwrap_or_default();
        let is_capital = character.is_ascii_uppercase();
        *self = Self { class, last, ..Self::default() };
        cost += match class {
            Class::Letter => {
                if is_capital {
                    self.capitals = (before.capitals + 1).min(CAPITALS_MAX);
                }
                let is_t = last | 0x20 == b't';
                let second = if self.capitals == 2 && before.capitals == 1 { CAPITALS } else { 0 };
                second
                    + if is_first || is_capital && before.capitals == 0 {
                        if is_t { PIECE_T } else { PIECE }
                    } else {
                        self.position = (before.position + 1).min(POSITION_MAX);
                        let after_t = if before.is_t() && last | 0x20 != b'h' { AFTER_T } else { 0 };
                        after_t
                            + match before.position + 1 {
                                ..8 => 0,
                                8..16 => LONG,
                                _ if character.is_ascii() && last == before.last => LONG,
                                _ => LONG + LONGER,
                            }
                    }
            }
            Class::Digit => {
                let digits = if is_first { 0 } else { before.digits };
                self.digits = (digits + 1) % 3;
                let after_space = if before.class == Class::Space { DIGITS_AFTER_SPACE } else { 0 };
                after_space + if digits == 0 { DIGITS } else { 0 }
            }
            Class::Sign if is_first => SIGN,
            Class::Sign => {
                if last == before.last {
                    SAME_SIGN
                } else {
                    OTHER_SIGN
                }
            }
            Class::Break => {
                if is_first {
                    BREAK
                } else {
                    FURTHER_BREAK
                }
            }
            Class::Tab => TAB,
            Class::Space => {
                if is_first {
                    0
                } else {
                    FURTHER_SPACE
                }
            }
            Class::Other => 0,
        };
        cost + if character.is_ascii() { 0 } else { beyond_ascii(character) }
    }
}

fn is_vowel(letter: u8) -> bool {
    matches!(letter | 0x20, b'a' | b'i' | b'o' | b'u')
}

fn beyond_ascii(character: char) -> u64 {
    let after = BEYOND_ASCII.partition_point(|(first, _)| *first <= u32::from(character));
    after.checked_sub(1).and_then(|index| BEYOND_ASCII.get(index)).map_or(0, |(_, cost)| *cost)
}

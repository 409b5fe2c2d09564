//! Time and level of a line of a log.

use super::time::{Layout, Spelling, Time};

/// Bytes of a line in which its time is looked for.
const TIME_BYTES: usize = 64;

/// Bytes of a line in which its level is looked for.
const LEVEL_BYTES: usize = 160;

/// Spellings of times: `d` is a digit, `s` a digit or a space, `A` a letter, `T` a `T` or a space. Longer ones first.
const TIMES: [(&[u8], Spelling); 6] = [
    (b"dddd-dd-ddTdd:dd:dd", Spelling::Dashes),
    (b"dddd/dd/ddTdd:dd:dd", Spelling::Slashes),
    (b"dd/AAA/dddd:dd:dd:dd", Spelling::Month),
    (b"AAA sd dd:dd:dd", Spelling::WithoutYear),
    (b"dddd.dd.ddTdd:dd:dd", Spelling::Points),
    (b"dd:dd:dd", Spelling::Clock),
];

/// How bad what a line says is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Fatal,
    Error,
    Warning,
    Notice,
    Info,
    Debug,
    Trace,
}

impl Level {
    pub(crate) const ALL: [Self; 7] =
        [Self::Fatal, Self::Error, Self::Warning, Self::Notice, Self::Info, Self::Debug, Self::Trace];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fatal => "FATAL",
            Self::Error => "ERROR",
            Self::Warning => "WARNING",
            Self::Notice => "NOTICE",
            Self::Info => "INFO",
            Self::Debug => "DEBUG",
            Self::Trace => "TRACE",
        }
    }

    fn of(word: &[u8]) -> Option<Self> {
        let is = |names: &[&str]| names.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()));
        match word.len() {
            4 if is(&["info"]) => Some(Self::Info),
            4 if is(&["warn"]) => Some(Self::Warning),
            5 if is(&["error"]) => Some(Self::Error),
            5 if is(&["debug"]) => Some(Self::Debug),
            5 if is(&["trace"]) => Some(Self::Trace),
            5 if is(&["fatal", "panic", "emerg", "alert"]) => Some(Self::Fatal),
            6 if is(&["notice"]) => Some(Self::Notice),
            6 if is(&["severe"]) => Some(Self::Error),
            7 if is(&["warning"]) => Some(Self::Warning),
            8 if is(&["critical"]) => Some(Self::Fatal),
            _ => None,
        }
    }
}

/// What a line of a log begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp<'a> {
    pub(crate) time: Option<Time<'a>>,
    /// And how the line spells it.
    pub(crate) level: Option<(Level, &'a [u8])>,
}

/// Reads time and level.
pub(crate) fn stamp(line: &[u8]) -> Stamp<'_> {
    Stamp { time: time(line), level: level(line) }
}

fn time(line: &[u8]) -> Option<Time<'_>> {
    let last = line.len().min(TIME_BYTES);
    let starts = (0..last).filter(|&at| at == 0 || !is_word(line.get(at - 1)));
    starts.into_iter().find_map(|at| {
        let rest = line.get(at..)?;
        // Nothing else begins a time.
        if !rest.first()?.is_ascii_digit() && rest.get(3) != Some(&b' ') {
            return None;
        }
        let &(like, spelling) = TIMES.iter().find(|(like, _)| is_like(rest, like))?;
        let local = like.len() + fraction_length(rest.get(like.len()..)?);
        let text = rest.get(..local + zone_length(rest.get(local..)?))?;
        Some(Time { text, layout: Layout { spelling, local } })
    })
}

fn is_like(text: &[u8], time: &[u8]) -> bool {
    text.len() >= time.len()
        && text.iter().zip(time).all(|(byte, like)| match like {
            b'd' => byte.is_ascii_digit(),
            b's' => byte.is_ascii_digit() || *byte == b' ',
            b'A' => byte.is_ascii_alphabetic(),
            b'T' => matches!(byte, b'T' | b' ' | b't' | b'_'),
            other => byte == other,
        })
}

/// Bytes of `.123`, `,123`.
fn fraction_length(rest: &[u8]) -> usize {
    match rest {
        [b'.' | b',', fraction @ ..] if digits(fraction) > 0 => 1 + digits(fraction),
        _ => 0,
    }
}

/// Bytes of `Z`, `+01:00`, ` +0100`.
fn zone_length(rest: &[u8]) -> usize {
    let space = usize::from(rest.first() == Some(&b' '));
    match rest.get(space..).unwrap_or_default() {
        [b'Z', ..] if space == 0 => 1,
        [b'+' | b'-', zone @ ..] if digits(zone) == 4 => space + 5,
        [b'+' | b'-', zone @ ..] if is_like(zone, b"dd:dd") => space + 6,
        _ => 0,
    }
}

fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// The first word that is a level: in capitals, or set off as in `[info]`, `level=info`, `info:`.
fn level(line: &[u8]) -> Option<(Level, &[u8])> {
    let line = line.get(..line.len().min(LEVEL_BYTES)).unwrap_or_default();
    let mut at = 0;
    while at < line.len() {
        let length = line.get(at..).unwrap_or_default().iter().take_while(|byte| is_word(Some(byte))).count();
        if length == 0 {
            at += 1;
            continue;
        }
        let word = line.get(at..at + length).unwrap_or_default();
        let set_off = || {
            let before = at.checked_sub(1).and_then(|before| line.get(before));
            match line.get(at + length) {
                Some(b':') => true,
                Some(b']' | b'>' | b'"' | b')' | b'|' | b' ' | b',') | None => {
                    matches!(before, Some(b'[' | b'<' | b'=' | b'"' | b'(' | b'|'))
                }
                Some(_) => false,
            }
        };
        if let Some(level) = Level::of(word)
            && (word.iter().all(u8::is_ascii_uppercase) || set_off())
        {
            return Some((level, word));
        }
        at += length;
    }
    None
}

fn is_word(byte: Option<&u8>) -> bool {
    byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

//! Bytes in a text: base64, alone or in a `data:` URL.
//!
//! Only what can be written again from the bytes is recognized: the standard alphabet, padded, without line breaks, and no
//! bits beyond the last byte.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Shortest base64, in characters, that is recognized: 1 KiB.
pub const ENCODED_CHARACTERS_MIN: usize = 1024;

/// Longest beginning of a `data:` URL, in bytes: media type and parameters.
const PREFIX_BYTES_MAX: usize = 128;

/// Characters that encode whole bytes, and how many bytes.
const CHARACTERS: usize = 4;
const BYTES: usize = 3;

/// Bytes that a text encodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// What stands before the base64: nothing, or `data:image/png;base64,`.
    pub prefix: String,
    /// The media type in the prefix.
    pub media_type: Option<String>,
    /// The first bytes.
    pub beginning: Vec<u8>,
}

/// The bytes that a text encodes from its beginning to its end, as far as the beginning shows; `complete` when `head` is the
/// whole text. `None` for any other text, and when in doubt: base64 without a prefix has capital and small letters and digits.
#[must_use]
pub fn encoded(head: &str, complete: bool) -> Option<Encoded> {
    let (prefix, media_type) = match head.get(..5) {
        Some(scheme) if scheme.eq_ignore_ascii_case("data:") => data_url(head)?,
        _ => ("", None),
    };
    let base64 = head.get(prefix.len()..)?;
    let has = |of: fn(&u8) -> bool| base64.bytes().any(|byte| of(&byte));
    let is_mixed = has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_digit);
    if base64.len() < ENCODED_CHARACTERS_MIN || prefix.is_empty() && !is_mixed {
        return None;
    }
    let (mut decoder, mut beginning) = (Decoder::default(), Vec::new());
    decoder.push(base64, &mut beginning).ok()?;
    if complete {
        decoder.finish(&mut beginning).ok()?;
    }
    Some(Encoded { prefix: prefix.to_owned(), media_type, beginning })
}

/// The prefix of a `data:` URL with base64, and its media type without parameters.
fn data_url(head: &str) -> Option<(&str, Option<String>)> {
    let (prefix, _) = head.split_at(head.bytes().take(PREFIX_BYTES_MAX).position(|byte| byte == b',')? + 1);
    let named = prefix.get(5..)?.strip_suffix(";base64,")?;
    let media_type = named.split(';').next().filter(|media_type| media_type.contains('/'));
    let is_plain = named.bytes().all(|byte| byte.is_ascii_graphic());
    is_plain.then(|| (prefix, media_type.map(str::to_ascii_lowercase)))
}

/// A text is not the base64 of any bytes, or not the one that is written of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not base64 as it is written of bytes")]
pub struct NotBase64;

/// Decodes base64 that is given in slices, cut anywhere.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    /// Fewer characters than encode whole bytes twice: the last ones, which may be padded.
    waiting: String,
}

impl Decoder {
    /// Reads the next characters and appends the bytes that are known.
    ///
    /// # Errors
    ///
    /// [`NotBase64`]; the decoder must not be used after it.
    pub fn push(&mut self, base64: &str, bytes: &mut Vec<u8>) -> Result<(), NotBase64> {
        self.waiting.push_str(base64);
        let groups = (self.waiting.len() / CHARACTERS).saturating_sub(1);
        let known = self.waiting.get(..groups * CHARACTERS).ok_or(NotBase64)?;
        let before = bytes.len();
        STANDARD.decode_vec(known, bytes).map_err(|_| NotBase64)?;
        // Padding stands at the end alone.
        if bytes.len() - before != groups * BYTES {
            return Err(NotBase64);
        }
        self.waiting.drain(..groups * CHARACTERS);
        Ok(())
    }

    /// Ends the text.
    ///
    /// # Errors
    ///
    /// As for [`Decoder::push`].
    pub fn finish(self, bytes: &mut Vec<u8>) -> Result<(), NotBase64> {
        STANDARD.decode_vec(&self.waiting, bytes).map_err(|_| NotBase64)
    }
}

//! Images and sounds: which of them stay in the reply, and what they cost a model.

use crate::bindings::lro::filter::types::{ImageMode, SizeUnit};
use crate::inspect::{BASE64_CHARACTERS, BASE64_TOKENS, wire_bytes};
use crate::{Call, Part, PartKind, PolicyError, Source};

/// Most tokens that an image costs, and the estimate for one of unknown size and for a sound.
///
/// A model that reads images scales a larger one down to about this many tokens. The figures are those of Anthropic's
/// documentation ("Vision", section "Calculate image costs"): `width px * height px / 750` tokens, about 1,600 at most.
pub(crate) const TOKENS_MAX: u64 = 1_600;

/// Pixels of an image that cost a token.
const PIXELS_A_TOKEN: u64 = 750;

/// Whether images and sounds may stay in the reply.
pub(crate) fn stay(call: &Call) -> bool {
    call.settings.images == ImageMode::Keep
}

/// Whether a part is an image or a sound.
pub(crate) fn is_image(part: &Part) -> bool {
    let begins = |prefix: &str| {
        let beginning = part.media_type.as_deref().and_then(|media_type| media_type.get(..prefix.len()));
        beginning.is_some_and(|beginning| beginning.eq_ignore_ascii_case(prefix))
    };
    part.kind == PartKind::Binary && (begins("image/") || begins("audio/"))
}

/// Whether some images or sounds are beyond the bounds of those that stay.
pub(crate) fn exceed(call: &Call, parts: &[Part]) -> bool {
    let mut bounds = Bounds::new(call);
    stay(call) && parts.iter().any(|part| is_image(part) && !bounds.take(part))
}

/// What is left of the bounds for images and sounds that stay in the reply.
pub(crate) struct Bounds {
    number: u32,
    /// Decoded.
    bytes: u64,
    /// In the reply, as base64.
    wire_bytes: u64,
}

impl Bounds {
    pub(crate) fn new(call: &Call) -> Self {
        let settings = &call.settings;
        let wire_bytes = call.reader.limit.map_or(u64::MAX, |limit| {
            let bytes = match limit.unit {
                SizeUnit::Bytes | SizeUnit::Characters => limit.amount,
                SizeUnit::Tokens => limit.amount.saturating_mul(BASE64_CHARACTERS) / BASE64_TOKENS,
            };
            // The descriptor stands in the reply too, once as text and once as structured content.
            bytes - (2 * u64::from(settings.descriptor_limit)).min(bytes / 2)
        });
        match stay(call) {
            true => Self { number: settings.images_max, bytes: settings.images_bytes, wire_bytes },
            false => Self { number: 0, bytes: 0, wire_bytes: 0 },
        }
    }

    /// Counts an image that stays; false, and nothing counted, for one that does not fit.
    pub(crate) fn take(&mut self, part: &Part) -> bool {
        let left = (
            self.number.checked_sub(1),
            self.bytes.checked_sub(part.size),
            self.wire_bytes.checked_sub(wire_bytes(part)),
        );
        let (Some(number), Some(bytes), Some(wire_bytes), true) = (left.0, left.1, left.2, part.complete) else {
            return false;
        };
        *self = Self { number, bytes, wire_bytes };
        true
    }
}

/// Estimated tokens of an image, at most [`TOKENS_MAX`], which is also the estimate for a sound.
pub(crate) fn tokens(source: &impl Source, index: u32, part: &Part) -> Result<u64, PolicyError> {
    let is_sound = part.media_type.as_deref().is_some_and(|media_type| !media_type.starts_with(['i', 'I']));
    let size = if is_sound { None } else { pixels(&source.read_bytes(index, 0)?) };
    Ok(size.map_or(TOKENS_MAX, |(width, height)| {
        (u64::from(width) * u64::from(height)).div_ceil(PIXELS_A_TOKEN).clamp(1, TOKENS_MAX)
    }))
}

/// Width and height that the beginning of an image gives: PNG, GIF, JPEG or WebP.
fn pixels(bytes: &[u8]) -> Option<(u32, u32)> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some((big(bytes, 16, 4)?, big(bytes, 20, 4)?)),
        [b'G', b'I', b'F', b'8', ..] => Some((little(bytes, 6, 2)?, little(bytes, 8, 2)?)),
        [0xFF, 0xD8, ..] => jpeg(bytes),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => webp(bytes),
        _ => None,
    }
}

/// The size in the first frame header. Segments before it have a length, and are skipped.
fn jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        let marker = *bytes.get(at + 1).filter(|_| bytes.get(at) == Some(&0xFF))?;
        match marker {
            // Start of frame, but for the three markers of this range that are none.
            0xC0..=0xCF if !matches!(marker, 0xC4 | 0xC8 | 0xCC) => {
                return Some((big(bytes, at + 7, 2)?, big(bytes, at + 5, 2)?));
            }
            0xFF => at += 1,
            _ => at += 2 + big(bytes, at + 2, 2)? as usize,
        }
    }
}

/// The size in the first chunk: lossy, lossless or extended.
fn webp(bytes: &[u8]) -> Option<(u32, u32)> {
    const DIMENSION: u32 = 0x3FFF;
    match bytes.get(12..16)? {
        b"VP8 " => Some((little(bytes, 26, 2)? & DIMENSION, little(bytes, 28, 2)? & DIMENSION)),
        b"VP8L" => {
            let bits = little(bytes, 21, 4)?;
            Some(((bits & DIMENSION) + 1, (bits >> 14 & DIMENSION) + 1))
        }
        b"VP8X" => Some((little(bytes, 24, 3)? + 1, little(bytes, 27, 3)? + 1)),
        _ => None,
    }
}

/// An unsigned number of up to four bytes, the most significant first.
fn big(bytes: &[u8], at: usize, length: usize) -> Option<u32> {
    Some(bytes.get(at..at + length)?.iter().fold(0, |number, &byte| number << 8 | u32::from(byte)))
}

/// An unsigned number of up to four bytes, the least significant first.
pub(crate) fn little(bytes: &[u8], at: usize, length: usize) -> Option<u32> {
    Some(bytes.get(at..at + length)?.iter().rev().fold(0, |number, &byte| number << 8 | u32::from(byte)))
}

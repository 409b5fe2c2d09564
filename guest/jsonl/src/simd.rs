//! Turns 64 bytes into bit masks, one bit per byte: the only file with intrinsics.

#![allow(unsafe_code, reason = "vectors are loaded through pointers")]

/// The positions of each class of bytes in a block of 64; bit 0 is the first byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Masks {
    /// `"`.
    pub(crate) quote: u64,
    /// `\`.
    pub(crate) backslash: u64,
    /// `{` and `[`.
    pub(crate) open: u64,
    /// `}` and `]`.
    pub(crate) close: u64,
    /// `,`.
    pub(crate) comma: u64,
    /// `:`.
    pub(crate) colon: u64,
    /// Bytes up to 0x20: white space and control characters.
    pub(crate) low: u64,
    /// Whether the block has a byte below 0x20.
    pub(crate) control: bool,
}

/// Bytes in a block.
pub(crate) const BLOCK: usize = 64;

/// Classifies up to 64 bytes; missing ones count as spaces.
pub(crate) fn classify_chunk(chunk: &[u8]) -> Masks {
    if let Ok(block) = <&[u8; BLOCK]>::try_from(chunk) {
        return classify(block);
    }
    let mut block = [b' '; BLOCK];
    for (to, from) in block.iter_mut().zip(chunk) {
        *to = *from;
    }
    classify(&block)
}

/// Marks the bytes that a backslash escapes, given the mask of the backslashes; bit 0 is the first byte. `carry` says
/// whether the first byte is escaped.
#[inline(always)]
#[must_use]
pub fn escaped(mut backslash: u64, carry: bool) -> u64 {
    let mut escaped = u64::from(carry);
    backslash &= !escaped;
    while backslash != 0 {
        let lowest = backslash & backslash.wrapping_neg();
        escaped |= lowest << 1;
        backslash &= !(lowest | lowest << 1);
    }
    escaped
}

/// Each bit becomes the exclusive or of itself and all lower ones, which turns quotes into the insides of strings.
#[inline(always)]
#[must_use]
pub fn prefix_xor(mut mask: u64) -> u64 {
    mask ^= mask << 1;
    mask ^= mask << 2;
    mask ^= mask << 4;
    mask ^= mask << 8;
    mask ^= mask << 16;
    mask ^ mask << 32
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn classify(block: &[u8; BLOCK]) -> Masks {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
    };
    let mut masks = Masks::default();
    // SAFETY: SSE2 is part of x86_64, and each unaligned load reads 16 bytes of the 64 from offset 0, 16, 32 or 48.
    unsafe {
        let mut least = _mm_set1_epi8(-1);
        for quarter in 0..4 {
            let bytes = _mm_loadu_si128(block.as_ptr().add(quarter * 16).cast::<__m128i>());
            let bits = |vector| (_mm_movemask_epi8(vector) as u16 as u64) << (quarter * 16);
            let equal = |byte: u8| bits(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte as i8)));
            // `[` and `{`, `]` and `}` differ in this bit only.
            let braces = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
            let brace = |byte: u8| bits(_mm_cmpeq_epi8(braces, _mm_set1_epi8(byte as i8)));
            masks.quote |= equal(b'"');
            masks.backslash |= equal(b'\\');
            masks.open |= brace(b'{');
            masks.close |= brace(b'}');
            masks.comma |= equal(b',');
            masks.colon |= equal(b':');
            masks.low |= bits(_mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x20)), bytes));
            least = _mm_min_epu8(least, bytes);
        }
        masks.control = _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(least, _mm_set1_epi8(0x1F)), least)) != 0;
    }
    masks
}

#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
#[inline(always)]
pub(crate) fn classify(block: &[u8; BLOCK]) -> Masks {
    use std::arch::wasm32::{
        i8x16_bitmask, i8x16_eq, u8x16_le, u8x16_min, u8x16_splat, v128, v128_any_true, v128_load, v128_or,
    };
    let mut masks = Masks::default();
    let mut least = u8x16_splat(u8::MAX);
    for quarter in 0..4 {
        // SAFETY: the load needs no alignment and reads 16 bytes of the 64 from offset 0, 16, 32 or 48.
        let bytes = unsafe { v128_load(block.as_ptr().add(quarter * 16).cast::<v128>()) };
        let bits = |vector| u64::from(i8x16_bitmask(vector)) << (quarter * 16);
        let equal = |byte: u8| bits(i8x16_eq(bytes, u8x16_splat(byte)));
        // `[` and `{`, `]` and `}` differ in this bit only.
        let braces = v128_or(bytes, u8x16_splat(0x20));
        let brace = |byte: u8| bits(i8x16_eq(braces, u8x16_splat(byte)));
        masks.quote |= equal(b'"');
        masks.backslash |= equal(b'\\');
        masks.open |= brace(b'{');
        masks.close |= brace(b'}');
        masks.comma |= equal(b',');
        masks.colon |= equal(b':');
        masks.low |= bits(u8x16_le(bytes, u8x16_splat(0x20)));
        least = u8x16_min(least, bytes);
    }
    masks.control = v128_any_true(u8x16_le(least, u8x16_splat(0x1F)));
    masks
}

#[cfg(not(any(target_arch = "x86_64", all(target_arch = "wasm32", target_feature = "simd128"))))]
pub(crate) fn classify(block: &[u8; BLOCK]) -> Masks {
    classify_portable(block)
}

/// [`classify`] byte by byte: for other processors, and the reference of the tests.
#[cfg(any(test, not(any(target_arch = "x86_64", all(target_arch = "wasm32", target_feature = "simd128")))))]
fn classify_portable(block: &[u8; BLOCK]) -> Masks {
    let mut masks = Masks::default();
    for (bit, &byte) in block.iter().enumerate() {
        let set = |condition: bool| u64::from(condition) << bit;
        masks.quote |= set(byte == b'"');
        masks.backslash |= set(byte == b'\\');
        masks.open |= set(byte | 0x20 == b'{');
        masks.close |= set(byte | 0x20 == b'}');
        masks.comma |= set(byte == b',');
        masks.colon |= set(byte == b':');
        masks.low |= set(byte <= 0x20);
        masks.control |= byte < 0x20;
    }
    masks
}

/// Index of the first byte from `at` on that is not a digit; the length of `text` if all are digits.
#[inline(always)]
pub(crate) fn skip_digits(text: &[u8], mut at: usize) -> usize {
    while let Some(chunk) = text.get(at..).and_then(|rest| rest.first_chunk::<16>()) {
        let count = digits(chunk).trailing_ones() as usize;
        at += count;
        if count < 16 {
            return at;
        }
    }
    skip_digits_at_end(text, at)
}

#[cold]
fn skip_digits_at_end(text: &[u8], at: usize) -> usize {
    let rest = &text[at..];
    at + rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len())
}

/// Marks the digits among 16 bytes.
#[inline(always)]
pub(crate) fn digits(chunk: &[u8; 16]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{
            __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_set1_epi8, _mm_sub_epi8,
        };
        // SAFETY: SSE2 is part of x86_64, and the unaligned load reads the 16 bytes of the chunk.
        unsafe {
            let bytes = _mm_loadu_si128(chunk.as_ptr().cast::<__m128i>());
            let values = _mm_sub_epi8(bytes, _mm_set1_epi8(b'0' as i8));
            _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(values, _mm_set1_epi8(9)), values)) as u32
        }
    }
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    {
        use std::arch::wasm32::{i8x16_bitmask, i8x16_sub, u8x16_le, u8x16_splat, v128, v128_load};
        // SAFETY: the load needs no alignment and reads the 16 bytes of the chunk.
        let bytes = unsafe { v128_load(chunk.as_ptr().cast::<v128>()) };
        u32::from(i8x16_bitmask(u8x16_le(i8x16_sub(bytes, u8x16_splat(b'0')), u8x16_splat(9))))
    }
    #[cfg(not(any(target_arch = "x86_64", all(target_arch = "wasm32", target_feature = "simd128"))))]
    {
        chunk.iter().rev().fold(0, |mask, byte| mask << 1 | u32::from(byte.is_ascii_digit()))
    }
}

/// Reads 16 bytes as a big-endian number. WebAssembly has no byte-swap instruction, so there it is a shuffle.
#[inline(always)]
pub(crate) fn big_endian(chunk: &[u8; 16]) -> u128 {
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    {
        use std::arch::wasm32::{i8x16_shuffle, u64x2_extract_lane, v128, v128_load};
        // SAFETY: the load needs no alignment and reads the 16 bytes of the chunk.
        let bytes = unsafe { v128_load(chunk.as_ptr().cast::<v128>()) };
        let turned = i8x16_shuffle::<15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0>(bytes, bytes);
        u128::from(u64x2_extract_lane::<1>(turned)) << 64 | u128::from(u64x2_extract_lane::<0>(turned))
    }
    #[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
    {
        u128::from_be_bytes(*chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_and_bytes_classify_alike() {
        for byte in 0..=u8::MAX {
            for index in 0..BLOCK {
                for around in [b'a', b' ', b'"', 0, 0xFF] {
                    let mut block = [around; BLOCK];
                    block[index] = byte;
                    assert_eq!(classify(&block), classify_portable(&block), "{byte} at {index} among {around}");
                }
            }
        }
    }
}

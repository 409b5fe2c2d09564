//! Turns bytes into bit masks, one bit per byte: the only file with intrinsics.

#![allow(unsafe_code, reason = "vectors are loaded through pointers")]

use lro_jsonl::{escaped, prefix_xor};

/// The positions of each class of bytes in a block of 64; bit 0 is the first byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Masks {
    /// `"`.
    pub(crate) quote: u64,
    /// `\`.
    pub(crate) backslash: u64,
    /// `:`.
    pub(crate) colon: u64,
    /// `{`, `[`, `}`, `]` and line feed.
    pub(crate) structure: u64,
}

/// Bytes in a block.
pub(crate) const BLOCK: usize = 64;

/// The block that begins at `start`; bytes beyond the end count as spaces.
#[inline(always)]
pub(crate) fn classify_at(text: &[u8], start: usize) -> Masks {
    let rest = text.get(start..).unwrap_or_default();
    match rest.first_chunk::<BLOCK>() {
        Some(block) => classify(block),
        None => classify_last(rest),
    }
}

#[cold]
fn classify_last(rest: &[u8]) -> Masks {
    let mut block = [b' '; BLOCK];
    if let Some(beginning) = block.get_mut(..rest.len()) {
        beginning.copy_from_slice(rest);
    }
    classify(&block)
}

/// The state of strings, carried from block to block.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Strings {
    /// All ones in a string.
    inside: u64,
    escaped: bool,
}

impl Strings {
    /// Marks the bytes of the next block that are inside strings: first quotes are, last ones are not.
    #[inline(always)]
    pub(crate) fn next(&mut self, masks: &Masks) -> u64 {
        let mut quote = masks.quote;
        if masks.backslash != 0 || self.escaped {
            let escaped = escaped(masks.backslash, self.escaped);
            self.escaped = (masks.backslash & !escaped) >> (BLOCK - 1) != 0;
            quote &= !escaped;
        }
        let inside = prefix_xor(quote) ^ self.inside;
        self.inside = 0_u64.wrapping_sub(inside >> (BLOCK - 1));
        inside
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn classify(block: &[u8; BLOCK]) -> Masks {
    use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8};
    let mut masks = Masks::default();
    for quarter in 0..4 {
        // SAFETY: SSE2 is part of x86_64, and the unaligned load reads 16 bytes of the 64 from offset 0, 16, 32 or 48.
        unsafe {
            let bytes = _mm_loadu_si128(block.as_ptr().add(quarter * 16).cast::<__m128i>());
            let bits = |vector| (_mm_movemask_epi8(vector) as u16 as u64) << (quarter * 16);
            let equal = |byte: u8| _mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte as i8));
            // `[` and `{`, `]` and `}` differ in this bit only.
            let braces = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
            let brace = |byte: u8| _mm_cmpeq_epi8(braces, _mm_set1_epi8(byte as i8));
            masks.quote |= bits(equal(b'"'));
            masks.backslash |= bits(equal(b'\\'));
            masks.colon |= bits(equal(b':'));
            let brackets = _mm_or_si128(brace(b'{'), brace(b'}'));
            masks.structure |= bits(_mm_or_si128(brackets, equal(b'\n')));
        }
    }
    masks
}

#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
#[inline(always)]
fn classify(block: &[u8; BLOCK]) -> Masks {
    use std::arch::wasm32::{i8x16_bitmask, i8x16_eq, u8x16_splat, v128, v128_load, v128_or};
    let mut masks = Masks::default();
    for quarter in 0..4 {
        // SAFETY: the load needs no alignment and reads 16 bytes of the 64 from offset 0, 16, 32 or 48.
        let bytes = unsafe { v128_load(block.as_ptr().add(quarter * 16).cast::<v128>()) };
        let bits = |vector| u64::from(i8x16_bitmask(vector)) << (quarter * 16);
        let equal = |byte: u8| i8x16_eq(bytes, u8x16_splat(byte));
        // `[` and `{`, `]` and `}` differ in this bit only.
        let braces = v128_or(bytes, u8x16_splat(0x20));
        let brace = |byte: u8| i8x16_eq(braces, u8x16_splat(byte));
        masks.quote |= bits(equal(b'"'));
        masks.backslash |= bits(equal(b'\\'));
        masks.colon |= bits(equal(b':'));
        masks.structure |= bits(v128_or(v128_or(brace(b'{'), brace(b'}')), equal(b'\n')));
    }
    masks
}

#[cfg(not(any(target_arch = "x86_64", all(target_arch = "wasm32", target_feature = "simd128"))))]
fn classify(block: &[u8; BLOCK]) -> Masks {
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
        masks.colon |= set(byte == b':');
        masks.structure |= set(byte == b'\n' || matches!(byte | 0x20, b'{' | b'}'));
    }
    masks
}

/// Index of the first byte from `at` on that is `one` or `other`.
#[inline(always)]
pub(crate) fn find_either(text: &[u8], mut at: usize, one: u8, other: u8) -> Option<usize> {
    while let Some(chunk) = text.get(at..).and_then(|rest| rest.first_chunk::<16>()) {
        let found = either(chunk, one, other);
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize);
        }
        at += 16;
    }
    let rest = text.get(at..)?;
    rest.iter().position(|&byte| byte == one || byte == other).map(|index| at + index)
}

/// Marks the bytes among 16 that are `one` or `other`.
#[inline(always)]
fn either(chunk: &[u8; 16], one: u8, other: u8) -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{
            __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
        };
        // SAFETY: SSE2 is part of x86_64, and the unaligned load reads the 16 bytes of the chunk.
        unsafe {
            let bytes = _mm_loadu_si128(chunk.as_ptr().cast::<__m128i>());
            let equal = |byte: u8| _mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte as i8));
            _mm_movemask_epi8(_mm_or_si128(equal(one), equal(other))) as u32
        }
    }
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    {
        use std::arch::wasm32::{i8x16_bitmask, i8x16_eq, u8x16_splat, v128, v128_load, v128_or};
        // SAFETY: the load needs no alignment and reads the 16 bytes of the chunk.
        let bytes = unsafe { v128_load(chunk.as_ptr().cast::<v128>()) };
        let equal = |byte: u8| i8x16_eq(bytes, u8x16_splat(byte));
        u32::from(i8x16_bitmask(v128_or(equal(one), equal(other))))
    }
    #[cfg(not(any(target_arch = "x86_64", all(target_arch = "wasm32", target_feature = "simd128"))))]
    {
        chunk.iter().rev().fold(0, |mask, &byte| mask << 1 | u32::from(byte == one || byte == other))
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

//! Finds literals in a text, 64 bytes at a time, also ignoring the case of ASCII letters: the only file with intrinsics.

#![allow(unsafe_code, reason = "vectors are loaded through pointers, and a function needs SSSE3")]

/// Bytes that one iteration looks at.
const STEP: usize = 64;

/// One literal, found by two of its bytes that are rare in texts.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    needle: Needle,
    probes: [Probe; 2],
}

/// A byte of a literal that is compared with 64 bytes of the text at once.
#[derive(Clone, Copy, Debug)]
struct Probe {
    offset: usize,
    byte: u8,
    /// Bits to set in the text before it is compared: 0x20 for a letter of either case.
    fold: u8,
}

/// Several literals, found by their first bytes, up to three of them.
#[derive(Clone, Debug)]
pub(crate) struct Many {
    needles: Vec<Needle>,
    /// For each of the first bytes, which buckets have a literal with these low and these high four bits.
    tables: [[[u8; 16]; 2]; FINGERPRINT_MAX],
    /// Bytes that all literals have at least, up to [`FINGERPRINT_MAX`].
    fingerprint: usize,
}

/// First bytes of literals that [`Many`] looks at.
const FINGERPRINT_MAX: usize = 3;

/// Sets of literals that [`Many`] tells apart, a bit each. Literal `n` is in bucket `n % 8`.
const BUCKETS: usize = 8;

/// A literal, with its ASCII letters in lower case if it ignores case.
#[derive(Clone, Debug)]
struct Needle {
    bytes: Box<[u8]>,
    ignore_case: bool,
}

impl Needle {
    fn new(bytes: &[u8], ignore_case: bool) -> Self {
        let bytes = if ignore_case { bytes.to_ascii_lowercase() } else { bytes.to_vec() };
        Self { bytes: bytes.into(), ignore_case }
    }

    #[inline(always)]
    fn is_at(&self, text: &[u8], at: usize) -> bool {
        match text.get(at..at + self.bytes.len()) {
            Some(found) if self.ignore_case => found.eq_ignore_ascii_case(&self.bytes),
            Some(found) => found == &*self.bytes,
            None => false,
        }
    }
}

impl Pair {
    /// A scanner for a literal that is not empty.
    pub(crate) fn new(literal: &[u8], ignore_case: bool) -> Self {
        let needle = Needle::new(literal, ignore_case);
        let mut offsets: Vec<usize> = (0..needle.bytes.len()).collect();
        offsets.sort_by_key(|&offset| frequency(needle.bytes.get(offset).copied().unwrap_or_default()));
        let probe = |offset: usize| {
            let byte = needle.bytes.get(offset).copied().unwrap_or_default();
            Probe { offset, byte, fold: if ignore_case && byte.is_ascii_alphabetic() { 0x20 } else { 0 } }
        };
        let rarest = offsets.first().copied().unwrap_or_default();
        let second = offsets.iter().copied().find(|offset| needle.bytes.get(*offset) != needle.bytes.get(rarest));
        let probes = [probe(rarest), probe(second.or(offsets.get(1).copied()).unwrap_or(rarest))];
        Self { needle, probes }
    }

    /// Bytes of the literal.
    pub(crate) fn len(&self) -> usize {
        self.needle.bytes.len()
    }

    /// Index of the first place from `at` on.
    #[inline]
    pub(crate) fn find(&self, text: &[u8], mut at: usize) -> Option<usize> {
        let [first, second] = self.probes;
        let reach = first.offset.max(second.offset) + STEP;
        let folds = first.fold | second.fold != 0;
        while at + reach <= text.len() {
            let (Some(left), Some(right)) = (chunk(text, at + first.offset), chunk(text, at + second.offset)) else {
                break;
            };
            let mut places = if folds {
                vector::equal_both::<true>(left, first, right, second)
            } else {
                vector::equal_both::<false>(left, first, right, second)
            };
            while places != 0 {
                let place = at + places.trailing_zeros() as usize;
                if self.needle.is_at(text, place) {
                    return Some(place);
                }
                places &= places - 1;
            }
            at += STEP;
        }
        let last = text.len().checked_sub(self.len())?;
        (at..=last).find(|&place| {
            text.get(place + first.offset).is_some_and(|byte| byte | first.fold == first.byte)
                && self.needle.is_at(text, place)
        })
    }
}

impl Many {
    /// A scanner for literals that are not empty.
    pub(crate) fn new(literals: &[Vec<u8>], ignore_case: bool) -> Self {
        let needles: Vec<_> = literals.iter().map(|literal| Needle::new(literal, ignore_case)).collect();
        let shortest = needles.iter().map(|needle| needle.bytes.len()).min().unwrap_or_default();
        let fingerprint = shortest.min(FINGERPRINT_MAX);
        // A byte that is not looked at fits every bucket.
        let mut tables = [[[u8::MAX; 16]; 2]; FINGERPRINT_MAX];
        for (index, table) in tables.iter_mut().enumerate().take(fingerprint) {
            *table = [[0; 16]; 2];
            for (number, needle) in needles.iter().enumerate() {
                let byte = needle.bytes.get(index).copied().unwrap_or_default();
                for byte in [byte, if ignore_case { byte.to_ascii_uppercase() } else { byte }] {
                    table[0][usize::from(byte & 0xF)] |= 1 << (number % BUCKETS);
                    table[1][usize::from(byte >> 4)] |= 1 << (number % BUCKETS);
                }
            }
        }
        Self { needles, tables, fingerprint }
    }

    /// Index of the first place from `at` on, and the bytes of the literal that is there.
    #[inline]
    pub(crate) fn find(&self, text: &[u8], mut at: usize) -> Option<(usize, usize)> {
        while let Some(bytes) = text.get(at..).and_then(<[u8]>::first_chunk::<{ STEP + FINGERPRINT_MAX - 1 }>) {
            let mut places = vector::fingerprints(bytes, &self.tables);
            while places != 0 {
                let place = at + places.trailing_zeros() as usize;
                if let Some(length) = self.length_at(text, place) {
                    return Some((place, length));
                }
                places &= places - 1;
            }
            at += STEP;
        }
        (at..text.len()).find_map(|place| Some((place, self.length_at(text, place)?)))
    }

    #[inline(always)]
    fn length_at(&self, text: &[u8], place: usize) -> Option<usize> {
        let rest = text.get(place..)?;
        let looked_at = rest.get(..self.fingerprint)?;
        let mut buckets = looked_at.iter().zip(&self.tables).fold(u8::MAX, |buckets, (byte, [low, high])| {
            buckets & low[usize::from(byte & 0xF)] & high[usize::from(byte >> 4)]
        });
        while buckets != 0 {
            let bucket = self.needles.iter().skip(buckets.trailing_zeros() as usize).step_by(BUCKETS);
            if let Some(needle) = bucket.into_iter().find(|needle| needle.is_at(text, place)) {
                return Some(needle.bytes.len());
            }
            buckets &= buckets - 1;
        }
        None
    }
}

#[inline(always)]
fn chunk(text: &[u8], at: usize) -> Option<&[u8; STEP]> {
    text.get(at..)?.first_chunk()
}

/// How frequent a byte is in texts of all kinds, from 0: logs, source code, prose.
pub(super) fn frequency(byte: u8) -> u8 {
    const LETTERS: &[u8; 26] = b"etaoinsrlhdcumpfgbywvkxjzq";
    match byte {
        b' ' => 255,
        b'\n' | b'\t' => 120,
        b'0' | b'1' | b'2' => 180,
        b'3'..=b'9' => 150,
        b'-' | b'.' | b':' | b'/' | b'"' | b'=' | b',' | b'_' => 140,
        b'a'..=b'z' => {
            let rank = LETTERS.iter().position(|&letter| letter == byte).unwrap_or_default() as u8;
            250 - rank * 8
        }
        b'A'..=b'Z' => 60 - LETTERS.iter().position(|&letter| letter == byte | 0x20).unwrap_or_default() as u8,
        0x21..=0x7E => 70,
        0x80..=0xBF => 80,
        _ => 30,
    }
}

#[cfg(target_arch = "x86_64")]
mod vector {
    use std::arch::x86_64::{
        __m128i, _mm_and_si128, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
        _mm_setzero_si128, _mm_shuffle_epi8, _mm_srli_epi16,
    };

    use super::{FINGERPRINT_MAX, Probe, STEP};

    /// Marks where both bytes are; without `FOLDS`, neither ignores case.
    #[inline(always)]
    pub(super) fn equal_both<const FOLDS: bool>(
        left: &[u8; STEP],
        first: Probe,
        right: &[u8; STEP],
        second: Probe,
    ) -> u64 {
        // SAFETY: SSE2 is part of x86_64, and each unaligned load reads 16 bytes of the 64 from offset 0, 16, 32 or 48.
        unsafe {
            let mut found = [_mm_setzero_si128(); 4];
            for (quarter, found) in found.iter_mut().enumerate() {
                let equal = |text: &[u8; STEP], probe: Probe| {
                    let bytes = _mm_loadu_si128(text.as_ptr().add(quarter * 16).cast::<__m128i>());
                    let folded = if FOLDS { _mm_or_si128(bytes, _mm_set1_epi8(probe.fold as i8)) } else { bytes };
                    _mm_cmpeq_epi8(folded, _mm_set1_epi8(probe.byte as i8))
                };
                *found = _mm_and_si128(equal(left, first), equal(right, second));
            }
            let any = _mm_or_si128(_mm_or_si128(found[0], found[1]), _mm_or_si128(found[2], found[3]));
            if _mm_movemask_epi8(any) == 0 {
                return 0;
            }
            let bits = |index: usize| (_mm_movemask_epi8(found[index]) as u16 as u64) << (index * 16);
            bits(0) | bits(1) | bits(2) | bits(3)
        }
    }

    /// Marks where the next bytes fit a bucket.
    #[inline(always)]
    pub(super) fn fingerprints(
        bytes: &[u8; STEP + FINGERPRINT_MAX - 1],
        tables: &[[[u8; 16]; 2]; FINGERPRINT_MAX],
    ) -> u64 {
        if is_x86_feature_detected!("ssse3") {
            // SAFETY: the processor has SSSE3.
            unsafe { fingerprints_ssse3(bytes, tables) }
        } else {
            super::portable::fingerprints(bytes, tables)
        }
    }

    #[target_feature(enable = "ssse3")]
    fn fingerprints_ssse3(bytes: &[u8; STEP + FINGERPRINT_MAX - 1], tables: &[[[u8; 16]; 2]; FINGERPRINT_MAX]) -> u64 {
        let nibble = _mm_set1_epi8(0xF);
        let mut places = 0;
        for quarter in 0..4 {
            let mut buckets = _mm_set1_epi8(-1);
            for (index, [low, high]) in tables.iter().enumerate() {
                // SAFETY: the unaligned loads read 16 bytes of a table, and of the 66 from offset 50 at most.
                let (bytes, low, high) = unsafe {
                    (
                        _mm_loadu_si128(bytes.as_ptr().add(quarter * 16 + index).cast::<__m128i>()),
                        _mm_loadu_si128(low.as_ptr().cast::<__m128i>()),
                        _mm_loadu_si128(high.as_ptr().cast::<__m128i>()),
                    )
                };
                let low = _mm_shuffle_epi8(low, _mm_and_si128(bytes, nibble));
                let high = _mm_shuffle_epi8(high, _mm_and_si128(_mm_srli_epi16::<4>(bytes), nibble));
                buckets = _mm_and_si128(buckets, _mm_and_si128(low, high));
            }
            let none = _mm_movemask_epi8(_mm_cmpeq_epi8(buckets, _mm_setzero_si128()));
            places |= u64::from(!none as u16) << (quarter * 16);
        }
        places
    }
}

#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod vector {
    use std::arch::wasm32::{
        i8x16_bitmask, i8x16_eq, i8x16_ne, i8x16_swizzle, u8x16_shr, u8x16_splat, v128, v128_and, v128_any_true,
        v128_load, v128_or,
    };

    use super::{FINGERPRINT_MAX, Probe, STEP};

    /// Marks where both bytes are; without `FOLDS`, neither ignores case.
    #[inline(always)]
    pub(super) fn equal_both<const FOLDS: bool>(
        left: &[u8; STEP],
        first: Probe,
        right: &[u8; STEP],
        second: Probe,
    ) -> u64 {
        let found: [v128; 4] = std::array::from_fn(|quarter| {
            let equal = |text: &[u8; STEP], probe: Probe| {
                // SAFETY: the load needs no alignment and reads 16 bytes of the 64 from offset 0, 16, 32 or 48.
                let bytes = unsafe { v128_load(text.as_ptr().add(quarter * 16).cast::<v128>()) };
                let folded = if FOLDS { v128_or(bytes, u8x16_splat(probe.fold)) } else { bytes };
                i8x16_eq(folded, u8x16_splat(probe.byte))
            };
            v128_and(equal(left, first), equal(right, second))
        });
        bits(found)
    }

    /// Marks where the next bytes fit a bucket.
    #[inline(always)]
    pub(super) fn fingerprints(
        bytes: &[u8; STEP + FINGERPRINT_MAX - 1],
        tables: &[[[u8; 16]; 2]; FINGERPRINT_MAX],
    ) -> u64 {
        let found: [v128; 4] = std::array::from_fn(|quarter| {
            let mut buckets = u8x16_splat(u8::MAX);
            for (index, [low, high]) in tables.iter().enumerate() {
                // SAFETY: the loads need no alignment and read 16 bytes of a table, and of the 66 from offset 50 at most.
                let (bytes, low, high) = unsafe {
                    (
                        v128_load(bytes.as_ptr().add(quarter * 16 + index).cast::<v128>()),
                        v128_load(low.as_ptr().cast::<v128>()),
                        v128_load(high.as_ptr().cast::<v128>()),
                    )
                };
                let low = i8x16_swizzle(low, v128_and(bytes, u8x16_splat(0xF)));
                let high = i8x16_swizzle(high, u8x16_shr(bytes, 4));
                buckets = v128_and(buckets, v128_and(low, high));
            }
            i8x16_ne(buckets, u8x16_splat(0))
        });
        bits(found)
    }

    /// A bit for each byte of ones; the others are zero.
    #[inline(always)]
    fn bits(found: [v128; 4]) -> u64 {
        if !v128_any_true(v128_or(v128_or(found[0], found[1]), v128_or(found[2], found[3]))) {
            return 0;
        }
        let bits = |index: usize| u64::from(i8x16_bitmask(found[index])) << (index * 16);
        bits(0) | bits(1) | bits(2) | bits(3)
    }
}

#[cfg(not(any(target_arch = "x86_64", all(target_arch = "wasm32", target_feature = "simd128"))))]
use portable as vector;

/// The same byte by byte, for other processors.
#[cfg(any(test, not(all(target_arch = "wasm32", target_feature = "simd128"))))]
mod portable {
    use super::{FINGERPRINT_MAX, STEP};

    #[cfg(any(test, not(target_arch = "x86_64")))]
    pub(super) fn equal_both<const FOLDS: bool>(
        left: &[u8; STEP],
        first: super::Probe,
        right: &[u8; STEP],
        second: super::Probe,
    ) -> u64 {
        left.iter().zip(right).rev().fold(0, |places, (left, right)| {
            let fold = |probe: super::Probe| if FOLDS { probe.fold } else { 0 };
            let equal = left | fold(first) == first.byte && right | fold(second) == second.byte;
            places << 1 | u64::from(equal)
        })
    }

    pub(super) fn fingerprints(
        bytes: &[u8; STEP + FINGERPRINT_MAX - 1],
        tables: &[[[u8; 16]; 2]; FINGERPRINT_MAX],
    ) -> u64 {
        bytes.windows(FINGERPRINT_MAX).rev().fold(0, |places, bytes| {
            let buckets = bytes.iter().zip(tables).fold(u8::MAX, |buckets, (byte, [low, high])| {
                buckets & low[usize::from(byte & 0xF)] & high[usize::from(byte >> 4)]
            });
            places << 1 | u64::from(buckets != 0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that repeat after more than one step, of few kinds, so that chance matches are frequent.
    fn text() -> Vec<u8> {
        (0..1000_u32).map(|index| b"aAbBcC- \xC3\xA9@`"[(index * index % 97 % 12) as usize]).collect()
    }

    #[test]
    fn vectors_and_bytes_find_alike() {
        let text = text();
        // Miri takes a second for a few.
        for at in (0..text.len() - STEP - FINGERPRINT_MAX).step_by(if cfg!(miri) { 97 } else { 1 }) {
            let (left, right) = (chunk(&text, at).unwrap(), chunk(&text, at + 1).unwrap());
            for (byte, fold) in [(b'a', 0x20), (b'A', 0), (b'-', 0), (0xC3, 0)] {
                let (first, second) = (Probe { offset: 0, byte, fold }, Probe { offset: 1, byte: b'b', fold: 0x20 });
                assert_eq!(
                    vector::equal_both::<true>(left, first, right, second),
                    portable::equal_both::<true>(left, first, right, second)
                );
                assert_eq!(
                    vector::equal_both::<false>(left, first, right, second),
                    portable::equal_both::<false>(left, first, right, second)
                );
            }
            let tables = Many::new(&[b"ab".to_vec(), b"c-a".to_vec()], true).tables;
            let bytes = text[at..].first_chunk().unwrap();
            assert_eq!(vector::fingerprints(bytes, &tables), portable::fingerprints(bytes, &tables));
        }
    }

    #[test]
    fn scanners_find_what_a_walk_finds() {
        let text = text();
        let literals: [&[u8]; 7] = [b"a", b"ab", b"aa", b"-c", b"bCb", b"\xC3\xA9", b"cb-aA@"];
        for ignore_case in [false, true] {
            let is_at = |literal: &[u8], at: usize| Needle::new(literal, ignore_case).is_at(&text, at);
            for at in (0..text.len()).step_by(if cfg!(miri) { 331 } else { 1 }) {
                for literal in literals {
                    let expected = (at..text.len()).find(|&place| is_at(literal, place));
                    assert_eq!(Pair::new(literal, ignore_case).find(&text, at), expected, "{literal:?} {at}");
                }
                let expected = (at..text.len()).find(|&place| literals[1..].iter().any(|one| is_at(one, place)));
                let all: Vec<_> = literals[1..].iter().map(|one| one.to_vec()).collect();
                assert_eq!(Many::new(&all, ignore_case).find(&text, at).map(|found| found.0), expected, "{at}");
            }
        }
    }
}

//! Operations on 16 bytes at once: the only file with intrinsics.

#![allow(unsafe_code, reason = "vectors are loaded through pointers")]

#[cfg(not(any(target_arch = "x86_64", all(target_arch = "wasm32", target_feature = "simd128"))))]
pub use portable::Lane;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
pub use wasm32::Lane;
#[cfg(target_arch = "x86_64")]
pub use x86_64::Lane;

/// Bytes in a [`Lane`].
pub const LANE: usize = 16;

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::x86_64::{
        __m128i, _mm_and_si128, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128,
        _mm_set_epi64x, _mm_set1_epi8, _mm_shuffle_epi8, _mm_storeu_si128, _mm_sub_epi8,
    };

    use super::LANE;

    /// 16 bytes. A comparison gives a byte of ones for each that matches, and zero for the others.
    #[derive(Clone, Copy)]
    pub struct Lane(__m128i);

    impl Lane {
        /// 16 bytes.
        #[inline(always)]
        pub fn load(bytes: &[u8; LANE]) -> Self {
            // SAFETY: SSE2 is part of x86_64, and the unaligned load reads the 16 bytes.
            Self(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) })
        }

        /// 16 times this byte.
        #[inline(always)]
        pub fn splat(byte: u8) -> Self {
            // SAFETY: SSE2 is part of x86_64.
            Self(unsafe { _mm_set1_epi8(byte.cast_signed()) })
        }

        /// The bytes equal to this one.
        #[inline(always)]
        pub fn equal(self, byte: u8) -> Self {
            // SAFETY: SSE2 is part of x86_64.
            Self(unsafe { _mm_cmpeq_epi8(self.0, Self::splat(byte).0) })
        }

        /// The bytes that both have at the same place.
        #[inline(always)]
        pub fn same(self, other: Self) -> Self {
            // SAFETY: SSE2 is part of x86_64.
            Self(unsafe { _mm_cmpeq_epi8(self.0, other.0) })
        }

        /// The bytes up to this one.
        #[inline(always)]
        pub fn at_most(self, byte: u8) -> Self {
            // SAFETY: SSE2 is part of x86_64.
            Self(unsafe { _mm_cmpeq_epi8(self.min(Self::splat(byte)).0, self.0) })
        }

        /// The lesser of each two bytes.
        #[inline(always)]
        pub fn min(self, other: Self) -> Self {
            // SAFETY: SSE2 is part of x86_64.
            Self(unsafe { _mm_min_epu8(self.0, other.0) })
        }

        /// The bits that both have.
        #[inline(always)]
        pub fn and(self, other: Self) -> Self {
            // SAFETY: SSE2 is part of x86_64.
            Self(unsafe { _mm_and_si128(self.0, other.0) })
        }

        /// The bits that either has.
        #[inline(always)]
        pub fn or(self, other: Self) -> Self {
            // SAFETY: SSE2 is part of x86_64.
            Self(unsafe { _mm_or_si128(self.0, other.0) })
        }

        /// Subtracts from each byte, modulo 256.
        #[inline(always)]
        pub fn minus(self, byte: u8) -> Self {
            // SAFETY: SSE2 is part of x86_64.
            Self(unsafe { _mm_sub_epi8(self.0, Self::splat(byte).0) })
        }

        /// The bits that `low` has at the low four bits of each byte, and `high` at the high four.
        #[inline(always)]
        pub fn lookup(self, low: &[u8; LANE], high: &[u8; LANE]) -> Self {
            let mut bytes = [0_u8; LANE];
            // SAFETY: SSE2 is part of x86_64, and the unaligned store writes the 16 bytes.
            unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), self.0) };
            // A lookup of 16 bytes at once needs SSSE3.
            Self::load(&bytes.map(|byte| low[usize::from(byte & 0xF)] & high[usize::from(byte >> 4)]))
        }

        /// The highest bit of each byte; bit 0 is that of the first byte.
        #[inline(always)]
        pub fn bits(self) -> u16 {
            // SAFETY: SSE2 is part of x86_64.
            unsafe { _mm_movemask_epi8(self.0) as u16 }
        }

        /// The bytes at these indices.
        ///
        /// # Safety
        ///
        /// The processor must have SSSE3.
        #[inline(always)]
        pub(super) unsafe fn at(self, indices: [u64; 2]) -> [u64; 2] {
            let mut bytes = [0_u64; 2];
            // SAFETY: the caller checked the processor, and the unaligned store writes the 16 bytes.
            unsafe {
                let indices = _mm_set_epi64x(indices[1].cast_signed(), indices[0].cast_signed());
                _mm_storeu_si128(bytes.as_mut_ptr().cast(), _mm_shuffle_epi8(self.0, indices));
            }
            bytes
        }
    }

    /// As [`super::compressed`].
    #[target_feature(enable = "ssse3,popcnt")]
    pub(super) fn compressed(block: &[u8; 4 * LANE], keep: u64, output: &mut [u8; 4 * LANE]) -> usize {
        // SAFETY: this function is only for processors with SSSE3.
        super::compressed(block, keep, output, |lane, indices| unsafe { lane.at(indices) })
    }
}

#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod wasm32 {
    use std::arch::wasm32::{
        i8x16_bitmask, i8x16_eq, i8x16_sub, i8x16_swizzle, u8x16_le, u8x16_min, u8x16_shr, u8x16_splat, u64x2,
        u64x2_extract_lane, v128, v128_and, v128_load, v128_or,
    };

    use super::LANE;

    /// 16 bytes. A comparison gives a byte of ones for each that matches, and zero for the others.
    #[derive(Clone, Copy)]
    pub struct Lane(v128);

    impl Lane {
        /// 16 bytes.
        #[inline(always)]
        pub fn load(bytes: &[u8; LANE]) -> Self {
            // SAFETY: the load needs no alignment and reads the 16 bytes.
            Self(unsafe { v128_load(bytes.as_ptr().cast()) })
        }

        /// 16 times this byte.
        #[inline(always)]
        pub fn splat(byte: u8) -> Self {
            Self(u8x16_splat(byte))
        }

        /// The bytes equal to this one.
        #[inline(always)]
        pub fn equal(self, byte: u8) -> Self {
            Self(i8x16_eq(self.0, u8x16_splat(byte)))
        }

        /// The bytes that both have at the same place.
        #[inline(always)]
        pub fn same(self, other: Self) -> Self {
            Self(i8x16_eq(self.0, other.0))
        }

        /// The bytes up to this one.
        #[inline(always)]
        pub fn at_most(self, byte: u8) -> Self {
            Self(u8x16_le(self.0, u8x16_splat(byte)))
        }

        /// The lesser of each two bytes.
        #[inline(always)]
        pub fn min(self, other: Self) -> Self {
            Self(u8x16_min(self.0, other.0))
        }

        /// The bits that both have.
        #[inline(always)]
        pub fn and(self, other: Self) -> Self {
            Self(v128_and(self.0, other.0))
        }

        /// The bits that either has.
        #[inline(always)]
        pub fn or(self, other: Self) -> Self {
            Self(v128_or(self.0, other.0))
        }

        /// Subtracts from each byte, modulo 256.
        #[inline(always)]
        pub fn minus(self, byte: u8) -> Self {
            Self(i8x16_sub(self.0, u8x16_splat(byte)))
        }

        /// The bits that `low` has at the low four bits of each byte, and `high` at the high four.
        #[inline(always)]
        pub fn lookup(self, low: &[u8; LANE], high: &[u8; LANE]) -> Self {
            let low = i8x16_swizzle(Self::load(low).0, v128_and(self.0, u8x16_splat(0xF)));
            Self(v128_and(low, i8x16_swizzle(Self::load(high).0, u8x16_shr(self.0, 4))))
        }

        /// The highest bit of each byte; bit 0 is that of the first byte.
        #[inline(always)]
        pub fn bits(self) -> u16 {
            i8x16_bitmask(self.0)
        }

        /// The bytes at these indices.
        #[inline(always)]
        pub fn at(self, indices: [u64; 2]) -> [u64; 2] {
            let bytes = i8x16_swizzle(self.0, u64x2(indices[0], indices[1]));
            [u64x2_extract_lane::<0>(bytes), u64x2_extract_lane::<1>(bytes)]
        }
    }
}

/// For other processors, and the reference of the tests.
#[cfg_attr(test, allow(unreachable_pub, reason = "only the tests of other processors reach it"))]
#[cfg(any(test, not(any(target_arch = "x86_64", all(target_arch = "wasm32", target_feature = "simd128")))))]
mod portable {
    use super::LANE;

    /// 16 bytes. A comparison gives a byte of ones for each that matches, and zero for the others.
    #[derive(Clone, Copy)]
    pub struct Lane([u8; LANE]);

    impl Lane {
        /// 16 bytes.
        #[inline(always)]
        pub fn load(bytes: &[u8; LANE]) -> Self {
            Self(*bytes)
        }

        /// 16 times this byte.
        #[inline(always)]
        pub fn splat(byte: u8) -> Self {
            Self([byte; LANE])
        }

        /// The bytes equal to this one.
        #[inline(always)]
        pub fn equal(self, byte: u8) -> Self {
            Self(self.0.map(|own| if own == byte { u8::MAX } else { 0 }))
        }

        /// The bytes that both have at the same place.
        #[inline(always)]
        pub fn same(self, other: Self) -> Self {
            Self(std::array::from_fn(|index| if self.0[index] == other.0[index] { u8::MAX } else { 0 }))
        }

        /// The bytes up to this one.
        #[inline(always)]
        pub fn at_most(self, byte: u8) -> Self {
            Self(self.0.map(|own| if own <= byte { u8::MAX } else { 0 }))
        }

        /// The lesser of each two bytes.
        #[inline(always)]
        pub fn min(self, other: Self) -> Self {
            Self(std::array::from_fn(|index| self.0[index].min(other.0[index])))
        }

        /// The bits that both have.
        #[inline(always)]
        pub fn and(self, other: Self) -> Self {
            Self(std::array::from_fn(|index| self.0[index] & other.0[index]))
        }

        /// The bits that either has.
        #[inline(always)]
        pub fn or(self, other: Self) -> Self {
            Self(std::array::from_fn(|index| self.0[index] | other.0[index]))
        }

        /// Subtracts from each byte, modulo 256.
        #[inline(always)]
        pub fn minus(self, byte: u8) -> Self {
            Self(self.0.map(|own| own.wrapping_sub(byte)))
        }

        /// The bits that `low` has at the low four bits of each byte, and `high` at the high four.
        #[inline(always)]
        pub fn lookup(self, low: &[u8; LANE], high: &[u8; LANE]) -> Self {
            Self(self.0.map(|own| low[usize::from(own & 0xF)] & high[usize::from(own >> 4)]))
        }

        /// The highest bit of each byte; bit 0 is that of the first byte.
        #[inline(always)]
        pub fn bits(self) -> u16 {
            self.0.iter().rev().fold(0, |bits, byte| bits << 1 | u16::from(byte >> 7))
        }
    }
}

/// The indices of the bits of each byte, from the lowest on, one a byte; 0 beyond the last.
#[cfg(any(target_arch = "x86_64", all(target_arch = "wasm32", target_feature = "simd128")))]
const INDICES: [u64; 256] = {
    let mut all = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut bit, mut count) = (0, 0);
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                all[byte] |= bit << (8 * count);
                count += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    all
};

/// Writes the bytes of a block that `keep` marks one after another, and any bytes after them. Returns their number, or `None`
/// when the processor has no instruction for it.
#[cfg_attr(
    not(any(target_arch = "x86_64", all(target_arch = "wasm32", target_feature = "simd128"))),
    expect(unused_variables, reason = "other processors go on without")
)]
#[inline(always)]
pub(crate) fn compress(block: &[u8; 4 * LANE], keep: u64, output: &mut [u8; 4 * LANE]) -> Option<usize> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("ssse3") && is_x86_feature_detected!("popcnt") {
        // SAFETY: the processor has both.
        return Some(unsafe { x86_64::compressed(block, keep, output) });
    }
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    return Some(compressed(block, keep, output, Lane::at));
    #[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
    None
}

/// Compresses a block with a function that gives the bytes of a lane at indices.
#[cfg(any(target_arch = "x86_64", all(target_arch = "wasm32", target_feature = "simd128")))]
#[inline(always)]
fn compressed(
    block: &[u8; 4 * LANE],
    keep: u64,
    output: &mut [u8; 4 * LANE],
    at: impl Fn(Lane, [u64; 2]) -> [u64; 2],
) -> usize {
    /// Moves indices of the first half of a lane to the second.
    const SECOND: u64 = 0x0808_0808_0808_0808;
    let mut put = 0;
    for (lane, keep) in block.as_chunks().0.iter().zip(keep.to_le_bytes().as_chunks::<2>().0) {
        let [first, second] = keep.map(|keep| INDICES[usize::from(keep)]);
        for (bytes, keep) in at(Lane::load(lane), [first, second | SECOND]).into_iter().zip(keep) {
            // Each half begins within the first seven eighths, as those before it filled no more.
            if let Some(room) = output.get_mut(put..).and_then(|rest| rest.first_chunk_mut()) {
                *room = bytes.to_le_bytes();
            }
            put += keep.count_ones() as usize;
        }
    }
    put
}

/// Reads 16 bytes as a big-endian number. WebAssembly has no byte-swap instruction, so there it is a shuffle.
#[inline(always)]
#[must_use]
pub fn big_endian(chunk: &[u8; LANE]) -> u128 {
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    {
        use std::arch::wasm32::{i8x16_shuffle, u64x2_extract_lane, v128_load};
        // SAFETY: the load needs no alignment and reads the 16 bytes of the chunk.
        let bytes = unsafe { v128_load(chunk.as_ptr().cast()) };
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
    use super::{LANE, Lane, compress, portable};

    #[test]
    fn a_block_keeps_what_is_marked() {
        let block: [u8; 4 * LANE] = std::array::from_fn(|index| index as u8);
        let patterns = (0..=u8::MAX).map(|pattern| u64::from(pattern).wrapping_mul(0x8040_2010_0804_0201));
        for keep in patterns.chain([0, 1, u64::MAX, 1 << 63, u64::MAX >> 1, 0xFF00_FF00_00FF_00FF]) {
            let mut output = [0; 4 * LANE];
            let Some(count) = compress(&block, keep, &mut output) else { return };
            let kept: Vec<u8> = block.iter().copied().filter(|byte| keep >> byte & 1 == 1).collect();
            assert_eq!(output.get(..count), Some(kept.as_slice()), "{keep:#x}");
        }
    }

    /// Every operation agrees with the portable one, for every pair of bytes.
    #[test]
    fn vectors_and_bytes_agree() {
        let tables =
            [0x80, 0x7F].map(|bits| std::array::from_fn(|index| if index % 3 == 0 { bits } else { 0x80 ^ bits }));
        // Miri takes a second for a thousand.
        let step = if cfg!(miri) { 31 } else { 1 };
        for byte in (0..=u8::MAX).step_by(step) {
            for other in (0..=u8::MAX).step_by(step) {
                let mut bytes = [other; LANE];
                bytes[usize::from(byte) % LANE] = byte;
                let (lane, plain) = (Lane::load(&bytes), portable::Lane::load(&bytes));
                let (splat, plain_splat) = (Lane::splat(byte), portable::Lane::splat(byte));
                let pairs = [
                    (lane, plain),
                    (lane.equal(other), plain.equal(other)),
                    (lane.same(splat), plain.same(plain_splat)),
                    (lane.at_most(other), plain.at_most(other)),
                    (lane.minus(other), plain.minus(other)),
                    (lane.min(splat), plain.min(plain_splat)),
                    (lane.and(splat), plain.and(plain_splat)),
                    (lane.or(splat), plain.or(plain_splat)),
                    (lane.lookup(&tables[0], &tables[1]), plain.lookup(&tables[0], &tables[1])),
                    (lane.lookup(&tables[0], &tables[0]), plain.lookup(&tables[0], &tables[0])),
                ];
                for (operation, (lane, plain)) in pairs.into_iter().enumerate() {
                    assert_eq!(lane.bits(), plain.bits(), "operation {operation} of {byte} and {other}");
                }
            }
        }
    }
}

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
        _mm_set1_epi8, _mm_storeu_si128, _mm_sub_epi8,
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
    }
}

#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod wasm32 {
    use std::arch::wasm32::{
        i8x16_bitmask, i8x16_eq, i8x16_sub, i8x16_swizzle, u8x16_le, u8x16_min, u8x16_shr, u8x16_splat, v128, v128_and,
        v128_load, v128_or,
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
    use super::{LANE, Lane, portable};

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

//! xxh3-64 of a tag and a payload, without ever putting the two together on the heap.
//!
//! Keys are short, and for short keys the obvious way, to write both into a buffer and to hash that,
//! takes five times as long as the hash: the processor cannot forward small stores to the wider
//! loads that read them back. So the first word is put together in registers, and the rest of the
//! payload is read where it is.

use xxhash_rust::xxh3;

/// The hash of a tag and any payload.
// Out of line, so that the way of integers and UUIDs, which do without, stays small.
#[inline(never)]
pub(super) fn of_any(tag: u8, payload: &[u8], seed: u64) -> u64 {
    match payload.len() {
        0..=7 => {
            let word = (short_word(payload) << 8) | u128::from(tag);
            xxh3::xxh3_64_with_seed(&word.to_le_bytes()[..=payload.len()], seed)
        }
        8..=15 => of_8_to_15(tag, payload, seed),
        16..=127 => of_16_to_127(tag, payload, seed),
        _ => of_long(tag, payload, seed),
    }
}

#[inline(never)]
fn of_long(tag: u8, payload: &[u8], seed: u64) -> u64 {
    let mut stream = xxh3::Xxh3::with_seed(seed);
    stream.update(&[tag]);
    stream.update(payload);
    stream.digest()
}

/// The hash of a tag and a payload of 8 to 15 bytes.
///
/// It is what xxh3 does with inputs of 9 to 16 bytes: `XXH3_len_9to16_64b` of
/// [xxhash.h](https://github.com/Cyan4973/xxHash/blob/v0.8.2/xxhash.h).
fn of_8_to_15(tag: u8, payload: &[u8], seed: u64) -> u64 {
    let word = (short_word(payload) << 8) | u128::from(tag);
    let length = payload.len() + 1;
    let first = word as u64;
    let last = (word >> (8 * (length - 8))) as u64;
    let low = first ^ (SECRET[3] ^ SECRET[4]).wrapping_add(seed);
    let high = last ^ (SECRET[5] ^ SECRET[6]).wrapping_sub(seed);
    let hash = (length as u64)
        .wrapping_add(low.swap_bytes())
        .wrapping_add(high)
        .wrapping_add(folded_product(low, high));
    avalanche(hash)
}

/// The hash of a tag and a payload of 16 to 127 bytes.
///
/// It is what xxh3 does with inputs of 17 to 128 bytes: `XXH3_len_17to128_64b` of
/// [xxhash.h](https://github.com/Cyan4973/xxHash/blob/v0.8.2/xxhash.h). Of all it reads, only the
/// first 16 bytes hold the tag; what it reads at `i` otherwise is `i - 1` in the payload.
#[inline(always)]
pub(super) fn of_16_to_127(tag: u8, payload: &[u8], seed: u64) -> u64 {
    /// `XXH_PRIME64_1`.
    const PRIME: u64 = 0x9e37_79b1_85eb_ca87;

    let fold = |input: u128, secret: usize| {
        let low = (input as u64) ^ SECRET[secret].wrapping_add(seed);
        let high = ((input >> 64) as u64) ^ SECRET[secret + 1].wrapping_sub(seed);
        folded_product(low, high)
    };
    let from_start = |at: usize| u128::from_le_bytes(bytes_at(payload, at - 1));
    let from_end = |back: usize| u128::from_le_bytes(bytes_at(payload, payload.len() - back));

    let length = payload.len() + 1;
    let first = (u128::from_le_bytes(bytes_at(payload, 0)) << 8) | u128::from(tag);
    let mut hash = PRIME
        .wrapping_mul(length as u64)
        .wrapping_add(fold(first, 0))
        .wrapping_add(fold(from_end(16), 2));
    if length > 32 {
        hash = hash
            .wrapping_add(fold(from_start(16), 4))
            .wrapping_add(fold(from_end(32), 6));
    }
    if length > 64 {
        hash = hash
            .wrapping_add(fold(from_start(32), 8))
            .wrapping_add(fold(from_end(48), 10));
    }
    if length > 96 {
        hash = hash
            .wrapping_add(fold(from_start(48), 12))
            .wrapping_add(fold(from_end(64), 14));
    }
    avalanche(hash)
}

/// `XXH3_mul128_fold64`.
#[inline(always)]
fn folded_product(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

/// `XXH3_avalanche`.
#[inline(always)]
fn avalanche(hash: u64) -> u64 {
    /// `PRIME_MX1`.
    const MIX: u64 = 0x1656_6791_9e37_79f9;
    let hash = (hash ^ (hash >> 37)).wrapping_mul(MIX);
    hash ^ (hash >> 32)
}

/// The first 128 bytes of `XXH3_kSecret`, as little-endian words.
#[rustfmt::skip]
const SECRET: [u64; 16] = [
    0xbe4b_a423_396c_feb8, 0x1cad_21f7_2c81_017c, 0xdb97_9083_e96d_d4de, 0x1f67_b3b7_a4a4_4072,
    0x78e5_c0cc_4ee6_79cb, 0x2172_ffcc_7dd0_5a82, 0x8e24_43f7_7446_08b8, 0x4c26_3a81_e690_35e0,
    0xcb00_c391_bb52_283c, 0xa32e_531b_8b65_d088, 0x4ef9_0da2_9748_6471, 0xd8ac_dea9_46ef_1938,
    0x3f34_9ce3_3f76_faa8, 0x1d4f_0bc7_c7bb_dcf9, 0x3159_b4cd_4be0_518a, 0x6473_78d9_c97e_9fc8,
];

/// Up to 15 bytes as a little-endian number, read in words that overlap.
#[inline]
fn short_word(bytes: &[u8]) -> u128 {
    let length = bytes.len();
    match length {
        0 => 0,
        1..=3 => [0, length / 2, length - 1]
            .into_iter()
            .fold(0, |word, at| word | (u128::from(bytes[at]) << (8 * at))),
        4..=7 => {
            let last = length - 4;
            u128::from(u32::from_le_bytes(bytes_at(bytes, 0)))
                | (u128::from(u32::from_le_bytes(bytes_at(bytes, last))) << (8 * last))
        }
        _ => {
            let last = length - 8;
            u128::from(u64::from_le_bytes(bytes_at(bytes, 0)))
                | (u128::from(u64::from_le_bytes(bytes_at(bytes, last))) << (8 * last))
        }
    }
}

/// `N` bytes from `at` on; the callers have compared the length.
#[inline(always)]
fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut copy = [0; N];
    copy.copy_from_slice(&bytes[at..at + N]);
    copy
}

//! The hashes of PostgreSQL, by which it partitions and Citus, PgDog and PgCat shard.
//!
//! Bob Jenkins' lookup3 (<https://burtleburtle.net/bob/c/lookup3.c>) in the form that PostgreSQL gave
//! it; no crate has that form. The tests compare it with a live server.

use crate::key::KeyValue;

/// The seed of hash partitioning.
const PARTITION_SEED: u64 = 0x7A5B_2236_7996_DCFD;

/// Microseconds from 1970 to 2000, from where PostgreSQL counts, and days.
const Y2K: i64 = 946_684_800_000_000;
const Y2K_DAYS: i32 = 10_957;

/// The partition of a key among `modulus`, as `PARTITION BY HASH` has it; `None` for a key that the
/// column cannot hold.
pub(super) fn partition(key: KeyValue<'_>, modulus: u32) -> Option<u64> {
    Some(row_hash(extended(key)?) % u64::from(modulus.max(1)))
}

/// The hash of a row with one key column: `hash_combine64` with 0 before it.
fn row_hash(hash: u64) -> u64 {
    hash.wrapping_add(0x49A0_F4DD_15E5_A8E3)
}

/// `hashint8extended`, `hashtextextended` and so on, with the seed of partitioning.
pub(super) fn extended(key: KeyValue<'_>) -> Option<u64> {
    Some(match key {
        KeyValue::Integer(number) => word(fold(i64::try_from(number).ok()?), PARTITION_SEED),
        KeyValue::Text(text) => bytes(text.as_bytes(), PARTITION_SEED),
        KeyValue::Uuid(uuid) => bytes(uuid, PARTITION_SEED),
        KeyValue::Bytes(binary) => bytes(binary, PARTITION_SEED),
        KeyValue::Date(days) => word(days.checked_sub(Y2K_DAYS)? as u32, PARTITION_SEED),
        KeyValue::Timestamp(micros) => word(fold(micros.checked_sub(Y2K)?), PARTITION_SEED),
        KeyValue::BigInteger(_) | KeyValue::Composite(_) => return None,
    })
}

/// `hashint8`, `hashtext`, `uuid_hash`: 32 bits, signed as Citus keeps them.
pub(super) fn citus(key: KeyValue<'_>) -> Option<i32> {
    let hash = match key {
        KeyValue::Integer(number) => word(fold(i64::try_from(number).ok()?), 0),
        KeyValue::Text(text) => bytes(text.as_bytes(), 0),
        KeyValue::Uuid(uuid) => bytes(uuid, 0),
        _ => return None,
    };
    Some(hash as u32 as i32)
}

/// The shard of a hash where `count` shards divide the 32 bits evenly: the last one has the rest.
pub(super) fn citus_index(hash: i32, count: u32) -> u32 {
    let count = count.max(1);
    let step = (1_u64 << 32) / u64::from(count);
    let index = (i64::from(hash) + (1 << 31)) as u64 / step;
    // Below 2^32, as the count is.
    index.min(u64::from(count) - 1) as u32
}

/// Both halves of a 64-bit number in 32 bits, so that it hashes as the same number of 32 bits does.
fn fold(number: i64) -> u32 {
    let high = (number >> 32) as u32;
    number as u32 ^ if number >= 0 { high } else { !high }
}

#[derive(Clone, Copy)]
struct State {
    a: u32,
    b: u32,
    c: u32,
}

impl State {
    fn new(length: usize, seed: u64) -> Self {
        let start = 0x9e37_79b9_u32
            .wrapping_add(length as u32)
            .wrapping_add(3_923_095);
        let mut state = Self {
            a: start,
            b: start,
            c: start,
        };
        if seed != 0 {
            state.a = state.a.wrapping_add((seed >> 32) as u32);
            state.b = state.b.wrapping_add(seed as u32);
            state.mix();
        }
        state
    }

    fn mix(&mut self) {
        let Self { a, b, c } = self;
        let step = |x: &mut u32, y: &mut u32, z: &mut u32, turn: u32| {
            *x = x.wrapping_sub(*z) ^ z.rotate_left(turn);
            *z = z.wrapping_add(*y);
        };
        step(a, b, c, 4);
        step(b, c, a, 6);
        step(c, a, b, 8);
        step(a, b, c, 16);
        step(b, c, a, 19);
        step(c, a, b, 4);
    }

    fn finish(mut self) -> u64 {
        let Self { a, b, c } = &mut self;
        let step = |x: &mut u32, y: &u32, turn: u32| {
            *x = (*x ^ *y).wrapping_sub(y.rotate_left(turn));
        };
        step(c, b, 14);
        step(a, c, 11);
        step(b, a, 25);
        step(c, b, 16);
        step(a, c, 4);
        step(b, a, 14);
        step(c, b, 24);
        (u64::from(self.b) << 32) | u64::from(self.c)
    }
}

/// `hash_uint32_extended`; with the seed 0 its low half is `hash_uint32`.
fn word(number: u32, seed: u64) -> u64 {
    let mut state = State::new(4, seed);
    state.a = state.a.wrapping_add(number);
    state.finish()
}

/// `hash_bytes_extended`; with the seed 0 its low half is `hash_bytes`.
fn bytes(bytes: &[u8], seed: u64) -> u64 {
    let mut state = State::new(bytes.len(), seed);
    let (blocks, tail) = bytes.as_chunks::<12>();
    let word = |bytes: &[u8], at: usize| {
        let byte = |i: usize| u32::from(bytes.get(at + i).copied().unwrap_or(0));
        byte(0) | (byte(1) << 8) | (byte(2) << 16) | (byte(3) << 24)
    };
    for block in blocks {
        state.a = state.a.wrapping_add(word(block, 0));
        state.b = state.b.wrapping_add(word(block, 4));
        state.c = state.c.wrapping_add(word(block, 8));
        state.mix();
    }
    state.a = state.a.wrapping_add(word(tail, 0));
    state.b = state.b.wrapping_add(word(tail, 4));
    // The lowest byte of `c` is kept for the length.
    state.c = state.c.wrapping_add(word(tail, 8) << 8);
    state.finish()
}

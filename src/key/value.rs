//! What an algorithm sees of a key: a value with canonical bytes and a hash.

use std::borrow::Cow;

use xxhash_rust::xxh3;

use super::{KeyType, ShardKey, composite};

/// The tags that are written in two places.
const INTEGER: u8 = 0x01;
const UUID: u8 = 0x03;

/// A key that has a value: what is left of [`ShardKey`] once the refused ones are out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyValue<'k> {
    Integer(i128),
    /// Always above `i128::MAX`.
    BigInteger(u128),
    Text(&'k str),
    Uuid(&'k [u8; 16]),
    Bytes(&'k [u8]),
    Date(i32),
    /// Microseconds since the epoch.
    Timestamp(i64),
    /// Each part has a value, and none is a composite.
    Composite(&'k [ShardKey<'k>]),
}

/// Why a key has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoValue {
    Null,
    /// A timestamp finer than a microsecond.
    Precision,
    /// A timestamp without a time zone.
    NoZone,
    /// A composite key with less than two parts, more than eight, or a composite among them.
    Parts,
}

impl<'k> KeyValue<'k> {
    #[inline]
    pub(crate) fn key_type(self) -> KeyType {
        match self {
            Self::Integer(_) | Self::BigInteger(_) => KeyType::Integer,
            Self::Text(_) => KeyType::Text,
            Self::Uuid(_) => KeyType::Uuid,
            Self::Bytes(_) => KeyType::Bytes,
            Self::Date(_) => KeyType::Date,
            Self::Timestamp(_) => KeyType::Timestamp,
            Self::Composite(parts) => KeyType::Composite(composite::type_of(parts)),
        }
    }

    /// The key again, borrowing from the same place.
    pub(crate) fn to_key(self) -> ShardKey<'k> {
        match self {
            Self::Integer(number) => ShardKey::Integer(number),
            Self::BigInteger(number) => ShardKey::BigInteger(number),
            Self::Text(text) => ShardKey::Text(Cow::Borrowed(text)),
            Self::Uuid(uuid) => ShardKey::Uuid(*uuid),
            Self::Bytes(bytes) => ShardKey::Bytes(Cow::Borrowed(bytes)),
            Self::Date(days) => ShardKey::Date(days),
            Self::Timestamp(micros) => ShardKey::Timestamp {
                micros,
                sub_micro_nanos: 0,
            },
            Self::Composite(parts) => {
                ShardKey::Composite(parts.iter().map(ShardKey::borrowed).collect())
            }
        }
    }

    /// Gives tag and payload of the canonical bytes to `then`: the one place that knows the format.
    #[inline(always)]
    pub(crate) fn encode<R>(self, then: impl FnOnce(u8, &[u8]) -> R) -> R {
        match self {
            Self::Integer(number) => then(INTEGER, &number.to_le_bytes()),
            Self::BigInteger(number) => {
                // One byte longer than an `i128`, so that the two can never be the same bytes.
                let mut payload = [0; 17];
                payload[..16].copy_from_slice(&number.to_le_bytes());
                then(INTEGER, &payload)
            }
            Self::Text(text) => then(0x02, text.as_bytes()),
            Self::Uuid(uuid) => then(UUID, uuid),
            Self::Bytes(bytes) => then(0x04, bytes),
            Self::Date(days) => then(0x05, &days.to_le_bytes()),
            Self::Timestamp(micros) => then(0x06, &micros.to_le_bytes()),
            Self::Composite(parts) => then(0x07, &composite::payload(parts)),
        }
    }

    /// The canonical bytes.
    pub(crate) fn canonical_bytes(self) -> Vec<u8> {
        self.encode(|tag, payload| {
            let mut bytes = Vec::with_capacity(payload.len() + 1);
            bytes.push(tag);
            bytes.extend_from_slice(payload);
            bytes
        })
    }

    /// xxh3-64 of the canonical bytes, without allocating.
    #[inline(always)]
    pub(crate) fn hash(self, seed: u64) -> u64 {
        let [hash] = self.hashes([seed]);
        hash
    }

    /// The hashes with several seeds: the bytes are written once, and read once.
    #[inline(always)]
    pub(crate) fn hashes<const S: usize>(self, seeds: [u64; S]) -> [u64; S] {
        match self {
            // What `encode` says of them, once more: with a length that is a constant here, most
            // of the bytes never leave the registers.
            Self::Integer(number) => one_shot::<17, S>(INTEGER, &number.to_le_bytes(), seeds),
            Self::Uuid(uuid) => one_shot::<17, S>(UUID, uuid, seeds),
            other => other.hashes_of_any(seeds),
        }
    }

    #[inline(never)]
    fn hashes_of_any<const S: usize>(self, seeds: [u64; S]) -> [u64; S] {
        /// Most texts are short, and a short buffer is quickly cleared.
        const SHORT: usize = 32;
        /// Longer keys are rare; from here on the streaming form costs no more.
        const LONG: usize = 256;
        self.encode(|tag, payload| {
            if payload.len() < SHORT {
                one_shot::<SHORT, S>(tag, payload, seeds)
            } else if payload.len() < LONG {
                one_shot::<LONG, S>(tag, payload, seeds)
            } else {
                seeds.map(|seed| {
                    let mut stream = xxh3::Xxh3::with_seed(seed);
                    stream.update(&[tag]);
                    stream.update(payload);
                    stream.digest()
                })
            }
        })
    }
}

/// Hashes a tag and a payload of less than `N` bytes as one.
#[inline(always)]
fn one_shot<const N: usize, const S: usize>(tag: u8, payload: &[u8], seeds: [u64; S]) -> [u64; S] {
    let mut text = [0; N];
    text[0] = tag;
    text[1..=payload.len()].copy_from_slice(payload);
    let text = &text[..=payload.len()];
    let mut hashes = [0; S];
    // A loop is unrolled, where the closure of a `map` becomes a call.
    for (hash, seed) in hashes.iter_mut().zip(seeds) {
        *hash = xxh3::xxh3_64_with_seed(text, seed);
    }
    hashes
}

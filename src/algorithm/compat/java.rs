//! Java's `hashCode` of the values that were bound as shard keys, and what is made of it.
//!
//! No crate does this: it is a few lines each, checked against Java 17.

use crate::key::KeyValue;

/// The Java type of the value that the existing fleet binds. It matters: the hash of `-1` as an
/// `Integer` is another one than as a `Long`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JavaType {
    /// `java.lang.Integer`, also `Short` and `Byte`: integer keys of 32 bits.
    Integer,
    /// `java.lang.Long`: integer keys of 64 bits.
    Long,
    /// `java.math.BigInteger`: integer keys.
    BigInteger,
    /// `java.lang.String`: text keys.
    String,
    /// `java.util.UUID`: UUID keys.
    Uuid,
    /// `java.math.BigDecimal`: text keys such as `5.0`, whose digits after the point count.
    BigDecimal,
    /// `java.lang.Double`: text keys such as `5` or `0.5`.
    Double,
    /// `java.lang.Boolean`: the text keys `true` and `false`.
    Boolean,
}

impl JavaType {
    pub(crate) const ALL: [(Self, &'static str); 8] = [
        (Self::Integer, "Integer"),
        (Self::Long, "Long"),
        (Self::BigInteger, "BigInteger"),
        (Self::String, "String"),
        (Self::Uuid, "UUID"),
        (Self::BigDecimal, "BigDecimal"),
        (Self::Double, "Double"),
        (Self::Boolean, "Boolean"),
    ];

    /// Its name in a configuration, which is Java's.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        let known = Self::ALL.iter().find(|(java, _)| *java == self);
        known.map_or("", |(_, name)| name)
    }

    /// The hash of a key as a value of this type; `None` where it is none.
    pub(super) fn hash(self, key: KeyValue<'_>) -> Option<i32> {
        match (self, key) {
            (Self::Integer, KeyValue::Integer(number)) => i32::try_from(number).ok(),
            (Self::Long, KeyValue::Integer(number)) => i64::try_from(number).ok().map(long),
            (Self::BigInteger, KeyValue::Integer(number)) => {
                Some(big_integer(number < 0, number.unsigned_abs()))
            }
            (Self::BigInteger, KeyValue::BigInteger(number)) => Some(big_integer(false, number)),
            (Self::String, KeyValue::Text(text)) => Some(string(text)),
            (Self::Uuid, KeyValue::Uuid(bytes)) => Some(uuid(*bytes)),
            (Self::BigDecimal, KeyValue::Text(text)) => big_decimal(text),
            (Self::Double, KeyValue::Text(text)) => {
                let number: f64 = text.parse().ok()?;
                number.is_finite().then(|| long(number.to_bits() as i64))
            }
            (Self::Boolean, KeyValue::Text("true")) => Some(1231),
            (Self::Boolean, KeyValue::Text("false")) => Some(1237),
            _ => None,
        }
    }
}

/// `String.hashCode`: over the UTF-16 code units, in 32 bits.
pub(super) fn string(text: &str) -> i32 {
    text.encode_utf16().fold(0_i32, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    })
}

/// `Long.hashCode`.
pub(super) fn long(number: i64) -> i32 {
    (number ^ ((number as u64) >> 32) as i64) as i32
}

/// `UUID.hashCode`.
fn uuid(bytes: [u8; 16]) -> i32 {
    let both = u128::from_be_bytes(bytes);
    long(((both >> 64) as u64 ^ both as u64) as i64)
}

/// `BigInteger.hashCode`: over the magnitude in words of 32 bits, from the highest that is not 0.
fn big_integer(negative: bool, magnitude: u128) -> i32 {
    let words = [96, 64, 32, 0].map(|shift| (magnitude >> shift) as u32);
    // A leading zero leaves the hash at 0.
    let hash = words.into_iter().fold(0_i32, |hash, word| {
        hash.wrapping_mul(31).wrapping_add(word as i32)
    });
    if negative { hash.wrapping_neg() } else { hash }
}

/// `BigDecimal.hashCode`, of digits with or without a point.
fn big_decimal(text: &str) -> Option<i32> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let unscaled: u128 = digits.parse().ok()?;
    let negative = text.starts_with('-') && unscaled > 0;
    let scale = i32::try_from(fraction.len()).ok()?;
    let hash = big_integer(negative, unscaled);
    Some(hash.wrapping_mul(31).wrapping_add(scale))
}

/// The index in a fleet that spreads the bits of `hashCode` as `HashMap` does and takes the lowest
/// ones; `size` is a power of two.
pub(super) fn perturbed(text: &str, size: u32) -> u32 {
    let hash = string(text) as u32;
    (hash ^ (hash >> 16)) & (size - 1)
}

/// The number that bit mixing makes of a key: 64 bits mixed, folded into 32.
pub(super) fn bit_mix(key: i64) -> i32 {
    let mut hash = key as u64;
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    (hash ^ (hash >> 32)) as i32
}

/// Database and table of a mixed number.
pub(super) fn split(mixed: i32, databases: u32, tables: u32) -> (u32, u32) {
    let (databases, tables) = (i64::from(databases), i64::from(tables));
    let mixed = i64::from(mixed);
    // Java's division cuts off, its floorMod does not.
    let table = (mixed / databases).rem_euclid(tables);
    (mixed.rem_euclid(databases) as u32, table as u32)
}

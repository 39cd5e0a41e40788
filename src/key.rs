//! The values that decide where a row lives, and the one form in which they are hashed.

mod composite;
mod convert;
#[cfg(feature = "config")]
mod parse;
mod row;
#[cfg(test)]
mod tests;
mod value;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

pub use composite::CompositeType;
pub use convert::ToShardKey;
pub(crate) use convert::days_of;
#[cfg(feature = "config")]
pub use parse::ParseKeyError;
#[cfg(any(feature = "r2d2", feature = "bb8"))]
pub(crate) use row::check_keyspace;
pub use row::{HasShardKey, InsertChecked};
pub(crate) use value::{KeyValue, NoValue};

/// The value that decides where a row lives, in its typed form.
///
/// Keys are made by [`ToShardKey`], and equal values make equal keys whatever their Rust type:
/// `7i16`, `7u64` and `7i64` are one key. Values of different kinds never mix: a keyspace declares
/// its [`KeyType`], and `"7"` asked of an integer keyspace is
/// [`Error::KeyType`](crate::Error::KeyType), not a guess.
///
/// ```
/// use diesel_sharded::{ShardKey, ToShardKey};
///
/// assert_eq!(7i16.to_shard_key(), 7u64.to_shard_key());
/// assert_ne!(7i16.to_shard_key(), "7".to_shard_key());
/// assert_eq!(None::<i64>.to_shard_key(), ShardKey::Null);
/// ```
///
/// # The canonical bytes
///
/// Algorithms that hash see one byte sequence per key: a tag, then the payload. **This format is
/// frozen**: a change of it would move rows away from where they are looked for.
///
/// | key | tag | payload |
/// |---|---|---|
/// | integer up to `i128::MAX` | `0x01` | 16 bytes, two's complement, little-endian |
/// | integer above `i128::MAX` | `0x01` | 16 bytes unsigned, little-endian, then `0x00` |
/// | text | `0x02` | its UTF-8, after the keyspace's [`Normalize`](crate::Normalize) |
/// | UUID | `0x03` | its 16 bytes in the order they are written |
/// | bytes | `0x04` | themselves |
/// | date | `0x05` | days since 1970-01-01, 4 bytes, two's complement, little-endian |
/// | timestamp | `0x06` | microseconds since 1970-01-01 00:00:00 UTC, 8 bytes, two's complement, little-endian |
/// | composite | `0x07` | for each part: the length of its canonical bytes in 4 bytes, little-endian, then these bytes |
///
/// The other keys have no bytes and no place.
///
/// # What is a UUID
///
/// A UUID is its 16 bytes, however it is spelled, but only a value of the type `uuid::Uuid` (or
/// [`ShardKey::Uuid`]) is one. Its text (`"67e55044-.."`) is a text key and `[u8; 16]` is a bytes
/// key; asked of a UUID keyspace, both are [`Error::KeyType`](crate::Error::KeyType). Parse the text
/// first.
///
/// # Text and collations
///
/// Text is compared byte by byte. A database whose key column has a case-blind collation (the
/// default of MySQL and MariaDB) takes `abc`, `ABC`, `ábc` and `abc` with a trailing blank for one
/// value, while here they are four keys: see [`Normalize`](crate::Normalize) for what can be done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShardKey<'a> {
    /// No value: `None`, SQL's `NULL`. A row without a key has no shard.
    Null,
    /// A whole number up to `i128::MAX`.
    Integer(i128),
    /// A whole number above `i128::MAX`; made by [`ShardKey::from`] a `u128`, which sorts out the
    /// smaller ones.
    #[non_exhaustive]
    BigInteger(u128),
    /// Text.
    Text(Cow<'a, str>),
    /// The 16 bytes of a UUID.
    Uuid([u8; 16]),
    /// Bytes.
    Bytes(Cow<'a, [u8]>),
    /// A calendar day, in days since 1970-01-01.
    Date(i32),
    /// A point in time.
    ///
    /// Databases keep microseconds, and a row must be found again under the value that was stored.
    /// So a point in time that is finer than a microsecond is refused
    /// ([`Error::KeyType`](crate::Error::KeyType)) instead of being rounded one way here and
    /// another way there. A column may be coarser still (MySQL's plain `TIMESTAMP` and `DATETIME`
    /// keep whole seconds): round keys to the precision of the column.
    Timestamp {
        /// Whole microseconds since 1970-01-01 00:00:00 UTC, rounded down.
        micros: i64,
        /// What is left of a microsecond, in nanoseconds: anything but 0 is refused.
        sub_micro_nanos: u16,
    },
    /// A date and time without a time zone, and so no point in time: always refused
    /// ([`Error::KeyType`](crate::Error::KeyType)). Convert it, with chrono by `.and_utc()`.
    NaiveTimestamp,
    /// Several values that together decide where a row lives, in the order of the keyspace's type;
    /// made of tuples. A part is no composite itself, and none of them may be null.
    Composite(Vec<ShardKey<'a>>),
}

impl ShardKey<'_> {
    /// The same key, borrowing its text or bytes from this one.
    #[must_use]
    #[inline]
    pub fn borrowed(&self) -> ShardKey<'_> {
        match self {
            Self::Null => ShardKey::Null,
            Self::Integer(number) => ShardKey::Integer(*number),
            Self::BigInteger(number) => ShardKey::BigInteger(*number),
            Self::Text(text) => ShardKey::Text(Cow::Borrowed(text)),
            Self::Uuid(uuid) => ShardKey::Uuid(*uuid),
            Self::Bytes(bytes) => ShardKey::Bytes(Cow::Borrowed(bytes)),
            Self::Date(days) => ShardKey::Date(*days),
            Self::Timestamp {
                micros,
                sub_micro_nanos,
            } => ShardKey::Timestamp {
                micros: *micros,
                sub_micro_nanos: *sub_micro_nanos,
            },
            Self::NaiveTimestamp => ShardKey::NaiveTimestamp,
            Self::Composite(parts) => {
                ShardKey::Composite(parts.iter().map(ShardKey::borrowed).collect())
            }
        }
    }

    /// The same key, owning its text or bytes.
    #[must_use]
    pub fn into_owned(self) -> ShardKey<'static> {
        match self {
            Self::Null => ShardKey::Null,
            Self::Integer(number) => ShardKey::Integer(number),
            Self::BigInteger(number) => ShardKey::BigInteger(number),
            Self::Text(text) => ShardKey::Text(Cow::Owned(text.into_owned())),
            Self::Uuid(uuid) => ShardKey::Uuid(uuid),
            Self::Bytes(bytes) => ShardKey::Bytes(Cow::Owned(bytes.into_owned())),
            Self::Date(days) => ShardKey::Date(days),
            Self::Timestamp {
                micros,
                sub_micro_nanos,
            } => ShardKey::Timestamp {
                micros,
                sub_micro_nanos,
            },
            Self::NaiveTimestamp => ShardKey::NaiveTimestamp,
            Self::Composite(parts) => {
                ShardKey::Composite(parts.into_iter().map(ShardKey::into_owned).collect())
            }
        }
    }

    /// What an algorithm may see of this key, or why there is nothing to see.
    #[inline(always)]
    pub(crate) fn value(&self) -> Result<KeyValue<'_>, NoValue> {
        Ok(match self {
            Self::Integer(number) => KeyValue::Integer(*number),
            Self::BigInteger(number) => KeyValue::BigInteger(*number),
            Self::Text(text) => KeyValue::Text(text),
            Self::Uuid(uuid) => KeyValue::Uuid(uuid),
            Self::Bytes(bytes) => KeyValue::Bytes(bytes),
            Self::Date(days) => KeyValue::Date(*days),
            Self::Timestamp {
                micros,
                sub_micro_nanos: 0,
            } => KeyValue::Timestamp(*micros),
            Self::Timestamp { .. } => return Err(NoValue::Precision),
            Self::Null => return Err(NoValue::Null),
            Self::NaiveTimestamp => return Err(NoValue::NoZone),
            Self::Composite(parts) => KeyValue::Composite(composite::checked(parts)?),
        })
    }
}

impl From<u128> for ShardKey<'_> {
    #[inline]
    fn from(number: u128) -> Self {
        match i128::try_from(number) {
            Ok(number) => Self::Integer(number),
            Err(_) => Self::BigInteger(number),
        }
    }
}

/// The key as an error or a log line shows it: `42`, `"abc"`, `2024-02-29`. Long text is cut.
impl fmt::Display for ShardKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// An error must not carry a whole document that somebody used as a key.
        const SHOWN: usize = 64;
        match self {
            Self::Null => f.write_str("null"),
            Self::Integer(number) => write!(f, "{number}"),
            Self::BigInteger(number) => write!(f, "{number}"),
            Self::Text(text) => match text.char_indices().nth(SHOWN) {
                None => write!(f, "{text:?}"),
                Some((cut, _)) => write!(f, "{:?}..", &text[..cut]),
            },
            Self::Uuid(bytes) => {
                for (i, byte) in bytes.iter().enumerate() {
                    let dash = if matches!(i, 4 | 6 | 8 | 10) { "-" } else { "" };
                    write!(f, "{dash}{byte:02x}")?;
                }
                Ok(())
            }
            Self::Bytes(bytes) => {
                f.write_str("0x")?;
                for byte in bytes.iter().take(SHOWN) {
                    write!(f, "{byte:02x}")?;
                }
                f.write_str(if bytes.len() > SHOWN { ".." } else { "" })
            }
            Self::Date(days) => write!(f, "{}", Day(i64::from(*days))),
            Self::Timestamp {
                micros,
                sub_micro_nanos,
            } => {
                const DAY: i64 = 86_400_000_000;
                let of_day = micros.rem_euclid(DAY);
                let seconds = of_day / 1_000_000;
                write!(
                    f,
                    "{}T{:02}:{:02}:{:02}.{:06}",
                    Day(micros.div_euclid(DAY)),
                    seconds / 3600,
                    seconds / 60 % 60,
                    seconds % 60,
                    of_day % 1_000_000,
                )?;
                match sub_micro_nanos {
                    0 => f.write_str("Z"),
                    nanos => write!(f, "{nanos:03}Z"),
                }
            }
            Self::NaiveTimestamp => f.write_str("a timestamp without a time zone"),
            Self::Composite(parts) => composite::fmt_parts(parts, f),
        }
    }
}

/// Days since 1970-01-01, shown as year, month and day of the Gregorian calendar.
struct Day(i64);

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Counted in eras of 400 years that begin on 1 March, so that the leap day comes last:
        // "civil from days" of https://howardhinnant.github.io/date_algorithms.html
        let from_march = self.0 + 719_468;
        let era = from_march.div_euclid(146_097);
        let of_era = from_march.rem_euclid(146_097);
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        let (month, next) = if month < 10 {
            (month + 3, 0)
        } else {
            (month - 9, 1)
        };
        let year = era * 400 + year_of_era + next;
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

/// The kind of values a keyspace takes as shard keys.
///
/// ```
/// use diesel_sharded::KeyType;
///
/// assert_eq!("uuid".parse::<KeyType>()?, KeyType::Uuid);
/// assert_eq!(KeyType::Uuid.as_str(), "uuid");
/// # Ok::<(), diesel_sharded::ParseWordError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeyType {
    /// Whole numbers of any width.
    #[default]
    Integer,
    /// Text.
    Text,
    /// UUIDs.
    Uuid,
    /// Bytes.
    Bytes,
    /// Calendar days.
    Date,
    /// Points in time, in microseconds.
    Timestamp,
    /// Several values together, each of a type of its own.
    Composite(CompositeType),
}

impl KeyType {
    /// The types that are no composite.
    const SIMPLE: [Self; 6] = [
        Self::Integer,
        Self::Text,
        Self::Uuid,
        Self::Bytes,
        Self::Date,
        Self::Timestamp,
    ];

    /// The word for it in a configuration: `integer`, `text`, `uuid`, `bytes`, `date` or
    /// `timestamp`. A composite type is written as the list of its parts there, and is `composite`
    /// here; its [`Display`](fmt::Display) shows the parts.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Integer => "integer",
            Self::Text => "text",
            Self::Uuid => "uuid",
            Self::Bytes => "bytes",
            Self::Date => "date",
            Self::Timestamp => "timestamp",
            Self::Composite(_) => "composite",
        }
    }
}

impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Composite(parts) => f.pad(&parts.to_string()),
            simple => f.pad(simple.as_str()),
        }
    }
}

impl FromStr for KeyType {
    type Err = ParseWordError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::SIMPLE.into_iter().find(|kind| kind.as_str() == text);
        known.ok_or_else(|| {
            ParseWordError::new("key type", text, Self::SIMPLE.map(Self::as_str).as_slice())
        })
    }
}

/// A word that is none of those a setting takes; the text of the error lists them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} {text:?}: use one of {known}")]
pub struct ParseWordError {
    what: &'static str,
    text: String,
    known: String,
}

impl ParseWordError {
    pub(crate) fn new(what: &'static str, text: &str, known: &[&str]) -> Self {
        Self {
            what,
            text: text.to_owned(),
            known: known.join(", "),
        }
    }
}

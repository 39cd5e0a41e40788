//! From Rust values to shard keys.

use std::borrow::Cow;
use std::num::NonZero;
use std::rc::Rc;
use std::sync::Arc;

use super::ShardKey;

/// A value that can be a shard key.
///
/// It is implemented for the integers of every width, text, bytes, `Option` (`None` is
/// [`ShardKey::Null`]), references and smart pointers to all these, tuples of two to eight of them
/// (a composite key) and, under the features of their names, for the types of `uuid` and `chrono`. It is not implemented for floats, `bool` and
/// `char`: floats have no dependable equality, and the others are no keys.
///
/// # Newtypes
///
/// Pass the inner value on:
///
/// ```
/// use diesel_sharded::{ShardKey, ToShardKey};
///
/// struct UserId(i64);
///
/// impl ToShardKey for UserId {
///     fn to_shard_key(&self) -> ShardKey<'_> {
///         self.0.to_shard_key()
///     }
/// }
///
/// struct Order {
///     user: Option<UserId>,
/// }
///
/// let order = Order { user: Some(UserId(7)) };
/// assert_eq!(order.user.to_shard_key(), 7.to_shard_key());
/// ```
///
/// An implementation must be pure: two values that the database takes for equal must give the same
/// key for ever, else a row that was written under one is not found under the other.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no shard key",
    label = "cannot be a shard key",
    note = "shard keys are integers, text, UUIDs, bytes, dates and timestamps (features `uuid` and `chrono`); for a newtype, implement `ToShardKey` by passing its inner value on"
)]
pub trait ToShardKey {
    /// The value as a shard key; text and bytes are borrowed, nothing is copied.
    fn to_shard_key(&self) -> ShardKey<'_>;
}

impl ToShardKey for ShardKey<'_> {
    #[inline]
    fn to_shard_key(&self) -> ShardKey<'_> {
        self.borrowed()
    }
}

macro_rules! integers {
    (|$number:ident| $key:expr; $($integer:ty),*) => {$(
        impl ToShardKey for $integer {
            #[inline]
            fn to_shard_key(&self) -> ShardKey<'_> {
                let $number = *self;
                $key
            }
        }

        impl ToShardKey for NonZero<$integer> {
            #[inline]
            fn to_shard_key(&self) -> ShardKey<'_> {
                let $number = self.get();
                $key
            }
        }
    )*};
}

integers!(|number| ShardKey::Integer(i128::from(number)); i8, i16, i32, i64, u8, u16, u32, u64);
integers!(|number| ShardKey::Integer(number); i128);
// No target of Rust has pointers of more than 64 bits, so nothing is cut off.
integers!(|number| ShardKey::Integer(number as i128); isize, usize);
integers!(|number| ShardKey::from(number); u128);

impl ToShardKey for str {
    #[inline]
    fn to_shard_key(&self) -> ShardKey<'_> {
        ShardKey::Text(Cow::Borrowed(self))
    }
}

impl ToShardKey for String {
    #[inline]
    fn to_shard_key(&self) -> ShardKey<'_> {
        ShardKey::Text(Cow::Borrowed(self))
    }
}

impl ToShardKey for [u8] {
    #[inline]
    fn to_shard_key(&self) -> ShardKey<'_> {
        ShardKey::Bytes(Cow::Borrowed(self))
    }
}

impl ToShardKey for Vec<u8> {
    #[inline]
    fn to_shard_key(&self) -> ShardKey<'_> {
        ShardKey::Bytes(Cow::Borrowed(self))
    }
}

impl<const N: usize> ToShardKey for [u8; N] {
    #[inline]
    fn to_shard_key(&self) -> ShardKey<'_> {
        ShardKey::Bytes(Cow::Borrowed(self))
    }
}

impl<T: ToShardKey> ToShardKey for Option<T> {
    #[inline]
    fn to_shard_key(&self) -> ShardKey<'_> {
        match self {
            Some(key) => key.to_shard_key(),
            None => ShardKey::Null,
        }
    }
}

impl<T: ToShardKey + ToOwned + ?Sized> ToShardKey for Cow<'_, T> {
    #[inline]
    fn to_shard_key(&self) -> ShardKey<'_> {
        (**self).to_shard_key()
    }
}

macro_rules! pointers {
    ($($pointer:ty),* $(,)?) => {$(
        impl<T: ToShardKey + ?Sized> ToShardKey for $pointer {
            #[inline]
            fn to_shard_key(&self) -> ShardKey<'_> {
                (**self).to_shard_key()
            }
        }
    )*};
}

pointers!(&T, &mut T, Box<T>, Rc<T>, Arc<T>);

macro_rules! tuples {
    ($($($part:ident $at:tt)+;)+) => {$(
        /// A composite key of these parts, in this order.
        impl<$($part: ToShardKey),+> ToShardKey for ($($part,)+) {
            #[inline]
            fn to_shard_key(&self) -> ShardKey<'_> {
                ShardKey::Composite(vec![$(self.$at.to_shard_key()),+])
            }
        }
    )+};
}

tuples! {
    A 0 B 1;
    A 0 B 1 C 2;
    A 0 B 1 C 2 D 3;
    A 0 B 1 C 2 D 3 E 4;
    A 0 B 1 C 2 D 3 E 4 F 5;
    A 0 B 1 C 2 D 3 E 4 F 5 G 6;
    A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7;
}

/// Its 16 bytes.
#[cfg(feature = "uuid")]
impl ToShardKey for uuid::Uuid {
    #[inline]
    fn to_shard_key(&self) -> ShardKey<'_> {
        ShardKey::Uuid(self.into_bytes())
    }
}

#[cfg(feature = "chrono")]
impl ToShardKey for chrono::NaiveDate {
    #[inline]
    fn to_shard_key(&self) -> ShardKey<'_> {
        /// The number that chrono gives to 1970-01-01.
        const EPOCH: i32 = 719_163;
        ShardKey::Date(chrono::Datelike::num_days_from_ce(self) - EPOCH)
    }
}

/// The instant, in whatever zone it is told. A leap second counts as the second after it, as Diesel
/// stores it.
#[cfg(feature = "chrono")]
impl<Tz: chrono::TimeZone> ToShardKey for chrono::DateTime<Tz> {
    #[inline]
    fn to_shard_key(&self) -> ShardKey<'_> {
        ShardKey::Timestamp {
            micros: self.timestamp_micros(),
            sub_micro_nanos: (self.timestamp_subsec_nanos() % 1_000) as u16,
        }
    }
}

/// Always refused: without a time zone it is no point in time. Use `.and_utc()`.
#[cfg(feature = "chrono")]
impl ToShardKey for chrono::NaiveDateTime {
    #[inline]
    fn to_shard_key(&self) -> ShardKey<'_> {
        ShardKey::NaiveTimestamp
    }
}

/// Days of the calendar since 1970-01-01.
pub(crate) fn days_of(day: jiff::civil::Date) -> i32 {
    let epoch = jiff::civil::Date::constant(1970, 1, 1);
    // A span of days between two days of the calendar is never too long to count.
    day.since(epoch).unwrap_or_default().get_days()
}

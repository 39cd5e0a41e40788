//! Keys as points of an order: what `range` and pruning compare.

use std::cmp::Ordering;
use std::ops::{Bound, RangeBounds};

use crate::key::{KeyType, KeyValue, NoValue, ShardKey, ToShardKey};

/// One simple key, or one part of a composite one, in its order: numbers, days and instants by
/// value, text, bytes and UUIDs byte by byte.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Number(i128),
    /// Above `i128::MAX`.
    Big(u128),
    Bytes(Box<[u8]>),
}

/// A key: one part, or those of a composite key.
pub(super) type Point = Vec<Part>;

impl Part {
    fn of(value: KeyValue<'_>) -> Self {
        match value {
            KeyValue::Integer(number) => Self::Number(number),
            KeyValue::BigInteger(number) => Self::Big(number),
            KeyValue::Date(days) => Self::Number(days.into()),
            KeyValue::Timestamp(micros) => Self::Number(micros.into()),
            KeyValue::Text(text) => Self::Bytes(text.as_bytes().into()),
            KeyValue::Bytes(bytes) => Self::Bytes(bytes.into()),
            KeyValue::Uuid(bytes) => Self::Bytes(bytes.as_slice().into()),
            // Parts of a composite key are none themselves.
            KeyValue::Composite(_) => Self::Bytes(Box::default()),
        }
    }

    /// This part, compared with a key of the same type; nothing is copied.
    #[inline]
    pub(super) fn compare(&self, value: KeyValue<'_>) -> Ordering {
        let bytes = match (self, value) {
            (Self::Number(part), KeyValue::Integer(number)) => return part.cmp(&number),
            (Self::Number(_), KeyValue::BigInteger(_)) => return Ordering::Less,
            (Self::Big(_), KeyValue::Integer(_)) => return Ordering::Greater,
            (Self::Big(part), KeyValue::BigInteger(number)) => return part.cmp(&number),
            (Self::Bytes(part), KeyValue::Text(text)) => (part, text.as_bytes()),
            (Self::Bytes(part), KeyValue::Bytes(bytes)) => (part, bytes),
            (Self::Bytes(part), KeyValue::Uuid(bytes)) => (part, bytes.as_slice()),
            (part, value) => return part.cmp(&Self::of(value)),
        };
        (**bytes.0).cmp(bytes.1)
    }

    /// The least key of a type.
    fn least(key: KeyType) -> Self {
        match key {
            KeyType::Integer => Self::Number(i128::MIN),
            KeyType::Date => Self::Number(i32::MIN.into()),
            KeyType::Timestamp => Self::Number(i64::MIN.into()),
            KeyType::Uuid => Self::Bytes([0; 16].into()),
            KeyType::Text | KeyType::Bytes | KeyType::Composite(_) => Self::Bytes(Box::default()),
        }
    }

    /// The key after this one; `None` after the greatest.
    fn next(&self, key: KeyType) -> Option<Self> {
        match self {
            Self::Number(number) => {
                let greatest = match key {
                    KeyType::Date => i32::MAX.into(),
                    KeyType::Timestamp => i64::MAX.into(),
                    _ => i128::MAX,
                };
                if *number < greatest {
                    Some(Self::Number(number + 1))
                } else if key == KeyType::Integer {
                    Some(Self::Big(i128::MAX as u128 + 1))
                } else {
                    None
                }
            }
            Self::Big(number) => number.checked_add(1).map(Self::Big),
            Self::Bytes(bytes) if key == KeyType::Uuid => {
                let bytes: [u8; 16] = bytes.as_ref().try_into().ok()?;
                let next = u128::from_be_bytes(bytes).checked_add(1)?;
                Some(Self::Bytes(next.to_be_bytes().into()))
            }
            // Nothing lies between a text and the same text with a zero byte behind it, which is
            // text as well.
            Self::Bytes(bytes) => {
                let mut next = bytes.to_vec();
                next.push(0);
                Some(Self::Bytes(next.into()))
            }
        }
    }
}

/// The point of a key that has a value.
pub(super) fn point(value: KeyValue<'_>) -> Point {
    match value {
        KeyValue::Composite(parts) => {
            let parts = parts.iter().filter_map(|part| part.value().ok());
            parts.map(Part::of).collect()
        }
        simple => vec![Part::of(simple)],
    }
}

fn types(key: KeyType) -> Vec<KeyType> {
    match key {
        KeyType::Composite(parts) => parts.parts().collect(),
        simple => vec![simple],
    }
}

/// The least point of a type.
pub(super) fn least(key: KeyType) -> Point {
    types(key).into_iter().map(Part::least).collect()
}

/// The point after this one; `None` after the greatest.
pub(super) fn next(point: &[Part], key: KeyType) -> Option<Point> {
    let types = types(key);
    let mut next = point.to_vec();
    for (part, key) in next.iter_mut().zip(&types).rev() {
        if let Some(greater) = part.next(*key) {
            *part = greater;
            return Some(next);
        }
        *part = Part::least(*key);
    }
    None
}

/// The keys from a point up to, not including, another one; `None` is the end of the line. Every
/// range of keys has this form, because every key but the greatest has one that comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyRange {
    pub(super) from: Point,
    pub(super) until: Option<Point>,
}

/// What is wrong with a bound of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BoundError {
    /// It has no value.
    NoValue(NoValue),
    /// It has another type than the keyspace's keys.
    Type(KeyType),
}

impl KeyRange {
    /// The range between two bounds; `None` where no key lies in it.
    pub(crate) fn new<K: ToShardKey>(
        bounds: &impl RangeBounds<K>,
        key: KeyType,
    ) -> Result<Option<Self>, BoundError> {
        let (from, until) = (bounds.start_bound(), bounds.end_bound());
        let at = |bound: &K| {
            let bound: ShardKey<'_> = bound.to_shard_key();
            let value = bound.value().map_err(BoundError::NoValue)?;
            if value.key_type() == key {
                Ok(point(value))
            } else {
                Err(BoundError::Type(value.key_type()))
            }
        };
        // Both are looked at before the range is found empty: a wrong bound is an error anyway.
        let from = match from {
            Bound::Unbounded => Some(least(key)),
            Bound::Included(bound) => Some(at(bound)?),
            Bound::Excluded(bound) => next(&at(bound)?, key),
        };
        let until = match until {
            Bound::Unbounded => None,
            Bound::Included(bound) => next(&at(bound)?, key),
            Bound::Excluded(bound) => Some(at(bound)?),
        };
        Ok(from
            .map(|from| Self { from, until })
            .filter(|range| !range.is_empty()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.until.as_ref().is_some_and(|until| *until <= self.from)
    }

    /// Whether a key lies both in this range and between two other points.
    pub(super) fn meets(&self, from: Option<&Point>, until: Option<&Point>) -> bool {
        let from = from.map_or(&self.from, |from| from.max(&self.from));
        let until = match (until, &self.until) {
            (None, None) => return true,
            (Some(until), None) | (None, Some(until)) => until,
            (Some(a), Some(b)) => a.min(b),
        };
        from < until
    }

    pub(super) fn holds(&self, point: &Point) -> bool {
        *point >= self.from && self.until.as_ref().is_none_or(|until| point < until)
    }

    /// The range as numbers, where the keys are single numbers that are not too big: from, and
    /// until.
    pub(super) fn numbers(&self) -> Option<(i128, Option<i128>)> {
        let [Part::Number(from)] = self.from.as_slice() else {
            return None;
        };
        match self.until.as_deref() {
            None => Some((*from, None)),
            Some([Part::Number(until)]) => Some((*from, Some(*until))),
            // The first number above all that fit.
            Some(_) => Some((*from, None)),
        }
    }
}

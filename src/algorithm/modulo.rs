//! Remainder and quotient of an integer key.

use std::num::NonZero;

use super::rule::{Problems, Spot};
use crate::key::KeyValue;

#[derive(Clone, Debug)]
pub(super) struct Modulo {
    count: NonZero<u32>,
}

impl Modulo {
    pub(super) fn build(shards: usize, count: u32, problems: &mut Problems) -> Option<Self> {
        if u32::try_from(shards) != Ok(count) {
            problems.add(
                "algorithm.count",
                format!(
                    "the count is {count}, but {shards} shard(s) are listed: the two must be equal, since the remainder is the position in the list"
                ),
            );
            return None;
        }
        NonZero::new(count).map(|count| Self { count })
    }

    /// `None` for what is no integer.
    #[inline(always)]
    pub(super) fn place(&self, key: KeyValue<'_>) -> Option<Spot> {
        // The divisor is positive, so no quotient overflows, not even that of the smallest number.
        match key {
            KeyValue::Integer(number) => Some(match i64::try_from(number) {
                Ok(number) => {
                    let count = i64::from(self.count.get());
                    Spot {
                        shard: number.rem_euclid(count) as usize,
                        spread: number.div_euclid(count) as u64,
                    }
                }
                Err(_) => self.place_wide(number),
            }),
            KeyValue::BigInteger(number) => {
                let count = u128::from(self.count.get());
                Some(Spot {
                    shard: (number % count) as usize,
                    spread: (number / count) as u64,
                })
            }
            _ => None,
        }
    }

    /// Dividing 128 bits costs several times as much, and almost no key needs it.
    #[cold]
    fn place_wide(&self, number: i128) -> Spot {
        let count = i128::from(self.count.get());
        Spot {
            shard: number.rem_euclid(count) as usize,
            spread: number.div_euclid(count) as u64,
        }
    }
}

//! The table numbers that a route carries.

use crate::name::KeyspaceName;

/// Which physical tables of one keyspace a route means.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash)]
pub(crate) struct TableNumbers {
    pub(crate) keyspace: KeyspaceName,
    pub(crate) which: Which,
    /// By which rule and tables of the keyspace the route was made: a number means nothing by others.
    pub(crate) placed_by: PlacedBy,
}

/// Tells the rule and the tables of a keyspace apart from those before and after a reload: half of their
/// fingerprint.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash)]
pub(crate) struct PlacedBy(pub(crate) u64);

/// See [`TableNumbers`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash)]
pub(crate) enum Which {
    /// The tables of a key with this spread: each sharded table of the keyspace has its number.
    Spread(u64),
    /// The tables with this number, of those that are split into `count`. The others have none.
    Number { number: u32, count: u32 },
}

impl TableNumbers {
    /// The number of a table that is split into `count`.
    #[inline]
    pub(crate) fn of(self, keyspace: KeyspaceName, count: u32) -> Option<u32> {
        if keyspace != self.keyspace {
            return None;
        }
        match self.which {
            // The remainder of a division by a u32 fits a u32.
            Which::Spread(spread) => Some((spread % u64::from(count.max(1))) as u32),
            Which::Number { number, count: of } => (of == count).then_some(number),
        }
    }

    /// Whether the route was made for a key, and not for a number.
    pub(crate) fn by_key(self) -> bool {
        matches!(self.which, Which::Spread(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_gives_every_count_its_number_and_a_number_only_its_own() {
        let (orders, other) = (
            KeyspaceName::intern("orders"),
            KeyspaceName::intern("other"),
        );
        let by_key = TableNumbers {
            keyspace: orders,
            which: Which::Spread(u64::MAX),
            placed_by: PlacedBy(1),
        };
        assert_eq!(by_key.of(orders, 8), Some(7));
        assert_eq!(by_key.of(orders, 10), Some(5));
        assert_eq!(by_key.of(orders, 0), Some(0));
        assert_eq!(by_key.of(other, 8), None);
        let by_number = TableNumbers {
            keyspace: orders,
            which: Which::Number {
                number: 3,
                count: 8,
            },
            placed_by: PlacedBy(1),
        };
        assert_eq!(by_number.of(orders, 8), Some(3));
        assert_eq!(by_number.of(orders, 16), None);
        assert!(by_key.by_key() && !by_number.by_key());
    }
}

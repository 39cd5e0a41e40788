//! The tables of a connection that was asked for by key, and what a route entered later makes of them.

use diesel::result::Error as DieselError;

use crate::error::{Error, TableMismatchCause};
use crate::name::{KeyspaceName, ShardName};
use crate::rewrite::TableNumbers;
use crate::route::{Located, stack};
use crate::telemetry;
use crate::topology::TopologyId;

/// The tables of the key that a connection was asked for by.
///
/// They hold until a route is entered that says otherwise. The route that was on top at the checkout
/// does not: whoever asks for a connection by key inside of it knows of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnTables {
    shard: ShardName,
    numbers: TableNumbers,
    /// What the route on top at the checkout meant.
    entered: Option<(ShardName, Option<TableNumbers>)>,
}

impl OwnTables {
    /// The tables of a key, for a connection that has been checked out here; `None`: its keyspace has
    /// none.
    pub(crate) fn of(at: Located, topology: TopologyId) -> Option<Self> {
        Some(Self {
            shard: at.shard,
            numbers: at.tables?,
            entered: stack::top(topology).map(|top| (top.shard, top.tables)),
        })
    }

    /// The tables, where no route is in force.
    #[cfg(feature = "r2d2")]
    #[inline]
    pub(crate) fn numbers(&self) -> TableNumbers {
        self.numbers
    }

    /// The tables that are meant under a route on top; `None`: none, or others than the connection's,
    /// which [`denied`](Self::denied) tells.
    pub(crate) fn under(&self, top: Option<Located>) -> Option<TableNumbers> {
        let means_own = match self.entered_since(top) {
            None => true,
            Some((shard, None)) => shard != self.shard,
            Some((_, Some(tables))) => tables.keyspace != self.numbers.keyspace,
        };
        means_own.then_some(self.numbers)
    }

    /// Why no table of the connection's keyspace can be meant, where a route on top means others of
    /// them.
    pub(crate) fn denied(&self, top: Option<Located>) -> Option<Denied> {
        let (_, tables) = self.entered_since(top)?;
        let other = tables.filter(|other| other.keyspace == self.numbers.keyspace)?;
        Some(Denied {
            keyspace: other.keyspace,
        })
    }

    /// What a route on top says, where it was not there at the checkout and is not one to the
    /// connection's own key.
    fn entered_since(&self, top: Option<Located>) -> Option<(ShardName, Option<TableNumbers>)> {
        let top = top?;
        let says = (top.shard, top.tables);
        // Also by the rule and tables of another time: the connection keeps to those of its own.
        let own = top.shard == self.shard
            && top.tables.is_some_and(|tables| {
                (tables.keyspace, tables.which) == (self.numbers.keyspace, self.numbers.which)
            });
        (!own && Some(says) != self.entered).then_some(says)
    }
}

/// The connection was asked for by one key, and a route to another key was entered since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Denied {
    keyspace: KeyspaceName,
}

impl Denied {
    #[cold]
    pub(crate) fn error(self, shard: ShardName) -> Error {
        Error::TableMismatch {
            shard,
            keyspace: self.keyspace,
            cause: TableMismatchCause::Connection,
        }
    }

    /// The same error, taken note of.
    pub(crate) fn told(self, shard: ShardName) -> Error {
        let error = self.error(shard);
        telemetry::refused(&error);
        error
    }

    /// The error of a statement that was made for no tables, with the reason why it has none.
    #[cold]
    pub(crate) fn explain(self, shard: ShardName, error: DieselError) -> DieselError {
        match Error::find(&error) {
            Some(Error::NoTableRoute { keyspace, .. }) if *keyspace == self.keyspace => {
                self.error(shard).into()
            }
            _ => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::{PlacedBy, Which};
    use crate::topology::Topology;

    fn numbers(keyspace: &str, spread: u64) -> TableNumbers {
        TableNumbers {
            keyspace: KeyspaceName::intern(keyspace),
            which: Which::Spread(spread),
            placed_by: PlacedBy(1),
        }
    }

    #[test]
    fn a_route_that_was_entered_since_is_not_passed_over() {
        let topology = Topology::builder()
            .shard("a", "a.db")
            .shard("b", "b.db")
            .build()
            .unwrap();
        let at = |shard: &str, tables| Located {
            tables,
            ..topology.with_current(|now| now.locate(shard)).unwrap()
        };
        let mine = numbers("orders", 1);
        let entered = at("b", Some(numbers("orders", 7)));
        let shard = at("a", None).shard;
        let own = OwnTables {
            shard,
            numbers: mine,
            entered: Some((entered.shard, entered.tables)),
        };
        let placed_otherwise = TableNumbers {
            placed_by: PlacedBy(2),
            ..mine
        };
        // The route on top; whether the connection's own tables are meant; whether it is denied.
        for (top, is_own, is_denied) in [
            (None, true, false),
            (Some(entered), true, false),
            (Some(at("a", Some(mine))), true, false),
            (Some(at("a", Some(placed_otherwise))), true, false),
            (Some(at("b", None)), true, false),
            (Some(at("b", Some(numbers("billing", 1)))), true, false),
            (Some(at("a", Some(numbers("billing", 1)))), true, false),
            (Some(at("a", None)), false, false),
            (Some(at("a", Some(numbers("orders", 2)))), false, true),
            (Some(at("b", Some(mine))), false, true),
        ] {
            assert_eq!(own.under(top), is_own.then_some(mine), "{top:?}");
            assert_eq!(own.denied(top).is_some(), is_denied, "{top:?}");
        }
        assert!(OwnTables::of(at("a", None), topology.id()).is_none());
    }
}

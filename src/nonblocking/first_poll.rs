//! What a statement was made under, looked at again where its future is first polled.
//!
//! diesel-async makes the text of a statement where it is called, so that is where its tables are chosen.
//! The route is a matter of where a future is polled (`with_route`), and the two need not agree.

use diesel::result::Error as DieselError;

use crate::driver::OwnTables;
use crate::error::{Error, TableMismatchCause};
use crate::name::{KeyspaceName, ShardName};
use crate::rewrite::TableNumbers;
use crate::route::{Located, stack};
use crate::telemetry;
use crate::topology::TopologyId;

/// See the module.
#[derive(Debug)]
pub(super) struct MadeUnder<'conn> {
    topology: TopologyId,
    /// `None`: the connection is bound to nothing, and the statement was refused.
    bound: Option<ShardName>,
    /// The connection may not be used under routes to other shards.
    watched: bool,
    own: Option<&'conn OwnTables>,
    /// The tables that were meant.
    numbers: Option<TableNumbers>,
    /// The statement names sharded tables.
    planned: bool,
}

impl<'conn> MadeUnder<'conn> {
    pub(super) fn new(
        topology: TopologyId,
        bound: Option<ShardName>,
        watched: bool,
        own: Option<&'conn OwnTables>,
        numbers: Option<TableNumbers>,
    ) -> Self {
        Self {
            topology,
            bound,
            watched,
            own,
            numbers,
            planned: false,
        }
    }

    /// The statement names sharded tables, and was made for those that were meant.
    pub(super) fn planned(&mut self) {
        self.planned = true;
    }

    /// What stands against sending the statement under the routes in force. Where none is, nothing
    /// does.
    #[inline]
    pub(super) fn refusal(&self) -> Option<Error> {
        if stack::is_empty() {
            return None;
        }
        let error = self.refusal_under(stack::top(self.topology)?)?;
        telemetry::refused(&error);
        Some(error)
    }

    fn refusal_under(&self, top: Located) -> Option<Error> {
        let bound = self.bound?;
        if self.watched && top.shard != bound {
            let routed = top.shard;
            return Some(Error::RouteMismatch { bound, routed });
        }
        if !self.planned || self.meant(top) == self.numbers {
            return None;
        }
        if let Some(denied) = self.own.and_then(|own| own.denied(Some(top))) {
            return Some(denied.error(bound));
        }
        Some(other_tables(bound, self.numbers?.keyspace))
    }

    /// What to answer where the statement was refused already; `None`: the same. An error that speaks of
    /// the route is about the one in force where the statement was made.
    pub(super) fn refused_again(&self, refused: &DieselError) -> Option<Error> {
        let top = stack::top(self.topology)?;
        let refused = Error::find(refused)?;
        let Some(bound) = self.bound else {
            let wanted = top
                .tables
                .filter(|_| matches!(refused, Error::NoRoute { .. }))?;
            return Some(other_tables(top.shard, wanted.keyspace));
        };
        let meant = self.meant(top);
        let other = match refused {
            Error::NoTableRoute { keyspace, .. } => meant.filter(|at| at.keyspace == *keyspace),
            Error::WrongTable { .. } | Error::StaleRoute { .. } => self.numbers,
            _ => return None,
        };
        if self.watched && top.shard != bound {
            let routed = top.shard;
            return Some(Error::RouteMismatch { bound, routed });
        }
        other
            .filter(|_| meant != self.numbers)
            .map(|other| other_tables(bound, other.keyspace))
    }

    /// The tables that a statement would mean which is made under this route.
    fn meant(&self, top: Located) -> Option<TableNumbers> {
        match self.own {
            Some(own) => own.under(Some(top)),
            None => top.tables.filter(|_| Some(top.shard) == self.bound),
        }
    }
}

#[cold]
fn other_tables(shard: ShardName, keyspace: KeyspaceName) -> Error {
    Error::TableMismatch {
        shard,
        keyspace,
        cause: TableMismatchCause::Statement,
    }
}

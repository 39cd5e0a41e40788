//! Everything an application does with a Diesel connection works through ours, on every backend:
//! with a connection of the manager, and with one of an outer pool.

use super::backend::{
    self, Conn, Fleet, Manager, NAME, Pool, PoolError, Pooled, Sharded, ids, insert, open, plain,
    whoami,
};

/// Runs a block twice, on fresh databases with the tables of `schema`: with a connection of the
/// manager, and with a pooled connection of an outer pool. The name stands for a `&mut` to it.
///
/// Wants [`both`] in scope.
macro_rules! through_both {
    (|$conn:ident| $block:block) => {{
        let fleet = both::fleet();
        let shards = fleet.manager();
        {
            let $conn: &mut both::Sharded = &mut shards.get_on("a").unwrap();
            $block
        }
        let pool = shards.clone().into_pool();
        let _route = shards.route("b").unwrap().enter().unwrap();
        let $conn: &mut both::Pooled = &mut pool.get().unwrap();
        $block
    }};
}
pub(crate) use through_both;

/// What [`through_both`] works with.
pub(crate) mod both {
    use super::Fleet;

    pub(crate) use super::super::backend::{Pooled, Sharded};
    pub(crate) use super::schema;

    pub(crate) fn fleet() -> Fleet {
        let fleet = Fleet::new(&["a", "b"]);
        for shard in ["a", "b"] {
            schema::create(&mut fleet.direct(shard));
        }
        fleet
    }
}

/// The backend's marker type.
type Db = <Conn as diesel::Connection>::Backend;

#[path = "surface/associations.rs"]
mod associations;
#[path = "surface/errors.rs"]
mod errors;
#[path = "surface/generic_code.rs"]
pub(crate) mod generic_code;
#[path = "surface/instrumentation.rs"]
mod instrumentation;
#[path = "surface/keys.rs"]
mod keys;
#[path = "surface/literals.rs"]
mod literals;
#[path = "surface/migrations.rs"]
mod migrations;
#[path = "surface/outer_pool.rs"]
pub(crate) mod outer_pool;
#[path = "surface/queries.rs"]
mod queries;
#[path = "surface/recorder.rs"]
pub(crate) mod recorder;
#[path = "surface/schema.rs"]
pub(crate) mod schema;
#[path = "surface/statement_cache.rs"]
mod statement_cache;
#[path = "surface/test_transactions.rs"]
mod test_transactions;
#[path = "surface/transactions.rs"]
mod transactions;
#[path = "surface/writes.rs"]
mod writes;

//! Everything an application does with a Diesel connection works through ours, on every backend:
//! with a connection of the manager, and with one of an outer r2d2 pool.

use super::backend::{Conn, Fleet, Manager, NAME, Sharded, ids, insert, whoami};

/// Runs a block twice, on fresh databases with the tables of `schema`: with a connection of the
/// manager, and with a pooled connection of an outer r2d2 pool. The name stands for a `&mut` to it.
macro_rules! through_both {
    (|$conn:ident| $block:block) => {{
        let fleet = super::Fleet::new(&["a", "b"]);
        for shard in ["a", "b"] {
            super::schema::create(&mut fleet.direct(shard));
        }
        let shards = fleet.manager();
        {
            let $conn: &mut diesel_sharded::blocking::ShardedConnection<super::Conn> =
                &mut shards.get_on("a").unwrap();
            $block
        }
        let pool = shards.clone().into_pool();
        let _route = shards.route("b").unwrap().enter().unwrap();
        let $conn: &mut super::Pooled = &mut pool.get().unwrap();
        $block
    }};
}

/// What an outer pool of the manager hands out.
type Pooled = diesel::r2d2::PooledConnection<
    diesel_sharded::blocking::ShardedConnectionManager<Conn>,
>;

/// The backend's marker type.
type Db = <Conn as diesel::Connection>::Backend;

#[path = "surface/associations.rs"]
mod associations;
#[path = "surface/errors.rs"]
mod errors;
#[path = "surface/generic_code.rs"]
mod generic_code;
#[path = "surface/instrumentation.rs"]
mod instrumentation;
#[path = "surface/keys.rs"]
mod keys;
#[path = "surface/migrations.rs"]
mod migrations;
#[path = "surface/outer_pool.rs"]
mod outer_pool;
#[path = "surface/queries.rs"]
mod queries;
#[path = "surface/raw_access.rs"]
mod raw_access;
#[path = "surface/recorder.rs"]
mod recorder;
#[path = "surface/schema.rs"]
mod schema;
#[path = "surface/statement_cache.rs"]
mod statement_cache;
#[path = "surface/test_transactions.rs"]
mod test_transactions;
#[path = "surface/transactions.rs"]
mod transactions;
#[path = "surface/writes.rs"]
mod writes;

//! Every form of a query of Diesel's builder again, on physical tables: the behaviour files of the plain
//! tables, compiled once more.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel_sharded::{KeyspaceConfig, RuleSpec};

use super::{Conn, Fleet, Manager, NAME};

/// Runs a block twice, on fresh databases with the tables of `schema` in four parts: with a connection of
/// the manager and with one of an outer pool, each under the route to one part. Afterwards the other
/// parts, and the tables with the logical names, are as empty as before.
macro_rules! through_both {
    (|$conn:ident| $block:block) => {{
        let fleet = both::fleet();
        let shards = both::manager(&fleet);
        let keyspace = shards.keyspace("forms").unwrap();
        {
            let _route = keyspace.table_route("a", 3).unwrap().enter().unwrap();
            let $conn: &mut both::Sharded = &mut shards.get().unwrap();
            $block
        }
        {
            let pool = shards.clone().into_pool();
            let _route = keyspace.table_route("b", 1).unwrap().enter().unwrap();
            let $conn: &mut both::Pooled = &mut pool.get().unwrap();
            $block
        }
        both::assert_rest_untouched(&fleet, &[("a", 3), ("b", 1)]);
    }};
}
pub(crate) use through_both;

/// What [`through_both`] works with.
pub(crate) mod both {
    use super::*;

    pub(crate) use super::super::super::backend::{Pooled, Sharded};
    pub(crate) use super::schema;

    const TABLES: [&str; 3] = ["posts", "users", "defaults"];
    const COUNT: u32 = 4;

    /// A connection on which the statements of the plain tables are about one part of them.
    struct Part<'c> {
        conn: &'c mut Conn,
        number: u32,
    }

    impl SimpleConnection for Part<'_> {
        fn batch_execute(&mut self, query: &str) -> QueryResult<()> {
            let mut query = query.to_owned();
            for table in TABLES {
                query = query.replace(table, &format!("{table}_{}", self.number));
            }
            self.conn.batch_execute(&query)
        }
    }

    pub(crate) fn fleet() -> Fleet {
        let fleet = Fleet::new(&["a", "b"]);
        for shard in ["a", "b"] {
            let conn = &mut fleet.direct(shard);
            schema::create(conn);
            for number in 0..COUNT {
                schema::create(&mut Part { conn, number });
            }
        }
        fleet
    }

    pub(crate) fn manager(fleet: &Fleet) -> Manager {
        // The forms are many, and none is about the shard key.
        let tables = TABLES.iter().fold(
            KeyspaceConfig::new(RuleSpec::hash(["a", "b"], 4096)),
            |keyspace, table| keyspace.table(table, "tenant", COUNT),
        );
        fleet.builder().keyspace("forms", tables).build().unwrap()
    }

    #[derive(QueryableByName)]
    struct Count {
        #[diesel(sql_type = diesel::sql_types::BigInt)]
        n: i64,
    }

    fn rows(conn: &mut Conn, table: &str) -> i64 {
        diesel::sql_query(format!("SELECT count(*) AS n FROM {table}"))
            .get_result::<Count>(conn)
            .unwrap()
            .n
    }

    pub(crate) fn assert_rest_untouched(fleet: &Fleet, used: &[(&str, u32)]) {
        for shard in ["a", "b"] {
            let conn = &mut fleet.direct(shard);
            for table in TABLES {
                assert_eq!(rows(conn, table), 0, "{table} of {shard}");
                for number in (0..COUNT).filter(|number| !used.contains(&(shard, *number))) {
                    let part = format!("{table}_{number}");
                    assert_eq!(rows(conn, &part), 0, "{part} of {shard}");
                }
            }
        }
    }
}

/// The backend's marker type.
type Db = <Conn as diesel::Connection>::Backend;

#[path = "../surface/associations.rs"]
mod associations;
#[path = "../surface/literals.rs"]
mod literals;
#[path = "../surface/queries.rs"]
mod queries;
#[path = "../surface/schema.rs"]
pub(crate) mod schema;
#[path = "../surface/writes.rs"]
mod writes;

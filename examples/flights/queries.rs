//! The table and the queries of the example, in ordinary Diesel.
//!
//! Diesel checks each query against the backend it runs on. An application with ONE backend writes
//! such queries as plain functions over `&mut ShardedConnection<PgConnection>`. The trait and the
//! macro are here only because this example runs on three.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel_migrations::{EmbeddedMigrations, MigrationHarness, embed_migrations};
use diesel_sharded::blocking::{NodeConnection, ShardedConnection};

use super::data::Flight;
use crate::Result;

diesel::table! {
    flights (id) {
        id -> BigInt,
        year -> SmallInt,
        month -> SmallInt,
        day -> SmallInt,
        sched_dep_time -> SmallInt,
        dep_delay -> Nullable<SmallInt>,
        arr_delay -> Nullable<SmallInt>,
        carrier -> Text,
        flight -> Integer,
        tailnum -> Nullable<Text>,
        origin -> Text,
        dest -> Text,
        air_time -> Nullable<SmallInt>,
        distance -> Integer,
    }
}

/// Rows per `INSERT`. A row has 14 values; a statement takes 32,766 of them on SQLite, and 65,535 on
/// PostgreSQL and MySQL.
const BATCH: usize = 1_000;

/// What the example asks of one shard.
pub(crate) trait FlightQueries: NodeConnection {
    /// The name of the backend, for people.
    const BACKEND: &'static str;

    /// Applies the migrations that are pending, and says how many they were.
    fn migrate(conn: &mut ShardedConnection<Self>) -> Result<usize>;

    /// Creates the table and its index as the migrations do, for the table of the route.
    fn create(conn: &mut ShardedConnection<Self>) -> QueryResult<()>;

    /// Inserts flights; tells `progress` after each batch how many they were.
    fn insert(
        conn: &mut ShardedConnection<Self>,
        rows: &[Flight],
        progress: impl FnMut(usize),
    ) -> QueryResult<()>;

    /// Deletes every flight.
    fn clear(conn: &mut ShardedConnection<Self>) -> QueryResult<usize>;

    /// Deletes the flights of one plane.
    fn delete_plane(conn: &mut ShardedConnection<Self>, plane: &str) -> QueryResult<usize>;

    /// How many flights the shard holds.
    fn count(conn: &mut ShardedConnection<Self>) -> QueryResult<i64>;

    /// How many flights of one plane the shard holds.
    fn count_plane(conn: &mut ShardedConnection<Self>, plane: &str) -> QueryResult<i64>;

    /// The planes with the most flights, most first.
    fn busiest_planes(
        conn: &mut ShardedConnection<Self>,
        planes: i64,
    ) -> QueryResult<Vec<(String, i64)>>;

    /// Flights per carrier.
    fn per_carrier(conn: &mut ShardedConnection<Self>) -> QueryResult<Vec<(String, i64)>>;
}

macro_rules! flight_queries {
    ($connection:ty, $backend:literal, $migrations:literal, $up:literal) => {
        impl FlightQueries for $connection {
            const BACKEND: &'static str = $backend;

            fn migrate(conn: &mut ShardedConnection<Self>) -> Result<usize> {
                const MIGRATIONS: EmbeddedMigrations = embed_migrations!($migrations);
                Ok(conn.run_pending_migrations(MIGRATIONS)?.len())
            }

            fn create(conn: &mut ShardedConnection<Self>) -> QueryResult<()> {
                conn.batch_execute(include_str!(concat!("../../", $migrations, $up)))
            }

            fn insert(
                conn: &mut ShardedConnection<Self>,
                rows: &[Flight],
                mut progress: impl FnMut(usize),
            ) -> QueryResult<()> {
                for batch in rows.chunks(BATCH) {
                    diesel::insert_into(flights::table)
                        .values(batch)
                        .execute(conn)?;
                    progress(batch.len());
                }
                Ok(())
            }

            fn clear(conn: &mut ShardedConnection<Self>) -> QueryResult<usize> {
                diesel::delete(flights::table).execute(conn)
            }

            fn delete_plane(conn: &mut ShardedConnection<Self>, plane: &str) -> QueryResult<usize> {
                diesel::delete(flights::table.filter(flights::tailnum.eq(plane))).execute(conn)
            }

            fn count(conn: &mut ShardedConnection<Self>) -> QueryResult<i64> {
                flights::table.count().get_result(conn)
            }

            fn count_plane(conn: &mut ShardedConnection<Self>, plane: &str) -> QueryResult<i64> {
                flights::table
                    .filter(flights::tailnum.eq(plane))
                    .count()
                    .get_result(conn)
            }

            fn busiest_planes(
                conn: &mut ShardedConnection<Self>,
                planes: i64,
            ) -> QueryResult<Vec<(String, i64)>> {
                flights::table
                    .filter(flights::tailnum.is_not_null())
                    .group_by(flights::tailnum)
                    .select((
                        flights::tailnum.assume_not_null(),
                        diesel::dsl::count_star(),
                    ))
                    .order((diesel::dsl::count_star().desc(), flights::tailnum.asc()))
                    .limit(planes)
                    .load(conn)
            }

            fn per_carrier(conn: &mut ShardedConnection<Self>) -> QueryResult<Vec<(String, i64)>> {
                flights::table
                    .group_by(flights::carrier)
                    .select((flights::carrier, diesel::dsl::count_star()))
                    .load(conn)
            }
        }
    };
}

flight_queries!(
    diesel::SqliteConnection,
    "SQLite",
    "migrations/example/sqlite",
    "/2013-01-01-000000_create_flights/up.sql"
);
#[cfg(feature = "postgres")]
flight_queries!(
    diesel::PgConnection,
    "PostgreSQL",
    "migrations/example/postgres",
    "/2013-01-01-000000_create_flights/up.sql"
);
#[cfg(feature = "mysql")]
flight_queries!(
    diesel::MysqlConnection,
    "MySQL or MariaDB",
    "migrations/example/mysql",
    "/2013-01-01-000000_create_flights/up.sql"
);

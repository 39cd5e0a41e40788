//! The work that is measured. Each operation is written down once: the clock (`main.rs`) and the
//! instruction counter (`scripts/instructions`) run the same loops.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::hint::black_box;
use std::path::Path;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use diesel::connection::{SimpleConnection, TransactionManager};
use diesel::prelude::*;
use diesel::r2d2::{ConnectionManager, Pool, R2D2Connection};
use diesel::result::Error as DieselError;
use diesel_sharded::blocking::{
    Keyspace, NodeConnection, ShardedConnection, ShardedConnectionManager,
};
use diesel_sharded::{
    FutureExt, KeyType, KeyspaceConfig, RuleSpec, ToShardKey, routed, sharded_transaction,
};

use crate::compare::Work;
use crate::support::keys::Random;

pub(crate) type Sharded<C> = ShardedConnectionManager<C>;

/// The operations that `scripts/instructions` can count, by name.
pub(crate) const NAMES: &[&str] = &[
    "get_sqlite",
    "get_sqlite_r2d2",
    "get_sqlite_r2d2_unchecked",
    "statement",
    "statement_inner",
    "statement_plain",
    "statement_in_transaction",
    "statement_table_route",
    "statement_plain_table",
    "on",
    "route_run",
    "stack_4_deep",
    "poll",
    "poll_routed",
    "keyspace_on",
    "routed_attribute",
    "transaction_for",
    "transaction_attribute",
    "locate_i64",
    "locate_text",
    "locate_uuid",
];

/// An operation by name; the folder is for its databases and must outlive it.
pub(crate) fn by_name(name: &str, folder: &Path) -> Option<Work> {
    let sqlite = || two_shards(&file(folder, "a.db"), &file(folder, "b.db"));
    Some(match name {
        "get_sqlite" => get(sqlite()),
        "get_sqlite_r2d2" => get_r2d2::<SqliteConnection>(&file(folder, "a.db"), true),
        "get_sqlite_r2d2_unchecked" => get_r2d2::<SqliteConnection>(&file(folder, "a.db"), false),
        "statement" => statement(&flights_in_memory()),
        "statement_inner" => statement_inner(&flights_in_memory()),
        "statement_plain" => statement_plain(),
        "statement_in_transaction" => statement_in_transaction().0,
        "statement_table_route" => super::tables::statement_table_route(4),
        "statement_plain_table" => super::tables::statement_table_route(1),
        "on" => on(sqlite()),
        "route_run" => route_run(&sqlite()),
        "stack_4_deep" => stack_4_deep(sqlite()),
        "poll" => poll(),
        "poll_routed" => poll_routed(&sqlite()),
        "keyspace_on" => keyspace_on(sqlite_keyspace(folder)),
        "routed_attribute" => routed_attribute(sqlite_keyspace(folder)),
        "transaction_for" => transaction_for(sqlite_keyspace(folder)),
        "transaction_attribute" => transaction_attribute(sqlite_keyspace(folder)),
        "locate_i64" => locate(keyspace(KeyType::Integer), integers()),
        "locate_text" => locate(keyspace(KeyType::Text), tail_numbers()),
        "locate_uuid" => locate(keyspace(KeyType::Uuid), uuids()),
        _ => return None,
    })
}

pub(crate) fn file(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

/// Shards `a` and `b` with the pool settings a user gets who sets none.
pub(crate) fn two_shards<C: NodeConnection>(a: &str, b: &str) -> Sharded<C> {
    ShardedConnectionManager::builder()
        .shard("a", a)
        .shard("b", b)
        .build()
        .expect("two shards")
}

/// A checkout under a route, and the return.
pub(crate) fn get<C: NodeConnection>(shards: Sharded<C>) -> Work {
    let route = shards.route("a").expect("shard a");
    Work::new(move |n| {
        let checked_out = route.run(|| {
            for _ in 0..n {
                drop(black_box(shards.get()?));
            }
            Ok::<_, DieselError>(())
        });
        checked_out.expect("checkouts");
    })
}

/// The same from Diesel's own pool; every setting but the check as it is by default.
pub(crate) fn get_r2d2<C: R2D2Connection + Send + 'static>(url: &str, check: bool) -> Work {
    let pool = Pool::builder()
        .test_on_check_out(check)
        .build(ConnectionManager::<C>::new(url))
        .expect("a plain pool");
    Work::new(move |n| {
        for _ in 0..n {
            drop(black_box(pool.get().expect("a connection")));
        }
    })
}

/// Many shards, of which a caller uses one.
pub(crate) fn many_shards(folder: &Path, count: usize) -> Sharded<SqliteConnection> {
    (0..count)
        .fold(ShardedConnectionManager::builder(), |builder, i| {
            builder.shard(format!("shard-{i:04}"), file(folder, &format!("{i}.db")))
        })
        .build()
        .expect("many shards")
}

/// Finding a shard by name, entering its route, checkout, return, leaving.
pub(crate) fn on_and_get(shards: Sharded<SqliteConnection>, shard: String) -> Work {
    Work::new(move |n| {
        for _ in 0..n {
            let checked_out = shards.on(black_box(&shard), || {
                drop(black_box(shards.get()?));
                Ok::<_, DieselError>(())
            });
            checked_out.expect("a checkout");
        }
    })
}

diesel::table! {
    flights (id) {
        id -> BigInt,
        tail_number -> Text,
        distance -> Integer,
    }
}

type Flight = (i64, String, i32);
type Shared = Rc<RefCell<ShardedConnection<SqliteConnection>>>;

pub(crate) const ROWS: i64 = 1_000;
pub(crate) const SCHEMA: &str = "
    CREATE TABLE flights (id INTEGER PRIMARY KEY, tail_number TEXT NOT NULL, distance INTEGER NOT NULL);
    WITH RECURSIVE ids (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM ids WHERE id < 1000)
    INSERT INTO flights SELECT id, 'N' || (10000 + id * 7), id * 3 FROM ids";

fn find_flight<C>(conn: &mut C, id: i64) -> Flight
where
    C: diesel::connection::LoadConnection<Backend = diesel::sqlite::Sqlite>,
{
    // Not `first`: its `LIMIT ?` makes SQLite plan the statement anew whenever it is bound.
    flights::table
        .find(id)
        .get_result(conn)
        .expect("a flight with this id")
}

pub(crate) fn find_flights<C>(conn: &mut C, n: u64)
where
    C: diesel::connection::LoadConnection<Backend = diesel::sqlite::Sqlite>,
{
    for i in 0..n {
        black_box(find_flight(conn, i as i64 % ROWS + 1));
    }
}

/// One connection to an in-memory database.
pub(crate) fn flights_in_memory() -> Shared {
    let shards = Sharded::<SqliteConnection>::builder()
        .shard("a", ":memory:")
        .build()
        .expect("one shard");
    let mut conn = shards.get_on("a").expect("its connection");
    conn.batch_execute(SCHEMA).expect("the flights");
    Rc::new(RefCell::new(conn))
}

/// One prepared SELECT by primary key.
pub(crate) fn statement(conn: &Shared) -> Work {
    let conn = Rc::clone(conn);
    Work::new(move |n| find_flights(&mut *conn.borrow_mut(), n))
}

/// The same on the physical connection beneath.
pub(crate) fn statement_inner(conn: &Shared) -> Work {
    let conn = Rc::clone(conn);
    Work::new(move |n| find_flights(conn.borrow_mut().inner().expect("the connection"), n))
}

/// The same on a connection of Diesel's that never belonged to us.
pub(crate) fn statement_plain() -> Work {
    let mut conn = SqliteConnection::establish(":memory:").expect("a connection");
    conn.batch_execute(SCHEMA).expect("the flights");
    Work::new(move |n| find_flights(&mut conn, n))
}

/// The statement under a route and in a transaction, where a connection of ours checks more; and
/// in a transaction of a connection of Diesel's.
pub(crate) fn statement_in_transaction() -> (Work, Work) {
    let shards = Sharded::<SqliteConnection>::builder()
        .shard("a", ":memory:")
        .build()
        .expect("one shard");
    let route = shards.route("a").expect("shard a");
    let mut conn = route.run(|| shards.get()).expect("its connection");
    conn.batch_execute(SCHEMA).expect("the flights");
    begin(&mut conn);
    let ours = Work::new(move |n| {
        let done = route.run(|| {
            find_flights(&mut conn, n);
            Ok::<_, DieselError>(())
        });
        done.expect("the route");
    });
    let mut plain = SqliteConnection::establish(":memory:").expect("a connection");
    plain.batch_execute(SCHEMA).expect("the flights");
    begin(&mut plain);
    (ours, Work::new(move |n| find_flights(&mut plain, n)))
}

/// Begins a transaction that nobody ends.
fn begin<C: Connection>(conn: &mut C) {
    C::TransactionManager::begin_transaction(conn).expect("a transaction");
}

/// Finding a shard by name, entering its route and leaving it.
pub(crate) fn on(shards: Sharded<SqliteConnection>) -> Work {
    Work::new(move |n| {
        for i in 0..n {
            let done = shards.on(black_box("a"), || Ok::<_, DieselError>(black_box(i)));
            let _ = black_box(done);
        }
    })
}

/// Polls of a future that is never ready.
pub(crate) fn poll() -> Work {
    polls(pending())
}

/// The same future with a route stack of its own.
pub(crate) fn poll_routed(shards: &Sharded<SqliteConnection>) -> Work {
    let route = shards.route("a").expect("shard a");
    polls(pending().with_route(route))
}

fn pending() -> impl Future<Output = ()> {
    poll_fn(|_| black_box(Poll::Pending))
}

fn polls(future: impl Future<Output = ()> + 'static) -> Work {
    let mut future = Box::pin(future);
    Work::new(move |n| {
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..n {
            let _ = black_box(future.as_mut().poll(&mut context));
        }
    })
}

/// Entering a route that is at hand, and leaving it.
pub(crate) fn route_run(shards: &Sharded<SqliteConnection>) -> Work {
    let route = shards.route("a").expect("shard a");
    Work::new(move |n| {
        for i in 0..n {
            let _ = black_box(route.run(|| Ok::<_, DieselError>(black_box(i))));
        }
    })
}

/// Four routes, one in the other.
pub(crate) fn stack_4_deep(shards: Sharded<SqliteConnection>) -> Work {
    let route = |name| shards.route(name).expect("a shard");
    let (a, b) = (route("a"), route("b"));
    Work::new(move |n| {
        for i in 0..n {
            let done = a.run(|| b.run(|| a.run(|| b.run(|| Ok::<_, DieselError>(black_box(i))))));
            let _ = black_box(done);
        }
    })
}

/// Eight shards in 4096 buckets; nothing is connected.
pub(crate) fn keyspace(key: KeyType) -> Keyspace<SqliteConnection> {
    let names: Vec<String> = (0..8).map(|i| format!("shard-{i}")).collect();
    names
        .iter()
        .fold(ShardedConnectionManager::builder(), |builder, name| {
            builder.shard(name.clone(), format!("{name}.db"))
        })
        .keyspace(
            "flights",
            KeyspaceConfig::new(RuleSpec::hash(&names, 4096).key(key)),
        )
        .build()
        .and_then(|shards| shards.keyspace("flights"))
        .expect("a keyspace")
}

const KEYS: usize = 1_024;

pub(crate) fn integers() -> Vec<i64> {
    let mut random = Random::new(1);
    (0..KEYS).map(|_| random.next() as i64).collect()
}

/// As on the tails of American aeroplanes: five or six characters.
pub(crate) fn tail_numbers() -> Vec<String> {
    let mut random = Random::new(2);
    (0..KEYS)
        .map(|_| format!("N{}AA", 10 + random.next() % 990))
        .collect()
}

pub(crate) fn uuids() -> Vec<uuid::Uuid> {
    let mut random = Random::new(3);
    (0..KEYS)
        .map(|_| uuid::Uuid::from_u64_pair(random.next(), random.next()))
        .collect()
}

/// From a key to its placement.
pub(crate) fn locate<K: ToShardKey + 'static>(
    keyspace: Keyspace<SqliteConnection>,
    keys: Vec<K>,
) -> Work {
    Work::new(move |n| {
        for i in 0..n {
            let placement = keyspace.locate(black_box(&keys[i as usize % KEYS]));
            black_box(placement.expect("a placement"));
        }
    })
}

fn sqlite_keyspace(folder: &Path) -> Keyspace<SqliteConnection> {
    ShardedConnectionManager::builder()
        .shard("a", file(folder, "a.db"))
        .shard("b", file(folder, "b.db"))
        .keyspace("k", KeyspaceConfig::new(RuleSpec::hash(["a", "b"], 4096)))
        .build()
        .and_then(|shards: Sharded<SqliteConnection>| shards.keyspace("k"))
        .expect("a keyspace over two shards")
}

/// The closure form that `routed_attribute` is compared with.
fn keyspace_on(keys: Keyspace<SqliteConnection>) -> Work {
    Work::new(move |n| {
        for key in 0..n as i64 {
            let answered = keys.on(&black_box(key), || Ok::<_, DieselError>(black_box(key)));
            answered.expect("a route");
        }
    })
}

fn routed_attribute(keys: Keyspace<SqliteConnection>) -> Work {
    #[routed(keyspace = keys, key = key)]
    fn work(keys: &Keyspace<SqliteConnection>, key: i64) -> Result<i64, DieselError> {
        Ok(black_box(key))
    }
    Work::new(move |n| {
        for key in 0..n as i64 {
            work(&keys, black_box(key)).expect("a route");
        }
    })
}

/// The closure form that `transaction_attribute` is compared with.
fn transaction_for(keys: Keyspace<SqliteConnection>) -> Work {
    Work::new(move |n| {
        for key in 0..n as i64 {
            let answered = keys.transaction_for(&black_box(key), |conn| {
                black_box(conn);
                Ok::<_, DieselError>(key)
            });
            answered.expect("a transaction");
        }
    })
}

fn transaction_attribute(keys: Keyspace<SqliteConnection>) -> Work {
    #[sharded_transaction(keyspace = keys, key = key)]
    fn work(
        keys: &Keyspace<SqliteConnection>,
        #[conn] conn: &mut ShardedConnection<SqliteConnection>,
        key: i64,
    ) -> Result<i64, DieselError> {
        black_box(conn);
        Ok(key)
    }
    Work::new(move |n| {
        for key in 0..n as i64 {
            work(&keys, black_box(key)).expect("a transaction");
        }
    })
}

//! One manager over shards of three backends: Diesel's `#[derive(MultiConnection)]`.

use diesel::connection::{Connection, SimpleConnection};
use diesel::prelude::*;
use diesel::r2d2::Pool;
use diesel::result::{DatabaseErrorKind, Error as DieselError};
use diesel::sql_types::BigInt;
use diesel_sharded::blocking::{ShardedConnection, ShardedConnectionManager};
use diesel_sharded::{Error, KeyspaceConfig, RollbackReason, RuleSpec};

use crate::support::{items, mysql, ours, pool, postgres, sqlite, whoami};

#[derive(diesel::MultiConnection)]
pub(crate) enum AnyConnection {
    Sqlite(diesel::SqliteConnection),
    Postgres(diesel::PgConnection),
    Mysql(diesel::MysqlConnection),
}

diesel_sharded::sharded_multi_connection!(AnyConnection {
    Sqlite(diesel::SqliteConnection),
    Postgres(diesel::PgConnection),
    Mysql(diesel::MysqlConnection),
});

type Sharded = ShardedConnection<AnyConnection>;
type Manager = ShardedConnectionManager<AnyConnection>;

const SHARDS: [&str; 3] = ["file", "pg", "my"];

struct Fleets {
    sqlite: sqlite::Fleet,
    postgres: postgres::Fleet,
    mysql: mysql::Fleet,
}

impl Fleets {
    fn new() -> Self {
        Self {
            sqlite: sqlite::Fleet::new(&["file"]),
            postgres: postgres::Fleet::new(&["pg"]),
            mysql: mysql::Fleet::new(&["my"]),
        }
    }

    fn manager(&self) -> Manager {
        Manager::builder()
            .shard("file", self.sqlite.url("file"))
            .shard("pg", self.postgres.url("pg"))
            .shard("my", self.mysql.url("my"))
            .keyspace("turns", KeyspaceConfig::new(RuleSpec::modulo(SHARDS)))
            .pool(pool(1))
            .build()
            .expect("the topology is valid")
    }

    fn rows(&self, shard: &str) -> Vec<i64> {
        match shard {
            "file" => self.sqlite.rows(shard),
            "pg" => self.postgres.rows(shard),
            _ => self.mysql.rows(shard),
        }
    }
}

fn insert(conn: &mut Sharded, id: i64) -> QueryResult<usize> {
    diesel::insert_into(items::table)
        .values(items::id.eq(id))
        .execute(conn)
}

fn name(conn: &mut Sharded) -> QueryResult<String> {
    whoami::table.select(whoami::name).first(conn)
}

#[test]
fn each_shard_is_reached_by_the_connection_its_url_names() {
    let fleets = Fleets::new();
    let shards = fleets.manager();
    for shard in SHARDS {
        assert_eq!(
            shards.on(shard, || name(&mut shards.get()?)).unwrap(),
            shard
        );
        let mut conn = shards.get_on(shard).unwrap();
        let kind = match conn.inner().unwrap() {
            AnyConnection::Sqlite(_) => "file",
            AnyConnection::Postgres(_) => "pg",
            AnyConnection::Mysql(_) => "my",
        };
        assert_eq!(kind, shard);
    }
    let foreign = ShardedConnectionManager::<diesel::SqliteConnection>::builder()
        .shard("pg", fleets.postgres.url("pg"))
        .build();
    assert!(matches!(foreign, Err(Error::Config(_))));
}

#[test]
fn transactions_commit_roll_back_and_nest_on_each() {
    let fleets = Fleets::new();
    let shards = fleets.manager();
    for shard in SHARDS {
        shards
            .transaction_on(shard, |conn| {
                insert(conn, 1)?;
                let inner = conn.transaction(|conn| {
                    insert(conn, 2)?;
                    Err::<(), _>(DieselError::RollbackTransaction)
                });
                assert_eq!(inner, Err(DieselError::RollbackTransaction));
                let twice = conn.transaction(|conn| insert(conn, 1));
                assert!(matches!(
                    twice,
                    Err(DieselError::DatabaseError(
                        DatabaseErrorKind::UniqueViolation,
                        _
                    ))
                ));
                insert(conn, 3)
            })
            .unwrap();
        let undone = shards.transaction_on(shard, |conn| {
            insert(conn, 4)?;
            Err::<(), _>(DieselError::RollbackTransaction)
        });
        assert_eq!(undone, Err(DieselError::RollbackTransaction));
        assert_eq!(fleets.rows(shard), [1, 3], "{shard}");
        let ids: Vec<i64> = items::table
            .select(items::id)
            .order(items::id)
            .load(&mut shards.get_on(shard).unwrap())
            .unwrap();
        assert_eq!(ids, [1, 3]);
    }
}

#[test]
fn a_swallowed_error_counts_where_the_server_says_so() {
    let fleets = Fleets::new();
    let shards = fleets.manager();
    for shard in SHARDS {
        let swallowed = shards.transaction_on(shard, |conn| {
            insert(conn, 1)?;
            assert!(insert(conn, 1).is_err());
            Ok::<_, Error>(())
        });
        if shard == "pg" {
            assert!(matches!(
                swallowed,
                Err(Error::RolledBack {
                    reason: RollbackReason::FailedStatement,
                    ..
                })
            ));
            assert_eq!(fleets.rows(shard), [0_i64; 0]);
        } else {
            swallowed.unwrap();
            assert_eq!(fleets.rows(shard), [1]);
        }
    }
}

#[test]
fn a_commit_by_hand_is_noticed_on_each() {
    let fleets = Fleets::new();
    let shards = fleets.manager();
    type ByHand = fn(&mut Sharded) -> QueryResult<()>;
    let ways: [ByHand; 2] = [
        |conn| conn.batch_execute("COMMIT"),
        |conn| diesel::sql_query("COMMIT").execute(conn).map(|_| ()),
    ];
    for shard in SHARDS {
        for by_hand in ways {
            let ended = shards.transaction_on(shard, by_hand).unwrap_err();
            assert!(
                matches!(
                    ours(&ended),
                    Error::RolledBack {
                        reason: RollbackReason::EndedByHand,
                        ..
                    }
                ),
                "{shard}: {ended:?}"
            );
        }
        insert(&mut shards.get_on(shard).unwrap(), 1).unwrap();
        assert_eq!(fleets.rows(shard), [1]);
    }
}

#[test]
fn a_transaction_left_open_by_hand_does_not_reach_the_pool_on_any() {
    let fleets = Fleets::new();
    let shards = fleets.manager();
    for shard in SHARDS {
        let mut conn = shards.get_on(shard).unwrap();
        diesel::sql_query("BEGIN").execute(&mut conn).unwrap();
        insert(&mut conn, 1).unwrap();
        drop(conn);
        let count = items::table
            .count()
            .get_result(&mut shards.get_on(shard).unwrap());
        assert_eq!(count, Ok(0_i64), "{shard}");
    }
    fleets.sqlite.assert_nothing_open("file");
    fleets.postgres.assert_nothing_open("pg");
    fleets.mysql.assert_nothing_open("my");
}

#[test]
fn keys_are_spread_over_all_backends() {
    let fleets = Fleets::new();
    let shards = fleets.manager();
    let turns = shards.keyspace("turns").unwrap();
    let grouped = turns.group_by_shard(0..9_i64, |id| *id);
    assert!(grouped.refused.is_empty());
    for (shard, ids) in grouped.by_shard {
        shards
            .transaction_on(shard, |conn| {
                ids.iter().try_for_each(|id| insert(conn, *id).map(|_| ()))
            })
            .unwrap();
    }
    assert_eq!(fleets.rows("file"), [0, 3, 6]);
    assert_eq!(fleets.rows("pg"), [1, 4, 7]);
    assert_eq!(fleets.rows("my"), [2, 5, 8]);
    turns
        .transaction_for(&4, |conn| {
            conn.ensure_owns("turns", &7)?;
            diesel::update(items::table.find(4))
                .set(items::note.eq("four"))
                .execute(conn)?;
            Ok::<_, Error>(())
        })
        .unwrap();
    let note: Option<String> = items::table
        .find(4)
        .select(items::note)
        .first(&mut turns.get(&4).unwrap())
        .unwrap();
    assert_eq!(note.as_deref(), Some("four"));
}

#[test]
fn it_goes_into_an_outer_pool() {
    let fleets = Fleets::new();
    let shards = fleets.manager();
    // One handle, which visits all three.
    let pool = Pool::builder().max_size(1).build(shards.clone()).unwrap();
    for shard in SHARDS {
        shards
            .on(shard, || {
                let mut conn = pool.get().unwrap();
                assert_eq!(name(&mut conn)?, shard);
                conn.transaction(|conn| {
                    diesel::insert_into(items::table)
                        .values(items::id.eq(1))
                        .execute(conn)
                })?;
                let count: i64 = items::table.count().get_result(&mut conn)?;
                assert_eq!(count, 1);
                let boxed = items::table.into_boxed().filter(items::id.gt(0));
                assert_eq!(boxed.select(items::id).load::<i64>(&mut conn)?, [1]);
                Ok::<_, DieselError>(())
            })
            .unwrap();
        assert_eq!(fleets.rows(shard), [1]);
    }
}

#[test]
fn a_test_transaction_on_each() {
    let fleets = Fleets::new();
    let shards = fleets.manager();
    for shard in SHARDS {
        shards
            .get_on(shard)
            .unwrap()
            .begin_test_transaction()
            .unwrap();
        shards
            .transaction_on(shard, |conn| insert(conn, 1))
            .unwrap();
        shards
            .transaction_on(shard, |conn| {
                insert(conn, 2)?;
                Err::<(), _>(DieselError::RollbackTransaction)
            })
            .unwrap_err();
        let sum: Option<i64> =
            diesel::dsl::sql::<diesel::sql_types::Nullable<BigInt>>("SELECT MAX(id) FROM items")
                .get_result(&mut shards.get_on(shard).unwrap())
                .unwrap();
        assert_eq!(sum, Some(1));
        assert_eq!(fleets.rows(shard), [0_i64; 0]);
    }
}

#[test]
fn it_is_established_by_url() {
    let fleets = Fleets::new();
    for (shard, url) in [
        ("file", fleets.sqlite.url("file")),
        ("pg", fleets.postgres.url("pg")),
        ("my", fleets.mysql.url("my")),
    ] {
        assert_eq!(name(&mut Sharded::establish(&url).unwrap()).unwrap(), shard);
    }
}

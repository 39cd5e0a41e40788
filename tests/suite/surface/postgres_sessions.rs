//! What hangs on the session: prepared statements, notifications, custom types.

use diesel::connection::{CacheSize, Connection, SimpleConnection};
use diesel::dsl::sql;
use diesel::prelude::*;
use diesel::sql_types::BigInt;

use super::{Fleet, Pool, RowByRow, Sharded, both, ids, insert, through_both};
use both::schema::{User, users};

/// How many statements the session has prepared, says the server.
fn prepared(conn: &mut Sharded) -> i64 {
    // Text, which is not cached itself.
    #[derive(QueryableByName)]
    struct Count {
        #[diesel(sql_type = BigInt)]
        n: i64,
    }
    // The nonblocking driver prepares this one, too, and lets it go afterwards.
    let count: Count = diesel::sql_query(
        "SELECT count(*) AS n FROM pg_prepared_statements
         WHERE statement NOT LIKE '%pg_prepared_statements%'",
    )
    .get_result(conn)
    .expect("a number");
    count.n
}

#[test]
fn cached_statements_are_prepared_once_for_all_users() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    for id in 0..5 {
        let mut conn = shards.get_on("a").unwrap();
        insert(&mut conn, id).unwrap();
        ids(&mut conn).unwrap();
        assert_eq!(prepared(&mut conn), 2);
    }
    shards
        .transaction_on("a", |conn| {
            insert(conn, 9)?;
            assert_eq!(prepared(conn), 2);
            Ok::<_, diesel::result::Error>(())
        })
        .unwrap();
}

#[test]
fn switched_off_nothing_stays_prepared() {
    through_both!(|conn| {
        conn.set_prepared_statement_cache_size(CacheSize::Disabled);
        for id in 0..3 {
            insert(conn, id).unwrap();
        }
        assert_eq!(prepared(conn), 0);
        conn.set_prepared_statement_cache_size(CacheSize::Unbounded);
        for id in 3..6 {
            insert(conn, id).unwrap();
        }
        assert_eq!(prepared(conn), 1);
    });
}

#[test]
fn rows_are_read_one_by_one_from_the_server() {
    through_both!(|conn| {
        both::schema::fill(conn);
        let names: Vec<String> = users::table
            .order(users::id)
            .load_iter::<User, RowByRow>(conn)
            .unwrap()
            .map(|user| user.map(|user| user.name))
            .collect::<QueryResult<_>>()
            .unwrap();
        assert_eq!(names, ["Sean", "Tess", "Jim"]);
        // Left half-way, in a transaction.
        conn.transaction(|conn| {
            let first = users::table
                .order(users::id)
                .load_iter::<User, RowByRow>(conn)?
                .next();
            assert_eq!(first.unwrap()?.name, "Sean");
            insert(conn, 1)
        })
        .unwrap();
        assert_eq!(ids(conn), Ok(vec![1]));
    });
}

#[test]
fn an_error_of_a_later_row_counts_for_the_transaction() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let swallowed = shards.transaction_on("a", |conn| {
        insert(conn, 1)?;
        let rows: Vec<QueryResult<i64>> =
            sql::<BigInt>("SELECT 10 / (3 - n)::bigint FROM generate_series(1, 5) n")
                .load_iter::<i64, RowByRow>(conn)?
                .collect();
        assert!(rows.iter().any(Result::is_err), "{rows:?}");
        Ok::<_, diesel_sharded::Error>(())
    });
    assert!(
        matches!(swallowed, Err(diesel_sharded::Error::RolledBack { .. })),
        "{swallowed:?}"
    );
    assert_eq!(fleet.rows("a"), [0_i64; 0]);
}

mod mood {
    use std::io::Write;

    use diesel::deserialize::{self, FromSql, FromSqlRow};
    use diesel::expression::AsExpression;
    use diesel::pg::{Pg, PgValue};
    use diesel::serialize::{self, IsNull, Output, ToSql};
    use diesel::sql_types::SqlType;

    #[derive(Debug, SqlType, diesel::query_builder::QueryId)]
    #[diesel(postgres_type(name = "mood"))]
    pub struct MoodType;

    #[derive(Clone, Copy, Debug, PartialEq, FromSqlRow, AsExpression)]
    #[diesel(sql_type = MoodType)]
    pub(super) enum Mood {
        Happy,
        Sad,
    }

    impl ToSql<MoodType, Pg> for Mood {
        fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
            out.write_all(match self {
                Self::Happy => b"happy",
                Self::Sad => b"sad",
            })?;
            Ok(IsNull::No)
        }
    }

    impl FromSql<MoodType, Pg> for Mood {
        fn from_sql(bytes: PgValue<'_>) -> deserialize::Result<Self> {
            match bytes.as_bytes() {
                b"happy" => Ok(Self::Happy),
                b"sad" => Ok(Self::Sad),
                _ => Err("no mood".into()),
            }
        }
    }

    diesel::table! {
        use diesel::sql_types::Integer;
        use super::MoodType;

        moods (id) {
            id -> Integer,
            mood -> MoodType,
        }
    }
}

#[test]
fn types_are_looked_up_on_the_shard_itself() {
    use mood::{Mood, moods};

    // The number of the type differs between the two databases.
    let fleet = Fleet::new(&["a", "b"]);
    for (shard, more) in [
        ("a", ""),
        ("b", "CREATE TYPE other AS ENUM ('x', 'y', 'z');"),
    ] {
        fleet
            .direct(shard)
            .batch_execute(&format!(
                "{more} CREATE TYPE mood AS ENUM ('happy', 'sad');
                 CREATE TABLE moods (id INTEGER PRIMARY KEY, mood mood NOT NULL);"
            ))
            .unwrap();
    }
    let shards = fleet.manager();
    let pool = Pool::builder().max_size(1).build(shards.clone()).unwrap();
    for shard in ["a", "b"] {
        shards
            .on(shard, || {
                let conn = &mut pool.get().unwrap();
                diesel::insert_into(moods::table)
                    .values((moods::id.eq(1), moods::mood.eq(Mood::Sad)))
                    .execute(conn)?;
                let moods: Vec<Mood> = moods::table.select(moods::mood).load(conn)?;
                assert_eq!(moods, [Mood::Sad]);
                let happy = moods::table.filter(moods::mood.eq(Mood::Happy)).count();
                assert_eq!(happy.get_result(conn), Ok(0_i64));
                Ok::<_, diesel::result::Error>(())
            })
            .unwrap();
    }
}

//! What only MySQL has: days as the client library's structure.

use diesel::connection::SimpleConnection;
use diesel::mysql::data_types::{MysqlTime, MysqlTimestampType};
use diesel::prelude::*;
use diesel_sharded::{DateSpec, Error, KeyType, KeyspaceConfig, RuleSpec};

use super::backend::Fleet;

diesel::table! {
    visits (id) {
        id -> BigInt,
        day -> Date,
    }
}

fn day(year: u32, month: u32, day: u32) -> MysqlTime {
    let kind = MysqlTimestampType::MYSQL_TIMESTAMP_DATE;
    MysqlTime::new(year, month, day, 0, 0, 0, 0, false, kind, 0)
}

#[test]
fn a_day_that_is_bound_is_read_as_the_key_that_it_is() {
    let fleet = Fleet::new(&["a"]);
    let months = DateSpec::monthly().from("2023-12").until("2024-02");
    let keyspace = KeyspaceConfig::new(RuleSpec::date(["a"], months).key(KeyType::Date))
        .table("visits", "day", 1)
        .table_pattern("visits", "{name}_{date}");
    let shards = fleet.builder().keyspace("k", keyspace).build().unwrap();
    for month in ["202312", "202401"] {
        let table = format!("CREATE TABLE visits_{month} (id BIGINT PRIMARY KEY, day DATE NOT NULL)");
        fleet.direct("a").batch_execute(&table).unwrap();
    }
    let keyspace = shards.keyspace("k").unwrap();
    let key = KeyType::Date.parse_key("2024-01-15").unwrap();
    let in_january = |id: i64, on: MysqlTime| {
        keyspace.transaction_for(&key, |conn| {
            diesel::insert_into(visits::table)
                .values((visits::id.eq(id), visits::day.eq(on)))
                .execute(conn)
        })
    };
    assert_eq!(in_january(1, day(2024, 1, 31)), Ok(1));
    let refused = in_january(2, day(2023, 12, 31)).map_err(Error::from);
    assert!(
        matches!(&refused, Err(Error::WrongTable { belongs, routed, .. })
            if (&**belongs, &**routed) == ("visits_202312", "visits_202401")),
        "{refused:?}"
    );
    let moved = keyspace.transaction_for(&key, |conn| {
        diesel::update(visits::table.find(1))
            .set(visits::day.eq(day(2023, 12, 31)))
            .execute(conn)
    });
    let moved = moved.map_err(Error::from);
    assert!(matches!(moved, Err(Error::ShardKeyUpdate { .. })), "{moved:?}");
    let stays = keyspace.transaction_for(&key, |conn| {
        diesel::update(visits::table.find(1))
            .set(visits::day.eq(day(2024, 1, 2)))
            .execute(conn)
    });
    assert_eq!(stays, Ok(1));
}

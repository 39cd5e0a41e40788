//! The `postgres-hash` rule against real tables with `PARTITION BY HASH`.

use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};
use diesel_sharded::{CompatSpec, KeyType, KeyspaceConfig, RuleSpec, ShardKey, System, Topology};

use super::backend::Fleet;

#[derive(diesel::QueryableByName)]
struct Row {
    #[diesel(sql_type = BigInt)]
    number: i64,
    #[diesel(sql_type = Text)]
    part: String,
}

fn keys(key: KeyType) -> Vec<String> {
    let many = 0..300_i64;
    match key {
        KeyType::Integer => {
            let edges = [i64::MIN, i64::MAX, -1, 1 << 31, -(1 << 31), (1 << 32) + 7];
            many.map(|n| n * 7919 - 1000)
                .chain(edges)
                .map(|n| n.to_string())
                .collect()
        }
        KeyType::Text => many
            .map(|n| match n % 5 {
                0 => "x".repeat(n as usize),
                1 => format!("用户{n}"),
                2 => format!("it''s {n}"),
                _ => format!("user-{n}"),
            })
            .collect(),
        KeyType::Uuid => many
            .map(|n| {
                format!(
                    "{:08x}-10b1-426f-9247-{:012x}",
                    n * 2_654_435_761 % (1 << 32),
                    n
                )
            })
            .collect(),
        KeyType::Bytes => many
            .map(|n| format!("\\x{}", "0f".repeat(n as usize % 40)))
            .collect(),
        KeyType::Date => many
            .map(|n| format!("{}-03-{:02}", 1901 + n % 200, n % 28 + 1))
            .collect(),
        _ => many
            .map(|n| {
                format!(
                    "{}-11-{:02} 23:59:59.{:06}+00",
                    1950 + n % 100,
                    n % 28 + 1,
                    n * 3331
                )
            })
            .collect(),
    }
}

fn parsed(key: KeyType, text: &str) -> ShardKey<'static> {
    let text = match key {
        KeyType::Text => text.replace("''", "'"),
        KeyType::Bytes => text.replacen('\\', "0", 1),
        KeyType::Timestamp => text.replacen(' ', "T", 1).replace("+00", "Z"),
        _ => text.to_owned(),
    };
    key.parse_key(&text).unwrap()
}

#[test]
fn rows_are_in_the_partition_that_the_rule_names() {
    let fleet = Fleet::new(&["a"]);
    let mut conn = fleet.direct("a");
    for (key, column) in [
        (KeyType::Integer, "bigint"),
        (KeyType::Text, "text"),
        (KeyType::Uuid, "uuid"),
        (KeyType::Bytes, "bytea"),
        (KeyType::Date, "date"),
        (KeyType::Timestamp, "timestamptz"),
    ] {
        for modulus in [1, 3, 4, 7, 32] {
            let shards: Vec<String> = (0..modulus).map(|part| format!("p{part}")).collect();
            let spec = CompatSpec::new(System::PostgresHash { modulus });
            let rule = RuleSpec::compat(shards.clone(), spec).key(key);
            let builder = shards.iter().fold(Topology::builder(), |builder, name| {
                builder.shard(name.as_str(), format!("{name}.sqlite"))
            });
            let topology = builder
                .keyspace("k", KeyspaceConfig::new(rule))
                .build()
                .unwrap();

            let mut sql = format!(
                "DROP TABLE IF EXISTS t; CREATE TABLE t (number bigint, k {column}) PARTITION BY HASH (k);"
            );
            for part in 0..modulus {
                sql += &format!(
                    "CREATE TABLE p{part} PARTITION OF t FOR VALUES WITH (MODULUS {modulus}, REMAINDER {part});"
                );
            }
            let keys = keys(key);
            for (number, text) in keys.iter().enumerate() {
                sql += &format!("INSERT INTO t VALUES ({number}, '{text}');");
            }
            diesel::connection::SimpleConnection::batch_execute(&mut conn, &sql).unwrap();
            let rows: Vec<Row> =
                diesel::sql_query("SELECT number, tableoid::regclass::text AS part FROM t")
                    .load(&mut conn)
                    .unwrap();
            assert_eq!(rows.len(), keys.len());
            for row in rows {
                let text = &keys[row.number as usize];
                let placed = topology.locate("k", &parsed(key, text)).unwrap();
                assert_eq!(
                    placed.shard(),
                    row.part.as_str(),
                    "{key} {text} of {modulus}"
                );
            }
        }
    }
}

//! `verify`: rows that are where they belong, and rows that are not, of every type of key.

use diesel::connection::SimpleConnection;
use diesel_sharded::blocking::{FindingKind, VerifyOptions, VerifyState, find_key, verify};
use diesel_sharded::migrate::AnyConnection;
use diesel_sharded::{KeyType, KeyspaceConfig, RuleSpec, ShardKey, Topology};

use super::backend::{Fleet, NAME};
use crate::harness::{Stage, shards};

/// A fleet with one keyspace over two shards and a table in three parts, whose keys have this type.
struct World {
    fleet: Fleet,
    topology: Topology,
    key: KeyType,
}

/// The type of the key column here.
fn column(key: KeyType) -> &'static str {
    match (NAME, key) {
        ("sqlite", KeyType::Integer) => "INTEGER",
        ("sqlite", KeyType::Bytes | KeyType::Uuid) => "BLOB",
        ("sqlite", _) => "TEXT",
        (_, KeyType::Integer) => "BIGINT",
        ("postgres", KeyType::Text) => "TEXT",
        ("postgres", KeyType::Uuid) => "UUID",
        ("postgres", KeyType::Bytes) => "BYTEA",
        ("postgres", KeyType::Timestamp) => "TIMESTAMPTZ",
        (_, KeyType::Text) => "VARCHAR(200) CHARACTER SET utf8mb4",
        (_, KeyType::Uuid) => "BINARY(16)",
        (_, KeyType::Bytes) => "VARBINARY(200)",
        (_, KeyType::Timestamp) => "DATETIME(6)",
        _ => "DATE",
    }
}

/// A key as the text of a statement.
fn literal(key: &ShardKey<'_>) -> String {
    let digits = |bytes: &[u8]| -> String {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        match NAME {
            "postgres" => format!("'\\x{digits}'::bytea"),
            _ => format!("X'{digits}'"),
        }
    };
    match key {
        ShardKey::Text(text) if NAME == "mysql" => {
            format!("CONVERT({} USING utf8mb4)", digits(text.as_bytes()))
        }
        ShardKey::Text(text) => format!("'{}'", text.replace('\'', "''")),
        ShardKey::Bytes(bytes) => digits(bytes),
        ShardKey::Uuid(_) if NAME == "postgres" => format!("'{key}'"),
        ShardKey::Uuid(bytes) => digits(bytes),
        ShardKey::Timestamp { .. } => {
            let text = key.to_string().replacen('T', " ", 1);
            let zone = if NAME == "postgres" { "+00" } else { "" };
            format!("'{}{zone}'", text.trim_end_matches('Z'))
        }
        ShardKey::Date(_) => format!("'{key}'"),
        ShardKey::Null => "NULL".to_owned(),
        number => number.to_string(),
    }
}

impl World {
    fn new(key: KeyType) -> Self {
        let fleet = Fleet::new(&["a", "b"]);
        let rule = RuleSpec::hash(["a", "b"], 64).key(key);
        let keyspace = KeyspaceConfig::new(rule).table("orders", "k", 3);
        let topology = Topology::builder()
            .shard("a", fleet.url("a"))
            .shard("b", fleet.url("b"))
            .keyspace("orders", keyspace)
            .build()
            .unwrap();
        let world = Self {
            fleet,
            topology,
            key,
        };
        for shard in ["a", "b"] {
            for part in 0..3 {
                world.run(shard, &format!("CREATE TABLE orders_{part} (k {})", column(key)));
                let length = match (NAME, key) {
                    ("mysql", KeyType::Text | KeyType::Bytes) => "(100)",
                    _ => "",
                };
                world.run(shard, &format!("CREATE INDEX ik{part} ON orders_{part} (k{length})"));
            }
        }
        world
    }

    fn run(&self, shard: &str, sql: &str) {
        self.fleet.direct(shard).batch_execute(sql).expect(sql);
    }

    fn insert(&self, shard: &str, table: &str, key: &ShardKey<'_>) {
        self.run(shard, &format!("INSERT INTO {table} VALUES ({})", literal(key)));
    }

    /// Where a key's rows belong.
    fn home(&self, key: &ShardKey<'_>) -> (&'static str, String) {
        let placement = self.topology.locate("orders", key).unwrap();
        let tables = self.topology.tables_for("orders", placement).unwrap();
        (placement.shard().as_str(), tables[0].1.clone())
    }

    fn insert_at_home(&self, key: &ShardKey<'_>) {
        let (shard, table) = self.home(key);
        self.insert(shard, &table, key);
    }

    fn keys(&self) -> Vec<ShardKey<'static>> {
        let texts: &[&str] = match self.key {
            KeyType::Integer => &["-9223372036854775808", "-1", "0", "1", "7", "9223372036854775807"],
            KeyType::Text => &["", "a", "A", "a ", "O'Brien", "back\\slash", "zoë", "用户", "100%", "é", "e\u{301}"],
            KeyType::Uuid => &[
                "00000000-0000-0000-0000-000000000000",
                "67e55044-10b1-426f-9247-bb680e5fe0c8",
                "ffffffff-ffff-ffff-ffff-ffffffffffff",
            ],
            KeyType::Bytes => &["0x00", "0x00ff", "0x27", "0xdeadbeef"],
            KeyType::Date => &["1969-12-31", "2024-02-29", "1999-01-01"],
            _ => &[
                "1999-12-31T23:59:59.999999Z",
                "2024-02-29T12:00:00Z",
                "2024-03-31T01:30:00.5Z",
            ],
        };
        let keys = texts.iter().map(|text| self.key.parse_key(text).unwrap());
        keys.collect()
    }

    fn verify(&self, options: &VerifyOptions) -> diesel_sharded::blocking::VerifyReport {
        verify::<AnyConnection>(&self.topology, "orders", options, &|_| {}).unwrap()
    }

    fn config(&self) -> String {
        let names = ["a", "b"];
        let urls = shards(names.map(|name| (name, self.fleet.url(name))));
        format!(
            "{urls}\n[keyspaces.orders]\nshards = [\"a\", \"b\"]\nkey = \"{}\"\nalgorithm = {{ kind = \"hash\", buckets = 64 }}\ntables = {{ orders = {{ key_column = \"k\", count = 3 }} }}\n",
            self.key
        )
    }
}

const TYPES: [KeyType; 6] = [
    KeyType::Integer,
    KeyType::Text,
    KeyType::Uuid,
    KeyType::Bytes,
    KeyType::Date,
    KeyType::Timestamp,
];

#[test]
fn rows_at_home_are_well_and_others_are_found_whatever_their_type() {
    for key in TYPES {
        let world = World::new(key);
        let keys = world.keys();
        for key in &keys {
            world.insert_at_home(key);
        }
        let unlimited = VerifyOptions::new().rows_per_second(None);
        let report = world.verify(&unlimited);
        assert_eq!(report.findings, [], "{key}");
        assert_eq!(report.failed, [], "{key}");
        assert_eq!((report.rows, report.tables), (keys.len() as u64, 6), "{key}");

        // One row on the other shard, and one in another part at home.
        for wrong in &keys {
            let (shard, table) = world.home(wrong);
            let other = if shard == "a" { "b" } else { "a" };
            world.insert(other, &table, wrong);
            let report = world.verify(&unlimited);
            let [found] = report.findings.as_slice() else {
                panic!("{key}: {wrong}: {report:#?}");
            };
            assert_eq!(found.shard, other);
            assert_eq!(found.key.as_deref(), Some(wrong.to_string().as_str()));
            let FindingKind::Misplaced {
                home_shard,
                home_table,
                also_at_home,
            } = &found.kind
            else {
                panic!("{found:?}");
            };
            assert_eq!((home_shard.as_str(), home_table.as_str()), (shard, table.as_str()));
            assert!(*also_at_home, "{key}: {wrong}");

            let places = find_key::<AnyConnection>(&world.topology, "orders", wrong, &unlimited);
            let places = places.unwrap();
            assert_eq!(places.home.map(|home| home.as_str()), Some(shard));
            assert_eq!(places.nowhere, None);
            let at = |name: &str| places.found.iter().any(|found| found.shard == name);
            assert!(at("a") && at("b"), "{key}: {wrong}: {places:?}");
            world.run(other, &format!("DELETE FROM {table}"));
            // What belongs there and went with it comes back.
            for key in keys.iter().filter(|key| world.home(key) == (other, table.clone())) {
                world.insert_at_home(key);
            }
        }
    }
}

#[test]
fn null_keys_and_missing_tables_are_found() {
    let world = World::new(KeyType::Integer);
    world.insert("b", "orders_1", &ShardKey::Null);
    world.insert("b", "orders_1", &ShardKey::Null);
    world.run("a", "DROP TABLE orders_2");
    let report = world.verify(&VerifyOptions::new());
    let found: Vec<_> = report
        .findings
        .iter()
        .map(|found| (found.shard.as_str(), found.table.as_str(), found.rows))
        .collect();
    assert_eq!(found, [("a", "orders_2", 0), ("b", "orders_1", 2)]);
    assert!(matches!(report.findings[0].kind, FindingKind::MissingTable));
    assert!(matches!(report.findings[1].kind, FindingKind::NullKey));
    assert_eq!(report.rows, 2);
}

/// Pages end inside of runs of equal keys, and of keys that only the database takes for equal.
#[test]
fn no_row_is_lost_between_pages() {
    let world = World::new(KeyType::Text);
    let mut rows = 0;
    for text in ["x", "X", "x ", "y", "Y", "z"] {
        let key = world.key.parse_key(text).unwrap();
        for _ in 0..5 {
            world.insert_at_home(&key);
            rows += 1;
        }
    }
    // All of them in one table as well, where most do not belong.
    for text in ["x", "X", "y", "Y", "z"] {
        for _ in 0..3 {
            world.insert("a", "orders_0", &world.key.parse_key(text).unwrap());
            rows += 1;
        }
    }
    let whole = world.verify(&VerifyOptions::new().rows_per_second(None));
    assert_eq!(whole.rows, rows);
    for page in [2, 3, 4, 7, 15, 16] {
        let paged = world.verify(&VerifyOptions::new().rows_per_second(None).page(page));
        assert_eq!(paged.rows, rows, "{page}");
        let by_key = |report: &diesel_sharded::blocking::VerifyReport| {
            let mut sums = std::collections::BTreeMap::new();
            for found in &report.findings {
                *sums
                    .entry((found.shard, found.table.clone(), found.key.clone()))
                    .or_insert(0) += found.rows;
            }
            sums
        };
        assert_eq!(by_key(&paged), by_key(&whole), "{page}");
    }
}

#[test]
fn a_run_goes_on_where_another_stopped() {
    let world = World::new(KeyType::Integer);
    for number in 0..300 {
        world.insert_at_home(&ShardKey::Integer(number));
    }
    // On a shard where it does not belong, and early in the order of its table.
    let (home, table) = world.home(&ShardKey::Integer(-5));
    world.insert(if home == "a" { "b" } else { "a" }, &table, &ShardKey::Integer(-5));
    let options = VerifyOptions::new().rows_per_second(None).page(20).parallel(1);
    let states = std::sync::Mutex::new(Vec::<(u64, VerifyState)>::new());
    let full = verify::<AnyConnection>(&world.topology, "orders", &options, &|progress| {
        let state = (progress.rows, progress.state.clone());
        states.lock().unwrap().push(state);
    });
    let full = full.unwrap();
    assert_eq!((full.rows, full.findings.len(), full.more), (301, 1, 0));
    let states = states.into_inner().unwrap();
    assert!(states.len() > 12, "{}", states.len());
    for (read, state) in states {
        // As it comes out of a file.
        let text = serde_json::to_string(&state).unwrap();
        let state = serde_json::from_str(&text).unwrap();
        let rest = world.verify(&options.clone().resume(state));
        // The counts are those of all runs, as the findings are.
        assert_eq!((rest.rows, rest.tables), (301, 6), "{read}");
        // What was found before is not forgotten.
        assert_eq!(rest.findings.len() as u64 + rest.more, 1, "{rest:?}");
    }
}

#[test]
fn the_command_says_what_it_found_by_its_exit_code() {
    let world = World::new(KeyType::Integer);
    for number in 0..50 {
        world.insert_at_home(&ShardKey::Integer(number));
    }
    let stage = Stage::new(&world.config());
    let output = stage.run(&["verify", "--rate", "unlimited"]).exits(0);
    assert!(
        output.stdout.contains("50 rows in 6 tables, all where they belong"),
        "{output:#?}"
    );
    let key = ShardKey::Integer(7);
    let (shard, table) = world.home(&key);
    let other = if shard == "a" { "b" } else { "a" };
    world.insert(other, &table, &key);
    let args = ["verify", "orders", "orders", "--rate", "unlimited", "--resume", "state.json"];
    let output = stage.run(&args).exits(3);
    let expected = format!(
        "shard {other}, table {table}: 1 row with the key 7 belongs to {table} on {shard}, where there are rows with it as well"
    );
    assert!(output.stdout.contains(&expected), "{output:#?}");
    assert!(!stage.path().join("state.json").exists());

    let output = stage.run(&["verify", "orders", "--format", "json"]).exits(3);
    let finding = &output.events_named("verify_finding")[0];
    assert_eq!(finding["finding"], "misplaced");
    assert_eq!(finding["home_shard"], shard);
    assert_eq!(output.events_named("verify_finished")[0]["rows"], 51);

    let output = stage.run(&["verify", "orders", "--key", "7"]).exits(3);
    assert!(output.stdout.contains("not where they belong"), "{output:#?}");
    let output = stage.run(&["verify", "orders", "--key", "8"]).exits(0);
    assert!(output.stdout.contains("where they belong"), "{output:#?}");
    let output = stage.run(&["verify", "orders", "--key", "-1"]).exits(0);
    assert!(output.stdout.contains("no shard has rows with it"), "{output:#?}");

    for (args, said) in [
        (&["verify", "order"][..], "did you mean orders?"),
        (&["verify", "orders", "items"], "there is no table \"items\" (tables: orders)"),
        (&["verify", "orders", "--key", "x"], "decimal digits"),
        (&["verify", "orders", "--rate", "0"], "unlimited"),
    ] {
        let output = stage.run(args).exits(2);
        assert!(output.stderr.contains(said), "{output:#?}");
    }
}

#[test]
fn a_shard_that_is_down_fails_alone() {
    let world = World::new(KeyType::Integer);
    for number in 0..50 {
        world.insert_at_home(&ShardKey::Integer(number));
    }
    let up = world.fleet.rows_of("a", "orders_0") + world.fleet.rows_of("a", "orders_1") + world.fleet.rows_of("a", "orders_2");
    let gone = match url::Url::parse(&world.fleet.url("b")) {
        Ok(mut url) => {
            url.set_port(Some(1)).unwrap();
            url.to_string()
        }
        Err(_) => "/no/such/folder/b.sqlite".to_owned(),
    };
    let config = world.config().replace(&format!("{:?}", world.fleet.url("b")), &format!("{gone:?}"));
    let stage = Stage::new(&config);
    let output = stage.run(&["verify", "--format", "json"]).exits(1);
    let finished = &output.events_named("verify_finished")[0];
    assert_eq!(finished["rows"], up);
    assert_eq!(finished["failed"][0][0], "b");
}

trait RowsOf {
    fn rows_of(&self, shard: &str, table: &str) -> i64;
}

impl RowsOf for Fleet {
    fn rows_of(&self, shard: &str, table: &str) -> i64 {
        use diesel::RunQueryDsl;
        let count = format!("(SELECT count(*) FROM {table})");
        diesel::select(diesel::dsl::sql::<diesel::sql_types::BigInt>(&count))
            .get_result(&mut self.direct(shard))
            .unwrap()
    }
}

#[test]
fn tables_are_read_under_the_names_of_their_pattern() {
    let fleet = Fleet::new(&["a", "b"]);
    let stage = Stage::new(&format!(
        "{}[keyspaces.orders]\nshards = [\"b\", \"a\"]\nalgorithm = {{ kind = \"modulo\", count = 2 }}\n\
         tables = {{ orders = {{ key_column = \"k\", count = 2, pattern = \"t_{{global:02}}_{{name}}\" }} }}\n",
        shards(["a", "b"].map(|shard| (shard, fleet.url(shard))))
    ));
    // Key k: the shard at k mod 2 of the list, part k / 2 mod 2.
    for (shard, table, key) in [("b", "00", 0), ("b", "01", 2), ("a", "02", 1), ("a", "03", 3)] {
        fleet
            .direct(shard)
            .batch_execute(&format!(
                "CREATE TABLE t_{table}_orders (k BIGINT); INSERT INTO t_{table}_orders VALUES ({key})"
            ))
            .unwrap();
    }
    stage.run(&["verify", "orders"]).exits(0);
    fleet
        .direct("a")
        .batch_execute("INSERT INTO t_02_orders VALUES (2), (3)")
        .unwrap();
    let found = stage.run(&["verify", "orders"]).exits(3);
    for told in ["t_02_orders", "t_01_orders", "t_03_orders"] {
        assert!(found.stdout.contains(told), "{told}: {found:#?}");
    }
    assert!(!found.stdout.contains("t_00_orders"), "{found:#?}");
}

/// Where a select can write, by a function behind a view, the session refuses it.
#[test]
fn nothing_is_written_whatever_stands_behind_a_table() {
    let world = World::new(KeyType::Integer);
    for number in 0..20 {
        world.insert_at_home(&ShardKey::Integer(number));
    }
    if NAME == "sqlite" {
        // No select writes there, and the file is as it was.
        let read = || ["a", "b"].map(|shard| std::fs::read(world.fleet.url(shard)).unwrap());
        let before = read();
        assert_eq!(world.verify(&VerifyOptions::new()).rows, 20);
        assert!(before == read());
        return;
    }
    let function = match NAME {
        "postgres" => "CREATE FUNCTION touch(n BIGINT) RETURNS BIGINT LANGUAGE plpgsql VOLATILE AS $$ BEGIN INSERT INTO touched VALUES (n); RETURN n; END $$",
        _ => "CREATE FUNCTION touch(n BIGINT) RETURNS BIGINT MODIFIES SQL DATA BEGIN INSERT INTO touched VALUES (n); RETURN n; END",
    };
    for sql in [
        "CREATE TABLE touched (n BIGINT)",
        "ALTER TABLE orders_0 RENAME TO kept_0",
        "INSERT INTO kept_0 VALUES (1)",
        function,
        "CREATE VIEW orders_0 AS SELECT touch(k) AS k FROM kept_0",
    ] {
        world.run("a", sql);
    }
    let report = world.verify(&VerifyOptions::new());
    let [(shard, reason)] = report.failed.as_slice() else {
        panic!("{report:?}");
    };
    assert_eq!(shard, "a");
    let reason = reason.to_lowercase();
    assert!(reason.contains("read-only") || reason.contains("read only"), "{reason}");
    assert_eq!(world.fleet.rows_of("a", "touched"), 0);
    // The same select writes where it may.
    world.run("a", "CREATE TABLE seen AS SELECT k FROM orders_0");
    assert!(world.fleet.rows_of("a", "touched") > 0);
}

/// A key column that is not there is no key, whatever its name reads like.
#[test]
fn a_column_that_is_not_there_is_told() {
    for key in [KeyType::Integer, KeyType::Text] {
        let world = World::new(key);
        world.run("a", "DROP TABLE orders_0");
        world.run("a", "CREATE TABLE orders_0 (other INTEGER)");
        world.run("a", "INSERT INTO orders_0 VALUES (4)");
        let report = world.verify(&VerifyOptions::new());
        let [(shard, reason)] = report.failed.as_slice() else {
            panic!("{report:?}");
        };
        assert_eq!(shard, "a");
        assert!(reason.to_lowercase().contains("column"), "{reason}");
        assert!(report.findings.is_empty(), "{report:?}");
        let found = world.keys()[0].clone();
        let places = find_key::<AnyConnection>(&world.topology, "orders", &found, &VerifyOptions::new()).unwrap();
        assert_eq!(places.failed.len(), 1, "{places:?}");
    }
}

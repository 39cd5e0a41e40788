//! `verify`: keys that rows spell in several ways, and values that are no keys.

use diesel::connection::SimpleConnection;
use diesel_sharded::blocking::{FindingKind, VerifyOptions, VerifyReport, find_key, verify};
use diesel_sharded::migrate::AnyConnection;
use diesel_sharded::{KeyType, KeyspaceConfig, Normalize, RuleSpec, Topology};

use super::backend::{Fleet, NAME};

/// Two shards with a table whose key column is of a type of the database.
struct World {
    fleet: Fleet,
    topology: Topology,
    key: KeyType,
}

impl World {
    fn new(key: KeyType, column: &str, steps: &[Normalize]) -> Self {
        let fleet = Fleet::new(&["a", "b"]);
        let rule = RuleSpec::hash(["a", "b"], 64).key(key);
        let rule = rule.normalize(steps.iter().copied());
        let topology = Topology::builder()
            .shard("a", fleet.url("a"))
            .shard("b", fleet.url("b"))
            .keyspace("orders", KeyspaceConfig::new(rule).table("orders", "k", 1))
            .build()
            .unwrap();
        let world = Self { fleet, topology, key };
        for shard in ["a", "b"] {
            world.run(shard, &format!("CREATE TABLE orders (k {column})"));
        }
        world
    }

    fn run(&self, shard: &str, sql: &str) {
        self.fleet.direct(shard).batch_execute(sql).expect(sql);
    }

    fn insert(&self, shard: &str, values: &[&str]) {
        for value in values {
            self.run(shard, &format!("INSERT INTO orders VALUES ({value})"));
        }
    }

    fn verify(&self, page: u32) -> VerifyReport {
        let options = VerifyOptions::new().page(page);
        verify::<AnyConnection>(&self.topology, "orders", &options, &|_| {}).unwrap()
    }

    /// How many rows have a key, by shard.
    fn rows(&self, key: &str) -> Vec<(&'static str, u64)> {
        let key = self.key.parse_key(key).unwrap();
        let places = find_key::<AnyConnection>(&self.topology, "orders", &key, &VerifyOptions::new());
        let places = places.unwrap();
        assert_eq!(places.failed, []);
        let found = places.found.into_iter();
        found.map(|found| (found.shard.as_str(), found.rows)).collect()
    }
}

/// A type of column, the steps of the rule, a key, and the ways to write it.
type Case = (KeyType, &'static str, &'static [Normalize], &'static str, &'static [&'static str]);

fn cases() -> Vec<Case> {
    const UUID: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";
    const UUIDS: &[&str] = &["'67E55044-10B1-426F-9247-BB680E5FE0C8'", "'67e55044-10b1-426f-9247-bb680e5fe0c8'"];
    const WITH_BYTES: &[&str] = &[
        "'67E55044-10B1-426F-9247-BB680E5FE0C8'",
        "'67e55044-10b1-426f-9247-bb680e5fe0c8'",
        "x'67e5504410b1426f9247bb680e5fe0c8'",
    ];
    const TEXTS: &[&str] = &["'ABC'", "'Abc'", "'abc'"];
    const FOLDED: &[Normalize] = &[Normalize::Lowercase];
    match NAME {
        "sqlite" => vec![
            (
                KeyType::Timestamp,
                "TEXT",
                &[],
                "2024-02-29T12:00:00Z",
                &["'2024-02-29 12:00:00'", "'2024-02-29T12:00:00Z'", "'2024-02-29 13:00:00+01:00'", "'2024-02-29 12:00:00.000'"],
            ),
            (KeyType::Uuid, "BLOB", &[], UUID, WITH_BYTES),
            (KeyType::Text, "TEXT", FOLDED, "aBc", TEXTS),
            (KeyType::Text, "", &[], "5", &["5", "'5'"]),
        ],
        "postgres" => vec![
            (KeyType::Uuid, "TEXT", &[], UUID, UUIDS),
            (KeyType::Uuid, "UUID", &[], UUID, UUIDS),
            (KeyType::Text, "TEXT", FOLDED, "aBc", TEXTS),
            (KeyType::Integer, "NUMERIC", &[], "3", &["3", "3.00"]),
            (KeyType::Timestamp, "TEXT", &[], "2024-02-29T12:00:00Z", &["'2024-02-29 12:00:00'", "'2024-02-29T12:00:00Z'"]),
        ],
        _ => vec![
            (KeyType::Uuid, "CHAR(36) CHARACTER SET utf8mb4", &[], UUID, UUIDS),
            (KeyType::Uuid, "UUID", &[], UUID, UUIDS),
            (KeyType::Text, "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", FOLDED, "aBc", TEXTS),
            (KeyType::Integer, "DECIMAL(10,2)", &[], "3", &["3", "3.00"]),
        ],
    }
}

#[test]
fn one_key_is_found_however_rows_spell_it() {
    for (key, column, steps, wanted, spelt) in cases() {
        let world = World::new(key, column, steps);
        let home = world.topology.locate("orders", &key.parse_key(wanted).unwrap()).unwrap();
        let away = if home.shard() == "a" { "b" } else { "a" };
        // The first spelling at home as well.
        world.insert(away, spelt);
        world.insert(home.shard().as_str(), &spelt[..1]);
        let rows = spelt.len() as u64;
        for page in [2, 20_000] {
            let report = world.verify(page);
            assert_eq!(report.failed, [], "{column}");
            assert_eq!(report.rows, rows + 1, "{column}");
            let [found] = report.findings.as_slice() else {
                panic!("{key} in {column}: {report:#?}");
            };
            assert_eq!((found.shard.as_str(), found.rows), (away, rows), "{column}");
            let FindingKind::Misplaced { also_at_home, .. } = &found.kind else {
                panic!("{found:?}");
            };
            assert!(also_at_home, "{key} in {column}");
        }
        let mut expected = vec![(away, rows), (home.shard().as_str(), 1)];
        expected.sort();
        assert_eq!(world.rows(wanted), expected, "{key} in {column}");
    }
}

/// What a collation takes for equal is another key.
#[test]
fn a_collation_counts_nothing_for_a_key() {
    let column = match NAME {
        "sqlite" => "TEXT COLLATE NOCASE",
        "postgres" => "TEXT",
        _ => "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
    };
    let world = World::new(KeyType::Text, column, &[]);
    world.insert("a", &["'z'", "'Z'", "'Z'"]);
    assert_eq!(world.rows("z"), [("a", 1)]);
    assert_eq!(world.rows("Z"), [("a", 2)]);
    assert_eq!(world.rows("y"), []);
}

/// A type of key and of column, values that are no keys, and a key with a way to write it.
type OddCase = (KeyType, &'static str, &'static [&'static str], &'static str, &'static [&'static str]);

/// One odd row hides none of the others, and nothing is rounded to a key.
#[test]
fn values_that_are_no_keys_are_told_as_such() {
    let cases: &[OddCase] = match NAME {
        "sqlite" => &[(KeyType::Timestamp, "TEXT", &["'infinity'", "''"], "2024-02-29T12:00:00Z", &["'2024-02-29 12:00:00'"])],
        "postgres" => &[
            (
                KeyType::Timestamp,
                "TIMESTAMPTZ",
                &["'infinity'", "'-infinity'", "'0044-03-15 00:00:00 BC'"],
                "2024-02-29T12:00:00Z",
                &["'2024-02-29 12:00:00+00'"],
            ),
            (KeyType::Date, "DATE", &["'infinity'", "'-infinity'"], "2024-02-29", &["'2024-02-29'"]),
            (KeyType::Integer, "NUMERIC", &["'NaN'", "1e40", "2.5", "8.4"], "3", &["3"]),
            (KeyType::Integer, "FLOAT8", &["'NaN'", "1e40", "2.5", "8.4"], "3", &["3"]),
            (KeyType::Integer, "TEXT", &["'2.5'", "'x'", "''"], "3", &["'3'"]),
        ],
        _ => &[
            (KeyType::Integer, "DECIMAL(10,2)", &["2.5", "8.4", "-0.5"], "3", &["3"]),
            (KeyType::Integer, "VARCHAR(20) CHARACTER SET utf8mb4", &["'2.5'", "'x'", "''"], "3", &["'3'"]),
        ],
    };
    for (key, column, odd, wanted, spelt) in cases {
        let world = World::new(*key, column, &[]);
        let home = world.topology.locate("orders", &key.parse_key(wanted).unwrap()).unwrap();
        let home = home.shard().as_str();
        world.insert(home, odd);
        world.insert(home, spelt);
        for page in [2, 3, 20_000] {
            let report = world.verify(page);
            assert_eq!(report.failed, [], "{column}");
            assert_eq!(report.rows, odd.len() as u64 + 1, "{column}");
            assert_eq!(report.findings.len(), odd.len(), "{column}: {report:#?}");
            let unreadable = |found: &diesel_sharded::blocking::Finding| found.kind == FindingKind::Unreadable;
            assert!(report.findings.iter().all(unreadable), "{report:#?}");
        }
        assert_eq!(world.rows(wanted), [(home, 1)], "{column}");
    }
}

//! A fleet with a configuration and migrations around it.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};
use diesel_sharded::migrate::{
    Event, Failure, FailureKind, Migrator, Options, Outcome, Report, ShardReport,
};
use diesel_sharded::{Config, Error};

use super::backend::{self, Fleet};
use crate::harness::{self, Stage};

/// One keyspace over all shards, with the migrations of `migrations/`.
pub(crate) struct Ground {
    pub(crate) stage: Stage,
    pub(crate) fleet: Fleet,
}

impl Ground {
    pub(crate) fn new(shards: &[&str]) -> Self {
        let fleet = Fleet::new(shards);
        let urls = shards.iter().map(|shard| (*shard, fleet.url(shard)));
        let config = format!(
            "{}[keyspaces.all]\nshards = {shards:?}\nkey = \"integer\"\nmigrations = \"migrations\"\n",
            harness::shards(urls)
        );
        Self {
            stage: Stage::new(&config),
            fleet,
        }
    }

    /// Three migrations, each with a table of its own.
    pub(crate) fn with_three(shards: &[&str]) -> Self {
        let ground = Self::new(shards);
        ground.table("2024-01-01-000000_one", "one");
        ground.table("20240102000000_two", "two");
        ground.table("2024-01-03-000000_three", "three");
        ground
    }

    /// A migration that makes one table.
    pub(crate) fn table(&self, name: &str, table: &str) {
        self.stage.migration(
            name,
            &format!("CREATE TABLE {table} (id INT NOT NULL PRIMARY KEY);\n"),
            &format!("DROP TABLE {table};\n"),
        );
    }

    /// A migration outside of a transaction.
    pub(crate) fn untransacted(&self, name: &str, up: &str, down: &str) {
        self.stage.migration(name, up, down);
        let file = format!("migrations/{name}/metadata.toml");
        self.stage.write(&file, "run_in_transaction = false\n");
    }

    pub(crate) fn try_migrator(&self) -> Result<Migrator, Error> {
        let file = self.stage.path().join("diesel-sharded.toml");
        Migrator::from_config(&Config::from_file(file)?)
    }

    pub(crate) fn migrator(&self) -> Migrator {
        self.try_migrator().unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn run(&self, options: &Options) -> Report {
        let report = self.migrator().run(options, &quiet).unwrap();
        crate::support::assert_no_secret(&serde_json::to_string(&report).unwrap());
        report
    }

    /// Runs, and fails where not every shard is a success.
    pub(crate) fn run_well(&self) {
        let report = self.run(&Options::new());
        assert!(report.is_success(), "{report:#?}");
    }

    /// Executes something on a shard, past the crate.
    pub(crate) fn direct(&self, shard: &str, sql: &str) {
        self.fleet.direct(shard).batch_execute(sql).unwrap();
    }

    /// A number that a shard's database answers.
    pub(crate) fn number(&self, shard: &str, sql: &str) -> i64 {
        diesel::dsl::sql::<BigInt>(sql)
            .get_result(&mut self.fleet.direct(shard))
            .unwrap()
    }

    /// Whether a shard has a table.
    pub(crate) fn has(&self, shard: &str, table: &str) -> bool {
        let sql = match backend::NAME {
            "sqlite" => format!("SELECT count(*) FROM sqlite_master WHERE name = '{table}'"),
            "postgres" => {
                format!("SELECT count(*) FROM pg_class WHERE relname = '{table}' AND relkind IN ('r', 'i')")
            }
            _ => format!(
                "SELECT count(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = '{table}'"
            ),
        };
        self.number(shard, &sql) > 0
    }

    /// The versions in Diesel's table, sorted.
    pub(crate) fn versions(&self, shard: &str) -> Vec<String> {
        if !self.has(shard, "__diesel_schema_migrations") {
            return Vec::new();
        }
        diesel::dsl::sql::<Text>("SELECT version FROM __diesel_schema_migrations ORDER BY version")
            .load(&mut self.fleet.direct(shard))
            .unwrap()
    }
}

pub(crate) const ONE: &str = "20240101000000";
pub(crate) const TWO: &str = "20240102000000";
pub(crate) const THREE: &str = "20240103000000";

pub(crate) fn quiet(_: &Event) {}

/// What became of a shard.
#[track_caller]
pub(crate) fn of<'r>(report: &'r Report, shard: &str) -> &'r ShardReport {
    report
        .shard(shard)
        .unwrap_or_else(|| panic!("nothing is said of {shard}: {report:#?}"))
}

#[track_caller]
pub(crate) fn ended(report: &Report, expected: &[(&str, Outcome)]) {
    for (shard, outcome) in expected {
        assert_eq!(of(report, shard).outcome, *outcome, "{shard}: {report:#?}");
    }
    assert_eq!(report.shards.len(), expected.len());
}

/// The versions that ran on a shard, in their order, with `-` before those that were reverted.
pub(crate) fn ran(report: &Report, shard: &str) -> Vec<String> {
    let signed = |ran: &diesel_sharded::migrate::Ran| match ran.direction.as_str() {
        "down" => format!("-{}", ran.version),
        _ => ran.version.to_string(),
    };
    of(report, shard).ran.iter().map(signed).collect()
}

/// The one failure of a shard.
#[track_caller]
pub(crate) fn failure(report: &Report, shard: &str) -> Failure {
    let failures = &of(report, shard).failures;
    assert_eq!(failures.len(), 1, "{shard}: {failures:#?}");
    failures[0].clone()
}

pub(crate) fn kinds(report: &Report, shard: &str) -> Vec<FailureKind> {
    of(report, shard)
        .failures
        .iter()
        .map(|failure| failure.kind)
        .collect()
}

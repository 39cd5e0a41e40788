//! A fleet on real databases and its migrations.

use serde_json::Value;

use super::super::backend::Fleet;
use crate::harness::{Output, Stage, shards};

/// A fleet whose shards are one keyspace, with migrations in `migrations/`.
pub(super) struct World {
    pub(super) fleet: Fleet,
    pub(super) stage: Stage,
}

impl World {
    /// Shards that have no migration yet. (Each has the tables of the test fleet: `whoami`, `items`.)
    pub(super) fn new(names: &[&str]) -> Self {
        let fleet = Fleet::new(names);
        let stage = Stage::new(&config(&fleet));
        Self { fleet, stage }
    }

    /// The same, with so many migrations that each make a table `t1`, `t2` ..
    pub(super) fn with_tables(names: &[&str], count: usize) -> Self {
        let world = Self::new(names);
        for number in 1..=count {
            world.table(number);
        }
        world
    }

    /// Shards of which each has `orders` in so many tables, which no migration has made yet. `more`: what else the
    /// configuration says of `orders`.
    pub(super) fn sharded(names: &[&str], count: u32, more: &str) -> Self {
        let world = Self::new(names);
        let config = format!(
            "{}tables = {{ orders = {{ key_column = \"user_id\", count = {count}{more} }} }}\n",
            config(&world.fleet)
        );
        world.stage.write("diesel-sharded.toml", &config);
        world
    }

    /// The migration that makes the table of this number.
    pub(super) fn table(&self, number: usize) {
        self.stage.migration(
            &format!("{}_t{number}", dashed(number)),
            &format!("CREATE TABLE t{number} (id BIGINT PRIMARY KEY);\n"),
            &format!("DROP TABLE t{number};\n"),
        );
    }

    /// Runs the binary.
    pub(super) fn run(&self, args: &[&str]) -> Output {
        self.stage.run(args)
    }

    /// Runs SQL on a shard, past the binary.
    pub(super) fn sql(&self, shard: &str, sql: &str) {
        use diesel::connection::SimpleConnection;

        let mut conn = self.fleet.direct(shard);
        conn.batch_execute(sql)
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// The versions that Diesel's own table has on a shard, oldest first.
    pub(super) fn versions(&self, shard: &str) -> Vec<String> {
        use diesel::prelude::*;

        diesel::table! {
            __diesel_schema_migrations (version) {
                version -> Text,
                run_on -> Timestamp,
            }
        }
        let versions = __diesel_schema_migrations::table
            .select(__diesel_schema_migrations::version)
            .order(__diesel_schema_migrations::version)
            .load(&mut self.fleet.direct(shard));
        versions.unwrap_or_default()
    }

    /// The numbers of the tables that the shard has, of those that [`table`](Self::table) makes.
    pub(super) fn tables(&self, shard: &str, most: usize) -> Vec<usize> {
        use diesel::connection::SimpleConnection;

        let mut conn = self.fleet.direct(shard);
        (1..=most)
            .filter(|number| {
                conn.batch_execute(&format!("SELECT count(*) FROM t{number}"))
                    .is_ok()
            })
            .collect()
    }
}

/// The version of a number as folders have it.
pub(super) fn dashed(number: usize) -> String {
    format!("2024-01-{number:02}-000000")
}

/// The version of a number as databases have it.
pub(super) fn version(number: usize) -> String {
    dashed(number).replace('-', "")
}

/// The configuration of a fleet with one keyspace.
pub(super) fn config(fleet: &Fleet) -> String {
    let names = fleet.shards();
    let urls = names.iter().map(|name| (name.as_str(), fleet.url(name)));
    format!(
        "{}[keyspaces.orders]\nshards = {names:?}\nmigrations = \"migrations\"\n",
        shards(urls)
    )
}

/// A URL of this backend where nobody is.
pub(super) fn nowhere(fleet: &Fleet) -> String {
    let url = fleet.url(&fleet.shards()[0]);
    match url::Url::parse(&url) {
        Ok(mut url) => {
            url.set_port(Some(1)).expect("a URL with a host");
            url.into()
        }
        Err(_) => "no/such/folder/a.db".to_owned(),
    }
}

/// What the run said of each shard: its outcome, and how many migrations ran.
pub(super) fn outcomes(output: &Output) -> Vec<(String, String, usize)> {
    let mut outcomes: Vec<_> = output
        .events_named("shard_finished")
        .iter()
        .map(|event| {
            (
                text(&event["shard"]),
                text(&event["outcome"]),
                event["ran"].as_array().expect("a list").len(),
            )
        })
        .collect();
    outcomes.sort();
    outcomes
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

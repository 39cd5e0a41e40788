//! Migrations that are part of the program: written in Rust, or compiled in.

use std::sync::{Arc, Mutex};

use diesel::connection::SimpleConnection;
use diesel_migrations::{EmbeddedMigrations, embed_migrations};
use diesel_sharded::BoxError;
use diesel_sharded::migrate::{
    AnyConnection, CodeMigration, FailureKind, Migrator, Options, Outcome, Source, Steps,
};
use diesel_sharded::{Error, Topology};

use super::backend::{self, Fleet, Manager};
use super::stage::{ended, failure, quiet, ran};

/// A migration whose code is a closure.
struct Code<F> {
    name: &'static str,
    in_transaction: bool,
    run: F,
}

impl<F> CodeMigration for Code<F>
where
    F: Fn(&mut AnyConnection) -> Result<(), BoxError> + Send + Sync,
{
    fn name(&self) -> &str {
        self.name
    }

    fn run(&self, conn: &mut AnyConnection) -> Result<(), BoxError> {
        (self.run)(conn)
    }

    fn run_in_transaction(&self) -> bool {
        self.in_transaction
    }
}

fn source<F>(name: &'static str, in_transaction: bool, run: F) -> Source
where
    F: Fn(&mut AnyConnection) -> Result<(), BoxError> + Send + Sync + 'static,
{
    Source::code([Arc::new(Code {
        name,
        in_transaction,
        run,
    }) as Arc<dyn CodeMigration>])
}

fn topology(fleet: &Fleet) -> Topology {
    let mut builder = Topology::builder();
    for shard in fleet.shards() {
        builder = builder.shard(shard.as_str(), fleet.url(&shard));
    }
    builder.build().unwrap()
}

fn migrator(fleet: &Fleet, source: Source) -> Migrator {
    Migrator::builder(&topology(fleet)).source(source).build().unwrap()
}

/// The code is bound to the shard that is being migrated, whatever it asks a manager for.
#[test]
fn code_reaches_its_own_shard_and_no_other() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    for in_transaction in [true, false] {
        let manager: Manager = fleet.manager();
        let inside = manager.clone();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let found = Arc::clone(&seen);
        let name = ["2024-01-01_without", "2024-01-02_within"][usize::from(in_transaction)];
        let source = source(name, in_transaction, move |conn| {
            let table = diesel::dsl::sql::<diesel::sql_types::Text>("SELECT name FROM whoami");
            let own: String = diesel::RunQueryDsl::get_result(table, conn)?;
            conn.batch_execute(&format!("INSERT INTO items (id) VALUES ({})", 1 + i64::from(in_transaction)))?;
            match inside.get() {
                Ok(mut pooled) => {
                    assert!(!in_transaction);
                    assert_eq!(backend::whoami(&mut pooled)?, own);
                }
                Err(Error::AlreadyInTransaction { shard }) => {
                    assert!(in_transaction && shard == own.as_str());
                }
                Err(other) => return Err(other.into()),
            }
            for other in ["a", "b", "c"] {
                if other == own {
                    continue;
                }
                let refused = inside.get_on(other).map(|_| ()).unwrap_err();
                assert!(matches!(refused, Error::PinnedElsewhere { .. }), "{refused}");
            }
            found.lock().unwrap().push(own);
            Ok(())
        });
        let migrator = Migrator::builder(manager.topology()).source(source).build().unwrap();
        let options = Options::new().parallel(3).allow_unknown(true);
        let report = migrator.run(&options, &quiet).unwrap();
        assert!(report.is_success(), "{report:#?}");
        let mut seen = seen.lock().unwrap().clone();
        seen.sort();
        assert_eq!(seen, ["a", "b", "c"]);
        // Nothing of it stays with the thread.
        assert!(matches!(manager.get(), Err(Error::NoRoute { .. })));
    }
    assert_eq!(fleet.rows("b"), [1, 2]);
}

#[test]
fn code_that_fails_or_panics_leaves_nothing() {
    let fleet = Fleet::new(&["a"]);
    for panics in [false, true] {
        let source = source("2024-01-01_bad", true, move |conn| {
            conn.batch_execute("INSERT INTO items (id) VALUES (1)")?;
            assert!(!panics, "a panic in a migration");
            Err("no good".into())
        });
        let report = migrator(&fleet, source).run(&Options::new(), &quiet).unwrap();
        let told = failure(&report, "a");
        assert_eq!(told.kind, FailureKind::Statement);
        let expected = if panics { "it panicked" } else { "no good" };
        assert_eq!(told.database.as_deref(), Some(expected));
        assert!(fleet.rows("a").is_empty());
    }
    let source = source("2024-01-01_bad", true, |conn| {
        Ok(conn.batch_execute("INSERT INTO items (id) VALUES (1)")?)
    });
    assert!(migrator(&fleet, source).run(&Options::new(), &quiet).unwrap().is_success());
}

/// Where something has been committed on the way, a failure is not called a rollback.
#[test]
fn code_that_has_left_something_behind_is_dirty() {
    let fleet = Fleet::new(&["a"]);
    let in_transaction = backend::NAME == "mysql";
    let source = source("2024-01-01_half", in_transaction, |conn| {
        conn.batch_execute("INSERT INTO items (id) VALUES (1)")?;
        conn.batch_execute("CREATE TABLE half (id INT)")?;
        Err("no good".into())
    });
    let migrator = migrator(&fleet, source);
    let report = migrator.run(&Options::new(), &quiet).unwrap();
    assert!(failure(&report, "a").message.contains("stopped half-way"), "{report:#?}");
    assert_eq!(fleet.rows("a"), [1]);
    let report = migrator.run(&Options::new(), &quiet).unwrap();
    assert_eq!(failure(&report, "a").kind, FailureKind::Dirty);
}

/// PostgreSQL answers the COMMIT of a failed transaction with a silent rollback.
#[test]
fn code_that_swallows_an_error_is_not_called_applied() {
    let fleet = Fleet::new(&["a"]);
    let source = source("2024-01-01_swallow", true, |conn| {
        conn.batch_execute("INSERT INTO items (id) VALUES (1)")?;
        let _ = conn.batch_execute("INSERT INTO nowhere VALUES (1)");
        Ok(())
    });
    let report = migrator(&fleet, source).run(&Options::new(), &quiet).unwrap();
    if backend::NAME == "postgres" {
        assert_eq!(failure(&report, "a").kind, FailureKind::RolledBack);
        assert!(fleet.rows("a").is_empty());
    } else {
        assert!(report.is_success());
        assert_eq!(fleet.rows("a"), [1]);
    }
}

#[test]
fn code_without_a_way_back_is_not_reverted() {
    let fleet = Fleet::new(&["a"]);
    let migrator = migrator(&fleet, source("2024-01-01_only_up", true, |_| Ok(())));
    assert!(migrator.run(&Options::new(), &quiet).unwrap().is_success());
    let report = migrator.revert(Steps::Last(1), &Options::new(), &quiet).unwrap();
    assert_eq!(failure(&report, "a").kind, FailureKind::NotRevertible);
}

const EMBEDDED: EmbeddedMigrations = embed_migrations!("tests/suite/migrations");

#[test]
fn embedded_migrations_run_over_all_shards_like_those_from_a_folder() {
    let fleet = Fleet::new(&["a", "b"]);
    let embedded = migrator(&fleet, Source::embedded(EMBEDDED));
    let report = embedded.run(&Options::new(), &quiet).unwrap();
    ended(&report, &[("a", Outcome::Done), ("b", Outcome::Done)]);
    assert_eq!(ran(&report, "b").len(), 2);
    // The texts are the same, so it is the same set.
    let folder = migrator(&fleet, Source::folder("tests/suite/migrations"));
    assert!(folder.status(&Options::new()).unwrap().is_up_to_date());
    let report = folder.revert(Steps::All, &Options::new(), &quiet).unwrap();
    assert!(report.is_success(), "{report:#?}");
}

#[test]
fn shards_on_one_database_are_migrated_once() {
    let fleet = Fleet::new(&["a"]);
    let url = fleet.url("a");
    let topology = Topology::builder()
        .shared_database(true)
        .shard("one", url.as_str())
        .shard("two", url.as_str())
        .build()
        .unwrap();
    let migrator = Migrator::builder(&topology)
        .source(source("2024-01-01_rows", true, |conn| {
            Ok(conn.batch_execute("INSERT INTO items (id) VALUES (1)")?)
        }))
        .shard_source("two", source("2024-01-02_more", true, |conn| {
            Ok(conn.batch_execute("INSERT INTO items (id) VALUES (2)")?)
        }))
        .build()
        .unwrap();
    assert_eq!(migrator.databases().len(), 1);
    // Naming one of them works on the database as a whole.
    let report = migrator.run(&Options::new().shards(["two"]), &quiet).unwrap();
    assert_eq!(report.shards.len(), 1);
    assert_eq!(report.shard("two").unwrap().also, ["two"]);
    assert_eq!(ran(&report, "one").len(), 2);
    assert_eq!(fleet.rows("a"), [1, 2]);
    let report = migrator.run(&Options::new().parallel(2), &quiet).unwrap();
    ended(&report, &[("one", Outcome::UpToDate)]);
}

#[test]
fn a_run_says_whose_data_each_database_holds() {
    let fleet = Fleet::new(&["a", "b"]);
    let first = migrator(&fleet, source("2024-01-01_only_up", true, |_| Ok(())));
    assert!(first.run(&Options::new(), &quiet).unwrap().is_success());
    // The two are exchanged, and nothing is done to either.
    let exchanged = Topology::builder()
        .shard("a", fleet.url("b"))
        .shard("b", fleet.url("a"))
        .build()
        .unwrap();
    let second = Migrator::builder(&exchanged)
        .source(source("2024-01-01_only_up", true, |_| Ok(())))
        .source(source("2024-01-02_rows", true, |conn| {
            Ok(conn.batch_execute("INSERT INTO items (id) VALUES (1)")?)
        }))
        .build()
        .unwrap();
    let report = second.run(&Options::new(), &quiet).unwrap();
    assert_eq!(failure(&report, "a").kind, FailureKind::WrongDatabase);
    assert!(!second.status(&Options::new()).unwrap().is_up_to_date());
    assert!(fleet.rows("a").is_empty() && fleet.rows("b").is_empty());
    let manager = backend::Manager::builder().shard("a", fleet.url("b")).build().unwrap();
    assert!(matches!(manager.get_on("a"), Err(Error::WrongDatabase { .. })));
}

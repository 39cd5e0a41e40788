//! Migrations over every shard.
//!
//! A [`Migrator`] knows each shard's database and the migrations that belong there: the folders of
//! its keyspaces and its own (`migrations` in the configuration, in Diesel's form), migrations that
//! were compiled into the program, and migrations written in Rust. It brings every database to the
//! newest version, several at a time, each under a lock of its own, and reports what happened shard by
//! shard. The binary `diesel-sharded` is a thin face on it.
//!
//! ```
//! # #[cfg(feature = "sqlite")] fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use diesel_sharded::migrate::{Migrator, Options, Source};
//! use diesel_sharded::Topology;
//!
//! # let folder = tempfile::tempdir()?;
//! # let at = |name: &str| folder.path().join(name).display().to_string();
//! let topology = Topology::builder()
//!     .shard("order-0", at("order-0.sqlite"))
//!     .shard("order-1", at("order-1.sqlite"))
//!     .build()?;
//! let migrator = Migrator::builder(&topology)
//!     .source(Source::folder("migrations/example/{backend}"))
//!     .build()?;
//! let report = migrator.run(&Options::new().parallel(2), &|_event| {})?.into_result()?;
//! assert_eq!(report.shards.len(), 2);
//! assert!(migrator.status(&Options::new())?.is_up_to_date());
//! # Ok(()) }
//! # #[cfg(not(feature = "sqlite"))] fn main() {}
//! ```
//!
//! # What is recorded where
//!
//! Applied versions stand in Diesel's own table `__diesel_schema_migrations`, so that the `diesel`
//! program and `diesel_migrations` agree with this one, whoever comes first. What Diesel's table has
//! no place for stands beside it, in tables that begin with `diesel_sharded_`: checksums of what was
//! applied, how far a migration outside of a transaction has come and how its statements read, who has the lock, and whose data the
//! database holds.
//!
//! # In a transaction or not
//!
//! A migration runs in one transaction together with its entry in the version table, so that it is
//! either there and recorded, or neither. Some cannot: those with `run_in_transaction = false` in
//! `metadata.toml`, those that begin or end transactions by themselves, and on MySQL those that do more
//! than change rows, since MySQL commits before and after each change of the schema. They are sent
//! statement by statement, and after each one it is recorded how far they have come; within a transaction
//! that they begin by themselves, once it is committed. One that stops
//! half-way leaves its shard *dirty*: nothing more runs there until somebody has looked at the database
//! and said how to go on ([`Migrator::repair`]).

mod alike;
mod any;
mod apply;
mod assess;
mod call;
mod check;
mod counted;
mod dirty;
mod event;
mod fleet;
mod migrator;
mod options;
mod parts;
mod plan;
mod repair;
mod report;
mod schema;
mod session;
mod source;
mod split;
mod status;
mod steps;
mod templates;
mod work;

pub use alike::TableDifference;
pub use any::AnyConnection;
pub use event::{Direction, Event, Holder, Observer, TableAction};
pub use migrator::{Database, Migrator, MigratorBuilder};
pub use options::Options;
pub use parts::{PartState, Retire, ShardTables, TablePart, TablesReport};
pub use plan::{Action, Plan, ShardPlan, Step, Steps};
pub use repair::{Repair, ShardLock};
pub use report::{
    FailedStatement, Failure, FailureKind, Marked, MigrationFailed, Outcome, Ran, Report,
    ShardReport,
};
pub use schema::{SchemaReport, ShardSchema};
pub use source::{CodeMigration, Source};
pub use status::{Dirty, ShardStatus, Status, VersionName, VersionState, VersionStatus};

//! The commands that go to the databases. A build without any backend has none of them.

mod migration;
mod ping;
mod report;
mod schema;
mod tables;
mod verify;

use clap::Subcommand;

pub(crate) use migration::{DefaultFolder, check as check_migrations};

use crate::context::Context;
use crate::failure::CommandResult;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Migrate every shard, in the manner of `diesel migration`
    Migration(migration::Args),
    /// Compare what the databases really look like; write schema files
    Schema(schema::Args),
    /// List the physical tables of sharded tables; make and retire those that are named by dates
    Tables(tables::Args),
    /// Reach every node and say what it is
    Ping(ping::Args),
    /// Read the keys of all rows and list those that are not where the rule places them
    Verify(verify::Args),
}

impl Command {
    pub(crate) fn run(&self, context: &Context) -> CommandResult {
        match self {
            Self::Migration(args) => migration::run(args, context),
            Self::Schema(args) => schema::run(args, context),
            Self::Tables(args) => tables::run(args, context),
            Self::Ping(args) => ping::run(args, context),
            Self::Verify(args) => verify::run(args, context),
        }
    }
}

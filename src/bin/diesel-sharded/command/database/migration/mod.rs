//! `migration ..`: every shard at the schema of its keyspace, in the manner of `diesel migration`.

mod apply;
mod diesel_toml;
mod fleet;
mod generate;
mod list;
mod lock;
mod plan;
mod print_schema;
mod progress;
mod repair;
mod status;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::CommandResult;

pub(crate) use fleet::{DefaultFolder, check};
pub(super) use fleet::{FleetArgs, load, load_without_migrations, migrator, reading};
pub(super) use print_schema::{Args as PrintSchemaArgs, run as print_schema};
pub(super) use progress::Progress;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  diesel-sharded migration generate add_items        a new migration, as `diesel` makes it
  diesel-sharded migration plan --sql                what would run where, with its SQL
  diesel-sharded migration run --canary order-0      one shard first, then the others
  diesel-sharded migration status --check            exits with 3 unless all shards have everything")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Apply what is pending on every shard
    Run(apply::RunArgs),
    /// Revert each shard's last migrations
    Revert(apply::StepsArgs),
    /// Revert each shard's last migrations and apply them again
    Redo(apply::StepsArgs),
    /// Say whether anything is pending: `true` or `false`
    Pending(list::PendingArgs),
    /// List the migrations, and where each is applied
    List(list::ListArgs),
    /// Make the files of a new migration
    Generate(generate::Args),
    /// Show which shard has which versions
    Status(status::Args),
    /// Show what would run where; changes nothing
    Plan(plan::Args),
    /// End the dirty state that a migration left when it stopped half-way
    Repair(repair::Args),
    /// Show who holds the migration locks; with --force, end their sessions
    Unlock(lock::Args),
}

pub(crate) fn run(args: &Args, context: &Context) -> CommandResult {
    match &args.command {
        Command::Run(args) => apply::run(args, context),
        Command::Revert(args) => apply::revert(args, context),
        Command::Redo(args) => apply::redo(args, context),
        Command::Pending(args) => list::pending(args, context),
        Command::List(args) => list::list(args, context),
        Command::Generate(args) => generate::run(args, context),
        Command::Status(args) => status::run(args, context),
        Command::Plan(args) => plan::run(args, context),
        Command::Repair(args) => repair::run(args, context),
        Command::Unlock(args) => lock::run(args, context),
    }
}

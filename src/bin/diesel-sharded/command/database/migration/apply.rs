//! `migration run`, `revert` and `redo`.

use diesel_sharded::migrate::{Action, Options, Steps};

use super::fleet::{FleetArgs, load};
use super::print_schema::SchemaFiles;
use super::progress::Progress;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::CommandResult;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  diesel-sharded migration run                        all shards, one after the other
  diesel-sharded migration run --parallel 8           eight at a time
  diesel-sharded migration run --canary order-0       this one first, then the others
  diesel-sharded migration run -s 'order-*' --lock-timeout 1s --retries 3
  diesel-sharded migration run --format json          one object per event

First every database is reached and read; while one of them cannot be, or has diverged, nothing is \
changed, unless --keep-going or --max-failures lets the others go on without it. After a failure no \
further shard is started, unless the same options say so. To go on, run it again: what is done is skipped, what failed is tried. Several runners may be started at the same time; \
each shard has a lock, and whoever comes later waits (--wait) and finds nothing left to do.")]
pub(super) struct RunArgs {
    #[command(flatten)]
    fleet: FleetArgs,
}

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  diesel-sharded migration revert                     the last migration of every shard
  diesel-sharded migration revert -n 2 -s order-1     the last two of one shard
  diesel-sharded migration redo                       down.sql and up.sql again

Where the shards would not all revert the same versions, nothing is done unless --force is given.")]
pub(super) struct StepsArgs {
    /// How many migrations
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    number: u32,

    /// All that are applied
    #[arg(long, short = 'a', conflicts_with = "number")]
    all: bool,

    /// Go on although the shards would not all revert the same versions
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    fleet: FleetArgs,
}

impl StepsArgs {
    fn steps(&self) -> Steps {
        if self.all {
            Steps::All
        } else {
            Steps::Last(usize::try_from(self.number).unwrap_or(usize::MAX))
        }
    }
}

pub(super) fn run(args: &RunArgs, context: &Context) -> CommandResult {
    execute(Action::Run, &args.fleet, |options| options, context)
}

pub(super) fn revert(args: &StepsArgs, context: &Context) -> CommandResult {
    let force = |options: Options| options.force(args.force);
    execute(Action::Revert(args.steps()), &args.fleet, force, context)
}

pub(super) fn redo(args: &StepsArgs, context: &Context) -> CommandResult {
    let force = |options: Options| options.force(args.force);
    execute(Action::Redo(args.steps()), &args.fleet, force, context)
}

fn execute(
    action: Action,
    fleet: &FleetArgs,
    more: impl FnOnce(Options) -> Options,
    context: &Context,
) -> CommandResult {
    let (config, topology, migrator) = load(context)?;
    for warning in config.warnings() {
        context.output().warning(warning);
    }
    let options = more(fleet.options(&topology)?);
    let schema_files = SchemaFiles::of(&config, &topology)?;
    let advice = fleet.advice(&action);
    let progress = Progress::start(context.output(), fleet.parallel(), advice);
    let report = migrator.execute(action, &options, &|event| progress.observe(event))?;
    progress.finish(&report);
    if !report.is_success() {
        return Ok(Exit::ShardFailed);
    }
    schema_files.write(context, &topology, &migrator);
    Ok(Exit::Done)
}

//! `migration repair SHARD VERSION`: how a migration that stopped half-way goes on.

use clap::ValueEnum;
use diesel_sharded::migrate::{Options, Repair};

use super::fleet::load;
use super::progress::Progress;
use crate::command::database::report::Advice;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::CommandResult;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  diesel-sharded migration repair order-1 20240103000000 --resume-from 2
  diesel-sharded migration repair order-1 20240103000000 --mark applied
  diesel-sharded migration repair order-1 20240103000000 --mark reverted

`migration status` says which statement a migration stopped at. Look at the database first. Then either \
let it go on with the statement of a number (--resume-from; the statements before it that have run must \
read as they did, the others may be corrected; those before it that have not run are skipped, and a \
transaction that the migration begins by itself goes as a whole), or put the database right by hand and say \
what it is now (--mark applied: everything of the migration is there; --mark reverted: nothing is).")]
#[command(
    override_usage = "diesel-sharded migration repair [OPTIONS] <SHARD> <VERSION> <--resume-from N|--mark STATE>",
    group(clap::ArgGroup::new("how").required(true).args(["resume_from", "mark"]))
)]
pub(super) struct Args {
    /// The shard
    shard: String,

    /// The version, with or without dashes, or the name of the migration
    version: String,

    /// Go on with the statement of this number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    resume_from: Option<u32>,

    /// Send statements again that have run already, where what they did has been undone
    #[arg(long, conflicts_with = "mark")]
    force: bool,

    /// Record this as what the database is now
    #[arg(long, value_name = "STATE", value_enum)]
    mark: Option<Mark>,

    /// Wait so long for another runner to finish with the shard
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = humantime::parse_duration)]
    wait: std::time::Duration,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Mark {
    /// Everything of the migration is there
    Applied,
    /// Nothing of the migration is there
    Reverted,
}

pub(super) fn run(args: &Args, context: &Context) -> CommandResult {
    let (_, _, migrator) = load(context)?;
    let repair = match (args.mark, args.resume_from) {
        (Some(Mark::Applied), _) => Repair::MarkApplied,
        (Some(Mark::Reverted), _) => Repair::MarkReverted,
        (None, number) => {
            Repair::ResumeFrom(usize::try_from(number.unwrap_or(1)).unwrap_or(usize::MAX))
        }
    };
    let progress = Progress::start(context.output(), 1, Advice::default());
    let options = Options::new().wait(args.wait).force(args.force);
    let report = migrator.repair(&args.shard, &args.version, repair, &options, &|event| {
        progress.observe(event);
    })?;
    progress.finish_repair(&report);
    Ok(if report.outcome.is_success() {
        Exit::Done
    } else {
        Exit::ShardFailed
    })
}

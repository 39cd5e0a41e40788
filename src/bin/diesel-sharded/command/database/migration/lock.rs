//! `migration unlock`: who holds the locks, and what to do about a runner that hangs.

use diesel_sharded::migrate::ShardLock;
use serde::Serialize;

use super::fleet::{load, reading};
use crate::command::database::report::failure_lines;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::CommandResult;
use crate::output::{DOUBTFUL, counted, styled};
use crate::selection::Selection;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  diesel-sharded migration unlock                     who holds a lock, and since when?
  diesel-sharded migration unlock -s order-1 --force  end the session that holds it

A lock belongs to a database session, or to a process on SQLite, and is gone with it, also after \
`kill -9`. So there is nothing to unlock after a crash; --force is for a runner that hangs.")]
pub(super) struct Args {
    #[command(flatten)]
    selection: Selection,

    /// End the sessions that hold the locks
    #[arg(long)]
    force: bool,
}

#[derive(Serialize)]
struct LockEvent<'a> {
    event: &'static str,
    #[serde(flatten)]
    lock: &'a ShardLock,
}

pub(super) fn run(args: &Args, context: &Context) -> CommandResult {
    let (_, topology, migrator) = load(context)?;
    let options = reading(&args.selection, &topology)?.force(args.force);
    let locks = migrator.unlock(&options)?;
    let output = context.output();
    let mut exit = Exit::Done;
    for lock in &locks {
        output.event(&LockEvent {
            event: "lock",
            lock,
        });
        if let Some(holder) = &lock.holder {
            let since = holder.since.map_or_else(String::new, |since| {
                format!(" since {}", humantime::format_rfc3339_seconds(since))
            });
            output.line(format_args!(
                "{}: {} by {}{since}{}",
                lock.shard,
                styled(DOUBTFUL, "locked"),
                holder.who,
                if lock.ended {
                    "; its session was ended"
                } else {
                    ""
                }
            ));
        }
        if let Some(failure) = &lock.failure {
            exit = Exit::ShardFailed;
            for line in failure_lines(lock.shard, failure) {
                output.line(line);
            }
        }
    }
    let held = locks.iter().filter(|lock| lock.holder.is_some()).count();
    let unknown = locks
        .iter()
        .filter(|lock| lock.holder.is_none() && lock.failure.is_some())
        .count();
    output.line(format_args!(
        "locked: {held} of {}{}",
        counted(locks.len(), "database"),
        if unknown == 0 {
            String::new()
        } else {
            format!(", {unknown} not known")
        }
    ));
    Ok(exit)
}

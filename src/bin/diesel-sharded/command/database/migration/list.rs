//! `migration list` and `migration pending`, as `diesel migration` has them, over many shards.

use diesel_sharded::migrate::{Status, VersionState};
use serde::Serialize;

use super::fleet::{load, reading};
use crate::command::database::report::failure_lines;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, Failure};
use crate::output::Output;
use crate::selection::Selection;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  diesel-sharded migration list
  diesel-sharded migration list -k orders

[X] is applied on every shard it belongs on, [ ] on none, [~] on some of them.")]
pub(super) struct ListArgs {
    #[command(flatten)]
    selection: Selection,
}

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  diesel-sharded migration pending
  [ \"$(diesel-sharded migration pending)\" = false ] && deploy

Prints `true` where a migration is not applied on a shard it belongs on, else `false`; `diesel-sharded \
migration status` says which.")]
pub(super) struct PendingArgs {
    #[command(flatten)]
    selection: Selection,
}

/// One version over all shards.
#[derive(Serialize)]
struct Version<'a> {
    event: &'static str,
    version: &'a str,
    name: Option<&'a str>,
    /// On so many databases it is applied.
    applied: usize,
    /// It belongs on so many.
    of: usize,
    /// The shards on which it is not applied.
    missing: Vec<&'a str>,
}

pub(super) fn list(args: &ListArgs, context: &Context) -> CommandResult {
    let status = status(&args.selection, context)?;
    let output = context.output();
    output.line("Migrations:");
    for version in versions(&status) {
        let mark = match version.applied {
            0 => ' ',
            applied if applied == version.of => 'X',
            _ => '~',
        };
        let name = version.name.unwrap_or(version.version);
        match mark {
            '~' => output.line(format_args!(
                "  [~] {name} (on {} of {}, not on {})",
                version.applied,
                version.of,
                shortened(&version.missing)
            )),
            mark => output.line(format_args!("  [{mark}] {name}")),
        }
        output.event(&version);
    }
    Ok(exit(output, &status))
}

pub(super) fn pending(args: &PendingArgs, context: &Context) -> CommandResult {
    #[derive(Serialize)]
    struct Pending {
        event: &'static str,
        pending: bool,
    }
    let status = status(&args.selection, context)?;
    let pending = status.shards.iter().any(|shard| {
        let mut states = shard.versions.iter().map(|version| version.state);
        states.any(|state| !is_applied(state))
    });
    let output = context.output();
    output.line(pending);
    output.event(&Pending {
        event: "pending",
        pending,
    });
    Ok(exit(output, &status))
}

fn status(selection: &Selection, context: &Context) -> Result<Status, Failure> {
    let (_, topology, migrator) = load(context)?;
    Ok(migrator.status(&reading(selection, &topology)?)?)
}

fn is_applied(state: VersionState) -> bool {
    matches!(
        state,
        VersionState::Applied | VersionState::Edited | VersionState::Unknown
    )
}

fn versions(status: &Status) -> impl Iterator<Item = Version<'_>> {
    status.versions.iter().map(|version| {
        let mut entry = Version {
            event: "version",
            version: &version.version,
            name: version.name.as_deref(),
            applied: 0,
            of: 0,
            missing: Vec::new(),
        };
        for shard in &status.shards {
            match shard.state(&version.version) {
                None => {}
                Some(state) => {
                    entry.of += 1;
                    if is_applied(state) {
                        entry.applied += 1;
                    } else {
                        entry.missing.push(shard.shard.as_str());
                    }
                }
            }
        }
        entry
    })
}

fn shortened(names: &[&str]) -> String {
    const SHOWN: usize = 6;
    let shown = names
        .iter()
        .take(SHOWN)
        .copied()
        .collect::<Vec<_>>()
        .join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Shards that cannot be read are told on standard error: the answer itself may be piped.
fn exit(output: &Output, status: &Status) -> Exit {
    let mut exit = Exit::Done;
    for shard in &status.shards {
        for failure in &shard.failures {
            exit = Exit::ShardFailed;
            output.aside_lines(&failure_lines(shard.shard, failure));
        }
    }
    exit
}

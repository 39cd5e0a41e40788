//! `migration list` and `migration pending`, as `diesel migration` has them, over many shards.

use diesel_sharded::ShardName;
use diesel_sharded::migrate::{
    Database, Failure as ShardFailure, ShardStatus, Status, VersionState,
};
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

[X] is applied on every shard it belongs on, [ ] on none, [~] on some of them; [!] has begun on a shard and \
not ended: dirty, in doubt, or running; [?] belongs on a shard that could not be read, and then the exit \
code is 1.")]
pub(super) struct ListArgs {
    #[command(flatten)]
    selection: Selection,
}

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  diesel-sharded migration pending
  answer=$(diesel-sharded migration pending) && [ \"$answer\" = false ] && deploy

Prints `true` where a migration is not applied on a shard it belongs on, else `false`, or `unknown` where \
that cannot be said since a shard could not be read. Exits with 1 when a shard could not be read. \
`diesel-sharded migration status` says which is what.")]
pub(super) struct PendingArgs {
    #[command(flatten)]
    selection: Selection,
}

/// One migration over all shards.
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
    /// The shards on which it stopped half-way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dirty: Vec<&'a str>,
    /// Those on which it has begun and not ended, and nobody knows whether its runner is at work.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    in_doubt: Vec<&'a str>,
    /// Those on which another runner is in the middle of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    running: Vec<&'a str>,
    /// The shards it belongs on that could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unread: Vec<&'a str>,
}

impl Version<'_> {
    fn line(&self) -> String {
        let name = self.name.unwrap_or(self.version);
        let has_begun =
            !(self.dirty.is_empty() && self.in_doubt.is_empty() && self.running.is_empty());
        let mark = match (self.applied, self.unread.is_empty()) {
            (_, false) => '?',
            _ if has_begun => '!',
            (0, true) => ' ',
            (applied, true) if applied == self.of => 'X',
            _ => '~',
        };
        if matches!(mark, ' ' | 'X') {
            return format!("  [{mark}] {name}");
        }
        let mut text = format!("  [{mark}] {name} (on {} of {}", self.applied, self.of);
        let begun = [&self.dirty, &self.in_doubt, &self.running];
        let mut not_begun = self.missing.clone();
        not_begun.retain(|shard| !begun.iter().any(|shards| shards.contains(shard)));
        for (what, shards) in [
            ("not on", &not_begun),
            ("dirty on", &self.dirty),
            ("in doubt on", &self.in_doubt),
            ("running on", &self.running),
            ("could not be read:", &self.unread),
        ] {
            if !shards.is_empty() {
                text = format!("{text}, {what} {}", shortened(shards));
            }
        }
        text.push(')');
        text
    }
}

/// A shard that could not be read.
#[derive(Serialize)]
struct Unread<'a> {
    event: &'static str,
    shard: ShardName,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    also: &'a [ShardName],
    failures: &'a [ShardFailure],
}

pub(super) fn list(args: &ListArgs, context: &Context) -> CommandResult {
    let (databases, status) = status(&args.selection, context)?;
    let output = context.output();
    output.line("Migrations:");
    for version in versions(&databases, &status) {
        output.line(version.line());
        output.event(&version);
    }
    Ok(exit(output, &status))
}

pub(super) fn pending(args: &PendingArgs, context: &Context) -> CommandResult {
    #[derive(Serialize)]
    struct Pending {
        event: &'static str,
        pending: Option<bool>,
    }
    let (_, status) = status(&args.selection, context)?;
    let mut read = status.shards.iter().filter(|shard| is_read(shard));
    let pending = read.any(|shard| {
        let mut states = shard.versions.iter().map(|version| version.state);
        states.any(|state| !is_applied(state))
    });
    // A shard that could not be read may lack anything: only a `true` of another one is certain.
    let pending = (pending || status.shards.iter().all(is_read)).then_some(pending);
    let output = context.output();
    output.line(match pending {
        Some(true) => "true",
        Some(false) => "false",
        None => "unknown",
    });
    output.event(&Pending {
        event: "pending",
        pending,
    });
    Ok(exit(output, &status))
}

fn status(selection: &Selection, context: &Context) -> Result<(Vec<Database>, Status), Failure> {
    let (_, topology, migrator) = load(context)?;
    let status = migrator.status(&reading(selection, &topology)?)?;
    Ok((migrator.databases(), status))
}

/// Whether what is said of a shard's versions is true of it.
fn is_read(shard: &ShardStatus) -> bool {
    shard.failures.is_empty()
}

fn is_applied(state: VersionState) -> bool {
    matches!(
        state,
        VersionState::Applied | VersionState::Edited | VersionState::Unknown
    )
}

fn versions<'a>(
    databases: &'a [Database],
    status: &'a Status,
) -> impl Iterator<Item = Version<'a>> {
    status.versions.iter().map(|wanted| {
        let mut entry = Version {
            event: "version",
            version: &wanted.version,
            name: wanted.name.as_deref(),
            applied: 0,
            of: 0,
            missing: Vec::new(),
            dirty: Vec::new(),
            in_doubt: Vec::new(),
            running: Vec::new(),
            unread: Vec::new(),
        };
        for shard in &status.shards {
            let name = shard.shard.as_str();
            if !is_read(shard) {
                // What belongs there is known without it.
                let database = databases.iter().find(|one| one.shard == shard.shard);
                let mut belongs = database.iter().flat_map(|one| &one.migrations);
                if belongs.any(|(version, name)| {
                    *version == wanted.version && wanted.name.as_ref() == Some(name)
                }) {
                    entry.of += 1;
                    entry.unread.push(name);
                }
                continue;
            }
            let mut there = shard.versions.iter();
            if let Some(there) =
                there.find(|one| one.version == wanted.version && one.name == wanted.name)
            {
                entry.of += 1;
                if is_applied(there.state) {
                    entry.applied += 1;
                } else {
                    entry.missing.push(name);
                }
                match there.state {
                    VersionState::Dirty => entry.dirty.push(name),
                    VersionState::InDoubt => entry.in_doubt.push(name),
                    VersionState::Running => entry.running.push(name),
                    _ => {}
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

/// Shards that could not be read are told on standard error, where the answer itself may be piped, and
/// as events.
fn exit(output: &Output, status: &Status) -> Exit {
    let mut exit = Exit::Done;
    for shard in &status.shards {
        if is_read(shard) {
            continue;
        }
        exit = Exit::ShardFailed;
        for failure in &shard.failures {
            output.aside_lines(&failure_lines(shard.shard, failure));
        }
        output.event(&Unread {
            event: "shard_unread",
            shard: shard.shard,
            also: &shard.also,
            failures: &shard.failures,
        });
    }
    exit
}

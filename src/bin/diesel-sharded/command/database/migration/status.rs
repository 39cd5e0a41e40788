//! `migration status`: the matrix of shards and versions.

use std::collections::BTreeSet;

use anstyle::Style;
use diesel_sharded::ShardName;
use diesel_sharded::migrate::{Dirty, ShardStatus, Status, VersionName, VersionState};
use serde::Serialize;

use super::fleet::{load, reading};
use crate::command::database::report::failure_lines;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::CommandResult;
use crate::output::{BAD, DOUBTFUL, GOOD, Output, counted, styled, table};
use crate::selection::Selection;

/// So many versions that every shard has are shown, the newest; the others are counted.
const SHOWN_APPLIED: usize = 3;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  diesel-sharded migration status
  diesel-sharded migration status --check || echo 'not all shards have everything'
  diesel-sharded migration status --all -s 'order-*'
  diesel-sharded migration status --format json | jq 'select(.event == \"shard_status\")'

A version on a shard is
  applied    it has run there, with the text it has now
  pending    it has not run yet
  diverged   it has not run although a newer one has
  edited     it has run, with another text than it has now
  unknown    it has run, and is in no folder
  dirty      it stopped half-way: see `diesel-sharded migration repair`
  running    another runner is in the middle of it: nothing is wrong, and --check exits\n             with 3 until it has ended
  in_doubt   it has begun and not ended, and whether its runner is at work is not known
  -          it does not belong there
  ?          the shard could not be read
Where every version is applied, the physical tables of sharded tables are compared with each other too; \
whatever else somebody made by hand is found by `diesel-sharded schema diff`.")]
pub(super) struct Args {
    #[command(flatten)]
    selection: Selection,

    /// Exit with 3 unless every shard has exactly what its folders say
    #[arg(long)]
    check: bool,

    /// Show every version, also those that every shard has
    #[arg(long)]
    all: bool,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event<'a> {
    Versions {
        versions: &'a [VersionName],
    },
    ShardStatus {
        #[serde(flatten)]
        status: &'a ShardStatus,
        up_to_date: bool,
    },
    StatusFinished {
        databases: usize,
        up_to_date: usize,
        pending: usize,
        running: usize,
        in_doubt: usize,
        diverged: usize,
        failed: usize,
    },
}

pub(super) fn run(args: &Args, context: &Context) -> CommandResult {
    let (_, topology, migrator) = load(context)?;
    let status = migrator.status(&reading(&args.selection, &topology)?)?;
    let counts = Counts::of(&status);
    let output = context.output();
    if output.is_json() {
        events(output, &status, &counts);
    } else {
        lines(output, &status, &counts, args.all);
    }
    Ok(if counts.failed > 0 {
        Exit::ShardFailed
    } else if args.check && !status.is_up_to_date() {
        Exit::Found
    } else {
        Exit::Done
    })
}

/// How many databases are how.
struct Counts {
    up_to_date: usize,
    pending: usize,
    running: usize,
    in_doubt: usize,
    diverged: usize,
    failed: usize,
}

impl Counts {
    fn of(status: &Status) -> Self {
        let count = |of: &dyn Fn(&ShardStatus) -> bool| {
            status.shards.iter().filter(|shard| of(shard)).count()
        };
        let behind = |shard: &ShardStatus| {
            shard.failures.is_empty() && !shard.is_up_to_date() && !shard.has_diverged()
        };
        Self {
            up_to_date: count(&|shard| shard.is_up_to_date()),
            pending: count(&|shard| behind(shard) && !shard.is_running() && !shard.is_in_doubt()),
            running: count(&|shard| behind(shard) && shard.is_running() && !shard.is_in_doubt()),
            in_doubt: count(&|shard| behind(shard) && shard.is_in_doubt()),
            diverged: count(&|shard| shard.failures.is_empty() && shard.has_diverged()),
            failed: count(&|shard| !shard.failures.is_empty()),
        }
    }
}

fn events(output: &Output, status: &Status, counts: &Counts) {
    output.event(&Event::Versions {
        versions: &status.versions,
    });
    for shard in &status.shards {
        output.event(&Event::ShardStatus {
            status: shard,
            up_to_date: shard.is_up_to_date(),
        });
    }
    output.event(&Event::StatusFinished {
        databases: status.shards.len(),
        up_to_date: counts.up_to_date,
        pending: counts.pending,
        running: counts.running,
        in_doubt: counts.in_doubt,
        diverged: counts.diverged,
        failed: counts.failed,
    });
}

fn lines(output: &Output, status: &Status, counts: &Counts, all: bool) {
    let hidden = if all { BTreeSet::new() } else { hidden(status) };
    let shown: Vec<&VersionName> = status
        .versions
        .iter()
        .filter(|version| !hidden.contains(&*version.version))
        .collect();
    // Migrations of different keyspaces may have one version: one column, and a line for each below.
    let mut columns: Vec<&str> = shown.iter().map(|version| &*version.version).collect();
    columns.dedup();
    let header = std::iter::once("SHARD".to_owned())
        .chain(columns.iter().map(|version| (*version).to_owned()))
        .chain(std::iter::once("STATE".to_owned()));
    let mut rows = table(header);
    for shard in &status.shards {
        let mut row = vec![shards_of(shard)];
        let nothing = if shard.failures.is_empty() { "-" } else { "?" };
        for version in &columns {
            let state = shard.state(version);
            row.push(state.map_or(nothing, VersionState::as_str).to_owned());
        }
        // The last column: the width of others would count what a style is made of.
        let (style, state) = state_of(shard);
        row.push(styled(style, state));
        rows.add_row(row);
    }
    output.table(&rows);
    output.line("");
    for version in &shown {
        let name = version.name.as_deref().unwrap_or("(in no folder)");
        output.line(format_args!("{}  {name}", version.version));
    }
    if !hidden.is_empty() {
        let which = if counts.failed == 0 {
            "every shard has"
        } else {
            "every shard has that could be read"
        };
        let older = status
            .versions
            .iter()
            .filter(|version| hidden.contains(&*version.version));
        output.line(format_args!(
            "and {} older that {which} (--all shows them)",
            older.count()
        ));
    }
    output.line("");
    remarks(output, status);
    let style = if status.is_up_to_date() {
        GOOD
    } else {
        DOUBTFUL
    };
    let counts: Vec<String> = [
        (counts.up_to_date, "up to date"),
        (counts.pending, "with pending migrations"),
        (counts.running, "being migrated"),
        (counts.in_doubt, "in doubt"),
        (counts.diverged, "diverged, differing or dirty"),
        (counts.failed, "not readable"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, what)| format!("{count} {what}"))
    .collect();
    output.line(styled(
        style,
        format_args!(
            "{}: {}",
            counted(status.shards.len(), "database"),
            counts.join(", ")
        ),
    ));
}

/// Versions that every shard they concern has, but for the newest ones: nobody looks for them.
fn hidden(status: &Status) -> BTreeSet<&str> {
    let readable = || {
        status
            .shards
            .iter()
            .filter(|shard| shard.failures.is_empty())
    };
    let everywhere = |version: &&VersionName| {
        readable().all(|shard| {
            shard
                .state(&version.version)
                .is_none_or(|state| state == VersionState::Applied)
        })
    };
    let mut settled: Vec<&str> = status
        .versions
        .iter()
        .take_while(everywhere)
        .map(|version| &*version.version)
        .collect();
    settled.dedup();
    if readable().next().is_none() {
        settled.clear();
    }
    let count = settled.len().saturating_sub(SHOWN_APPLIED);
    settled.into_iter().take(count).collect()
}

fn shards_of(status: &ShardStatus) -> String {
    let mut text = status.shard.to_string();
    for shard in &status.also {
        text.push_str(", ");
        text.push_str(shard.as_str());
    }
    text
}

fn state_of(status: &ShardStatus) -> (Style, &'static str) {
    if !status.failures.is_empty() {
        (BAD, "not readable")
    } else if !status.dirty.is_empty() {
        (BAD, "dirty")
    } else if status.is_up_to_date() {
        (GOOD, "up to date")
    } else if !status.tables.is_empty() {
        (BAD, "tables differ")
    } else if status.has_diverged() {
        (BAD, "diverged")
    } else if status.is_in_doubt() {
        (DOUBTFUL, "in doubt")
    } else if status.is_running() {
        (DOUBTFUL, "running")
    } else {
        (DOUBTFUL, "pending")
    }
}

/// What a cell has no room for, and what to do about it.
fn remarks(output: &Output, status: &Status) {
    for shard in &status.shards {
        let name = shard.shard;
        for failure in &shard.failures {
            for line in failure_lines(name, failure) {
                output.line(line);
            }
        }
        if let Some(holder) = &shard.locked_by {
            let since = holder.since.map_or_else(String::new, |since| {
                format!(" since {}", humantime::format_rfc3339_seconds(since))
            });
            output.line(format_args!(
                "{}: shard {name} is being migrated by {}{since}",
                styled(DOUBTFUL, "locked"),
                holder.who
            ));
        }
        for difference in &shard.tables {
            output.line(format_args!(
                "{}: shard {name}: {difference}",
                styled(BAD, "differs")
            ));
        }
        for dirty in &shard.dirty {
            let database = match &dirty.error {
                Some(error) => format!(": {error}"),
                None => String::new(),
            };
            output.line(format_args!(
                "{}: shard {name}: {} ({}) stopped after {} of {} statements: {}{database}",
                styled(BAD, "dirty"),
                dirty.version,
                dirty.direction.as_str(),
                dirty.done,
                dirty.of,
                dirty.stopped_by(),
            ));
            output.line("    look at the database, then one of");
            ways(output, name, dirty);
        }
        for begun in &shard.in_doubt {
            output.line(format_args!(
                "{}: shard {name}: {} ({}) has begun and not ended, and it is not known whether its runner is still at work: {}",
                styled(DOUBTFUL, "in doubt"),
                begun.version,
                begun.direction.as_str(),
                begun.doubt.as_deref().unwrap_or_default(),
            ));
            output.line("    wait for that runner or make sure that it has ended; then look at the database, and one of");
            ways(output, name, begun);
        }
    }
}

/// The commands that end a dirty state.
fn ways(output: &Output, shard: ShardName, dirty: &Dirty) {
    let repair = format!("diesel-sharded migration repair {shard} {}", dirty.version);
    match (dirty.resume_from, &dirty.not_resumable) {
        (Some(next), _) => output.line(format_args!("        {repair} --resume-from {next}")),
        (None, Some(why)) => output.line(format_args!("        (not --resume-from: {why})")),
        (None, None) => {}
    }
    for mark in ["applied", "reverted"] {
        output.line(format_args!("        {repair} --mark {mark}"));
    }
}

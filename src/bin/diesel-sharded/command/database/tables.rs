//! `tables list`, `ensure` and `retire`: the physical tables of sharded tables.

use clap::Subcommand;
use diesel_sharded::migrate::{Action, PartState, Report, Retire, ShardTables, TablesReport};
use serde::Serialize;

use super::migration::{FleetArgs, Progress, load, load_without_migrations, reading};
use super::report::failure_lines;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, Failure};
use crate::output::{BAD, DOUBTFUL, GOOD, Output, counted, styled, table};
use crate::selection::Selection;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  diesel-sharded tables list                          which physical tables are there?
  diesel-sharded tables ensure --ahead 3              make the tables of the next three periods
  diesel-sharded tables retire --before 2024-01       which tables would go?
  diesel-sharded tables retire --before 2024-01 --drop --yes")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the physical tables of every shard, and whether they are there
    List(ListArgs),
    /// Make the tables that a date rule names, for the present period and the next ones
    Ensure(EnsureArgs),
    /// Drop or rename the tables of periods that are over
    Retire(RetireArgs),
}

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  diesel-sharded tables list
  diesel-sharded tables list -t event --check || echo 'a table is missing'
  diesel-sharded tables list --format json | jq '.tables[]? | select(.state == \"missing\")'

A physical table is
  there      it exists
  missing    it does not, and rows may come for it now: `tables ensure`, or `migration run`
  ahead      it does not, and its period has not begun
  retired    it does not, and is older than every part that does")]
struct ListArgs {
    #[command(flatten)]
    selection: Selection,

    /// Only the parts of this table
    #[arg(long, short = 't', value_name = "TABLE")]
    table: Option<String>,

    /// Exit with 3 where a table is missing
    #[arg(long)]
    check: bool,
}

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  diesel-sharded tables ensure                        the present period and the next one
  diesel-sharded tables ensure --ahead 3 --parallel 8
  diesel-sharded tables ensure --format json          one object per event

What a table looks like is what applied migrations made of it: their statements over the logical table \
are sent again for the new part, CREATE TABLE, indexes and all. Parts that are there are left alone, so run \
it daily. Each shard is worked on under its migration lock.")]
struct EnsureArgs {
    /// For so many periods after the present one
    #[arg(long, value_name = "N", default_value_t = 1)]
    ahead: u32,

    #[command(flatten)]
    fleet: FleetArgs,
}

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  diesel-sharded tables retire --before 2024-01                          lists them, changes nothing
  diesel-sharded tables retire --before 2024-01 --rename-suffix _old --yes
  diesel-sharded tables retire --before 2024-01 --drop --yes             with their rows

Retired are the tables of a date rule whose period ends by that day (2024, 2024-02, 2024-W09 or \
2024-02-29). Tables of the present period are never. Without --yes nothing is changed. Afterwards let the \
plan of the rule begin there too (`from`): it moves no row.")]
struct RetireArgs {
    /// The day by which their period has to end
    #[arg(long, value_name = "DATE")]
    before: String,

    /// Drop them, with their rows
    #[arg(long, conflicts_with = "rename_suffix")]
    drop: bool,

    /// Keep them under their name with this end
    #[arg(long, value_name = "SUFFIX")]
    rename_suffix: Option<String>,

    /// Really do it
    #[arg(long)]
    yes: bool,

    #[command(flatten)]
    fleet: FleetArgs,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event<'a> {
    ShardTables(&'a ShardTables),
    TablesFinished {
        databases: usize,
        tables: usize,
        missing: usize,
        failed: usize,
    },
}

pub(crate) fn run(args: &Args, context: &Context) -> CommandResult {
    match &args.command {
        Command::List(args) => list(args, context),
        Command::Ensure(args) => ensure(args, context),
        Command::Retire(args) => retire(args, context),
    }
}

fn list(args: &ListArgs, context: &Context) -> CommandResult {
    let (topology, migrator) = load_without_migrations(context)?;
    let mut report = migrator.tables(&reading(&args.selection, &topology)?)?;
    if let Some(wanted) = &args.table {
        let mut known: Vec<String> = Vec::new();
        for keyspace in topology.keyspaces() {
            let tables = topology.tables(keyspace)?;
            known.extend(tables.into_iter().map(|table| table.name));
        }
        if !known.contains(wanted) {
            return Err(Failure::usage(format!(
                "no keyspace has a table {wanted:?} (tables: {})",
                known.join(", ")
            )));
        }
        for shard in &mut report.shards {
            shard.tables.retain(|part| part.table == *wanted);
        }
    }
    let failed = show(context.output(), &report);
    Ok(if failed {
        Exit::ShardFailed
    } else if args.check && !report.is_complete() {
        Exit::Found
    } else {
        Exit::Done
    })
}

/// Shows a list of tables; answers whether a database could not be read.
fn show(output: &Output, report: &TablesReport) -> bool {
    let of = |state: Option<PartState>| {
        let parts = report.shards.iter().flat_map(|shard| &shard.tables);
        parts
            .filter(|part| state.is_none_or(|state| part.state == state))
            .count()
    };
    let (tables, missing) = (of(None), of(Some(PartState::Missing)));
    let failed = report
        .shards
        .iter()
        .filter(|one| !one.failures.is_empty())
        .count();
    if output.is_json() {
        for shard in &report.shards {
            output.event(&Event::ShardTables(shard));
        }
        output.event(&Event::TablesFinished {
            databases: report.shards.len(),
            tables,
            missing,
            failed,
        });
        return failed > 0;
    }
    let mut rows = table(["SHARD", "TABLE", "PART", "PERIOD", "STATE"]);
    for shard in &report.shards {
        for part in &shard.tables {
            let period = match (&part.from, &part.until) {
                (Some(from), Some(until)) => format!("{from} until {until}"),
                _ => "-".to_owned(),
            };
            rows.add_row([
                shard.shard.to_string(),
                part.table.clone(),
                part.part.clone(),
                period,
                part.state.as_str().to_owned(),
            ]);
        }
    }
    if tables > 0 {
        output.table(&rows);
        output.line("");
    }
    for shard in &report.shards {
        for failure in &shard.failures {
            for line in failure_lines(shard.shard, failure) {
                output.line(line);
            }
        }
    }
    let style = if failed > 0 {
        BAD
    } else if missing > 0 {
        DOUBTFUL
    } else {
        GOOD
    };
    output.line(styled(
        style,
        format_args!(
            "{}: {}, {missing} missing, {failed} not readable",
            counted(report.shards.len(), "database"),
            counted(tables, "table"),
        ),
    ));
    failed > 0
}

fn ensure(args: &EnsureArgs, context: &Context) -> CommandResult {
    let (_, topology, migrator) = load(context)?;
    let options = args.fleet.options(&topology)?;
    let progress = Progress::start(
        context.output(),
        args.fleet.parallel(),
        args.fleet.advice(&Action::Run),
    );
    let report = migrator.ensure_tables(args.ahead, &options, &|event| progress.observe(event))?;
    progress.finish(&report);
    Ok(exit(&report))
}

fn retire(args: &RetireArgs, context: &Context) -> CommandResult {
    let (_, topology, migrator) = load(context)?;
    let options = args.fleet.options(&topology)?;
    let how = match &args.rename_suffix {
        Some(suffix) => Some(Retire::Rename {
            suffix: suffix.clone(),
        }),
        None if args.drop => Some(Retire::Drop),
        None => None,
    };
    let output = context.output();
    if !args.yes {
        let report = migrator.retirable_tables(&args.before, &options)?;
        let failed = show(output, &report);
        if !output.is_json() {
            output.line(match how {
                Some(Retire::Drop) => "nothing is changed; --yes drops these tables with their rows",
                Some(_) => "nothing is changed; --yes renames these tables",
                None => "nothing is changed; to retire these tables say --drop or --rename-suffix, and --yes",
            });
        }
        return Ok(if failed {
            Exit::ShardFailed
        } else {
            Exit::Done
        });
    }
    let Some(how) = how else {
        return Err(Failure::usage(
            "say what becomes of the tables: --drop, or --rename-suffix SUFFIX",
        ));
    };
    let progress = Progress::start(
        output,
        args.fleet.parallel(),
        args.fleet.advice(&Action::Run),
    );
    let report = migrator.retire_tables(&args.before, &how, &options, &|event| {
        progress.observe(event);
    })?;
    progress.finish(&report);
    Ok(exit(&report))
}

fn exit(report: &Report) -> Exit {
    if report.is_success() {
        Exit::Done
    } else {
        Exit::ShardFailed
    }
}

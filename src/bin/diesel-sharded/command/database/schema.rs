//! `schema diff`: what the databases really look like.

use clap::Subcommand;
use diesel_sharded::migrate::ShardSchema;
use serde::Serialize;

use super::migration::{self, migrator, reading};
use super::report::failure_lines;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::CommandResult;
use crate::output::{BAD, GOOD, Output, counted, styled, table};
use crate::selection::Selection;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  diesel-sharded schema diff                          do all shards look the same?
  diesel-sharded schema print                         write the schema file that diesel.toml names")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compare what the databases really look like
    Diff(DiffArgs),
    /// Write the schema files that diesel.toml names, by Diesel's own program
    Print(migration::PrintSchemaArgs),
}

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  diesel-sharded schema diff
  diesel-sharded schema diff -k orders
  diesel-sharded schema diff --format json | jq 'select(.missing != [] or .extra != [] or .tables)'

Tables, columns, indexes, constraints, views, triggers, functions, sequences, types: read from each \
database itself, so that what somebody made by hand is found. Databases with the same migrations are compared, with one that looks as \
most of them do; the fingerprint is the SHA-256 of everything. The physical tables of a sharded table are \
compared with each other, by their logical name. Exits with 3 where something differs.")]
struct DiffArgs {
    #[command(flatten)]
    selection: Selection,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event<'a> {
    ShardSchema(&'a ShardSchema),
    SchemaFinished {
        databases: usize,
        differing: usize,
        failed: usize,
    },
}

pub(crate) fn run(args: &Args, context: &Context) -> CommandResult {
    match &args.command {
        Command::Diff(args) => diff(args, context),
        Command::Print(args) => migration::print_schema(args, context),
    }
}

fn diff(args: &DiffArgs, context: &Context) -> CommandResult {
    let config = context.config()?;
    let (topology, migrator) = migrator(&config)?;
    let report = migrator.schema(&reading(&args.selection, &topology)?)?;
    let differs = |shard: &&ShardSchema| {
        !shard.missing.is_empty() || !shard.extra.is_empty() || !shard.tables.is_empty()
    };
    let differing = report.shards.iter().filter(differs).count();
    let failed = report
        .shards
        .iter()
        .filter(|shard| !shard.failures.is_empty())
        .count();
    let output = context.output();
    if output.is_json() {
        for shard in &report.shards {
            output.event(&Event::ShardSchema(shard));
        }
        output.event(&Event::SchemaFinished {
            databases: report.shards.len(),
            differing,
            failed,
        });
    } else {
        lines(output, &report.shards);
        let style = if report.agrees() { GOOD } else { BAD };
        output.line(styled(
            style,
            format_args!(
                "{}: {differing} differ, {failed} not readable",
                counted(report.shards.len(), "database")
            ),
        ));
    }
    Ok(match (failed, differing) {
        (0, 0) => Exit::Done,
        (0, _) => Exit::Found,
        _ => Exit::ShardFailed,
    })
}

fn lines(output: &Output, shards: &[ShardSchema]) {
    let mut rows = table(["SHARD", "FINGERPRINT", "DIFFERENCES", "COMPARED WITH"]);
    for shard in shards {
        let mut names = shard.shard.to_string();
        for other in &shard.also {
            names.push_str(", ");
            names.push_str(other.as_str());
        }
        let (fingerprint, differences) = if shard.failures.is_empty() {
            let short: String = shard.fingerprint.chars().take(16).collect();
            let count = shard.missing.len() + shard.extra.len() + shard.tables.len();
            (short, count.to_string())
        } else {
            ("-".to_owned(), "not readable".to_owned())
        };
        rows.add_row([names, fingerprint, differences, shard.reference.to_string()]);
    }
    output.table(&rows);
    output.line("");
    for shard in shards {
        for failure in &shard.failures {
            for line in failure_lines(shard.shard, failure) {
                output.line(line);
            }
        }
        for difference in &shard.tables {
            output.line(format_args!(
                "{}: shard {}: {difference}",
                styled(BAD, "differs"),
                shard.shard
            ));
        }
        for (what, verb) in [(&shard.missing, "has not"), (&shard.extra, "has")] {
            for thing in what {
                output.line(format_args!(
                    "{}: shard {} {verb}: {thing}",
                    styled(BAD, "differs"),
                    shard.shard
                ));
            }
        }
    }
}

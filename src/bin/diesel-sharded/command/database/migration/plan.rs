//! `migration plan`: what would run where; changes nothing.

use std::collections::BTreeSet;

use diesel_sharded::migrate::{Action, Direction, ShardPlan, Step, Steps};
use serde::Serialize;

use super::fleet::{FleetArgs, load};
use crate::command::database::report::refusal_lines;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::CommandResult;
use crate::output::{BAD, DOUBTFUL, GOOD, Output, STRONG, counted, styled};

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  diesel-sharded migration plan                       what `migration run` would do
  diesel-sharded migration plan --sql -s order-1      with the statements, for one shard
  diesel-sharded migration plan --revert 2            what `migration revert -n 2` would do

Shards for which the same would run are shown together. What stands against it is shown as well, and \
then the exit code is 1, as that of `migration run` would be. A shard that is refused has no steps.")]
pub(super) struct Args {
    /// Show the SQL
    #[arg(long)]
    sql: bool,

    /// Plan a revert of each shard's last N migrations instead
    #[arg(long, value_name = "N", conflicts_with = "redo", value_parser = clap::value_parser!(u32).range(1..))]
    revert: Option<u32>,

    /// Plan a redo of each shard's last N migrations instead
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    redo: Option<u32>,

    #[command(flatten)]
    fleet: FleetArgs,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event<'a> {
    ShardPlan {
        shard: &'a str,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        also: Vec<&'a str>,
        steps: Vec<StepFields<'a>>,
        failures: &'a [diesel_sharded::migrate::Failure],
        #[serde(skip_serializing_if = "<[String]>::is_empty")]
        warnings: &'a [String],
    },
    PlanFinished {
        databases: usize,
        steps: usize,
        refused: usize,
    },
}

#[derive(Serialize)]
struct StepFields<'a> {
    version: &'a str,
    name: &'a str,
    direction: Direction,
    in_transaction: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    sql: Option<Vec<&'a str>>,
}

pub(super) fn run(args: &Args, context: &Context) -> CommandResult {
    let (_, topology, migrator) = load(context)?;
    let steps = |number: u32| Steps::Last(usize::try_from(number).unwrap_or(usize::MAX));
    let action = match (args.revert, args.redo) {
        (Some(number), _) => Action::Revert(steps(number)),
        (None, Some(number)) => Action::Redo(steps(number)),
        (None, None) => Action::Run,
    };
    let plan = migrator.plan(action, &args.fleet.options(&topology)?)?;
    let output = context.output();
    if output.is_json() {
        events(output, &plan.shards, args.sql);
    } else {
        lines(output, &plan.shards, args, &action);
    }
    Ok(if plan.is_clean() {
        Exit::Done
    } else {
        Exit::ShardFailed
    })
}

fn events(output: &Output, shards: &[ShardPlan], sql: bool) {
    for plan in shards {
        output.event(&Event::ShardPlan {
            shard: plan.shard.as_str(),
            also: plan.also.iter().map(|shard| shard.as_str()).collect(),
            steps: plan
                .steps
                .iter()
                .map(|step| StepFields {
                    version: &step.version,
                    name: &step.name,
                    direction: step.direction,
                    in_transaction: step.in_transaction,
                    sql: sql.then(|| step.sql.iter().map(|sql| &**sql).collect()),
                })
                .collect(),
            failures: &plan.failures,
            warnings: &plan.warnings,
        });
    }
    output.event(&Event::PlanFinished {
        databases: shards.len(),
        steps: shards.iter().map(|plan| plan.steps.len()).sum(),
        refused: refused(shards),
    });
}

fn refused(shards: &[ShardPlan]) -> usize {
    shards.iter().filter(|plan| is_refused(plan)).count()
}

/// Whether nothing would run since something stands against it: that is not to have nothing to do.
fn is_refused(plan: &ShardPlan) -> bool {
    !plan.failures.is_empty()
}

/// Shards for which the same would run, together; in the order of their first shard.
fn groups(shards: &[ShardPlan]) -> Vec<(Vec<&ShardPlan>, &[Step])> {
    let same = |one: &Step, other: &Step| {
        one.version == other.version
            && one.direction == other.direction
            && one.in_transaction == other.in_transaction
            && one.sql == other.sql
    };
    let mut groups: Vec<(Vec<&ShardPlan>, &[Step])> = Vec::new();
    for plan in shards.iter().filter(|plan| !is_refused(plan)) {
        let found = groups.iter_mut().find(|(_, steps)| {
            steps.len() == plan.steps.len()
                && steps
                    .iter()
                    .zip(&plan.steps)
                    .all(|(one, other)| same(one, other))
        });
        match found {
            Some((members, _)) => members.push(plan),
            None => groups.push((vec![plan], &plan.steps)),
        }
    }
    groups
}

fn lines(output: &Output, shards: &[ShardPlan], args: &Args, action: &Action) {
    let advice = args.fleet.advice(action);
    let heading = |members: &[&ShardPlan]| {
        let names: Vec<&str> = members
            .iter()
            .flat_map(|plan| std::iter::once(&plan.shard).chain(&plan.also))
            .map(|shard| shard.as_str())
            .collect();
        output.line(styled(STRONG, names.join(", ")));
    };
    for (members, steps) in groups(shards) {
        heading(&members);
        if steps.is_empty() {
            output.line("    nothing to do");
        }
        for step in steps {
            output.line(format_args!(
                "    {} {}{}",
                step.direction.as_str(),
                step.name,
                if step.in_transaction {
                    ""
                } else {
                    " (statement by statement, not in a transaction)"
                }
            ));
            if args.sql {
                for text in &step.sql {
                    for line in text.lines() {
                        output.line(format_args!("        {line}").to_string().trim_end());
                    }
                }
            }
        }
    }
    let against: Vec<&ShardPlan> = shards.iter().filter(|plan| is_refused(plan)).collect();
    if !against.is_empty() {
        heading(&against);
        output.line("    refused, see below");
    }
    if !against.is_empty() {
        output.line("");
    }
    for plan in against {
        for failure in &plan.failures {
            for line in refusal_lines(plan.shard, failure, advice) {
                output.line(line);
            }
        }
    }
    // Shards that are split alike have the same to be said of them.
    let warnings: BTreeSet<&String> = shards.iter().flat_map(|plan| &plan.warnings).collect();
    if !warnings.is_empty() {
        output.line("");
    }
    for message in warnings {
        output.line(format_args!("{}: {message}", styled(DOUBTFUL, "warning")));
    }
    output.line("");
    let steps: usize = shards.iter().map(|plan| plan.steps.len()).sum();
    let summary = format!(
        "{}, {}",
        counted(shards.len(), "database"),
        counted(steps, "step")
    );
    match refused(shards) {
        0 => output.line(styled(GOOD, summary)),
        count => output.line(styled(
            BAD,
            format_args!(
                "{summary}, and {count} refused: `migration {}` would {}",
                match action {
                    Action::Revert(_) => "revert",
                    Action::Redo(_) => "redo",
                    _ => "run",
                },
                if args.fleet.stops_at(shards) {
                    "change nothing"
                } else {
                    "change the others"
                }
            ),
        )),
    }
}

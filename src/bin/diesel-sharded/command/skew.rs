//! `skew KEYSPACE --keys FILE`: how evenly keys lie.

use diesel_sharded::SkewReport;
use serde::Serialize;

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, Failure};
use crate::keys::{KeySource, KeysRead};

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  diesel-sharded skew orders --keys ids.txt
  diesel-sharded skew orders --keys orders.csv --column user_id
  diesel-sharded skew accounts --keys rows.csv --column tenant --column id   a composite key
  psql -Atc 'select user_id from orders' | diesel-sharded skew orders --keys -

Counts the rows of each shard and table, with their deviation from what the rule means, and the \
heaviest keys, and warns of known traps. Each line is a row: give every row's key, not every key once. \
A composite key is written as for \
`locate`. Blank lines are skipped, and lines that are no keys are told and not counted. Memory does not \
grow with the number of keys. No database is asked.")]
pub(crate) struct Args {
    /// The keyspace
    keyspace: String,

    #[command(flatten)]
    source: KeySource,
}

#[derive(Serialize)]
struct SkewEvent<'a> {
    event: &'static str,
    #[serde(flatten)]
    read: KeysRead,
    #[serde(flatten)]
    report: &'a SkewReport,
}

pub(crate) fn run(args: &Args, context: &Context) -> CommandResult {
    let topology = context.topology()?;
    let keyspace = topology.describe_keyspace(&args.keyspace)?;
    if args.source.keys.is_none() {
        return Err(Failure::usage(
            "no keys are given: say --keys FILE, or --keys - for standard input",
        ));
    }
    let mut skew = topology.skew(keyspace.name)?;
    let read = args.source.each(keyspace.key, |key| skew.add(key))?;
    let report = skew.report();
    let output = context.output();
    output.line(&report);
    read.tell(output);
    output.event(&SkewEvent {
        event: "skew",
        read,
        report: &report,
    });
    Ok(Exit::Done)
}

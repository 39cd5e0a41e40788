//! `placement diff OLD NEW`: what a change of the rules moves.

use std::path::PathBuf;

use clap::Subcommand;
use diesel_sharded::{Error, PlacementDiff, PlacementSample, Topology};
use serde::Serialize;

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, Failure};
use crate::keys::{KeySource, KeysRead};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Say which share of the keys a change of the configuration moves, from where to where
    Diff(DiffArgs),
}

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  diesel-sharded placement diff old.toml new.toml
  diesel-sharded placement diff old.toml new.toml --keys ids.txt
  diesel-sharded placement diff old.toml new.toml --keyspace orders --format json

Exact for two rules of one kind that give buckets, ranges or periods to shards, and for listed keys where \
one is a list; otherwise measured on 100,000 generated keys. With --keys always measured on these: blank \
lines are skipped, and lines that are no keys are told and not counted. No database is asked. Exits with 0 whether or not \
something moves.")]
struct DiffArgs {
    /// The configuration before
    old: PathBuf,

    /// The configuration after
    new: PathBuf,

    /// Only this keyspace [default: all that are in both]
    #[arg(long, short = 'k', value_name = "NAME")]
    keyspace: Option<String>,

    #[command(flatten)]
    source: KeySource,
}

#[derive(Serialize)]
struct DiffEvent<'a> {
    event: &'static str,
    #[serde(flatten)]
    read: Option<KeysRead>,
    #[serde(flatten)]
    diff: &'a PlacementDiff,
}

pub(crate) fn run(args: &Args, context: &Context) -> CommandResult {
    match &args.command {
        Command::Diff(args) => diff(args, context),
    }
}

fn diff(args: &DiffArgs, context: &Context) -> CommandResult {
    let old = context.config_at(&args.old)?.topology()?;
    let new = context.config_at(&args.new)?.topology()?;
    let keyspaces: Vec<String> = match &args.keyspace {
        Some(name) => vec![name.clone()],
        None => {
            let after = new.keyspaces();
            let both = old
                .keyspaces()
                .into_iter()
                .filter(|name| after.contains(name));
            both.map(|name| name.to_string()).collect()
        }
    };
    if keyspaces.is_empty() {
        return Err(Failure::usage(
            "the two configurations have no keyspace in common",
        ));
    }
    if args.source.keys.is_some() && keyspaces.len() > 1 {
        return Err(Failure::usage(
            "keys are those of one keyspace: say which with --keyspace",
        ));
    }
    for keyspace in &keyspaces {
        let (diff, read) = compare(&old, &new, keyspace, &args.source)?;
        context.output().line(&diff);
        if let Some(read) = &read {
            read.tell(context.output());
        }
        context.output().event(&DiffEvent {
            event: "placement_diff",
            read,
            diff: &diff,
        });
    }
    Ok(Exit::Done)
}

fn compare(
    old: &Topology,
    new: &Topology,
    keyspace: &str,
    source: &KeySource,
) -> Result<(PlacementDiff, Option<KeysRead>), Failure> {
    if source.keys.is_none() {
        return Ok((old.placement_diff(new, keyspace)?, None));
    }
    let mut sample = PlacementSample::new(old, new, keyspace)?;
    let key = new.describe_keyspace(keyspace)?.key;
    if old.describe_keyspace(keyspace)?.key != key {
        // The library's own words for it.
        let refused: Error = match old.placement_diff(new, keyspace) {
            Err(error) => error,
            Ok(diff) => return Ok((diff, None)),
        };
        return Err(refused.into());
    }
    let read = source.each(key, |key| sample.add(key))?;
    Ok((sample.finish(), Some(read)))
}

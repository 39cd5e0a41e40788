//! `config map`: the bucket map in force, in the words of the configuration.

use diesel_sharded::{BucketMap, KeyspaceName};
use serde::Serialize;

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, Failure};

pub(super) const EXAMPLES: &str = "\
Examples:
  diesel-sharded config map                 every keyspace that has buckets
  diesel-sharded config map orders          one keyspace

What is printed is TOML: put it into the keyspace's algorithm. Without a written map the buckets are \
divided by the list of shards, so that appending a shard to the list would move rows.";

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The keyspace; all that have buckets where none is named
    keyspace: Option<String>,
}

#[derive(Serialize)]
struct MapEvent<'a> {
    event: &'static str,
    keyspace: &'a str,
    buckets: u32,
    map: Vec<RangeFields<'a>>,
}

#[derive(Serialize)]
struct RangeFields<'a> {
    shard: &'a str,
    buckets: String,
}

pub(super) fn run(args: &Args, context: &Context) -> CommandResult {
    let topology = context.topology()?;
    let keyspaces = match &args.keyspace {
        Some(name) => vec![topology.describe_keyspace(name)?.name],
        None => topology.keyspaces(),
    };
    let mut shown = 0;
    for keyspace in keyspaces {
        if let Some(map) = topology.bucket_map(keyspace)? {
            show(context, keyspace, &map, shown);
            shown += 1;
        }
    }
    if shown == 0 {
        return Err(Failure::usage(match &args.keyspace {
            Some(name) => format!(
                "the algorithm of keyspace {name} has no buckets, so there is no map to write down"
            ),
            None => "no keyspace has buckets, so there is no map to write down".to_owned(),
        }));
    }
    Ok(Exit::Done)
}

fn show(context: &Context, keyspace: KeyspaceName, map: &BucketMap, shown: usize) {
    let output = context.output();
    let buckets = map.last().map_or(0, |(range, _)| range.end);
    let ranges: Vec<RangeFields<'_>> = map
        .iter()
        .map(|(range, shard)| RangeFields {
            shard: shard.as_str(),
            buckets: format!("{}..{}", range.start, range.end),
        })
        .collect();
    if shown > 0 {
        output.line("");
    }
    output.line(format_args!("[keyspaces.{}.algorithm]", keyspace));
    output.line("kind = \"hash\"");
    output.line(format_args!("buckets = {buckets}"));
    output.line("map = [");
    for range in &ranges {
        output.line(format_args!(
            "    {{ shard = \"{}\", buckets = \"{}\" }},",
            range.shard, range.buckets
        ));
    }
    output.line("]");
    output.event(&MapEvent {
        event: "bucket_map",
        keyspace: keyspace.as_str(),
        buckets,
        map: ranges,
    });
}

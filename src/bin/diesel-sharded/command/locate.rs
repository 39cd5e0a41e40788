//! `locate KEYSPACE KEY`: where the rows of a key live.

use diesel_sharded::{Explanation, Placement, TableDescription};
use serde::Serialize;

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, Failure};

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  diesel-sharded locate orders 42
  diesel-sharded locate accounts 'zoë@example.org'
  diesel-sharded locate sessions 67e55044-10b1-426f-9247-bb680e5fe0c8
  diesel-sharded locate orders -- -42                         a key that begins with a minus
  diesel-sharded locate stock '\"Meyer, Sons\",7'               a composite key with a comma in a text

The key is read as the type that the keyspace declares: integer, text, uuid, bytes (0xdeadbeef), \
date (2024-02-29), timestamp (2024-02-29T12:30:00Z), or several of these with commas between them \
(acme,42); a part that holds a comma or begins with a quotation mark is quoted as in a CSV file. The \
answer shows every step from the key to the node. No database is asked.")]
pub(crate) struct Args {
    /// The keyspace
    keyspace: String,

    /// The shard key
    #[arg(allow_negative_numbers = true)]
    key: String,
}

#[derive(Serialize)]
struct PlacementEvent<'a> {
    event: &'static str,
    keyspace: &'a str,
    key: String,
    shard: &'a str,
    spread: u64,
    tables: Vec<TableFields<'a>>,
    /// Every step from the key to the node.
    explained: &'a Explanation,
}

#[derive(Serialize)]
struct TableFields<'a> {
    table: &'a str,
    key_column: &'a str,
    count: u32,
    number: u32,
}

impl<'a> TableFields<'a> {
    fn of(table: &'a TableDescription, placement: Placement) -> Self {
        Self {
            table: &table.name,
            key_column: &table.key_column,
            count: table.count,
            number: placement.table_number(table.count),
        }
    }
}

pub(crate) fn run(args: &Args, context: &Context) -> CommandResult {
    let topology = context.topology()?;
    let keyspace = topology.describe_keyspace(&args.keyspace)?;
    let key = keyspace
        .key
        .parse_key(&args.key)
        .map_err(|error| Failure::usage(format!("keyspace {}: {error}", keyspace.name)))?;
    let placement = topology.locate(keyspace.name, &key)?;
    let described = topology.tables(keyspace.name)?;
    let tables: Vec<TableFields<'_>> = described
        .iter()
        .map(|table| TableFields::of(table, placement))
        .collect();
    let explained = topology.explain(keyspace.name, &key)?;
    let output = context.output();
    output.line(&explained);
    output.event(&PlacementEvent {
        event: "placement",
        keyspace: keyspace.name.as_str(),
        key: key.to_string(),
        shard: placement.shard().as_str(),
        spread: placement.spread(),
        tables,
        explained: &explained,
    });
    Ok(Exit::Done)
}

//! The text form of a route: `v1;shard=order-0`.
//!
//! A workload class follows as `;class=batch`, physical tables as `;tables=orders.s17` (keyspace and
//! spread of the key) or `;tables=orders.n3.8` (keyspace, number and count). Fields are separated by `;`, values are
//! percent-encoded. `read` is reserved in version 1: a reader that does not know what to do with them must refuse the route
//! rather than run it without.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::Route;
use crate::error::Error;
use crate::name::ShardName;
use crate::rewrite::{TableNumbers, Which};
use crate::topology::{Snapshot, Topology};

const VERSION: &str = "v1";
const RESERVED: [&str; 1] = ["read"];
const VALUE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{VERSION};shard={}",
            utf8_percent_encode(self.shard().as_str(), VALUE)
        )?;
        if let Some(class) = self.workload_class() {
            write!(f, ";class={}", utf8_percent_encode(class.as_str(), VALUE))?;
        }
        if let Some(tables) = self.at.tables {
            let keyspace = utf8_percent_encode(tables.keyspace.as_str(), VALUE);
            match tables.which {
                Which::Spread(spread) => write!(f, ";tables={keyspace}.s{spread}")?,
                Which::Number { number, count } => {
                    write!(f, ";tables={keyspace}.n{number}.{count}")?;
                }
            }
        }
        Ok(())
    }
}

impl serde::Serialize for Route {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads a route's text form and checks it against the topology of today.
pub(crate) fn parse(topology: &Topology, text: &str) -> Result<Route, Error> {
    let invalid = |reason| Error::InvalidRoute {
        // The text may come from a stranger: what is shown of it is bounded.
        text: text.chars().take(128).collect(),
        reason,
    };
    let fields = fields_of(text).map_err(invalid)?;
    let at = topology.with_current(|snapshot| {
        let mut at = snapshot.locate(&fields.shard)?;
        if let Some(tables) = &fields.tables {
            at.tables = Some(tables_of(snapshot, at.shard, tables, invalid)?);
        }
        Ok::<_, Error>(at)
    })?;
    let route = Route::new(topology.clone(), at);
    match fields.class {
        Some(class) => route.workload(class),
        None => Ok(route),
    }
}

/// The fields of a text, decoded.
struct Fields {
    shard: String,
    class: Option<String>,
    tables: Option<String>,
}

/// Physical tables of a keyspace that is spread over the shard.
fn tables_of(
    snapshot: &Snapshot,
    shard: ShardName,
    text: &str,
    invalid: impl Fn(&'static str) -> Error,
) -> Result<TableNumbers, Error> {
    const FORM: &str = "its tables are no keyspace with a spread (orders.s17) or a number and a count (orders.n3.8)";
    // Names of keyspaces may have dots in them.
    let number = |text: &str| text.parse::<u32>().map_err(|_| invalid(FORM));
    let (rest, last) = text.rsplit_once('.').ok_or_else(|| invalid(FORM))?;
    let (keyspace, which) = if let Some(spread) = last.strip_prefix('s') {
        let spread = spread.parse().map_err(|_| invalid(FORM))?;
        (rest, Which::Spread(spread))
    } else {
        let (keyspace, own) = rest.rsplit_once(".n").ok_or_else(|| invalid(FORM))?;
        let which = Which::Number {
            number: number(own)?,
            count: number(last)?,
        };
        (keyspace, which)
    };
    let entry = &snapshot.keyspaces()[snapshot.find_keyspace(keyspace)?];
    if !entry.rule.shards().contains(&shard) {
        return Err(invalid(
            "its tables are of a keyspace that is not on its shard",
        ));
    }
    if let Which::Number { number, count } = which
        && (number >= count || !entry.tables.iter().any(|table| table.count == count))
    {
        return Err(invalid(
            "its keyspace has no tables of that number and count today",
        ));
    }
    Ok(TableNumbers {
        keyspace: entry.name,
        which,
        // By a spread the tables of today are meant, and a number has been checked.
        placed_by: entry.placed_by(),
    })
}

fn fields_of(text: &str) -> Result<Fields, &'static str> {
    let mut fields = text.split(';');
    if fields.next() != Some(VERSION) {
        return Err("it does not start with a version this release knows (v1)");
    }
    let (mut shard, mut class, mut tables) = (None, None, None);
    for field in fields {
        let (name, value) = field
            .split_once('=')
            .ok_or("a field has no value (fields look like shard=order-0)")?;
        let field = match name {
            "shard" => Some(&mut shard),
            "class" => Some(&mut class),
            "tables" => Some(&mut tables),
            _ => None,
        };
        if let Some(field) = field {
            let value = percent_decode_str(value)
                .decode_utf8()
                .map_err(|_| "a value is not UTF-8")?
                .into_owned();
            if field.replace(value).is_some() {
                return Err("it names a field twice");
            }
        } else if RESERVED.contains(&name) {
            return Err("it has a field that this release cannot honour");
        } else {
            return Err("it has a field that version 1 does not know");
        }
    }
    Ok(Fields {
        shard: shard.ok_or("it names no shard")?,
        class,
        tables,
    })
}

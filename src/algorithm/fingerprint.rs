//! What identifies a rule in operation: two topologies with one fingerprint place alike.

use std::fmt::{self, Write as _};

use xxhash_rust::xxh3::xxh3_128;

use super::rule::{Algorithm, Rule};

/// The fingerprint of a keyspace's rule and tables, printed as `v1-` and 32 hexadecimal digits.
///
/// It is made of what decides where rows live, and of nothing else. Writing down the map that was
/// in force anyway changes nothing, nor does a shard that is appended to the list of a keyspace
/// with a written map and owns no bucket yet. Any change that moves a key, or a table's rows, is
/// another fingerprint.
///
/// # How it is made
///
/// It is xxh3-128 of a text of these lines, each ended by a line feed. A *name* is written as the
/// number of its bytes, a colon and the bytes.
///
/// ```text
/// diesel-sharded rule v1
/// key <key type>
/// normalize <steps in the order they are taken, joined by commas>   (only where there are any)
/// algorithm <hash | modulo | list>
/// buckets <count>                          hash: then its ranges, in the order of the buckets, merged:
/// range <first bucket> <end, exclusive> <name of the shard>
/// shard <name of the shard>                modulo: in the order of the remainders
/// value <canonical bytes of the key, hexadecimal> <name of the shard>   list: sorted by those bytes
/// table <name> <name of the key column> <count>                         sorted by name
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(u128);

impl Fingerprint {
    pub(super) fn of(rule: &Rule, tables: &[(&str, &str, u32)]) -> Self {
        Self(xxh3_128(canonical_text(rule, tables).as_bytes()))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("v1-{:032x}", self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn canonical_text(rule: &Rule, tables: &[(&str, &str, u32)]) -> String {
    let mut text = format!("diesel-sharded rule v1\nkey {}\n", rule.key);
    let steps: Vec<&str> = rule.steps.in_order().map(|step| step.as_str()).collect();
    if !steps.is_empty() {
        line(&mut text, format_args!("normalize {}", steps.join(",")));
    }
    line(
        &mut text,
        format_args!("algorithm {}", rule.algorithm_name()),
    );
    match &rule.algorithm {
        Algorithm::Hash(_) => {
            let ranges = rule.effective_map().unwrap_or_default();
            let buckets = ranges.last().map_or(0, |(range, _)| range.end);
            line(&mut text, format_args!("buckets {buckets}"));
            for (range, shard) in ranges {
                let shard = Name(shard.as_str());
                line(
                    &mut text,
                    format_args!("range {} {} {shard}", range.start, range.end),
                );
            }
        }
        Algorithm::Modulo(_) => {
            for shard in &rule.shards {
                line(&mut text, format_args!("shard {}", Name(shard.as_str())));
            }
        }
        Algorithm::List(list) => {
            let mut entries: Vec<_> = list.entries().iter().collect();
            entries.sort_by(|a, b| a.key.cmp(&b.key));
            for entry in entries {
                let shard = rule
                    .shards
                    .get(entry.shard)
                    .map_or("", |name| name.as_str());
                line(
                    &mut text,
                    format_args!("value {} {}", Hex(&entry.key), Name(shard)),
                );
            }
        }
    }
    let mut tables = tables.to_vec();
    tables.sort_unstable();
    for (name, column, count) in tables {
        line(
            &mut text,
            format_args!("table {} {} {count}", Name(name), Name(column)),
        );
    }
    text
}

fn line(text: &mut String, content: fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = text.write_fmt(content);
    text.push('\n');
}

/// A name with its length before it, so that no name can be read as the end of a line.
struct Name<'a>(&'a str);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0.len(), self.0)
    }
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

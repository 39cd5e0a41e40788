//! What identifies a rule in operation: two topologies with one fingerprint place alike.

use std::fmt::{self, Write as _};

use xxhash_rust::xxh3::xxh3_128;

use super::point::Point;
use super::prune::key_of;
use super::rule::{Algorithm, Rule};
use crate::key::{KeyType, ShardKey};

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
/// algorithm <kind>
/// buckets <count>                          hash: then its ranges, in the order of the buckets, merged:
/// range <first bucket> <end, exclusive> <name of the shard>
/// shard <name of the shard>                modulo, jump, date in turn, compat, custom: in the order of the list
/// value <canonical bytes of the key, hexadecimal> <name of the shard>   list: sorted by those bytes
/// points <count>                           ring: for a weight of 1; then, sorted by name and without those of weight 0:
/// weight <weight> <name of the shard>
/// keys <from> <until> <name of the shard>  range: merged, in order; canonical bytes, hexadecimal, `-` for an open end
/// every <year | quarter | month | week | day | days <count> <anchor>>   date: then, for timestamps:
/// zone <IANA name>
/// precision <digits> <rounding>            (only below 6 digits)
/// span <first day> <end, exclusive> <name of the shard>                 (only with a map; merged, in order)
/// system <name>                            compat: then its parameters, the layout, and the system of the tables
/// name <name>                              custom: then its options, sorted
/// option <name> <value>
/// table <name> <name of the key column> <count, or "rule" where the rule names the tables>   sorted by name
/// names <name> <pattern of the physical names>   tables with another pattern than the usual one, sorted by name
/// position <name of the shard>             where a pattern has `{global}`: in the order of the list
/// ```
///
/// Not part of it, because moving them moves no row, are the two ends of a `date` plan without a map
/// and the end of ShardingSphere's `INTERVAL`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(u128);

/// What is unusual about the names of a keyspace's physical tables.
#[derive(Debug, Default)]
pub(crate) struct TableNames<'a> {
    /// Each table with its pattern.
    pub(crate) patterns: Vec<(&'a str, String)>,
    /// Whether the positions of the shards are part of names.
    pub(crate) by_position: bool,
}

impl Fingerprint {
    pub(super) fn of(rule: &Rule, tables: &[(&str, &str, u32)], names: &TableNames<'_>) -> Self {
        let mut text = canonical_text(rule, tables);
        names.write_lines(&mut text, rule);
        Self(xxh3_128(text.as_bytes()))
    }

    /// Half of it: enough to tell apart what one process has had in force.
    pub(crate) fn half(self) -> u64 {
        // The lower half is meant.
        self.0 as u64
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

pub(super) fn canonical_text(rule: &Rule, tables: &[(&str, &str, u32)]) -> String {
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
        Algorithm::Modulo(_) | Algorithm::Jump(_) => shards(&mut text, rule),
        Algorithm::Ring(ring) => {
            line(&mut text, format_args!("points {}", ring.per_weight));
            let mut weights: Vec<_> = rule.shards.iter().zip(&ring.weights).collect();
            weights.sort();
            for (shard, weight) in weights.into_iter().filter(|(_, weight)| **weight > 0) {
                let shard = Name(shard.as_str());
                line(&mut text, format_args!("weight {weight} {shard}"));
            }
        }
        Algorithm::Range(range) => {
            for (from, until, owner) in range.segments() {
                let Some(shard) = owner.and_then(|owner| rule.shards.get(owner)) else {
                    continue;
                };
                let (from, until) = (End(from, rule.key), End(until, rule.key));
                let shard = Name(shard.as_str());
                line(&mut text, format_args!("keys {from} {until} {shard}"));
            }
        }
        Algorithm::Date(date) => {
            date.write_lines(&mut text, |owner| {
                let shard = rule.shards.get(owner).map_or("", |name| name.as_str());
                Name(shard).to_string()
            });
            if date.in_turn() {
                shards(&mut text, rule);
            }
        }
        Algorithm::Compat(compat) => {
            compat.spec.write_lines(&mut text);
            shards(&mut text, rule);
        }
        Algorithm::Custom(custom) => {
            line(&mut text, format_args!("name {}", Name(&custom.spec.name)));
            for (name, value) in &custom.spec.options {
                let (name, value) = (Name(name), Name(value));
                line(&mut text, format_args!("option {name} {value}"));
            }
            shards(&mut text, rule);
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
        let count = match count {
            // No table has no part: the rule names its parts.
            0 => "rule".to_owned(),
            count => count.to_string(),
        };
        line(
            &mut text,
            format_args!("table {} {} {count}", Name(name), Name(column)),
        );
    }
    text
}

impl TableNames<'_> {
    fn write_lines(&self, text: &mut String, rule: &Rule) {
        let mut patterns: Vec<_> = self.patterns.iter().collect();
        patterns.sort_unstable();
        for (table, pattern) in patterns {
            line(text, format_args!("names {} {pattern}", Name(table)));
        }
        if self.by_position {
            for shard in &rule.shards {
                line(text, format_args!("position {}", Name(shard.as_str())));
            }
        }
    }
}

/// The shards in the order of the list, for rules that go by it.
fn shards(text: &mut String, rule: &Rule) {
    for shard in &rule.shards {
        line(text, format_args!("shard {}", Name(shard.as_str())));
    }
}

/// One end of a range.
struct End(Option<Point>, KeyType);

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.0.as_ref().and_then(|point| key_of(point, self.1));
        match key.as_ref().map(ShardKey::value) {
            Some(Ok(key)) => Hex(&key.canonical_bytes()).fmt(f),
            _ => f.write_str("-"),
        }
    }
}

pub(super) fn line(text: &mut String, content: fmt::Arguments<'_>) {
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

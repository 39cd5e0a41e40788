//! Rules that answer as another system does.

use super::super::super::reader::{Reader, Table};
use super::super::no_hint;
use super::{integer, required, rows};
use crate::algorithm::{CompatRange, CompatSpec, JavaType, Layout, System};

/// `None` where the system itself could not be read; the problems say why.
pub(super) fn compat(reader: &mut Reader<'_>, table: Table<'_>) -> Option<CompatSpec> {
    let system = system(
        reader,
        table,
        &["kind", "layout", "table", "accept_correlated"],
    );
    let layout = reader.text(table, "layout").and_then(|word| {
        let found = Layout::ALL.iter().find(|(_, name)| *name == word);
        if found.is_none() {
            reader.problem(
                table.key("layout"),
                "is \"one-per-shard\", \"round-robin\" or \"blocks\"",
            );
        }
        found.map(|(layout, _)| *layout)
    });
    let tables = table.dict.get("table").and_then(|value| {
        let path = table.key("table");
        match value {
            figment::value::Value::Dict(_, dict) => {
                self::system(reader, Table { path: &path, dict }, &[])
            }
            _ => {
                reader.problem(
                    path,
                    "a table is expected here: { like = \"..\", count = 8 }",
                );
                None
            }
        }
    });
    let mut spec = CompatSpec::new(system?);
    spec.layout = layout;
    spec.table = tables;
    spec.accept_correlated = reader.boolean(table, "accept_correlated").unwrap_or(false);
    Some(spec)
}

/// Reads what a system needs; `others` are the keys that are read elsewhere.
struct Parameters<'r, 'e, 'v> {
    reader: &'r mut Reader<'e>,
    table: Table<'v>,
    /// Whether all that is needed was there.
    sound: bool,
}

impl Parameters<'_, '_, '_> {
    fn number(&mut self, name: &str) -> u32 {
        required(self.reader, self.table, &[name], "a whole number");
        let number = self.reader.number(self.table, name);
        self.sound &= number.is_some();
        number.unwrap_or_default()
    }

    fn long(&mut self, name: &str) -> i64 {
        required(self.reader, self.table, &[name], "a whole number");
        let number = integer(self.reader, self.table, name);
        let long = number.and_then(|number| i64::try_from(number).ok());
        if number.is_some() && long.is_none() {
            self.reader
                .problem(self.table.key(name), "a number of 64 bits is expected here");
        }
        self.sound &= long.is_some();
        long.unwrap_or_default()
    }

    fn text(&mut self, name: &str, what: &str) -> String {
        required(self.reader, self.table, &[name], what);
        let text = self.reader.text(self.table, name);
        self.sound &= text.is_some();
        text.unwrap_or_default()
    }

    fn time(&mut self, name: &str) -> String {
        self.text(name, "a date and time, \"2024-01-01 00:00:00\"")
    }

    fn zone(&mut self) -> String {
        self.text(
            "zone",
            "the time zone in which the column is meant, \"UTC\" or \"Europe/Berlin\"",
        )
    }

    fn java(&mut self) -> JavaType {
        let what = "the Java type of the bound value, \"Long\"";
        let word = self.text("java", what);
        match JavaType::ALL.iter().find(|(_, name)| *name == word) {
            Some((java, _)) => *java,
            None => {
                if !word.is_empty() {
                    let known: Vec<&str> = JavaType::ALL.iter().map(|(_, name)| *name).collect();
                    self.reader.problem(
                        self.table.key("java"),
                        format!("unknown type {word:?}: use one of {}", known.join(", ")),
                    );
                }
                self.sound = false;
                JavaType::Long
            }
        }
    }

    fn longs(&mut self, name: &str) -> Vec<i64> {
        required(self.reader, self.table, &[name], "a list of whole numbers");
        let Some(figment::value::Value::Array(_, items)) = self.table.dict.get(name) else {
            self.sound = false;
            return Vec::new();
        };
        let longs: Option<Vec<i64>> = items
            .iter()
            .map(|item| {
                let key = super::keys::parse(item, crate::key::KeyType::Integer);
                match key {
                    Ok(crate::key::ShardKey::Integer(number)) => i64::try_from(number).ok(),
                    _ => None,
                }
            })
            .collect();
        if longs.is_none() {
            self.reader.problem(
                self.table.key(name),
                "a list of whole numbers of 64 bits is expected here",
            );
        }
        self.sound &= longs.is_some();
        longs.unwrap_or_default()
    }

    fn map(&mut self, hexadecimal: bool) -> Vec<CompatRange> {
        let form = if hexadecimal {
            "[{ shard = \"a\", range = \"-80\" }, { shard = \"b\", range = \"80-\" }]"
        } else {
            "[{ shard = \"a\", from = -2147483648, to = -1, table = 102008 }, ..]"
        };
        required(self.reader, self.table, &["map"], form);
        let mut map = Vec::new();
        for (path, dict) in rows(self.reader, self.table, "map", form) {
            let row = Table { path: &path, dict };
            let needed: &[&str] = if hexadecimal {
                &["shard", "range"]
            } else {
                &["shard", "from", "to"]
            };
            let known: Vec<&str> = needed.iter().copied().chain(["table"]).collect();
            self.reader.known(row, &known, no_hint);
            required(self.reader, row, needed, form);
            let shard = self.reader.text(row, "shard");
            let ends = if hexadecimal {
                let text = self.reader.text(row, "range");
                let ends = text.as_deref().and_then(key_range);
                if text.is_some() && ends.is_none() {
                    self.reader.problem(
                        row.key("range"),
                        "a range of keyspace ids is expected here: \"-40\", \"40-80\" or \"80-\"",
                    );
                }
                ends
            } else {
                let from = integer(self.reader, row, "from");
                from.zip(integer(self.reader, row, "to"))
            };
            let table = integer(self.reader, row, "table").unwrap_or(0);
            let table = u64::try_from(table).ok();
            if table.is_none() {
                self.reader.problem(
                    row.key("table"),
                    "a number that is not negative is expected here",
                );
            }
            match (shard, ends, table) {
                (Some(shard), Some((from, to)), Some(table)) => map.push(CompatRange {
                    shard,
                    from,
                    to,
                    table,
                }),
                _ => self.sound = false,
            }
        }
        map
    }
}

fn system(reader: &mut Reader<'_>, table: Table<'_>, others: &[&str]) -> Option<System> {
    required(
        reader,
        table,
        &["like"],
        "say whose answers are meant, \"shardingsphere-mod\" or \"postgres-hash\"",
    );
    let like = reader.text(table, "like")?;
    let map = table.dict.contains_key("map");
    let parameters: &[&str] = match like.as_str() {
        "shardingsphere-mod"
        | "shardingsphere-inline"
        | "shardingsphere-cosid-mod"
        | "pgcat-sha1" => &["count"],
        "shardingsphere-hash-mod" => &["count", "java"],
        "shardingsphere-volume-range" => &["lower", "upper", "volume"],
        "shardingsphere-boundary-range" => &["boundaries"],
        "shardingsphere-auto-interval" => &["lower", "upper", "seconds", "zone"],
        "shardingsphere-interval" => &["lower", "upper", "amount", "unit", "suffix", "zone"],
        "java-perturbed" => &["databases", "tables"],
        "bit-mix-split" => &["databases", "tables", "global_tables"],
        "postgres-hash" => &["modulus"],
        "citus" if map => &["map"],
        "citus" => &["count"],
        "vitess-hash" | "vitess-xxhash" | "spqr-murmur" => &["map"],
        "guava-consistent-hash" => &["buckets"],
        "java-abs-mod" => {
            reader.problem(
                table.key("like"),
                "`Math.abs(hashCode) % n` is negative for one hash, so such a fleet has keys without a place: move it to \"shardingsphere-hash-mod\", which agrees for every other hash",
            );
            return None;
        }
        other => {
            reader.problem(
                table.key("like"),
                format!(
                    "unknown system {other:?}: use one of {}",
                    System::NAMES.join(", ")
                ),
            );
            return None;
        }
    };
    let known: Vec<&str> = ["like"]
        .iter()
        .chain(parameters)
        .chain(others)
        .copied()
        .collect();
    reader.known(table, &known, no_hint);
    let global_tables = reader.boolean(table, "global_tables");
    let mut p = Parameters {
        reader,
        table,
        sound: true,
    };
    let system = match like.as_str() {
        "shardingsphere-mod" => System::ShardingSphereMod {
            count: p.number("count"),
        },
        "shardingsphere-hash-mod" => System::ShardingSphereHashMod {
            count: p.number("count"),
            java: p.java(),
        },
        "shardingsphere-inline" => System::ShardingSphereInline {
            count: p.number("count"),
        },
        "shardingsphere-cosid-mod" => System::ShardingSphereCosidMod {
            count: p.number("count"),
        },
        "shardingsphere-volume-range" => System::ShardingSphereVolumeRange {
            lower: p.long("lower"),
            upper: p.long("upper"),
            volume: p.long("volume"),
        },
        "shardingsphere-boundary-range" => System::ShardingSphereBoundaryRange {
            boundaries: p.longs("boundaries"),
        },
        "shardingsphere-auto-interval" => System::ShardingSphereAutoInterval {
            lower: p.time("lower"),
            upper: p.time("upper"),
            seconds: p.number("seconds"),
            zone: p.zone(),
        },
        "shardingsphere-interval" => System::ShardingSphereInterval {
            lower: p.time("lower"),
            upper: p.time("upper"),
            amount: if table.dict.contains_key("amount") {
                p.number("amount")
            } else {
                1
            },
            unit: p
                .text("unit", "\"years\", \"months\", \"days\" ..")
                .to_ascii_lowercase(),
            suffix: p.text(
                "suffix",
                "the pattern of the end of a table's name, \"yyyyMM\"",
            ),
            zone: p.zone(),
        },
        "java-perturbed" => System::JavaPerturbed {
            databases: p.number("databases"),
            tables: p.number("tables"),
        },
        "bit-mix-split" => System::BitMixSplit {
            databases: p.number("databases"),
            tables: p.number("tables"),
            global_tables: global_tables.unwrap_or(false),
        },
        "postgres-hash" => System::PostgresHash {
            modulus: p.number("modulus"),
        },
        "pgcat-sha1" => System::PgcatSha1 {
            shards: p.number("count"),
        },
        "citus" if map => System::CitusMap {
            ranges: p.map(false),
        },
        "citus" => System::CitusHash {
            count: p.number("count"),
        },
        "vitess-hash" => System::VitessHash {
            ranges: p.map(true),
        },
        "vitess-xxhash" => System::VitessXxhash {
            ranges: p.map(true),
        },
        "spqr-murmur" => System::SpqrMurmur {
            ranges: p.map(false),
        },
        _ => System::GuavaConsistentHash {
            buckets: p.number("buckets"),
        },
    };
    p.sound.then_some(system)
}

/// Reads a Vitess key range, `40-80`: hexadecimal prefixes of keyspace ids, the end exclusive. The
/// answer has an inclusive end.
fn key_range(text: &str) -> Option<(i128, i128)> {
    let (from, until) = text.split_once('-')?;
    let prefix = |digits: &str| {
        let sound = digits.len() <= 16
            && digits.len().is_multiple_of(2)
            && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        sound
            .then(|| u64::from_str_radix(&format!("{digits:0<16}"), 16).ok())
            .flatten()
            .map(i128::from)
    };
    let from = prefix(from)?;
    let until = if until.is_empty() {
        1 << 64
    } else {
        prefix(until)?
    };
    Some((from, until - 1))
}

//! A compat rule as lines of a fingerprint: its system, and every parameter that decides.

use std::fmt::{self, Write as _};

use super::{CompatRange, CompatSpec, System};

impl CompatSpec {
    /// Writes the lines. They are frozen, as the fingerprint is.
    pub(in crate::algorithm) fn write_lines(&self, text: &mut String) {
        self.system.write_lines("system", text);
        if let Some(layout) = self.layout {
            line(text, format_args!("layout {}", layout.as_str()));
        }
        if let Some(table) = &self.table {
            table.write_lines("table", text);
        }
    }
}

impl System {
    fn write_lines(&self, what: &str, text: &mut String) {
        line(text, format_args!("{what} {}", self.as_str()));
        match self {
            Self::ShardingSphereMod { count }
            | Self::ShardingSphereInline { count }
            | Self::ShardingSphereCosidMod { count }
            | Self::CitusHash { count }
            | Self::PgcatSha1 { shards: count }
            | Self::PostgresHash { modulus: count }
            | Self::GuavaConsistentHash { buckets: count } => {
                line(text, format_args!("count {count}"));
            }
            Self::ShardingSphereHashMod { count, java } => {
                line(text, format_args!("count {count}"));
                line(text, format_args!("java {}", java.as_str()));
            }
            Self::ShardingSphereVolumeRange {
                lower,
                upper,
                volume,
            } => line(text, format_args!("volume {lower} {upper} {volume}")),
            Self::ShardingSphereBoundaryRange { boundaries } => {
                for boundary in boundaries {
                    line(text, format_args!("boundary {boundary}"));
                }
            }
            Self::ShardingSphereAutoInterval {
                lower,
                upper,
                seconds,
                zone,
            } => line(
                text,
                format_args!("interval {lower} {upper} {seconds} {zone}"),
            ),
            // Without the end: moving it later moves no row.
            Self::ShardingSphereInterval {
                lower,
                upper: _,
                amount,
                unit,
                suffix,
                zone,
            } => line(
                text,
                format_args!("interval {lower} {amount} {unit} {suffix} {zone}"),
            ),
            Self::JavaPerturbed { databases, tables } => {
                line(text, format_args!("split {databases} {tables}"));
            }
            Self::BitMixSplit {
                databases,
                tables,
                global_tables,
            } => line(
                text,
                format_args!("split {databases} {tables} {global_tables}"),
            ),
            Self::CitusMap { ranges }
            | Self::VitessHash { ranges }
            | Self::VitessXxhash { ranges }
            | Self::SpqrMurmur { ranges } => {
                let mut ranges: Vec<&CompatRange> = ranges.iter().collect();
                ranges.sort_by_key(|range| range.from);
                for CompatRange {
                    shard,
                    from,
                    to,
                    table,
                } in ranges
                {
                    let length = shard.len();
                    line(
                        text,
                        format_args!("range {from} {to} {table} {length}:{shard}"),
                    );
                }
            }
        }
    }
}

fn line(text: &mut String, content: fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = text.write_fmt(content);
    text.push('\n');
}

//! What a compat rule did with a key, for an explanation.

use super::super::explain::{Story, entry_at};
use super::{Compat, Index, Places, java, postgres};
use crate::key::KeyValue;

impl Compat {
    pub(in crate::algorithm) fn tell<'n>(
        &self,
        key: KeyValue<'_>,
        story: &mut Story,
        name: impl Fn(usize) -> &'n str,
    ) {
        story.step("as", self.spec.system.as_str());
        match &self.places {
            Places::Index {
                index,
                count,
                layout,
            } => {
                tell_hash(index, key, story);
                if let Some(number) = index.of(key) {
                    story.bucket = Some(number.into());
                    story.step("number", format_args!("{number} of {count}"));
                    story.step("layout", layout.as_str());
                    let shard = layout.shard(number, *count, self.shards) as usize;
                    story.map_entry = Some(entry_at(shard, name(shard)));
                }
            }
            Places::Two { shard, table, .. } => {
                tell_hash(shard, key, story);
                if let (Some(at), Some(table)) = (shard.of(key), table.of(key)) {
                    story.bucket = Some(at.into());
                    story.step("shard number", at);
                    story.step("table number", table);
                    story.map_entry = Some(entry_at(at as usize, name(at as usize)));
                }
            }
            Places::Split(split) => {
                match key {
                    KeyValue::Text(text) => story.step("hashCode", java::string(text)),
                    KeyValue::Integer(number) => {
                        if let Ok(number) = i64::try_from(number) {
                            story.step("mixed", java::bit_mix(number));
                        }
                    }
                    _ => {}
                }
                if let Some((database, table)) = split.of(key) {
                    story.bucket = Some(database.into());
                    story.step("database", database);
                    story.step("table number", split.number(database, table));
                    story.map_entry = Some(entry_at(database as usize, name(database as usize)));
                }
            }
            Places::Ranges { hash, line, ranges } => {
                let Some(hash) = hash.of(key) else { return };
                story.hash = u64::try_from(hash).ok();
                story.step("hash", hash);
                let found = line.iter().find(|(from, until, _)| {
                    from.is_none_or(|from| *from <= hash) && until.is_none_or(|until| hash < *until)
                });
                if let Some((Some(from), Some(until), Some(owner))) = found
                    && let Some((shard, _)) = ranges.get(owner)
                {
                    story.map_entry = Some(format!(
                        "hashes {from}..={} belong to {}",
                        until - 1,
                        name(*shard as usize)
                    ));
                }
            }
        }
    }
}

/// The hash that an index is taken from, where there is one.
fn tell_hash(index: &Index, key: KeyValue<'_>, story: &mut Story) {
    match (index, key) {
        (Index::HashModulo(_, java), key) => {
            if let Some(hash) = java.hash(key) {
                story.step("hashCode", format_args!("{hash}, of {}", java.as_str()));
            }
        }
        (Index::PostgresHash(_), key) => {
            if let Some(hash) = postgres::extended(key) {
                story.hash = Some(hash);
                story.step("hash", format_args!("{}, extended", hash as i64));
            }
        }
        (Index::CitusHash(_), key) => {
            if let Some(hash) = postgres::citus(key) {
                story.step("hash", hash);
            }
        }
        _ => {}
    }
}

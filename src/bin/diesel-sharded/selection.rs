//! Which shards a command works on.

use std::collections::BTreeSet;

use clap::Args;
use diesel_sharded::{ShardName, Topology};
use globset::{Glob, GlobMatcher};

use crate::failure::Failure;

/// Which shards a command works on; all of them where nothing is said.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Selection {
    /// Only shards of this name or pattern (`order-*`, `{eu,us}-?`); may be given several times
    #[arg(long = "shard", short = 's', value_name = "GLOB")]
    shards: Vec<String>,

    /// Only shards of keyspaces of this name or pattern; may be given several times
    #[arg(long = "keyspace", short = 'k', value_name = "GLOB")]
    keyspaces: Vec<String>,
}

impl Selection {
    /// The shards that are meant, sorted. With both options, a shard has to be named by both.
    pub(crate) fn resolve(&self, topology: &Topology) -> Result<Vec<ShardName>, Failure> {
        let shards = self.named_shards(topology)?;
        let of_keyspaces = self.shards_of_keyspaces(topology)?;
        let chosen: Vec<ShardName> = match of_keyspaces {
            Some(within) => shards
                .into_iter()
                .filter(|shard| within.contains(shard))
                .collect(),
            None => shards,
        };
        if chosen.is_empty() {
            return Err(Failure::usage(
                "no shard is both in --shard and in --keyspace: nothing to do",
            ));
        }
        Ok(chosen)
    }

    fn named_shards(&self, topology: &Topology) -> Result<Vec<ShardName>, Failure> {
        let all = topology.shards();
        if self.shards.is_empty() {
            return Ok(all);
        }
        let mut chosen = BTreeSet::new();
        for text in &self.shards {
            let pattern = Pattern::new("--shard", text)?;
            let found: Vec<_> = all.iter().filter(|name| pattern.is_match(name)).collect();
            if found.is_empty() {
                // A mistyped name gets the answer of the library, with the nearest one that exists.
                let _ = topology.route(text)?;
            }
            chosen.extend(found);
        }
        Ok(chosen.into_iter().copied().collect())
    }

    fn shards_of_keyspaces(
        &self,
        topology: &Topology,
    ) -> Result<Option<BTreeSet<ShardName>>, Failure> {
        if self.keyspaces.is_empty() {
            return Ok(None);
        }
        let mut chosen = BTreeSet::new();
        for text in &self.keyspaces {
            let pattern = Pattern::new("--keyspace", text)?;
            let mut found = false;
            for keyspace in topology.keyspaces() {
                if pattern.is_match(keyspace) {
                    found = true;
                    chosen.extend(topology.describe_keyspace(keyspace)?.shards);
                }
            }
            if !found {
                topology.describe_keyspace(text)?;
            }
        }
        Ok(Some(chosen))
    }
}

/// A name or a pattern of names.
struct Pattern(GlobMatcher);

impl Pattern {
    fn new(option: &str, text: &str) -> Result<Self, Failure> {
        match Glob::new(text) {
            Ok(glob) => Ok(Self(glob.compile_matcher())),
            Err(error) => Err(Failure::usage(format!(
                "{option} {text:?} is no pattern: {}",
                error.kind()
            ))),
        }
    }

    fn is_match(&self, name: impl AsRef<str>) -> bool {
        self.0.is_match(name.as_ref())
    }
}

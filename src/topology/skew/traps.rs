//! The known traps, and whether these keys step into them.

use std::collections::{BTreeMap, BTreeSet};

use super::{Cells, Share, Skew};
use crate::algorithm::{KeyRange, Normalize, Spreads, counted};

impl Skew {
    /// The known traps that these keys step into.
    pub(super) fn warnings(&self, shards: &[Share]) -> Vec<String> {
        let mut warnings = Vec::new();
        warnings.extend(self.pattern_of_ids());
        warnings.extend(self.unused_pairs());
        warnings.extend(self.few_buckets());
        let normalized = self.entry.rule.normalizes(Normalize::Lowercase)
            && self.entry.rule.normalizes(Normalize::Trim);
        if self.foldable > 0 && !normalized {
            let have = if self.foldable == 1 { "has" } else { "have" };
            warnings.push(format!(
                "{} {have} upper case letters or blanks at an end, and the rule does not normalize: where the column's collation takes them for equal to others (the default of MySQL and MariaDB), equal keys are on different shards",
                counted(self.foldable, "key")
            ));
        }
        if let Some(heavy) = self.heavy.heaviest(1).first()
            && shards.len() > 1
            && heavy.at_least as f64 > self.keys as f64 / shards.len() as f64 / 2.0
            && self.keys >= 1_000
        {
            warnings.push(format!(
                "the key {} alone has {:.1} % of all rows: no rule can spread the rows of one key",
                heavy.key,
                heavy.at_least as f64 / self.keys as f64 * 100.0
            ));
        }
        warnings
    }

    /// Ids that a remainder does not tell apart.
    fn pattern_of_ids(&self) -> Option<String> {
        // Only these take remainders of the id itself.
        if !matches!(
            self.entry.rule.algorithm_name(),
            "modulo" | "compat" | "custom"
        ) {
            return None;
        }
        // A few keys with nearly all rows have a lot in common, which says nothing about ids.
        let heaviest: u64 = self.heavy.heaviest(10).iter().map(|key| key.at_least).sum();
        if heaviest * 10 > self.keys * 9 {
            return None;
        }
        let (bits, odd) = (self.pattern.constant_bits(), self.pattern.odd_divisor());
        if odd > 1 {
            let divisor = odd.saturating_mul(1 << bits);
            return Some(format!(
                "nearly all ids have the same remainder by {divisor}, as ids have that count in steps: a remainder by a number that has a divisor in common with {divisor} leaves shards or tables empty; `hash` does not mind"
            ));
        }
        (bits > 0).then(|| {
            let bits = match bits {
                1 => "lowest bit of nearly all ids is constant".to_owned(),
                more => format!("{more} low bits of nearly all ids are constant"),
            };
            format!(
                "the {bits}, as in snowflake ids at a low rate: a remainder by 2, 4, 8 .. sees nothing else and puts all rows together; `hash` does not mind"
            )
        })
    }

    /// Tables of which many pairs of shard and part stay empty, although the rule can fill them.
    fn unused_pairs(&self) -> Vec<String> {
        // By periods, most are empty at any time.
        if self.entry.rule.names_dates() {
            return Vec::new();
        }
        let reach = self
            .entry
            .rule
            .reach(&KeyRange::full(self.entry.rule.key_type()));
        let owning = reach.iter().filter(|reach| {
            let at = self.entry.rule.position(reach.shard);
            at.is_some_and(|at| self.shards.get(at).is_some_and(|keys| *keys > 0))
        });
        let owning: Vec<&Spreads> = owning.map(|reach| &reach.spreads).collect();
        let mut warnings = Vec::new();
        for (table, cells) in self.entry.tables.iter().zip(&self.tables) {
            let used = match cells {
                Cells::Numbered(counts, _) => counts.iter().filter(|keys| **keys > 0).count(),
                Cells::ByRule(counts) => counts.len(),
                Cells::None => continue,
            };
            let possible = |spreads: &&Spreads| match (spreads, cells) {
                (Spreads::These(spreads), Cells::Numbered(_, parts)) => {
                    let parts = spreads.iter().map(|spread| spread % *parts as u64);
                    parts.collect::<BTreeSet<u64>>().len()
                }
                (Spreads::These(spreads), _) => spreads.len(),
                (Spreads::All, Cells::Numbered(_, parts)) => *parts,
                (Spreads::All, _) => 0,
            };
            let all: usize = owning.iter().map(possible).sum();
            if self.keys as usize >= all * 20
                && self.heavy.at_least_distinct() >= all.saturating_mul(20).min(1_000)
                && used * 10 < all * 8
            {
                warnings.push(format!(
                    "only {used} of the {all} pairs of shard and part of table {} are used: shard and table follow from the same part of the key, or the keys have a pattern that the divisors share",
                    table.name
                ));
            }
        }
        warnings
    }

    /// A map whose steps are coarse.
    fn few_buckets(&self) -> Option<String> {
        let map = self.entry.rule.effective_map()?;
        let mut owned: BTreeMap<&str, u32> = BTreeMap::new();
        for (range, shard) in &map {
            *owned.entry(shard.as_str()).or_default() += range.end - range.start;
        }
        let (shard, buckets) = owned.iter().min_by_key(|(_, buckets)| **buckets)?;
        (*buckets < 16 && owned.len() > 1).then(|| {
            format!(
                "shard {shard} owns {}: shares can be set only in steps of {:.0} % of its own, so more buckets would have been better (4096 are usual)",
                counted((*buckets).into(), "bucket"),
                100.0 / f64::from(*buckets)
            )
        })
    }
}

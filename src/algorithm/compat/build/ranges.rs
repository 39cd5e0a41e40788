//! Systems that give ranges of a hash to shards.

use super::super::super::rule::Problems;
use super::super::super::segments::{Fault, Segments, Stretch};
use super::super::{CompatRange, Places, RangeHash};

/// `least` and `greatest` are the first and the last hash there is; every one has an owner.
pub(super) fn ranged(
    hash: RangeHash,
    ranges: &[CompatRange],
    (least, greatest): (i128, i128),
    shards: &[String],
    problems: &mut Problems,
) -> Option<Places> {
    const KEY: &str = "algorithm.map";
    let before = problems.len();
    let shown = |range: &CompatRange| format!("{}..={} of {:?}", range.from, range.to, range.shard);
    let mut stretches = Vec::with_capacity(ranges.len());
    let mut owners = Vec::with_capacity(ranges.len());
    for (owner, range) in (0u32..).zip(ranges) {
        let shard = shards.iter().position(|shard| *shard == range.shard);
        if shard.is_none() {
            problems.unlisted(KEY, "hashes are given to", &range.shard, shards);
        }
        if range.from < least || range.to > greatest {
            problems.add(
                KEY,
                format!("{} leaves the hashes {least}..={greatest}", shown(range)),
            );
        }
        let shard = shard.and_then(|shard| u32::try_from(shard).ok());
        owners.push((shard.unwrap_or_default(), range.table));
        stretches.push(Stretch {
            from: Some(range.from),
            until: Some(range.to.saturating_add(1)),
            owner,
        });
    }
    let line = match Segments::build(&stretches) {
        Ok(line) => line,
        Err(faults) => {
            for fault in faults {
                let message = match fault {
                    Fault::Empty(i) => {
                        format!("{} holds no hash: the end is inclusive", shown(&ranges[i]))
                    }
                    Fault::Overlap(a, b) => format!(
                        "{} and {} overlap: a hash has one shard",
                        shown(&ranges[a]),
                        shown(&ranges[b])
                    ),
                };
                problems.add(KEY, message);
            }
            return None;
        }
    };
    for (from, until, owner) in line.iter() {
        if owner.is_none() {
            let from = from.copied().unwrap_or(least).max(least);
            let until = until.copied().unwrap_or(greatest + 1).min(greatest + 1);
            if from < until {
                problems.add(
                    KEY,
                    format!("no shard has the hashes {from}..={}", until - 1),
                );
            }
        }
    }
    (problems.len() == before).then(|| Places::Ranges {
        hash,
        line,
        ranges: owners.into_boxed_slice(),
    })
}

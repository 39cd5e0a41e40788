//! Which placement a key has: pure functions, one file per algorithm.
//!
//! A [`RuleSpec`] says what somebody asked for; `Rule::build` checks it, reports everything that is
//! wrong with it, and makes the `Rule` that places keys. An algorithm, once released, never changes
//! its answers: `tests/data/golden_keys.tsv` holds them.

mod compare;
mod compat;
mod custom;
mod date;
mod explain;
mod fingerprint;
mod hash;
mod jump;
mod list;
mod modulo;
mod normalize;
#[cfg(all(
    feature = "migrations",
    any(feature = "sqlite", feature = "postgres", feature = "mysql")
))]
mod periods;
mod placement;
mod point;
mod problems;
mod prune;
mod range;
mod ring;
mod rule;
mod segments;
mod sorted_hashes;
mod spec;
#[cfg(test)]
mod tests;
mod words;

pub(crate) use compare::Compared;
pub use compat::{CompatRange, CompatSpec, JavaType, Layout, System};
pub use custom::{AlgorithmOptions, CustomPlace, CustomSpec, ShardingAlgorithm};
#[cfg(all(
    feature = "migrations",
    any(feature = "sqlite", feature = "postgres", feature = "mysql")
))]
pub(crate) use date::parse_day;
pub use date::{DateSpec, Every, Rounding};
pub use explain::{ExplainStep, Explanation};
pub use fingerprint::Fingerprint;
pub(crate) use fingerprint::TableNames;
pub use jump::jump_consistent_hash;
pub use normalize::Normalize;
pub use placement::Placement;
pub(crate) use point::{BoundError, KeyRange};
pub(crate) use prune::{Reach, Spreads};
pub(crate) use rule::Rule;
#[cfg(feature = "config")]
pub(crate) use spec::DEFAULT_POINTS;
pub use spec::{AlgorithmSpec, RangeSpec, RuleSpec};
pub(crate) use words::{counted, percent};

//! Which placement a key has: pure functions, one file per algorithm.
//!
//! A [`RuleSpec`] says what somebody asked for; `Rule::build` checks it, reports everything that is
//! wrong with it, and makes the `Rule` that places keys. An algorithm, once released, never changes
//! its answers: `tests/data/golden_keys.tsv` holds them.

mod fingerprint;
mod hash;
mod list;
mod modulo;
mod normalize;
mod placement;
mod rule;
mod spec;
#[cfg(test)]
mod tests;

pub use fingerprint::Fingerprint;
pub use normalize::Normalize;
pub use placement::Placement;
pub(crate) use rule::Rule;
pub use spec::{AlgorithmSpec, RuleSpec};

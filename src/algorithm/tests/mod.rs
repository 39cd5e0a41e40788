//! What the algorithms promise as a whole; what one of them does inside is tested in its own file.

mod dates;
mod fingerprints;
mod golden;
mod moving;
mod placing;
mod problems;
mod ranges;

use super::{Placement, Rule, RuleSpec};
use crate::key::ToShardKey;

fn build(spec: &RuleSpec) -> Rule {
    Rule::build(spec).expect("a rule without problems")
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("s{i}")).collect()
}

fn place(rule: &Rule, key: impl ToShardKey) -> Placement {
    rule.place(&key.to_shard_key()).expect("a placement")
}

fn shard(rule: &Rule, key: impl ToShardKey) -> &'static str {
    let name = place(rule, key).shard();
    name.as_str()
}

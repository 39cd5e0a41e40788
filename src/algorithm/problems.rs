//! What is wrong with a rule, collected.

/// One thing that is wrong with a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RuleProblem {
    /// Where, as a dotted key below the keyspace: `algorithm.map`.
    pub(crate) key: String,
    /// What is wrong, and what to do.
    pub(crate) message: String,
}

/// Collects what is wrong, so that all of it is reported at once.
#[derive(Debug, Default)]
pub(super) struct Problems(pub(super) Vec<RuleProblem>);

impl Problems {
    pub(super) fn add(&mut self, key: &str, message: String) {
        self.0.push(RuleProblem {
            key: key.to_owned(),
            message,
        });
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Something is given to a shard that the rule does not have.
    pub(super) fn unlisted(&mut self, key: &str, what: &str, shard: &str, shards: &[String]) {
        let hint = match nearest(shard, shards) {
            Some(near) => format!(": did you mean {near:?}?"),
            None => String::new(),
        };
        self.add(
            key,
            format!("{what} {shard:?}, which is not listed in `shards`{hint}"),
        );
    }
}

/// The listed name that looks most like what somebody wrote.
fn nearest<'s>(name: &str, shards: &'s [String]) -> Option<&'s str> {
    shards
        .iter()
        .map(|listed| (strsim::jaro_winkler(name, listed), listed.as_str()))
        .filter(|(likeness, _)| *likeness > 0.85)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, listed)| listed)
}

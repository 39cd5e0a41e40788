//! Algorithms of the application's own.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::rule::{Algorithm, Problems, Rule, RuleProblem, Spot};
use crate::key::{KeyType, ShardKey};

/// The options of a custom algorithm, as they are written in the configuration.
pub type AlgorithmOptions = BTreeMap<String, String>;

/// An algorithm of the application's own, for a rule that none of the built-in kinds can say.
///
/// Everything else a rule has stays as it is: the type of keys is checked before, text keys are
/// normalized, a null key never arrives, and the answer is checked against the list of shards.
///
/// # What an implementation promises
///
/// It is **pure and frozen**: the same key has the same answer in every process, on every machine
/// and for ever. No clock, no random seed, no `DefaultHasher`. Rows are looked for where it says, and
/// nowhere else. The crate knows an algorithm by its name and its options, which are part of the
/// [`Fingerprint`](crate::Fingerprint); code that places otherwise gets another name.
///
/// It must not panic, and it is called on every look-up: take nothing that waits.
///
/// ```
/// use diesel_sharded::{
///     CustomPlace, KeyspaceConfig, RuleSpec, ShardKey, ShardingAlgorithm, Topology,
/// };
///
/// /// Even numbers on the first shard, odd ones on the second.
/// #[derive(Debug)]
/// struct Parity;
///
/// impl ShardingAlgorithm for Parity {
///     fn place(&self, key: &ShardKey<'_>, _shards: usize) -> Option<CustomPlace> {
///         let ShardKey::Integer(number) = key else { return None };
///         let shard = usize::from(number % 2 != 0);
///         Some(CustomPlace { shard, spread: number.unsigned_abs() as u64 / 2 })
///     }
/// }
///
/// let rule = RuleSpec::custom(["even", "odd"], "parity", Parity);
/// let topology = Topology::builder()
///     .shard("even", ":memory:")
///     .shard("odd", "odd.sqlite")
///     .keyspace("numbers", KeyspaceConfig::new(rule))
///     .build()?;
/// assert_eq!(topology.locate("numbers", &7)?.shard(), "odd");
/// # Ok::<(), diesel_sharded::Error>(())
/// ```
///
/// In a configuration file it is named, and the loader is told what the name means:
/// [`ConfigLoader::algorithm`](crate::ConfigLoader::algorithm).
pub trait ShardingAlgorithm: fmt::Debug + Send + Sync + 'static {
    /// Where a key lives, among so many shards; `None` for a key that has no place
    /// ([`Error::NotCovered`](crate::Error::NotCovered)).
    fn place(&self, key: &ShardKey<'_>, shards: usize) -> Option<CustomPlace>;

    /// What is wrong with a rule that uses this algorithm: called once, when the topology is built,
    /// with the number of shards and the type of the keys. Each text becomes one error of the
    /// configuration. Defaults to nothing.
    fn check(&self, shards: usize, key: KeyType) -> Vec<String> {
        let _ = (shards, key);
        Vec::new()
    }
}

/// What a [`ShardingAlgorithm`] answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CustomPlace {
    /// The position in the rule's list of shards, from 0.
    pub shard: usize,
    /// The [spread](crate::Placement::spread): the number of a table of count n is this modulo n.
    /// Take it from another part of the key than the shard.
    pub spread: u64,
}

/// A custom algorithm by its name, with its options.
#[derive(Clone)]
pub struct CustomSpec {
    pub(crate) name: String,
    pub(crate) options: AlgorithmOptions,
    /// `None` where this program does not know the algorithm: it can work with the shards, but not
    /// place a key.
    pub(crate) algorithm: Option<Arc<dyn ShardingAlgorithm>>,
}

/// Equal by name and options, as the fingerprint is.
impl PartialEq for CustomSpec {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.options == other.options
    }
}

impl Eq for CustomSpec {}

impl fmt::Debug for CustomSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomSpec")
            .field("name", &self.name)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl CustomSpec {
    /// An algorithm under a name, without options.
    pub fn new(name: impl Into<String>, algorithm: impl ShardingAlgorithm) -> Self {
        Self {
            name: name.into(),
            options: AlgorithmOptions::new(),
            algorithm: Some(Arc::new(algorithm)),
        }
    }

    /// Adds an option: it becomes part of the fingerprint. The algorithm has to be made with it
    /// already.
    #[must_use]
    pub fn option(mut self, name: &str, value: &str) -> Self {
        self.options.insert(name.to_owned(), value.to_owned());
        self
    }
}

impl Rule {
    /// The name of a custom algorithm that this program does not know, so that no key can be placed.
    pub(crate) fn unknown_algorithm(&self) -> Option<&str> {
        match &self.algorithm {
            Algorithm::Custom(custom) if custom.spec.algorithm.is_none() => Some(&custom.spec.name),
            _ => None,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Custom {
    pub(super) spec: CustomSpec,
    shards: usize,
}

impl Custom {
    /// Nobody has checked an algorithm that is not known here.
    pub(super) fn warning(&self) -> Option<RuleProblem> {
        let name = &self.spec.name;
        self.spec.algorithm.is_none().then(|| RuleProblem {
            key: "algorithm.name".to_owned(),
            message: format!(
                "the custom algorithm {name:?} is not known to this program and was not checked: a program that registers it does that when it loads the configuration"
            ),
        })
    }

    pub(super) fn build(
        shards: usize,
        spec: &CustomSpec,
        key: KeyType,
        problems: &mut Problems,
    ) -> Option<Self> {
        let before = problems.len();
        if spec.name.is_empty() || spec.name.contains(char::is_control) {
            problems.add(
                "algorithm.name",
                "a custom algorithm has a name without control characters".into(),
            );
        }
        if let Some(algorithm) = &spec.algorithm {
            for message in algorithm.check(shards, key) {
                problems.add("algorithm", message);
            }
        }
        (problems.len() == before).then(|| Self {
            spec: spec.clone(),
            shards,
        })
    }

    pub(super) fn place(&self, key: &ShardKey<'_>) -> Option<Spot> {
        let place = self.spec.algorithm.as_ref()?.place(key, self.shards)?;
        (place.shard < self.shards).then_some(Spot {
            shard: place.shard,
            spread: place.spread,
        })
    }

    /// Why a key has no place.
    pub(super) fn refused(&self, key: &ShardKey<'_>) -> String {
        let name = &self.spec.name;
        match &self.spec.algorithm {
            None => format!(
                "this program does not know the algorithm {name:?}: only the application that has it can place keys"
            ),
            Some(algorithm) => match algorithm.place(key, self.shards) {
                Some(place) => format!(
                    "the algorithm {name:?} answers with the shard at position {} of {}",
                    place.shard, self.shards
                ),
                None => format!("the algorithm {name:?} has no place for it"),
            },
        }
    }
}

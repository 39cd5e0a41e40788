//! What the names of custom algorithms mean to this program.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::algorithm::{AlgorithmOptions, ShardingAlgorithm};

type Factory =
    Arc<dyn Fn(&AlgorithmOptions) -> Result<Arc<dyn ShardingAlgorithm>, String> + Send + Sync>;

/// The custom algorithms that a loader knows.
#[derive(Clone, Default)]
pub(super) struct Algorithms {
    known: BTreeMap<String, Factory>,
    /// An unknown name is taken: the program does everything but place keys.
    pub(super) tolerant: bool,
}

impl Algorithms {
    pub(super) fn add<A: ShardingAlgorithm>(
        &mut self,
        name: String,
        make: impl Fn(&AlgorithmOptions) -> Result<A, String> + Send + Sync + 'static,
    ) {
        let factory =
            move |options: &AlgorithmOptions| -> Result<Arc<dyn ShardingAlgorithm>, String> {
                Ok(Arc::new(make(options)?))
            };
        self.known.insert(name, Arc::new(factory));
    }

    /// The algorithm of this name with these options; `None` where it is unknown and may be.
    pub(super) fn make(
        &self,
        name: &str,
        options: &AlgorithmOptions,
    ) -> Result<Option<Arc<dyn ShardingAlgorithm>>, String> {
        match self.known.get(name) {
            Some(factory) => factory(options).map(Some),
            None if self.tolerant => Ok(None),
            None if self.known.is_empty() => Err(format!(
                "the algorithm {name:?} is unknown: tell the loader what it is, `Config::loader().algorithm({name:?}, ..)`"
            )),
            None => {
                let known: Vec<&str> = self.known.keys().map(String::as_str).collect();
                Err(format!(
                    "the algorithm {name:?} is unknown: this program knows {}",
                    known.join(", ")
                ))
            }
        }
    }
}

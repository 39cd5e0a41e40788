//! What all threads of a run share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use diesel_sharded::blocking::Keyspace;
use diesel_sharded::{BoxError, Config, Error, Format};

use crate::faults;
use crate::fleet::{ALL, AnyConnection, Fleet, Manager, SHARDS, SPARE, connect};
use crate::ledger::Ledger;

#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) reads: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) slowest: AtomicU64,
    pub(crate) hooks: Arc<AtomicU64>,
    pub(crate) hooks_due: AtomicU64,
    pub(crate) leaked_routes: AtomicU64,
    pub(crate) misrouted: AtomicU64,
    pub(crate) kills: AtomicU64,
    pub(crate) stops: AtomicU64,
    pub(crate) crashes: AtomicU64,
    pub(crate) starts: AtomicU64,
    pub(crate) locks: AtomicU64,
    pub(crate) reloads: AtomicU64,
    pub(crate) reloads_refused: AtomicU64,
    pub(crate) rotations: AtomicU64,
}

pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) fleet: Fleet,
    pub(crate) shards: Manager,
    pub(crate) keyspace: Keyspace<AnyConnection>,
    pub(crate) outer: r2d2::Pool<Manager>,
    pub(crate) ledger: Ledger,
    pub(crate) counts: Counts,
    errors: Mutex<BTreeMap<String, u64>>,
    faults: Mutex<Vec<String>>,
    stop: AtomicBool,
}

impl World {
    pub(crate) fn new(seed: u64) -> Result<Self, BoxError> {
        let fleet = Fleet::new()?;
        let shards = Manager::builder()
            .shard(ALL[SPARE], fleet.file(SPARE))
            .connect_with(connect)
            .build()?;
        shards.reload(&Settings::default().config(&fleet)?)?;
        shards.write_identity()?;
        Ok(Self {
            seed,
            keyspace: shards.keyspace("all")?,
            outer: shards.clone().into_pool(),
            shards,
            fleet,
            ledger: Ledger::new(),
            counts: Counts::default(),
            errors: Mutex::default(),
            faults: Mutex::default(),
            stop: AtomicBool::new(false),
        })
    }

    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Counts an error; one that cannot be explained fails the run.
    pub(crate) fn note(&self, error: &Error) {
        let error = match error {
            // What came through the outer pool, or through Diesel twice.
            Error::Database { source, .. } => Error::find(source).unwrap_or(error),
            other => other,
        };
        if faults::is_a_fault(error) {
            self.fault(format!("unexpected error: {error}"));
        }
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        *errors.entry(faults::name(error)).or_default() += 1;
    }

    /// Something that must not be.
    pub(crate) fn fault(&self, text: String) {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        // The first ones tell the story; a run that goes wrong would fill the memory.
        if faults.len() < 100 {
            faults.push(text);
        }
    }

    pub(crate) fn errors(&self) -> Vec<(String, u64)> {
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        errors.iter().map(|(name, n)| (name.clone(), *n)).collect()
    }

    pub(crate) fn faults(&self) -> Vec<String> {
        self.faults
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// What a reload may change.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) sizes: [u32; ALL.len()],
    pub(crate) states: [&'static str; ALL.len()],
    pub(crate) tags: [u32; ALL.len()],
    pub(crate) spare: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            sizes: [6; ALL.len()],
            states: ["open"; ALL.len()],
            tags: [0; ALL.len()],
            spare: true,
        }
    }
}

pub(crate) const BATCH_SIZE: u32 = 2;

impl Settings {
    /// The settings as the configuration that an operator would have written.
    pub(crate) fn config(&self, fleet: &Fleet) -> Result<Config, Error> {
        let mut text = format!(
            "[pool]\nconnection_timeout = \"2s\"\nconnect_timeout = \"2s\"\nidle_timeout = \"20s\"\nmax_lifetime = \"30s\"\n\
             [pools.batch]\nmax_size = {BATCH_SIZE}\n\
             [keyspaces.all]\nkey = \"integer\"\nalgorithm = {{ kind = \"hash\", buckets = 256 }}\nshards = {SHARDS:?}\n"
        );
        for shard in 0..ALL.len() {
            if shard != SPARE || self.spare {
                text += &fleet.section(
                    shard,
                    self.states[shard],
                    self.sizes[shard],
                    self.tags[shard],
                );
            }
        }
        // Not this process's environment: the settings are all there is.
        Config::loader()
            .environment(std::iter::empty::<(String, String)>())
            .text(&text, Format::Toml)
    }
}

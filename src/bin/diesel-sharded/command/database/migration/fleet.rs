//! Which databases, and how they are worked on: the options that the migration commands share.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use diesel_sharded::migrate::{Action, Migrator, Options, ShardPlan, Source};
use diesel_sharded::{Config, Error, Topology};

use super::diesel_toml::DieselToml;
use crate::command::database::report::Advice;
use crate::context::Context;
use crate::failure::Failure;
use crate::selection::Selection;

/// How many databases are asked at the same time where nothing is changed.
const READERS: usize = 16;

/// Options of the commands that change databases.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Fleet")]
pub(crate) struct FleetArgs {
    #[command(flatten)]
    selection: Selection,

    /// Work on so many databases at the same time
    #[arg(long, short = 'p', value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    parallel: u16,

    /// Work on this shard first, alone; on nothing else if it fails
    #[arg(long, value_name = "SHARD")]
    canary: Option<String>,

    /// Start no further shard after so many have failed. One that cannot be reached or is refused
    /// before anything begins counts; while they are fewer than N, the others are changed all the same
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    max_failures: u32,

    /// Go on with the other shards however many fail, or cannot be reached or are refused before
    /// anything begins
    #[arg(long, conflicts_with = "max_failures")]
    keep_going: bool,

    /// Leave out shards that cannot be reached, instead of changing nothing at all. The exit code
    /// still says so
    #[arg(long)]
    skip_unreachable: bool,

    /// Apply migrations that are older than one that is applied already
    #[arg(long)]
    allow_out_of_order: bool,

    /// Work on databases that have versions which are in no folder
    #[arg(long)]
    allow_unknown: bool,

    /// Work on databases where a migration was applied with another text than it has now
    #[arg(long)]
    allow_edited: bool,

    /// Wait so long for another runner to finish with a shard
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = humantime::parse_duration)]
    wait: Duration,

    /// Take no lock: where session locks do not work, behind a transaction pooler. See to it yourself
    /// that only one runner is at work
    #[arg(long)]
    no_lock: bool,

    /// How long a statement may wait for a lock of the database [default: the database's own]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    lock_timeout: Option<Duration>,

    /// How long a statement may run [default: the database's own]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    statement_timeout: Option<Duration>,

    /// Try again so often what failed on a lock or a conflict, where that is safe
    #[arg(long, value_name = "N", default_value_t = 0)]
    retries: u32,
}

impl FleetArgs {
    /// The options for the library.
    pub(crate) fn options(&self, topology: &Topology) -> Result<Options, Failure> {
        let mut options = Options::new()
            .shards(
                self.selection
                    .resolve(topology)?
                    .iter()
                    .map(|shard| shard.as_str()),
            )
            .parallel(usize::from(self.parallel))
            .max_failures((!self.keep_going).then_some(self.max_failures))
            .skip_unreachable(self.skip_unreachable)
            .allow_out_of_order(self.allow_out_of_order)
            .allow_unknown(self.allow_unknown)
            .allow_edited(self.allow_edited)
            .wait(self.wait)
            .lock(!self.no_lock)
            .retries(self.retries);
        if let Some(shard) = &self.canary {
            options = options.canary(shard);
        }
        if let Some(time) = self.lock_timeout {
            options = options.lock_timeout(time);
        }
        if let Some(time) = self.statement_timeout {
            options = options.statement_timeout(time);
        }
        Ok(options)
    }

    /// Whether what stands against some shards keeps every shard from being changed.
    pub(super) fn stops_at(&self, plans: &[ShardPlan]) -> bool {
        let refused = || plans.iter().filter(|plan| !plan.failures.is_empty());
        let failed = refused().filter(|plan| !(self.skip_unreachable && plan.is_unreachable()));
        let is_canary = |plan: &ShardPlan| {
            let mut shards = std::iter::once(&plan.shard).chain(&plan.also);
            shards.any(|shard| self.canary.as_deref() == Some(shard.as_str()))
        };
        let too_many = u32::try_from(failed.count()).unwrap_or(u32::MAX) >= self.max_failures;
        (too_many && !self.keep_going) || refused().any(is_canary)
    }

    /// What is worth saying to whoever gave these options.
    pub(crate) fn advice(&self, action: &Action) -> Advice {
        Advice {
            reverts: !matches!(action, Action::Run),
            others_go_on: self.keep_going || self.max_failures > 1,
        }
    }

    /// How many databases are worked on at the same time.
    pub(crate) fn parallel(&self) -> usize {
        usize::from(self.parallel)
    }
}

/// Options for asking the chosen databases without changing them.
pub(crate) fn reading(selection: &Selection, topology: &Topology) -> Result<Options, Failure> {
    let shards = selection.resolve(topology)?;
    Ok(Options::new()
        .shards(shards.iter().map(|shard| shard.as_str()))
        .parallel(READERS))
}

/// Where a configuration names no migrations at all, those of Diesel's own configuration belong on every
/// shard: their folder, which need not exist. `None` where it names some.
fn default_folder(config: &Config, topology: &Topology) -> Result<Option<PathBuf>, Failure> {
    for shard in topology.shards() {
        if !topology.migrations(shard)?.is_empty() {
            return Ok(None);
        }
    }
    Ok(Some(DieselToml::of(config)?.migrations()))
}

/// The migrator of a configuration for a command that needs no migrations: there it has none where the configuration
/// names none.
pub(crate) fn load_without_migrations(context: &Context) -> Result<(Topology, Migrator), Failure> {
    let config = context.config()?;
    let topology = config.topology()?;
    match default_folder(&config, &topology)? {
        Some(folder) if !folder.is_dir() => {
            let migrator = Migrator::builder(&topology).build()?;
            Ok((topology, migrator))
        }
        _ => migrator(&config),
    }
}

/// The migrator of a configuration.
pub(crate) fn migrator(config: &Config) -> Result<(Topology, Migrator), Failure> {
    let topology = config.topology()?;
    let Some(folder) = default_folder(config, &topology)? else {
        let migrator = Migrator::from_config(config)?;
        return Ok((topology, migrator));
    };
    if !folder.is_dir() {
        return Err(Failure::usage(no_folder(&folder)));
    }
    let migrator = Migrator::builder(&topology)
        .source(Source::folder(folder.display().to_string()))
        .build()?;
    Ok((topology, migrator))
}

/// Said where the configuration names no migrations and the default folder is none.
fn no_folder(folder: &Path) -> String {
    let what = if folder.exists() {
        "is no folder"
    } else {
        "is not there"
    };
    format!(
        "the configuration names no migrations, and the folder {} {what}: say `migrations = \"migrations\"` in a keyspace or a shard, or make one with `diesel-sharded migration generate NAME`",
        folder.display()
    )
}

/// Where migrations come from that a configuration does not name.
#[derive(Debug, Default)]
pub(crate) struct DefaultFolder {
    /// The folder that counts.
    pub(crate) path: Option<PathBuf>,
    /// There is none, so that the commands about migrations refuse; everything else does without.
    pub(crate) warning: Option<String>,
}

/// Everything for which `run` would refuse a configuration before it goes to any database. Answers the
/// folder of migrations that counts where the configuration names none.
pub(crate) fn check(config: &Config, topology: &Topology) -> Result<DefaultFolder, Failure> {
    let folder = default_folder(config, topology)?;
    if let Some(folder) = folder
        .as_deref()
        .filter(|one| one.exists() && !one.is_dir())
    {
        return Err(Failure::usage(no_folder(folder)));
    }
    let mut problems = Migrator::missing_backends(topology);
    if let Some(file) = config.path() {
        for problem in &mut problems {
            problem.origin = file.display().to_string();
        }
    }
    if folder.as_deref().is_none_or(Path::is_dir)
        && let Err(failure) = migrator(config)
    {
        if failure.problems().is_empty() {
            return Err(failure);
        }
        problems.extend_from_slice(failure.problems());
    }
    if problems.is_empty() {
        let missing = folder.as_deref().filter(|folder| !folder.is_dir());
        Ok(DefaultFolder {
            warning: missing.map(no_folder),
            path: folder.filter(|folder| folder.is_dir()),
        })
    } else {
        Err(Error::Config(problems.into()).into())
    }
}

/// Configuration, topology and migrator in one.
pub(crate) fn load(context: &Context) -> Result<(Config, Topology, Migrator), Failure> {
    let config = context.config()?;
    let (topology, migrator) = migrator(&config)?;
    Ok((config, topology, migrator))
}

//! Ends states that need somebody's decision: dirty migrations, and locks of runners that hang.

use serde::Serialize;

use super::assess::dirty;
use super::check::{check_identity, each, lookers, read};
use super::event::{Direction, Event, Holder, Observer};
use super::migrator::{Migrator, Target};
use super::options::Options;
use super::report::{Failure, FailureKind, ShardReport};
use super::session::{Session, bookkeeping};
use super::work::Job;
use crate::error::Error;
use crate::name::ShardName;

/// How a migration that stopped half-way is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Repair {
    /// Send its statements from this one on, counted from 1, and record it. The text may have been
    /// corrected since.
    ResumeFrom(usize),
    /// Record it as applied, with the text it has now. For what was finished by hand, and for an edited
    /// migration whose change has no effect.
    MarkApplied,
    /// Record it as not applied. For what was undone by hand, and for a version that no source knows.
    MarkReverted,
}

/// Who has the lock of one database.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ShardLock {
    /// The shard; where several share the database, the first by name.
    pub shard: ShardName,
    /// The other shards on the same database.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<ShardName>,
    /// Who has the lock; `None` where it is free.
    pub holder: Option<Holder>,
    /// The session that had it was ended.
    pub ended: bool,
    /// Why it could not be found out, or ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

impl Migrator {
    /// Ends the dirty state of one migration on one shard.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownShard`], and [`Error::Config`] for a database whose backend was not compiled in.
    /// Everything else is in the report.
    pub fn repair(
        &self,
        shard: &str,
        version: &str,
        repair: Repair,
        options: &Options,
        observer: &Observer<'_>,
    ) -> Result<ShardReport, Error> {
        let target = self.target(shard)?;
        // As a version is written in a folder's name.
        let version = version.replace('-', "");
        let job = Job {
            inner: &self.inner,
            target,
            options,
            observer,
        };
        let report = job.locked(|locked, report| {
            let one = |failure: Failure| vec![failure];
            let books = read(&mut locked.session).map_err(one)?;
            check_identity(&self.inner, target, &books.identity).map_err(one)?;
            job.prepare(locked, &books, None).map_err(one)?;
            job.limit(locked, report).map_err(one)?;
            let begun = books.progress.iter().find(|row| row.version == *version);
            if let Some(ran) = job.repair(locked, &version, repair, begun).map_err(one)? {
                report.ran.push(ran);
            }
            Ok(())
        });
        observer(&Event::ShardFinished(report.clone()));
        Ok(report)
    }

    /// Tells who has the lock of each chosen database. With [`Options::force`], ends the session that
    /// has it; a statement that is under way there is rolled back, and leaves a migration outside of
    /// a transaction dirty. The lock of a SQLite database is a process's: end that process.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownShard`] for a name in the options, [`Error::Config`] for a database whose backend
    /// was not compiled in.
    pub fn unlock(&self, options: &Options) -> Result<Vec<ShardLock>, Error> {
        let targets = self.chosen(options)?;
        Ok(each(&targets, lookers(options), |target| {
            let mut lock = ShardLock {
                shard: target.shard(),
                also: target.also().to_vec(),
                holder: None,
                ended: false,
                failure: None,
            };
            if let Err(failure) = find_lock(target, options.force, &mut lock) {
                lock.failure = Some(failure);
            }
            lock
        }))
    }
}

fn find_lock(target: &Target, end: bool, lock: &mut ShardLock) -> Result<(), Failure> {
    if target.file.as_ref().is_some_and(|file| !file.exists()) {
        return Ok(());
    }
    let mut session = Session::open(&target.spec, target.kind)?;
    lock.holder = session.find_holder(target.file.as_deref())?;
    let Some(holder) = lock.holder.as_ref().filter(|_| end) else {
        return Ok(());
    };
    match holder.session {
        Some(number) => {
            session
                .end(number)
                .map_err(|error| bookkeeping("ending the session that has the lock", &error))?;
            lock.ended = true;
            Ok(())
        }
        None => Err(Failure::new(
            FailureKind::Locked,
            format!(
                "the lock is held by {}: end that process, and the lock goes with it",
                holder.told()
            ),
        )),
    }
}

impl Job<'_> {
    /// Ends the dirty state of a version; answers what ran.
    fn repair(
        &self,
        locked: &mut super::work::Locked,
        version: &str,
        repair: Repair,
        begun: Option<&super::session::Progress>,
    ) -> Result<Option<super::report::Ran>, Failure> {
        let session = &mut locked.session;
        let set = self.target.set_here(session)?;
        let migration = set.get(version);
        let known = || {
            migration.ok_or_else(|| {
                Failure::new(
                    FailureKind::Unknown,
                    "no source of this shard has this version: correct it, or restore its folder",
                )
                .of_version(&version.into())
            })
        };
        let written = |error| bookkeeping("recording it", &error).of_version(&version.into());
        match repair {
            Repair::MarkApplied => {
                session
                    .record_now(known()?, Direction::Up)
                    .map_err(written)?;
                Ok(None)
            }
            Repair::MarkReverted => {
                session.erase_now(version).map_err(written)?;
                Ok(None)
            }
            Repair::ResumeFrom(from) => {
                let migration = known()?;
                let Some(begun) = begun else {
                    return Err(Failure::new(
                        FailureKind::Dirty,
                        "it has not stopped half-way here, so there is nothing to resume: look at `status`",
                    )
                    .of_version(&migration.version));
                };
                let Some(statements) = migration.script(begun.direction) else {
                    return Err(dirty(self.target.shard(), begun));
                };
                // Whoever corrects the text of a migration may go on with another number of statements.
                if begun.total != statements.len() && self.target.may_grow(version, begun.direction)
                {
                    return Err(Failure::new(
                        FailureKind::Dirty,
                        format!(
                            "it had {} statements when it stopped and has {} now, since it is run for each part of a table and their number has changed: put the database right by hand, then --mark applied or --mark reverted",
                            begun.total,
                            statements.len()
                        ),
                    )
                    .of_version(&migration.version));
                }
                // One more than there are: everything has run, and only its entry is missing.
                if from == 0 || from > statements.len() + 1 {
                    return Err(Failure::new(
                        FailureKind::Dirty,
                        format!(
                            "it has {} statements: resume from 1 to {}",
                            statements.len(),
                            statements.len() + 1
                        ),
                    )
                    .of_version(&migration.version));
                }
                let direction = begun.direction;
                self.timed(migration, direction, || {
                    self.step_by_step(session, migration, direction, statements, from - 1)
                })
                .map(Some)
            }
        }
    }
}

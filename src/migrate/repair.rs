//! Ends states that need somebody's decision: dirty migrations, and locks of runners that hang.

use serde::Serialize;

use super::assess::{no_source, row};
use super::check::{check_identity, each, lookers};
use super::dirty::{Resume, have, resume};
use super::event::{Direction, Event, Holder, Observer};
use super::migrator::{Migrator, Target};
use super::options::Options;
use super::report::{Failure, FailureKind, Marked, Ran, ShardReport};
use super::session::{Attempt, Books, Session, bookkeeping};
use super::source::{Migration, version_of};
use super::split::Statement;
use super::status::VersionStatus;
use super::work::{Job, Locked};
use crate::error::Error;
use crate::name::ShardName;
use crate::topology::nearest;

/// How a migration that stopped half-way is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Repair {
    /// Send its statements from this one on, counted from 1, and record it. Their text may have been
    /// corrected since; that of the statements before them that have run may not. Statements that have run
    /// are sent again only with [`Options::force`]; those that have not and come before this one are
    /// skipped, and told as skipped. A transaction that the migration begins by itself is sent as a whole.
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
    /// Ends the dirty state of one migration on one shard. The version is written with dashes or without, or as
    /// the whole name of the migration.
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
        // As `list` and `status` print it: a version, with dashes or without, or the name of a folder.
        let name = version.contains('_').then_some(version);
        let version = version_of(version);
        let job = Job {
            inner: &self.inner,
            target,
            options,
            observer,
        };
        let report = job.locked(|locked, report| {
            let one = |failure: Failure| vec![failure];
            let books = job.read(&mut locked.session).map_err(one)?;
            check_identity(&self.inner, target, &books.identity).map_err(one)?;
            job.prepare(locked, &books, None).map_err(one)?;
            job.limit(locked, report).map_err(one)?;
            job.repair(locked, (&version, name), repair, &books, report)
                .map_err(one)
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
    /// Ends the dirty state of a version.
    fn repair(
        &self,
        locked: &mut Locked,
        (version, name): (&str, Option<&str>),
        repair: Repair,
        books: &Books,
        report: &mut ShardReport,
    ) -> Result<(), Failure> {
        let session = &mut locked.session;
        let set = self.target.set_here(session)?;
        let versions = row(&set, books, false);
        let was = versions.iter().find(|entry| {
            *entry.version == *version
                // A name that somebody gives is to be the right one, where it is known.
                && name.is_none_or(|name| entry.name.as_deref().is_none_or(|own| own == name))
        });
        let Some(was) = was.map(|entry| entry.state) else {
            return Err(unknown(version, name, &versions));
        };
        let known = || {
            let shard = self.target.shard();
            set.get(version)
                .ok_or_else(|| no_source(shard, version, "it is recorded here"))
        };
        let written = |error| bookkeeping("recording it", &error).of_version(&version.into());
        match repair {
            Repair::MarkApplied => session
                .record_now(known()?, Direction::Up)
                .map_err(written)?,
            Repair::MarkReverted => session.erase_now(version).map_err(written)?,
            Repair::ResumeFrom(from) => {
                let ran = self.resume(session, known()?, from, books, report)?;
                report.ran.push(ran);
                return Ok(());
            }
        }
        report.marked = Some(Marked {
            version: version.into(),
            applied: repair == Repair::MarkApplied,
            was,
        });
        Ok(())
    }

    /// Sends the statements of a migration that stopped half-way from this one on, counted from 1.
    fn resume(
        &self,
        session: &mut Session,
        migration: &Migration,
        from: usize,
        books: &Books,
        report: &mut ShardReport,
    ) -> Result<Ran, Failure> {
        let version = &migration.version;
        let begun = books.progress.iter().find(|row| *row.version == **version);
        let Some(begun) = begun else {
            return Err(Failure::new(
                FailureKind::Dirty,
                "it has not stopped half-way here, so there is nothing to resume: look at `status`",
            )
            .of_version(version));
        };
        let force = self.options.force;
        let Resume {
            statements,
            ran: ran_before,
            skipped,
            again,
        } = resume(self.target, Some(migration), begun, from, force)?;
        if !skipped.is_empty() {
            let what = have(&skipped, "is skipped", "are skipped");
            self.warn(report, format!("{version}: {what}, as was asked for"));
        }
        if !again.is_empty() {
            let what = have(
                &again,
                "has run already and runs",
                "have run already and run",
            );
            self.warn(report, format!("{version}: {what} again"));
        }
        let sets = |number: &&usize| {
            let before = number.checked_sub(1).and_then(|at| statements.get(at));
            before.is_some_and(Statement::sets) && !again.contains(number)
        };
        let set: Vec<usize> = ran_before.iter().filter(sets).copied().collect();
        if !set.is_empty() {
            let what = have(&set, "has set something", "have set something");
            self.warn(
                report,
                format!("{version}: {what} in the session of then, which does not hold now: if what follows needs it, send it again with --resume-from and --force, or mark the migration after putting the database right by hand"),
            );
        }
        let direction = begun.direction;
        let mut ran = self.timed(migration, direction, || {
            let attempt = Attempt {
                ran_before: ran_before.clone(),
                skipped: skipped.clone(),
                ..Attempt::default()
            };
            self.step_by_step(
                session,
                migration,
                direction,
                statements,
                from - 1,
                Some(attempt),
            )
        })?;
        ran.skipped = skipped;
        Ok(ran)
    }
}

/// A version that neither a source nor the database knows, or not under this name.
fn unknown(version: &str, name: Option<&str>, versions: &[VersionStatus]) -> Failure {
    let known = || {
        versions.iter().map(|entry| match name {
            Some(_) => entry.name.as_deref().unwrap_or(&entry.version),
            None => &entry.version,
        })
    };
    let given = name.unwrap_or(version);
    let hint = match nearest(given, known()).and_then(|at| known().nth(at)) {
        Some(nearest) => format!("did you mean {nearest}?"),
        None => "`diesel-sharded migration status` shows which there are".to_owned(),
    };
    let what = match name {
        Some(name) => format!("migration {name}"),
        None => "version".to_owned(),
    };
    Failure::new(
        FailureKind::Unknown,
        format!("neither a source of this shard nor its database has this {what}: {hint}"),
    )
    .of_version(&version.into())
}

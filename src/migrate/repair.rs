//! Ends states that need somebody's decision: dirty migrations, and locks of runners that hang.

use serde::Serialize;

use super::assess::{dirty, row};
use super::check::{check_identity, each, lookers, read};
use super::event::{Direction, Event, Holder, Observer};
use super::migrator::{Migrator, Target};
use super::options::Options;
use super::report::{Failure, FailureKind, Marked, Ran, ShardReport};
use super::session::{Books, Progress, Session, bookkeeping};
use super::source::{Migration, checksums};
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
    /// corrected since; that of the statements before them that have run may not.
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
            job.repair(locked, &version, repair, &books, report)
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
        version: &str,
        repair: Repair,
        books: &Books,
        report: &mut ShardReport,
    ) -> Result<(), Failure> {
        let session = &mut locked.session;
        let set = self.target.set_here(session)?;
        let versions = row(&set, books, false);
        let was = versions.iter().find(|entry| *entry.version == *version);
        let Some(was) = was.map(|entry| entry.state) else {
            return Err(unknown(version, &versions));
        };
        let known = || {
            set.get(version).ok_or_else(|| {
                Failure::new(
                    FailureKind::Unknown,
                    "it is recorded here, but no source of this shard has it: restore its folder, or mark it reverted",
                )
                .of_version(&version.into())
            })
        };
        let written = |error| bookkeeping("recording it", &error).of_version(&version.into());
        match repair {
            Repair::MarkApplied => session
                .record_now(known()?, Direction::Up)
                .map_err(written)?,
            Repair::MarkReverted => session.erase_now(version).map_err(written)?,
            Repair::ResumeFrom(from) => {
                let ran = self.resume(session, known()?, from, books)?;
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
    ) -> Result<Ran, Failure> {
        let version = &migration.version;
        let refused =
            |message: String| Failure::new(FailureKind::Dirty, message).of_version(version);
        let begun = books.progress.iter().find(|row| *row.version == **version);
        let Some(begun) = begun else {
            return Err(refused(
                "it has not stopped half-way here, so there is nothing to resume: look at `status`"
                    .to_owned(),
            ));
        };
        let Some(statements) = migration.script(begun.direction) else {
            return Err(dirty(self.target.shard(), begun));
        };
        // Whoever corrects the text of a migration may go on with another number of statements.
        if begun.total != statements.len() && self.target.may_grow(version, begun.direction) {
            return Err(refused(format!(
                "it had {} statements when it stopped and has {} now, since it is run for each part of a table and their number has changed: put the database right by hand, then --mark applied or --mark reverted",
                begun.total,
                statements.len()
            )));
        }
        // One more than there are: everything has run, and only its entry is missing.
        if from == 0 || from > statements.len() + 1 {
            return Err(refused(format!(
                "it has {} statements: resume from 1 to {}",
                statements.len(),
                statements.len() + 1
            )));
        }
        let recorded = session
            .read_checksums(version)
            .map_err(|error| bookkeeping("reading what has run", &error).of_version(version))?;
        let now = checksums(statements, session.kind());
        if let Some(what) = differs(begun, &recorded, &now, from) {
            let repair = format!(
                "diesel-sharded migration repair {} {version}",
                self.target.shard()
            );
            return Err(Failure::new(
                FailureKind::Edited,
                format!(
                    "{what}: restore the text of what has run, or put the database right by hand and run `{repair} --mark applied` if all of it is there, `{repair} --mark reverted` if nothing of it is"
                ),
            )
            .of_version(version));
        }
        let direction = begun.direction;
        self.timed(migration, direction, || {
            self.step_by_step(session, migration, direction, statements, from - 1)
        })
    }
}

/// What has changed of the statements that are not sent again, since they ran. What somebody says to have
/// run by hand is theirs to know.
fn differs(begun: &Progress, recorded: &[String], now: &[String], from: usize) -> Option<String> {
    // Where its runner was lost, one more may have run.
    let ran = begun.done + usize::from(begun.error.is_none());
    let kept = recorded.iter().take(ran.min(from - 1));
    let (at, then) = kept
        .enumerate()
        .find(|(at, then)| now.get(*at) != Some(*then))?;
    let number = at + 1;
    Some(match now.iter().position(|one| one == then) {
        Some(place) => format!(
            "what ran here as its statement {number} is its statement {} now",
            place + 1
        ),
        None => format!("its statement {number} is not the one that ran here"),
    })
}

/// A version that neither a source nor the database knows.
fn unknown(version: &str, versions: &[VersionStatus]) -> Failure {
    let known = || versions.iter().map(|entry| &*entry.version);
    let hint = match nearest(version, known()).and_then(|at| known().nth(at)) {
        Some(nearest) => format!("did you mean {nearest}?"),
        None => "`diesel-sharded migration status` shows which there are".to_owned(),
    };
    Failure::new(
        FailureKind::Unknown,
        format!("neither a source of this shard nor its database has this version: {hint}"),
    )
    .of_version(&version.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        text.chars().map(String::from).collect()
    }

    #[test]
    fn what_ran_is_compared_and_nothing_else() {
        for (error, done, now, from, expected) in [
            (true, 2, "abc", 3, None),
            (true, 2, "abXY", 3, None),
            (true, 2, "aXc", 3, Some("its statement 2 is not the one")),
            (true, 2, "aXc", 2, None),
            (
                true,
                2,
                "Xabc",
                4,
                Some("statement 1 is its statement 2 now"),
            ),
            (true, 2, "a", 2, None),
            // The third failed, and is said to have been run by hand.
            (true, 2, "abX", 4, None),
            // Its runner was lost: the third may have run as it was.
            (false, 2, "abX", 4, Some("its statement 3 is not the one")),
            (false, 2, "abX", 3, None),
        ] {
            let begun = Progress {
                version: "1".to_owned(),
                name: "1_a".to_owned(),
                direction: Direction::Up,
                done,
                total: 3,
                error: error.then(String::new),
                started_at: 0,
            };
            let found = differs(&begun, &texts("abc"), &texts(now), from);
            match expected {
                Some(expected) => {
                    let found = found.unwrap_or_else(|| panic!("{now} from {from}"));
                    assert!(found.contains(expected), "{found}");
                }
                None => assert_eq!(found, None, "{now} from {from}"),
            }
            // An older release has written nothing down.
            assert_eq!(differs(&begun, &[], &texts(now), from), None);
        }
    }
}

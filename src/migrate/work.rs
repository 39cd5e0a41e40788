//! The work on one database: its lock, and its migrations one after the other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::assess::{Task, assess};
use super::check::{check_identity, doubt, needs_identity, read};
use super::counted;
use super::event::{Direction, Event, Observer};
use super::migrator::{Inner, Target};
use super::options::Options;
use super::plan::Action;
use super::report::{Failure, FailureKind, Outcome, Ran, ShardReport};
use super::session::{Books, Held, Lock, Session, bookkeeping};
use super::source::MigrationSet;
use crate::driver::IdentityRow;

/// How long between two tries to take a lock: short at first, since most waits are short.
const FIRST_NAP: Duration = Duration::from_millis(20);
const LONGEST_NAP: Duration = Duration::from_millis(500);
/// How often somebody is told about a wait.
const TOLD: Duration = Duration::from_secs(1);

/// What the work on one database needs to know.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) inner: &'a Inner,
    pub(super) target: &'a Target,
    pub(super) options: &'a Options,
    pub(super) observer: &'a Observer<'a>,
}

/// A session that has the lock of its database.
pub(super) struct Locked {
    pub(super) session: Session,
    lock: Lock,
}

impl Locked {
    /// Fails unless the lock is still ours.
    pub(super) fn check(&mut self) -> Result<(), Vec<Failure>> {
        self.session
            .check_lock(&self.lock)
            .map_err(|failure| vec![failure])
    }
}

impl Job<'_> {
    pub(super) fn tell(&self, event: &Event) {
        (self.observer)(event);
    }

    /// Does what `action` asks of this database. `planned`: what the preflight found; a revert does
    /// exactly that or nothing.
    pub(super) fn run(&self, action: Action, planned: &[Task]) -> ShardReport {
        self.locked(|locked, report| self.run_locked(action, planned, locked, report))
    }

    /// Takes the lock, does some work, lets go of the lock, and reports.
    pub(super) fn locked(
        &self,
        work: impl FnOnce(&mut Locked, &mut ShardReport) -> Result<(), Vec<Failure>>,
    ) -> ShardReport {
        let start = Instant::now();
        let target = self.target;
        let mut report = ShardReport::new(target.shard(), target.also(), Outcome::Failed);
        let worked = self
            .open()
            .map_err(|failure| vec![failure])
            .and_then(|mut locked| {
                let worked = work(&mut locked, &mut report);
                let Locked { mut session, lock } = locked;
                match (worked, session.unlock(lock)) {
                    (Ok(()), Ok(())) => Ok(()),
                    (Ok(()), Err(failure)) => Err(vec![failure]),
                    // A connection that is gone has no lock; the first cause counts.
                    (Err(failures), _) => Err(failures),
                }
            });
        report.outcome = match worked {
            Ok(()) if report.changed_nothing() => Outcome::UpToDate,
            Ok(()) => Outcome::Done,
            Err(failures) => {
                report.failures = failures;
                Outcome::Failed
            }
        };
        report.seconds = start.elapsed();
        report
    }

    /// Connects and takes the lock, waiting for it as long as was asked for.
    fn open(&self) -> Result<Locked, Failure> {
        let target = self.target;
        let mut session = Session::open(&target.spec, target.kind)?;
        if target.tables.is_some() {
            session.read_as_we_do()?;
        }
        session.watch_client();
        if !self.options.lock {
            let lock = Lock::Nothing;
            return Ok(Locked { session, lock });
        }
        let file = target.file.as_deref();
        let start = Instant::now();
        let (mut nap, mut told): (Duration, Option<Instant>) = (FIRST_NAP, None);
        loop {
            if let Some(lock) = session.try_lock(file)? {
                return Ok(Locked { session, lock });
            }
            let waited = start.elapsed();
            let is_over = waited >= self.options.wait;
            if is_over || told.is_none_or(|told| told.elapsed() >= TOLD) {
                let holder = session.holder(file)?.holder();
                if is_over {
                    let by = match &holder {
                        Some(holder) => format!(" by {}", holder.told()),
                        None => String::new(),
                    };
                    return Err(Failure::new(
                        FailureKind::Locked,
                        format!(
                            "it is being migrated{by}: wait longer, or look at that runner (`diesel-sharded migration unlock`)"
                        ),
                    ));
                }
                told = Some(Instant::now());
                self.tell(&Event::Waiting {
                    shard: target.shard(),
                    holder,
                    waited,
                });
            }
            std::thread::sleep(nap.min(self.options.wait - waited));
            nap = (nap * 2).min(LONGEST_NAP);
        }
    }

    fn run_locked(
        &self,
        action: Action,
        planned: &[Task],
        locked: &mut Locked,
        report: &mut ShardReport,
    ) -> Result<(), Vec<Failure>> {
        let target = self.target;
        let one = |failure: Failure| vec![failure];
        let books = self.read(&mut locked.session).map_err(one)?;
        check_identity(self.inner, target, &books.identity).map_err(one)?;
        let set = target.set_here(&mut locked.session).map_err(one)?;
        let assessment = assess(action, target, &set, &books, self.options);
        if !assessment.failures.is_empty() {
            return Err(assessment.failures);
        }
        if !matches!(action, Action::Run) && assessment.tasks != planned {
            return Err(one(Failure::new(
                FailureKind::ShardsDiffer,
                "somebody else has migrated it since it was looked at: look again, and then decide",
            )));
        }
        let identity = needs_identity(target, &books.identity).then_some(&*target.identity);
        self.prepare(locked, &books, identity).map_err(one)?;
        self.limit(locked, report).map_err(one)?;
        self.tell(&Event::ShardStarted {
            shard: target.shard(),
            steps: assessment.tasks.len(),
        });
        for message in counted::of_tasks(&set, &assessment.tasks) {
            self.warn(report, message);
        }
        for task in assessment.tasks {
            let ran = self.migrate(locked, &set, task).map_err(one)?;
            report.ran.push(ran);
        }
        Ok(())
    }

    /// Reads what is recorded in the database. Without the lock somebody else may be at work who has it.
    pub(super) fn read(&self, session: &mut Session) -> Result<Books, Failure> {
        let mut books = read(session)?;
        if !self.options.lock && !books.progress.is_empty() {
            match session.holder(self.target.file.as_deref())? {
                Held::Nobody => {}
                Held::By(holder) => doubt(
                    &mut books,
                    &format!("the lock is held by {}", holder.told()),
                ),
                Held::Unknown(reason) => doubt(&mut books, &reason),
            }
        }
        Ok(books)
    }

    /// Tells something that stops nothing.
    pub(super) fn warn(&self, report: &mut ShardReport, message: impl Into<String>) {
        let message = message.into();
        self.tell(&Event::Warning {
            shard: self.target.shard(),
            message: message.clone(),
        });
        report.warnings.push(message);
    }

    /// Puts the tables that are kept in order, and writes down who has the lock.
    pub(super) fn prepare(
        &self,
        locked: &mut Locked,
        books: &Books,
        identity: Option<&[IdentityRow]>,
    ) -> Result<(), Failure> {
        locked
            .session
            .set_up(books, identity)
            .map_err(|error| bookkeeping("making the tables that are kept", &error))?;
        locked.session.sign_lock(&mut locked.lock)
    }

    /// Sets the time limits of the session.
    pub(super) fn limit(
        &self,
        locked: &mut Locked,
        report: &mut ShardReport,
    ) -> Result<(), Failure> {
        let warning = locked
            .session
            .limit(self.options.lock_timeout, self.options.statement_timeout)
            .map_err(|error| bookkeeping("setting the time limits", &error))?;
        if let Some(message) = warning {
            self.warn(report, message.to_owned());
        }
        Ok(())
    }

    /// One migration, told and timed.
    fn migrate(&self, locked: &mut Locked, set: &MigrationSet, task: Task) -> Result<Ran, Failure> {
        locked.session.check_lock(&locked.lock)?;
        let migration = &set.migrations[task.at];
        self.timed(migration, task.direction, || {
            self.apply(&mut locked.session, migration, task.direction)
        })
    }

    /// Tells the begin and the end of a migration around its work.
    pub(super) fn timed(
        &self,
        migration: &super::source::Migration,
        direction: Direction,
        work: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<Ran, Failure> {
        let (shard, version, name) = (
            self.target.shard(),
            Arc::clone(&migration.version),
            Arc::clone(&migration.name),
        );
        self.tell(&Event::MigrationStarted {
            shard,
            version: Arc::clone(&version),
            name: Arc::clone(&name),
            direction,
            statements: migration.script(direction).map_or(0, |script| script.len()),
        });
        let start = Instant::now();
        work()?;
        let seconds = start.elapsed();
        self.tell(&Event::MigrationFinished {
            shard,
            version: Arc::clone(&version),
            name: Arc::clone(&name),
            direction,
            seconds,
        });
        Ok(Ran {
            version,
            name,
            direction,
            skipped: Vec::new(),
            seconds,
        })
    }
}

//! Looks at databases without changing them: the preflight, the plan, the status.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::assess::{Assessment, Task, assess, step};
use super::counted;
use super::event::{Event, Observer};
use super::migrator::{Inner, Migrator, Target};
use super::options::Options;
use super::plan::{Action, Plan, ShardPlan};
use super::report::{Failure, FailureKind};
use super::session::{Books, Held, Session, bookkeeping};
use super::source::MigrationSet;
use crate::driver::IdentityRow;
use crate::driver::identity::compare as compare_identity;
use crate::error::Error;
use crate::topology::ShardState;

/// How many databases are looked at at the same time: what takes time is their answers.
const LOOKS: usize = 8;

/// What a look at a database found.
#[derive(Default)]
pub(super) struct Look {
    pub(super) books: Books,
    /// Who migrates it at the moment.
    pub(super) held: Held,
    /// The migrations for the tables that are there; `None`: as they were loaded.
    pub(super) set: Option<Arc<MigrationSet>>,
}

/// A database, looked at, and what an action means for it.
pub(super) struct Checked {
    pub(super) assessment: Assessment,
    set: Arc<MigrationSet>,
    /// There is something to do beside migrations: tables of ours, whose data it is.
    pub(super) needs_books: bool,
}

impl Checked {
    pub(super) fn is_up_to_date(&self) -> bool {
        self.assessment.tasks.is_empty() && !self.needs_books
    }

    /// What will run: nothing where something stands against it.
    fn steps(&self) -> &[Task] {
        if self.assessment.failures.is_empty() {
            &self.assessment.tasks
        } else {
            &[]
        }
    }

    /// Whether it is only out of reach.
    pub(super) fn is_unreachable(&self) -> bool {
        only_unreachable(&self.assessment.failures)
    }
}

/// Whether a shard with these failures may be left out.
pub(super) fn only_unreachable(failures: &[Failure]) -> bool {
    let is_unreachable = |failure: &Failure| {
        matches!(
            failure.kind,
            FailureKind::Unreachable | FailureKind::ConnectionLost | FailureKind::Closed
        )
    };
    !failures.is_empty() && failures.iter().all(is_unreachable)
}

/// Does one thing for each item, on some threads; the answers come in the order of the items.
pub(super) fn each<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::with_capacity(items.len()));
    let worker = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else {
                return;
            };
            let result = work(item);
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            results.push((at, result));
        }
    };
    let threads = threads.clamp(1, items.len().max(1));
    if threads == 1 {
        worker();
    } else {
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(worker);
            }
        });
    }
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

/// How many threads look at databases, where so many work on them.
pub(super) fn lookers(options: &Options) -> usize {
    options.parallel.max(LOOKS)
}

/// Reads what is recorded in a database. A SQLite file that is not there yet is an empty database,
/// and is not made. Who has its lock is asked where something has begun and not ended, and where
/// `who` says so.
pub(super) fn look(target: &Target, who: bool) -> Result<Look, Failure> {
    if let Some(file) = &target.file
        && !file.exists()
    {
        return match file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
                Err(Failure::new(
                    FailureKind::Unreachable,
                    format!(
                        "the folder {} of the database does not exist: make it, or correct the url",
                        folder.display()
                    ),
                ))
            }
            _ => Ok(Look::default()),
        };
    }
    let mut session = Session::open(&target.spec, target.kind)?;
    let mut look = Look {
        books: read(&mut session)?,
        held: Held::Nobody,
        set: Some(target.set_here(&mut session)?),
    };
    if look.books.progress.is_empty() {
        if who {
            look.held = session.holder(target.file.as_deref())?;
        }
        return Ok(look);
    }
    // What has begun and not ended is either dirty, or somebody's work at this moment. Whoever has
    // just finished has taken the entry away before the lock, so a second look decides.
    look.held = session.holder(target.file.as_deref())?;
    if look.held == Held::Nobody {
        let again = read(&mut session)?;
        let begun = look.books.progress.clone();
        look.books = again;
        if look.books.progress != begun {
            look.held = session.holder(target.file.as_deref())?;
        }
    }
    if let Held::Unknown(reason) = &look.held {
        doubt(&mut look.books, reason);
    }
    Ok(look)
}

/// Reads what is recorded in a database. Of a migration that was begun without a lock, nobody can see
/// whether its runner is still there.
pub(super) fn read(session: &mut Session) -> Result<Books, Failure> {
    let mut books = session.read_books().map_err(|error| {
        let mut failure = bookkeeping("reading what is recorded in the database", &error);
        if failure.kind == FailureKind::Bookkeeping {
            failure.message += ": give this user the right to read the tables that are kept there (`__diesel_schema_migrations`, `diesel_sharded_..`), or restore them from a backup";
        }
        failure
    })?;
    for row in &mut books.progress {
        if let Some(who) = row
            .attempt
            .unlocked
            .as_ref()
            .filter(|_| row.error.is_none())
        {
            row.doubt = Some(format!("it was begun without the lock by {who}"));
        }
    }
    Ok(books)
}

/// Of what has begun and neither ended nor failed, it is not known whether its runner is still there.
pub(super) fn doubt(books: &mut Books, reason: &str) {
    for row in &mut books.progress {
        if row.error.is_none() && row.doubt.is_none() {
            row.doubt = Some(reason.to_owned());
        }
    }
}

/// Compares whose data a database holds with what the topology takes it for.
pub(super) fn check_identity(
    inner: &Inner,
    target: &Target,
    rows: &[IdentityRow],
) -> Result<(), Failure> {
    for shard in &target.shards {
        compare_identity(&inner.snapshot, *shard, rows).map_err(|error| {
            let kind = match error {
                Error::PlacementChanged { .. } => FailureKind::PlacementChanged,
                _ => FailureKind::WrongDatabase,
            };
            Failure::new(kind, error.to_string())
        })?;
    }
    Ok(())
}

/// Whether the database does not say yet whose data it holds.
pub(super) fn needs_identity(target: &Target, rows: &[IdentityRow]) -> bool {
    target.identity.iter().any(|wanted| {
        !rows.iter().any(|row| {
            row.shard == wanted.shard
                && row.keyspace == wanted.keyspace
                && row.fingerprint == wanted.fingerprint
        })
    })
}

/// A shard that takes no work takes no migrations either.
fn check_state(target: &Target) -> Result<(), Failure> {
    match target.state {
        ShardState::Open => Ok(()),
        state => Err(Failure::new(
            FailureKind::Closed,
            format!(
                "the shard is {} by configuration: open it, or leave it out",
                state.as_str()
            ),
        )),
    }
}

/// Looks at a database and finds out what an action means for it.
pub(super) fn check(inner: &Inner, target: &Target, action: Action, options: &Options) -> Checked {
    let refused = |failure: Failure| Checked {
        assessment: Assessment {
            tasks: Vec::new(),
            failures: vec![failure],
        },
        set: Arc::clone(&target.set),
        needs_books: false,
    };
    let looked = check_state(target)
        .and_then(|()| look(target, false))
        .and_then(|look| {
            check_identity(inner, target, &look.books.identity)?;
            Ok(look)
        });
    match looked {
        Ok(look) => {
            let set = look.set.unwrap_or_else(|| Arc::clone(&target.set));
            let mut assessment = assess(action, target, &set, &look.books, options);
            if matches!(look.held, Held::By(_)) {
                // Somebody is at it: what counts is what will be there when they have finished.
                assessment
                    .failures
                    .retain(|failure| failure.kind != FailureKind::Dirty);
            }
            Checked {
                assessment,
                set,
                needs_books: !look.books.is_set_up || needs_identity(target, &look.books.identity),
            }
        }
        Err(failure) => refused(failure),
    }
}

/// Looks at all databases; tells each.
pub(super) fn preflight(
    inner: &Inner,
    targets: &[&Target],
    action: Action,
    options: &Options,
    observer: &Observer<'_>,
) -> Vec<Checked> {
    observer(&Event::Preflight {
        databases: targets.len(),
    });
    let mut checked = each(targets, lookers(options), |target| {
        check(inner, target, action, options)
    });
    if !options.force && !matches!(action, Action::Run) {
        compare_reverts(targets, &mut checked);
    }
    for (target, checked) in targets.iter().zip(&checked) {
        observer(&Event::Checked {
            shard: target.shard(),
            steps: checked.steps().len(),
            failures: checked.assessment.failures.clone(),
        });
    }
    checked
}

/// Databases with the same migrations have to revert the same ones. One that something else stands
/// against reverts nothing, and is no measure for the others.
fn compare_reverts(targets: &[&Target], checked: &mut [Checked]) {
    let sound: Vec<usize> = (0..targets.len())
        .filter(|at| checked[*at].assessment.failures.is_empty())
        .collect();
    for at in sound.iter().copied() {
        let other = sound.iter().copied().find(|other| {
            Arc::ptr_eq(&targets[at].sources, &targets[*other].sources)
                && checked[at].assessment.tasks != checked[*other].assessment.tasks
        });
        if let Some(other) = other {
            let failure = Failure::new(
                FailureKind::ShardsDiffer,
                format!(
                    "its last versions are not those of shard {}: bring both to the same version first, or force it, and each shard reverts its own last ones",
                    targets[other].shard()
                ),
            );
            checked[at].assessment.failures.push(failure);
        }
    }
}

impl Migrator {
    /// What an action would do, database by database, and what stands against it. Reads only.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownShard`] for a name in the options, [`Error::Config`] for a database whose backend
    /// was not compiled in.
    pub fn plan(&self, action: Action, options: &Options) -> Result<Plan, Error> {
        let targets = self.chosen(options)?;
        let checked = preflight(&self.inner, &targets, action, options, &|_| {});
        let shards = targets
            .iter()
            .zip(checked)
            .map(|(target, checked)| ShardPlan {
                shard: target.shard(),
                also: target.also().to_vec(),
                steps: checked
                    .steps()
                    .iter()
                    .map(|task| step(&checked.set, *task))
                    .collect(),
                warnings: counted::of_tasks(&checked.set, &checked.assessment.tasks),
                failures: checked.assessment.failures,
            })
            .collect();
        Ok(Plan { shards })
    }
}

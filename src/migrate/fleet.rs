//! A whole fleet: in which order databases are worked on, and when no further one is started.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use super::check::{Checked, each, preflight};
use super::event::{Event, Observer};
use super::migrator::{Migrator, Target};
use super::options::Options;
use super::plan::{Action, Steps};
use super::report::{Outcome, Report, ShardReport};
use super::work::Job;
use crate::error::{ConfigErrors, ConfigProblem, Error};

/// Counts failures, and says when they are too many.
struct Failures {
    seen: AtomicU32,
    most: Option<u32>,
    /// The canary has failed.
    stopped: AtomicBool,
}

impl Failures {
    fn add(&self) {
        self.seen.fetch_add(1, Ordering::AcqRel);
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    fn are_too_many(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
            || self
                .most
                .is_some_and(|most| self.seen.load(Ordering::Acquire) >= most)
    }
}

impl Migrator {
    /// Applies what is pending on each shard, oldest first. See [`execute`](Self::execute).
    ///
    /// # Errors
    ///
    /// Those of [`execute`](Self::execute).
    pub fn run(&self, options: &Options, observer: &Observer<'_>) -> Result<Report, Error> {
        self.execute(Action::Run, options, observer)
    }

    /// Reverts each shard's own last versions, newest first. See [`execute`](Self::execute).
    ///
    /// # Errors
    ///
    /// Those of [`execute`](Self::execute).
    pub fn revert(
        &self,
        steps: Steps,
        options: &Options,
        observer: &Observer<'_>,
    ) -> Result<Report, Error> {
        self.execute(Action::Revert(steps), options, observer)
    }

    /// Reverts each shard's own last versions and applies them again. See
    /// [`execute`](Self::execute).
    ///
    /// # Errors
    ///
    /// Those of [`execute`](Self::execute).
    pub fn redo(
        &self,
        steps: Steps,
        options: &Options,
        observer: &Observer<'_>,
    ) -> Result<Report, Error> {
        self.execute(Action::Redo(steps), options, observer)
    }

    /// Does something on every shard that the options choose, and reports what happened on each.
    ///
    /// First every database is reached and read; where one of them is refused, nothing is changed
    /// (more failures may be allowed by [`Options::max_failures`]). Then each is worked on under its
    /// lock, and what was recorded is read again, so that several runners at a time come to the same
    /// end. Running again is how a run is resumed: what is done is skipped, what failed is tried.
    ///
    /// # Errors
    ///
    /// Only for what is asked: [`Error::UnknownShard`] for a name in the options, [`Error::Config`]
    /// for a canary that is not among the chosen shards, and for databases whose backend was not compiled
    /// in. What happens on shards is in the report.
    pub fn execute(
        &self,
        action: Action,
        options: &Options,
        observer: &Observer<'_>,
    ) -> Result<Report, Error> {
        self.work_on(
            action,
            options,
            observer,
            |_, checked| checked.is_up_to_date(),
            |job, checked| job.run(action, &checked.assessment.tasks),
        )
    }

    /// Does some work on every database that the options choose: the preflight of an action, then the
    /// work where it `is_done` not already, with the same care for canary and failures.
    pub(super) fn work_on(
        &self,
        action: Action,
        options: &Options,
        observer: &Observer<'_>,
        is_done: impl Fn(&Target, &Checked) -> bool + Sync,
        work: impl Fn(&Job<'_>, &Checked) -> ShardReport + Sync,
    ) -> Result<Report, Error> {
        let start = Instant::now();
        let targets = self.chosen(options)?;
        let canary = self.canary(&targets, options)?;
        let checked = preflight(&self.inner, &targets, action, options, observer);
        let failures = Failures {
            seen: AtomicU32::new(0),
            most: options.max_failures,
            stopped: AtomicBool::new(false),
        };
        let mut reports: Vec<ShardReport> = Vec::with_capacity(targets.len());
        let mut ready: Vec<(&Target, &Checked)> = Vec::new();
        let over = |report: ShardReport| {
            observer(&Event::ShardFinished(report.clone()));
            report
        };
        for (target, checked) in targets.iter().zip(&checked) {
            if checked.assessment.failures.is_empty() {
                ready.push((target, checked));
                continue;
            }
            let skipped = options.skip_unreachable && checked.is_unreachable();
            if !skipped {
                failures.add();
            }
            let outcome = if skipped {
                Outcome::Skipped
            } else {
                Outcome::Failed
            };
            let mut report = ShardReport::new(target.shard(), target.also(), outcome);
            report.failures.clone_from(&checked.assessment.failures);
            reports.push(over(report));
        }
        let job = |(target, checked): &(&Target, &Checked)| {
            let report = |outcome| ShardReport::new(target.shard(), target.also(), outcome);
            // Nothing to do is no work, so it is said of every shard of which it is known.
            if is_done(target, checked) {
                return over(report(Outcome::UpToDate));
            }
            if failures.are_too_many() {
                return over(report(Outcome::NotTried));
            }
            let job = Job {
                inner: &self.inner,
                target,
                options,
                observer,
            };
            let report = work(&job, checked);
            if !report.outcome.is_success() {
                failures.add();
            }
            over(report)
        };
        if let Some(canary) = canary {
            match ready
                .iter()
                .position(|(target, _)| std::ptr::eq(*target, canary))
            {
                Some(at) => {
                    let report = job(&ready.remove(at));
                    if !report.outcome.is_success() {
                        failures.stop();
                    }
                    reports.push(report);
                }
                // It was refused, or cannot be reached.
                None => failures.stop(),
            }
        }
        reports.extend(each(&ready, options.parallel, job));
        reports.sort_by_key(|report| report.shard);
        let report = Report {
            shards: reports,
            seconds: start.elapsed(),
        };
        let count = |wanted: &dyn Fn(Outcome) -> bool| {
            report
                .shards
                .iter()
                .filter(|shard| wanted(shard.outcome))
                .count()
        };
        observer(&Event::Finished {
            succeeded: count(&Outcome::is_success),
            failed: count(&|outcome| outcome == Outcome::Failed),
            skipped: count(&|outcome| outcome == Outcome::Skipped),
            not_tried: count(&|outcome| outcome == Outcome::NotTried),
            seconds: report.seconds,
        });
        Ok(report)
    }

    /// The canary among the chosen databases.
    fn canary<'t>(
        &self,
        targets: &[&'t Target],
        options: &Options,
    ) -> Result<Option<&'t Target>, Error> {
        let Some(name) = &options.canary else {
            return Ok(None);
        };
        self.target(name)?;
        let found = targets
            .iter()
            .find(|target| target.shards.iter().any(|shard| *shard == name.as_str()));
        match found {
            Some(target) => Ok(Some(target)),
            None => Err(ConfigErrors(vec![ConfigProblem {
                origin: String::new(),
                key: "canary".to_owned(),
                message: format!("shard {name} is not among the shards that are chosen: choose it too, or take another canary"),
            }])
            .into()),
        }
    }
}

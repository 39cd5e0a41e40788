//! Migrations that stopped half-way: what is true of them, and how they may go on.

use std::sync::Arc;

use super::assess::no_source;
use super::event::Direction;
use super::migrator::Target;
use super::report::{Failure, FailureKind};
use super::session::Progress;
use super::source::{Migration, checksums};
use super::split::{Effect, Statement, block_at};
use super::status::Dirty;
use crate::name::ShardName;
use crate::topology::UrlKind;

/// How a migration that stopped half-way goes on.
pub(super) struct Resume<'m> {
    pub(super) statements: &'m [Statement],
    /// The numbers of the statements that have run, in any attempt.
    pub(super) ran: Vec<usize>,
    /// The numbers of the statements that have not run and are not sent.
    pub(super) skipped: Vec<usize>,
    /// The numbers of the statements that have run and are sent again.
    pub(super) again: Vec<usize>,
}

/// Looks whether a migration that stopped half-way may go on with the statement of this number, sent as it
/// is now. `again`: also what has run may be sent.
pub(super) fn resume<'m>(
    target: &Target,
    migration: Option<&'m Migration>,
    begun: &Progress,
    from: usize,
    again: bool,
) -> Result<Resume<'m>, Failure> {
    let version: &Arc<str> = &begun.version.as_str().into();
    let shard = target.shard();
    let refused = |message: String| Failure::new(FailureKind::Dirty, message).of_version(version);
    let migration =
        migration.ok_or_else(|| no_source(shard, version, "it stopped half-way here"))?;
    if begun.total == 0 {
        return Err(Dirty::of(target, Some(migration), begun).failure(shard));
    }
    let Some(statements) = migration.script(begun.direction) else {
        return Err(refused(
            "it has no statements from which it could go on: put the database right by hand, then --mark applied or --mark reverted"
                .to_owned(),
        ));
    };
    let total = statements.len();
    // Whoever corrects the text of a migration may go on with another number of statements.
    if begun.total != total && target.may_grow(version, begun.direction) {
        return Err(refused(format!(
            "it had {} statements when it stopped and has {total} now, since it is run for each part of a table and their number has changed: put the database right by hand, then --mark applied or --mark reverted",
            begun.total
        )));
    }
    // One more than there are: everything has run, and only its entry is missing.
    if from == 0 || from > total + 1 {
        return Err(refused(format!(
            "it has {total} statements: resume from 1 to {}",
            total + 1
        )));
    }
    let repair = format!("diesel-sharded migration repair {shard} {version}");
    if let Some(what) = differs(begun, &checksums(statements, target.kind), from) {
        return Err(Failure::new(
            FailureKind::Edited,
            format!(
                "{what}: restore the text of what has run, or put the database right by hand and run `{repair} --mark applied` if all of it is there, `{repair} --mark reverted` if nothing of it is"
            ),
        )
        .of_version(version));
    }
    if let Some(block) = cuts(statements, begun.done, from, target.kind) {
        let stayed = if block > begun.done {
            " that was not committed, so nothing of that has stayed"
        } else {
            ""
        };
        return Err(refused(format!(
            "its statement {block} begins a transaction{stayed}, and what follows in that is sent together with it or not at all: resume from {block}, or put the database right by hand and run `{repair} --mark applied`"
        )));
    }
    let known = &begun.attempt;
    let mut ran: Vec<usize> = (1..=begun.done)
        .filter(|number| !known.skipped.contains(number))
        .chain(known.ran_before.iter().copied())
        .collect();
    ran.sort_unstable();
    ran.dedup();
    let resent: Vec<usize> = ran
        .iter()
        .copied()
        .filter(|number| *number >= from && *number <= begun.done)
        .collect();
    if !again && !resent.is_empty() {
        return Err(refused(format!(
            "{} already, and would run again: resume from {}, or say --force if what {} did has been undone",
            have(&resent, "has run", "have run"),
            begun.done + 1,
            if resent.len() == 1 { "it" } else { "they" },
        )));
    }
    Ok(Resume {
        statements,
        skipped: (1..from).filter(|number| !ran.contains(number)).collect(),
        again: ran
            .iter()
            .copied()
            .filter(|number| *number >= from)
            .collect(),
        ran,
    })
}

/// The number of the statement that begins a transaction which going on with statement `from` would enter
/// in its middle, or pass over. Where the record says that it has come, it may always go on.
fn cuts(statements: &[Statement], done: usize, from: usize, kind: UrlKind) -> Option<usize> {
    if from == done + 1 {
        return None;
    }
    let begins = |at: &usize| {
        statements
            .get(*at)
            .is_some_and(|one| one.effect(kind) == Effect::Begins)
    };
    let passed = Some(done).filter(|at| begins(at) && from > done + 1);
    let entered = block_at(statements, from - 1, kind);
    passed.or(entered).map(|at| at + 1)
}

/// What has changed of the statements that are not sent again, since they ran. What somebody says to have
/// run by hand is theirs to know.
fn differs(begun: &Progress, now: &[String], from: usize) -> Option<String> {
    // Where its runner was lost, one more may have run.
    let ran = begun.done + usize::from(begun.error.is_none());
    let kept = begun.checksums.iter().take(ran.min(from - 1));
    let (at, then) = kept
        .enumerate()
        .filter(|(at, _)| !begun.attempt.skipped.contains(&(at + 1)))
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

/// Numbers of statements, as ranges: `2 to 4, 7`.
fn ranges(numbers: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let told = ranges.into_iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first} to {last}"),
    });
    told.collect::<Vec<_>>().join(", ")
}

/// `statement 3 was rolled back`, `statements 3 to 5 were rolled back`.
pub(super) fn have(numbers: &[usize], one: &str, many: &str) -> String {
    let (noun, verb) = match numbers.len() {
        1 => ("statement", one),
        _ => ("statements", many),
    };
    format!("{noun} {} {verb}", ranges(numbers))
}

impl Dirty {
    /// What is recorded of a migration, and what may be done about it with the text it has now.
    pub(super) fn of(target: &Target, migration: Option<&Migration>, progress: &Progress) -> Self {
        let attempt = &progress.attempt;
        let next = progress.done + 1;
        // Code has no statements from which it could go on.
        let may_go_on = match progress.total {
            0 => None,
            _ => Some(resume(target, migration, progress, next, false)),
        };
        let begins = |at: &usize| {
            let script = migration.and_then(|one| one.script(progress.direction));
            script
                .and_then(|statements| statements.get(*at))
                .is_some_and(|one| one.effect(target.kind) == Effect::Begins)
        };
        // The record of what is in a transaction is part of that.
        let lost = Some(progress.done).filter(|at| progress.error.is_none() && begins(at));
        Self {
            version: progress.version.as_str().into(),
            direction: progress.direction,
            done: progress.done - attempt.skipped.len().min(progress.done),
            of: progress.total,
            skipped: attempt.skipped.clone(),
            ran_before: attempt
                .ran_before
                .iter()
                .copied()
                .filter(|number| *number >= next)
                .collect(),
            failed: attempt.failed,
            rolled_back_from: attempt.begun.or(lost.map(|at| at + 1)),
            error: progress.error.clone(),
            resume_from: matches!(may_go_on, Some(Ok(_))).then_some(next),
            not_resumable: may_go_on
                .and_then(Result::err)
                .map(|failure| failure.message),
            doubt: progress.doubt.clone(),
        }
    }

    /// How far it has come and what stopped it.
    pub(super) fn told(&self) -> String {
        format!(
            "{} of its {} statements have run, {}",
            self.done,
            self.of,
            self.stopped_by()
        )
    }

    /// What stopped it, and what of it was rolled back or not sent, in a few words: `statement 2 failed`.
    #[must_use]
    pub fn stopped_by(&self) -> String {
        if self.of == 0 {
            return "its code stopped half-way".to_owned();
        }
        let mut parts = Vec::new();
        if !self.skipped.is_empty() {
            parts.push(have(&self.skipped, "was skipped", "were skipped"));
        }
        if !self.ran_before.is_empty() {
            parts.push(have(
                &self.ran_before,
                "had run in an earlier attempt",
                "had run in an earlier attempt",
            ));
        }
        let next = self.done + self.skipped.len() + 1;
        parts.push(match (self.failed, self.rolled_back_from) {
            (Some(failed), Some(begin)) if failed > begin => {
                let back: Vec<usize> = (begin..failed).collect();
                format!(
                    "statement {failed} failed in the transaction that statement {begin} begins, and {}",
                    have(&back, "was rolled back", "were rolled back")
                )
            }
            (Some(failed), _) => format!("statement {failed} failed"),
            (None, Some(begin)) => format!(
                "the transaction that statement {begin} begins was not committed, so nothing from there on has stayed"
            ),
            (None, None) if next > self.of => "only its entry is missing".to_owned(),
            (None, None) if self.error.is_some() => format!("it stopped at statement {next}"),
            (None, None) => {
                format!("statement {next} may have run or not, since the runner was lost")
            }
        });
        parts.join(", ")
    }

    /// The same as a failure that says what to do next.
    pub(super) fn failure(&self, shard: ShardName) -> Failure {
        let while_reverting = match self.direction {
            Direction::Up => "",
            Direction::Down => " while it was reverted",
        };
        let (kind, begin, first) = match &self.doubt {
            Some(doubt) => (
                FailureKind::InDoubt,
                format!(
                    "it has begun{while_reverting} and not ended, and it is not known whether its runner is still at work ({doubt})"
                ),
                "wait for that runner or make sure that it has ended, then look at the database, and run",
            ),
            None if self.of == 0 => (
                FailureKind::Dirty,
                format!("its code stopped half-way{while_reverting}"),
                "look at the database, then run",
            ),
            None => (
                FailureKind::Dirty,
                format!("it stopped half-way{while_reverting}: {}", self.told()),
                "look at the database, then run",
            ),
        };
        let repair = format!("diesel-sharded migration repair {shard} {}", self.version);
        let resume = match self.resume_from {
            Some(next) => format!("`{repair} --resume-from {next}` to go on there, "),
            None => String::new(),
        };
        let failure = Failure::new(
            kind,
            format!(
                "{begin}; {first} {resume}`{repair} --mark applied` if all of it is there, or `{repair} --mark reverted` if nothing of it is"
            ),
        )
        .of_version(&self.version);
        match &self.error {
            Some(error) => failure.said(error.clone()),
            None => failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::session::Attempt;
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
                checksums: texts("abc"),
                attempt: Attempt::default(),
                doubt: None,
            };
            let found = differs(&begun, &texts(now), from);
            match expected {
                Some(expected) => {
                    let found = found.unwrap_or_else(|| panic!("{now} from {from}"));
                    assert!(found.contains(expected), "{found}");
                }
                None => assert_eq!(found, None, "{now} from {from}"),
            }
            // An older release has written nothing down.
            let begun = Progress {
                checksums: Vec::new(),
                ..begun
            };
            assert_eq!(differs(&begun, &texts(now), from), None);
        }
    }

    #[test]
    fn numbers_are_told_as_ranges() {
        for (numbers, told) in [
            (&[4][..], "statement 4 is"),
            (&[2, 3], "statements 2, 3 are"),
            (&[2, 3, 4, 7, 9, 10], "statements 2 to 4, 7, 9, 10 are"),
        ] {
            assert_eq!(have(numbers, "is", "are"), told);
        }
    }

    #[test]
    fn a_transaction_by_hand_is_neither_entered_nor_passed_over() {
        let text = "insert into t values (1); begin; insert into t values (2); create table u (i int); \
                    insert into t values (3); commit; insert into t values (4)";
        for (kind, done, from, expected) in [
            (UrlKind::Sqlite, 1, 2, None),
            (UrlKind::Sqlite, 1, 3, Some(2)),
            (UrlKind::Postgres, 1, 5, Some(2)),
            (UrlKind::Postgres, 1, 6, Some(2)),
            (UrlKind::Postgres, 1, 7, Some(2)),
            (UrlKind::Sqlite, 6, 7, None),
            (UrlKind::Sqlite, 6, 2, None),
            (UrlKind::Sqlite, 6, 4, Some(2)),
            (UrlKind::Sqlite, 0, 1, None),
            // Where the schema changes, MySQL has committed what came before.
            (UrlKind::Mysql, 1, 3, Some(2)),
            (UrlKind::Mysql, 3, 4, None),
            (UrlKind::Mysql, 3, 5, None),
            (UrlKind::Mysql, 5, 6, None),
        ] {
            let statements = super::super::split::split(text, kind).unwrap();
            let found = cuts(&statements, done, from, kind);
            assert_eq!(found, expected, "{kind:?} {done} {from}");
        }
    }
}

//! What is recorded of migrations that have begun and not ended.

use std::time::{SystemTime, UNIX_EPOCH};

use diesel::prelude::*;

use super::Session;
use super::tables::{
    diesel_sharded_attempt as attempt, diesel_sharded_progress as progress,
    diesel_sharded_statements as statements,
};
use crate::migrate::event::Direction;

/// A migration that has begun and not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::migrate) struct Progress {
    pub(in crate::migrate) version: String,
    pub(in crate::migrate) name: String,
    pub(in crate::migrate) direction: Direction,
    /// Statements before the one from which it goes on: those that have certainly run, and stayed, and
    /// those that were skipped.
    pub(in crate::migrate) done: usize,
    pub(in crate::migrate) total: usize,
    pub(in crate::migrate) error: Option<String>,
    pub(in crate::migrate) started_at: i64,
    /// Of its statements as they were when it began; none where an older release began it.
    pub(in crate::migrate) checksums: Vec<String>,
    pub(in crate::migrate) attempt: Attempt,
    /// Why it is not known whether its runner is still at work. Not recorded.
    pub(in crate::migrate) doubt: Option<String>,
}

/// What else is recorded of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::migrate) struct Attempt {
    /// Who began it without the lock, so that nobody can see whether they are still there.
    pub(in crate::migrate) unlocked: Option<String>,
    /// The number of the statement that failed.
    pub(in crate::migrate) failed: Option<usize>,
    /// The number of the statement that began the transaction that was rolled back then.
    pub(in crate::migrate) begun: Option<usize>,
    /// The numbers of the statements that had run in earlier attempts.
    pub(in crate::migrate) ran_before: Vec<usize>,
    /// The numbers of the statements that were not sent, since somebody said so.
    pub(in crate::migrate) skipped: Vec<usize>,
}

fn number(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn count(value: i64) -> usize {
    usize::try_from(value).unwrap_or(0)
}

/// Seconds since 1970.
pub(in crate::migrate) fn now() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| i64::try_from(time.as_secs()).unwrap_or(i64::MAX))
}

impl Session {
    /// Reads which migrations have begun and not ended.
    pub(in crate::migrate) fn read_progress(&mut self) -> QueryResult<Vec<Progress>> {
        let there = self.kept()?;
        self.progress_of(&there)
    }

    /// The same; `there`: the tables that are there.
    pub(super) fn progress_of(&mut self, there: &[String]) -> QueryResult<Vec<Progress>> {
        type Row = (String, String, String, i64, i64, Option<String>, i64);
        let rows: Vec<Row> = progress::table
            .order(progress::version)
            .load(&mut self.conn)?;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let is_there = |name: &str| there.iter().any(|table| table == name);
        let checksums: Vec<(String, String)> = if is_there("diesel_sharded_statements") {
            statements::table.load(&mut self.conn)?
        } else {
            Vec::new()
        };
        type Known = (
            String,
            Option<String>,
            Option<i64>,
            Option<i64>,
            String,
            String,
        );
        let attempts: Vec<Known> = if is_there("diesel_sharded_attempt") {
            attempt::table.load(&mut self.conn)?
        } else {
            Vec::new()
        };
        let progress = rows.into_iter().map(|row| {
            let checksums = checksums.iter().find(|(version, _)| *version == row.0);
            let known = attempts.iter().find(|known| known.0 == row.0);
            Progress {
                direction: match row.2.as_str() {
                    "down" => Direction::Down,
                    _ => Direction::Up,
                },
                done: count(row.3),
                total: count(row.4),
                error: row.5,
                started_at: row.6,
                checksums: checksums.map_or_else(Vec::new, |(_, list)| words(list)),
                attempt: known.map_or_else(Attempt::default, |known| Attempt {
                    unlocked: known.1.clone(),
                    failed: known.2.map(count),
                    begun: known.3.map(count),
                    ran_before: numbers(&known.4),
                    skipped: numbers(&known.5),
                }),
                version: row.0,
                name: row.1,
                doubt: None,
            }
        });
        Ok(progress.collect())
    }

    /// Records that a migration outside of a transaction is under way.
    pub(in crate::migrate) fn begin_progress(&mut self, row: &Progress) -> QueryResult<()> {
        self.transact(|session| {
            session.withdraw(&row.version)?;
            if !row.checksums.is_empty() {
                diesel::insert_into(statements::table)
                    .values((
                        statements::version.eq(&row.version),
                        statements::checksums.eq(row.checksums.join(" ")),
                    ))
                    .execute(&mut session.conn)?;
            }
            let of = &row.attempt;
            diesel::insert_into(attempt::table)
                .values((
                    attempt::version.eq(&row.version),
                    attempt::unlocked.eq(of.unlocked.as_deref()),
                    attempt::failed.eq(of.failed.map(number)),
                    attempt::begun.eq(of.begun.map(number)),
                    attempt::ran_before.eq(listed(&of.ran_before)),
                    attempt::skipped.eq(listed(&of.skipped)),
                ))
                .execute(&mut session.conn)?;
            diesel::insert_into(progress::table)
                .values((
                    progress::version.eq(&row.version),
                    progress::name.eq(&row.name),
                    progress::direction.eq(row.direction.as_str()),
                    progress::done.eq(number(row.done)),
                    progress::total.eq(number(row.total)),
                    progress::error.eq(row.error.as_deref()),
                    progress::started_at.eq(row.started_at),
                ))
                .execute(&mut session.conn)?;
            Ok(())
        })
    }

    /// Records how many of its statements are done with; `false` where the record of this attempt is not
    /// there any more.
    pub(in crate::migrate) fn advance(&mut self, of: &Progress, done: usize) -> QueryResult<bool> {
        let own = progress::table
            .filter(progress::version.eq(&of.version))
            .filter(progress::started_at.eq(of.started_at));
        diesel::update(own)
            .set(progress::done.eq(number(done)))
            .execute(&mut self.conn)
            .map(|rows| rows > 0)
    }

    /// Records why it stopped, as this says.
    pub(in crate::migrate) fn stopped(&mut self, of: &Progress) -> QueryResult<()> {
        diesel::update(progress::table.filter(progress::version.eq(&of.version)))
            .set(progress::error.eq(of.error.as_deref()))
            .execute(&mut self.conn)?;
        diesel::update(attempt::table.filter(attempt::version.eq(&of.version)))
            .set((
                attempt::failed.eq(of.attempt.failed.map(number)),
                attempt::begun.eq(of.attempt.begun.map(number)),
            ))
            .execute(&mut self.conn)
            .map(|_| ())
    }

    /// Forgets that a migration is under way, whoever began it.
    pub(in crate::migrate) fn withdraw(&mut self, version: &str) -> QueryResult<()> {
        diesel::delete(progress::table.filter(progress::version.eq(version)))
            .execute(&mut self.conn)?;
        self.forget_attempt(version)
    }

    /// Forgets this attempt; `false` where its record is not there any more.
    pub(in crate::migrate) fn withdraw_own(&mut self, of: &Progress) -> QueryResult<bool> {
        let own = progress::table
            .filter(progress::version.eq(&of.version))
            .filter(progress::started_at.eq(of.started_at));
        if diesel::delete(own).execute(&mut self.conn)? == 0 {
            return Ok(false);
        }
        self.forget_attempt(&of.version).map(|()| true)
    }

    fn forget_attempt(&mut self, version: &str) -> QueryResult<()> {
        diesel::delete(statements::table.filter(statements::version.eq(version)))
            .execute(&mut self.conn)?;
        diesel::delete(attempt::table.filter(attempt::version.eq(version)))
            .execute(&mut self.conn)
            .map(|_| ())
    }
}

fn listed(numbers: &[usize]) -> String {
    let texts: Vec<String> = numbers.iter().map(usize::to_string).collect();
    texts.join(" ")
}

fn numbers(list: &str) -> Vec<usize> {
    let numbers = list.split_whitespace().map(str::parse);
    numbers.filter_map(Result::ok).collect()
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

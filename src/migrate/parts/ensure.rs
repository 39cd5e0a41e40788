//! Making tables ahead of time: what applied migrations did for the parts there were is done for a part
//! that has come since.

use std::collections::BTreeMap;

use diesel::connection::SimpleConnection;

use super::super::assess::dirty;
use super::super::check::{check_identity, read};
use super::super::event::{Event, Observer, TableAction};
use super::super::migrator::Migrator;
use super::super::options::Options;
use super::super::plan::Action;
use super::super::report::{FailedStatement, Failure, FailureKind, Report, ShardReport};
use super::super::session::{Books, Session};
use super::super::split::{self, Statement};
use super::super::templates::{self, Replay};
use super::super::work::Job;
use super::{TableParts, list};
use crate::error::{ConfigErrors, ConfigProblem, Error};
use crate::rewrite::TableSet;
use crate::topology::UrlKind;

/// One part of one keyspace that is to be made, of every table that lacks it.
struct Missing {
    spread: u64,
    /// Places in the set, with the physical name of each.
    tables: Vec<(usize, String)>,
}

impl Migrator {
    /// Makes the tables that a `date` rule names, for the present period and so many after it, on every
    /// shard that owns one of them.
    ///
    /// The statements come from the migrations that are applied on the database: those that name the table
    /// (`CREATE TABLE`, its indexes, later `ALTER TABLE`) are sent again for the new part, in their order.
    /// Parts that are there are left alone, so it may be run as often as one likes. Gaps between the oldest
    /// part that is there and the present are filled; older parts have been retired and stay away.
    ///
    /// It works as [`execute`](Self::execute) does: a preflight, each shard's lock, the same options and the
    /// same report, whose [`tables`](ShardReport::tables) say what was made.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")] fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use diesel_sharded::migrate::{Migrator, Options, Source};
    /// use diesel_sharded::{DateSpec, KeyType, KeyspaceConfig, RuleSpec, Topology};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let migration = folder.path().join("2026-01-01-000000_event");
    /// # std::fs::create_dir(&migration)?;
    /// # std::fs::write(migration.join("up.sql"), "CREATE TABLE event (id BIGINT PRIMARY KEY, day DATE)")?;
    /// let years = DateSpec::new(diesel_sharded::Every::Year).from("2020").until("2999");
    /// let topology = Topology::builder()
    ///     .shard("a", folder.path().join("a.sqlite").display().to_string())
    ///     .keyspace(
    ///         "events",
    ///         KeyspaceConfig::new(RuleSpec::date(["a"], years).key(KeyType::Date))
    ///             .table_by_rule("event", "day"),
    ///     )
    ///     .build()?;
    /// let migrator = Migrator::builder(&topology)
    ///     .source(Source::folder(folder.path())) // CREATE TABLE event (..)
    ///     .build()?;
    /// migrator.run(&Options::new(), &|_| {})?.into_result()?; // this year's table and the next
    /// let report = migrator.ensure_tables(3, &Options::new(), &|_| {})?.into_result()?;
    /// assert_eq!(report.shards[0].tables.len(), 2);
    /// # Ok(()) }
    /// # #[cfg(not(feature = "sqlite"))] fn main() {}
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`execute`](Self::execute), and [`Error::Config`] where no table is named by dates.
    pub fn ensure_tables(
        &self,
        ahead: u32,
        options: &Options,
        observer: &Observer<'_>,
    ) -> Result<Report, Error> {
        self.need_dates()?;
        self.work_on(
            Action::Run,
            options,
            observer,
            |target, _| !target.tables.as_deref().is_some_and(list::has_dates),
            |job, _| job.ensure(ahead),
        )
    }

    /// Refuses what is only about tables by dates where there are none.
    pub(super) fn need_dates(&self) -> Result<(), Error> {
        let mut sets = self
            .inner
            .targets
            .iter()
            .filter_map(|one| one.tables.as_deref());
        if sets.any(list::has_dates) {
            return Ok(());
        }
        Err(ConfigErrors(vec![ConfigProblem {
            origin: String::new(),
            key: "keyspaces".to_owned(),
            message: "no table is named by dates: this is for tables with `by_rule = true` in a keyspace with a `date` rule".to_owned(),
        }])
        .into())
    }
}

impl Job<'_> {
    fn ensure(&self, ahead: u32) -> ShardReport {
        let Some(set) = &self.target.tables else {
            return self.locked(|_, _| Ok(()));
        };
        self.locked(|locked, report| {
            let one = |failure: Failure| vec![failure];
            let books = self.books(&mut locked.session)?;
            let parts = self.target.parts(&mut locked.session).map_err(one)?;
            self.warn_of_end(set, &parts, ahead, report);
            let missing = missing(set, &parts, ahead);
            if missing.is_empty() {
                return Ok(());
            }
            self.prepare(locked, &books, None).map_err(one)?;
            self.limit(locked, report).map_err(one)?;
            self.tell(&Event::ShardStarted {
                shard: self.target.shard(),
                steps: missing.len(),
            });
            let is_applied = |version: &str| books.applied.contains_key(version);
            let replays = templates::replay(&self.target.sources, set, is_applied);
            let replays = replays.map_err(one)?;
            for missing in missing {
                locked.check()?;
                self.make(&mut locked.session, set, &replays, &missing)
                    .map_err(one)?;
                for (at, name) in &missing.tables {
                    let table = set.tables()[*at].in_schema(name);
                    self.table_done(report, table, TableAction::Created);
                }
            }
            Ok(())
        })
    }

    /// What is recorded in the database, where nothing stands against working on its tables.
    pub(super) fn books(&self, session: &mut Session) -> Result<Books, Vec<Failure>> {
        let one = |failure: Failure| vec![failure];
        let books = read(session).map_err(one)?;
        check_identity(self.inner, self.target, &books.identity).map_err(one)?;
        if books.progress.is_empty() {
            return Ok(books);
        }
        let shard = self.target.shard();
        Err(books.progress.iter().map(|one| dirty(shard, one)).collect())
    }

    pub(super) fn table_done(&self, report: &mut ShardReport, table: String, action: TableAction) {
        self.tell(&Event::TableDone {
            shard: self.target.shard(),
            table: table.clone(),
            action,
        });
        report.tables.push(table);
    }

    /// Says that a plan ends before what was asked for.
    fn warn_of_end(
        &self,
        set: &TableSet,
        parts: &[TableParts],
        ahead: u32,
        report: &mut ShardReport,
    ) {
        for own in parts.iter().filter(|own| own.is_dated()) {
            let (Some(now), None) = (own.now, own.horizon(ahead)) else {
                continue;
            };
            let begun = own.begins.partition_point(|begin| *begin <= now);
            let left = own.begins.len() - begun;
            if left >= ahead as usize {
                continue;
            }
            let table = &set.tables()[own.at];
            let message = format!(
                "the plan of keyspace {} ends {left} period(s) from now, and {} was to have tables for {ahead}: extend the plan, it moves no row",
                table.keyspace,
                table.full_name()
            );
            self.warn(report, message);
        }
    }

    /// Makes one part of the tables that lack it, all of them or none.
    fn make(
        &self,
        session: &mut Session,
        set: &TableSet,
        replays: &[Replay],
        missing: &Missing,
    ) -> Result<(), Failure> {
        let mut statements: Vec<(&Replay, Statement)> = Vec::new();
        for (at, name) in &missing.tables {
            if !replays
                .iter()
                .any(|replay| replay.table == *at && replay.creates)
            {
                return Err(Failure::new(
                    FailureKind::Statement,
                    format!(
                        "{name} cannot be made: no migration that is applied here creates {0}; write `CREATE TABLE {0} ..` in one, by the logical name, and run it",
                        set.tables()[*at].full_name()
                    ),
                ));
            }
        }
        let wanted = |at: usize| missing.tables.iter().any(|(table, _)| *table == at);
        for replay in replays.iter().filter(|replay| wanted(replay.table)) {
            let numbers = set.tables()[replay.table].numbers(missing.spread);
            let rendered = replay.template.render(set, Some(numbers));
            let texts = rendered.map_err(|_| "it names a table without such a part".to_owned());
            let texts =
                texts.and_then(|text| split::split(&text, session.kind()).map_err(String::from));
            let texts = texts.map_err(|message| {
                Failure::new(FailureKind::Statement, message).of_version(&replay.version)
            })?;
            statements.extend(texts.into_iter().map(|text| (replay, text)));
        }
        let whole =
            session.kind() != UrlKind::Mysql && replays.iter().all(|replay| replay.in_transaction);
        let mut retry = 0;
        loop {
            let sent = if whole {
                in_transaction(session, &statements)
            } else {
                one_by_one(session, set, missing, &statements)
            };
            match sent {
                Err((_, true)) if retry < self.options.retries => retry += 1,
                sent => return sent.map_err(|(failure, _)| failure),
            }
        }
    }
}

/// What failed, and whether the same may succeed when it is tried again.
type Sent = Result<(), (Failure, bool)>;

fn failed(
    session: &Session,
    statements: &[(&Replay, Statement)],
    at: usize,
    error: &diesel::result::Error,
    stayed: &str,
) -> Failure {
    let (replay, statement) = &statements[at];
    let what = format!("making a table as this migration does failed, {stayed}");
    let mut failure = Failure::new(session.kind_of(error), what)
        .of_version(&replay.version)
        .said(error.to_string());
    failure.statement = Some(FailedStatement {
        number: at + 1,
        of: statements.len(),
        sql: statement.text.to_string(),
    });
    failure
}

fn in_transaction(session: &mut Session, statements: &[(&Replay, Statement)]) -> Sent {
    let mut reached = 0;
    let sent = session.transact(|session| {
        for (at, (_, statement)) in statements.iter().enumerate() {
            reached = at;
            session.batch_execute(&statement.text)?;
        }
        Ok(())
    });
    sent.map_err(|error| {
        let again = session.is_conflict(&error);
        let failure = failed(
            session,
            statements,
            reached,
            &error,
            "nothing of it has stayed",
        );
        (failure, again)
    })
}

/// Where definitions commit as they go: what was made is taken away again when a later one fails. It is
/// empty, nobody else has made it, and half of it would be taken for the whole.
fn one_by_one(
    session: &mut Session,
    set: &TableSet,
    missing: &Missing,
    statements: &[(&Replay, Statement)],
) -> Sent {
    for (at, (_, statement)) in statements.iter().enumerate() {
        let Err(error) = session.batch_execute(&statement.text) else {
            continue;
        };
        let again = session.is_conflict(&error);
        let mut stayed = Vec::new();
        for (at, name) in missing.tables.iter().rev() {
            let written = set.tables()[*at].written(set.dialect, name);
            let drop = format!("DROP TABLE IF EXISTS {written}");
            if session.batch_execute(&drop).is_err() {
                stayed.push(written);
            }
        }
        let told = if stayed.is_empty() {
            "nothing of it has stayed".to_owned()
        } else {
            format!(
                "and what was made could not be taken away again: drop {}",
                stayed.join(", ")
            )
        };
        let failure = failed(session, statements, at, &error, &told);
        return Err((failure, again && stayed.is_empty()));
    }
    Ok(())
}

/// What is to be made, period by period: tables that are bound may refer to each other.
fn missing(set: &TableSet, parts: &[TableParts], ahead: u32) -> Vec<Missing> {
    let mut all: BTreeMap<_, Missing> = BTreeMap::new();
    for own in parts.iter().filter(|own| own.is_dated()) {
        for part in own.missing(ahead) {
            let keyspace = set.tables()[own.at].keyspace;
            let begins = part.span.map(|(from, _)| from);
            all.entry((begins, keyspace, part.spread))
                .or_insert_with(|| Missing {
                    spread: part.spread,
                    tables: Vec::new(),
                })
                .tables
                .push((own.at, part.name.clone()));
        }
    }
    all.into_values().collect()
}

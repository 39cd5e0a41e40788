//! Taking old tables away: only when somebody asks for it, and never those of the present.

use diesel::connection::SimpleConnection;
use jiff::civil::{Date, DateTime};

use super::super::event::{Event, Observer, TableAction};
use super::super::migrator::Migrator;
use super::super::options::Options;
use super::super::plan::Action;
use super::super::report::{FailedStatement, Failure, Report, ShardReport};
use super::super::session::Session;
use super::super::work::Job;
use super::list::{PartState, TablesReport};
use super::{TableParts, list, of};
use crate::algorithm::parse_day;
use crate::error::{ConfigErrors, ConfigProblem, Error};
use crate::rewrite::TableSet;
use crate::topology::UrlKind;

/// What becomes of the tables of periods that are over.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Retire {
    /// They are dropped, with their rows.
    Drop,
    /// They keep their rows under their name with this end: `_old`.
    Rename {
        /// Letters, digits, `_` and `$`.
        suffix: String,
    },
}

/// The longest name that every backend keeps whole.
const LONGEST: usize = 63;

fn refuse(key: &str, message: String) -> Error {
    ConfigErrors(vec![ConfigProblem {
        origin: String::new(),
        key: key.to_owned(),
        message,
    }])
    .into()
}

impl Migrator {
    /// Which tables [`retire_tables`](Self::retire_tables) would take away: those that are there and whose
    /// period ends by a day. Reads only.
    ///
    /// # Errors
    ///
    /// Those of [`retire_tables`](Self::retire_tables).
    pub fn retirable_tables(&self, before: &str, options: &Options) -> Result<TablesReport, Error> {
        let before = self.last_day(before)?;
        let mut report = self.tables(options)?;
        for shard in &mut report.shards {
            shard.tables.retain(|part| {
                let until = part.until.as_deref().and_then(read_moment);
                part.state == PartState::There && until.is_some_and(|until| until <= before)
            });
        }
        Ok(report)
    }

    /// Takes away the tables that a `date` rule names and whose period ends by a day: `2024`, `2024-02`,
    /// `2024-W09` or `2024-02-29`, on the calendar of the rule.
    ///
    /// The plan of the rule still covers those periods: end them there too (`from`), so that a key of them is
    /// [`NotCovered`](crate::Error::NotCovered) and not an error of the database.
    ///
    /// # Errors
    ///
    /// Those of [`execute`](Self::execute), and [`Error::Config`] for a day that is none or lies after the
    /// beginning of the present period, for a suffix that makes no name, and where no table is named by
    /// dates.
    pub fn retire_tables(
        &self,
        before: &str,
        how: &Retire,
        options: &Options,
        observer: &Observer<'_>,
    ) -> Result<Report, Error> {
        let before = self.last_day(before)?;
        if let Retire::Rename { suffix } = how {
            self.check_suffix(suffix)?;
        }
        self.work_on(
            Action::Run,
            options,
            observer,
            |target, _| !target.tables.as_deref().is_some_and(list::has_dates),
            |job, _| job.retire(before, how),
        )
    }

    /// The day, where no period of the present ends by it.
    fn last_day(&self, before: &str) -> Result<DateTime, Error> {
        self.need_dates()?;
        let Some(day) = parse_day(before) else {
            return Err(refuse(
                "before",
                format!("{before:?} is no day: write 2024, 2024-02, 2024-W09 or 2024-02-29"),
            ));
        };
        let day = day.at(0, 0, 0, 0);
        for target in &self.inner.targets {
            let Some(set) = &target.tables else { continue };
            for own in of(set, &target.shards) {
                if let Some(begin) = own.present_begins().filter(|begin| day > *begin) {
                    return Err(refuse(
                        "before",
                        format!(
                            "{before} is after {}, when the present period of keyspace {} began, and tables of the present are not retired: name an earlier day",
                            list::shown(begin),
                            set.tables()[own.at].keyspace
                        ),
                    ));
                }
            }
        }
        Ok(day)
    }

    fn check_suffix(&self, suffix: &str) -> Result<(), Error> {
        let is_sound = !suffix.is_empty()
            && suffix
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$'));
        if !is_sound {
            return Err(refuse(
                "rename_suffix",
                format!("{suffix:?} makes no name of a table: use letters, digits, `_` and `$`"),
            ));
        }
        for target in &self.inner.targets {
            let Some(set) = &target.tables else { continue };
            for own in of(set, &target.shards).iter().filter(|own| own.is_dated()) {
                let long = own
                    .parts
                    .iter()
                    .find(|part| part.name.len() + suffix.len() > LONGEST);
                if let Some(part) = long {
                    return Err(refuse(
                        "rename_suffix",
                        format!(
                            "{}{suffix} is longer than {LONGEST} bytes: take a shorter one",
                            part.name
                        ),
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Reads what [`list::shown`] writes.
fn read_moment(text: &str) -> Option<DateTime> {
    match text.parse::<Date>() {
        Ok(day) if text.len() == 10 => Some(day.at(0, 0, 0, 0)),
        _ => text.parse().ok(),
    }
}

impl TableParts {
    /// When the period began that now lies in.
    fn present_begins(&self) -> Option<DateTime> {
        let now = self.now?;
        let begun = self.begins.partition_point(|begin| *begin <= now);
        // Before the plan and after it every part is over or has not begun.
        self.begins.get(begun.checked_sub(1)?).copied()
    }
}

impl Job<'_> {
    fn retire(&self, before: DateTime, how: &Retire) -> ShardReport {
        let Some(set) = &self.target.tables else {
            return self.locked(|_, _| Ok(()));
        };
        self.locked(|locked, report| {
            let one = |failure: Failure| vec![failure];
            let books = self.books(&mut locked.session)?;
            let parts = self.target.parts(&mut locked.session).map_err(one)?;
            let mut over: Vec<(DateTime, usize, String)> = Vec::new();
            for own in &parts {
                for part in own.there() {
                    if let Some((from, until)) = part.span
                        && until <= before
                    {
                        over.push((from, own.at, part.name.clone()));
                    }
                }
            }
            if over.is_empty() {
                return Ok(());
            }
            // A table that refers to another was made after it.
            let order = self.order_made(set);
            over.sort_by_key(|(from, at, _)| (*from, std::cmp::Reverse(order.get(*at).copied())));
            self.prepare(locked, &books, None).map_err(one)?;
            self.limit(locked, report).map_err(one)?;
            self.tell(&Event::ShardStarted {
                shard: self.target.shard(),
                steps: over.len(),
            });
            for (_, at, name) in over {
                locked.check()?;
                let action = take_away(&mut locked.session, set, at, &name, how).map_err(one)?;
                self.table_done(report, set.tables()[at].in_schema(&name), action);
            }
            Ok(())
        })
    }

    /// The place of each table in the order in which migrations create them.
    fn order_made(&self, set: &TableSet) -> Vec<usize> {
        let made = super::super::templates::replay(&self.target.sources, set, |_| true);
        let made = made.unwrap_or_default();
        (0..set.tables().len())
            .map(|at| {
                let found = made.iter().position(|one| one.creates && one.table == at);
                found.unwrap_or(usize::MAX)
            })
            .collect()
    }
}

fn take_away(
    session: &mut Session,
    set: &TableSet,
    at: usize,
    name: &str,
    how: &Retire,
) -> Result<TableAction, Failure> {
    let table = &set.tables()[at];
    let written = table.written(set.dialect, name);
    let (sql, action) = match how {
        Retire::Drop => (format!("DROP TABLE {written}"), TableAction::Dropped),
        Retire::Rename { suffix } => {
            let new = format!("{name}{suffix}");
            let new = match session.kind() {
                // Without a schema it would move to that of the session.
                UrlKind::Mysql => table.written(set.dialect, &new),
                UrlKind::Sqlite | UrlKind::Postgres => set.dialect.write_name(&new, None),
            };
            let sql = format!("ALTER TABLE {written} RENAME TO {new}");
            (sql, TableAction::Renamed)
        }
    };
    session.batch_execute(&sql).map_err(|error| {
        let what = format!("retiring {written} failed, it is as it was");
        let mut failure = Failure::new(session.kind_of(&error), what).said(error.to_string());
        failure.statement = Some(FailedStatement {
            number: 1,
            of: 1,
            sql,
        });
        failure
    })?;
    Ok(action)
}

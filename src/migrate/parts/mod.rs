//! The physical tables that a rule names: which of them a database is to have, and which it has.
//!
//! Numbered tables come with their migrations. Tables by dates come and go: a migration makes those of the
//! periods that have begun and of the next one, `ensure` makes further ones as time goes on, `retire` takes
//! old ones away.

mod ensure;
mod list;
mod retire;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::DateTime;

use super::event::Direction;
use super::migrator::Target;
use super::report::Failure;
use super::session::{Session, bookkeeping};
use super::source::MigrationSet;
use super::templates;
use crate::algorithm::{KeyRange, Rule, Spreads};
use crate::name::ShardName;
use crate::rewrite::{Dialect, Parts, ShardedTable, TableNumbers, TableSet, Which};

pub use list::{PartState, ShardTables, TablePart, TablesReport};
pub use retire::Retire;

/// How many periods after the present one a migration makes tables for.
const AHEAD: u32 = 1;

/// The parts of one table that the rule names, on one database.
#[derive(Clone, Debug)]
pub(super) struct TableParts {
    /// The table's place in the set.
    pub(super) at: usize,
    /// In the order of time, where there is one.
    pub(super) parts: Vec<Part>,
    /// Now, on the calendar of the rule; `None` for a rule without dates.
    now: Option<DateTime>,
    /// Where periods of the whole keyspace begin, in order.
    begins: Vec<DateTime>,
}

/// One part.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) spread: u64,
    /// The physical name, without a schema.
    pub(super) name: String,
    /// When it begins, and the first moment after it.
    pub(super) span: Option<(DateTime, DateTime)>,
    pub(super) is_there: bool,
}

/// The parts of all tables of a set that are named by a rule, as far as they belong to these shards.
pub(super) fn of(set: &TableSet, shards: &[ShardName]) -> Vec<TableParts> {
    let now = Timestamp::now();
    let tables = set.tables().iter().enumerate();
    tables
        .filter_map(|(at, table)| match &table.parts {
            Parts::Numbered(_) => None,
            Parts::ByRule { rule, .. } => Some(TableParts::new(at, table, rule, shards, now)),
        })
        .collect()
}

impl TableParts {
    fn new(
        at: usize,
        table: &ShardedTable,
        rule: &Rule,
        shards: &[ShardName],
        now: Timestamp,
    ) -> Self {
        let part = |spread: u64, span: Option<(DateTime, DateTime)>| {
            let numbers = table.numbers(spread);
            Some(Part {
                spread,
                name: table.physical(numbers)?.into_owned(),
                span,
                is_there: false,
            })
        };
        let Some(periods) = rule.periods() else {
            let reached = rule.reach(&KeyRange::full(rule.key_type())).into_iter();
            let spreads: BTreeSet<u64> = reached
                .filter(|reach| shards.contains(&reach.shard))
                .filter_map(|reach| match reach.spreads {
                    Spreads::These(spreads) => Some(spreads),
                    Spreads::All => None,
                })
                .flatten()
                .collect();
            return Self {
                at,
                parts: spreads
                    .into_iter()
                    .filter_map(|spread| part(spread, None))
                    .collect(),
                now: None,
                begins: Vec::new(),
            };
        };
        Self {
            at,
            begins: periods.iter().map(|period| period.from).collect(),
            parts: periods
                .into_iter()
                .filter(|period| shards.contains(&period.shard))
                .filter_map(|period| part(period.spread, Some((period.from, period.until))))
                .collect(),
            now: Some(rule.local_time(now)),
        }
    }

    /// Whether the parts are named by dates.
    pub(super) fn is_dated(&self) -> bool {
        self.now.is_some()
    }

    /// The end of what `ahead` periods after the present one come to: the beginning of the first period
    /// that is further away. `None`: the plan ends before that.
    fn horizon(&self, ahead: u32) -> Option<DateTime> {
        let now = self.now?;
        let begun = self.begins.partition_point(|begin| *begin <= now);
        self.begins.get(begun + ahead as usize).copied()
    }

    /// Whether a part's period begins before the horizon.
    fn is_near(&self, part: &Part, ahead: u32) -> bool {
        match (part.span, self.horizon(ahead)) {
            (Some((from, _)), Some(horizon)) => from < horizon,
            _ => true,
        }
    }

    /// The parts that a statement over the table is run for: those that are there. Where there are none,
    /// it is new: those of the periods that have begun and of the next one.
    pub(super) fn in_use(&self) -> Vec<u64> {
        let there: Vec<u64> = self.there().map(|part| part.spread).collect();
        if !there.is_empty() {
            return there;
        }
        let near = self.parts.iter().filter(|part| self.is_near(part, AHEAD));
        near.map(|part| part.spread).collect()
    }

    /// Whether a part is to be there now.
    pub(super) fn is_wanted(&self, part: &Part) -> bool {
        part.is_there || self.state(part) == PartState::Missing
    }

    fn there(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(|part| part.is_there)
    }

    /// The parts that are to be there, some periods ahead, and are not: from the oldest that is there on,
    /// since older ones were retired; without any, from the present period on.
    fn missing(&self, ahead: u32) -> impl Iterator<Item = &Part> {
        let oldest = self.there().next().and_then(|part| part.span);
        self.parts.iter().filter(move |part| {
            !part.is_there
                && self.is_near(part, ahead)
                && match (part.span, oldest, self.now) {
                    (Some((from, _)), Some((oldest, _)), _) => from >= oldest,
                    (Some((_, until)), None, Some(now)) => until > now,
                    _ => true,
                }
        })
    }
}

impl ShardedTable {
    /// What a route to the tables of a spread carries.
    fn numbers(&self, spread: u64) -> TableNumbers {
        TableNumbers {
            keyspace: self.keyspace,
            which: Which::Spread(spread),
            placed_by: self.placed_by,
        }
    }
}

/// The names of tables that a database has, by schema.
#[derive(Default)]
pub(super) struct Present(BTreeMap<Option<String>, BTreeSet<String>>);

impl Present {
    /// Asks once for each schema.
    pub(super) fn has(
        &mut self,
        session: &mut Session,
        dialect: Dialect,
        schema: Option<&str>,
        name: &str,
    ) -> Result<bool, Failure> {
        let key = schema.map(str::to_owned);
        let names = match self.0.entry(key) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                let names = session
                    .table_names(schema)
                    .map_err(|error| bookkeeping("reading which tables there are", &error))?;
                entry.insert(names)
            }
        };
        Ok(match dialect {
            Dialect::Sqlite => names.contains(&name.to_ascii_lowercase()),
            Dialect::Postgres | Dialect::Mysql => names.contains(name),
        })
    }
}

impl Target {
    /// The parts of the tables that a rule names, and whether they are there.
    pub(super) fn parts(&self, session: &mut Session) -> Result<Vec<TableParts>, Failure> {
        let Some(set) = &self.tables else {
            return Ok(Vec::new());
        };
        let mut present = Present::default();
        let mut all = of(set, &self.shards);
        for table in &mut all {
            let schema = set.tables()[table.at].schema.as_deref();
            for part in &mut table.parts {
                part.is_there = present.has(session, set.dialect, schema, &part.name)?;
            }
        }
        Ok(all)
    }

    /// Whether a migration has as many statements as there are parts of a table that a rule names.
    pub(super) fn may_grow(&self, version: &str, direction: Direction) -> bool {
        let script = self
            .sources
            .get(version)
            .and_then(|migration| migration.text(direction));
        match (&self.tables, script) {
            (Some(tables), Some(text)) => {
                !of(tables, &self.shards).is_empty() && tables.occurs_in(text)
            }
            _ => false,
        }
    }

    /// The migrations for the tables as they are there now.
    pub(super) fn set_here(&self, session: &mut Session) -> Result<Arc<MigrationSet>, Failure> {
        let parts = self.parts(session)?;
        Ok(match &self.tables {
            Some(tables) if !parts.is_empty() => {
                templates::for_tables(&self.sources, tables, &parts, self.kind)
            }
            _ => Arc::clone(&self.set),
        })
    }
}

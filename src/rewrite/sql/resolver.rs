//! Looks each name of a syntax tree up in its scope.

mod visitor;

use std::collections::{BTreeMap, HashSet};

use sqlparser::ast::{
    Delete, FromTable, Ident, Insert, ObjectName, Query, SetExpr, TableFactor, TableObject,
    TableWithJoins, Update, UpdateTableFromKind,
};
use sqlparser::tokenizer::Token;

use super::super::table_set::Meaning;
use super::super::{Dialect, TableSet};
use super::clauses::places_of_tables;
use super::scope::{Binding, IsCte, Scopes, ambiguous};
use super::template::{Hole, KeyWrite, Template};
use super::tokens::{Tokens, may_be_name, position};
use super::{Analysis, Refusal, owned, writes};

/// Walks a syntax tree and decides on each name of the set.
pub(super) struct Resolver<'a, 't> {
    pub(super) set: &'a TableSet,
    pub(super) tokens: &'a Tokens<'t>,
    /// Tokens that name a sharded table.
    holes: BTreeMap<usize, usize>,
    /// Tokens that name something which a sharded table has: the table and the name.
    owned: BTreeMap<usize, (usize, Option<String>)>,
    /// Tokens that bear the name and mean something else.
    settled: HashSet<usize>,
    /// Those of them that stand in the place of a table.
    others: HashSet<usize>,
    pub(super) scopes: Scopes,
    /// The sharded tables of the statement.
    pub(super) used: Vec<usize>,
    pub(super) keys: Vec<KeyWrite>,
    /// Columns that the database numbers, with the table of each.
    pub(super) counters: Vec<(usize, Box<str>)>,
    /// Names of what a sharded table owns that the server may have made, folded.
    pub(super) doubts: Vec<Box<str>>,
    /// Statements around this place that must not name a sharded table, and why.
    closed: Vec<Option<&'static str>>,
    /// Whether they define data: a name may be anything there.
    defines: Vec<bool>,
}

impl<'a, 't> Resolver<'a, 't> {
    pub(super) fn new(set: &'a TableSet, tokens: &'a Tokens<'t>) -> Self {
        Self {
            set,
            tokens,
            holes: BTreeMap::new(),
            owned: BTreeMap::new(),
            settled: HashSet::new(),
            others: HashSet::new(),
            scopes: Scopes::new(set.dialect),
            used: Vec::new(),
            keys: Vec::new(),
            counters: Vec::new(),
            doubts: Vec::new(),
            closed: Vec::new(),
            defines: Vec::new(),
        }
    }
}

impl Resolver<'_, '_> {
    pub(super) fn finish(self) -> Result<Analysis, Refusal> {
        for position in self.tokens.named() {
            if may_be_name(&self.tokens.list[position].token)
                && !self.holes.contains_key(&position)
                && !self.settled.contains(&position)
            {
                let name = &self.tokens.text[self.tokens.range(position)];
                return Err(Refusal::because(format!(
                    "what {name} means in it is not known"
                )));
            }
        }
        self.refuse_misread()?;
        if self.holes.is_empty() {
            return Ok(Analysis::Untouched);
        }
        let tokens = self.tokens;
        let mut holes: BTreeMap<usize, (usize, Option<String>)> = self.owned;
        holes.extend(
            self.holes
                .into_iter()
                .map(|(at, table)| (at, (table, None))),
        );
        let holes = holes
            .into_iter()
            .map(|(at, (table, own))| Hole {
                bytes: tokens.range(at),
                table,
                quote: tokens.quote(at),
                own,
            })
            .collect();
        let template = Template::new(tokens.text, holes, self.keys).with_counters(self.counters);
        Ok(Analysis::Template(template.with_doubts(self.doubts)))
    }

    /// Refuses a name that stands where a table is named, by the words around it, and where the parser has seen none: it
    /// took a word before it for something else, as in `SELECT note LIKE FROM orders`.
    fn refuse_misread(&self) -> Result<(), Refusal> {
        let doubtful: Vec<usize> = self
            .settled
            .iter()
            .filter(|at| !self.holes.contains_key(at) && !self.others.contains(at))
            .filter(|at| !self.tokens.is_period(self.tokens.after(**at)))
            .copied()
            .collect();
        if doubtful.is_empty() {
            return Ok(());
        }
        let places = places_of_tables(self.tokens);
        match doubtful.iter().find(|at| places.contains(at)) {
            None => Ok(()),
            Some(at) => Err(Refusal::because(format!(
                "{} stands where a table is named, and was not read as one",
                &self.tokens.text[self.tokens.range(*at)]
            ))),
        }
    }

    /// What a name in the place of a table means. `target`: it is written to, so no common table
    /// expression is meant.
    fn meaning(&self, name: &ObjectName, target: bool) -> Result<Option<usize>, Refusal> {
        let parts: Option<Vec<&Ident>> = name.0.iter().map(|part| part.as_ident()).collect();
        let Some((own, qualifiers)) = parts.as_deref().and_then(|parts| parts.split_last()) else {
            return Ok(None);
        };
        let folded = self.scopes.fold(own);
        if !self.set.is_name(&folded) {
            return Ok(None);
        }
        let schema = match qualifiers {
            [] => None,
            [schema] => Some(self.scopes.fold(schema)),
            _ => {
                return Err(Refusal::because(format!(
                    "{name} has more parts than a schema and a table"
                )));
            }
        };
        if schema.is_none() && !target {
            match self.scopes.is_cte(&folded) {
                IsCte::No => {}
                IsCte::Yes => return Ok(None),
                IsCte::Unclear => {
                    return Err(Refusal::because(format!(
                        "{name} is a common table expression to some servers and a table to others there"
                    )));
                }
            }
        }
        match self.set.find(schema.as_deref(), &folded) {
            Meaning::Table(index) => Ok(Some(index)),
            Meaning::Other => Ok(None),
            Meaning::Unclear => Err(Refusal::because(format!(
                "which schema {name} is in depends on the session: write the schema before it"
            ))),
        }
    }

    /// The sharded table that a name in the place of a table means.
    pub(super) fn table_of(
        &self,
        name: &ObjectName,
        target: bool,
    ) -> Result<Option<usize>, Refusal> {
        self.meaning(name, target)
    }

    /// Decides on a name in the place of a table, once.
    pub(super) fn relation(
        &mut self,
        name: &ObjectName,
        target: bool,
    ) -> Result<Option<usize>, Refusal> {
        let Some(own) = name.0.last().and_then(|part| part.as_ident()) else {
            return Ok(None);
        };
        if let Some(known) = position(own).and_then(|at| self.holes.get(&at)) {
            return Ok(Some(*known));
        }
        if position(own).is_some_and(|at| self.settled.contains(&at)) {
            return Ok(None);
        }
        for part in &name.0 {
            // A schema of that name is none of our business.
            self.settle(part.as_ident().and_then(position));
        }
        let meaning = self.meaning(name, target)?;
        match meaning {
            Some(table) => self.open(own, table)?,
            None => self.others.extend(position(own)),
        }
        Ok(meaning)
    }

    fn settle(&mut self, position: Option<usize>) {
        if let Some(position) = position.filter(|at| self.tokens.is_named(*at)) {
            self.settled.insert(position);
        }
    }

    /// Makes a hole where a sharded table is named.
    fn open(&mut self, ident: &Ident, table: usize) -> Result<(), Refusal> {
        if let Some(Some(reason)) = self.closed.last() {
            return Err(Refusal::because(*reason));
        }
        let Some(at) = position(ident).filter(|at| *at < self.tokens.list.len()) else {
            return Err(Refusal::because(format!(
                "the parser does not say where it found {ident}"
            )));
        };
        self.settled.remove(&at);
        self.holes.insert(at, table);
        if !self.used.contains(&table) {
            self.used.push(table);
        }
        Ok(())
    }

    /// Makes a hole where something is named that a sharded table has.
    pub(super) fn own(&mut self, ident: &Ident, table: usize) -> Result<(), Refusal> {
        let Some(at) = position(ident).filter(|at| *at < self.tokens.list.len()) else {
            return Err(Refusal::because(format!(
                "the parser does not say where it found {ident}"
            )));
        };
        self.settle(Some(at));
        self.owned.insert(at, (table, Some(ident.value.clone())));
        Ok(())
    }

    /// Decides that a name is that of a column.
    pub(super) fn column(&mut self, ident: &Ident) {
        self.settle(position(ident));
    }

    /// Decides on a name that is no table's place: a qualifier, or anything else of that name.
    fn name(&mut self, ident: &Ident) -> Result<(), Refusal> {
        let Some(at) = position(ident) else {
            return Ok(());
        };
        if !self.tokens.is_named(at) || self.holes.contains_key(&at) || self.settled.contains(&at) {
            return Ok(());
        }
        if let Some(Some(reason)) = self.closed.last() {
            // Nobody knows there which names are tables.
            return Err(Refusal::because(*reason));
        }
        let (before, after) = (self.tokens.before(at), self.tokens.after(at));
        if !self.tokens.is_period(after) {
            if self.defines.last() == Some(&true) {
                return Err(Refusal::because(format!(
                    "what {ident} means in a definition is not known"
                )));
            }
            // A column, an alias, a function.
            self.settle(Some(at));
            return Ok(());
        }
        let schema = if self.tokens.is_period(before) {
            let schema = before.and_then(|period| self.tokens.before(period));
            match schema.map(|at| &self.tokens.list[at].token) {
                Some(Token::Word(word)) => Some(
                    self.set
                        .dialect
                        .fold(&word.value, word.quote_style.is_some())
                        .into_owned(),
                ),
                _ => {
                    return Err(Refusal::because(format!("what {ident} belongs to in it")));
                }
            }
        } else {
            None
        };
        self.qualifier(ident, schema.as_deref())
    }

    /// Decides on the name of a table in front of a column.
    fn qualifier(&mut self, ident: &Ident, schema: Option<&str>) -> Result<(), Refusal> {
        let folded = self.scopes.fold(ident);
        let table = match self.scopes.find(schema, &folded) {
            Some(binding) => binding.table,
            // It refers to nothing that the statement reads, so it cannot reach a table.
            None => None,
        };
        // With a schema it must be the schema of that table.
        let table = table.filter(|table| {
            schema.is_none() || self.set.find(schema, &folded) == Meaning::Table(*table)
        });
        match table {
            Some(table) => self.open(ident, table),
            None => {
                self.settle(position(ident));
                Ok(())
            }
        }
    }

    /// Whether a query is `TABLE name`, or has that beside others.
    fn reads_by_table(&self, body: &SetExpr) -> bool {
        match body {
            SetExpr::Table(table) => table
                .table_name
                .as_ref()
                .is_none_or(|name| self.set.is_name(&self.scopes.fold(name))),
            SetExpr::SetOperation { left, right, .. } => {
                self.reads_by_table(left) || self.reads_by_table(right)
            }
            _ => false,
        }
    }

    /// What a `FROM` clause binds.
    fn bound_by(&self, from: &[TableWithJoins]) -> Result<Vec<Binding>, Refusal> {
        let meaning = |name: &ObjectName| self.meaning(name, false).ok().flatten();
        only_once(self.scopes.bindings(from, &meaning))
    }

    fn enter_insert(&mut self, insert: &Insert) -> Result<(), Refusal> {
        let mut bindings = Vec::new();
        let mut target = None;
        if let TableObject::TableName(name) = &insert.table {
            target = self.relation(name, true)?;
            match &insert.table_alias {
                Some(alias) => bindings.push(self.scopes.alias_of(&alias.alias)),
                None => bindings.extend(self.scopes.named(name, target)),
            }
        }
        if let Some(alias) = &insert.insert_alias {
            bindings.extend(self.scopes.named(&alias.row_alias, None));
        }
        // MySQL's ON DUPLICATE KEY UPDATE sees the tables of the SELECT.
        if let Some(SetExpr::Select(select)) = insert.source.as_deref().map(|query| &*query.body) {
            bindings.extend(self.scopes.bindings(&select.from, &|name| {
                self.meaning(name, false).ok().flatten()
            }));
        }
        self.scopes.push(bindings);
        match target {
            Some(table) => {
                owned::of_conflict(self, table, insert)?;
                writes::of_insert(self, table, insert)
            }
            None => Ok(()),
        }
    }

    fn enter_update(&mut self, update: &Update) -> Result<(), Refusal> {
        let target = std::slice::from_ref(&update.table);
        self.target(target)?;
        let more = match &update.from {
            Some(UpdateTableFromKind::BeforeSet(more) | UpdateTableFromKind::AfterSet(more)) => {
                more.as_slice()
            }
            None => &[],
        };
        self.push_written(target, more)?;
        writes::of_update(self, update)
    }

    /// What the tables bind that are written to, and those beside them.
    fn push_written(
        &mut self,
        targets: &[TableWithJoins],
        more: &[TableWithJoins],
    ) -> Result<(), Refusal> {
        let joined = targets.len() != 1 || targets.iter().any(|one| !one.joins.is_empty());
        // With several tables, MySQL reads common table expressions where others have a target.
        let may_be_read = self.set.dialect == Dialect::Mysql && (joined || !more.is_empty());
        let meaning = |name: &ObjectName, target| self.meaning(name, target).ok().flatten();
        let mut bindings = self
            .scopes
            .bindings(targets, &|name| meaning(name, !may_be_read && !joined));
        bindings.extend(self.scopes.bindings(more, &|name| meaning(name, false)));
        self.scopes.push(only_once(bindings)?);
        Ok(())
    }

    fn enter_delete(&mut self, delete: &Delete) -> Result<(), Refusal> {
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
        let using = delete.using.as_deref().unwrap_or_default();
        if delete.tables.is_empty() {
            self.target(from)?;
            if self.set.dialect == Dialect::Mysql && !using.is_empty() {
                // The targets are names of what USING has.
                self.scopes.push(self.bound_by(using)?);
            } else {
                self.push_written(from, using)?;
            }
        } else {
            self.scopes.push(self.bound_by(from)?);
        }
        for name in &delete.tables {
            // MySQL's list of what is deleted from: names or aliases of the FROM clause.
            let mut parts = name.0.iter().rev().map(|part| part.as_ident());
            if let Some(Some(ident)) = parts.next() {
                let schema = parts
                    .next()
                    .flatten()
                    .map(|schema| self.scopes.fold(schema));
                if self.set.is_name(&self.scopes.fold(ident)) {
                    self.qualifier(ident, schema.as_deref())?;
                }
            }
        }
        Ok(())
    }

    /// A single table that is written to is a real table, whatever a WITH before it says.
    fn target(&mut self, from: &[TableWithJoins]) -> Result<(), Refusal> {
        if let [
            TableWithJoins {
                relation: TableFactor::Table { name, .. },
                joins,
            },
        ] = from
            && joins.is_empty()
        {
            self.relation(name, true)?;
        }
        Ok(())
    }

    fn enter_locks(&mut self, query: &Query) -> Result<(), Refusal> {
        for of in query.locks.iter().filter_map(|lock| lock.of.as_ref()) {
            if let [part] = of.0.as_slice()
                && let Some(ident) = part.as_ident()
                && self.set.is_name(&self.scopes.fold(ident))
            {
                self.qualifier(ident, None)?;
            }
        }
        Ok(())
    }
}

/// Refuses a name that two things of one clause bear.
fn only_once(bindings: Vec<Binding>) -> Result<Vec<Binding>, Refusal> {
    match ambiguous(&bindings) {
        None => Ok(bindings),
        Some(name) => Err(Refusal::because(format!(
            "{name} is the name of a sharded table and of something else in one FROM clause: give the other an alias"
        ))),
    }
}

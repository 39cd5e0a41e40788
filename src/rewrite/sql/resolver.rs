//! Looks each name of a syntax tree up in its scope.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;

use sqlparser::ast::{
    Delete, Expr, FromTable, Ident, Insert, ObjectName, Query, Select, SetExpr, Statement,
    TableFactor, TableObject, TableWithJoins, Update, UpdateTableFromKind, Visitor,
};
use sqlparser::tokenizer::Token;

use super::super::TableSet;
use super::super::table_set::Meaning;
use super::scope::{IsCte, Scopes};
use super::template::{Hole, KeyWrite, Template};
use super::tokens::{Tokens, may_be_name, position};
use super::{Analysis, Refusal, ddl, owned, writes};

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

type Flow = ControlFlow<Box<Refusal>>;

fn flow<T>(result: Result<T, Refusal>) -> Flow {
    match result {
        Ok(_) => ControlFlow::Continue(()),
        Err(refusal) => ControlFlow::Break(Box::new(refusal)),
    }
}

impl<'a, 't> Resolver<'a, 't> {
    pub(super) fn new(set: &'a TableSet, tokens: &'a Tokens<'t>) -> Self {
        Self {
            set,
            tokens,
            holes: BTreeMap::new(),
            owned: BTreeMap::new(),
            settled: HashSet::new(),
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
        if let Some(table) = meaning {
            self.open(own, table)?;
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

    fn push_from(&mut self, from: &[TableWithJoins]) {
        let bindings = self
            .scopes
            .bindings(from, &|name| self.meaning(name, false).ok().flatten());
        self.scopes.push(bindings);
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
        self.target(std::slice::from_ref(&update.table))?;
        let mut from = vec![update.table.clone()];
        match &update.from {
            Some(UpdateTableFromKind::BeforeSet(more) | UpdateTableFromKind::AfterSet(more)) => {
                from.extend(more.iter().cloned());
            }
            None => {}
        }
        self.push_update(
            &from,
            update.from.is_none() && update.table.joins.is_empty(),
        );
        writes::of_update(self, update)
    }

    fn push_update(&mut self, from: &[TableWithJoins], alone: bool) {
        let bindings = self
            .scopes
            .bindings(from, &|name| self.meaning(name, alone).ok().flatten());
        self.scopes.push(bindings);
    }

    fn enter_delete(&mut self, delete: &Delete) -> Result<(), Refusal> {
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
        if delete.tables.is_empty() {
            self.target(from)?;
        }
        let mut all = from.clone();
        all.extend(delete.using.iter().flatten().cloned());
        self.push_update(&all, delete.using.is_none() && delete.tables.is_empty());
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

impl Visitor for Resolver<'_, '_> {
    type Break = Box<Refusal>;

    fn pre_visit_statement(&mut self, statement: &Statement) -> Flow {
        let closed = match statement {
            Statement::Query(_)
            | Statement::Insert(_)
            | Statement::Update(_)
            | Statement::Delete(_)
            | Statement::Explain { .. }
            | Statement::Truncate(_)
            | Statement::Analyze(_) => None,
            statement if ddl::is_known(statement) => None,
            Statement::Merge(_) => Some("a MERGE cannot be checked: use INSERT .. ON CONFLICT"),
            _ => Some("it is of a kind that is not rewritten"),
        };
        self.closed.push(closed);
        self.defines.push(ddl::is_known(statement));
        flow(match statement {
            Statement::Insert(insert) => self.enter_insert(insert),
            Statement::Update(update) => self.enter_update(update),
            Statement::Delete(delete) => self.enter_delete(delete),
            other => {
                self.scopes.push(Vec::new());
                ddl::enter(self, other)
            }
        })
    }

    fn post_visit_statement(&mut self, _: &Statement) -> Flow {
        self.defines.pop();
        self.closed.pop();
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> Flow {
        self.scopes.enter_query(query);
        // For what stands behind the body: ORDER BY, FOR UPDATE OF.
        match &*query.body {
            SetExpr::Select(select) => self.push_from(&select.from),
            _ => self.scopes.push(Vec::new()),
        }
        flow(self.enter_locks(query))
    }

    fn post_visit_query(&mut self, query: &Query) -> Flow {
        self.scopes.pop();
        self.scopes.leave_query(query);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> Flow {
        self.push_from(&select.from);
        let makes_it = |target: &Expr| match target {
            Expr::Identifier(ident) => self.set.is_name(&self.scopes.fold(ident)),
            Expr::CompoundIdentifier(parts) => parts
                .iter()
                .any(|part| self.set.is_name(&self.scopes.fold(part))),
            _ => false,
        };
        if select
            .into
            .iter()
            .flat_map(|into| &into.targets)
            .any(makes_it)
        {
            return flow(Err::<(), _>(Refusal::because(
                "SELECT .. INTO makes a table of that name",
            )));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &Select) -> Flow {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> Flow {
        flow(owned::of_hint(self, factor))
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> Flow {
        flow(self.relation(relation, false))
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> Flow {
        if let (Expr::Identifier(ident), Some(true)) = (expr, self.defines.last()) {
            self.column(ident);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_ident(&mut self, ident: &Ident) -> Flow {
        flow(self.name(ident))
    }
}

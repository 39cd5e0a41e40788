//! What a name can refer to at one place of a statement: the tables of the surrounding `FROM` clauses
//! and the common table expressions.

use std::ops::Range;

use sqlparser::ast::{Ident, ObjectName, Query, TableAlias, TableFactor, TableWithJoins};

use super::super::Dialect;

/// A name that columns can be qualified with.
#[derive(Debug)]
pub(super) struct Binding {
    /// Folded.
    pub(super) name: String,
    pub(super) schema: Option<String>,
    /// The sharded table that it stands for; none for an alias, even of a sharded table: aliases stay.
    pub(super) table: Option<usize>,
}

/// Two things of one `FROM` that bear one name, and one of which is a sharded table: once that has its physical name
/// the other is left alone under the logical one.
pub(super) fn ambiguous(bindings: &[Binding]) -> Option<&str> {
    let others = || {
        bindings
            .iter()
            .filter(|other| other.table.is_none() && other.schema.is_none())
    };
    bindings
        .iter()
        .filter(|binding| binding.table.is_some())
        .find(|binding| others().any(|other| other.name == binding.name))
        .map(|binding| binding.name.as_str())
}

/// The common table expressions of one `WITH`.
#[derive(Debug)]
struct Frame {
    query: *const Query,
    names: Vec<String>,
    /// Those before this position can be seen now.
    visible: usize,
    /// Those from here on may be seen or not, depending on the server.
    unclear: bool,
}

/// Whether a name is that of a common table expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IsCte {
    No,
    Yes,
    Unclear,
}

/// The scopes around the place that is being looked at, the innermost last.
#[derive(Debug)]
pub(super) struct Scopes {
    dialect: Dialect,
    scopes: Vec<Scope>,
    /// Those of them that are not seen from where one is: that of a query, from its common table expressions and from
    /// the subqueries in its `FROM`.
    hidden: Vec<Range<usize>>,
    frames: Vec<Frame>,
    /// The queries of common table expressions that are still to be visited: query, frame, position.
    pending: Vec<(*const Query, usize, Visibility)>,
}

/// The tables of one `FROM` clause.
#[derive(Debug)]
struct Scope {
    bindings: Vec<Binding>,
    of_select: bool,
}

/// Which members of its own frame a common table expression sees.
#[derive(Clone, Copy, Debug)]
struct Visibility {
    visible: usize,
    unclear: bool,
}

impl Scopes {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            scopes: Vec::new(),
            hidden: Vec::new(),
            frames: Vec::new(),
            pending: Vec::new(),
        }
    }

    pub(super) fn fold(&self, ident: &Ident) -> String {
        self.dialect
            .fold(&ident.value, ident.quote_style.is_some())
            .into_owned()
    }

    pub(super) fn push(&mut self, bindings: Vec<Binding>) {
        self.scopes.push(Scope {
            bindings,
            of_select: false,
        });
    }

    /// The same for a `SELECT`, whose query has pushed its tables before.
    pub(super) fn push_select(&mut self, bindings: Vec<Binding>) {
        self.scopes.push(Scope {
            bindings,
            of_select: true,
        });
    }

    /// Enters a subquery of a `FROM` clause, which does not see the other tables of the clause.
    pub(super) fn enter_derived(&mut self) {
        let end = self.scopes.len();
        let own = match self.scopes.last() {
            Some(scope) if scope.of_select => 2,
            _ => 1,
        };
        self.hidden.push(end.saturating_sub(own)..end);
    }

    pub(super) fn leave_derived(&mut self) {
        self.hidden.pop();
    }

    pub(super) fn pop(&mut self) {
        self.scopes.pop();
    }

    /// Enters a query: its `WITH` can be seen from now on.
    pub(super) fn enter_query(&mut self, query: &Query) {
        if let Some(at) = self
            .pending
            .iter()
            .position(|(own, ..)| std::ptr::eq(*own, query))
        {
            let (_, frame, seen) = self.pending[at];
            let frame = &mut self.frames[frame];
            (frame.visible, frame.unclear) = (seen.visible, seen.unclear);
            let end = self.scopes.len();
            self.hidden.push(end.saturating_sub(1)..end);
        }
        let Some(with) = &query.with else { return };
        let names: Vec<String> = with
            .cte_tables
            .iter()
            .map(|cte| self.fold(&cte.alias.name))
            .collect();
        let frame = self.frames.len();
        for (position, cte) in with.cte_tables.iter().enumerate() {
            let all = names.len();
            let seen = match (self.dialect, with.recursive) {
                // SQLite does not look at the word RECURSIVE, and PostgreSQL sorts them itself.
                (Dialect::Sqlite, _) | (Dialect::Postgres, true) => Visibility {
                    visible: all,
                    unclear: false,
                },
                // MariaDB lets them see later ones, MySQL does not.
                (Dialect::Mysql, true) => Visibility {
                    visible: position + 1,
                    unclear: true,
                },
                (Dialect::Postgres | Dialect::Mysql, false) => Visibility {
                    visible: position,
                    unclear: false,
                },
            };
            self.pending.push((&raw const *cte.query, frame, seen));
        }
        self.frames.push(Frame {
            query,
            visible: names.len(),
            unclear: false,
            names,
        });
    }

    /// Leaves a query.
    pub(super) fn leave_query(&mut self, query: &Query) {
        if self
            .frames
            .last()
            .is_some_and(|frame| std::ptr::eq(frame.query, query))
        {
            self.frames.pop();
        }
        if let Some(at) = self
            .pending
            .iter()
            .position(|(own, ..)| std::ptr::eq(*own, query))
        {
            self.hidden.pop();
            let (_, frame, _) = self.pending.swap_remove(at);
            let frame = &mut self.frames[frame];
            (frame.visible, frame.unclear) = (frame.names.len(), false);
        }
    }

    pub(super) fn is_cte(&self, folded: &str) -> IsCte {
        let mut answer = IsCte::No;
        for frame in self.frames.iter().rev() {
            match frame.names.iter().position(|name| name == folded) {
                Some(at) if at < frame.visible => return IsCte::Yes,
                Some(_) if frame.unclear => answer = IsCte::Unclear,
                _ => {}
            }
        }
        answer
    }

    /// What a qualifier stands for: the nearest binding of that name.
    pub(super) fn find(&self, schema: Option<&str>, name: &str) -> Option<&Binding> {
        let seen = (0..self.scopes.len())
            .rev()
            .filter(|at| !self.hidden.iter().any(|hidden| hidden.contains(at)));
        let mut bindings = seen.flat_map(|at| &self.scopes[at].bindings);
        bindings.find(|binding| {
            binding.name == name
                && match schema {
                    None => true,
                    // A table that was named without its schema may be qualified with it.
                    Some(schema) => {
                        binding.table.is_some() || binding.schema.as_deref() == Some(schema)
                    }
                }
        })
    }

    /// The bindings of a `FROM` clause; `meaning` says which sharded table a name is.
    pub(super) fn bindings(
        &self,
        from: &[TableWithJoins],
        meaning: &dyn Fn(&ObjectName) -> Option<usize>,
    ) -> Vec<Binding> {
        let mut bindings = Vec::new();
        for item in from {
            self.bind_joined(item, meaning, &mut bindings);
        }
        bindings
    }

    fn bind_joined(
        &self,
        item: &TableWithJoins,
        meaning: &dyn Fn(&ObjectName) -> Option<usize>,
        bindings: &mut Vec<Binding>,
    ) {
        self.bind(&item.relation, meaning, bindings);
        for join in &item.joins {
            self.bind(&join.relation, meaning, bindings);
        }
    }

    fn bind(
        &self,
        factor: &TableFactor,
        meaning: &dyn Fn(&ObjectName) -> Option<usize>,
        bindings: &mut Vec<Binding>,
    ) {
        match factor {
            TableFactor::Table {
                name, alias: None, ..
            } => bindings.extend(self.named(name, meaning(name))),
            TableFactor::NestedJoin {
                table_with_joins,
                alias: None,
            } => self.bind_joined(table_with_joins, meaning, bindings),
            TableFactor::Table { alias, .. }
            | TableFactor::NestedJoin { alias, .. }
            | TableFactor::Derived { alias, .. }
            | TableFactor::TableFunction { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::UNNEST { alias, .. }
            | TableFactor::JsonTable { alias, .. } => {
                bindings.extend(alias.as_ref().map(|alias| self.alias(alias)));
            }
            _ => {}
        }
    }

    /// A table under its own name.
    pub(super) fn named(&self, name: &ObjectName, table: Option<usize>) -> Option<Binding> {
        let mut parts = name.0.iter().rev().map(|part| part.as_ident());
        Some(Binding {
            name: self.fold(parts.next()??),
            schema: parts.next().flatten().map(|ident| self.fold(ident)),
            table,
        })
    }

    fn alias(&self, alias: &TableAlias) -> Binding {
        self.alias_of(&alias.name)
    }

    pub(super) fn alias_of(&self, ident: &Ident) -> Binding {
        Binding {
            name: self.fold(ident),
            schema: None,
            table: None,
        }
    }
}

//! The way through a syntax tree.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, Ident, ObjectName, Query, Select, SetExpr, Statement, TableFactor, Visitor,
};

use super::super::tokens::position;
use super::super::{Refusal, ddl, owned};
use super::Resolver;

type Flow = ControlFlow<Box<Refusal>>;

fn flow<T>(result: Result<T, Refusal>) -> Flow {
    match result {
        Ok(_) => ControlFlow::Continue(()),
        Err(refusal) => ControlFlow::Break(Box::new(refusal)),
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
        // What is within is part of it: the body of a trigger, what is prepared.
        let around = self.closed.last().copied().flatten();
        self.closed.push(around.or(closed));
        self.defines.push(ddl::is_known(statement));
        flow(match statement {
            Statement::Insert(insert) => self.enter_insert(insert),
            Statement::Update(update) => self.enter_update(update),
            Statement::Delete(delete) => self.enter_delete(delete),
            other => {
                let target = ddl::target(other);
                let binding = target.and_then(|name| {
                    let table = self.meaning(name, true).ok().flatten();
                    self.scopes.named(name, table)
                });
                self.scopes.push(binding.into_iter().collect());
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
        if self.reads_by_table(&query.body) {
            return flow(Err::<(), _>(Refusal::because(
                "TABLE names a table in a way that is not rewritten: write SELECT * FROM",
            )));
        }
        // For what stands behind the body: ORDER BY, FOR UPDATE OF.
        let bindings = match &*query.body {
            SetExpr::Select(select) => self.bound_by(&select.from),
            _ => Ok(Vec::new()),
        };
        flow(bindings.and_then(|bindings| {
            self.scopes.push(bindings);
            self.enter_locks(query)
        }))
    }

    fn post_visit_query(&mut self, query: &Query) -> Flow {
        self.scopes.pop();
        self.scopes.leave_query(query);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> Flow {
        match self.bound_by(&select.from) {
            Ok(bindings) => self.scopes.push_select(bindings),
            Err(refusal) => return flow(Err::<(), _>(refusal)),
        }
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
        if matches!(factor, TableFactor::Derived { lateral: false, .. }) {
            self.scopes.enter_derived();
        }
        flow(owned::of_hint(self, factor))
    }

    fn post_visit_table_factor(&mut self, factor: &TableFactor) -> Flow {
        if matches!(factor, TableFactor::Derived { lateral: false, .. }) {
            self.scopes.leave_derived();
        }
        ControlFlow::Continue(())
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
        if position(ident).is_some_and(|at| self.tokens.is_reserved(at)) {
            // What follows it is not what the parser takes it for: `SELECT note, interval FROM users, orders`.
            return flow(Err::<(), _>(Refusal::because(format!(
                "the word {ident} was read as a name"
            ))));
        }
        flow(self.name(ident))
    }
}

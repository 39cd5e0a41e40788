//! The sharded tables of one shard: their logical and their physical names.

use std::borrow::Cow;
use std::sync::Arc;

use super::dialect::Dialect;
use super::numbers::{PlacedBy, TableNumbers, Which};
use super::pattern::Pattern;
use crate::algorithm::Rule;
use crate::name::KeyspaceName;

/// The tables of one shard that have physical names of their own.
#[derive(Debug)]
pub(crate) struct TableSet {
    pub(crate) dialect: Dialect,
    tables: Vec<ShardedTable>,
    /// The schema that names without one are in.
    default_schema: Option<String>,
}

/// One logical table and its physical ones.
#[derive(Clone, Debug)]
pub(crate) struct ShardedTable {
    pub(crate) keyspace: KeyspaceName,
    pub(crate) schema: Option<String>,
    /// The logical name, without a schema.
    pub(crate) name: String,
    pub(crate) key_column: String,
    pub(crate) parts: Parts,
    pub(crate) placed_by: PlacedBy,
}

/// The physical tables of a logical one.
#[derive(Clone, Debug)]
pub(crate) enum Parts {
    /// Their names, without a schema, by number.
    Numbered(Vec<String>),
    /// The rule of the keyspace names them, by the spread of the key.
    ByRule { rule: Arc<Rule>, pattern: Pattern },
}

impl PartialEq for Parts {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Numbered(one), Self::Numbered(other)) => one == other,
            (
                Self::ByRule { rule, pattern },
                Self::ByRule {
                    rule: other,
                    pattern: others,
                },
            ) => Arc::ptr_eq(rule, other) && pattern == others,
            _ => false,
        }
    }
}

impl ShardedTable {
    /// Into how many physical tables the shard splits it; 0 where the rule says so.
    pub(crate) fn count(&self) -> u32 {
        match &self.parts {
            Parts::Numbered(names) => u32::try_from(names.len()).unwrap_or(u32::MAX),
            Parts::ByRule { .. } => 0,
        }
    }

    /// Whether a route to tables of this keyspace was made by another rule, or for other tables: a reload
    /// came between it and the connection.
    pub(crate) fn is_stale(&self, numbers: TableNumbers) -> bool {
        numbers.keyspace == self.keyspace && numbers.placed_by != self.placed_by
    }

    /// The physical name, without a schema, that a route means.
    pub(crate) fn physical(&self, numbers: TableNumbers) -> Option<Cow<'_, str>> {
        if self.is_stale(numbers) {
            return None;
        }
        match &self.parts {
            Parts::Numbered(names) => {
                let number = numbers.of(self.keyspace, self.count())?;
                names.get(number as usize).map(|name| name.as_str().into())
            }
            Parts::ByRule { rule, pattern } => match numbers.which {
                Which::Spread(spread) if numbers.keyspace == self.keyspace => {
                    let part = rule.suffix(spread)?;
                    Some(pattern.by_rule(&self.name, &part).into())
                }
                _ => None,
            },
        }
    }

    /// What tells the physical table of a route apart from the others, for the names of what it owns.
    pub(crate) fn mark(&self, numbers: TableNumbers) -> Option<String> {
        if self.is_stale(numbers) {
            return None;
        }
        match &self.parts {
            Parts::Numbered(_) => Some(numbers.of(self.keyspace, self.count())?.to_string()),
            Parts::ByRule { rule, .. } => match numbers.which {
                Which::Spread(spread) => rule.suffix(spread),
                Which::Number { .. } => None,
            },
        }
    }

    /// Whether the rows of one key are under one number in both tables, so that they may be joined.
    pub(crate) fn is_bound_to(&self, other: &Self) -> bool {
        self.keyspace == other.keyspace && self.count() == other.count()
    }

    /// A physical name of this table as it is written in a statement, with its schema.
    #[cfg(feature = "migrations")]
    pub(crate) fn written(&self, dialect: Dialect, physical: &str) -> String {
        let name = dialect.write_name(physical, None);
        match &self.schema {
            Some(schema) => format!("{}.{name}", dialect.write_name(schema, None)),
            None => name,
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        (self.keyspace, &self.schema, &self.name, &self.key_column)
            == (
                other.keyspace,
                &other.schema,
                &other.name,
                &other.key_column,
            )
            && self.parts == other.parts
            && self.placed_by == other.placed_by
    }

    /// The name as the configuration has it.
    pub(crate) fn full_name(&self) -> String {
        self.in_schema(&self.name)
    }

    /// A name with the schema that the configuration has before this table's.
    pub(crate) fn in_schema(&self, name: &str) -> String {
        match &self.schema {
            Some(schema) => format!("{schema}.{name}"),
            None => name.to_owned(),
        }
    }
}

/// What a name in the place of a table means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The sharded table of this index.
    Table(usize),
    /// Some other table.
    Other,
    /// It may be a sharded table, depending on the session.
    Unclear,
}

impl TableSet {
    /// `database` is the schema of names without one, where the backend has none of its own (MySQL).
    pub(crate) fn new(dialect: Dialect, database: Option<&str>, tables: Vec<ShardedTable>) -> Self {
        Self {
            dialect,
            tables,
            default_schema: dialect.default_schema().or(database).map(str::to_owned),
        }
    }

    /// The tables of several shards that are one database, each with all of its parts.
    #[cfg(feature = "migrations")]
    pub(crate) fn with(&self, other: &Self) -> Self {
        let mut tables = self.tables.clone();
        for table in &other.tables {
            let known = tables.iter_mut().find(|known| {
                (known.keyspace, &known.schema, &known.name)
                    == (table.keyspace, &table.schema, &table.name)
            });
            match (known, &table.parts) {
                (None, _) => tables.push(table.clone()),
                (Some(known), Parts::Numbered(more)) => {
                    if let Parts::Numbered(names) = &mut known.parts {
                        for name in more {
                            if !names.contains(name) {
                                names.push(name.clone());
                            }
                        }
                    }
                }
                (Some(_), Parts::ByRule { .. }) => {}
            }
        }
        Self {
            dialect: self.dialect,
            tables,
            default_schema: self.default_schema.clone(),
        }
    }

    pub(crate) fn tables(&self) -> &[ShardedTable] {
        &self.tables
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Whether one set makes the same of every text as the other.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.dialect == other.dialect
            && self.tables.len() == other.tables.len()
            && std::iter::zip(&self.tables, &other.tables).all(|(one, other)| one.is_like(other))
            && self.default_schema == other.default_schema
    }

    /// Whether a name of the set occurs anywhere in a text, in any spelling: a quick look that lets
    /// nearly all texts pass which are none of our business.
    pub(crate) fn occurs_in(&self, text: &str) -> bool {
        self.tables
            .iter()
            .any(|table| contains_ignoring_case(text.as_bytes(), table.name.as_bytes()))
    }

    /// Whether a folded name is the last part of some logical name.
    pub(crate) fn is_name(&self, folded: &str) -> bool {
        self.tables.iter().any(|table| self.folds_to(table, folded))
    }

    fn folds_to(&self, table: &ShardedTable, folded: &str) -> bool {
        match self.dialect {
            Dialect::Sqlite => table.name.eq_ignore_ascii_case(folded),
            Dialect::Postgres | Dialect::Mysql => table.name == folded,
        }
    }

    /// What a folded name in the place of a table means.
    pub(crate) fn find(&self, schema: Option<&str>, name: &str) -> Meaning {
        let mut meaning = Meaning::Other;
        for (index, table) in self.tables.iter().enumerate() {
            if !self.folds_to(table, name) {
                continue;
            }
            let home = self.default_schema.as_deref();
            let found = match (table.schema.as_deref(), schema) {
                (None, None) => true,
                (None, written) => self.same_schema(written, home),
                (declared, Some(written)) => self.same_schema(Some(written), declared),
                (declared, None) => {
                    if !self.same_schema(declared, home) {
                        // Which schema a name without one is in, the session decides.
                        meaning = Meaning::Unclear;
                        continue;
                    }
                    true
                }
            };
            if found {
                return Meaning::Table(index);
            }
        }
        meaning
    }

    fn same_schema(&self, one: Option<&str>, other: Option<&str>) -> bool {
        match (one, other) {
            (Some(one), Some(other)) if self.dialect == Dialect::Sqlite => {
                one.eq_ignore_ascii_case(other)
            }
            (Some(one), Some(other)) => one == other,
            _ => false,
        }
    }
}

/// Whether a name occurs anywhere in a text.
pub(crate) fn contains_ignoring_case(text: &[u8], name: &[u8]) -> bool {
    let Some(first) = name.first() else {
        return false;
    };
    let (lower, upper) = (first.to_ascii_lowercase(), first.to_ascii_uppercase());
    text.len() >= name.len()
        && text[..=text.len() - name.len()]
            .iter()
            .enumerate()
            .any(|(at, byte)| {
                (*byte == lower || *byte == upper)
                    && text[at..at + name.len()].eq_ignore_ascii_case(name)
            })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(schema: Option<&str>, name: &str) -> ShardedTable {
        ShardedTable {
            keyspace: KeyspaceName::intern("orders"),
            schema: schema.map(str::to_owned),
            name: name.to_owned(),
            key_column: "user_id".to_owned(),
            parts: Parts::Numbered(vec![format!("{name}_0"), format!("{name}_1")]),
            placed_by: PlacedBy(1),
        }
    }

    #[test]
    fn a_schema_says_which_table_is_meant() {
        let plain = TableSet::new(Dialect::Postgres, None, vec![table(None, "orders")]);
        assert_eq!(plain.find(None, "orders"), Meaning::Table(0));
        assert_eq!(plain.find(Some("public"), "orders"), Meaning::Table(0));
        assert_eq!(plain.find(Some("archive"), "orders"), Meaning::Other);
        assert_eq!(plain.find(None, "orders_0"), Meaning::Other);
        let shop = TableSet::new(Dialect::Postgres, None, vec![table(Some("shop"), "orders")]);
        assert_eq!(shop.find(Some("shop"), "orders"), Meaning::Table(0));
        assert_eq!(shop.find(Some("archive"), "orders"), Meaning::Other);
        assert_eq!(shop.find(None, "orders"), Meaning::Unclear);
        let public = TableSet::new(
            Dialect::Postgres,
            None,
            vec![table(Some("public"), "orders")],
        );
        assert_eq!(public.find(None, "orders"), Meaning::Table(0));
        let mysql = TableSet::new(Dialect::Mysql, Some("shop"), vec![table(None, "orders")]);
        assert_eq!(mysql.find(Some("shop"), "orders"), Meaning::Table(0));
        assert_eq!(mysql.find(Some("SHOP"), "orders"), Meaning::Other);
    }

    #[test]
    fn the_quick_look_misses_no_spelling() {
        let set = TableSet::new(Dialect::Sqlite, None, vec![table(None, "orders")]);
        for text in ["orders", "x ORDERS", "\"Orders\"", "reorders", "oorders"] {
            assert!(set.occurs_in(text), "{text}");
        }
        for text in ["", "order", "o", "rders"] {
            assert!(!set.occurs_in(text), "{text}");
        }
    }
}

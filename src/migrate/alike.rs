//! Whether the physical tables of one logical table look alike, on all shards. Pure: it works on the lines
//! that make up the schemas of the databases.
//!
//! Each line of a schema that is about a physical table is turned into one about the logical table: its
//! name, and the names of what it owns, lose what tells the part apart. Then all parts of a table, wherever
//! they are, should have the same lines; those that differ from most are told.

mod lines;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;

use super::parts::TableParts;
use crate::rewrite::{Dialect, Parts, TableSet};
use lines::{fold, normalized, owner, retired};

/// A physical table that is not what its siblings are: the other parts of the same logical table, on all
/// shards with the same migrations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TableDifference {
    /// The logical table.
    pub table: String,
    /// The physical one.
    pub part: String,
    /// It is not there.
    pub absent: bool,
    /// What most of its siblings have and it has not, by logical names, one line for each thing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// What it has and most of its siblings have not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extra: Vec<String>,
}

/// One physical table.
#[derive(Debug)]
struct Part {
    name: String,
    /// What tells it apart from the others, at the end of names of what it owns; first as the crate writes
    /// it, then as it stands in the table's name.
    marks: Vec<String>,
    /// Its folded name without a schema, where the server names what a table owns after it and cuts such names.
    namesake: Option<String>,
    /// It should be there.
    is_expected: bool,
    lines: BTreeSet<String>,
}

impl Part {
    /// Adds a line; where one says the same already, as a further one: names that the server made are left out, so
    /// two indexes may read alike.
    fn add(&mut self, mut line: String) {
        while self.lines.contains(&line) {
            line.push_str(" (again)");
        }
        self.lines.insert(line);
    }
}

/// The schema of one database, taken apart.
#[derive(Debug, Default)]
pub(super) struct Anatomy {
    /// Lines that are about no physical table.
    pub(super) rest: Vec<String>,
    /// By logical table.
    tables: BTreeMap<String, Vec<Part>>,
}

impl Anatomy {
    /// Takes the lines of a database apart.
    pub(super) fn of(lines: Vec<String>, set: Option<&TableSet>, by_rule: &[TableParts]) -> Self {
        let Some(set) = set else {
            return Self {
                rest: lines,
                tables: BTreeMap::new(),
            };
        };
        let mut anatomy = Self::default();
        // Where a physical name leads: the table, the position of the part, and the logical name.
        let mut places: HashMap<String, (String, usize)> = HashMap::new();
        let mut logical: HashMap<String, (String, String)> = HashMap::new();
        for (at, table) in set.tables().iter().enumerate() {
            let full = table.full_name();
            let parts: Vec<(String, String, bool)> = match &table.parts {
                Parts::Numbered(names) => (0..)
                    .zip(names)
                    .map(|(number, name): (u32, _)| (name.clone(), number.to_string(), true))
                    .collect(),
                Parts::ByRule { rule, .. } => {
                    let own = by_rule.iter().find(|own| own.at == at);
                    let parts = own.into_iter().flat_map(|own| {
                        own.parts.iter().map(|part| {
                            let mark = rule.suffix(part.spread).unwrap_or_default();
                            (part.name.clone(), mark, own.is_wanted(part))
                        })
                    });
                    parts.collect()
                }
            };
            for (name, mark, is_expected) in parts {
                let own = anatomy.tables.entry(full.clone()).or_default();
                let key = fold(&name);
                logical.insert(key.clone(), (table.name.clone(), mark.clone()));
                places.insert(key.clone(), (full.clone(), own.len()));
                let digits = name.split(|c: char| !c.is_ascii_digit());
                let written = digits.filter(|run| !run.is_empty()).map(str::to_owned);
                own.push(Part {
                    marks: std::iter::once(mark).chain(written).collect(),
                    name: table.in_schema(&name),
                    namesake: (set.dialect == Dialect::Postgres).then_some(key),
                    is_expected,
                    lines: BTreeSet::new(),
                });
            }
        }
        for line in lines {
            let found = owner(&line, &places).cloned();
            let part = found.and_then(|(table, at)| anatomy.tables.get_mut(&table)?.get_mut(at));
            match part {
                Some(part) => {
                    let line = normalized(&line, part, &logical);
                    part.add(line);
                }
                None if retired(&line, set, by_rule) => {}
                None => anatomy.rest.push(line),
            }
        }
        anatomy
    }

    /// Everything that is told of the physical tables, whatever they are called and however many there are:
    /// for the fingerprint.
    pub(super) fn of_tables(&self) -> impl Iterator<Item = String> {
        let looks = self.tables.iter().flat_map(|(table, parts)| {
            let looks: BTreeSet<&BTreeSet<String>> = parts
                .iter()
                .filter(|part| !part.lines.is_empty())
                .map(|part| &part.lines)
                .collect();
            looks.into_iter().map(move |lines| {
                let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
                format!("parts of {table}: {}", lines.join("; "))
            })
        });
        looks.collect::<Vec<_>>().into_iter()
    }
}

/// The differences of each database, in the order of the databases, which all have the same migrations.
pub(super) fn compare(databases: &[&Anatomy]) -> Vec<Vec<TableDifference>> {
    let mut differences: Vec<Vec<TableDifference>> = vec![Vec::new(); databases.len()];
    let tables: BTreeSet<&String> = databases.iter().flat_map(|one| one.tables.keys()).collect();
    for table in tables {
        let parts = || {
            let all = databases.iter().enumerate();
            all.flat_map(|(at, one)| {
                let own = one.tables.get(table).into_iter().flatten();
                own.map(move |part| (at, part))
            })
        };
        let mut looks: BTreeMap<&BTreeSet<String>, usize> = BTreeMap::new();
        for (_, part) in parts().filter(|(_, part)| !part.lines.is_empty()) {
            *looks.entry(&part.lines).or_default() += 1;
        }
        // Nowhere: it was not made yet.
        let Some(model) = looks
            .iter()
            .max_by_key(|(_, count)| **count)
            .map(|(lines, _)| *lines)
        else {
            continue;
        };
        for (at, part) in parts() {
            let absent = part.lines.is_empty();
            if part.lines == *model || absent && !part.is_expected {
                continue;
            }
            let without = |one: &BTreeSet<String>, other: &BTreeSet<String>| -> Vec<String> {
                one.difference(other).cloned().collect()
            };
            let (missing, extra) = if absent {
                (Vec::new(), Vec::new())
            } else {
                (without(model, &part.lines), without(&part.lines, model))
            };
            differences[at].push(TableDifference {
                table: table.clone(),
                part: part.name.clone(),
                absent,
                missing,
                extra,
            });
        }
    }
    differences
}

/// Tells what is different, in one line.
impl std::fmt::Display for TableDifference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (a part of {})", self.part, self.table)?;
        if self.absent {
            return f.write_str(" is not there");
        }
        let mut word = " lacks ";
        for line in &self.missing {
            write!(f, "{word}{line}")?;
            word = "; ";
        }
        word = if self.missing.is_empty() {
            " has in addition "
        } else {
            "; has instead "
        };
        for line in &self.extra {
            write!(f, "{word}{line}")?;
            word = "; ";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::KeyspaceName;
    use crate::rewrite::ShardedTable;

    fn set(names: &[&str]) -> TableSet {
        let table = |name: &str, parts: Vec<String>| ShardedTable {
            keyspace: KeyspaceName::intern("k"),
            schema: None,
            name: name.to_owned(),
            key_column: "id".to_owned(),
            parts: Parts::Numbered(parts),
            placed_by: crate::rewrite::PlacedBy(1),
        };
        let orders = names.iter().map(|end| format!("orders_{end}")).collect();
        let items = names.iter().map(|end| format!("items_{end}")).collect();
        let tables = vec![table("orders", orders), table("items", items)];
        TableSet::new(Dialect::Postgres, None, tables)
    }

    fn anatomy(names: &[&str], lines: &[&str]) -> Anatomy {
        let lines = lines.iter().map(|&line| line.to_owned()).collect();
        Anatomy::of(lines, Some(&set(names)), &[])
    }

    #[test]
    fn what_is_of_a_part_is_told_in_logical_names() {
        for (line, expected) in [
            ("table orders_1", "table orders"),
            ("column orders_1.addr_1 text", "column orders.addr_1 text"),
            (
                "column orders_1.id bigint default nextval('orders_1_id_seq'::regclass)",
                "column orders.id bigint default nextval('orders_seq'::regclass)",
            ),
            ("sequence orders_1_id_seq", "sequence orders_seq"),
            (
                "sequence public.orders_1_id_seq3 of public.orders_1.id",
                "sequence public.orders_seq of public.orders.id",
            ),
            (
                "sequence by_hand of orders_1.id",
                "sequence by_hand of orders.id",
            ),
            (
                "CREATE INDEX orders_1_user_id_idx12 ON public.orders_1 USING btree (user_id)",
                "CREATE INDEX orders_idx ON public.orders USING btree (user_id)",
            ),
            (
                "constraint orders_1.orders_1_user_id_check CHECK (user_id > 0)",
                "constraint orders.orders_check CHECK (user_id > 0)",
            ),
            (
                "CREATE INDEX ix_user_1 ON public.orders_1 USING btree (user_1)",
                "CREATE INDEX ix_user ON public.orders USING btree (user_1)",
            ),
            (
                "CREATE UNIQUE INDEX orders_1_pkey ON public.orders_1 USING btree (id)",
                "CREATE UNIQUE INDEX orders_pkey ON public.orders USING btree (id)",
            ),
            (
                "constraint orders_1.fk_1 FOREIGN KEY (a_1) REFERENCES items_1(id)",
                "constraint orders.fk FOREIGN KEY (a_1) REFERENCES items(id)",
            ),
            // Another part: it is not what its siblings do.
            (
                "constraint orders_1.fk_1 FOREIGN KEY (a) REFERENCES items_0(id)",
                "constraint orders.fk FOREIGN KEY (a) REFERENCES items_0(id)",
            ),
            (
                "index ix_user_1: CREATE INDEX ix_user_1 ON orders_1 (user_id)",
                "index ix_user: CREATE INDEX ix_user ON orders (user_id)",
            ),
            (
                "table orders_1: CREATE TABLE orders_1 (id, CONSTRAINT few_1 CHECK (id > 1))",
                "table orders: CREATE TABLE orders (id, CONSTRAINT few CHECK (id > 1))",
            ),
            (
                "unique index orders_1.few_1 BTREE (id)",
                "unique index orders.few BTREE (id)",
            ),
        ] {
            let found = anatomy(&["0", "1"], &[line]);
            let lines = &found.tables["orders"][1].lines;
            assert_eq!(lines.iter().collect::<Vec<_>>(), [expected]);
            assert!(found.rest.is_empty());
        }
        for line in [
            "view v: SELECT * FROM orders_1",
            "table notes",
            "table orders_2",
            "sequence other_seq",
        ] {
            assert_eq!(anatomy(&["0", "1"], &[line]).rest, [line]);
        }
    }

    #[test]
    fn the_part_that_differs_is_told_and_not_its_siblings() {
        let sound = [
            "table orders_0",
            "column orders_0.id",
            "table orders_1",
            "column orders_1.id",
        ];
        let a = anatomy(&["0", "1"], &sound);
        let b = anatomy(
            &["002", "003"],
            &[
                "table orders_002",
                "column orders_002.id",
                "column orders_002.x",
                "table orders_003",
            ],
        );
        let c = anatomy(&["0", "1"], &sound[..2]);
        let found = compare(&[&a, &b, &c]);
        let told = |at: usize| {
            found[at]
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(told(0), [""; 0]);
        assert_eq!(
            told(1),
            [
                "orders_002 (a part of orders) has in addition column orders.x",
                "orders_003 (a part of orders) lacks column orders.id",
            ]
        );
        // items is nowhere, and so not missing.
        assert_eq!(told(2), ["orders_1 (a part of orders) is not there"]);
    }

    #[test]
    fn a_fingerprint_knows_no_names_of_parts() {
        let one = anatomy(&["0", "1"], &["table orders_0", "table orders_1"]);
        let other = anatomy(&["2", "3"], &["table orders_2", "table orders_3"]);
        assert!(one.of_tables().eq(other.of_tables()));
        assert_eq!(one.of_tables().count(), 1);
    }
}

//! The names of all physical tables: that each is one, is short enough, and stands for one table.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::super::url::UrlKind;
use super::Findings;
use super::tables::{Declared, MAX_IDENTIFIER, is_identifier};
use crate::algorithm::Rule;
use crate::rewrite::Dialect;

/// The longest identifier of MySQL, in characters. All names are ASCII here.
const MAX_IDENTIFIER_MYSQL: usize = 64;

/// A table as one shard sees it: which one, and the position of the shard where its names depend on it.
type Seen = (usize, usize);

/// Checks the names of all physical tables, shard by shard: that each is one, is short enough and
/// stands for one table. `rules` has a rule for each table, where it could be built.
pub(super) fn check(
    declared: &[Declared<'_>],
    rules: &[Option<&Rule>],
    kinds: &HashMap<&str, Option<UrlKind>>,
    findings: &mut Findings,
) {
    let mut by_shard: BTreeMap<&str, Vec<Seen>> = BTreeMap::new();
    for (at, one) in declared.iter().enumerate() {
        for (position, shard) in one.shards.iter().enumerate() {
            let position = if one.table.pattern.is_global() {
                position
            } else {
                0
            };
            let seen = by_shard.entry(shard).or_default();
            // A shard that is listed twice is told elsewhere.
            if !seen.iter().any(|(other, _)| *other == at) {
                seen.push((at, position));
            }
        }
    }
    let mut names = Names {
        declared,
        told: HashSet::new(),
        findings,
    };
    // Most shards of a fleet hold tables of the same names.
    let mut done: HashSet<(Vec<Seen>, Option<UrlKind>)> = HashSet::new();
    for (shard, tables) in by_shard {
        let kind = kinds.get(shard).copied().flatten();
        if done.insert((tables.clone(), kind)) {
            names.check_shard(&tables, rules, kind);
        }
    }
}

/// A name as names are compared: without case, as most databases do, and without the schema that a name without one
/// is in.
fn comparable(name: &str, kind: Option<UrlKind>) -> String {
    let folded = name.to_ascii_lowercase();
    let home = match kind {
        Some(UrlKind::Postgres) => Dialect::Postgres.default_schema(),
        Some(UrlKind::Sqlite) => Dialect::Sqlite.default_schema(),
        Some(UrlKind::Mysql) | None => None,
    };
    let own = folded
        .split_once('.')
        .filter(|(schema, _)| Some(*schema) == home);
    own.map_or_else(|| folded.clone(), |(_, own)| own.to_owned())
}

/// The comparison of all names.
struct Names<'a, 's> {
    declared: &'a [Declared<'s>],
    /// Each pair of tables, and each name, is told of once.
    told: HashSet<(usize, usize)>,
    findings: &'a mut Findings,
}

impl Names<'_, '_> {
    fn check_shard(&mut self, tables: &[Seen], rules: &[Option<&Rule>], kind: Option<UrlKind>) {
        let longest = match kind {
            Some(UrlKind::Mysql) => MAX_IDENTIFIER_MYSQL,
            _ => MAX_IDENTIFIER,
        };
        let declared = self.declared;
        let mut logical: HashMap<String, usize> = HashMap::new();
        for (at, _) in tables {
            let one = &declared[*at];
            if let Some(other) = logical.insert(comparable(&one.table.name, kind), *at) {
                self.tell(*at, other, |other| {
                    if other.table.name.contains('.') != one.table.name.contains('.') {
                        return format!(
                            "table {} of keyspace {} and table {} of keyspace {} are the same table of a shard: keep one of them",
                            one.table.name, one.keyspace, other.table.name, other.keyspace
                        );
                    }
                    format!(
                        "table {} of keyspace {} is declared in keyspace {} too, and the two share a shard",
                        one.table.name, one.keyspace, other.keyspace
                    )
                });
            }
            self.check_length(*at, &one.table.name, &one.key, longest);
        }
        let mut physical: HashMap<String, Seen> = HashMap::new();
        for (at, position) in tables {
            let table = &declared[*at].table;
            if !table.is_physical() {
                continue;
            }
            let parts = match (table.by_rule, rules[*at]) {
                (true, None) => continue,
                (true, Some(rule)) => table
                    .every_part(rule, *position)
                    .into_iter()
                    .map(|(_, part)| part)
                    .collect(),
                (false, _) => (0..table.count)
                    .map(|number| table.part(*position, number))
                    .collect::<Vec<String>>(),
            };
            self.check_own(*at, &parts, longest);
            for (number, part) in parts.into_iter().enumerate() {
                let folded = comparable(&part, kind);
                if let Some(other) = logical.get(&folded).filter(|_| !table.by_rule) {
                    self.bears_name_of_part(*other, *at, number);
                }
                // Numbers that differ are written differently, so two parts of one table never meet.
                if let Some((other, of)) = physical.insert(folded, (*at, number)) {
                    self.meets(*at, number, &part, (other, of));
                }
            }
            if table.by_rule {
                self.may_be_a_part(*at, tables);
            }
        }
    }

    /// Tells the first of two tables that it and the other get in each other's way.
    fn tell(&mut self, at: usize, other: usize, message: impl Fn(&Declared<'_>) -> String) {
        if self.told.insert((at.max(other), at.min(other))) {
            let message = message(&self.declared[other]);
            self.findings.problem(&self.declared[at].key, message);
        }
    }

    fn check_length(&mut self, at: usize, name: &str, key: &str, longest: usize) {
        let too_long = name.split('.').any(|part| part.len() > longest);
        // A table is told of the longest of its names at most once.
        if too_long && self.told.insert((at, usize::MAX)) {
            self.findings.problem(
                key,
                format!(
                    "the name {name} is longer than {longest} bytes, and a database would cut or refuse it: choose a shorter name"
                ),
            );
        }
    }

    /// What can be wrong with the names of one table's parts alone.
    fn check_own(&mut self, at: usize, parts: &[String], longest: usize) {
        let declared = self.declared;
        let one = &declared[at];
        if let Some(name) = parts.iter().max_by_key(|name| name.len()) {
            self.check_length(at, name, &one.named_by, longest);
        }
        let wrong = parts.first().filter(|name| {
            let name = name.rsplit('.').next().unwrap_or(name);
            !is_identifier(name)
        });
        if let Some(name) = wrong
            && self.told.insert((at, usize::MAX - 1))
        {
            self.findings.problem(
                &one.named_by,
                format!("{name:?} is no name for a table: begin the pattern with a letter, `_` or {{name}}"),
            );
        }
    }

    fn bears_name_of_part(&mut self, at: usize, of: usize, number: usize) {
        let (one, other) = (&self.declared[at], &self.declared[of]);
        // One part, and it has the table's own name but for its case.
        if at == of && other.table.count == 1 {
            return;
        }
        let split = match other.table.count {
            1 => String::new(),
            count => format!(", which is split into {count}"),
        };
        let advice = if at == of {
            "take another pattern"
        } else {
            "rename one of them"
        };
        let message = format!(
            "table {} has the name of part {number} of table {}{split}: {advice}",
            one.table.name, other.table.name
        );
        self.tell(at, of, |_| message.clone());
    }

    /// Two physical tables would be one.
    fn meets(&mut self, at: usize, number: usize, name: &str, (other, of): Seen) {
        let part = |at: usize, number: usize| {
            let table = &self.declared[at].table;
            if table.by_rule {
                format!("a part of table {}", table.name)
            } else {
                format!("part {number} of table {}", table.name)
            }
        };
        let message = format!(
            "{} and {} would both be the table {name}: take another pattern for one of them",
            part(at, number),
            part(other, of)
        );
        if self.told.insert((at.max(other), at.min(other))) {
            let key = self.declared[at].named_by.clone();
            self.findings.problem(key, message);
        }
    }

    /// A plan may be extended, so any table that looks like a part of it is in its way.
    fn may_be_a_part(&mut self, of: usize, tables: &[Seen]) {
        let declared = self.declared;
        let dated = &declared[of].table;
        let (schema, name) = dated.split_name();
        for (at, _) in tables {
            let other = &declared[*at].table;
            let (other_schema, other_name) = other.split_name();
            if *at != of
                && schema == other_schema
                && dated
                    .pattern
                    .may_name(name, &other_name.to_ascii_lowercase())
            {
                self.tell(*at, of, |_| {
                    format!(
                        "table {} may have the name of a part of table {}, whose parts the rule names: rename one of them",
                        other.name, dated.name
                    )
                });
            }
        }
    }
}

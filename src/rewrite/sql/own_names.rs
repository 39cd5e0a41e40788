//! What migrations call indexes and constraints of sharded tables, for the statements that name nothing else:
//! `DROP INDEX ix_user`.

use std::collections::{HashMap, HashSet};

use sqlparser::tokenizer::Token;

use super::super::{Dialect, Parts, TableSet};
use super::owned::may_be_made;
use super::template::{Hole, Template};
use super::tokens::Tokens;
use super::{Analysis, Origin, Refusal, analyze_knowing};

/// The names that statements give, folded.
#[derive(Debug, Default)]
pub(crate) struct OwnNames {
    /// Of what sharded tables own, with the table of each.
    given: HashMap<String, usize>,
    /// Of everything else that is made.
    others: HashSet<String>,
}

impl OwnNames {
    /// Reads the names off statements, which come in the order in which they are run.
    pub(crate) fn of<'t>(set: &TableSet, statements: impl IntoIterator<Item = &'t str>) -> Self {
        let mut names = Self::default();
        for text in statements {
            let template = match analyze_knowing(set, text, Origin::Anyone, &|_| true) {
                Ok(Analysis::Template(template)) => Some(template),
                Ok(Analysis::Untouched) => {
                    names.note_others(set, text);
                    names.template(set, text).ok().flatten()
                }
                Err(_) => None,
            };
            if let Some(template) = template {
                let owned = template.owned().map(|(name, is_quoted, table)| {
                    (set.dialect.fold(name, is_quoted).into_owned(), table)
                });
                let is_doubtful = |name: &String| template.doubts().any(|doubt| doubt == name);
                names
                    .given
                    .extend(owned.filter(|(name, _)| !is_doubtful(name)));
            }
        }
        names
    }

    /// What a statement makes that is about no sharded table.
    fn note_others(&mut self, set: &TableSet, text: &str) {
        let Ok(tokens) = Tokens::read(set, text) else {
            return;
        };
        let begin = tokens.list.iter().map(|token| &token.token);
        let begin = begin.take_while(|token| !matches!(token, Token::LParen));
        let mut words = begin.filter_map(|token| match token {
            Token::Word(word) => Some(word),
            _ => None,
        });
        if words
            .next()
            .is_some_and(|first| first.value.eq_ignore_ascii_case("create"))
        {
            self.others.extend(words.map(|word| {
                let is_quoted = word.quote_style.is_some();
                set.dialect.fold(&word.value, is_quoted).into_owned()
            }));
        }
    }

    /// Whether a clause gave this folded name to something that a sharded table owns.
    pub(crate) fn is_given(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// The template of a statement over an index that is named alone, where it is one of these.
    ///
    /// # Errors
    ///
    /// An index or a sequence whose name the server may have made, for a table that has another name.
    pub(crate) fn template(&self, set: &TableSet, text: &str) -> Result<Option<Template>, Refusal> {
        // Indexes of MySQL are never named without their table.
        if set.dialect == Dialect::Mysql {
            return Ok(None);
        }
        let tokens = Tokens::read(set, text)?;
        let mut words = Vec::new();
        for (at, token) in tokens.list.iter().enumerate() {
            if let Token::Word(word) = &token.token {
                words.push((at, word));
            }
        }
        let is = |nth: usize, known: &[&str]| {
            words.get(nth).is_some_and(|(_, word)| {
                let same = |known: &&str| word.value.eq_ignore_ascii_case(known);
                word.quote_style.is_none() && known.iter().any(same)
            })
        };
        if !(is(0, &["drop", "alter", "reindex"]) && is(1, &["index", "sequence"])) {
            return Ok(None);
        }
        let mut holes: Vec<Hole> = Vec::new();
        for (nth, (at, word)) in words.iter().enumerate().skip(2) {
            let name = set.dialect.fold(&word.value, word.quote_style.is_some());
            let new_name = || {
                let is_new = is(nth - 1, &["to"]) && is(nth - 2, &["rename"]);
                holes.last().filter(|_| is_new).map(|hole| hole.table)
            };
            let known = self.given.get(&*name).copied();
            let known = known.filter(|_| !self.others.contains(&*name));
            if let Some(table) = known.or_else(new_name) {
                holes.push(Hole {
                    bytes: tokens.range(*at),
                    table,
                    quote: word.quote_style,
                    own: Some(word.value.clone()),
                });
            } else if self.may_be_of_a_part(set, &name) {
                return Err(Refusal::because(format!(
                    "{name} may be a name that the server made, which differs in each physical table: give indexes names of their own, and write the physical names of this one, a statement each"
                )));
            }
        }
        Ok((!holes.is_empty()).then(|| Template::new(text, holes, Vec::new())))
    }

    /// Whether a name looks like one that the server made for something of a sharded table, as it is where the
    /// table is not split.
    fn may_be_of_a_part(&self, set: &TableSet, name: &str) -> bool {
        let of = |owner: &str| {
            let rest = name.strip_prefix(owner);
            rest.is_some_and(|rest| rest.starts_with('_'))
        };
        let is_other = || self.others.iter().any(|other| other == name);
        let is_physical = || {
            set.tables().iter().any(|table| match &table.parts {
                Parts::Numbered(names) => names.iter().any(|part| of(part)),
                Parts::ByRule { pattern, .. } => name
                    .match_indices('_')
                    .any(|(at, _)| pattern.may_name(&table.name, &name[..at])),
            })
        };
        set.tables().iter().any(|table| {
            let longer = |other: &String| {
                other.len() > table.name.len() && other.starts_with(&table.name) && of(other)
            };
            may_be_made(set.dialect, &table.name, name)
                && !is_other()
                && !is_physical()
                && !self.others.iter().any(longer)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{TableNumbers, Which};
    use super::super::samples::{PLACED_BY, set};
    use super::*;
    use crate::name::KeyspaceName;

    const MADE: [&str; 5] = [
        "CREATE TABLE orders (id BIGINT PRIMARY KEY, code TEXT UNIQUE, CONSTRAINT orders_few_check CHECK (id > 1))",
        "CREATE INDEX ix_user ON orders (user_id)",
        "CREATE TABLE orders_archive (id BIGINT PRIMARY KEY, code TEXT UNIQUE)",
        "CREATE INDEX orders_by_hand_idx ON users (id)",
        "ALTER INDEX ix_user RENAME TO \"Ix_user2\"",
    ];

    fn rewritten(dialect: Dialect, text: &str) -> Result<Option<String>, Refusal> {
        let set = set(dialect);
        let numbers = TableNumbers {
            keyspace: KeyspaceName::intern("orders"),
            which: Which::Spread(3),
            placed_by: PLACED_BY,
        };
        let names = OwnNames::of(&set, MADE);
        let template =
            match analyze_knowing(&set, text, Origin::Anyone, &|name| names.is_given(name))? {
                Analysis::Template(template) => Some(template),
                Analysis::Untouched => names.template(&set, text)?,
            };
        Ok(template.map(|template| {
            template
                .render(&set, Some(numbers))
                .expect("a number of the set")
        }))
    }

    #[test]
    fn names_that_were_given_are_those_of_the_parts() {
        for (text, becomes) in [
            (
                "DROP INDEX IF EXISTS IX_USER",
                "DROP INDEX IF EXISTS IX_USER_3",
            ),
            (
                "DROP INDEX public.\"Ix_user2\"",
                "DROP INDEX public.\"Ix_user2_3\"",
            ),
            (
                "ALTER INDEX ix_user RENAME TO ix_user2",
                "ALTER INDEX ix_user_3 RENAME TO ix_user2_3",
            ),
            (
                "ALTER TABLE orders DROP CONSTRAINT orders_few_check",
                "ALTER TABLE orders_3 DROP CONSTRAINT orders_few_check_3",
            ),
            (
                "ALTER TABLE orders RENAME CONSTRAINT few TO less",
                "ALTER TABLE orders_3 RENAME CONSTRAINT few_3 TO less_3",
            ),
        ] {
            let found = rewritten(Dialect::Postgres, text);
            let expected = becomes.replace("IX_USER_3", "\"IX_USER_3\"");
            assert_eq!(found.expect(text).expect(text), expected);
        }
    }

    #[test]
    fn names_that_the_server_may_have_made_are_refused() {
        for text in [
            "ALTER TABLE orders DROP CONSTRAINT IF EXISTS orders_code_key",
            "ALTER TABLE orders DROP CONSTRAINT orders_code_key1",
            "ALTER TABLE orders RENAME CONSTRAINT orders_user_id_fkey TO fk",
            "ALTER TABLE orders VALIDATE CONSTRAINT \"orders_qty_check\"",
            "DROP INDEX IF EXISTS orders_qty_idx",
            "DROP INDEX CONCURRENTLY public.orders_qty_idx1",
            "ALTER INDEX orders_qty_idx RENAME TO ix_qty",
            "ALTER SEQUENCE IF EXISTS orders_id_seq RESTART",
            "DROP SEQUENCE orders_id_seq",
        ] {
            assert!(
                matches!(rewritten(Dialect::Postgres, text), Err(Refusal::Unclear(_))),
                "{text}"
            );
        }
        for text in [
            "ALTER TABLE orders DROP FOREIGN KEY orders_ibfk_1",
            "ALTER TABLE orders DROP CONSTRAINT orders_chk_12",
            "ALTER TABLE orders DROP CONSTRAINT IF EXISTS CONSTRAINT_1",
        ] {
            assert!(
                matches!(rewritten(Dialect::Mysql, text), Err(Refusal::Unclear(_))),
                "{text}"
            );
        }
    }

    #[test]
    fn names_of_other_things_stay() {
        for text in [
            "DROP INDEX users_code_idx",
            "DROP INDEX orders_by_hand_idx",
            "DROP INDEX orders_archive_code_key",
            "DROP INDEX orders_3_qty_idx",
            "ALTER SEQUENCE orders_3_id_seq RESTART",
            "ALTER SEQUENCE tickets RESTART",
        ] {
            assert_eq!(rewritten(Dialect::Postgres, text), Ok(None), "{text}");
        }
        assert_eq!(
            rewritten(Dialect::Mysql, "DROP INDEX ix_user ON users"),
            Ok(None)
        );
        let own = rewritten(Dialect::Mysql, "ALTER TABLE orders DROP FOREIGN KEY fk");
        assert_eq!(
            own,
            Ok(Some(
                "ALTER TABLE orders_3 DROP FOREIGN KEY fk_3".to_owned()
            ))
        );
    }
}

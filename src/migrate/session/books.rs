//! Reading and writing what is recorded in a database.

use std::collections::BTreeMap;

use diesel::connection::SimpleConnection;
use diesel::migration::CREATE_MIGRATIONS_TABLE;
use diesel::prelude::*;
use diesel::result::Error as DieselError;
use diesel::sql_types::Text;

use super::tables::{
    __diesel_schema_migrations as schema_migrations, diesel_sharded_internal as internal,
    diesel_sharded_migration as migration,
};
use super::{Progress, Session, now, tables};
use crate::blocking::{IdentityRow, NodeConnection};
use crate::migrate::event::Direction;
use crate::migrate::source::Migration;
use crate::topology::UrlKind;

/// Everything that is recorded in one database.
#[derive(Clone, Debug, Default)]
pub(in crate::migrate) struct Books {
    /// By Diesel's table; what else is known of each, by ours.
    pub(in crate::migrate) applied: BTreeMap<String, Applied>,
    pub(in crate::migrate) progress: Vec<Progress>,
    pub(in crate::migrate) identity: Vec<IdentityRow>,
    /// Every table that is kept is there.
    pub(in crate::migrate) is_set_up: bool,
    /// The crate's own migrations that are applied.
    internal: Vec<String>,
    /// Ours remembers versions that are not applied any more: somebody else has reverted them.
    is_stale: bool,
}

/// What is remembered of an applied migration, beside its version.
#[derive(Clone, Debug, Default)]
pub(in crate::migrate) struct Applied {
    /// Empty where somebody else applied it.
    pub(in crate::migrate) name: Option<String>,
    pub(in crate::migrate) checksum: Option<String>,
}

/// The crate's own migrations that are not applied yet.
fn missing(kind: UrlKind, books: &Books) -> impl Iterator<Item = (&'static str, &'static str)> {
    tables::internal(kind)
        .into_iter()
        .filter(|(version, _)| !books.internal.iter().any(|known| known == version))
}

impl Session {
    /// Reads everything that is recorded; changes nothing, also where nothing is recorded yet.
    pub(in crate::migrate) fn read_books(&mut self) -> QueryResult<Books> {
        let kind = self.kind;
        let there = self.kept()?;
        let is_there = |name: &str| there.iter().any(|table| table == name);
        let mut books = Books::default();
        if is_there("__diesel_schema_migrations") {
            let versions: Vec<String> = schema_migrations::table
                .select(schema_migrations::version)
                .load(&mut self.conn)?;
            books.applied = versions
                .into_iter()
                .map(|version| (version, Applied::default()))
                .collect();
        }
        if is_there("diesel_sharded_migration") {
            let known: Vec<(String, String, Option<String>)> = migration::table
                .select((migration::version, migration::name, migration::checksum))
                .load(&mut self.conn)?;
            for (version, name, checksum) in known {
                match books.applied.get_mut(&version) {
                    Some(applied) => {
                        applied.name = Some(name);
                        applied.checksum = checksum;
                    }
                    None => books.is_stale = true,
                }
            }
        }
        if is_there("diesel_sharded_progress") {
            books.progress = self.progress_of(&there)?;
        }
        if is_there("diesel_sharded_identity") {
            books.identity = self.conn.read_identity()?;
        }
        if is_there("diesel_sharded_internal") {
            books.internal = internal::table
                .select(internal::version)
                .load(&mut self.conn)?;
            books.is_set_up =
                is_there("__diesel_schema_migrations") && missing(kind, &books).next().is_none();
        }
        Ok(books)
    }

    /// Makes every table that is kept and not there, forgets what is not so any more, and writes whose
    /// data the database holds, where it does not say so: in one transaction where that is possible.
    pub(in crate::migrate) fn set_up(
        &mut self,
        books: &Books,
        identity: Option<&[IdentityRow]>,
    ) -> QueryResult<()> {
        if books.is_set_up && !books.is_stale && identity.is_none() {
            return Ok(());
        }
        match self.kind {
            // Making a table commits, so there is nothing to be gained; every part can be repeated.
            UrlKind::Mysql => self.put_in_order(books, identity),
            UrlKind::Sqlite | UrlKind::Postgres => {
                self.transact(|session| session.put_in_order(books, identity))
            }
        }
    }

    fn put_in_order(&mut self, books: &Books, identity: Option<&[IdentityRow]>) -> QueryResult<()> {
        if !books.is_set_up {
            let mut script = CREATE_MIGRATIONS_TABLE.trim_end().to_owned();
            if !script.ends_with(';') {
                script.push(';');
            }
            for (version, text) in missing(self.kind, books) {
                script.push_str(text);
                script.push_str("INSERT INTO diesel_sharded_internal (version) VALUES ('");
                script.push_str(version);
                script.push_str("');\n");
            }
            self.conn.batch_execute(&script)?;
        }
        if books.is_stale {
            self.conn.batch_execute(
                "DELETE FROM diesel_sharded_migration WHERE version NOT IN (SELECT version FROM __diesel_schema_migrations)",
            )?;
        }
        match identity {
            Some(rows) => self.conn.write_identity(rows),
            None => Ok(()),
        }
    }

    /// Those of the tables that are kept which are there.
    pub(super) fn kept(&mut self) -> QueryResult<Vec<String>> {
        diesel::dsl::sql::<Text>(&tables::there(self.kind)).load(&mut self.conn)
    }

    /// Records that a migration is applied, or is not any more. To be called in a transaction.
    pub(in crate::migrate) fn record(
        &mut self,
        of: &Migration,
        direction: Direction,
    ) -> QueryResult<()> {
        let version = &*of.version;
        if direction == Direction::Down {
            return self.forget(version);
        }
        diesel::insert_into(schema_migrations::table)
            .values(schema_migrations::version.eq(version))
            .execute(&mut self.conn)?;
        diesel::insert_into(migration::table)
            .values((
                migration::version.eq(version),
                migration::name.eq(&*of.name),
                migration::checksum.eq(of.checksum()),
                migration::applied_at.eq(now()),
            ))
            .execute(&mut self.conn)?;
        Ok(())
    }

    fn forget(&mut self, version: &str) -> QueryResult<()> {
        diesel::delete(schema_migrations::table.filter(schema_migrations::version.eq(version)))
            .execute(&mut self.conn)?;
        diesel::delete(migration::table.filter(migration::version.eq(version)))
            .execute(&mut self.conn)?;
        Ok(())
    }

    /// Records, in a transaction of its own, that an attempt has come to its end; `false` where its record
    /// was not there any more, and then nothing is changed.
    pub(in crate::migrate) fn finish(
        &mut self,
        attempt: &Progress,
        of: &Migration,
    ) -> QueryResult<bool> {
        let finished = self.transact(|session| {
            if !session.withdraw_own(attempt)? {
                return Err(DieselError::NotFound);
            }
            if attempt.direction == Direction::Up {
                session.forget(&of.version)?;
            }
            session.record(of, attempt.direction)
        });
        match finished {
            Err(DieselError::NotFound) => Ok(false),
            finished => finished.map(|()| true),
        }
    }

    /// Records, in a transaction of its own, that a migration is applied or is not any more, whatever
    /// was known of it, and that it is not under way.
    pub(in crate::migrate) fn record_now(
        &mut self,
        of: &Migration,
        direction: Direction,
    ) -> QueryResult<()> {
        self.transact(|session| {
            session.withdraw(&of.version)?;
            if direction == Direction::Up {
                session.forget(&of.version)?;
            }
            session.record(of, direction)
        })
    }

    /// Records that a version is not applied, and not under way, whoever knows it.
    pub(in crate::migrate) fn erase_now(&mut self, version: &str) -> QueryResult<()> {
        self.transact(|session| {
            session.withdraw(version)?;
            session.forget(version)
        })
    }
}

//! Which tables a database has.

use std::collections::BTreeSet;

use diesel::prelude::*;
use diesel::sql_types::Text;

use super::Session;
use crate::topology::UrlKind;

impl Session {
    /// The names of the tables of a schema; without one, of those that a bare name means.
    pub(in crate::migrate) fn table_names(
        &mut self,
        schema: Option<&str>,
    ) -> QueryResult<BTreeSet<String>> {
        // Names of schemas are checked when a topology is made: they need no quotes.
        let query = match (self.kind, schema) {
            (UrlKind::Sqlite, None) => {
                "SELECT lower(name) FROM sqlite_master WHERE type = 'table'".to_owned()
            }
            (UrlKind::Sqlite, Some(schema)) => {
                format!("SELECT lower(name) FROM {schema}.sqlite_master WHERE type = 'table'")
            }
            (UrlKind::Postgres, None) => "SELECT relname::text FROM pg_class WHERE relkind IN ('r', 'p') AND pg_table_is_visible(oid)".to_owned(),
            (UrlKind::Postgres, Some(schema)) => format!(
                "SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p') AND n.nspname = '{schema}'"
            ),
            (UrlKind::Mysql, schema) => format!(
                "SELECT CAST(table_name AS CHAR) FROM information_schema.tables WHERE table_schema = {} AND table_type = 'BASE TABLE'",
                schema.map_or_else(|| "DATABASE()".to_owned(), |schema| format!("'{schema}'"))
            ),
        };
        let names: Vec<String> = diesel::dsl::sql::<Text>(&query).load(&mut self.conn)?;
        Ok(names.into_iter().collect())
    }
}

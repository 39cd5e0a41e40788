//! The database's own time limits, for the session that migrates.

use std::time::Duration;

use diesel::QueryResult;
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::Text;

use super::Session;
use crate::topology::UrlKind;

/// Rounded up: a limit of zero would mean none.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

fn millis(time: Duration) -> u128 {
    time.as_millis().max(1)
}

impl Session {
    /// Lets the server notice that the runner is gone while a statement is under way, so that the
    /// lock does not outlive it by an hour. PostgreSQL 14 and later can, where the system lets them.
    pub(in crate::migrate) fn watch_client(&mut self) {
        if self.kind == UrlKind::Postgres {
            let _ = self
                .conn
                .batch_execute("SET client_connection_check_interval = '1s'");
        }
    }

    /// Sets the limits that were asked for; answers what could not be set, to be told as a warning.
    pub(in crate::migrate) fn limit(
        &mut self,
        lock: Option<Duration>,
        statement: Option<Duration>,
    ) -> QueryResult<Option<&'static str>> {
        let mut warning = None;
        match self.kind {
            UrlKind::Sqlite => {
                if let Some(time) = lock {
                    let sql = format!("PRAGMA busy_timeout = {}", millis(time));
                    self.conn.batch_execute(&sql)?;
                }
                if statement.is_some() {
                    warning = Some(
                        "SQLite has no statement timeout: statements run as long as they take",
                    );
                }
            }
            UrlKind::Postgres => {
                for (name, time) in [("lock_timeout", lock), ("statement_timeout", statement)] {
                    if let Some(time) = time {
                        let sql = format!("SET {name} = '{}ms'", millis(time));
                        self.conn.batch_execute(&sql)?;
                    }
                }
            }
            UrlKind::Mysql => {
                if let Some(time) = lock {
                    let seconds = whole_seconds(time);
                    self.conn.batch_execute(&format!(
                        "SET SESSION lock_wait_timeout = {seconds}, SESSION innodb_lock_wait_timeout = {seconds}"
                    ))?;
                }
                if let Some(time) = statement {
                    let version: String =
                        diesel::dsl::sql::<Text>("SELECT VERSION()").get_result(&mut self.conn)?;
                    let sql = if version.contains("MariaDB") {
                        format!("SET SESSION max_statement_time = {}", time.as_secs_f64())
                    } else {
                        warning = Some(
                            "MySQL bounds only reads: other statements run as long as they take",
                        );
                        format!("SET SESSION max_execution_time = {}", millis(time))
                    };
                    self.conn.batch_execute(&sql)?;
                }
            }
        }
        Ok(warning)
    }
}

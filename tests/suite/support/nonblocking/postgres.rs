//! PostgreSQL, over tokio-postgres.

use diesel_async::{AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_sharded::nonblocking as native;

pub(crate) use crate::support::postgres::session;

/// Loads rows as the server sends them: as always with this driver.
pub(crate) type RowByRow = diesel::connection::DefaultLoadingMode;

super::driver!(postgres, AsyncPgConnection);

impl Fleet {
    /// How the connections of a manager are made.
    pub(crate) fn connecting(&self, builder: Builder) -> Builder {
        builder
    }
}

/// How a connection is made, for tests that connect by a function of their own.
pub(crate) fn open(url: &str) -> ConnectionResult<AsyncPgConnection> {
    nonblocking::wait(AsyncPgConnection::establish(url))
}

impl Sharded {
    pub(crate) fn build_transaction(&mut self) -> PgTransactionBuilder<'_> {
        PgTransactionBuilder {
            conn: self,
            options: Vec::new(),
        }
    }
}

/// Diesel's builder of PostgreSQL's transactions: its options are given to the driver's at the end.
pub(crate) struct PgTransactionBuilder<'a> {
    conn: &'a mut Sharded,
    options: Vec<Choose>,
}

type Choose = for<'a> fn(native::PgTransactionBuilder<'a>) -> native::PgTransactionBuilder<'a>;

macro_rules! options {
    ($($name:ident)+) => {
        impl PgTransactionBuilder<'_> {
            $(
                pub(crate) fn $name(mut self) -> Self {
                    self.options.push(|builder| builder.$name());
                    self
                }
            )+
        }
    };
}

options! { read_only read_write deferrable not_deferrable read_committed repeatable_read serializable }

impl PgTransactionBuilder<'_> {
    pub(crate) fn run<T, E>(
        &mut self,
        body: impl FnOnce(&mut Sharded) -> Result<T, E>,
    ) -> Result<T, E>
    where
        E: From<diesel::result::Error>,
    {
        let options = std::mem::take(&mut self.options);
        nonblocking::transaction!(self.conn, body, |conn, body| {
            let mut builder = conn.build_transaction();
            for choose in options {
                builder = choose(builder);
            }
            async move { builder.run(body).await }
        })
    }
}

/// The same with statements that are sent first.
pub(crate) fn opened(url: &str, settings: &str) -> ConnectionResult<AsyncPgConnection> {
    let mut conn = open(url)?;
    nonblocking::wait(conn.batch_execute(settings))
        .map_err(diesel::ConnectionError::CouldntSetupConfiguration)?;
    Ok(conn)
}

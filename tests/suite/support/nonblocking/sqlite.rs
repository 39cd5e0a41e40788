//! SQLite, its blocking library on the runtime's blocking threads.

use diesel::SqliteConnection;
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_async::{AsyncConnection as _, SimpleAsyncConnection as _};

type Own = SyncConnectionWrapper<SqliteConnection>;

super::driver!(sqlite, Own);

impl Fleet {
    /// How the connections of a manager are made.
    pub(crate) fn connecting(&self, builder: Builder) -> Builder {
        builder.connect_with(|node| open(node.url().expose()))
    }
}

/// How a connection is made, for tests that connect by a function of their own.
pub(crate) fn open(url: &str) -> ConnectionResult<Own> {
    opened(url, "")
}

/// The same, with more settings.
pub(crate) fn opened(url: &str, settings: &str) -> ConnectionResult<Own> {
    let settings = format!("{}; {settings}", crate::support::sqlite::SETTINGS);
    nonblocking::wait(async {
        let mut conn = Own::establish(url).await?;
        conn.batch_execute(&settings)
            .await
            .map_err(diesel::ConnectionError::CouldntSetupConfiguration)?;
        Ok(conn)
    })
}

impl Sharded {
    pub(crate) fn immediate_transaction<T, E>(
        &mut self,
        body: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E>
    where
        E: From<diesel::result::Error>,
    {
        nonblocking::transaction!(self, body, |conn, body| conn.immediate_transaction(body))
    }

    pub(crate) fn exclusive_transaction<T, E>(
        &mut self,
        body: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E>
    where
        E: From<diesel::result::Error>,
    {
        nonblocking::transaction!(self, body, |conn, body| conn.exclusive_transaction(body))
    }
}

//! MySQL and MariaDB, over mysql_async.

use diesel_async::{AsyncConnection as _, AsyncMysqlConnection, SimpleAsyncConnection as _};

pub(crate) use crate::support::mysql::session;

super::driver!(mysql, AsyncMysqlConnection);

impl Fleet {
    /// How the connections of a manager are made.
    pub(crate) fn connecting(&self, builder: Builder) -> Builder {
        builder
    }
}

/// How a connection is made, for tests that connect by a function of their own.
pub(crate) fn open(url: &str) -> ConnectionResult<AsyncMysqlConnection> {
    // As the driver does it: mysql_async would go past the proxies of these tests.
    let url = format!("{url}?prefer_socket=false");
    nonblocking::wait(AsyncMysqlConnection::establish(&url))
}

/// The same with statements that are sent first.
pub(crate) fn opened(url: &str, settings: &str) -> ConnectionResult<AsyncMysqlConnection> {
    let mut conn = open(url)?;
    nonblocking::wait(conn.batch_execute(settings))
        .map_err(diesel::ConnectionError::CouldntSetupConfiguration)?;
    Ok(conn)
}

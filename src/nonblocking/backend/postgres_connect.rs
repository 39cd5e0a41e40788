//! Connecting to PostgreSQL by what the URL says, encrypted where it asks for it.
//!
//! diesel-async's own `establish` never encrypts and ignores nothing more than tokio-postgres does;
//! see [`DatabaseUrl::postgres_target`] for what a URL means here.

use diesel::connection::{InstrumentationEvent, get_default_instrumentation};
use diesel::{ConnectionError, ConnectionResult};
use diesel_async::AsyncPgConnection;
use tokio_postgres::{Config, NoTls};

use crate::topology::{DatabaseUrl, PostgresTarget};

/// Connects; the default instrumentation hears of it as it does of Diesel's own connections.
pub(super) async fn connect(url: &str) -> ConnectionResult<AsyncPgConnection> {
    let url = DatabaseUrl::from(url);
    let mut instrumentation = get_default_instrumentation();
    // Without the password, unlike Diesel's.
    let shown = url.to_string();
    if let Some(listener) = &mut instrumentation {
        listener.on_connection_event(InstrumentationEvent::start_establish_connection(&shown));
    }
    let connected = match url.postgres_target() {
        Ok(target) => to_target(target).await,
        Err(problems) => Err(ConnectionError::InvalidConnectionUrl(problems.join("; "))),
    };
    if let Some(listener) = &mut instrumentation {
        listener.on_connection_event(InstrumentationEvent::finish_establish_connection(
            &shown,
            connected.as_ref().err(),
        ));
    }
    connected
}

#[cfg(not(feature = "rustls"))]
async fn to_target(target: PostgresTarget) -> ConnectionResult<AsyncPgConnection> {
    in_the_clear(&target.config).await
}

#[cfg(feature = "rustls")]
async fn to_target(target: PostgresTarget) -> ConnectionResult<AsyncPgConnection> {
    use tokio_postgres::config::SslMode;

    let PostgresTarget { mut config, tls } = target;
    let Some(settings) = tls else {
        return in_the_clear(&config).await;
    };
    let connector = super::tls::connector(settings).await?;
    match config.connect(connector).await {
        Ok((client, connection)) => {
            AsyncPgConnection::try_from_client_and_connection(client, connection).await
        }
        // As libpq does it: with `prefer`, what cannot be encrypted is not.
        Err(error) if config.get_ssl_mode() == SslMode::Prefer && super::tls::failed(&error) => {
            config.ssl_mode(SslMode::Disable);
            in_the_clear(&config).await
        }
        Err(error) => Err(told(&error)),
    }
}

async fn in_the_clear(config: &Config) -> ConnectionResult<AsyncPgConnection> {
    let (client, connection) = config.connect(NoTls).await.map_err(|error| told(&error))?;
    AsyncPgConnection::try_from_client_and_connection(client, connection).await
}

/// With its causes: the error itself says no more than "db error" or "error connecting to server".
fn told(error: &tokio_postgres::Error) -> ConnectionError {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    ConnectionError::BadConnection(text)
}

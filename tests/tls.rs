//! The nonblocking driver and a PostgreSQL server that takes only encrypted connections.

use diesel::sql_types::{Bool, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};
use diesel_sharded::nonblocking::AsyncShardedConnectionManager;
use diesel_sharded::{Error, UnavailableCause};

type Manager = AsyncShardedConnectionManager<AsyncPgConnection>;

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!(
            "this test needs a server and {name} names none: run scripts/test, or scripts/servers run -- cargo test --features full,bundled --test tls"
        )
    })
}

/// The server by its name, with these parameters.
fn server(parameters: &str) -> String {
    format!("{}?{parameters}", variable("DIESEL_SHARDED_TEST_PG_TLS"))
}

/// A parameter that names a file of the server's set-up.
fn file(key: &str, name: &str) -> String {
    let folder = variable("DIESEL_SHARDED_TEST_TLS_FILES");
    format!("{key}={folder}/{name}")
}

async fn manager(url: String) -> Result<Manager, Error> {
    Manager::builder().shard("a", url).build().await
}

/// Whether the session is encrypted, says the server.
async fn encrypted(url: String) -> Result<bool, Error> {
    let mut conn = manager(url).await?.get_on("a").await?;
    let used = "(SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid())";
    let used = diesel::select(diesel::dsl::sql::<Bool>(used));
    Ok(used.get_result(&mut conn).await?)
}

/// Everything that an error says.
fn said(error: &Error) -> String {
    let mut text = format!("{error}\n{error:?}");
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}\n{cause}\n{cause:?}");
        source = cause.source();
    }
    assert!(!text.contains("t3st-only"), "a password is in: {text}");
    text
}

async fn refused(url: String) -> (UnavailableCause, String) {
    match encrypted(url).await {
        Err(ref error @ Error::Unavailable { cause, .. }) => (cause, said(error)),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn every_mode_that_asks_for_encryption_gets_it() {
    let ca = file("sslrootcert", "ca.crt");
    for parameters in [
        "sslmode=require".to_owned(),
        "ssl=true".to_owned(),
        // The server takes nothing else, so it is what these come to.
        "sslmode=prefer".to_owned(),
        "application_name=x".to_owned(),
        format!("sslmode=require&{ca}"),
        format!("sslmode=verify-ca&{ca}"),
        format!("sslmode=verify-full&{ca}"),
        format!("sslmode=verify-full&{ca}&sslsni=0&ssl_min_protocol_version=TLSv1.3"),
        format!("sslmode=verify-full&{ca}&channel_binding=prefer"),
    ] {
        let answer = encrypted(server(&parameters)).await;
        assert!(matches!(answer, Ok(true)), "{parameters}: {answer:?}");
    }
}

#[tokio::test]
async fn without_encryption_the_server_lets_nobody_in() {
    let (cause, text) = refused(server("sslmode=disable")).await;
    assert_eq!(cause, UnavailableCause::Authentication, "{text}");
    assert!(text.contains("no encryption"), "{text}");
}

#[tokio::test]
async fn another_authority_or_another_name_is_refused() {
    let (ca, other) = (
        file("sslrootcert", "ca.crt"),
        file("sslrootcert", "other-ca.crt"),
    );
    for mode in ["require", "verify-ca", "verify-full"] {
        let (_, text) = refused(server(&format!("sslmode={mode}&{other}"))).await;
        assert!(text.contains("certificate"), "{mode}: {text}");
    }
    // The certificate is for `localhost`.
    let by_address = |parameters: String| server(&parameters).replace("@localhost", "@127.0.0.1");
    let (_, text) = refused(by_address(format!("sslmode=verify-full&{ca}"))).await;
    assert!(text.contains("not valid for name"), "{text}");
    let named = encrypted(by_address(format!("sslmode=verify-ca&{ca}"))).await;
    assert!(matches!(named, Ok(true)), "{named:?}");
    // The machine's own authorities do not know this one.
    let system = encrypted(server("sslmode=verify-full")).await;
    assert!(
        matches!(system, Err(Error::Unavailable { .. })),
        "{system:?}"
    );
    let missing = refused(server(&format!(
        "sslmode=verify-full&{}",
        file("sslrootcert", "none")
    )));
    let (cause, text) = missing.await;
    assert_eq!(cause, UnavailableCause::Other, "{text}");
    assert!(text.contains("sslrootcert"), "{text}");
}

#[tokio::test]
async fn a_certificate_of_ones_own_logs_in() {
    let admin = manager(server("sslmode=require")).await.unwrap();
    let mut conn = admin.get_on("a").await.unwrap();
    // Made once; the server is there for this run alone.
    let _ = conn.batch_execute("CREATE ROLE tls_client LOGIN").await;
    let own = [
        "sslmode=verify-full".to_owned(),
        file("sslrootcert", "ca.crt"),
        file("sslcert", "client.crt"),
        file("sslkey", "client.key"),
        "user=tls_client&password=".to_owned(),
    ];
    let own = manager(server(&own.join("&"))).await.unwrap();
    let mut conn = own.get_on("a").await.unwrap();
    let user = diesel::select(diesel::dsl::sql::<Text>("current_user::text"));
    let user: String = user.get_result(&mut conn).await.unwrap();
    assert_eq!(user, "tls_client");
    let without = server("sslmode=require&user=tls_client&password=");
    let (cause, text) = refused(without).await;
    assert_eq!(cause, UnavailableCause::Authentication, "{text}");
}

#[tokio::test]
async fn what_the_url_asks_for_in_vain_is_a_problem_of_the_configuration() {
    for parameters in [
        "sslmode=verify-ca",
        "sslmode=allow",
        "sslmode=prefer&sslrootcert=/ca.crt",
        "target_session_attrs=standby",
        "sslcrl=/crl",
    ] {
        match manager(server(parameters)).await {
            Err(Error::Config(errors)) => {
                let text = errors.to_string();
                assert!(text.contains("shards.a.url"), "{text}");
                assert!(!text.contains("t3st-only"), "{text}");
            }
            other => panic!("{parameters}: {other:?}"),
        }
    }
}

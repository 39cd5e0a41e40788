//! The nonblocking driver and a PostgreSQL server that takes only encrypted connections.

use std::sync::Arc;

use diesel::sql_types::{Bool, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};
use diesel_sharded::nonblocking::AsyncShardedConnectionManager;
use diesel_sharded::{BoxError, Error, UnavailableCause};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

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
        format!("sslmode=verify-full&{ca}&channel_binding=require"),
        "sslmode=require&channel_binding=require".to_owned(),
        "sslmode=require&channel_binding=disable".to_owned(),
    ] {
        let answer = encrypted(server(&parameters)).await;
        assert!(matches!(answer, Ok(true)), "{parameters}: {answer:?}");
    }
}

#[tokio::test]
async fn without_encryption_the_server_lets_nobody_in() {
    let (cause, text) = refused(server("sslmode=disable")).await;
    assert_eq!(cause, UnavailableCause::NotEncrypted, "{text}");
    // What we say ourselves comes first, then the server's words.
    let (own, servers) = text.split_once('\n').unwrap();
    assert!(own.contains("ask for TLS"), "{text}");
    assert!(!own.contains("password"), "{text}");
    assert!(servers.contains("no encryption"), "{text}");
}

/// libpq tries both ways with `prefer`: encrypted with the wrong password, and not encrypted.
#[cfg(feature = "postgres")]
#[test]
fn the_blocking_driver_tells_a_wrong_password_from_missing_encryption() {
    use diesel_sharded::blocking::ShardedConnectionManager;

    let refused = |url: String| {
        let shards = ShardedConnectionManager::<diesel::PgConnection>::builder().shard("a", url);
        match shards.build().unwrap().get_on("a") {
            Err(ref error @ Error::Unavailable { cause, .. }) => (cause, said(error)),
            other => panic!("{:?}", other.map(drop)),
        }
    };
    let (cause, text) = refused(server("sslmode=disable"));
    assert_eq!(cause, UnavailableCause::NotEncrypted, "{text}");
    let wrong = server("sslmode=prefer").replace(":t3st-only@", ":wr0ng@");
    let (cause, text) = refused(wrong);
    assert_eq!(cause, UnavailableCause::Authentication, "{text}");
    assert!(text.contains("password authentication failed"), "{text}");
    assert!(text.contains("refuses the login"), "{text}");
    assert!(!text.contains("wr0ng"), "{text}");
}

/// Ends the encryption of one client and begins a new one to the server, as a man in the middle does
/// where no certificate is checked.
async fn in_the_middle(client: TcpStream, port: u16) -> Result<(), BoxError> {
    async fn accept(
        mut client: TcpStream,
    ) -> Result<impl AsyncRead + AsyncWrite + Unpin, BoxError> {
        client.read_exact(&mut [0; 8]).await?;
        client.write_all(b"S").await?;
        let own = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        let key = PrivateKeyDer::try_from(own.signing_key.serialize_der())?;
        let config = rustls::ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![own.cert.der().clone()], key)?;
        Ok(TlsAcceptor::from(Arc::new(config)).accept(client).await?)
    }
    async fn connect(port: u16) -> Result<impl AsyncRead + AsyncWrite + Unpin, BoxError> {
        let mut server = TcpStream::connect(("127.0.0.1", port)).await?;
        let ask_for_tls = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];
        server.write_all(&ask_for_tls).await?;
        server.read_exact(&mut [0]).await?;
        let ca = format!("{}/ca.crt", variable("DIESEL_SHARDED_TEST_TLS_FILES"));
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(ca)?)?;
        let config = rustls::ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost")?;
        let connector = TlsConnector::from(Arc::new(config));
        Ok(connector.connect(name, server).await?)
    }
    let (mut client, mut server) = (accept(client).await?, connect(port).await?);
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

#[tokio::test]
async fn whoever_stands_in_the_middle_is_found_out_by_channel_binding() {
    let url = variable("DIESEL_SHARDED_TEST_PG_TLS");
    let (_, port) = url.rsplit_once(':').unwrap();
    let port = port.split('/').next().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let middle = listener.local_addr().unwrap().port().to_string();
    let server_port = port.parse().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(in_the_middle(client, server_port));
        }
    });
    let by_way_of = |parameters: &str| server(parameters).replace(port, &middle);
    let unbound = by_way_of("sslmode=require&channel_binding=disable");
    let unbound = encrypted(unbound).await;
    assert!(matches!(unbound, Ok(true)), "{unbound:?}");
    // Where nothing is said it is `prefer`.
    for binding in ["", "&channel_binding=prefer", "&channel_binding=require"] {
        let (cause, text) = refused(by_way_of(&format!("sslmode=require{binding}"))).await;
        assert_eq!(cause, UnavailableCause::Other, "{text}");
        assert!(text.contains("channel binding"), "{binding}: {text}");
    }
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
    let path = file("sslrootcert", "none").replace('=', " (");
    assert!(text.contains(&path), "{text}");
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

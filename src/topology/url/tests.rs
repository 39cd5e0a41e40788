//! Cases H09, H13 and C12, as far as URLs go.

use std::time::Duration;

use super::*;

const PLAIN: &str = "S3cr3t!x";
const ENCODED: &str = "S3cr3t%21x";

fn shown(text: &str) -> String {
    let url = DatabaseUrl::from(text);
    format!("{url} {url:?}")
}

#[test]
fn no_printed_form_shows_a_password() {
    for password in [PLAIN, ENCODED] {
        for form in [
            "postgres://app:{}@db:5432/orders",
            "postgresql://app:{}@h1:5432,h2/orders?sslmode=require",
            "postgres://app@db/orders?password={}",
            "postgres://app@db/orders?sslmode=require&sslpassword={}",
            "postgres://app@db/orders?passfile={}",
            "postgres://app@db/orders?passwor%64={}",
            "postgres://app@db/orders?token={}&{}",
            "mysql://app:{}@db:3306/orders?ssl_mode=required",
            "mysql://app:{}@db/orders#x",
            "host=db user=app password={} dbname=orders",
            "host=db user=app password='{}' dbname=orders",
            "host=db sslpassword={}",
            "host = db password = {}",
            "user = app password = '{}'",
            "host=db sslkey=/run/key.pem sslpassword={}",
            "file:orders.db?key={}",
            "sqlite://orders.db?hexkey={}",
            // What cannot be taken apart, or was taken apart in the wrong place.
            "postgres://app:pa/{}@db/orders",
            "postgres://app:12/{}@db/orders",
            "postgres://app:pa@{}@db/orders",
            "postgres://app:1/x?{}@db/orders",
            "mysql://app:pa/{}@db/orders",
            "mysql://app:1?{}@db/orders",
            "mysql://app:1#{}@db/orders",
            "mysql://app:{}@db:port/orders",
            "postgres://app:{}",
            "postgres//app:{}@db/orders",
            "postgres:app:{}@db/orders",
            "oracle://app:{}@db/orders",
            "host=db password='{}",
            "host=db password=S3 {}",
            "host=db password=S3 {}=x",
            "hst=db pasword={}",
            "hst=db dbname=x {}",
        ] {
            let text = form.replace("{}", password);
            let shown = shown(&text);
            assert!(
                !shown.contains("S3cr3t") && !shown.contains("21x") && !shown.contains("t!x"),
                "{form}: {shown}"
            );
            assert_eq!(DatabaseUrl::from(text.as_str()).expose(), text);
        }
    }
}

#[test]
fn the_mask_says_nothing_about_the_password() {
    let of =
        |password: &str| DatabaseUrl::from(format!("postgres://app:{password}@db/x")).to_string();
    assert_eq!(of("a"), of(&"a".repeat(50)));
    assert_eq!(of("a"), of(""));
    assert_eq!(of("a"), "postgres://app:***@db/x");
    assert_eq!(
        shown("no database: at all@").split(' ').next(),
        Some("<unreadable")
    );
}

#[test]
fn user_host_and_harmless_parameters_are_shown() {
    for text in [
        "postgres://app@db:5432/orders?sslmode=require&connect_timeout=3",
        "postgres://app@%2Fvar%2Frun/orders",
        "postgres://[::1]:5433/orders",
        "mysql://app@db/orders?unix_socket=/run/mysqld.sock",
        "/var/lib/orders.db",
        "orders.db",
        ":memory:",
        "file:orders?mode=memory&cache=shared",
        "host=db port=5433 dbname=orders",
        "host=db sslrootcert=/etc/ca.crt sslcert=/etc/me.crt sslkey=/run/me.key",
        "mysql://app@db/orders?ssl_ca=/etc/ca.crt",
    ] {
        assert_eq!(DatabaseUrl::from(text).to_string(), text);
    }
}

#[test]
fn kinds_are_told_apart() {
    use UrlKind::{Mysql, Postgres, Sqlite};
    for (text, kind) in [
        ("postgres://db/x", Some(Postgres)),
        ("postgresql://db/x", Some(Postgres)),
        ("Postgres://db/x", None),
        ("host=db dbname=x", Some(Postgres)),
        ("service=orders", Some(Postgres)),
        ("  dbname = x host=db", Some(Postgres)),
        ("host = 'h' sslmode=disable", Some(Postgres)),
        ("sslmode=disable host\t= h", Some(Postgres)),
        ("password = 'a@b:c' user = u", Some(Postgres)),
        ("mysql://db/x", Some(Mysql)),
        ("MySQL://db/x", Some(Mysql)),
        ("mariadb://db/x", None),
        ("oracle://db/x", None),
        ("http://db/x", None),
        ("sqlite://x.db", Some(Sqlite)),
        ("file:x.db", Some(Sqlite)),
        ("file:///x.db", Some(Sqlite)),
        (":memory:", Some(Sqlite)),
        ("", Some(Sqlite)),
        ("data/year=2024/x.db", Some(Sqlite)),
        ("data/localhost=1/x.db", Some(Sqlite)),
        (r"C:\data\x.db", Some(Sqlite)),
        ("postgres//app:pw@db/x", None),
    ] {
        assert_eq!(DatabaseUrl::from(text).kind(), kind, "{text}");
    }
}

/// Every character that may need care, in one password each and all together.
fn awkward_passwords() -> Vec<String> {
    let punctuation: Vec<char> = (0x20u8..0x7f).map(char::from).collect();
    let mut all: Vec<String> = punctuation.iter().map(|c| format!("a{c}b")).collect();
    all.extend(punctuation.iter().map(|c| c.to_string()));
    all.push(punctuation.into_iter().collect());
    let others = [
        "",
        "pä߀🦀\u{301}",
        "0123",
        "a\nb\tc",
        "%41",
        "+",
        "\\'",
        "'",
    ];
    all.extend(others.map(str::to_owned));
    all
}

fn decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text)
        .decode_utf8()
        .unwrap()
        .into_owned()
}

#[test]
fn a_password_survives_the_way_into_a_url_and_back() {
    for password in awkward_passwords() {
        for text in [
            "postgres://app@db/x",
            "postgres://app:old@db:5433/x?sslmode=require",
            "postgres://db/x",
            "postgres://db",
            "mysql://app@db/x",
            "mysql://app:o%6Cd@db:3307/x?ssl_mode=required",
        ] {
            let url = DatabaseUrl::from(text).with_password(&password).unwrap();
            let parsed = ::url::Url::parse(url.expose()).unwrap();
            assert_eq!(
                decoded(parsed.password().unwrap_or_default()),
                password,
                "{text}"
            );
            let before = ::url::Url::parse(text).unwrap();
            assert_eq!(parsed.username(), before.username());
            assert_eq!(parsed.host_str(), before.host_str());
            assert_eq!(parsed.port(), before.port());
            assert_eq!(parsed.path(), before.path());
            assert_eq!(parsed.query(), before.query());
            // libpq's own way of reading it.
            let uri = parse::postgres(url.expose()).unwrap();
            assert_eq!(decoded(uri.password.unwrap()), password);
            assert_eq!(url.servers(), DatabaseUrl::from(text).servers());
        }
        for text in ["host=db user=app", r"host=db password='o\'ld' user=app", ""] {
            let text = format!("dbname=x {text}");
            let url = DatabaseUrl::from(text).with_password(&password).unwrap();
            let info = parse::conninfo(url.expose()).unwrap();
            assert_eq!(info.get("password"), Some(password.as_str()));
            assert_eq!(info.get("dbname"), Some("x"));
            assert_eq!(
                info.pairs().filter(|(key, _)| *key == "password").count(),
                1
            );
        }
    }
}

#[test]
fn a_password_parameter_does_not_win_over_the_password_that_was_set() {
    let url =
        DatabaseUrl::from("postgres://app@db/x?password=old&sslmode=require&p%61ssword=older")
            .with_password("new")
            .unwrap();
    assert_eq!(url.expose(), "postgres://app:new@db/x?sslmode=require");
}

#[test]
fn a_password_is_refused_where_it_has_no_place() {
    for text in ["orders.db", ":memory:", "oracle://db", "mysql://db:port/x"] {
        assert!(
            DatabaseUrl::from(text).with_password(PLAIN).is_err(),
            "{text}"
        );
    }
    let error = DatabaseUrl::from("postgres://db/x")
        .with_password("S3cr3t\0x")
        .unwrap_err();
    assert!(!format!("{error} {error:?}").contains("S3cr3t"));
}

#[test]
fn in_memory_databases_are_recognised() {
    for (text, memory, name) in [
        (":memory:", true, None),
        ("", true, None),
        ("file::memory:", true, None),
        ("sqlite://:memory:", true, None),
        ("file:x?mode=memory", true, None),
        ("file:x?mode=memory&cache=private", true, None),
        ("file:?cache=shared", true, None),
        ("file::memory:?cache=shared", true, Some(":memory:")),
        ("file:x?mode=memory&cache=shared", true, Some("x")),
        ("sqlite://x?cache=shared&mode=memory", true, Some("x")),
        ("file:/x?vfs=memdb", true, Some("memdb:/x")),
        ("file:x?vfs=memdb", true, None),
        ("file:x?cache=shared", false, None),
        ("x.db", false, None),
        ("mode=memory.db", false, None),
        ("postgres://db/x?mode=memory", false, None),
    ] {
        let url = DatabaseUrl::from(text);
        assert_eq!(url.is_sqlite_memory(), memory, "{text}");
        assert_eq!(url.sqlite_memory_name().as_deref(), name, "{text}");
    }
}

#[test]
fn servers_are_named_in_one_way() {
    for (text, servers) in [
        ("postgres://app:p@DB.example/x", &["db.example:5432"][..]),
        ("postgres://db:5432/x", &["db:5432"]),
        ("postgres:///x", &["localhost:5432"]),
        ("postgres://", &["localhost:5432"]),
        ("postgres://b:1,a,[::1]:3/x", &["::1:3", "a:5432", "b:1"]),
        ("postgres://a,a/x", &["a:5432"]),
        ("postgres://%2Fvar%2FRun/x", &["/var/Run:5432"]),
        ("postgres:///x?host=/var/run&port=5433", &["/var/run:5433"]),
        ("postgres://a/x?host=b", &["b:5432"]),
        ("host=a,b port=1,2", &["a:1", "b:2"]),
        ("host=a,b port=7", &["a:7", "b:7"]),
        ("dbname=x", &["localhost:5432"]),
        ("hostaddr=10.0.0.1", &["10.0.0.1:5432"]),
        ("mysql://DB/x", &["db:3306"]),
        ("mysql://db:3307/x", &["db:3307"]),
        (
            "mysql://localhost/x?unix_socket=/run/m.sock",
            &["/run/m.sock"],
        ),
        ("mysql:///x", &["localhost:3306"]),
        ("x.db", &[]),
        ("oracle://db/x", &[]),
    ] {
        let found: Vec<String> = DatabaseUrl::from(text)
            .servers()
            .iter()
            .map(Server::to_string)
            .collect();
        assert_eq!(found, servers, "{text}");
    }
}

fn identity(text: &str) -> Option<String> {
    DatabaseUrl::from(text).database_identity()
}

#[test]
fn one_database_has_one_identity() {
    for (a, b) in [
        (
            "postgres://app:p@db/x",
            "postgresql://ro:q@DB:5432/x?sslmode=require",
        ),
        ("postgres://app@db", "postgres://db/app"),
        ("postgres://db/x", "host=db dbname=x port=5432"),
        ("postgres://a,b/x", "postgres://b,a/x"),
        ("postgres://db/%78", "postgres://db/x"),
        ("mysql://app:p@db/x", "mysql://db:3306/x?ssl_mode=required"),
        ("./x.db", "x.db"),
        ("x.db", "sqlite://x.db"),
        ("x.db", "file:x.db?mode=rwc"),
        ("/nowhere/../nowhere/./x.db", "/nowhere/x.db"),
        (
            "file:m?mode=memory&cache=shared",
            "file:m?cache=shared&mode=memory",
        ),
    ] {
        assert!(identity(a).is_some(), "{a}");
        assert_eq!(identity(a), identity(b), "{a} {b}");
    }
    for (a, b) in [
        ("postgres://db/x", "postgres://db/y"),
        ("postgres://db/x", "postgres://db:5433/x"),
        ("postgres://db/x", "mysql://db:5432/x"),
        // Two names of one host are found out by asking the server, not here.
        ("postgres://localhost/x", "postgres://127.0.0.1/x"),
        (
            "postgres://a,b/x?target_session_attrs=read-write",
            "postgres://a,b/x?target_session_attrs=standby",
        ),
        ("x.db", "y.db"),
        ("file:m?mode=memory&cache=shared", "m"),
    ] {
        assert_ne!(identity(a), identity(b), "{a} {b}");
    }
    assert_eq!(identity(":memory:"), None);
}

#[test]
fn a_linked_file_is_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.db");
    std::fs::write(&file, "").unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(&file, folder.path().join("y.db")).unwrap();
        assert_eq!(identity(&path("x.db")), identity(&path("y.db")));
        std::os::unix::fs::symlink(folder.path(), folder.path().join("link")).unwrap();
        assert_eq!(identity(&path("new.db")), identity(&path("link/new.db")));
    }
    assert_ne!(identity(&path("x.db")), identity(&path("new.db")));
}

#[test]
fn postgres_gets_a_connect_timeout_unless_it_has_one() {
    let of =
        |text: &str, millis| DatabaseUrl::from(text).connect_url(Duration::from_millis(millis));
    for (text, millis, expected) in [
        (
            "postgres://db/x",
            5_000,
            "postgres://db/x?connect_timeout=5",
        ),
        ("postgres://db/x", 100, "postgres://db/x?connect_timeout=2"),
        (
            "postgres://db/x",
            2_001,
            "postgres://db/x?connect_timeout=3",
        ),
        ("postgres://db", 5_000, "postgres://db?connect_timeout=5"),
        (
            "postgres://db/x?",
            5_000,
            "postgres://db/x?connect_timeout=5",
        ),
        // libpq takes a `?` in a password for a `?`.
        (
            "postgres://app:a?b@db/x",
            5_000,
            "postgres://app:a?b@db/x?connect_timeout=5",
        ),
        (
            "postgres://db/x?sslmode=require",
            5_000,
            "postgres://db/x?sslmode=require&connect_timeout=5",
        ),
        (
            "postgres://db/x?connect_timeout=9",
            5_000,
            "postgres://db/x?connect_timeout=9",
        ),
        (
            "host=db dbname=x",
            5_000,
            "host=db dbname=x connect_timeout=5",
        ),
        (
            "host=db password='a b'",
            5_000,
            "host=db password='a b' connect_timeout=5",
        ),
        (
            "host=db connect_timeout=9",
            5_000,
            "host=db connect_timeout=9",
        ),
        ("mysql://db/x", 5_000, "mysql://db/x"),
        ("x.db", 5_000, "x.db"),
    ] {
        assert_eq!(of(text, millis), expected);
    }
}

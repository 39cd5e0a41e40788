use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use tokio_postgres::config::{ChannelBinding, Host, SslMode, SslNegotiation, TargetSessionAttrs};

use super::parameters::{KNOWN, REFUSED};
use super::*;

fn target(url: &str) -> PostgresTarget {
    match DatabaseUrl::from(url).postgres_target() {
        Ok(target) => target,
        Err(problems) => panic!("{problems:?}"),
    }
}

/// The problems of a URL, joined; none of them may show what the URL says.
fn problems(url: &str) -> String {
    match DatabaseUrl::from(url).postgres_target() {
        Ok(_) => panic!("{url} is accepted"),
        Err(problems) => problems.join("; "),
    }
}

#[test]
fn what_every_part_means_is_what_it_means_to_libpq() {
    let url = "postgres://a%40b:p%2Fw%3A@h1:1,h2:2,%5B/o%20rders?application_name=app\
        &connect_timeout=7&tcp_user_timeout=1500&keepalives=0&keepalives_idle=30\
        &keepalives_interval=5&keepalives_count=4&options=-c%20geqo%3Doff\
        &target_session_attrs=read-write&load_balance_hosts=random&client_encoding=UTF-8\
        &fallback_application_name=unused&gssencmode=prefer&port=3";
    let PostgresTarget { config, .. } = target(&url.replace(",%5B", ""));
    assert_eq!(config.get_user(), Some("a@b"));
    assert_eq!(config.get_password(), Some(&b"p/w:"[..]));
    assert_eq!(config.get_dbname(), Some("o rders"));
    let hosts = ["h1", "h2"].map(|host| Host::Tcp(host.to_owned()));
    assert_eq!(config.get_hosts(), hosts);
    // One port, said last, is that of all hosts.
    assert_eq!(config.get_ports(), [3]);
    assert_eq!(config.get_application_name(), Some("app"));
    assert_eq!(config.get_connect_timeout(), Some(&Duration::from_secs(7)));
    // Milliseconds, where tokio-postgres by itself reads seconds.
    let timeout = config.get_tcp_user_timeout();
    assert_eq!(timeout, Some(&Duration::from_millis(1500)));
    assert!(!config.get_keepalives());
    assert_eq!(config.get_keepalives_idle(), Duration::from_secs(30));
    assert_eq!(
        config.get_keepalives_interval(),
        Some(Duration::from_secs(5))
    );
    assert_eq!(config.get_keepalives_retries(), Some(4));
    assert_eq!(config.get_options(), Some("-c geqo=off"));
    let attributes = config.get_target_session_attrs();
    assert_eq!(attributes, TargetSessionAttrs::ReadWrite);
}

#[test]
fn a_key_value_string_and_a_url_mean_the_same() {
    let url = target("postgresql://u:it's@h:5433/d?sslmode=disable");
    let string = target(r"host=h port=5433 user=u password='it\'s' dbname = d sslmode=disable");
    assert_eq!(url.config, string.config);
    // The last word counts, in the query over what stands before it too.
    let over = target("postgres://u:p@h/d?host=h2&user=u2&password=p2&dbname=d2&user=u3");
    assert_eq!(over.config.get_hosts(), [Host::Tcp("h2".to_owned())]);
    assert_eq!(over.config.get_user(), Some("u3"));
    assert_eq!(over.config.get_password(), Some(&b"p2"[..]));
    assert_eq!(over.config.get_dbname(), Some("d2"));
}

#[test]
fn passwords_are_bytes_and_timeouts_of_zero_are_none() {
    let url = target("postgres://u:%ff%00x@h/d?connect_timeout=0&tcp_user_timeout=-1");
    assert_eq!(url.config.get_password(), Some(&b"\xff\x00x"[..]));
    assert_eq!(url.config.get_connect_timeout(), None);
    assert_eq!(url.config.get_tcp_user_timeout(), None);
}

#[test]
fn addresses_go_with_names_or_stand_for_them() {
    let both = target("host=db.example hostaddr=10.0.0.7 user=u");
    assert_eq!(
        both.config.get_hosts(),
        [Host::Tcp("db.example".to_owned())]
    );
    let address: IpAddr = "10.0.0.7".parse().unwrap();
    assert_eq!(both.config.get_hostaddrs(), [address]);
    let alone = target("hostaddr=10.0.0.7 user=u");
    assert_eq!(alone.config.get_hosts(), [Host::Tcp("10.0.0.7".to_owned())]);
    assert!(problems("host=a,b hostaddr=10.0.0.7").contains("lists of one length"));
    assert!(problems("host=a hostaddr=nowhere").contains("IP addresses"));
    let v6 = target("postgres://u@[::1]:6000/d");
    assert_eq!(v6.config.get_hosts(), [Host::Tcp("::1".to_owned())]);
    assert_eq!(v6.config.get_ports(), [6000]);
}

#[test]
fn a_missing_host_is_not_guessed_and_lists_have_to_fit() {
    assert!(problems("postgres://u@/d").contains("no host is named"));
    assert!(problems("postgres:///d").contains("no host is named"));
    assert!(problems("user=u dbname=d").contains("no host is named"));
    assert!(problems("postgres://u@a,,b/d").contains("is empty"));
    assert!(problems("host=a,b,c port=1,2").contains("one for each host"));
    assert!(problems("host=a port=x").contains("port takes"));
    let mixed = target("postgres://u@a:1,b/d");
    assert_eq!(mixed.config.get_ports(), [1, 5432]);
}

#[test]
fn sockets_are_never_encrypted() {
    for url in [
        "postgres://u@%2Frun%2Fpg:5433/d?sslmode=require",
        "host=/run/pg user=u sslmode=verify-full sslrootcert=/ca.crt",
    ] {
        if cfg!(feature = "rustls") {
            let socket = target(url);
            assert_eq!(socket.config.get_hosts(), [Host::Unix("/run/pg".into())]);
            assert_eq!(socket.config.get_ssl_mode(), SslMode::Disable);
            assert_eq!(socket.tls, None);
        }
    }
    assert!(problems("host=/run/pg,db sslmode=require").contains("its own url"));
}

#[test]
fn what_differs_from_libpq_is_refused_and_not_ignored() {
    for (refused, _) in REFUSED {
        let text = problems(&format!("postgres://u:p4ss@h/d?{refused}=s3cret"));
        assert!(text.starts_with(refused), "{text}");
        assert!(!text.contains("s3cret") && !text.contains("p4ss"), "{text}");
        problems(&format!("host=h {refused}=s3cret"));
    }
    for wrong in [
        "sslmode=allow",
        "sslmode=",
        "sslmode=Require",
        "sslmode=s3cret",
        "ssl=false",
        "sslnegotiation=s3cret",
        "sslsni=s3cret",
        "ssl_min_protocol_version=s3cret",
        "channel_binding=s3cret",
        "target_session_attrs=primary",
        "target_session_attrs=standby",
        "target_session_attrs=prefer-standby",
        "load_balance_hosts=s3cret",
        "gssencmode=require",
        "client_encoding=LATIN1",
        "connect_timeout=s3cret",
        "connect_timeout=",
        "keepalives=s3cret",
        "sslmode",
    ] {
        let text = problems(&format!("postgres://u:p4ss@h/d?{wrong}"));
        assert!(!text.contains("s3cret") && !text.contains("p4ss"), "{text}");
    }
    // Every known key is taken with some value, none is both known and refused.
    for known in KNOWN {
        assert!(
            !REFUSED.iter().any(|(refused, _)| refused == known),
            "{known}"
        );
    }
}

#[test]
fn an_unknown_parameter_may_be_a_piece_of_a_password() {
    let text = problems("postgres://u:p@h/d?w0rd=x");
    assert!(!text.contains("w0rd"), "{text}");
    assert!(text.contains("percent-encoded"), "{text}");
    let text = problems("postgres://u:p@h/d?ssl_mode=require");
    assert!(text.contains("did you mean sslmode?"), "{text}");
    // All of them at once.
    let found = DatabaseUrl::from("postgres://u@/d?sslmode=on&service=x&port=y").postgres_target();
    assert_eq!(found.map(|_| ()).unwrap_err().len(), 4);
}

#[cfg(not(feature = "rustls"))]
#[test]
fn without_tls_in_the_build_nothing_that_asks_for_it_is_accepted() {
    for mode in ["require", "verify-ca", "verify-full"] {
        let text = problems(&format!(
            "postgres://u@h/d?sslmode={mode}&sslrootcert=/ca.crt"
        ));
        assert!(text.contains("feature `rustls`"), "{text}");
        assert!(text.contains(mode), "{text}");
    }
    problems("postgres://u@h/d?ssl=true");
    problems("postgres://u@h/d?sslrootcert=system");
    problems("postgres://u@h/d?channel_binding=require");
    for mode in ["", "?sslmode=disable", "?sslmode=prefer"] {
        let target = target(&format!("postgres://u@h/d{mode}"));
        assert_eq!(target.config.get_ssl_mode(), SslMode::Disable);
    }
}

#[cfg(feature = "rustls")]
#[test]
fn each_mode_asks_for_what_it_asks_of_libpq() {
    let settings = |query: &str| {
        let target = target(&format!("postgres://u@h/d{query}"));
        (target.config.get_ssl_mode(), target.tls)
    };
    let (mode, tls) = settings("?sslmode=disable");
    assert_eq!((mode, tls), (SslMode::Disable, None));
    for query in ["", "?sslmode=prefer"] {
        let (mode, tls) = settings(query);
        assert_eq!(mode, SslMode::Prefer);
        assert_eq!(tls.unwrap().verify, Verify::Nothing);
    }
    for (query, verify, file) in [
        ("sslmode=require", Verify::Nothing, None),
        ("ssl=true", Verify::Nothing, None),
        // libpq's rule: authorities at hand are looked at.
        (
            "sslmode=require&sslrootcert=/ca.crt",
            Verify::Authority,
            Some("/ca.crt"),
        ),
        (
            "sslmode=verify-ca&sslrootcert=/ca.crt",
            Verify::Authority,
            Some("/ca.crt"),
        ),
        (
            "sslmode=verify-full&sslrootcert=/ca.crt",
            Verify::AuthorityAndHost,
            Some("/ca.crt"),
        ),
        ("sslmode=verify-full", Verify::AuthorityAndHost, None),
        (
            "sslmode=verify-full&sslrootcert=system",
            Verify::AuthorityAndHost,
            None,
        ),
        ("sslrootcert=system", Verify::AuthorityAndHost, None),
    ] {
        let (mode, tls) = settings(&format!("?{query}"));
        let tls = tls.unwrap();
        assert_eq!(mode, SslMode::Require, "{query}");
        assert_eq!(tls.verify, verify, "{query}");
        let roots = file.map_or(Roots::System, |file| Roots::File(file.into()));
        assert_eq!(tls.roots, roots, "{query}");
        assert!(tls.sni && !tls.only_1_3 && tls.client.is_none());
    }
    let full = settings(
        "?sslmode=require&sslcert=/c.crt&sslkey=/c.key&sslsni=0&ssl_min_protocol_version=TLSv1.3",
    );
    let tls = full.1.unwrap();
    let (cert, key) = tls.client.unwrap();
    assert_eq!(
        (cert.as_path(), key.as_path()),
        (Path::new("/c.crt"), Path::new("/c.key"))
    );
    assert!(!tls.sni && tls.only_1_3);
    let direct = target("postgres://u@h/d?sslmode=require&sslnegotiation=direct");
    assert_eq!(direct.config.get_ssl_negotiation(), SslNegotiation::Direct);
    let bound = target("postgres://u@h/d?sslmode=require&channel_binding=require");
    assert_eq!(bound.config.get_channel_binding(), ChannelBinding::Require);
}

#[cfg(feature = "rustls")]
#[test]
fn trust_that_would_come_to_nothing_is_refused() {
    for query in [
        // Without encryption they would do nothing.
        "sslrootcert=/ca.crt",
        "sslmode=prefer&sslrootcert=/ca.crt",
        "sslmode=disable&sslrootcert=/ca.crt",
        "sslmode=prefer&sslcert=/c&sslkey=/k",
        "sslmode=prefer&sslnegotiation=direct",
        "channel_binding=require",
        // Anybody can have a certificate of a public authority.
        "sslmode=verify-ca",
        "sslmode=verify-ca&sslrootcert=system",
        "sslmode=require&sslrootcert=system",
        "sslmode=disable&sslrootcert=system",
        // Half of a pair.
        "sslmode=require&sslcert=/c",
        "sslmode=require&sslkey=/k",
    ] {
        problems(&format!("postgres://u@h/d?{query}"));
    }
}

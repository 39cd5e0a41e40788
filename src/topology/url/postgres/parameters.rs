//! The names of libpq's parameters.

/// Parameters of libpq that are refused here, and what to do instead.
pub(super) const REFUSED: &[(&str, &str)] = &[
    (
        "passfile",
        "it is not read: use `password = { file = \"..\" }`",
    ),
    (
        "service",
        "service files are not read: write the parameters into the url",
    ),
    (
        "servicefile",
        "service files are not read: write the parameters into the url",
    ),
    (
        "require_auth",
        "it is not supported by the nonblocking driver, and ignoring it would accept any method",
    ),
    ("requiressl", "it is obsolete: use sslmode=require"),
    (
        "requirepeer",
        "it is not supported by the nonblocking driver",
    ),
    (
        "sslcrl",
        "revocation lists are not supported by the nonblocking driver",
    ),
    (
        "sslcrldir",
        "revocation lists are not supported by the nonblocking driver",
    ),
    (
        "sslpassword",
        "encrypted keys are not supported by the nonblocking driver: decrypt the key file",
    ),
    (
        "sslcertmode",
        "it is not supported by the nonblocking driver: a certificate is sent where sslcert names one",
    ),
    (
        "sslcompression",
        "compression is not supported by the nonblocking driver",
    ),
    (
        "sslkeylogfile",
        "it is not supported by the nonblocking driver",
    ),
    (
        "ssl_max_protocol_version",
        "it is not supported by the nonblocking driver",
    ),
    (
        "min_protocol_version",
        "it is not supported by the nonblocking driver",
    ),
    (
        "max_protocol_version",
        "it is not supported by the nonblocking driver",
    ),
    (
        "krbsrvname",
        "GSSAPI is not supported by the nonblocking driver",
    ),
    (
        "gsslib",
        "GSSAPI is not supported by the nonblocking driver",
    ),
    (
        "gssdelegation",
        "GSSAPI is not supported by the nonblocking driver",
    ),
    ("replication", "replication connections are not supported"),
    (
        "scram_client_key",
        "it is not supported by the nonblocking driver",
    ),
    (
        "scram_server_key",
        "it is not supported by the nonblocking driver",
    ),
    (
        "oauth_issuer",
        "OAuth is not supported by the nonblocking driver",
    ),
    (
        "oauth_client_id",
        "OAuth is not supported by the nonblocking driver",
    ),
    (
        "oauth_client_secret",
        "OAuth is not supported by the nonblocking driver",
    ),
    (
        "oauth_scope",
        "OAuth is not supported by the nonblocking driver",
    ),
];

/// Parameters that mean here what they mean to libpq.
pub(super) const KNOWN: &[&str] = &[
    "application_name",
    "channel_binding",
    "client_encoding",
    "connect_timeout",
    "dbname",
    "fallback_application_name",
    "gssencmode",
    "host",
    "hostaddr",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "load_balance_hosts",
    "options",
    "password",
    "port",
    "ssl",
    "ssl_min_protocol_version",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslnegotiation",
    "sslrootcert",
    "sslsni",
    "target_session_attrs",
    "tcp_user_timeout",
    "user",
];

/// Why a parameter that nothing here knows is not taken.
pub(super) fn why_not(key: &str) -> String {
    if let Some((_, reason)) = REFUSED.iter().find(|(refused, _)| *refused == key) {
        return format!("{key}: {reason}");
    }
    // The name itself is not shown: a password with a raw `&` ends up here.
    let nearest = KNOWN
        .iter()
        .map(|known| (strsim::jaro_winkler(known, key), known))
        .filter(|(likeness, _)| *likeness > 0.85)
        .max_by(|(one, _), (other, _)| one.total_cmp(other));
    match nearest {
        Some((_, known)) => format!("a parameter of the url is unknown, did you mean {known}?"),
        None => "a parameter of the url is unknown (its name is not shown, it may be a piece of a password: `&`, `=` and `?` have to be percent-encoded there)".to_owned(),
    }
}

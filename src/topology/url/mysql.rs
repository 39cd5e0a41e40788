//! A MySQL URL as the nonblocking driver connects with it: mysql_async's parameters are not those of
//! Diesel's blocking driver, and some would be ignored.

use super::DatabaseUrl;
use super::parse::{self, decode};

/// Parameters that mysql_async acts on for a single connection.
const KNOWN: &[&str] = &[
    "compression",
    "enable_cleartext_plugin",
    "max_allowed_packet",
    "prefer_socket",
    "secure_auth",
    "socket",
    "tcp_keepalive",
    "tcp_nodelay",
    "wait_timeout",
];

/// Parameters that are refused, and what to do instead.
const REFUSED: &[(&str, &str)] = &[
    ("unix_socket", "the nonblocking driver calls it socket"),
    ("ssl_mode", NO_TLS),
    ("ssl_ca", NO_TLS),
    ("ssl_cert", NO_TLS),
    ("ssl_key", NO_TLS),
    ("verify_ca", NO_TLS),
    ("verify_identity", NO_TLS),
    ("built_in_roots", NO_TLS),
    ("pool_min", POOL),
    ("pool_max", POOL),
    ("inactive_connection_ttl", POOL),
    ("ttl_check_interval", POOL),
    ("conn_ttl", POOL),
    ("abs_conn_ttl", POOL),
    ("abs_conn_ttl_jitter", POOL),
    ("reset_connection", POOL),
    ("stmt_cache_size", SET),
    ("client_found_rows", SET),
];

const NO_TLS: &str = "the nonblocking MySQL driver does not encrypt by itself, and nothing is sent in the clear that was to be encrypted: connect through `connect_with`, with a feature of mysql_async for TLS";
const POOL: &str = "the pools are diesel-sharded's: use its pool settings";
const SET: &str = "the driver sets it itself";

impl DatabaseUrl {
    /// What the nonblocking driver cannot honour in a MySQL URL; the texts hold no value of any
    /// parameter.
    pub(crate) fn mysql_problems(&self) -> Vec<String> {
        let Some(uri) = parse::mysql(&self.0) else {
            return vec!["the url cannot be read".to_owned()];
        };
        let problem = |(key, value): &(&str, Option<&str>)| {
            let key = &*decode(key);
            // Without it there is nothing to encrypt; anything else asks for it.
            if key == "require_ssl" {
                return (*value != Some("false")).then(|| format!("{key}: {NO_TLS}"));
            }
            if KNOWN.contains(&key) {
                return None;
            }
            Some(match REFUSED.iter().find(|(refused, _)| *refused == key) {
                Some((_, reason)) => format!("{key}: {reason}"),
                // Its name may be a piece of a password.
                None => "a parameter of the url is unknown (its name is not shown)".to_owned(),
            })
        };
        uri.query.iter().filter_map(problem).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(query: &str) -> Vec<String> {
        DatabaseUrl::from(format!("mysql://u:p4ss@h/d?{query}")).mysql_problems()
    }

    #[test]
    fn what_would_be_ignored_or_sent_in_the_clear_is_refused() {
        for known in KNOWN {
            assert!(problems(&format!("{known}=1")).is_empty(), "{known}");
        }
        assert!(problems("require_ssl=false").is_empty());
        for (refused, reason) in REFUSED.iter().chain(&[("require_ssl", NO_TLS)]) {
            let found = problems(&format!("{refused}=s3cret"));
            assert_eq!(found, [format!("{refused}: {reason}")]);
        }
        assert_eq!(problems("require_ssl").len(), 1);
        let unknown = problems("w0rd=s3cret&pool_min=1&tcp_nodelay=true");
        assert_eq!(unknown.len(), 2);
        assert!(!unknown.concat().contains("w0rd"), "{unknown:?}");
    }
}

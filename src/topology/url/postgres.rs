//! A PostgreSQL URL as the nonblocking driver connects with it.
//!
//! libpq and tokio-postgres know different parameters, and tokio-postgres gives two of those they
//! share another meaning. Here every parameter either means what it means to libpq, or is refused:
//! one that is silently ignored could be the one that asks for encryption.

mod parameters;
mod tls;

use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{ChannelBinding, LoadBalanceHosts, TargetSessionAttrs};

use super::DatabaseUrl;
use super::parse::{self, decode};
use tls::Mode;
pub(crate) use tls::TlsSettings;
#[cfg(any(feature = "rustls", test))]
pub(crate) use tls::{Roots, Verify};

/// What to connect with.
#[derive(Clone)]
pub(crate) struct PostgresTarget {
    /// Its `ssl_mode` is `Prefer` or `Require` exactly where `tls` is there.
    pub(crate) config: Config,
    #[cfg_attr(
        not(any(feature = "rustls", test)),
        expect(
            dead_code,
            reason = "without TLS in the build it is an error to want it"
        )
    )]
    pub(crate) tls: Option<TlsSettings>,
}

impl DatabaseUrl {
    /// Takes a PostgreSQL URL or `key=value` string as the nonblocking driver needs it.
    ///
    /// The texts of the problems hold no value of any parameter.
    pub(crate) fn postgres_target(&self) -> Result<PostgresTarget, Vec<String>> {
        let mut reading = Reading::default();
        reading.read(self);
        reading.finish()
    }
}

/// What was found so far.
#[derive(Default)]
struct Reading {
    problems: Vec<String>,
    config: Config,
    password: Option<Vec<u8>>,
    hosts: Vec<String>,
    addresses: Vec<String>,
    ports: Vec<Option<u16>>,
    database: Option<String>,
    user: Option<String>,
    application: Option<String>,
    fallback_application: Option<String>,
    mode: Option<Mode>,
    direct: bool,
    root: Option<String>,
    cert: Option<String>,
    key: Option<String>,
    no_sni: bool,
    only_1_3: bool,
    bound_to_tls: bool,
}

impl Reading {
    fn read(&mut self, url: &DatabaseUrl) {
        if parse::is_uri(url.expose()) {
            let Some((uri, hosts)) =
                parse::postgres(url.expose()).and_then(|uri| uri.hosts().map(|hosts| (uri, hosts)))
            else {
                return self.problem("the url cannot be read");
            };
            self.user = uri.user.map(|user| decode(user).into_owned());
            self.password = uri
                .password
                .map(|password| percent_decode_str(password).collect());
            self.database = uri.database.map(|name| decode(name).into_owned());
            // One empty host: none is named.
            if hosts.iter().any(|(host, _)| !host.is_empty()) {
                self.hosts = hosts.iter().map(|(host, _)| host.clone()).collect();
            }
            if hosts.iter().any(|(_, port)| port.is_some()) {
                self.ports = hosts.iter().map(|(_, port)| *port).collect();
            }
            for (key, value) in &uri.query {
                match value {
                    Some(value) => self.parameter(&decode(key), &decode(value)),
                    None => self.problem("a parameter of the url has no value"),
                }
            }
        } else if let Some(info) = parse::conninfo(url.expose()) {
            for (key, value) in info.pairs() {
                self.parameter(key, value);
            }
        } else {
            self.problem("the key=value string cannot be read");
        }
    }

    fn problem(&mut self, text: impl Into<String>) {
        self.problems.push(text.into());
    }

    fn parameter(&mut self, key: &str, value: &str) {
        let text = || Some(value.to_owned());
        match key {
            "user" => self.user = text(),
            "password" => self.password = Some(value.into()),
            "dbname" => self.database = text(),
            "host" => self.hosts = list(value),
            "hostaddr" => self.addresses = list(value),
            "port" => {
                let ports = value.split(',').map(str::trim).map(|port| match port {
                    "" => Some(None),
                    port => port.parse().ok().filter(|port| *port != 0).map(Some),
                });
                match ports.collect() {
                    Some(ports) => self.ports = ports,
                    None => {
                        self.problem("port takes a number from 1 to 65535, or one for each host")
                    }
                }
            }
            "application_name" => self.application = text(),
            "fallback_application_name" => self.fallback_application = text(),
            "options" => drop(self.config.options(value)),
            "sslrootcert" => self.root = text(),
            "sslcert" => self.cert = text(),
            "sslkey" => self.key = text(),
            "connect_timeout"
            | "tcp_user_timeout"
            | "keepalives"
            | "keepalives_idle"
            | "keepalives_interval"
            | "keepalives_count" => self.number(key, value),
            _ => self.word(key, value),
        }
    }

    /// Parameters whose value is a number.
    fn number(&mut self, key: &str, value: &str) {
        let Ok(number) = value.trim().parse::<i64>() else {
            return self.problem(format!("{key} takes a whole number"));
        };
        let Some(positive) = u64::try_from(number).ok().filter(|number| *number > 0) else {
            // To libpq these mean the default, for `keepalives` none at all.
            if key == "keepalives" {
                self.config.keepalives(number != 0);
            }
            return;
        };
        let seconds = Duration::from_secs(positive);
        match key {
            "connect_timeout" => self.config.connect_timeout(seconds),
            // tokio-postgres would read seconds.
            "tcp_user_timeout" => self
                .config
                .tcp_user_timeout(Duration::from_millis(positive)),
            "keepalives_idle" => self.config.keepalives_idle(seconds),
            "keepalives_interval" => self.config.keepalives_interval(seconds),
            // tokio-postgres calls it `keepalives_retries`.
            "keepalives_count" => self
                .config
                .keepalives_retries(u32::try_from(positive).unwrap_or(u32::MAX)),
            _ => self.config.keepalives(true),
        };
    }

    /// Parameters whose value is one of a few words.
    fn word(&mut self, key: &str, value: &str) {
        match (key, value) {
            ("sslmode", "disable") => self.mode = Some(Mode::Disable),
            ("sslmode", "prefer") => self.mode = Some(Mode::Prefer),
            ("sslmode", "require") | ("ssl", "true") => self.mode = Some(Mode::Require),
            ("sslmode", "verify-ca") => self.mode = Some(Mode::VerifyCa),
            ("sslmode", "verify-full") => self.mode = Some(Mode::VerifyFull),
            ("sslmode", "allow") => self.problem(
                "sslmode=allow is not supported by the nonblocking driver: use prefer, or require",
            ),
            ("sslmode", _) => {
                self.problem("sslmode is one of disable, prefer, require, verify-ca, verify-full");
            }
            ("ssl", _) => self.problem("ssl takes only true: use sslmode"),
            ("sslnegotiation", "postgres") => self.direct = false,
            ("sslnegotiation", "direct") => self.direct = true,
            ("sslnegotiation", _) => self.problem("sslnegotiation is postgres or direct"),
            ("sslsni", "1") => self.no_sni = false,
            ("sslsni", "0") => self.no_sni = true,
            ("sslsni", _) => self.problem("sslsni is 0 or 1"),
            // Below 1.2 nothing is spoken anyway.
            ("ssl_min_protocol_version", "TLSv1" | "TLSv1.1" | "TLSv1.2") => self.only_1_3 = false,
            ("ssl_min_protocol_version", "TLSv1.3") => self.only_1_3 = true,
            ("ssl_min_protocol_version", _) => {
                self.problem("ssl_min_protocol_version is TLSv1.2 or TLSv1.3");
            }
            ("channel_binding", "disable") => self.bind(ChannelBinding::Disable),
            ("channel_binding", "prefer") => self.bind(ChannelBinding::Prefer),
            ("channel_binding", "require") => self.bind(ChannelBinding::Require),
            ("channel_binding", _) => {
                self.problem("channel_binding is disable, prefer or require");
            }
            ("target_session_attrs", "any") => self.session(TargetSessionAttrs::Any),
            ("target_session_attrs", "read-write") => self.session(TargetSessionAttrs::ReadWrite),
            ("target_session_attrs", "read-only") => self.session(TargetSessionAttrs::ReadOnly),
            ("target_session_attrs", _) => self.problem(
                "target_session_attrs is any, read-write or read-only; primary, standby and prefer-standby are not supported by the nonblocking driver",
            ),
            ("load_balance_hosts", "disable") => {
                self.config.load_balance_hosts(LoadBalanceHosts::Disable);
            }
            ("load_balance_hosts", "random") => {
                self.config.load_balance_hosts(LoadBalanceHosts::Random);
            }
            ("load_balance_hosts", _) => self.problem("load_balance_hosts is disable or random"),
            ("gssencmode", "disable" | "prefer") => {}
            ("gssencmode", _) => self.problem(
                "GSSAPI is not supported by the nonblocking driver: gssencmode is disable",
            ),
            ("client_encoding", name) if is_utf8(name) => {}
            ("client_encoding", _) => {
                self.problem("client_encoding is UTF8 in the nonblocking driver");
            }
            _ => self.problem(parameters::why_not(key)),
        }
    }

    fn bind(&mut self, binding: ChannelBinding) {
        self.bound_to_tls = binding == ChannelBinding::Require;
        self.config.channel_binding(binding);
    }

    fn session(&mut self, attributes: TargetSessionAttrs) {
        self.config.target_session_attrs(attributes);
    }

    fn finish(mut self) -> Result<PostgresTarget, Vec<String>> {
        self.servers();
        if let Some(user) = self.user.take().filter(|user| !user.is_empty()) {
            self.config.user(user);
        }
        if let Some(password) = self.password.take().filter(|password| !password.is_empty()) {
            self.config.password(password);
        }
        if let Some(name) = self.database.take().filter(|name| !name.is_empty()) {
            self.config.dbname(name);
        }
        let application = self.application.take().or(self.fallback_application.take());
        if let Some(name) = application {
            self.config.application_name(name);
        }
        let tls = self.tls();
        if self.problems.is_empty() {
            Ok(PostgresTarget {
                config: self.config,
                tls,
            })
        } else {
            Err(self.problems)
        }
    }

    fn servers(&mut self) {
        let count = self.hosts.len().max(self.addresses.len());
        if count == 0 {
            self.problem("no host is named: the nonblocking driver takes no default, write localhost or the folder of the socket");
        }
        if self.hosts.iter().any(String::is_empty) {
            self.problem("a host in the list is empty");
        }
        if !self.hosts.is_empty() && !self.addresses.is_empty() && self.hosts.len() != count
            || !self.addresses.is_empty() && self.addresses.len() != count
        {
            self.problem("host and hostaddr have to be lists of one length");
        }
        if self.ports.len() > 1 && self.ports.len() != count {
            self.problem("port takes one number, or one for each host");
        }
        for host in &self.hosts {
            self.config.host(host);
        }
        for address in std::mem::take(&mut self.addresses) {
            match address.parse() {
                // With a name for it: a certificate is checked against one.
                Ok(address) if self.hosts.is_empty() => {
                    let address: std::net::IpAddr = address;
                    self.config.host(address.to_string()).hostaddr(address);
                }
                Ok(address) => {
                    self.config.hostaddr(address);
                }
                Err(_) => self.problem("hostaddr takes IP addresses"),
            }
        }
        for port in &self.ports {
            self.config.port(port.unwrap_or(5432));
        }
    }
}

fn list(value: &str) -> Vec<String> {
    value.split(',').map(str::to_owned).collect()
}

/// `auto` is what libpq takes from the locale; here it can only be this.
fn is_utf8(name: &str) -> bool {
    ["utf8", "utf-8", "unicode", "auto"]
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests;

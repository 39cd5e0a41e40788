//! Whether the connection is encrypted, and who has to prove what.

use std::path::PathBuf;

use tokio_postgres::config::{SslMode, SslNegotiation};

use super::Reading;

/// How the server proves who it is, and we.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsSettings {
    pub(crate) verify: Verify,
    pub(crate) roots: Roots,
    /// The files of our certificate and its key.
    pub(crate) client: Option<(PathBuf, PathBuf)>,
    /// Whether the name of the host is told while the connection is set up.
    pub(crate) sni: bool,
    /// Whether TLS 1.2 is refused too.
    pub(crate) only_1_3: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verify {
    /// Encryption alone: somebody in the middle is not noticed.
    Nothing,
    /// The certificate comes from a trusted authority.
    Authority,
    /// And it is for this host.
    AuthorityAndHost,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Roots {
    /// Those of the operating system.
    System,
    File(PathBuf),
}

/// Whether this build can encrypt.
const TLS: bool = cfg!(feature = "rustls");

/// `sslmode`, without libpq's `allow`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

impl Mode {
    fn as_str(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Prefer => "prefer",
            Self::Require => "require",
            Self::VerifyCa => "verify-ca",
            Self::VerifyFull => "verify-full",
        }
    }
}

impl Reading {
    /// What the parameters about TLS come to; `None`: it is not encrypted.
    pub(super) fn tls(&mut self) -> Option<TlsSettings> {
        let system = self.root.as_deref() == Some("system");
        // libpq's rule: who trusts the whole world's authorities has to look at the name.
        let default = if system {
            Mode::VerifyFull
        } else {
            Mode::Prefer
        };
        let mode = self.mode.unwrap_or(default);
        let sockets = self
            .hosts
            .iter()
            .filter(|host| host.starts_with('/'))
            .count();
        // Sockets are not encrypted, as with libpq.
        if sockets > 0 && sockets == self.hosts.len() && self.addresses.is_empty() {
            self.config.ssl_mode(SslMode::Disable);
            return None;
        }
        let demanded = !matches!(mode, Mode::Disable | Mode::Prefer);
        if demanded && sockets > 0 {
            self.problem("a list of hosts that holds sockets cannot be encrypted throughout: give each its own url");
        }
        if demanded && !TLS {
            self.problem(format!(
                "sslmode={} needs TLS, which this build cannot do: switch on the feature `rustls` of diesel-sharded; nothing is sent in the clear",
                mode.as_str()
            ));
        }
        if self.bound_to_tls && (!demanded || !TLS) {
            self.problem(
                "channel_binding=require needs sslmode=require or more, and the feature `rustls`",
            );
        }
        if !demanded {
            for (there, key) in [
                (self.root.is_some(), "sslrootcert"),
                (self.cert.is_some(), "sslcert"),
                (self.key.is_some(), "sslkey"),
                (self.direct, "sslnegotiation=direct"),
            ] {
                if there {
                    self.problem(format!(
                        "{key} has no use with sslmode={}, which goes on without TLS: say sslmode=verify-full",
                        mode.as_str()
                    ));
                }
            }
        }
        if system && mode != Mode::VerifyFull {
            self.problem("sslrootcert=system needs sslmode=verify-full: anybody can have a certificate of some public authority");
        }
        if mode == Mode::VerifyCa && self.root.is_none() {
            self.problem("sslmode=verify-ca needs sslrootcert: with the system's authorities only verify-full says anything");
        }
        let client = match (self.cert.take(), self.key.take()) {
            (Some(cert), Some(key)) => Some((cert.into(), key.into())),
            (None, None) => None,
            _ => {
                self.problem("sslcert and sslkey go together");
                None
            }
        };
        if mode == Mode::Disable || !TLS {
            self.config.ssl_mode(SslMode::Disable);
            return None;
        }
        self.config.ssl_mode(if demanded {
            SslMode::Require
        } else {
            SslMode::Prefer
        });
        if self.direct {
            self.config.ssl_negotiation(SslNegotiation::Direct);
        }
        let verify = match mode {
            // libpq's rule: with authorities at hand, `require` looks at them.
            Mode::Require if self.root.is_some() => Verify::Authority,
            Mode::VerifyCa => Verify::Authority,
            Mode::VerifyFull => Verify::AuthorityAndHost,
            Mode::Disable | Mode::Prefer | Mode::Require => Verify::Nothing,
        };
        let roots = match self.root.take() {
            Some(file) if !system => Roots::File(file.into()),
            _ => Roots::System,
        };
        Some(TlsSettings {
            verify,
            roots,
            client,
            sni: !self.no_sni,
            only_1_3: self.only_1_3,
        })
    }
}

//! Takes the secrets of a URL out of a text that somebody else wrote.

use std::borrow::Cow;

use super::{DatabaseUrl, MASK, PRINTABLE, UrlKind, decode, parse};

#[cfg_attr(
    not(any(feature = "r2d2", feature = "bb8", test)),
    expect(dead_code, reason = "only a driver has messages to scrub")
)]
impl DatabaseUrl {
    /// A driver's message without the secrets of this URL, whatever spelling it repeats them in.
    pub(crate) fn scrub(&self, message: &str) -> String {
        // libpq repeats what it cannot decode, which may be a password that is not this URL's.
        let message = match message.split_once("invalid percent-encoded token") {
            Some((before, _)) => format!("{before}invalid percent-encoded token"),
            None => message.to_owned(),
        };
        let mut text = message.replace(self.expose(), &self.to_string());
        for secret in self.secrets() {
            if !secret.is_empty() {
                text = text.replace(secret.as_ref(), MASK);
            }
        }
        text
    }

    fn secrets(&self) -> Vec<Cow<'_, str>> {
        let of_uri = |uri: parse::Uri<'_>| {
            let raw = uri.password.into_iter().chain(
                uri.query
                    .iter()
                    .filter(|(key, _)| !PRINTABLE.contains(key))
                    .filter_map(|(_, value)| *value),
            );
            raw.flat_map(|raw| [decode(raw).into_owned(), raw.to_owned()])
                .map(Cow::Owned)
                .collect()
        };
        match self.kind() {
            Some(UrlKind::Postgres) if parse::is_uri(self.expose()) => {
                parse::postgres(self.expose()).map(of_uri)
            }
            Some(UrlKind::Postgres) => parse::conninfo(self.expose()).map(|info| {
                info.pairs()
                    .filter(|(key, _)| !PRINTABLE.contains(key))
                    .map(|(_, value)| Cow::Owned(value.to_owned()))
                    .collect()
            }),
            Some(UrlKind::Mysql) => parse::mysql(self.expose()).map(of_uri),
            Some(UrlKind::Sqlite) | None => None,
        }
        .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::DatabaseUrl;

    #[test]
    fn no_spelling_of_a_secret_survives() {
        for url in [
            "postgres://app:S3cr3t%21x@db/orders",
            "mysql://app:S3cr3t%21x@db/orders",
            "host=db password='S3cr3t!x'",
            "postgres://app@db/orders?password=S3cr3t%21x",
        ] {
            let url = DatabaseUrl::from(url);
            let message = format!(
                "cannot parse {}: S3cr3t!x is wrong, and so is S3cr3t%21x for app",
                url.expose()
            );
            let scrubbed = url.scrub(&message);
            assert!(!scrubbed.contains("S3cr3t!x"), "{scrubbed}");
            assert!(scrubbed.ends_with("for app"), "{scrubbed}");
        }
    }

    #[test]
    fn the_path_of_a_certificate_or_key_is_shown_and_its_password_is_not() {
        for url in [
            "postgres://app@db/orders?sslrootcert=/etc/ca.crt&sslkey=/run/me.key&sslsni=0&sslpassword=S3cr3t",
            "host=db sslrootcert=/etc/ca.crt sslkey='/run/me.key' sslsni=0 sslpassword=S3cr3t",
        ] {
            let message = "sslrootcert (/etc/ca.crt): no such file; sslkey (/run/me.key): 10 bytes";
            let url = DatabaseUrl::from(url);
            assert_eq!(url.scrub(message), message);
            assert_eq!(url.scrub("S3cr3t does not open it"), "*** does not open it");
        }
    }
}

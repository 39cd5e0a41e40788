//! Who the server has to be: rustls, with libpq's degrees of trust.

use std::path::Path;
use std::sync::Arc;

use diesel::{ConnectionError, ConnectionResult};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::topology::{Roots, TlsSettings, Verify};

/// Reads the certificates and makes what tokio-postgres connects with.
///
/// The files are read anew for each connection, so that certificates can be exchanged while the
/// process runs.
pub(super) async fn connector(settings: TlsSettings) -> ConnectionResult<MakeRustlsConnect> {
    let made = tokio::task::spawn_blocking(move || config(&settings)).await;
    made.unwrap_or_else(|_| Err("reading the certificates panicked".to_owned()))
        .map(MakeRustlsConnect::new)
        .map_err(ConnectionError::InvalidConnectionUrl)
}

/// Whether it was the encryption that failed.
pub(super) fn failed(error: &tokio_postgres::Error) -> bool {
    error
        .to_string()
        .starts_with("error performing TLS handshake")
}

fn config(settings: &TlsSettings) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let versions: &[_] = match settings.only_1_3 {
        true => &[&rustls::version::TLS13],
        false => rustls::ALL_VERSIONS,
    };
    let verifier = Verifier::new(settings, &provider)?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .map_err(|error| error.to_string())?
        // Not dangerous where it matters: see `Verifier`.
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match &settings.client {
        None => builder.with_no_client_auth(),
        Some((cert, key)) => builder
            .with_client_auth_cert(certificates(cert, "sslcert")?, private_key(key)?)
            .map_err(|error| format!("sslcert and sslkey: {error}"))?,
    };
    config.enable_sni = settings.sni;
    // Direct negotiation asks for it, and others do not mind.
    config.alpn_protocols = vec![b"postgresql".to_vec()];
    Ok(config)
}

fn certificates(file: &Path, key: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let unreadable = |error| format!("{key} ({}): {error}", file.display());
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(file)
        .map_err(unreadable)?
        .collect();
    match found.map_err(unreadable)? {
        found if found.is_empty() => {
            Err(format!("{key} ({}) holds no certificate", file.display()))
        }
        found => Ok(found),
    }
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_file(file)
        .map_err(|error| format!("sslkey ({}): {error}", file.display()))
}

/// Checks the server's certificate as far as `sslmode` says. Its signature under the handshake is
/// checked always: whoever answers has the key of the certificate that he shows.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    trust: Option<Trust>,
}

#[derive(Debug)]
struct Trust {
    chains: Arc<WebPkiServerVerifier>,
    roots: Vec<CertificateDer<'static>>,
    host: bool,
}

impl Verifier {
    fn new(settings: &TlsSettings, provider: &Arc<CryptoProvider>) -> Result<Self, String> {
        let trust = match settings.verify {
            Verify::Nothing => None,
            Verify::Authority | Verify::AuthorityAndHost => Some(Trust::new(settings, provider)?),
        };
        Ok(Self {
            provider: Arc::clone(provider),
            trust,
        })
    }
}

impl Trust {
    fn new(settings: &TlsSettings, provider: &Arc<CryptoProvider>) -> Result<Self, String> {
        let mut store = RootCertStore::empty();
        let roots = match &settings.roots {
            Roots::File(file) => {
                let roots = certificates(file, "sslrootcert")?;
                for root in &roots {
                    store
                        .add(root.clone())
                        .map_err(|error| format!("sslrootcert ({}): {error}", file.display()))?;
                }
                roots
            }
            Roots::System => {
                // One that is of no use to rustls is left out; the others are still good.
                store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                Vec::new()
            }
        };
        if store.is_empty() {
            return Err(
                "this system has no trusted certificates: install them, or name a file by sslrootcert"
                    .to_owned(),
            );
        }
        let chains =
            WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider))
                .build()
                .map_err(|error| error.to_string())?;
        Ok(Self {
            chains,
            roots,
            host: settings.verify == Verify::AuthorityAndHost,
        })
    }

    fn check(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        let checked = self
            .chains
            .verify_server_cert(end_entity, intermediates, name, ocsp, now);
        match checked {
            Ok(_) => Ok(()),
            // The name comes last: chain and dates were in order.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.host => Ok(()),
            // A certificate that is trusted by itself, as the one that `openssl req -x509` makes for a
            // server: its dates were in order, only that it calls itself an authority too is not
            // liked. OpenSSL, and so libpq, takes it.
            Err(rustls::Error::InvalidCertificate(CertificateError::Other(_)))
                if self.roots.iter().any(|root| root == end_entity) =>
            {
                match self.host {
                    true => verify_server_name(&ParsedCertificate::try_from(end_entity)?, name),
                    false => Ok(()),
                }
            }
            Err(error) => Err(error),
        }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if let Some(trust) = &self.trust {
            trust.check(end_entity, intermediates, name, ocsp, now)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests;

use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};

use super::*;

fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, name);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn server(host: &str) -> CertificateParams {
    CertificateParams::new(vec![host.to_owned()]).unwrap()
}

/// Checks a certificate for the host `db.example` against these roots.
fn check(roots: &[&str], end_entity: &CertificateDer<'_>, host: bool) -> Result<(), rustls::Error> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("roots.crt");
    std::fs::write(&file, roots.concat()).unwrap();
    let settings = TlsSettings {
        verify: match host {
            true => Verify::AuthorityAndHost,
            false => Verify::Authority,
        },
        roots: Roots::File(file),
        client: None,
        sni: true,
        only_1_3: false,
    };
    let trust = Trust::new(&settings, &Arc::new(ring::default_provider())).unwrap();
    let name = ServerName::try_from("db.example").unwrap();
    let now = UnixTime::since_unix_epoch(Duration::from_secs(1_800_000_000));
    trust.check(end_entity, &[], &name, &[], now)
}

fn refused(checked: Result<(), rustls::Error>) -> CertificateError {
    match checked {
        Err(rustls::Error::InvalidCertificate(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_the_own_authority_is_trusted_and_the_name_counts_where_it_is_asked_for() {
    let (ours, theirs) = (authority("ours"), authority("theirs"));
    let key = KeyPair::generate().unwrap();
    let right = server("db.example").signed_by(&key, &ours).unwrap();
    let other = server("other.example").signed_by(&key, &ours).unwrap();
    let (ours, theirs) = (ours.pem(), theirs.pem());
    for host in [true, false] {
        check(&[&ours], right.der(), host).unwrap();
        check(&[&theirs, &ours], right.der(), host).unwrap();
        let unknown = refused(check(&[&theirs], right.der(), host));
        assert_eq!(unknown, CertificateError::UnknownIssuer);
    }
    check(&[&ours], other.der(), false).unwrap();
    let wrong_name = refused(check(&[&ours], other.der(), true));
    assert!(matches!(
        wrong_name,
        CertificateError::NotValidForNameContext { .. }
    ));
    // The name comes after the chain: `verify-ca` does not take another's certificate for it.
    let unknown = refused(check(&[&theirs], other.der(), false));
    assert_eq!(unknown, CertificateError::UnknownIssuer);
}

#[test]
fn a_certificate_that_is_trusted_by_itself_is_taken_while_it_is_valid() {
    let make = |host: &str, last_year: i32| {
        let mut params = server(host);
        // What `openssl req -x509` makes.
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(last_year, 1, 1);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap()
    };
    let own = make("db.example", 2040);
    let other = make("other.example", 2040);
    let stale = make("db.example", 2021);
    for host in [true, false] {
        check(&[&own.pem()], own.der(), host).unwrap();
        let expired = refused(check(&[&stale.pem()], stale.der(), host));
        assert!(
            matches!(expired, CertificateError::ExpiredContext { .. }),
            "{expired:?}"
        );
        // Trusted are those in the file, not their like.
        refused(check(&[&own.pem()], make("db.example", 2040).der(), host));
    }
    check(&[&other.pem()], other.der(), false).unwrap();
    refused(check(&[&other.pem()], other.der(), true));
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let settings = |roots: &str| TlsSettings {
        verify: Verify::Authority,
        roots: Roots::File(folder.path().join(roots)),
        client: None,
        sni: true,
        only_1_3: false,
    };
    let missing = config(&settings("missing.crt")).unwrap_err();
    assert!(missing.contains("sslrootcert") && missing.contains("missing.crt"));
    std::fs::write(folder.path().join("empty.crt"), "no certificate\n").unwrap();
    let empty = config(&settings("empty.crt")).unwrap_err();
    assert!(empty.contains("holds no certificate"), "{empty}");
    let ours = authority("ours");
    std::fs::write(folder.path().join("ca.crt"), ours.pem()).unwrap();
    let client = |cert: &str, key: &str| TlsSettings {
        client: Some((folder.path().join(cert), folder.path().join(key))),
        ..settings("ca.crt")
    };
    let no_key = config(&client("ca.crt", "ca.crt")).unwrap_err();
    assert!(no_key.contains("sslkey"), "{no_key}");
    let config = config(&settings("ca.crt")).unwrap();
    assert_eq!(config.alpn_protocols, [b"postgresql"]);
}

//! In: CA files. Out: a TLS configuration that trusts the machine's CAs and these. With an explicit crypto provider: a process-wide default
//! could be set twice.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use shorefast_trust::Chosen;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use crate::error::Error;

pub(crate) fn configuration(ca_files: &[PathBuf]) -> Result<TlsConfig, Error> {
    let mut trusted = Vec::new();
    for path in ca_files {
        trusted.extend(certificates(path)?);
    }
    // Single unreadable files among the machine's CAs are not an error: the others may be enough.
    let machine = rustls_native_certs::load_native_certs().certs;
    trusted.extend(machine.iter().map(|certificate| Certificate::from_der(certificate).to_owned()));
    if trusted.is_empty() {
        return Err(Error::NoCertificates);
    }
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&trusted))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build())
}

fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>, Error> {
    let unreadable = |source| Error::Certificates { path: path.to_owned(), source };
    let text = shorefast_trust::read(path, Chosen::ByCaller).map_err(|error| unreadable(error.into()))?;
    let mut found = Vec::new();
    for item in parse_pem(&text) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| unreadable(error.into()))? {
            found.push(certificate);
        }
    }
    if found.is_empty() { Err(unreadable("it holds no certificate".into())) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ca_file_without_certificates_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ca.pem");
        assert!(matches!(configuration(std::slice::from_ref(&path)), Err(Error::Certificates { .. })), "it is not there");
        std::fs::write(&path, "no certificate").unwrap();
        assert!(matches!(configuration(&[path]), Err(Error::Certificates { .. })));
    }
}

//! TLS by rustls, versions 1.2 and 1.3 with its own choice of suites: what a client with sockets
//! needs here, and a handshake without sockets in [`handshake`].

pub mod handshake;

use std::sync::Arc;

pub use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// Why there is no client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsFault {
    /// Nothing in the text can be read as a certificate.
    #[error("there is no certificate in it")]
    NoAuthority,
    /// rustls refuses, in its own words.
    #[error("{0}")]
    Refused(String),
}

/// A client that trusts the authorities in a PEM text. Certificates that it cannot read are
/// skipped.
pub fn client(authorities: &[u8]) -> Result<ClientConfig, TlsFault> {
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_slice_iter(authorities).filter_map(Result::ok);
    let (added, _) = roots.add_parsable_certificates(certificates);
    if added == 0 {
        return Err(TlsFault::NoAuthority);
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let versions = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|fault| TlsFault::Refused(fault.to_string()))?;
    Ok(versions.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_without_a_certificate_makes_no_client() {
        for text in [
            "",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        ] {
            assert_eq!(client(text.as_bytes()).err(), Some(TlsFault::NoAuthority));
        }
    }
}

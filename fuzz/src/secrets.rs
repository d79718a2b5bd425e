//! What peers and gateway know at the start.

use std::sync::{Arc, OnceLock};

use crypto::cert::{Certificate, TrustStore};
use crypto::sign::PrivateKey;

/// The pre-shared key of peers and gateway.
pub const SECRET: &[u8] = b"a shared secret";
/// Suites of phase 1: fast ones, because an input makes many handshakes.
pub const SUITE: &str = "aes128-sha1-modp768";

/// Keys and certificates, which are for tests only and worth nothing.
pub struct Pki {
    /// The gateway's key and chain.
    pub gateway: (Arc<PrivateKey>, Vec<Certificate>),
    /// A peer's key and certificate.
    pub station: (Arc<PrivateKey>, Certificate),
    /// The gateway's trust store.
    pub trust: Arc<TrustStore>,
}

/// Read once.
pub fn pki() -> &'static Pki {
    static PKI: OnceLock<Pki> = OnceLock::new();
    PKI.get_or_init(|| {
        let certificate = |text| {
            let all = Certificate::all_from_pem(text).expect("a certificate");
            all.into_iter().next().expect("one")
        };
        let key = |text| Arc::new(PrivateKey::from_pem(text).expect("a key"));
        Pki {
            gateway: (
                key(keys!("gateway.key")),
                vec![
                    certificate(keys!("gateway.crt")),
                    certificate(keys!("mid.crt")),
                ],
            ),
            station: (key(keys!("station.key")), certificate(keys!("station.crt"))),
            trust: Arc::new(TrustStore {
                authorities: vec![certificate(keys!("ca.crt"))],
                ..TrustStore::default()
            }),
        }
    })
}

macro_rules! keys {
    ($name:literal) => {
        include_str!(concat!("../../crates/engine/src/ikev1/tests/keys/", $name))
    };
}
use keys;

/// The bare signature of IKEv1 (RFC 2409 §5.1); the keys here are RSA.
pub fn sign_bare(key: &PrivateKey, hash: &[u8]) -> Vec<u8> {
    match key {
        PrivateKey::Rsa(key) => key.sign_bare(hash),
        _ => panic!("a key of RSA"),
    }
}

//! The fixed certificates and calendar of simulated tunnels: test data, in everybody's hands.
//!
//! Keys of 2048 bits, made once, so that every run has the same messages of the same lengths, and
//! a fingerprint means something. They have the form of those that the testbed makes for itself.

use std::sync::Arc;

use crypto::cert::{Certificate, TrustStore};
use crypto::rsa::PrivateKey;
use engine::config::{LocalMethod, RemoteMethod};
use engine::time::Calendar;

/// 2026-01-01 00:00:00 UTC. The certificates are valid from 2020 to 2049.
pub const CALENDAR: Calendar = Calendar(1_767_225_600);
/// The name in the station's certificate.
pub const STATION: &str = "ms.example";
/// The name in the gateway's certificate.
pub const GATEWAY: &str = "sg.example";

const AUTHORITY: &str = include_str!("pki/test-only-ca.pem");
const STATION_FILES: (&str, &str) = (
    include_str!("pki/test-only-ms.pem"),
    include_str!("pki/test-only-ms.key"),
);
const GATEWAY_FILES: (&str, &str) = (
    include_str!("pki/test-only-sg.pem"),
    include_str!("pki/test-only-sg.key"),
);

/// How one end proves itself and whom it believes.
pub fn credentials(is_station: bool) -> (LocalMethod, RemoteMethod) {
    let (certificate, key) = if is_station {
        STATION_FILES
    } else {
        GATEWAY_FILES
    };
    let read = |text| Certificate::all_from_pem(text).expect("a certificate of our own");
    let key = PrivateKey::from_pem(key).expect("a key of our own");
    let trusted = TrustStore {
        authorities: read(AUTHORITY),
        ..TrustStore::default()
    };
    let local = LocalMethod::Signature {
        key: Arc::new(key),
        chain: read(certificate),
    };
    (local, RemoteMethod::Signature(Arc::new(trusted)))
}

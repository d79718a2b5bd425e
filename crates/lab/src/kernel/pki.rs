//! The fixed certificates and calendar of simulated tunnels: test data, in everybody's hands.
//!
//! Keys of 2048 bits, made once, so that every run has the same messages of the same lengths, and
//! a fingerprint means something. They have the form of those that the testbed makes for itself.

use std::sync::Arc;

use crypto::cert::{Certificate, TrustStore};
use crypto::rsa::PrivateKey;
use engine::config::{LocalMethod, RemoteMethod};
use engine::time::Calendar;

use crate::scenario::POLICIES_MAX;

/// 2026-01-01 00:00:00 UTC. The certificates are valid from 2020 to 2049.
pub const CALENDAR: Calendar = Calendar(1_767_225_600);
/// The names in the certificates of stations: of each policy at one gateway another.
pub const STATIONS: [&str; POLICIES_MAX] =
    ["ms.example", "ms-2.example", "ms-3.example", "ms-4.example"];
/// The name in the gateway's certificate.
pub const GATEWAY: &str = "sg.example";

const AUTHORITY: &str = include_str!("pki/test-only-ca.pem");
/// Issued the certificates of stations after the first, under the same name.
const SECOND_AUTHORITY: &str = include_str!("pki/test-only-ca-2.pem");
const STATION_CERTIFICATES: [&str; POLICIES_MAX] = [
    include_str!("pki/test-only-ms.pem"),
    include_str!("pki/test-only-ms-2.pem"),
    include_str!("pki/test-only-ms-3.pem"),
    include_str!("pki/test-only-ms-4.pem"),
];
const STATION_KEY: &str = include_str!("pki/test-only-ms.key");
const GATEWAY_FILES: (&str, &str) = (
    include_str!("pki/test-only-sg.pem"),
    include_str!("pki/test-only-sg.key"),
);

/// How one end proves itself and whom it believes; `rank` is the place in [`STATIONS`].
pub fn credentials(is_station: bool, rank: usize) -> (LocalMethod, RemoteMethod) {
    let (certificate, key, authority) = match (is_station, rank) {
        (true, _) => (STATION_CERTIFICATES[rank], STATION_KEY, AUTHORITY),
        (false, 0) => (GATEWAY_FILES.0, GATEWAY_FILES.1, AUTHORITY),
        (false, _) => (GATEWAY_FILES.0, GATEWAY_FILES.1, SECOND_AUTHORITY),
    };
    let read = |text| Certificate::all_from_pem(text).expect("a certificate of our own");
    let key = PrivateKey::from_pem(key).expect("a key of our own");
    let trusted = TrustStore {
        authorities: read(authority),
        ..TrustStore::default()
    };
    let local = LocalMethod::Signature {
        key: Arc::new(key),
        chain: read(certificate),
    };
    (local, RemoteMethod::Signature(Arc::new(trusted)))
}

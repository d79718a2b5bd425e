//! The fixed certificates and calendar of simulated tunnels: public test data.
//!
//! The keys of 2048 bits were made once, so that every run has the same messages of the same
//! lengths, and fingerprints are comparable. The certificates have the same form as the testbed's.

use std::sync::Arc;

use crypto::cert::{Certificate, TrustStore};
use crypto::sign::PrivateKey;
use engine::config::{LocalMethod, RemoteMethod};
use engine::time::Calendar;

use crate::scenario::POLICIES_MAX;

/// 2026-01-01 00:00:00 UTC. The certificates are valid from 2020 to 2049.
pub const CALENDAR: Calendar = Calendar(1_767_225_600);
/// The names in the certificates of stations: a different one for each policy at one gateway.
pub const STATIONS: [&str; POLICIES_MAX] =
    ["ms.example", "ms-2.example", "ms-3.example", "ms-4.example"];
/// The name in the gateway's certificate.
pub const GATEWAY: &str = "sg.example";

const AUTHORITY: &str = include_str!("pki/test-only-ca.pem");
/// It issued the certificates of stations other than the first, under the same name.
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

/// The credentials and trust of one end; `rank` is the index in [`STATIONS`].
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

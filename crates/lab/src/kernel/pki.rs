//! The fixed certificates and calendar of simulated tunnels: public test data.
//!
//! The keys were made once, so that every run has the same messages of the same lengths, and
//! fingerprints are comparable: ECDSA signs with the length that most of its signatures have. The
//! certificates have the same form as the testbed's.

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

/// The kind of all keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// RSA, 2048 bits.
    Rsa2048,
    /// ECDSA on P-256.
    P256,
    /// Ed25519.
    Ed25519,
}

/// PEM files.
struct Files {
    authority: &'static str,
    /// It issued the certificates of stations other than the first, under the same name.
    second: &'static str,
    gateway: (&'static str, &'static str),
    stations: [&'static str; POLICIES_MAX],
    /// All stations have one key.
    key: &'static str,
}

macro_rules! files {
    ($prefix:literal) => {
        Files {
            authority: include_str!(concat!("pki/", $prefix, "-ca.pem")),
            second: include_str!(concat!("pki/", $prefix, "-ca-2.pem")),
            gateway: (
                include_str!(concat!("pki/", $prefix, "-sg.pem")),
                include_str!(concat!("pki/", $prefix, "-sg.key")),
            ),
            stations: [
                include_str!(concat!("pki/", $prefix, "-ms.pem")),
                include_str!(concat!("pki/", $prefix, "-ms-2.pem")),
                include_str!(concat!("pki/", $prefix, "-ms-3.pem")),
                include_str!(concat!("pki/", $prefix, "-ms-4.pem")),
            ],
            key: include_str!(concat!("pki/", $prefix, "-ms.key")),
        }
    };
}

static RSA_2048: Files = files!("test-only");
static P256: Files = files!("test-only-p256");
static ED25519: Files = files!("test-only-ed25519");

/// The credentials and trust of one end; `rank` is the index in [`STATIONS`].
pub fn credentials(kind: Kind, is_station: bool, rank: usize) -> (LocalMethod, RemoteMethod) {
    let files = match kind {
        Kind::Rsa2048 => &RSA_2048,
        Kind::P256 => &P256,
        Kind::Ed25519 => &ED25519,
    };
    let authority = match (is_station, rank) {
        (true, _) | (false, 0) => files.authority,
        (false, _) => files.second,
    };
    let (certificate, key) = match is_station {
        true => (files.stations[rank], files.key),
        false => files.gateway,
    };
    let read = |text| Certificate::all_from_pem(text).expect("a certificate of our own");
    let key = PrivateKey::from_pem(key).expect("a key of our own");
    let trusted = TrustStore {
        authorities: read(authority),
        ..TrustStore::default()
    };
    let local = LocalMethod::Signature {
        key: Arc::new(key.of_one_length()),
        chain: read(certificate),
    };
    (local, RemoteMethod::Signature(Arc::new(trusted)))
}

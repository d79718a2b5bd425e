//! The fixed certificates and calendar of simulated tunnels: public test data.
//!
//! The keys were made once, so that every run has the same messages of the same lengths, and
//! fingerprints are comparable: ECDSA signs with the length that most of its signatures have. The
//! certificates have the same form as the testbed's. Those of ML-DSA are made from fixed seeds each
//! time, because its keys are that and its signatures repeat.

use std::sync::Arc;

use crypto::cert::{
    Authority, Certificate, KeyMaterial, Request, SigningKey, TrustStore, private_key_pem,
};
use crypto::ml_dsa::{MlDsa, seed_to_pkcs8};
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
    /// ML-DSA.
    MlDsa(MlDsa),
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
        Kind::MlDsa(set) => return of_ml_dsa(set, is_station, rank),
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

/// 2020-01-01 00:00:00 UTC, and almost thirty years.
const VALID: (i64, u32) = (1_577_836_800, 10_950);

/// The same with keys of ML-DSA. One authority has issued the certificates of the gateway and of
/// the first station, another of the same name those of other stations.
fn of_ml_dsa(set: MlDsa, is_station: bool, rank: usize) -> (LocalMethod, RemoteMethod) {
    const OURS: &str = "what is made of fixed seeds";
    let (now, days) = VALID;
    let pem = |seed: u8| private_key_pem(&seed_to_pkcs8(set, &[seed; 32]));
    let key = |seed: u8| SigningKey::from_pem(&pem(seed)).expect(OURS);
    let authority = |is_second: bool| {
        let seed = 1 + u8::from(is_second);
        Authority::create("CN=testbed CA", key(seed), &[seed], now, days).expect(OURS)
    };
    let read = |text: &str| Certificate::all_from_pem(text).expect(OURS);
    let (name, own) = match is_station {
        true => (STATIONS[rank], 3),
        false => (GATEWAY, 4),
    };
    let issued = authority(is_station && rank > 0).issue(&Request {
        subject: &format!("CN={name}"),
        alternative_names: &[name.to_owned()],
        key: KeyMaterial::Pair(&key(own)),
        serial: &[own, rank as u8 + 1],
        now,
        days,
    });
    let local = LocalMethod::Signature {
        key: Arc::new(PrivateKey::from_pem(&pem(own)).expect(OURS)),
        chain: read(&issued.expect(OURS)),
    };
    let trusted = authority(!is_station && rank > 0);
    let trusted = TrustStore {
        authorities: read(trusted.certificate_pem()),
        ..TrustStore::default()
    };
    (local, RemoteMethod::Signature(Arc::new(trusted)))
}

//! Measures key exchanges and signatures of IKE, and its prf. Those of RSA are IKEv1's; IKEv2's
//! differ from them by a hash.

use std::collections::BTreeMap;
use std::io;
use std::time::Instant;

use crypto::cert::SigningKey;
use crypto::dh::{Group, KeyPair};
use crypto::hash::Hash;
use crypto::key_exchange::{Initiator, Method, respond};
use crypto::ml_dsa::MlDsa;
use crypto::rand::Seed;
use crypto::rsa::PrivateKey;
use crypto::sign::{self, Scheme};
use engine::suite::of_agreement;

use super::{Costs, Stopwatch};

const HASHES: [(&str, Hash); 5] = [
    ("md5", Hash::Md5),
    ("sha1", Hash::Sha1),
    ("sha256", Hash::Sha256),
    ("sha384", Hash::Sha384),
    ("sha512", Hash::Sha512),
];
const RSA_BITS: [u32; 3] = [2048, 3072, 4096];
/// Those of IKEv2 that IKEv1 does not have.
const METHODS: [(&str, Method); 5] = [
    ("p256", Method::Ecp256),
    ("p384", Method::Ecp384),
    ("p521", Method::Ecp521),
    ("ml-kem-768", Method::MlKem768),
    ("ml-kem-1024", Method::MlKem1024),
];
/// PKCS #8 of keys of IKEv2, up to the secret (RFC 5915, RFC 8410, RFC 9881).
const KEYS: [(&str, &[u8], Scheme); 5] = [
    (
        "ecdsa-p256",
        &[
            0x30, 0x41, 0x02, 0x01, 0x00, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d,
            0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x04, 0x27,
            0x30, 0x25, 0x02, 0x01, 0x01, 0x04, 0x20,
        ],
        Scheme::Ecdsa(Hash::Sha256),
    ),
    (
        "ed25519",
        &[
            0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22,
            0x04, 0x20,
        ],
        Scheme::Ed25519,
    ),
    (
        "ml-dsa-44",
        &[
            0x30, 0x34, 0x02, 0x01, 0x00, 0x30, 0x0b, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65,
            0x03, 0x04, 0x03, 0x11, 0x04, 0x22, 0x80, 0x20,
        ],
        Scheme::MlDsa(MlDsa::Set44),
    ),
    (
        "ml-dsa-65",
        &[
            0x30, 0x34, 0x02, 0x01, 0x00, 0x30, 0x0b, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65,
            0x03, 0x04, 0x03, 0x12, 0x04, 0x22, 0x80, 0x20,
        ],
        Scheme::MlDsa(MlDsa::Set65),
    ),
    (
        "ml-dsa-87",
        &[
            0x30, 0x34, 0x02, 0x01, 0x00, 0x30, 0x0b, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65,
            0x03, 0x04, 0x03, 0x13, 0x04, 0x22, 0x80, 0x20,
        ],
        Scheme::MlDsa(MlDsa::Set87),
    ),
];
/// Octets of a prf's input in phase 1: about a KE payload, both cookies and an ID.
const PRF_BYTES: usize = 512;
/// Calls of one batch, for operations that are too short to be timed alone.
const BATCH: usize = 256;

pub(super) fn measure(stopwatch: &Stopwatch) -> io::Result<BTreeMap<String, Costs>> {
    let mut all = BTreeMap::new();
    for group in Group::ALL {
        all.insert(of_agreement(group).to_owned(), agreement(group, stopwatch));
    }
    for bits in RSA_BITS {
        all.insert(format!("rsa{bits}"), signature(bits, stopwatch)?);
    }
    for (name, method) in METHODS {
        all.insert(name.to_owned(), exchange(method, stopwatch)?);
    }
    for (name, front, scheme) in KEYS {
        all.insert(name.to_owned(), ikev2_signature(front, scheme, stopwatch)?);
    }
    for (name, hash) in HASHES {
        let ns = stopwatch.median_ns(|| {
            let (key, data) = ([1; 20], [2; PRF_BYTES]);
            let start = Instant::now();
            for _ in 0..BATCH {
                std::hint::black_box(hash.hmac(&key, &[std::hint::black_box(&data)]));
            }
            (start.elapsed(), BATCH)
        });
        let cost = (format!("prf_ns_{PRF_BYTES}"), ns);
        all.insert(format!("prf-{name}"), Costs::from([cost]));
    }
    Ok(all)
}

fn agreement(group: Group, stopwatch: &Stopwatch) -> Costs {
    let mut random = Seed::new([3; 32]).stream("bench", 1);
    let ours = KeyPair::generate(group, &mut random);
    let peers = KeyPair::generate(group, &mut random);
    let generate = stopwatch.median_of_one_ns(|| KeyPair::generate(group, &mut random));
    let agree = stopwatch.median_of_one_ns(|| ours.agree(peers.public()).is_ok());
    Costs::from([
        ("generate_ns".to_owned(), generate),
        ("agree_ns".to_owned(), agree),
    ])
}

/// A KEM has other operations than an agreement: the responder's half and secret are one.
fn exchange(method: Method, stopwatch: &Stopwatch) -> io::Result<Costs> {
    let mut random = Seed::new([5; 32]).stream("bench", 2);
    let ours = Initiator::generate(method, &mut random);
    let answered = respond(method, ours.public(), &mut random);
    let (response, _) = answered.map_err(io::Error::other)?;
    let generate = stopwatch.median_of_one_ns(|| Initiator::generate(method, &mut random));
    let finish = stopwatch.median_of_one_ns(|| ours.finish(&response).is_ok());
    let mut costs = Costs::from([("generate_ns".to_owned(), generate)]);
    if method.is_kem() {
        let answer =
            stopwatch.median_of_one_ns(|| respond(method, ours.public(), &mut random).is_ok());
        costs.insert("encapsulate_ns".to_owned(), answer);
        costs.insert("decapsulate_ns".to_owned(), finish);
    } else {
        costs.insert("agree_ns".to_owned(), finish);
    }
    Ok(costs)
}

/// Signatures of a fixed key over as many octets as AUTH covers.
fn ikev2_signature(front: &[u8], scheme: Scheme, stopwatch: &Stopwatch) -> io::Result<Costs> {
    let der = [front, &[7; 32]].concat();
    let key = sign::PrivateKey::from_der(&der).map_err(io::Error::other)?;
    let public = key.public();
    let mut random = Seed::new([6; 32]).stream("bench", 3);
    let message = [8; PRF_BYTES];
    let parts: [&[u8]; 1] = [&message];
    let signed = key.sign(scheme, &parts, &mut random);
    let signed = signed.map_err(io::Error::other)?;
    let sign = stopwatch.median_of_one_ns(|| key.sign(scheme, &parts, &mut random).is_ok());
    let verify = stopwatch.median_of_one_ns(|| public.verify(scheme, &parts, &signed).is_ok());
    Ok(Costs::from([
        ("sign_ns".to_owned(), sign),
        ("verify_ns".to_owned(), verify),
    ]))
}

fn signature(bits: u32, stopwatch: &Stopwatch) -> io::Result<Costs> {
    let made = SigningKey::generate(bits).map_err(io::Error::other)?;
    let private = PrivateKey::from_pem(&made.to_pem()).map_err(io::Error::other)?;
    let public = private.public();
    let hash = [4; 20];
    let signed = private.sign_bare(&hash);
    let sign = stopwatch.median_of_one_ns(|| private.sign_bare(&hash));
    let verify = stopwatch.median_of_one_ns(|| public.verify_bare(&hash, &signed).is_ok());
    Ok(Costs::from([
        ("sign_ns".to_owned(), sign),
        ("verify_ns".to_owned(), verify),
    ]))
}

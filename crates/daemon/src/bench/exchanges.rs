//! Measures Diffie-Hellman groups, RSA signatures as in IKEv1, and its prf.

use std::collections::BTreeMap;
use std::io;
use std::time::Instant;

use crypto::cert::SigningKey;
use crypto::dh::{Group, KeyPair};
use crypto::hash::Hash;
use crypto::rand::Seed;
use crypto::rsa::PrivateKey;
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

//! NIST's curves (RFC 5903). A public value is two coordinates; the secret is the first coordinate.

use aws_lc_rs::agreement::{
    Algorithm, ECDH_P256, ECDH_P384, ECDH_P521, ParsedPublicKey, PrivateKey, UnparsedPublicKey,
    agree,
};
use zeroize::Zeroizing;

use crate::curve::Curve;
use crate::dh::SharedSecret;
use crate::rand::Stream;

/// A secret scalar; aws-lc wipes it when it frees it.
pub(super) struct Scalar {
    curve: Curve,
    key: PrivateKey,
}

/// The first octet of a point with both coordinates (SEC 1 §2.3.3).
const UNCOMPRESSED: u8 = 4;
/// Draws of a scalar at most. Of the draws for P-256, one in 2^32 is outside the order, and fewer
/// for the others.
const MAX_DRAWS: usize = 64;

/// The bits of a scalar's first octet.
const fn mask(curve: Curve) -> u8 {
    match curve.bits() % 8 {
        0 => 0xff,
        bits => (1 << bits) - 1,
    }
}

const fn algorithm(curve: Curve) -> &'static Algorithm {
    match curve {
        Curve::P256 => &ECDH_P256,
        Curve::P384 => &ECDH_P384,
        Curve::P521 => &ECDH_P521,
    }
}

/// Whether these coordinates are a point of the curve.
pub(super) fn is_point(curve: Curve, coordinates: &[u8]) -> bool {
    let point = [&[UNCOMPRESSED], coordinates].concat();
    let point = UnparsedPublicKey::new(algorithm(curve), &point);
    ParsedPublicKey::try_from(&point).is_ok()
}

impl Scalar {
    pub(super) fn generate(curve: Curve, random: &mut Stream) -> Self {
        let mut octets = Zeroizing::new(vec![0; curve.len()]);
        let mut draw = || {
            random.fill(&mut octets);
            octets[0] &= mask(curve);
            Self::new(curve, &octets)
        };
        (0..MAX_DRAWS)
            .find_map(|_| draw())
            .expect("random octets are a scalar")
    }

    /// `None` if it is zero, the order or more, or of a wrong length.
    pub(super) fn new(curve: Curve, octets: &[u8]) -> Option<Self> {
        let key = PrivateKey::from_private_key(algorithm(curve), octets).ok()?;
        Some(Self { curve, key })
    }

    pub(super) fn public(&self) -> Vec<u8> {
        let public = self.key.compute_public_key().expect("memory");
        let (first, coordinates) = public.as_ref().split_first().expect("a point has octets");
        assert_eq!(
            (*first, coordinates.len()),
            (UNCOMPRESSED, 2 * self.curve.len())
        );
        coordinates.to_vec()
    }

    /// `None` if the coordinates are no point of the curve. The orders are prime, so every point
    /// but the one at infinity, which has no coordinates, generates the whole group.
    pub(super) fn agree(&self, peer: &[u8]) -> Option<SharedSecret> {
        if peer.len() != 2 * self.curve.len() {
            return None;
        }
        let point = [&[UNCOMPRESSED], peer].concat();
        let peer = UnparsedPublicKey::new(algorithm(self.curve), &point);
        let copied = |shared: &[u8]| Ok(SharedSecret::new(shared.to_vec()));
        agree(&self.key, peer, (), copied).ok()
    }
}

//! Fresh nonces and SPIs.

use crypto::rand::Stream;
use zeroize::Zeroizing;

use crate::ike::Spi;

/// Octets of our nonces.
const NONCE_LEN: usize = 32;

/// A nonce, which is sent encrypted, except in IKE_SA_INIT.
pub(super) fn fresh_nonce(random: &mut Stream) -> Zeroizing<Vec<u8>> {
    let mut nonce = Zeroizing::new(vec![0; NONCE_LEN]);
    random.fill(&mut nonce);
    nonce
}

/// A fresh SPI, which is not zero.
pub(super) fn fresh_spi(random: &mut Stream) -> Spi {
    let mut octets = [0; 8];
    random.fill(&mut octets);
    octets[0] |= 1;
    Spi(octets)
}

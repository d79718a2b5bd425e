//! The ChaCha20 function (RFC 8439 §2.4) as a source of octets.

use aws_lc_sys as lc;

/// Octets of a key.
pub(crate) const KEY_LEN: usize = 32;

/// Fills `out` with the key's stream from its beginning, with a nonce of zeros. Use each key once.
pub(crate) fn keystream(key: &[u8; KEY_LEN], out: &mut [u8]) {
    const NONCE: [u8; 12] = [0; 12];
    out.fill(0);
    // SAFETY: input and output are one slice of this length, which the function allows; it reads
    // key and nonce of exactly these lengths.
    unsafe {
        let octets = out.as_mut_ptr();
        lc::CRYPTO_chacha_20(octets, octets, out.len(), key.as_ptr(), NONCE.as_ptr(), 0);
    }
}

//! MD4 (RFC 1320), for the hash of a password in MSCHAPv2 and nothing else.

use aws_lc_sys as lc;
use zeroize::Zeroizing;

/// The hash.
pub(crate) fn md4(octets: &[u8]) -> Zeroizing<[u8; 16]> {
    let mut out = Zeroizing::new([0; 16]);
    // SAFETY: the function reads `octets` to its length and writes 16 octets.
    unsafe { lc::MD4(octets.as_ptr(), octets.len(), out.as_mut_ptr()) };
    out
}

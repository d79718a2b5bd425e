//! The secret of an Ed25519 key in a file.

use aws_lc_sys as lc;
use zeroize::Zeroizing;

/// Octets of a secret.
const LEN: usize = 32;

/// The secret in PKCS #8 without trailing octets (RFC 8410 §7). `None` for another key.
pub(crate) fn ed25519_secret(der: &[u8]) -> Option<Zeroizing<[u8; LEN]>> {
    let mut secret = Zeroizing::new([0; LEN]);
    let mut len = secret.len();
    // SAFETY: `cbs` lives as long as `der`; the parser returns null or a key that is freed here
    // once; `secret` has as many octets as `len` says.
    let is_done = unsafe {
        let mut cbs = core::mem::zeroed();
        lc::CBS_init(&raw mut cbs, der.as_ptr(), der.len());
        let key = lc::EVP_parse_private_key(&raw mut cbs);
        let is_done = !key.is_null()
            && lc::CBS_len(&raw const cbs) == 0
            && lc::EVP_PKEY_id(key) == lc::EVP_PKEY_ED25519
            && lc::EVP_PKEY_get_raw_private_key(key, secret.as_mut_ptr(), &raw mut len) == 1;
        lc::EVP_PKEY_free(key);
        lc::ERR_clear_error();
        is_done
    };
    (is_done && len == LEN).then_some(secret)
}

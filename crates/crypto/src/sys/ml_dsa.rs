//! Signatures of ML-DSA (FIPS 204) with randomness as an argument.

use core::ffi::c_int;

use crate::ml_dsa::{MlDsa, RANDOM_LEN};

/// A signature over the message itself, without a context (FIPS 204 §5.2).
const PURE_WITHOUT_CONTEXT: [u8; 2] = [0, 0];

type Sign = unsafe extern "C" fn(
    private: *const u8,
    signature: *mut u8,
    signature_len: *mut usize,
    message: *const u8,
    message_len: usize,
    front: *const u8,
    front_len: usize,
    random: *const u8,
) -> c_int;

// The bindings leave out the header `ml_dsa.h`; the library has its functions. A version of another
// prefix does not link.
unsafe extern "C" {
    #[link_name = "aws_lc_0_47_0_ml_dsa_44_sign_internal"]
    fn sign_44(
        private: *const u8,
        signature: *mut u8,
        signature_len: *mut usize,
        message: *const u8,
        message_len: usize,
        front: *const u8,
        front_len: usize,
        random: *const u8,
    ) -> c_int;
    #[link_name = "aws_lc_0_47_0_ml_dsa_65_sign_internal"]
    fn sign_65(
        private: *const u8,
        signature: *mut u8,
        signature_len: *mut usize,
        message: *const u8,
        message_len: usize,
        front: *const u8,
        front_len: usize,
        random: *const u8,
    ) -> c_int;
    #[link_name = "aws_lc_0_47_0_ml_dsa_87_sign_internal"]
    fn sign_87(
        private: *const u8,
        signature: *mut u8,
        signature_len: *mut usize,
        message: *const u8,
        message_len: usize,
        front: *const u8,
        front_len: usize,
        random: *const u8,
    ) -> c_int;
}

/// Signs with an expanded private key. `None` if it has not the length of its set.
pub(crate) fn ml_dsa_sign(
    set: MlDsa,
    private: &[u8],
    message: &[u8],
    random: &[u8; RANDOM_LEN],
) -> Option<Vec<u8>> {
    if private.len() != set.expanded_len() {
        return None;
    }
    let sign: Sign = match set {
        MlDsa::Set44 => sign_44,
        MlDsa::Set65 => sign_65,
        MlDsa::Set87 => sign_87,
    };
    let mut signature = vec![0; set.signature_len()];
    let mut len = 0;
    // SAFETY: the private key and the signature have as many octets as their parameter set has;
    // message and front are as long as their lengths say, and `random` has 32 octets.
    let is_done = unsafe {
        sign(
            private.as_ptr(),
            signature.as_mut_ptr(),
            &raw mut len,
            message.as_ptr(),
            message.len(),
            PURE_WITHOUT_CONTEXT.as_ptr(),
            PURE_WITHOUT_CONTEXT.len(),
            random.as_ptr(),
        )
    };
    (is_done == 1 && len == signature.len()).then_some(signature)
}

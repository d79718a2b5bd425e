//! AES-128-CCM with a MIC of 8 octets and a nonce of 13.

use aws_lc_sys as lc;
use core::ptr::NonNull;

/// A key with its schedule; aws-lc wipes it when it is freed.
pub(crate) struct CcmContext(NonNull<lc::EVP_AEAD_CTX>);

// SAFETY: aws-lc never changes the context after its initialization.
unsafe impl Send for CcmContext {}
// SAFETY: as above.
unsafe impl Sync for CcmContext {}

impl CcmContext {
    pub(crate) fn new(key: &[u8; 16]) -> Self {
        // SAFETY: the algorithm is static; pointer and length are one key of its size.
        let context = unsafe {
            lc::EVP_AEAD_CTX_new(
                lc::EVP_aead_aes_128_ccm_bluetooth_8(),
                key.as_ptr(),
                key.len(),
                8,
            )
        };
        Self(NonNull::new(context).expect("memory"))
    }

    /// Encrypts in place and writes the MIC. Panics if `data` has more than 65,535 octets.
    pub(crate) fn seal(&self, nonce: &[u8; 13], aad: &[u8], data: &mut [u8], mic: &mut [u8; 8]) {
        let mut mic_len = 0;
        let at = data.as_mut_ptr();
        // SAFETY: every pointer and length is one slice; input and output are the same, which the
        // function allows; no extra input.
        let is_done = unsafe {
            lc::EVP_AEAD_CTX_seal_scatter(
                self.0.as_ptr(),
                at,
                mic.as_mut_ptr(),
                &raw mut mic_len,
                mic.len(),
                nonce.as_ptr(),
                nonce.len(),
                at,
                data.len(),
                core::ptr::null(),
                0,
                aad.as_ptr(),
                aad.len(),
            )
        };
        assert_eq!((is_done, mic_len), (1, 8), "CCM outside its contract");
    }

    /// Decrypts in place. False if the MIC is wrong; then the content of `data` is undefined.
    pub(crate) fn open(&self, nonce: &[u8; 13], aad: &[u8], data: &mut [u8], mic: &[u8]) -> bool {
        let at = data.as_mut_ptr();
        // SAFETY: every pointer and length is one slice; input and output are the same, which the
        // function allows. The error queue is this thread's.
        unsafe {
            let is_done = lc::EVP_AEAD_CTX_open_gather(
                self.0.as_ptr(),
                at,
                nonce.as_ptr(),
                nonce.len(),
                at,
                data.len(),
                mic.as_ptr(),
                mic.len(),
                aad.as_ptr(),
                aad.len(),
            );
            lc::ERR_clear_error();
            is_done == 1
        }
    }
}

impl Drop for CcmContext {
    fn drop(&mut self) {
        // SAFETY: the pointer came from aws-lc and is freed once.
        unsafe { lc::EVP_AEAD_CTX_free(self.0.as_ptr()) }
    }
}

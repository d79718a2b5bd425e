//! aws-lc's C interface for what aws-lc-rs does not offer: MODP, raw RSA, DES, CBC, MD5.
//! The only unsafe code of this crate.
#![expect(
    unsafe_code,
    reason = "calls into aws-lc's C interface; every call is checked here"
)]

pub(crate) struct Rsa(core::ptr::NonNull<aws_lc_sys::RSA>);

impl Drop for Rsa {
    fn drop(&mut self) {
        // SAFETY: the pointer came from aws-lc and is freed once.
        unsafe { aws_lc_sys::RSA_free(self.0.as_ptr()) }
    }
}

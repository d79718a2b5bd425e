//! Numbers modulo a prime. Exponentiation is in constant time for the exponent.

use aws_lc_sys as lc;
use core::ptr::{NonNull, null};

/// A number that is wiped when it is freed.
pub(super) struct Number(pub(super) NonNull<lc::BIGNUM>);

/// Scratch space.
pub(super) struct Scratch(pub(super) NonNull<lc::BN_CTX>);

/// Writes `base ^ exponent mod modulus` into `out`, all big-endian, left-padded. The modulus is
/// odd, the base below it, `out` as long as it; panics otherwise. The time depends only on the
/// lengths.
pub(crate) fn exponentiate(base: &[u8], exponent: &[u8], modulus: &[u8], out: &mut [u8]) {
    let scratch = Scratch::new();
    let [base, exponent, modulus] = [base, exponent, modulus].map(Number::from_octets);
    let result = Number::from_octets(&[]);
    // SAFETY: all numbers are valid and distinct. With a null Montgomery context the function
    // computes its own, which takes less than one hundredth of the time.
    let is_done = unsafe {
        lc::BN_mod_exp_mont_consttime(
            result.0.as_ptr(),
            base.0.as_ptr(),
            exponent.0.as_ptr(),
            modulus.0.as_ptr(),
            scratch.0.as_ptr(),
            null(),
        )
    };
    assert_eq!(is_done, 1, "an exponentiation outside its contract");
    result.write(out);
}

/// Writes `a * b mod modulus` into `out`, as [`exponentiate`] does.
pub(crate) fn multiply(a: &[u8], b: &[u8], modulus: &[u8], out: &mut [u8]) {
    combine(lc::BN_mod_mul, [a, b, modulus], out);
}

/// Writes `a + b mod modulus` into `out`, as [`exponentiate`] does.
pub(crate) fn add(a: &[u8], b: &[u8], modulus: &[u8], out: &mut [u8]) {
    combine(lc::BN_mod_add, [a, b, modulus], out);
}

/// Result, operands, modulus, scratch space; returns 1 if it is done.
type Operation = unsafe extern "C" fn(
    *mut lc::BIGNUM,
    *const lc::BIGNUM,
    *const lc::BIGNUM,
    *const lc::BIGNUM,
    *mut lc::BN_CTX,
) -> core::ffi::c_int;

fn combine(operation: Operation, operands: [&[u8]; 3], out: &mut [u8]) {
    let scratch = Scratch::new();
    let [a, b, modulus] = operands.map(Number::from_octets);
    let result = Number::from_octets(&[]);
    // SAFETY: all numbers are valid and distinct.
    let is_done = unsafe {
        operation(
            result.0.as_ptr(),
            a.0.as_ptr(),
            b.0.as_ptr(),
            modulus.0.as_ptr(),
            scratch.0.as_ptr(),
        )
    };
    assert_eq!(is_done, 1, "an operation outside its contract");
    result.write(out);
}

impl Number {
    pub(super) fn from_octets(octets: &[u8]) -> Self {
        // SAFETY: pointer and length are one slice; a null target makes a new number.
        let number = unsafe { lc::BN_bin2bn(octets.as_ptr(), octets.len(), core::ptr::null_mut()) };
        Self(NonNull::new(number).expect("memory"))
    }

    pub(super) fn write(&self, out: &mut [u8]) {
        // SAFETY: pointer and length are one writable slice, the number is valid.
        let fits = unsafe { lc::BN_bn2bin_padded(out.as_mut_ptr(), out.len(), self.0.as_ptr()) };
        assert_eq!(fits, 1, "a residue longer than its modulus");
    }
}

impl Number {
    /// Gives the number away, to aws-lc.
    pub(super) fn into_raw(self) -> *mut lc::BIGNUM {
        core::mem::ManuallyDrop::new(self).0.as_ptr()
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        // SAFETY: the pointer came from aws-lc and is freed once.
        unsafe { lc::BN_clear_free(self.0.as_ptr()) }
    }
}

impl Scratch {
    pub(super) fn new() -> Self {
        // SAFETY: takes nothing, returns null or a context.
        Self(NonNull::new(unsafe { lc::BN_CTX_new() }).expect("memory"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: the pointer came from aws-lc and is freed once.
        unsafe { lc::BN_CTX_free(self.0.as_ptr()) }
    }
}

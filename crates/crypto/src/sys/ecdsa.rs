//! ECDSA keys on NIST's curves, and signatures with the nonce as an argument.

use aws_lc_sys as lc;
use core::ffi::c_int;
use core::ptr::{NonNull, null};
use zeroize::Zeroizing;

use super::modp::Number;
use crate::curve::Curve;

/// A private or a public key; aws-lc wipes it when it is freed.
pub(crate) struct EcKey {
    curve: Curve,
    key: NonNull<lc::EC_KEY>,
}

// SAFETY: aws-lc's EC keys are reference-counted and never change after they are read.
unsafe impl Send for EcKey {}
// SAFETY: as above.
unsafe impl Sync for EcKey {}

/// A signature: r and s.
pub(crate) struct EcSignature(NonNull<lc::ECDSA_SIG>);

impl EcKey {
    /// A private key from SEC 1 or PKCS #8 without trailing octets; aws-lc checks that its parts
    /// belong together. `None` on another curve.
    pub(crate) fn private_from_der(der: &[u8]) -> Option<Self> {
        // SAFETY: `cbs` lives as long as `der`; null or a key comes back.
        let (sec1, rest) = unsafe {
            let mut cbs = core::mem::zeroed();
            lc::CBS_init(&raw mut cbs, der.as_ptr(), der.len());
            let key = lc::EC_KEY_parse_private_key(&raw mut cbs, null());
            (key, lc::CBS_len(&raw const cbs))
        };
        clear_errors();
        if let Some(key) = NonNull::new(sec1) {
            return Self::of(key).filter(|_| rest == 0);
        }
        Self::parse(der, lc::EVP_parse_private_key).filter(Self::is_private)
    }

    /// A public key from a SubjectPublicKeyInfo without trailing octets. `None` on another curve.
    pub(crate) fn public_from_spki(der: &[u8]) -> Option<Self> {
        Self::parse(der, lc::EVP_parse_public_key)
    }

    fn parse(
        der: &[u8],
        parser: unsafe extern "C" fn(*mut lc::CBS) -> *mut lc::EVP_PKEY,
    ) -> Option<Self> {
        // SAFETY: `cbs` lives as long as `der`; the parsers return null or a key that is freed
        // here once; `EVP_PKEY_get1_EC_KEY` returns null or a reference of its own.
        let (key, rest) = unsafe {
            let mut cbs = core::mem::zeroed();
            lc::CBS_init(&raw mut cbs, der.as_ptr(), der.len());
            let any = parser(&raw mut cbs);
            if any.is_null() {
                clear_errors();
                return None;
            }
            let key = lc::EVP_PKEY_get1_EC_KEY(any);
            lc::EVP_PKEY_free(any);
            (key, lc::CBS_len(&raw const cbs))
        };
        clear_errors();
        Self::of(NonNull::new(key)?).filter(|_| rest == 0)
    }

    /// Takes the reference.
    fn of(key: NonNull<lc::EC_KEY>) -> Option<Self> {
        // SAFETY: the key is valid and lends its group.
        let nid = unsafe { lc::EC_GROUP_get_curve_name(lc::EC_KEY_get0_group(key.as_ptr())) };
        let mut all = Curve::ALL.into_iter();
        let Some(curve) = all.find(|curve| nid_of(*curve) == nid) else {
            // SAFETY: the reference is ours and is given up once.
            unsafe { lc::EC_KEY_free(key.as_ptr()) };
            return None;
        };
        Some(Self { curve, key })
    }

    fn is_private(&self) -> bool {
        // SAFETY: the key is valid.
        !unsafe { lc::EC_KEY_get0_private_key(self.key.as_ptr()) }.is_null()
    }

    /// The curve.
    pub(crate) fn curve(&self) -> Curve {
        self.curve
    }

    /// The order of the curve's group.
    pub(crate) fn order(&self) -> Vec<u8> {
        // SAFETY: the key is valid and lends its group and the order.
        let order = unsafe { lc::EC_GROUP_get0_order(lc::EC_KEY_get0_group(self.key.as_ptr())) };
        let mut out = vec![0; self.curve.len()];
        write(order, &mut out);
        out
    }

    /// The secret scalar of a private key; panics on a public one.
    pub(crate) fn scalar(&self) -> Zeroizing<Vec<u8>> {
        // SAFETY: the key is valid and lends its scalar.
        let scalar = unsafe { lc::EC_KEY_get0_private_key(self.key.as_ptr()) };
        assert!(!scalar.is_null(), "a private key");
        let mut out = Zeroizing::new(vec![0; self.curve.len()]);
        write(scalar, &mut out);
        out
    }

    /// The public half, in an object of its own.
    pub(crate) fn public(&self) -> Self {
        // SAFETY: the key is valid and lends its group and point, which the new key copies; null
        // or a key comes back, which is freed once.
        let key = unsafe {
            let (key, group) = (self.key.as_ptr(), lc::EC_KEY_get0_group(self.key.as_ptr()));
            let public = NonNull::new(lc::EC_KEY_new()).expect("memory");
            let is_done = lc::EC_KEY_set_group(public.as_ptr(), group) == 1
                && lc::EC_KEY_set_public_key(public.as_ptr(), lc::EC_KEY_get0_public_key(key)) == 1;
            assert!(is_done, "a key has a group and a point");
            public
        };
        Self {
            curve: self.curve,
            key,
        }
    }

    /// Whether both have the same public point.
    pub(crate) fn has_public_half_of(&self, other: &Self) -> bool {
        let (a, b) = (self.key.as_ptr(), other.key.as_ptr());
        // SAFETY: the getters lend points of valid keys, which are on one curve; without scratch
        // space the function makes its own.
        self.curve == other.curve
            && unsafe {
                lc::EC_POINT_cmp(
                    lc::EC_KEY_get0_group(a),
                    lc::EC_KEY_get0_public_key(a),
                    lc::EC_KEY_get0_public_key(b),
                    core::ptr::null_mut(),
                ) == 0
            }
    }

    /// Signs a digest with a nonce that serves this key and digest only. `None` if the nonce is
    /// zero or not below the order, or the key is public. The time does not depend on key and
    /// nonce.
    pub(crate) fn sign(&self, digest: &[u8], nonce: &[u8]) -> Option<EcSignature> {
        // SAFETY: the key is valid; every pointer and length is one slice. The function is the one
        // that takes its nonce as an argument, whatever its name says.
        let signature = unsafe {
            lc::ECDSA_sign_with_nonce_and_leak_private_key_for_testing(
                digest.as_ptr(),
                digest.len(),
                self.key.as_ptr(),
                nonce.as_ptr(),
                nonce.len(),
            )
        };
        clear_errors();
        NonNull::new(signature).map(EcSignature)
    }

    /// Checks a signature of a digest.
    pub(crate) fn is_signed(&self, digest: &[u8], signature: &EcSignature) -> bool {
        // SAFETY: key and signature are valid; pointer and length are one slice.
        let is_done = unsafe {
            lc::ECDSA_do_verify(
                digest.as_ptr(),
                digest.len(),
                signature.0.as_ptr(),
                self.key.as_ptr(),
            )
        };
        clear_errors();
        is_done == 1
    }
}

impl EcSignature {
    /// From DER without trailing octets.
    pub(crate) fn from_der(der: &[u8]) -> Option<Self> {
        // SAFETY: pointer and length are one slice; null or a signature comes back.
        let signature = unsafe { lc::ECDSA_SIG_from_bytes(der.as_ptr(), der.len()) };
        clear_errors();
        NonNull::new(signature).map(Self)
    }

    /// From r and s, each as long as a scalar.
    pub(crate) fn from_raw(curve: Curve, raw: &[u8]) -> Option<Self> {
        if raw.len() != 2 * curve.len() {
            return None;
        }
        let (r, s) = raw.split_at(curve.len());
        let [r, s] = [r, s].map(|octets| Number::from_octets(octets).into_raw());
        // SAFETY: null or an empty signature comes back.
        let signature = NonNull::new(unsafe { lc::ECDSA_SIG_new() }).expect("memory");
        // SAFETY: the signature takes both numbers, which are ours.
        let is_done = unsafe { lc::ECDSA_SIG_set0(signature.as_ptr(), r, s) };
        assert_eq!(is_done, 1, "two numbers are a signature");
        Some(Self(signature))
    }

    /// DER.
    pub(crate) fn to_der(&self) -> Vec<u8> {
        let mut out = core::ptr::null_mut();
        let mut len = 0;
        // SAFETY: the signature is valid; `out` receives a buffer of `len` octets, which is copied
        // and freed once.
        unsafe {
            let is_done = lc::ECDSA_SIG_to_bytes(&raw mut out, &raw mut len, self.0.as_ptr());
            assert_eq!(is_done, 1, "a signature has a form");
            let der = core::slice::from_raw_parts(out, len).to_vec();
            lc::OPENSSL_free(out.cast());
            der
        }
    }

    /// r and s, each as long as a scalar of the curve.
    pub(crate) fn to_raw(&self, curve: Curve) -> Vec<u8> {
        let mut out = vec![0; 2 * curve.len()];
        let (r, s) = out.split_at_mut(curve.len());
        // SAFETY: the signature is valid and lends its numbers.
        let numbers = unsafe {
            let signature = self.0.as_ptr();
            (
                lc::ECDSA_SIG_get0_r(signature),
                lc::ECDSA_SIG_get0_s(signature),
            )
        };
        write(numbers.0, r);
        write(numbers.1, s);
        out
    }
}

/// Writes a number, left-padded. Panics if it is longer than `out`.
fn write(number: *const lc::BIGNUM, out: &mut [u8]) {
    assert!(!number.is_null(), "a number");
    // SAFETY: pointer and length are one writable slice; the callers lend a valid number.
    let fits = unsafe { lc::BN_bn2bin_padded(out.as_mut_ptr(), out.len(), number) };
    assert_eq!(fits, 1, "a number longer than its curve's");
}

const fn nid_of(curve: Curve) -> c_int {
    match curve {
        Curve::P256 => lc::NID_X9_62_prime256v1,
        Curve::P384 => lc::NID_secp384r1,
        Curve::P521 => lc::NID_secp521r1,
    }
}

impl Drop for EcKey {
    fn drop(&mut self) {
        // SAFETY: the reference is ours and is given up once.
        unsafe { lc::EC_KEY_free(self.key.as_ptr()) }
    }
}

impl Drop for EcSignature {
    fn drop(&mut self) {
        // SAFETY: the pointer came from aws-lc and is freed once.
        unsafe { lc::ECDSA_SIG_free(self.0.as_ptr()) }
    }
}

/// aws-lc queues the causes of refusals for this thread. Nothing here reads them.
fn clear_errors() {
    // SAFETY: touches only this thread's queue.
    unsafe { lc::ERR_clear_error() }
}

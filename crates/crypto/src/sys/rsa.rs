//! RSA keys, and signatures by PKCS #1 v1.5 (over octets as they are, or a digest) and by PSS.

use aws_lc_sys as lc;
use core::ptr::NonNull;

use crate::hash::Hash;

/// A private or a public key; aws-lc wipes it when it is freed.
pub(crate) struct Rsa(NonNull<lc::RSA>);

// SAFETY: aws-lc's RSA objects are reference-counted, immutable after parsing, and lock their
// cached Montgomery contexts and blinding values themselves.
unsafe impl Send for Rsa {}
// SAFETY: as above.
unsafe impl Sync for Rsa {}

impl Rsa {
    /// A private key from PKCS #1 or PKCS #8 without trailing octets; aws-lc checks that its
    /// parts belong together.
    pub(crate) fn private_from_der(der: &[u8]) -> Option<Self> {
        // SAFETY: pointer and length are one slice; null or a key comes back.
        let pkcs1 = unsafe { lc::RSA_private_key_from_bytes(der.as_ptr(), der.len()) };
        if let Some(key) = NonNull::new(pkcs1) {
            return Some(Self(key));
        }
        clear_errors();
        Self::parse(der, lc::EVP_parse_private_key)
    }

    /// A public key from a SubjectPublicKeyInfo without trailing octets.
    pub(crate) fn public_from_spki(der: &[u8]) -> Option<Self> {
        Self::parse(der, lc::EVP_parse_public_key)
    }

    fn parse(
        der: &[u8],
        parser: unsafe extern "C" fn(*mut lc::CBS) -> *mut lc::EVP_PKEY,
    ) -> Option<Self> {
        // SAFETY: `cbs` lives as long as `der`; the parsers return null or a key that is freed
        // here once; `EVP_PKEY_get1_RSA` returns null or a reference of its own.
        let (key, rest) = unsafe {
            let mut cbs = core::mem::zeroed();
            lc::CBS_init(&raw mut cbs, der.as_ptr(), der.len());
            let any = parser(&raw mut cbs);
            if any.is_null() {
                clear_errors();
                return None;
            }
            let key = lc::EVP_PKEY_get1_RSA(any);
            lc::EVP_PKEY_free(any);
            (key, lc::CBS_len(&raw const cbs))
        };
        let key = NonNull::new(key).map(Self);
        clear_errors();
        key.filter(|_| rest == 0)
    }

    /// The public half, in an object of its own.
    pub(crate) fn public(&self) -> Self {
        // SAFETY: the getters lend numbers of a valid key; the new key copies them.
        let key = unsafe {
            let key = self.0.as_ptr();
            lc::RSA_new_public_key(lc::RSA_get0_n(key), lc::RSA_get0_e(key))
        };
        Self(NonNull::new(key).expect("the public half of a checked key"))
    }

    /// Whether both have the same public half.
    pub(crate) fn has_public_half_of(&self, other: &Self) -> bool {
        let (a, b) = (self.0.as_ptr(), other.0.as_ptr());
        // SAFETY: the getters lend numbers of valid keys for the comparison.
        unsafe {
            lc::BN_cmp(lc::RSA_get0_n(a), lc::RSA_get0_n(b)) == 0
                && lc::BN_cmp(lc::RSA_get0_e(a), lc::RSA_get0_e(b)) == 0
        }
    }

    /// Bits of the modulus.
    pub(crate) fn bits(&self) -> u32 {
        // SAFETY: the key is valid.
        unsafe { lc::RSA_bits(self.0.as_ptr()) }
    }

    /// Octets of the modulus and of a signature.
    pub(crate) fn len(&self) -> usize {
        // SAFETY: the key is valid.
        (unsafe { lc::RSA_size(self.0.as_ptr()) }) as usize
    }

    /// Block type 1 padding around `octets`, then the private operation (blinded and checked by
    /// aws-lc). `None` if `octets` do not fit or the key is public.
    pub(crate) fn sign_padded(&self, octets: &[u8]) -> Option<Vec<u8>> {
        let mut out = vec![0; self.len()];
        let mut len = 0;
        // SAFETY: every pointer and length is one slice; `out` holds the modulus.
        let is_done = unsafe {
            lc::RSA_sign_raw(
                self.0.as_ptr(),
                &raw mut len,
                out.as_mut_ptr(),
                out.len(),
                octets.as_ptr(),
                octets.len(),
                lc::RSA_PKCS1_PADDING,
            )
        };
        clear_errors();
        (is_done == 1 && len == out.len()).then_some(out)
    }

    /// The private operation (blinded and checked by aws-lc) on a number as long as the modulus and
    /// below it. `None` if it is not, or the key is public.
    pub(crate) fn sign_raw(&self, number: &[u8]) -> Option<Vec<u8>> {
        let mut out = vec![0; self.len()];
        let mut len = 0;
        // SAFETY: every pointer and length is one slice; `out` holds the modulus.
        let is_done = unsafe {
            lc::RSA_sign_raw(
                self.0.as_ptr(),
                &raw mut len,
                out.as_mut_ptr(),
                out.len(),
                number.as_ptr(),
                number.len(),
                lc::RSA_NO_PADDING,
            )
        };
        clear_errors();
        (is_done == 1 && len == out.len()).then_some(out)
    }

    /// A PKCS #1 v1.5 signature of a digest, with its DigestInfo (RFC 8017 §8.2.1). `None` if the
    /// modulus is too short or the key is public.
    pub(crate) fn sign_digest(&self, hash: Hash, digest: &[u8]) -> Option<Vec<u8>> {
        let mut out = vec![0; self.len()];
        let mut len = 0;
        // SAFETY: pointer and length are one slice; `out` holds the modulus.
        let is_done = unsafe {
            lc::RSA_sign(
                nid_of(hash),
                digest.as_ptr(),
                digest.len(),
                out.as_mut_ptr(),
                &raw mut len,
                self.0.as_ptr(),
            )
        };
        clear_errors();
        (is_done == 1 && len as usize == out.len()).then_some(out)
    }

    /// Checks a PKCS #1 v1.5 signature of a digest, with its DigestInfo.
    pub(crate) fn is_digest_signed(&self, hash: Hash, digest: &[u8], signature: &[u8]) -> bool {
        // SAFETY: every pointer and length is one slice.
        let is_done = unsafe {
            lc::RSA_verify(
                nid_of(hash),
                digest.as_ptr(),
                digest.len(),
                signature.as_ptr(),
                signature.len(),
                self.0.as_ptr(),
            )
        };
        clear_errors();
        is_done == 1
    }

    /// Checks a PSS signature of a digest, with MGF1 over the same hash and a salt as long as the
    /// digest (RFC 8017 §8.1.2).
    pub(crate) fn is_digest_signed_by_pss(
        &self,
        hash: Hash,
        digest: &[u8],
        signature: &[u8],
    ) -> bool {
        let md = function_of(hash);
        // SAFETY: every pointer and length is one slice; `md` is a static description.
        let is_done = unsafe {
            lc::RSA_verify_pss_mgf1(
                self.0.as_ptr(),
                digest.as_ptr(),
                digest.len(),
                md,
                md,
                hash.len() as core::ffi::c_int,
                signature.as_ptr(),
                signature.len(),
            )
        };
        clear_errors();
        is_done == 1
    }

    /// Does the public operation and returns the octets inside the block type 1 padding.
    pub(crate) fn recover_padded(&self, signature: &[u8]) -> Option<Vec<u8>> {
        let mut out = vec![0; self.len()];
        let mut len = 0;
        // SAFETY: every pointer and length is one slice; `out` holds the modulus.
        let is_done = unsafe {
            lc::RSA_verify_raw(
                self.0.as_ptr(),
                &raw mut len,
                out.as_mut_ptr(),
                out.len(),
                signature.as_ptr(),
                signature.len(),
                lc::RSA_PKCS1_PADDING,
            )
        };
        clear_errors();
        if is_done != 1 {
            return None;
        }
        out.truncate(len);
        Some(out)
    }
}

impl Drop for Rsa {
    fn drop(&mut self) {
        // SAFETY: the pointer came from aws-lc and is freed once.
        unsafe { lc::RSA_free(self.0.as_ptr()) }
    }
}

fn nid_of(hash: Hash) -> core::ffi::c_int {
    match hash {
        Hash::Md5 => lc::NID_md5,
        Hash::Sha1 => lc::NID_sha1,
        Hash::Sha256 => lc::NID_sha256,
        Hash::Sha384 => lc::NID_sha384,
        Hash::Sha512 => lc::NID_sha512,
    }
}

fn function_of(hash: Hash) -> *const lc::EVP_MD {
    // SAFETY: the functions return static descriptions.
    unsafe {
        match hash {
            Hash::Md5 => lc::EVP_md5(),
            Hash::Sha1 => lc::EVP_sha1(),
            Hash::Sha256 => lc::EVP_sha256(),
            Hash::Sha384 => lc::EVP_sha384(),
            Hash::Sha512 => lc::EVP_sha512(),
        }
    }
}

/// aws-lc queues the causes of refusals for this thread. Nothing here reads them.
fn clear_errors() {
    // SAFETY: touches only this thread's queue.
    unsafe { lc::ERR_clear_error() }
}

//! aws-lc's C interface for what aws-lc-rs does not offer: HMAC with a state that can be copied,
//! MD5, CBC ciphers, MODP exponentiation and bare RSA. The only unsafe code of this crate.
//!
//! Every wrapper owns its C object, checks lengths before the call and its result after it.
#![expect(
    unsafe_code,
    reason = "calls into aws-lc's C interface; every call is checked here"
)]

use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};

use aws_lc_sys as c;

use crate::hash::Hash;

fn message_digest(hash: Hash) -> *const c::EVP_MD {
    // SAFETY: these functions take nothing and return pointers to static tables.
    unsafe {
        match hash {
            Hash::Md5 => c::EVP_md5(),
            Hash::Sha1 => c::EVP_sha1(),
            Hash::Sha256 => c::EVP_sha256(),
            Hash::Sha384 => c::EVP_sha384(),
            Hash::Sha512 => c::EVP_sha512(),
        }
    }
}

/// An HMAC state: keyed once, copied for each message.
pub(crate) struct Hmac(c::HMAC_CTX);

// SAFETY: the state is plain memory that only `&mut` methods and copies of it change.
unsafe impl Send for Hmac {}
// SAFETY: `&Hmac` is only ever read (copied from).
unsafe impl Sync for Hmac {}

impl Hmac {
    pub(crate) fn new(hash: Hash, key: &[u8]) -> Self {
        let mut context = MaybeUninit::uninit();
        // SAFETY: the context is initialised before use; the key is readable for its length.
        unsafe {
            c::HMAC_CTX_init(context.as_mut_ptr());
            let mut context = Self(context.assume_init());
            let digest = message_digest(hash);
            let key_at = key.as_ptr().cast();
            let done = c::HMAC_Init_ex(
                &raw mut context.0,
                key_at,
                key.len(),
                digest,
                ptr::null_mut(),
            );
            assert_eq!(done, 1, "HMAC cannot fail for these hashes");
            context
        }
    }

    pub(crate) fn update(&mut self, part: &[u8]) {
        // SAFETY: the context is initialised and keyed; the part is readable for its length.
        let done = unsafe { c::HMAC_Update(&raw mut self.0, part.as_ptr(), part.len()) };
        assert_eq!(done, 1);
    }

    /// Writes the output to `out`, and returns its length.
    pub(crate) fn finish(mut self, out: &mut [u8; 64]) -> usize {
        let mut len = 0;
        // SAFETY: 64 octets hold the output of every hash.
        let done = unsafe { c::HMAC_Final(&raw mut self.0, out.as_mut_ptr(), &raw mut len) };
        assert_eq!(done, 1);
        len as usize
    }
}

impl Clone for Hmac {
    fn clone(&self) -> Self {
        let mut context = MaybeUninit::uninit();
        // SAFETY: the destination is initialised before it is copied over, as aws-lc demands.
        unsafe {
            c::HMAC_CTX_init(context.as_mut_ptr());
            let mut context = Self(context.assume_init());
            let done = c::HMAC_CTX_copy_ex(&raw mut context.0, &raw const self.0);
            assert_eq!(done, 1);
            context
        }
    }
}

impl Drop for Hmac {
    fn drop(&mut self) {
        // SAFETY: the context is initialised; clean-up wipes it.
        unsafe { c::HMAC_CTX_cleanup(&raw mut self.0) }
    }
}

/// Hash of the parts, one after the other. Returns its length.
pub(crate) fn digest(hash: Hash, parts: &[&[u8]], out: &mut [u8; 64]) -> usize {
    let mut len = 0;
    let mut context = MaybeUninit::<c::EVP_MD_CTX>::uninit();
    // SAFETY: the context is initialised before use and cleaned up after; 64 octets hold any hash.
    unsafe {
        c::EVP_MD_CTX_init(context.as_mut_ptr());
        let context = context.assume_init_mut();
        assert_eq!(
            c::EVP_DigestInit_ex(context, message_digest(hash), ptr::null_mut()),
            1
        );
        for part in parts {
            assert_eq!(
                c::EVP_DigestUpdate(context, part.as_ptr().cast(), part.len()),
                1
            );
        }
        assert_eq!(
            c::EVP_DigestFinal_ex(context, out.as_mut_ptr(), &raw mut len),
            1
        );
        c::EVP_MD_CTX_cleanup(context);
    }
    len as usize
}

/// AES key schedules for both directions.
pub(crate) struct Aes {
    encrypt: c::AES_KEY,
    decrypt: c::AES_KEY,
}

impl Aes {
    /// A key of 16, 24 or 32 octets.
    pub(crate) fn new(key: &[u8]) -> Self {
        let bits = u32::try_from(key.len() * 8).expect("a short key");
        let (mut encrypt, mut decrypt) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: both schedules are written whole when the calls return 0.
        unsafe {
            assert_eq!(
                c::AES_set_encrypt_key(key.as_ptr(), bits, encrypt.as_mut_ptr()),
                0
            );
            assert_eq!(
                c::AES_set_decrypt_key(key.as_ptr(), bits, decrypt.as_mut_ptr()),
                0
            );
            Self {
                encrypt: encrypt.assume_init(),
                decrypt: decrypt.assume_init(),
            }
        }
    }

    /// CBC in place; `data` is whole blocks, `iv` is one block.
    pub(crate) fn cbc(&self, iv: &[u8], data: &mut [u8], encrypts: bool) {
        let mut chain: [u8; 16] = iv.try_into().expect("an IV of one block");
        assert_eq!(data.len() % 16, 0);
        let key = if encrypts {
            &self.encrypt
        } else {
            &self.decrypt
        };
        let mode = if encrypts {
            c::AES_ENCRYPT
        } else {
            c::AES_DECRYPT
        };
        let at = data.as_mut_ptr();
        // SAFETY: input and output are the same whole blocks, which aws-lc permits.
        unsafe { c::AES_cbc_encrypt(at, at, data.len(), key, chain.as_mut_ptr(), mode) }
    }
}

impl Drop for Aes {
    fn drop(&mut self) {
        wipe(&mut self.encrypt);
        wipe(&mut self.decrypt);
    }
}

/// DES key schedules: one for DES, three for 3DES.
pub(crate) enum Des {
    Single(Box<c::DES_key_schedule>),
    Triple(Box<[c::DES_key_schedule; 3]>),
}

impl Des {
    /// A key of 8 or 24 octets; parity bits are not looked at.
    pub(crate) fn new(key: &[u8]) -> Self {
        match key.len() {
            8 => Self::Single(Box::new(des_schedule(key))),
            24 => Self::Triple(Box::new(
                [0, 8, 16].map(|at| des_schedule(&key[at..at + 8])),
            )),
            _ => panic!("a DES key has 8 or 24 octets"),
        }
    }

    /// CBC in place; `data` is whole blocks, `iv` is one block.
    pub(crate) fn cbc(&self, iv: &[u8], data: &mut [u8], encrypts: bool) {
        let mut chain = c::DES_cblock {
            bytes: iv.try_into().expect("an IV of one block"),
        };
        assert_eq!(data.len() % 8, 0);
        let (at, len) = (data.as_mut_ptr(), data.len());
        let enc = i32::from(encrypts);
        // SAFETY: input and output are the same whole blocks, which aws-lc permits.
        unsafe {
            match self {
                Self::Single(key) => {
                    c::DES_ncbc_encrypt(at, at, len, &raw const **key, &raw mut chain, enc);
                }
                Self::Triple(keys) => {
                    let [a, b, d] = &**keys;
                    c::DES_ede3_cbc_encrypt(at, at, len, a, b, d, &raw mut chain, enc);
                }
            }
        }
    }
}

impl Drop for Des {
    fn drop(&mut self) {
        match self {
            Self::Single(key) => wipe(&mut **key),
            Self::Triple(keys) => wipe(&mut **keys),
        }
    }
}

fn des_schedule(key: &[u8]) -> c::DES_key_schedule {
    let block = c::DES_cblock {
        bytes: key.try_into().expect("8 octets"),
    };
    let mut schedule = MaybeUninit::uninit();
    // SAFETY: the schedule is written whole.
    unsafe {
        c::DES_set_key_unchecked(&raw const block, schedule.as_mut_ptr());
        schedule.assume_init()
    }
}

/// Overwrites a C structure of plain octets.
fn wipe<T>(secret: &mut T) {
    // SAFETY: T is one of aws-lc's plain key schedules, for which all zeroes is a value.
    unsafe { c::OPENSSL_cleanse(ptr::from_mut(secret).cast(), size_of::<T>()) }
}

/// base^exponent mod modulus, left-padded to the modulus' length, in time that depends on the
/// lengths only.
pub(crate) fn mod_exp(base: &[u8], exponent: &[u8], modulus: &Modulus) -> Vec<u8> {
    let mut out = vec![0; modulus.len];
    // SAFETY: every BIGNUM is owned by a guard that frees it; results are checked.
    unsafe {
        let base = Number::read(base);
        let exponent = Number::read(exponent);
        let result = Number(NonNull::new(c::BN_new()).expect("memory"));
        let context = Context::new();
        let done = c::BN_mod_exp_mont_consttime(
            result.0.as_ptr(),
            base.0.as_ptr(),
            exponent.0.as_ptr(),
            modulus.number.0.as_ptr(),
            context.0.as_ptr(),
            modulus.montgomery.as_ptr(),
        );
        assert_eq!(done, 1, "the base is below the modulus, which is odd");
        assert_eq!(
            c::BN_bn2bin_padded(out.as_mut_ptr(), out.len(), result.0.as_ptr()),
            1
        );
    }
    out
}

/// An odd modulus, prepared.
pub(crate) struct Modulus {
    number: Number,
    montgomery: NonNull<c::BN_MONT_CTX>,
    len: usize,
}

// SAFETY: both objects are only read after `new`.
unsafe impl Send for Modulus {}
// SAFETY: both objects are only read after `new`.
unsafe impl Sync for Modulus {}

impl Modulus {
    pub(crate) fn new(octets: &[u8]) -> Self {
        let number = Number::read(octets);
        let context = Context::new();
        // SAFETY: the number is odd and positive.
        let montgomery =
            unsafe { c::BN_MONT_CTX_new_for_modulus(number.0.as_ptr(), context.0.as_ptr()) };
        let montgomery = NonNull::new(montgomery).expect("memory, and an odd modulus");
        Self {
            number,
            montgomery,
            len: octets.len(),
        }
    }
}

impl Drop for Modulus {
    fn drop(&mut self) {
        // SAFETY: owned, freed once.
        unsafe { c::BN_MONT_CTX_free(self.montgomery.as_ptr()) }
    }
}

struct Number(NonNull<c::BIGNUM>);

impl Number {
    fn read(octets: &[u8]) -> Self {
        // SAFETY: the octets are readable for their length.
        let number = unsafe { c::BN_bin2bn(octets.as_ptr(), octets.len(), ptr::null_mut()) };
        Self(NonNull::new(number).expect("memory"))
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        // SAFETY: owned, freed once; the value is wiped.
        unsafe { c::BN_clear_free(self.0.as_ptr()) }
    }
}

struct Context(NonNull<c::BN_CTX>);

impl Context {
    fn new() -> Self {
        // SAFETY: takes nothing.
        Self(NonNull::new(unsafe { c::BN_CTX_new() }).expect("memory"))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: owned, freed once.
        unsafe { c::BN_CTX_free(self.0.as_ptr()) }
    }
}

/// An RSA key, private or public.
pub(crate) struct Rsa(NonNull<c::RSA>);

// SAFETY: aws-lc's RSA operations lock what they cache.
unsafe impl Send for Rsa {}
// SAFETY: aws-lc's RSA operations lock what they cache.
unsafe impl Sync for Rsa {}

impl Rsa {
    /// DER of PKCS #8, else of PKCS #1.
    pub(crate) fn private(der: &[u8]) -> Option<Self> {
        let mut cbs = c::CBS {
            data: der.as_ptr(),
            len: der.len(),
        };
        // SAFETY: the CBS reads within `der`; the keys are owned by guards.
        unsafe {
            if let Some(key) = NonNull::new(c::EVP_parse_private_key(&raw mut cbs)) {
                let rsa = c::EVP_PKEY_get1_RSA(key.as_ptr());
                c::EVP_PKEY_free(key.as_ptr());
                return NonNull::new(rsa).map(Self);
            }
            c::ERR_clear_error();
            NonNull::new(c::RSA_private_key_from_bytes(der.as_ptr(), der.len())).map(Self)
        }
    }

    /// DER of a SubjectPublicKeyInfo.
    pub(crate) fn public(spki: &[u8]) -> Option<Self> {
        let mut cbs = c::CBS {
            data: spki.as_ptr(),
            len: spki.len(),
        };
        // SAFETY: the CBS reads within `spki`; the keys are owned by guards.
        unsafe {
            let key = NonNull::new(c::EVP_parse_public_key(&raw mut cbs))?;
            let rsa = c::EVP_PKEY_get1_RSA(key.as_ptr());
            c::EVP_PKEY_free(key.as_ptr());
            NonNull::new(rsa).map(Self)
        }
    }

    /// The public half as a key of its own.
    pub(crate) fn public_half(&self) -> Self {
        // SAFETY: the key is valid; the copy is owned.
        Self(NonNull::new(unsafe { c::RSAPublicKey_dup(self.0.as_ptr()) }).expect("memory"))
    }

    pub(crate) fn bits(&self) -> u32 {
        // SAFETY: the key is valid.
        unsafe { c::RSA_bits(self.0.as_ptr()) }
    }

    /// Octets of the modulus.
    pub(crate) fn len(&self) -> usize {
        // SAFETY: the key is valid.
        unsafe { c::RSA_size(self.0.as_ptr()) as usize }
    }

    /// DER of the RSAPublicKey: equal octets, equal keys.
    pub(crate) fn public_der(&self) -> Vec<u8> {
        let (mut at, mut len) = (ptr::null_mut(), 0);
        // SAFETY: on success `at` holds `len` octets that we free.
        unsafe {
            let done = c::RSA_public_key_to_bytes(&raw mut at, &raw mut len, self.0.as_ptr());
            assert_eq!(done, 1, "memory");
            let der = core::slice::from_raw_parts(at, len).to_vec();
            c::OPENSSL_free(at.cast());
            der
        }
    }

    /// PKCS #1 v1.5 padding, then the private operation. `None`: the input is too long.
    pub(crate) fn sign_raw(&self, input: &[u8]) -> Option<Vec<u8>> {
        let mut out = vec![0; self.len()];
        let mut len = 0;
        // SAFETY: `out` holds the modulus' length.
        let done = unsafe {
            c::RSA_sign_raw(
                self.0.as_ptr(),
                &raw mut len,
                out.as_mut_ptr(),
                out.len(),
                input.as_ptr(),
                input.len(),
                c::RSA_PKCS1_PADDING,
            )
        };
        out.truncate(len);
        (done == 1).then_some(out)
    }

    /// The public operation, then the padding taken off. `None`: the padding is wrong.
    pub(crate) fn verify_raw(&self, signature: &[u8]) -> Option<Vec<u8>> {
        let mut out = vec![0; self.len()];
        let mut len = 0;
        // SAFETY: `out` holds the modulus' length.
        let done = unsafe {
            c::RSA_verify_raw(
                self.0.as_ptr(),
                &raw mut len,
                out.as_mut_ptr(),
                out.len(),
                signature.as_ptr(),
                signature.len(),
                c::RSA_PKCS1_PADDING,
            )
        };
        if done != 1 {
            // SAFETY: only empties the thread's error queue.
            unsafe { c::ERR_clear_error() };
            return None;
        }
        out.truncate(len);
        Some(out)
    }
}

impl Drop for Rsa {
    fn drop(&mut self) {
        // SAFETY: the pointer came from aws-lc and is freed once.
        unsafe { c::RSA_free(self.0.as_ptr()) }
    }
}

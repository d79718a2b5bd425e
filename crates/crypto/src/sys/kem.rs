//! ML-KEM (FIPS 203) with randomness as an argument.

use aws_lc_sys as lc;
use core::ffi::c_int;
use core::ptr::{NonNull, null_mut};
use zeroize::Zeroizing;

/// Octets of the seed of a key pair: d and z (FIPS 203 §7.1).
pub(crate) const KEY_SEED_LEN: usize = 64;
/// Octets of the seed of a ciphertext: m (FIPS 203 §7.2).
pub(crate) const SEED_LEN: usize = 32;
/// Octets of a shared secret.
pub(crate) const SECRET_LEN: usize = 32;

// The bindings leave out the header `kem_deterministic_api.h`; the library has its functions. A
// version of another prefix does not link.
unsafe extern "C" {
    #[link_name = "aws_lc_0_47_0_EVP_PKEY_keygen_deterministic"]
    fn keygen_deterministic(
        ctx: *mut lc::EVP_PKEY_CTX,
        out: *mut *mut lc::EVP_PKEY,
        seed: *const u8,
        seed_len: *mut usize,
    ) -> c_int;
    #[link_name = "aws_lc_0_47_0_EVP_PKEY_encapsulate_deterministic"]
    fn encapsulate_deterministic(
        ctx: *mut lc::EVP_PKEY_CTX,
        ciphertext: *mut u8,
        ciphertext_len: *mut usize,
        secret: *mut u8,
        secret_len: *mut usize,
        seed: *const u8,
        seed_len: *mut usize,
    ) -> c_int;
}

/// The parameter sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kem {
    MlKem768,
    MlKem1024,
}

/// A key pair, or a public key; aws-lc wipes it when it is freed.
pub(crate) struct KemKey {
    kem: Kem,
    key: NonNull<lc::EVP_PKEY>,
}

// SAFETY: aws-lc's keys are reference-counted and never change after they are made.
unsafe impl Send for KemKey {}
// SAFETY: as above.
unsafe impl Sync for KemKey {}

struct Context(NonNull<lc::EVP_PKEY_CTX>);

impl Kem {
    /// Octets of a public key.
    pub(crate) const fn public_len(self) -> usize {
        match self {
            Self::MlKem768 => 1184,
            Self::MlKem1024 => 1568,
        }
    }

    /// Octets of a ciphertext.
    pub(crate) const fn ciphertext_len(self) -> usize {
        match self {
            Self::MlKem768 => 1088,
            Self::MlKem1024 => 1568,
        }
    }

    const fn nid(self) -> c_int {
        match self {
            Self::MlKem768 => lc::NID_MLKEM768,
            Self::MlKem1024 => lc::NID_MLKEM1024,
        }
    }
}

impl KemKey {
    /// The pair of a seed.
    pub(crate) fn generate(kem: Kem, seed: &[u8; KEY_SEED_LEN]) -> Self {
        // SAFETY: the function takes no engine; null or a context comes back.
        let context = Context::of(unsafe { lc::EVP_PKEY_CTX_new_id(lc::EVP_PKEY_KEM, null_mut()) });
        let mut key = null_mut();
        let mut seed_len = seed.len();
        // SAFETY: the context is valid; pointer and length are one array; null or a key of our own
        // comes back in `key`.
        let is_done = unsafe {
            let context = context.0.as_ptr();
            lc::EVP_PKEY_CTX_kem_set_params(context, kem.nid()) == 1
                && lc::EVP_PKEY_keygen_init(context) == 1
                && keygen_deterministic(context, &raw mut key, seed.as_ptr(), &raw mut seed_len)
                    == 1
        };
        assert!(is_done, "a seed of {KEY_SEED_LEN} octets makes a key");
        let key = NonNull::new(key).expect("memory");
        Self { kem, key }
    }

    /// A public key. `None` if its length is wrong or a coefficient is outside the field (FIPS 203
    /// §7.2): aws-lc checks the latter when it encapsulates.
    fn public_from(kem: Kem, octets: &[u8]) -> Option<Self> {
        if octets.len() != kem.public_len() {
            return None;
        }
        // SAFETY: pointer and length are one slice; null or a key comes back.
        let key = unsafe {
            lc::EVP_PKEY_kem_new_raw_public_key(kem.nid(), octets.as_ptr(), octets.len())
        };
        let key = NonNull::new(key).map(|key| Self { kem, key });
        clear_errors();
        key
    }

    /// The public key.
    pub(crate) fn public(&self) -> Vec<u8> {
        let mut out = vec![0; self.kem.public_len()];
        let mut len = out.len();
        // SAFETY: the key is valid; `out` has as many octets as `len` says.
        let is_done = unsafe {
            lc::EVP_PKEY_get_raw_public_key(self.key.as_ptr(), out.as_mut_ptr(), &raw mut len)
        };
        assert_eq!((is_done, len), (1, out.len()), "a key has a public part");
        out
    }

    /// The secret in a ciphertext; another, unpredictable one if the ciphertext was not made for
    /// this key (FIPS 203 §7.3). `None` if its length is wrong.
    pub(crate) fn decapsulate(&self, ciphertext: &[u8]) -> Option<Zeroizing<[u8; SECRET_LEN]>> {
        if ciphertext.len() != self.kem.ciphertext_len() {
            return None;
        }
        let context = self.context();
        let mut secret = Zeroizing::new([0; SECRET_LEN]);
        let mut len = secret.len();
        // SAFETY: the context is valid; every pointer and length is one slice.
        let is_done = unsafe {
            lc::EVP_PKEY_decapsulate(
                context.0.as_ptr(),
                secret.as_mut_ptr(),
                &raw mut len,
                ciphertext.as_ptr(),
                ciphertext.len(),
            )
        };
        assert_eq!((is_done, len), (1, SECRET_LEN), "the lengths were checked");
        Some(secret)
    }

    fn context(&self) -> Context {
        // SAFETY: the key is valid, and the context takes a reference of its own.
        Context::of(unsafe { lc::EVP_PKEY_CTX_new(self.key.as_ptr(), null_mut()) })
    }
}

/// A ciphertext for a public key, and the secret in it. `None` if it is no public key.
pub(crate) fn encapsulate(
    kem: Kem,
    public: &[u8],
    seed: &[u8; SEED_LEN],
) -> Option<(Vec<u8>, Zeroizing<[u8; SECRET_LEN]>)> {
    let key = KemKey::public_from(kem, public)?;
    let context = key.context();
    let mut ciphertext = vec![0; kem.ciphertext_len()];
    let mut secret = Zeroizing::new([0; SECRET_LEN]);
    let (mut ciphertext_len, mut secret_len) = (ciphertext.len(), secret.len());
    let mut seed_len = seed.len();
    // SAFETY: the context is valid; every pointer and length is one slice.
    let is_done = unsafe {
        encapsulate_deterministic(
            context.0.as_ptr(),
            ciphertext.as_mut_ptr(),
            &raw mut ciphertext_len,
            secret.as_mut_ptr(),
            &raw mut secret_len,
            seed.as_ptr(),
            &raw mut seed_len,
        )
    };
    clear_errors();
    let is_whole = (ciphertext_len, secret_len) == (ciphertext.len(), secret.len());
    (is_done == 1 && is_whole).then_some((ciphertext, secret))
}

impl Context {
    fn of(context: *mut lc::EVP_PKEY_CTX) -> Self {
        Self(NonNull::new(context).expect("memory"))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the pointer came from aws-lc and is freed once.
        unsafe { lc::EVP_PKEY_CTX_free(self.0.as_ptr()) }
    }
}

impl Drop for KemKey {
    fn drop(&mut self) {
        // SAFETY: the pointer came from aws-lc and is freed once.
        unsafe { lc::EVP_PKEY_free(self.key.as_ptr()) }
    }
}

/// aws-lc queues the causes of refusals for this thread. Nothing here reads them.
fn clear_errors() {
    // SAFETY: touches only this thread's queue.
    unsafe { lc::ERR_clear_error() }
}

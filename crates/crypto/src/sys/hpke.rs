//! HPKE in base mode, with DHKEM(X25519, HKDF-SHA256) and HKDF-SHA256.

use aws_lc_sys as lc;
use core::ptr::NonNull;

/// Octets of a public value, and of the key that a sender encapsulates.
pub(crate) const PUBLIC_LEN: usize = 32;
/// Octets that a ciphertext is longer than its clear text.
pub(crate) const TAG_LEN: usize = 16;

/// How messages are encrypted (RFC 9180 §7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aead {
    /// AES-128-GCM, 0x0001.
    Aes128Gcm,
    /// ChaCha20Poly1305, 0x0003.
    ChaCha20Poly1305,
}

/// A recipient's key; aws-lc wipes it when it is freed.
pub(crate) struct HpkeKey(NonNull<lc::EVP_HPKE_KEY>);

/// The context of one message; aws-lc wipes it when it is freed.
struct Context(NonNull<lc::EVP_HPKE_CTX>);

// SAFETY: aws-lc never changes the key after its initialization.
unsafe impl Send for HpkeKey {}
// SAFETY: as above.
unsafe impl Sync for HpkeKey {}

impl HpkeKey {
    /// The key of these octets.
    pub(crate) fn new(secret: &[u8; 32]) -> Self {
        // SAFETY: null or a key comes back, which is freed once.
        let key = NonNull::new(unsafe { lc::EVP_HPKE_KEY_new() }).expect("memory");
        let key = Self(key);
        // SAFETY: the key is valid and empty; pointer and length are one array.
        let is_done = unsafe {
            lc::EVP_HPKE_KEY_init(
                key.0.as_ptr(),
                lc::EVP_hpke_x25519_hkdf_sha256(),
                secret.as_ptr(),
                secret.len(),
            )
        };
        assert_eq!(is_done, 1, "an X25519 secret of 32 octets");
        key
    }

    /// The public value.
    pub(crate) fn public(&self) -> [u8; PUBLIC_LEN] {
        let mut public = [0; PUBLIC_LEN];
        let mut len = 0;
        // SAFETY: the key is valid; `public` holds as many octets as it says.
        let is_done = unsafe {
            lc::EVP_HPKE_KEY_public_key(
                self.0.as_ptr(),
                public.as_mut_ptr(),
                &raw mut len,
                public.len(),
            )
        };
        assert_eq!((is_done, len), (1, PUBLIC_LEN), "an X25519 key");
        public
    }

    /// Opens the first message of a context. `None` if anything of it is wrong.
    pub(crate) fn open(
        &self,
        aead: Aead,
        encapsulated: &[u8; PUBLIC_LEN],
        info: &[u8],
        aad: &[u8],
        sealed: &[u8],
    ) -> Option<Vec<u8>> {
        let context = Context::new();
        // SAFETY: key and context are valid; every pointer and length is one slice.
        let is_done = unsafe {
            lc::EVP_HPKE_CTX_setup_recipient(
                context.0.as_ptr(),
                self.0.as_ptr(),
                lc::EVP_hpke_hkdf_sha256(),
                algorithm(aead),
                encapsulated.as_ptr(),
                encapsulated.len(),
                info.as_ptr(),
                info.len(),
            )
        };
        let mut out = vec![0; sealed.len()];
        let mut len = 0;
        // SAFETY: as above; `out` is as long as the sealed octets, which is enough.
        let is_open = is_done == 1
            && unsafe {
                lc::EVP_HPKE_CTX_open(
                    context.0.as_ptr(),
                    out.as_mut_ptr(),
                    &raw mut len,
                    out.len(),
                    sealed.as_ptr(),
                    sealed.len(),
                    aad.as_ptr(),
                    aad.len(),
                ) == 1
            };
        clear_errors();
        out.truncate(len);
        is_open.then_some(out)
    }
}

/// Seals the first message of a context. The ephemeral secret is an argument and serves once.
/// `None` if the recipient's value is of low order.
pub(crate) fn seal(
    aead: Aead,
    recipient: &[u8; PUBLIC_LEN],
    ephemeral: &[u8; 32],
    info: &[u8],
    aad: &[u8],
    clear: &[u8],
) -> Option<([u8; PUBLIC_LEN], Vec<u8>)> {
    let context = Context::new();
    let mut encapsulated = [0; PUBLIC_LEN];
    let mut encapsulated_len = 0;
    // SAFETY: the context is valid; every pointer and length is one slice. The function is the one
    // that takes its random octets as an argument, whatever its name says.
    let is_done = unsafe {
        lc::EVP_HPKE_CTX_setup_sender_with_seed_for_testing(
            context.0.as_ptr(),
            encapsulated.as_mut_ptr(),
            &raw mut encapsulated_len,
            encapsulated.len(),
            lc::EVP_hpke_x25519_hkdf_sha256(),
            lc::EVP_hpke_hkdf_sha256(),
            algorithm(aead),
            recipient.as_ptr(),
            recipient.len(),
            info.as_ptr(),
            info.len(),
            ephemeral.as_ptr(),
            ephemeral.len(),
        )
    };
    if is_done != 1 {
        clear_errors();
        return None;
    }
    let mut out = vec![0; clear.len() + TAG_LEN];
    let mut len = 0;
    // SAFETY: as above; `out` has room for the clear octets and the tag.
    let is_done = unsafe {
        lc::EVP_HPKE_CTX_seal(
            context.0.as_ptr(),
            out.as_mut_ptr(),
            &raw mut len,
            out.len(),
            clear.as_ptr(),
            clear.len(),
            aad.as_ptr(),
            aad.len(),
        )
    };
    assert_eq!((is_done, len), (1, out.len()), "HPKE outside its contract");
    Some((encapsulated, out))
}

impl Context {
    fn new() -> Self {
        // SAFETY: null or a context comes back, which is freed once.
        let context = unsafe { lc::EVP_HPKE_CTX_new() };
        Self(NonNull::new(context).expect("memory"))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the pointer came from aws-lc and is freed once.
        unsafe { lc::EVP_HPKE_CTX_free(self.0.as_ptr()) }
    }
}

impl Drop for HpkeKey {
    fn drop(&mut self) {
        // SAFETY: the pointer came from aws-lc and is freed once.
        unsafe { lc::EVP_HPKE_KEY_free(self.0.as_ptr()) }
    }
}

fn algorithm(aead: Aead) -> *const lc::EVP_HPKE_AEAD {
    // SAFETY: the functions return static descriptions.
    unsafe {
        match aead {
            Aead::Aes128Gcm => lc::EVP_hpke_aes_128_gcm(),
            Aead::ChaCha20Poly1305 => lc::EVP_hpke_chacha20_poly1305(),
        }
    }
}

/// aws-lc queues the causes of refusals for this thread. Nothing here reads them.
fn clear_errors() {
    // SAFETY: touches only this thread's queue.
    unsafe { lc::ERR_clear_error() }
}

//! The crate `hpke` as a second implementation of RFC 9180: what one side seals, the other opens,
//! and nothing else does.

use core::convert::Infallible;

use crypto::hpke::{Aead, NotForUs, PublicKey, Sealed, SecretKey};
use crypto::rand::{Seed, Stream};
use hpke::aead::ChaCha20Poly1305;
use hpke::kdf::HkdfSha256;
use hpke::kem::X25519HkdfSha256 as X25519;
use hpke::rand_core::{TryCryptoRng, TryRng};
use hpke::{Deserializable, Kem, OpModeR, OpModeS, Serializable};
use proptest::collection::vec;
use proptest::prelude::*;

const AEAD: Aead = Aead::ChaCha20Poly1305;

/// Our random stream for the other implementation, so that a failure can be repeated.
struct Ours(Stream);

impl TryRng for Ours {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.0.u32())
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(u64::from(self.0.u32()) << 32 | u64::from(self.0.u32()))
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
        self.0.fill(out);
        Ok(())
    }
}

impl TryCryptoRng for Ours {}

fn stream(seed: [u8; 32], name: &str) -> Stream {
    Seed::new(seed).stream(name, 0)
}

fn octets() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..600)
}

/// Opens by the other implementation.
fn open_by_other(
    secret: &[u8; 32],
    sealed: &Sealed,
    info: &[u8],
    aad: &[u8],
) -> Result<Vec<u8>, hpke::HpkeError> {
    let secret = <X25519 as Kem>::PrivateKey::from_bytes(secret)?;
    let encapsulated = <X25519 as Kem>::EncappedKey::from_bytes(&sealed.encapsulated)?;
    hpke::single_shot_open::<ChaCha20Poly1305, HkdfSha256, X25519>(
        &OpModeR::Base,
        &secret,
        &encapsulated,
        info,
        &sealed.ciphertext,
        aad,
    )
}

/// Seals by the other implementation.
fn seal_by_other(to: PublicKey, clear: &[u8], info: &[u8], aad: &[u8], random: Stream) -> Sealed {
    let to = <X25519 as Kem>::PublicKey::from_bytes(&to.0).expect("a public value");
    let sealed = hpke::single_shot_seal_with_rng::<ChaCha20Poly1305, HkdfSha256, X25519>(
        &OpModeS::Base,
        &to,
        info,
        clear,
        aad,
        &mut Ours(random),
    );
    let (encapsulated, ciphertext) = sealed.expect("it seals");
    Sealed {
        encapsulated: encapsulated.to_bytes().into(),
        ciphertext,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn what_we_seal_the_other_opens(
        seed: [u8; 32], secret: [u8; 32], clear in octets(), info in octets(), aad in octets(),
    ) {
        let key = SecretKey::of(&secret);
        let mut random = stream(seed, "ours");
        let sealed = key.public().seal(AEAD, &clear, &info, &aad, &mut random).expect("sealed");
        let opened = open_by_other(&secret, &sealed, &info, &aad);
        prop_assert_eq!(opened.as_ref(), Ok(&clear));
        let other_aad = [&aad[..], b"x"].concat();
        prop_assert!(open_by_other(&secret, &sealed, &info, &other_aad).is_err());
        let other_info = [&info[..], b"x"].concat();
        prop_assert!(open_by_other(&secret, &sealed, &other_info, &aad).is_err());
    }

    #[test]
    fn what_the_other_seals_we_open(
        seed: [u8; 32], secret: [u8; 32], clear in octets(), info in octets(), aad in octets(),
        at: prop::sample::Index,
    ) {
        let key = SecretKey::of(&secret);
        let theirs = <X25519 as Kem>::PrivateKey::from_bytes(&secret).expect("a secret");
        let public = X25519::sk_to_pk(&theirs).to_bytes();
        prop_assert_eq!(&key.public().0[..], &public[..], "both compute one public value");
        let sealed = seal_by_other(key.public(), &clear, &info, &aad, stream(seed, "theirs"));
        let opened = key.open(AEAD, &sealed, &info, &aad).expect("opened");
        prop_assert_eq!(&opened[..], &clear[..]);
        let mut changed = sealed.clone();
        let at = at.index(changed.ciphertext.len());
        changed.ciphertext[at] ^= 1;
        prop_assert_eq!(key.open(AEAD, &changed, &info, &aad).err(), Some(NotForUs));
        let stranger = SecretKey::generate(&mut stream(seed, "stranger"));
        prop_assert_eq!(stranger.open(AEAD, &sealed, &info, &aad).err(), Some(NotForUs));
    }
}

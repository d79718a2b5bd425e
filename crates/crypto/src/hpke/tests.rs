use super::*;
use crate::rand::Seed;
use crate::tests::hex;

/// What the published vectors share: info, clear text and additional data.
const INFO: &str = "4f6465206f6e2061204772656369616e2055726e";
const CLEAR: &str = "4265617574792069732074727574682c20747275746820626561757479";
const AAD: &str = "436f756e742d30";

struct Vector {
    aead: Aead,
    sender: &'static str,
    recipient: &'static str,
    public: &'static str,
    encapsulated: &'static str,
    ciphertext: &'static str,
}

/// RFC 9180 appendix A.1.1 and A.2.1, base mode, sequence number 0.
const VECTORS: [Vector; 2] = [
    Vector {
        aead: Aead::Aes128Gcm,
        sender: "52c4a758a802cd8b936eceea314432798d5baf2d7e9235dc084ab1b9cfa2f736",
        recipient: "4612c550263fc8ad58375df3f557aac531d26850903e55a9f23f21d8534e8ac8",
        public: "3948cfe0ad1ddb695d780e59077195da6c56506b027329794ab02bca80815c4d",
        encapsulated: "37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431",
        ciphertext: "f938558b5d72f1a23810b4be2ab4f84331acc02fc97babc53a52ae8218a355a9\
                     6d8770ac83d07bea87e13c512a",
    },
    Vector {
        aead: Aead::ChaCha20Poly1305,
        sender: "f4ec9b33b792c372c1d2c2063507b684ef925b8c75a42dbcbf57d63ccd381600",
        recipient: "8057991eef8f1f1af18f4a9491d16a1ce333f695d4db8e38da75975c4478e0fb",
        public: "4310ee97d88cc1f088a5576c77ab0cf5c3ac797f3d95139c6c84b5429c59662a",
        encapsulated: "1afa08d3dec047a643885163f1180476fa7ddb54c6a8029ea33f95796bf2ac4a",
        ciphertext: "1c5250d8034ec2b784ba2cfd69dbdb8af406cfe3ff938e131f0def8c8b60b4db\
                     21993c62ce81883d2dd1b51a28",
    },
];

fn array(text: &str) -> [u8; 32] {
    hex(text).try_into().unwrap()
}

#[test]
fn sealing_and_opening_are_as_published() {
    for vector in VECTORS {
        let key = SecretKey::of(&array(vector.recipient));
        assert_eq!(key.public().0, array(vector.public));
        let sender = array(vector.sender);
        let sealed = key
            .public()
            .seal_with(vector.aead, &hex(CLEAR), &hex(INFO), &hex(AAD), &sender)
            .unwrap();
        assert_eq!(sealed.encapsulated, array(vector.encapsulated));
        assert_eq!(sealed.ciphertext, hex(vector.ciphertext));
        let opened = key.open(vector.aead, &sealed, &hex(INFO), &hex(AAD));
        assert_eq!(*opened.unwrap(), hex(CLEAR));
    }
}

#[test]
fn a_change_of_anything_is_refused() {
    let mut random = Seed::new([3; 32]).stream("hpke", 0);
    let key = SecretKey::generate(&mut random);
    let aead = Aead::ChaCha20Poly1305;
    let sealed = key
        .public()
        .seal(aead, b"clear", b"info", b"aad", &mut random)
        .unwrap();
    let open = |sealed: &Sealed, info, aad| key.open(aead, sealed, info, aad);
    assert_eq!(*open(&sealed, b"info", b"aad").unwrap(), b"clear");
    assert_eq!(open(&sealed, b"inf", b"aad"), Err(NotForUs));
    assert_eq!(open(&sealed, b"info", b"aa"), Err(NotForUs));
    let other = SecretKey::generate(&mut random);
    assert_eq!(other.open(aead, &sealed, b"info", b"aad"), Err(NotForUs));
    assert_eq!(
        key.open(Aead::Aes128Gcm, &sealed, b"info", b"aad"),
        Err(NotForUs)
    );
    for at in 0..sealed.ciphertext.len() {
        let mut changed = sealed.clone();
        changed.ciphertext[at] ^= 1;
        assert_eq!(open(&changed, b"info", b"aad"), Err(NotForUs));
        changed.ciphertext.truncate(at);
        assert_eq!(open(&changed, b"info", b"aad"), Err(NotForUs));
    }
    let mut changed = sealed.clone();
    changed.encapsulated[0] ^= 1;
    assert_eq!(open(&changed, b"info", b"aad"), Err(NotForUs));
}

#[test]
fn a_value_of_low_order_is_refused() {
    let mut random = Seed::new([4; 32]).stream("hpke", 0);
    let sealed = PublicKey([0; 32]).seal(Aead::Aes128Gcm, b"", b"", b"", &mut random);
    assert_eq!(sealed, Err(LowOrder));
}

/// RFC 7748 §6.1.
#[test]
fn two_pairs_share_one_value_and_none_shares_any_with_a_point_of_low_order() {
    let [alice, bob] = [
        "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a",
        "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb",
    ]
    .map(|digits| SecretKey::of(&hex(digits).try_into().unwrap()));
    let shared = hex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742");
    for (one, other) in [(&alice, &bob), (&bob, &alice)] {
        let agreed = one.agree(other.public()).unwrap();
        assert_eq!(agreed.as_ref(), shared);
    }
    assert!(alice.agree(PublicKey([0; 32])).is_err());
}

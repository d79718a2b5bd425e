use super::*;
use crypto::rand::Seed;
use wire::skip::{CryptAlg, MacAlg};

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn algorithms(kij: KijAlg, crypt: CryptAlg, mac: MacAlg) -> Algorithms {
    Algorithms::new(kij, crypt, mac).unwrap()
}

fn interval(kij: KijAlg, n: u32) -> IntervalKey {
    let master = MasterKey::manual(&core::array::from_fn(|at| at as u8));
    IntervalKey::new(&master, kij, n, Direction::Outbound, &mut Work::default())
}

/// Python's `hashlib` and `cryptography`, with K_ij = 00 01 .. 1f and n = 0x01020304.
#[test]
fn a_packet_key_is_wrapped_as_another_implementation_does() {
    let field: Vec<u8> = (0x20..0x38).collect();
    for (kij, crypt, mac, packet_key, encryption, authentication) in WORKED {
        let algorithms = algorithms(kij, crypt, mac);
        let field = &field[..algorithms.field_len()];
        let key = interval(kij, 0x0102_0304).unwrap(algorithms, field, &mut Work::default());
        assert_eq!(hex(key.octets()), packet_key, "{algorithms:?}");
        assert_eq!(hex(&key.encryption_key(algorithms)[..]), encryption);
        assert_eq!(hex(&key.authentication_key(algorithms)[..]), authentication);
    }
}

/// Kij, Crypt and MAC algorithm; K_p, E_kp and A_kp before they are cut.
type Worked = (
    KijAlg,
    CryptAlg,
    MacAlg,
    &'static str,
    &'static str,
    &'static str,
);

const WORKED: [Worked; 3] = [
    (
        KijAlg::Des,
        CryptAlg::Des,
        MacAlg::Md5,
        "e2080bede90eea309bcb8770052163e0",
        "603ba972adebf77df3841993b4c117e8cb2d14325c964796216bc9808eb77ea4",
        "62c3e7bafdbe715f01444867ab2c920f269a839f25cf688dce6d61783d6fcffb",
    ),
    (
        KijAlg::TripleDes,
        CryptAlg::TripleDes,
        MacAlg::Md5,
        "d98fb2590b301229dabd4d703813b7921ea86a9698540939",
        "a5999fbbf13296dfb18cb5aef856f7f70e8ac12a4696ffd63afe2fb3a9dc88cd",
        "53c6b340ff112892630a47d17ac3f64735edb3b6ca6fe02979d5a73350033cb2",
    ),
    (
        KijAlg::TripleDes,
        CryptAlg::Des,
        MacAlg::Sha,
        "000000000b301229dabd4d703813b7921ea86a9698540939",
        "40e9e2389a1c0a635d364ab220a5b60a496745c6ea4f22b5890da78df0bcb525",
        "3093580d5371b9ac3ea53b7011a4632fc358723cf0344158718145733fe30f3a",
    ),
];

#[test]
fn what_is_wrapped_is_unwrapped() {
    let mut random = Seed::new([8; 32]).stream("keys", 0);
    for algorithms in [
        algorithms(KijAlg::Des, CryptAlg::Des, MacAlg::None),
        algorithms(KijAlg::Des, CryptAlg::Des, MacAlg::Md5),
        algorithms(KijAlg::TripleDes, CryptAlg::TripleDes, MacAlg::Md5),
        algorithms(KijAlg::TripleDes, CryptAlg::None, MacAlg::Sha),
    ] {
        let key = interval(algorithms.kij(), 7);
        let mut work = Work::default();
        let (field, fresh) = key.fresh(algorithms, &mut random, &mut work);
        let len = algorithms.field_len();
        let again = key.unwrap(algorithms, &field[..len], &mut work);
        assert_eq!(fresh.octets(), again.octets());
        // The fill in front counts as zero.
        let fill = len - algorithms.packet_key_len();
        assert!(fresh.octets()[..fill].iter().all(|octet| *octet == 0));
        assert!(fresh.octets()[fill..].iter().any(|octet| *octet != 0));
        let other = interval(algorithms.kij(), 8).unwrap(algorithms, &field[..len], &mut work);
        assert_ne!(fresh.octets(), other.octets());
        let wraps = Task::WrapPacketKey(algorithms.kij());
        assert!(work.entries().contains(&(wraps, 3, 3 * len as u64)));
    }
}

#[test]
fn hkdf_gives_each_direction_its_keys() {
    let pair = |number| {
        let mut random = Seed::new([9; 32]).stream("pair", number);
        LongTermKey::generate(Group::Curve25519, &mut random)
    };
    let (a, b) = (pair(1), pair(2));
    let mut work = Work::default();
    let at_a = MasterKey::agree(&a, b.public(), &mut work).unwrap();
    let at_b = MasterKey::agree(&b, a.public(), &mut work).unwrap();
    assert_eq!(
        work.entries(),
        [(Task::AgreeLongTerm(Group::Curve25519), 2, 0)]
    );
    let key = |master: &MasterKey, direction| {
        let algorithms = Algorithms::HKDF_AES_GCM_SIV;
        let key = IntervalKey::new(master, KijAlg::Hkdf, 5, direction, &mut Work::default());
        let key = key.unwrap(algorithms, &[1; 16], &mut Work::default());
        hex(key.octets())
    };
    let sent = key(&at_a, Direction::Outbound);
    assert_eq!(sent, key(&at_b, Direction::Inbound));
    assert_ne!(sent, key(&at_b, Direction::Outbound));
    assert_eq!(
        key(&at_a, Direction::Inbound),
        key(&at_b, Direction::Outbound)
    );
}

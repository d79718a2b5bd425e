//! SKIP packets: what is sealed is opened; after a change of what is covered it is not, and leaves
//! no trace; foreign bytes are refused or open within the packet.
//!
//! The input is a choice of algorithms, a change (position, bits), then a clear text, or with the
//! highest bit of the choice a whole packet.
#![no_main]

use crypto::dh::long_term::Group;
use crypto::rand::Seed;
use engine::counters::DropReason;
use engine::skip::{
    Association, IvLen, MasterKey, Opener, Parts, Profile, Renewal, Sealer, SkipTime, peek,
};
use engine::time::{Calendar, Instant};
use libfuzzer_sys::fuzz_target;
use wire::skip::{Algorithms, CryptAlg, KijAlg, MacAlg, Name};

const IP_LEN: usize = 20;
const LONGEST: usize = 2_000;
/// 2026-11-23 05:30 UTC.
const TIME: SkipTime = SkipTime {
    calendar: Calendar(1_795_411_800),
    now: Instant(0),
};

fuzz_target!(|input: &[u8]| {
    let Some((&[choice, high, low, bits], rest)) = input.split_first_chunk() else {
        return;
    };
    let Some([mobile, gateway]) = associations(choice & 0x7f) else {
        return;
    };
    let mut opener = Opener::new(&gateway, None);
    let rest = &rest[..rest.len().min(LONGEST)];
    if choice & 0x80 != 0 {
        foreign(&mut opener, &gateway, rest);
        return;
    }
    let packet = sealed(&mobile, rest);
    let at = usize::from(u16::from_be_bytes([high, low])) % packet.len();
    let mut changed = packet.clone();
    changed[at] ^= bits;
    if is_covered(gateway.algorithms(), at, bits) && gateway.is_authenticated() {
        assert!(opener.open(&mut changed, IP_LEN, TIME).is_err());
        assert_eq!(opener.highest_n(), None);
        let mut own = packet.clone();
        let opened = opener.open(&mut own, IP_LEN, TIME).expect("it is ours");
        assert!(opened.is_newest && !opened.is_repeated);
        assert_eq!((&own[opened.clear], opened.next_header), (rest, 4));
        again(&mut opener, &gateway, packet);
    } else {
        foreign(&mut opener, &gateway, &changed);
    }
});

/// A packet that was opened before.
fn again(opener: &mut Opener, gateway: &Association, mut packet: Vec<u8>) {
    match (gateway.profile(), opener.open(&mut packet, IP_LEN, TIME)) {
        (Profile::X25519, opened) => assert_eq!(opened, Err(DropReason::Replayed)),
        (_, opened) => assert!(opened.expect("SKIP accepts it").is_repeated),
    }
}

/// Any bytes: the clear text lies within them, and only a packet that verifies counts.
fn foreign(opener: &mut Opener, gateway: &Association, packet: &[u8]) {
    for at in [
        IP_LEN,
        usize::from(packet.first().map_or(0, |first| first & 15)) * 4,
    ] {
        let mut own = packet.to_vec();
        let before = opener.highest_n();
        match opener.open(&mut own, at, TIME) {
            Ok(opened) => {
                assert!(opened.clear.start <= opened.clear.end);
                assert!(opened.clear.end <= packet.len());
                let (header, _) = peek(packet, at).expect("it was read");
                assert_eq!(header.n, opened.n);
                assert!(gateway.is_authenticated() || !opened.is_newest);
            }
            Err(_) if gateway.is_authenticated() => assert_eq!(opener.highest_n(), before),
            Err(_) => {}
        }
    }
}

fn is_covered(algorithms: Algorithms, at: usize, bits: u8) -> bool {
    match at {
        _ if bits == 0 => false,
        8 | 10 | 11 => false,
        1 | 6 | 7 => algorithms != Algorithms::HKDF_AES_GCM_SIV,
        // The reserved half of SKIP's first octet.
        IP_LEN => bits & 0xf0 != 0,
        _ => true,
    }
}

fn sealed(mobile: &Association, clear: &[u8]) -> Vec<u8> {
    let mut sealer = Sealer::new(mobile, 0);
    if let Some(bound) = sealer.n_to_store() {
        sealer.n_is_stored(bound);
    }
    let mut packet = vec![0; IP_LEN + sealer.sealed(clear.len())];
    let len = packet.len() as u16;
    packet[..4].copy_from_slice(&[0x45, 0, (len >> 8) as u8, len as u8]);
    packet[8..10].copy_from_slice(&[64, 57]);
    let at = IP_LEN + sealer.clear_at();
    packet[at..at + clear.len()].copy_from_slice(clear);
    let mut random = Seed::new([2; 32]).stream("skip", 0);
    let done = sealer.seal(&mut packet, IP_LEN, clear.len(), 4, TIME, &mut random);
    done.expect("it is sealed");
    packet
}

/// Both ends with these algorithms, by number; None if there are no such.
fn associations(choice: u8) -> Option<[Association; 2]> {
    let kij = [KijAlg::Des, KijAlg::TripleDes, KijAlg::Hkdf][usize::from(choice % 3)];
    let (rest, iv_len) = (
        choice / 3,
        [IvLen::Short, IvLen::Whole][usize::from(choice % 2)],
    );
    let crypt = match rest % 6 {
        0 => CryptAlg::None,
        1 => CryptAlg::Des,
        2 => CryptAlg::TripleDes,
        3 => CryptAlg::Rc2,
        4 => CryptAlg::Rc4,
        _ => CryptAlg::AesGcmSiv,
    };
    let mac = match rest / 6 {
        0 => MacAlg::None,
        1 => MacAlg::Md5,
        2 => MacAlg::DesCbc,
        3 => MacAlg::Sha,
        _ => MacAlg::AesGcmSiv,
    };
    let algorithms = Algorithms::new(kij, crypt, mac)?;
    let home = Name::ipv4([10, 18, 3, 17].into());
    let end = |local, remote, publics: [&[u8]; 2]| {
        let master = match kij {
            KijAlg::Hkdf => MasterKey::of_shared(Group::Curve25519, &[3; 32], publics),
            _ => MasterKey::manual(&[3; 32]),
        };
        let profiles = [Profile::Draft, Profile::Paper, Profile::X25519].into_iter();
        let parts = |profile| Parts {
            profile,
            algorithms,
            local,
            remote,
            iv_len,
            renewal: Renewal::DRAFT,
            master: master.clone(),
        };
        profiles
            .filter_map(|profile| Association::new(parts(profile)).ok())
            .next()
    };
    let (one, two) = ([1; 32], [2; 32]);
    let mobile = end(home, Name::NONE, [&one, &two])?;
    Some([mobile, end(Name::NONE, home, [&two, &one])?])
}

//! SKIP's packet path does not allocate while a packet key lasts. With RC4, whose key changes with
//! every packet, it does not allocate at all. Other new keys allocate their schedules.

use crypto::rand::{Seed, Stream};
use engine::skip::{
    Association, IvLen, MasterKey, Opener, Parts, Profile, Renewal, Sealer, SkipTime,
};
use engine::time::{Calendar, Instant};
use wire::skip::{Algorithms, CryptAlg, KijAlg, MacAlg, Name};

const IP_LEN: usize = 20;
const CLEAR: usize = 1_000;
/// Until every counter and every place in a cache exists.
const WARM_UP: usize = 20;
const TIME: SkipTime = SkipTime {
    calendar: Calendar(1_795_411_800),
    now: Instant(0),
};

#[test]
fn packets_ask_for_no_memory_while_a_key_lasts() {
    for crypt in [
        CryptAlg::None,
        CryptAlg::Des,
        CryptAlg::TripleDes,
        CryptAlg::Rc2,
        CryptAlg::Rc4,
    ] {
        for mac in [MacAlg::None, MacAlg::Md5, MacAlg::DesCbc, MacAlg::Sha] {
            if let Some(algorithms) = Algorithms::new(KijAlg::TripleDes, crypt, mac) {
                check(Profile::Draft, algorithms, MasterKey::manual(&[3; 32]));
            }
        }
    }
    let publics: [&[u8]; 2] = [&[1; 32], &[1; 32]];
    let group = crypto::dh::long_term::Group::Curve25519;
    let master = MasterKey::of_shared(group, &[3; 32], publics);
    check(Profile::X25519, Algorithms::HKDF_AES_GCM_SIV, master);
}

fn check(profile: Profile, algorithms: Algorithms, master: MasterKey) {
    // The DES-CBC MAC of every key is one schedule on the heap.
    if (algorithms.crypt(), algorithms.mac()) == (CryptAlg::Rc4, MacAlg::DesCbc) {
        return;
    }
    let home = Name::ipv4([10, 18, 3, 17].into());
    let association = |local, remote| {
        Association::new(Parts {
            profile,
            algorithms,
            local,
            remote,
            iv_len: IvLen::Whole,
            renewal: Renewal::DRAFT,
            master: master.clone(),
        })
        .expect("it fits")
    };
    let mut sealer = Sealer::new(&association(home, Name::NONE), 0);
    let mut opener = Opener::new(&association(Name::NONE, home), None);
    let mut random = Seed::new([1; 32]).stream("allocations", 0);
    let mut packet = vec![0; IP_LEN + sealer.sealed(CLEAR)];
    for round in 0..60 {
        let seen = allocation_counter::measure(|| {
            pass(&mut packet, &mut sealer, &mut opener, &mut random);
        });
        let place = format!("{algorithms:?} {round}: {seen:?}");
        assert!(round < WARM_UP || seen.count_total == 0, "{place}");
    }
}

fn pass(packet: &mut [u8], sealer: &mut Sealer, opener: &mut Opener, random: &mut Stream) {
    let len = packet.len() as u16;
    packet[..4].copy_from_slice(&[0x45, 0, (len >> 8) as u8, len as u8]);
    let sealed = sealer.seal(packet, IP_LEN, CLEAR, 4, TIME, random);
    sealed.expect("it is sealed");
    opener.open(packet, IP_LEN, TIME).expect("it is opened");
}

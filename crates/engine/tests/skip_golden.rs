//! SKIP against the second implementation of `python/tests/skip_by_hand.py`, both ways: this test
//! opens what Python has sealed, and `python/tests/test_skip.py` opens what is written here.
//! `CARAVAN_BLESS=1` writes it again.

use crypto::dh::long_term::Group;
use crypto::rand::{Seed, Stream};
use engine::skip::{
    Association, IvLen, MasterKey, Opener, Parts, Profile, Renewal, Sealer, SkipTime, peek,
};
use engine::time::{Calendar, Instant};
use wire::skip::{Algorithms, CryptAlg, KijAlg, MacAlg, Name, Nsid};

const OURS: &str = include_str!("../testdata/skip/rust.txt");
const PYTHONS: &str = include_str!("../testdata/skip/python.txt");
const IP_LEN: usize = 20;

/// 2026-11-23 05:30 UTC.
const TIME: SkipTime = SkipTime {
    calendar: Calendar(1_795_411_800),
    now: Instant(0),
};

#[test]
fn what_python_sealed_is_opened() {
    let mut count = 0;
    for line in PYTHONS.lines() {
        let golden = Golden::parse(line);
        assert_eq!(
            golden.opened().as_deref(),
            Some(&golden.clear[..]),
            "{line}"
        );
        for at in (IP_LEN + 1..golden.packet.len()).filter(|_| golden.is_authenticated()) {
            let mut changed = golden.clone();
            changed.packet[at] ^= 0x20;
            assert_eq!(changed.opened(), None, "{at} of {line}");
        }
        count += 1;
    }
    assert_eq!(count, 2 * 36 + 25);
}

#[test]
fn what_is_sealed_is_what_was_sealed() {
    let mut random = Seed::new([5; 32]).stream("golden", 0);
    let sealed: String = everything(&mut random)
        .iter()
        .map(|golden| golden.line() + "\n")
        .collect();
    bless(&sealed);
    assert!(sealed == OURS, "CARAVAN_BLESS=1 writes the file again");
    for line in OURS.lines() {
        let golden = Golden::parse(line);
        assert_eq!(golden.opened(), Some(golden.clear.clone()), "{line}");
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "writes the golden file when a person asks for it"
)]
fn bless(text: &str) {
    if std::env::var("CARAVAN_BLESS").is_ok() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/skip/rust.txt");
        std::fs::write(path, text).expect("the folder is there");
    }
}

/// A line: Kij, Crypt and MAC algorithm, octets of the IV, names, n, K_ij, clear text, packet.
#[derive(Clone)]
struct Golden {
    numbers: [u8; 3],
    iv_len: usize,
    names: [(u8, Vec<u8>); 2],
    n: u32,
    /// With HKDF, the public values of sender and receiver follow.
    master: Vec<u8>,
    clear: Vec<u8>,
    packet: Vec<u8>,
}

fn everything(random: &mut Stream) -> Vec<Golden> {
    let home = || (1, vec![10, 18, 3, 17]);
    let none = || (0, Vec::new());
    let mut all = Vec::new();
    for kij in [1, 2, 252] {
        for crypt in [0, 1, 2, 250, 251, 252] {
            for mac in [0, 1, 2, 3, 252] {
                for iv_len in [4, 8] {
                    let names = [home(), none()];
                    all.extend(Golden::sealed([kij, crypt, mac], iv_len, names, random));
                }
            }
        }
    }
    let sizes = [0, 4, 4, 16, 16, 16, 16, 6, 16, 16, 16, 16];
    for (nsid, size) in sizes.into_iter().enumerate() {
        let name = || (nsid as u8, vec![0xb0 + nsid as u8; size]);
        for names in [[name(), none()], [none(), name()]] {
            all.extend(Golden::sealed([2, 1, 1], 8, names, random));
        }
    }
    let both = [(8, vec![1; 16]), (8, vec![2; 16])];
    all.extend(Golden::sealed([2, 1, 1], 4, both, random));
    all
}

impl Golden {
    /// A packet with random secret and text. None if no profile has these algorithms.
    fn sealed(
        numbers: [u8; 3],
        iv_len: usize,
        names: [(u8, Vec<u8>); 2],
        random: &mut Stream,
    ) -> Option<Self> {
        let mut octets = |len| {
            let mut octets = vec![0; len];
            random.fill(&mut octets);
            octets
        };
        let crypt = numbers[1];
        let mut golden = Self {
            numbers,
            iv_len: match crypt {
                0 | 251 => 0,
                252 => 8,
                _ => iv_len,
            },
            names,
            n: 0,
            master: octets(if crypt == 252 { 96 } else { 32 }),
            clear: Vec::new(),
            packet: Vec::new(),
        };
        let len = usize::from(octets(1)[0]) % 64;
        golden.clear = octets(len);
        let [from, to] = [0, 1].map(|at| golden.name(at));
        let association = golden.association([from, to])?;
        let mut sealer = Sealer::new(&association, 0);
        if let Some(bound) = sealer.n_to_store() {
            sealer.n_is_stored(bound);
        }
        let len = IP_LEN + sealer.sealed(golden.clear.len());
        let mut packet = octets(len);
        packet[..4].copy_from_slice(&[0x45, 0, (len >> 8) as u8, len as u8]);
        packet[6..8].fill(0);
        packet[9] = 57;
        let at = IP_LEN + sealer.clear_at();
        packet[at..at + golden.clear.len()].copy_from_slice(&golden.clear);
        let clear = golden.clear.len();
        let done = sealer.seal(&mut packet, IP_LEN, clear, 4, TIME, random);
        done.expect("it is sealed");
        golden.n = peek(&packet, IP_LEN).expect("it is SKIP").0.n;
        golden.packet = packet;
        Some(golden)
    }

    /// The clear text, if the receiver opens the packet.
    fn opened(&self) -> Option<Vec<u8>> {
        let [from, to] = [0, 1].map(|at| self.name(at));
        let mut golden = self.clone();
        if golden.master.len() == 96 {
            golden.master[32..].rotate_left(32);
        }
        let association = golden.association([to, from])?;
        let mut opener = Opener::new(&association, None);
        let mut packet = self.packet.clone();
        let opened = opener.open(&mut packet, IP_LEN, TIME).ok()?;
        (opened.next_header == 4).then(|| packet[opened.clear].to_vec())
    }

    fn is_authenticated(&self) -> bool {
        self.numbers[2] != 0
    }

    /// Between our name and the peer's.
    fn association(&self, [local, remote]: [Name; 2]) -> Option<Association> {
        let algorithms = self.algorithms()?;
        let parts = |profile| Parts {
            profile,
            algorithms,
            local,
            remote,
            iv_len: match self.iv_len {
                4 => IvLen::Short,
                _ => IvLen::Whole,
            },
            renewal: Renewal::DRAFT,
            master: self.master(),
        };
        let all = [Profile::Draft, Profile::X25519, Profile::Paper].into_iter();
        all.filter_map(|profile| Association::new(parts(profile)).ok())
            .next()
    }

    fn master(&self) -> MasterKey {
        let (shared, publics) = self.master.split_first_chunk().expect("32 octets");
        match publics.split_at_checked(32) {
            Some((own, peer)) => MasterKey::of_shared(Group::Curve25519, shared, [own, peer]),
            None => MasterKey::manual(shared),
        }
    }

    fn algorithms(&self) -> Option<Algorithms> {
        let [kij, crypt, mac] = self.numbers;
        let kij = match kij {
            1 => KijAlg::Des,
            2 => KijAlg::TripleDes,
            _ => KijAlg::Hkdf,
        };
        let crypt = match crypt {
            0 => CryptAlg::None,
            1 => CryptAlg::Des,
            2 => CryptAlg::TripleDes,
            250 => CryptAlg::Rc2,
            251 => CryptAlg::Rc4,
            _ => CryptAlg::AesGcmSiv,
        };
        let mac = match mac {
            0 => MacAlg::None,
            1 => MacAlg::Md5,
            2 => MacAlg::DesCbc,
            3 => MacAlg::Sha,
            _ => MacAlg::AesGcmSiv,
        };
        Algorithms::new(kij, crypt, mac)
    }

    fn name(&self, at: usize) -> Name {
        let (nsid, mkid) = &self.names[at];
        let nsids = [
            Nsid::None,
            Nsid::Ipv4,
            Nsid::PosixUid,
            Nsid::Ipv6,
            Nsid::Md5Dns,
            Nsid::Md5Dn,
            Nsid::Md5Ascii,
            Nsid::Mac,
            Nsid::Md5PublicValue,
            Nsid::Md5Mailbox,
            Nsid::Md5BankAccount,
            Nsid::Md5Nis,
        ];
        Name::new(nsids[usize::from(*nsid)], mkid).expect("its length")
    }

    fn parse(line: &str) -> Self {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u32>().expect("a number");
        let name = |at: usize| {
            let (nsid, mkid) = words[at].split_once('/').expect("a name");
            (nsid.parse().expect("a number"), octets(mkid))
        };
        Self {
            numbers: [0, 1, 2].map(|at| number(at) as u8),
            iv_len: number(3) as usize,
            names: [name(4), name(5)],
            n: number(6),
            master: octets(words[7]),
            clear: octets(words[8]),
            packet: octets(words[9]),
        }
    }

    fn line(&self) -> String {
        let [kij, crypt, mac] = self.numbers;
        let [from, to] = [0, 1].map(|at| {
            let (nsid, mkid) = &self.names[at];
            format!("{nsid}/{}", hex(mkid))
        });
        let (iv_len, n) = (self.iv_len, self.n);
        let [master, clear, packet] = [&self.master, &self.clear, &self.packet].map(|it| hex(it));
        format!("{kij} {crypt} {mac} {iv_len} {from} {to} {n} {master} {clear} {packet}")
    }
}

fn hex(octets: &[u8]) -> String {
    match octets {
        [] => "-".to_owned(),
        _ => octets.iter().map(|octet| format!("{octet:02x}")).collect(),
    }
}

fn octets(hex: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
    (0..hex.len() / 2).map(|at| digit(2 * at)).collect()
}

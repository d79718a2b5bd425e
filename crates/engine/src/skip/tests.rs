//! Both halves of an association, and what a stranger does to their packets.

use std::net::Ipv4Addr;

use crypto::dh::long_term::{Group, LongTermKey};
use crypto::rand::{Seed, Stream};
use wire::skip::{Algorithms, CryptAlg, KijAlg, MacAlg, Name, Nsid};

use super::*;
use crate::counters::DropReason;
use crate::time::Duration;
use crate::work::{Task, Work};

mod fit;
mod hostile;
mod numbers;
mod packets;
mod work;

/// 2026-11-23 05:00 UTC, in the middle of an hour of n.
pub(super) const MID_HOUR: SkipTime = SkipTime {
    calendar: Calendar(1_795_410_000 + 1_800),
    now: Instant(0),
};
pub(super) const HOUR: Duration = Duration::from_hours(1);
/// Octets of an IP header without options.
pub(super) const IP_LEN: usize = 20;
pub(super) const DES_MD5: (KijAlg, CryptAlg, MacAlg) =
    (KijAlg::TripleDes, CryptAlg::Des, MacAlg::Md5);

pub(super) fn later(time: SkipTime, span: Duration) -> SkipTime {
    SkipTime {
        calendar: Calendar(time.calendar.0 + span.as_secs() as i64),
        now: time.now + span,
    }
}

pub(super) fn algorithms((kij, crypt, mac): (KijAlg, CryptAlg, MacAlg)) -> Algorithms {
    Algorithms::new(kij, crypt, mac).expect("they go together")
}

/// Every choice of algorithms, skip-x25519's last.
pub(super) fn every_choice() -> Vec<Algorithms> {
    let mut all = Vec::new();
    for kij in [KijAlg::Des, KijAlg::TripleDes, KijAlg::Hkdf] {
        for crypt in [
            CryptAlg::None,
            CryptAlg::Des,
            CryptAlg::TripleDes,
            CryptAlg::Rc2,
            CryptAlg::Rc4,
            CryptAlg::AesGcmSiv,
        ] {
            let macs = [
                MacAlg::None,
                MacAlg::Md5,
                MacAlg::DesCbc,
                MacAlg::Sha,
                MacAlg::AesGcmSiv,
            ];
            all.extend(
                macs.into_iter()
                    .filter_map(|mac| Algorithms::new(kij, crypt, mac)),
            );
        }
    }
    assert_eq!(all.len(), 39);
    all
}

/// Every choice that a profile allows: DES wraps longer keys only in the paper's, with a MAC.
pub(super) fn every_fitting_choice() -> Vec<Algorithms> {
    let all = every_choice().into_iter();
    let fits = |choice: &Algorithms| {
        let [mobile, _] = parts_of(profile_of(*choice), *choice);
        Association::new(mobile).is_ok()
    };
    let fitting: Vec<_> = all.filter(fits).collect();
    assert_eq!(fitting.len(), 36);
    fitting
}

/// A profile that allows the algorithms.
pub(super) fn profile_of(algorithms: Algorithms) -> Profile {
    let is_weak = algorithms.kij() == KijAlg::Des && algorithms.packet_key_len() > 8;
    match algorithms {
        Algorithms::HKDF_AES_GCM_SIV => Profile::X25519,
        _ if is_weak && algorithms.mac() != MacAlg::None => Profile::Paper,
        _ => Profile::Draft,
    }
}

pub(super) fn long_term(group: Group, number: u64) -> LongTermKey {
    LongTermKey::generate(group, &mut Seed::new([6; 32]).stream("skip", number))
}

/// The parts of both ends of an association: a mobile node's and its gateway's.
pub(super) fn parts_of(profile: Profile, algorithms: Algorithms) -> [Parts; 2] {
    let group = match profile {
        Profile::X25519 => Group::Curve25519,
        _ => Group::Skip1024,
    };
    let (mobile, gateway) = (long_term(group, 1), long_term(group, 2));
    let master = |own: &LongTermKey, peer: &LongTermKey| {
        MasterKey::agree(own, peer.public(), &mut Work::default()).expect("a good value")
    };
    let home = Name::ipv4(Ipv4Addr::new(10, 18, 3, 17));
    let at_mobile = Parts {
        profile,
        algorithms,
        local: home,
        remote: Name::NONE,
        iv_len: IvLen::default(),
        renewal: Renewal::DRAFT,
        master: master(&mobile, &gateway),
    };
    let at_gateway = Parts {
        local: Name::NONE,
        remote: home,
        master: master(&gateway, &mobile),
        ..at_mobile.clone()
    };
    [at_mobile, at_gateway]
}

/// A mobile node that sends, and its gateway that receives.
pub(super) struct Pair {
    pub(super) sealer: Sealer,
    pub(super) opener: Opener,
    pub(super) random: Stream,
}

impl Pair {
    pub(super) fn new(parts: [Parts; 2]) -> Self {
        let [mobile, gateway] = parts.map(|parts| Association::new(parts).expect("they fit"));
        let mut sealer = Sealer::new(&mobile, 0);
        store(&mut sealer);
        Self {
            sealer,
            opener: Opener::new(&gateway, None),
            random: Seed::new([7; 32]).stream("pair", 0),
        }
    }

    pub(super) fn of(algorithms: Algorithms) -> Self {
        Self::new(parts_of(profile_of(algorithms), algorithms))
    }

    /// A packet with this clear text, of protocol 4.
    pub(super) fn seal(&mut self, clear: &[u8], time: SkipTime) -> Result<Vec<u8>, DropReason> {
        let mut packet = outer(IP_LEN + self.sealer.sealed(clear.len()));
        let at = IP_LEN + self.sealer.clear_at();
        packet[at..at + clear.len()].copy_from_slice(clear);
        let random = &mut self.random;
        self.sealer
            .seal(&mut packet, IP_LEN, clear.len(), 4, time, random)?;
        Ok(packet)
    }

    /// Seals and opens. Returns what was opened and its clear text.
    pub(super) fn pass(&mut self, clear: &[u8], time: SkipTime) -> (Opened, Vec<u8>) {
        let mut packet = self.seal(clear, time).expect("it is sealed");
        let opened = self
            .opener
            .open(&mut packet, IP_LEN, time)
            .expect("it is opened");
        let clear = packet[opened.clear.clone()].to_vec();
        (opened, clear)
    }

    pub(super) fn open(&mut self, packet: &[u8], time: SkipTime) -> Result<Opened, DropReason> {
        self.opener.open(&mut packet.to_vec(), IP_LEN, time)
    }
}

/// As a disk does.
pub(super) fn store(sealer: &mut Sealer) -> Option<u32> {
    let bound = sealer.n_to_store();
    bound
        .into_iter()
        .for_each(|bound| sealer.n_is_stored(bound));
    bound
}

/// An outer header for a packet of this length: care-of address to firewall, protocol 57.
pub(super) fn outer(len: usize) -> Vec<u8> {
    let mut packet = vec![0; len];
    packet[..4].copy_from_slice(&[0x45, 0, (len >> 8) as u8, len as u8]);
    packet[4..12].copy_from_slice(&[0x12, 0x34, 0x40, 0, 64, 57, 0xab, 0xcd]);
    packet[12..20].copy_from_slice(&[192, 0, 2, 7, 198, 51, 100, 1]);
    packet
}

pub(super) fn nsids() -> Vec<(Nsid, Vec<u8>)> {
    [
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
    ]
    .into_iter()
    .map(|nsid| (nsid, vec![0xa0 + nsid as u8; nsid.mkid_len()]))
    .collect()
}

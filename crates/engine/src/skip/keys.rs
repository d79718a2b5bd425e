//! Keys: from the value that two long-term pairs share, by way of n, to the key of a packet and the
//! keys of its ESP and its AH. Names are the draft's: K_ij, K_ijn, K_p, E_kp, A_kp.

use crypto::cipher::{CbcKey, Cipher};
use crypto::dh::BadPublicValue;
use crypto::dh::long_term::{Group, LongTermKey};
use crypto::hash::{Hash, HmacKey, expand, extract, is_equal};
use crypto::rand::Stream;
use wire::skip::{Algorithms, KijAlg};
use zeroize::{ZeroizeOnDrop, Zeroizing};

use crate::sa::Direction;
use crate::work::{Task, Work};

/// Octets of K_ij, of K_ijn, and of what E_kp and A_kp are cut from.
const KEY_LEN: usize = 32;
/// Octets of the longest field of the packet key.
pub(super) const MAX_FIELD_LEN: usize = 24;
/// Octets of a packet key with AES-256-GCM-SIV: the key and 4 octets of salt.
const AEAD_KEY_LEN: usize = 36;
/// What HKDF extracts and expands for.
const HKDF_SALT: &[u8] = b"caravan skip-x25519 1";
const HKDF_INTERVAL: &[u8] = b"n";
const HKDF_PACKET: &[u8] = b"packet";
/// Of [`MasterKey::fingerprint`].
const FINGERPRINT_SALT: &[u8] = b"caravan skip fingerprint 1";

/// K_ij: the secret of two principals, wiped on drop.
#[derive(Clone, ZeroizeOnDrop)]
pub struct MasterKey {
    shared: [u8; KEY_LEN],
    /// Our public value and the peer's, of Curve25519: HKDF takes them for each direction.
    #[zeroize(skip)]
    publics: Option<[[u8; KEY_LEN]; 2]>,
    #[zeroize(skip)]
    group: Option<Group>,
}

impl PartialEq for MasterKey {
    /// In constant time.
    fn eq(&self, other: &Self) -> bool {
        let is_same_pair = (self.publics, self.group) == (other.publics, other.group);
        is_equal(&self.shared, &other.shared) && is_same_pair
    }
}

impl Eq for MasterKey {}

impl MasterKey {
    /// The low-order 256 bits of the value that our pair shares with the peer's public value.
    pub fn agree(own: &LongTermKey, peer: &[u8], work: &mut Work) -> Result<Self, BadPublicValue> {
        let shared = own.agree(peer)?;
        work.count(Task::AgreeLongTerm(own.group()), 0);
        Ok(Self::of_shared(
            own.group(),
            shared.low_256(),
            [own.public(), peer],
        ))
    }

    /// The same, of a value that a token has computed: its low-order 256 bits, our public value and
    /// the peer's, both checked.
    pub fn of_shared(group: Group, low_256: &[u8; KEY_LEN], publics: [&[u8]; 2]) -> Self {
        let octets = publics.map(|public| public.try_into().ok());
        let publics = match (group, octets) {
            (Group::Curve25519, [Some(own), Some(peer)]) => Some([own, peer]),
            _ => None,
        };
        Self {
            shared: *low_256,
            publics,
            group: Some(group),
        }
    }

    /// A key that both ends have set by hand.
    pub fn manual(octets: &[u8; KEY_LEN]) -> Self {
        Self {
            shared: *octets,
            publics: None,
            group: None,
        }
    }

    /// Tells keys apart without showing them. Whoever has it can test a guess of the key, as with a
    /// packet.
    pub(super) fn fingerprint(&self) -> u64 {
        let digest = extract(Hash::Sha256, FINGERPRINT_SALT, &self.shared);
        let (first, _) = digest.as_ref().split_first_chunk().expect("32 octets");
        u64::from_be_bytes(*first)
    }

    /// The group of the long-term pairs; none of a key set by hand.
    pub fn group(&self) -> Option<Group> {
        self.group
    }
}

/// K_ijn: encrypts the packet keys of one n.
pub(super) struct IntervalKey {
    pub(super) n: u32,
    wrap: Wrap,
}

enum Wrap {
    Cbc(CbcKey),
    Hkdf(HmacKey),
}

/// K_p, with its fill as zeros, as E_kp and A_kp take it.
pub(super) struct PacketKey {
    octets: Zeroizing<[u8; AEAD_KEY_LEN]>,
    len: usize,
}

impl IntervalKey {
    /// The key of packets in a direction. Legacy keys are equal in both.
    pub(super) fn new(
        master: &MasterKey,
        algorithm: KijAlg,
        n: u32,
        direction: Direction,
        work: &mut Work,
    ) -> Self {
        let wrap = match algorithm {
            KijAlg::Des => Wrap::Cbc(master.wrapping_key(Cipher::Des, n)),
            KijAlg::TripleDes => Wrap::Cbc(master.wrapping_key(Cipher::TripleDes, n)),
            KijAlg::Hkdf => Wrap::Hkdf(master.hkdf_key(n, direction)),
        };
        let (times, each) = match algorithm {
            KijAlg::Hkdf => (2, KEY_LEN),
            _ => (2, KEY_LEN + 5),
        };
        work.add(Task::DeriveSkipKey(algorithm), times, times * each as u64);
        Self { n, wrap }
    }

    /// A fresh packet key, and its field on the wire.
    pub(super) fn fresh(
        &self,
        algorithms: Algorithms,
        random: &mut Stream,
        work: &mut Work,
    ) -> ([u8; MAX_FIELD_LEN], PacketKey) {
        let len = algorithms.field_len();
        let mut field = [0; MAX_FIELD_LEN];
        random.fill(&mut field[..len]);
        let key = match &self.wrap {
            Wrap::Cbc(cipher) => {
                // The key's bits are the low-order ones, behind random fill.
                let key = PacketKey::filled(&field[..len], algorithms.packet_key_len());
                cipher.encrypt(&[0; 8], &mut field[..len]);
                key
            }
            Wrap::Hkdf(hmac) => PacketKey::derived(hmac, &field[..len]),
        };
        work.count(Task::WrapPacketKey(algorithms.kij()), len as u64);
        (field, key)
    }

    /// The packet key of a field, which has [`Algorithms::field_len`] octets.
    pub(super) fn unwrap(
        &self,
        algorithms: Algorithms,
        field: &[u8],
        work: &mut Work,
    ) -> PacketKey {
        work.count(Task::WrapPacketKey(algorithms.kij()), field.len() as u64);
        match &self.wrap {
            Wrap::Cbc(cipher) => {
                let mut clear = Zeroizing::new([0; MAX_FIELD_LEN]);
                let clear = &mut clear[..field.len()];
                clear.copy_from_slice(field);
                cipher.decrypt(&[0; 8], clear);
                PacketKey::filled(clear, algorithms.packet_key_len())
            }
            Wrap::Hkdf(hmac) => PacketKey::derived(hmac, field),
        }
    }
}

impl MasterKey {
    /// K_ijn = MD5(K_ij | n | 1) | MD5(K_ij | n | 0); ciphers take the low-order octets.
    fn wrapping_key(&self, cipher: Cipher, n: u32) -> CbcKey {
        let n = n.to_be_bytes();
        let halves = halves(&[&self.shared, &n], [1, 0]);
        CbcKey::new(cipher, &halves[KEY_LEN - cipher.key_len()..])
    }

    /// A key of one direction: it is bound to the public values of sender and receiver.
    fn hkdf_key(&self, n: u32, direction: Direction) -> HmacKey {
        let [own, peer] = self
            .publics
            .as_ref()
            .map_or([&[][..]; 2], |[own, peer]| [own, peer]);
        let [from, to] = match direction {
            Direction::Outbound => [own, peer],
            Direction::Inbound => [peer, own],
        };
        let extracted = extract(Hash::Sha256, HKDF_SALT, &self.shared);
        let extracted = HmacKey::new(Hash::Sha256, extracted.as_ref());
        let mut key = Zeroizing::new([0; KEY_LEN]);
        let info = [HKDF_INTERVAL, from, to, &n.to_be_bytes()];
        expand(&extracted, &info, &mut key[..]);
        HmacKey::new(Hash::Sha256, &key[..])
    }
}

impl PacketKey {
    /// The last `key_len` octets of a clear field; the fill before them counts as zero.
    fn filled(clear: &[u8], key_len: usize) -> Self {
        let mut octets = Zeroizing::new([0; AEAD_KEY_LEN]);
        let fill = clear.len() - key_len;
        octets[fill..clear.len()].copy_from_slice(&clear[fill..]);
        Self {
            octets,
            len: clear.len(),
        }
    }

    fn derived(hmac: &HmacKey, salt: &[u8]) -> Self {
        let mut octets = Zeroizing::new([0; AEAD_KEY_LEN]);
        expand(hmac, &[HKDF_PACKET, salt], &mut octets[..]);
        Self {
            octets,
            len: AEAD_KEY_LEN,
        }
    }

    pub(super) fn octets(&self) -> &[u8] {
        &self.octets[..self.len]
    }

    /// E_kp = MD5(K_p | Crypt Alg | 2) | MD5(K_p | Crypt Alg | 0).
    pub(super) fn encryption_key(&self, algorithms: Algorithms) -> Zeroizing<[u8; KEY_LEN]> {
        halves(&[self.octets(), &[algorithms.crypt().number()]], [2, 0])
    }

    /// A_kp = MD5(K_p | MAC Alg | 3) | MD5(K_p | MAC Alg | 1).
    pub(super) fn authentication_key(&self, algorithms: Algorithms) -> Zeroizing<[u8; KEY_LEN]> {
        halves(&[self.octets(), &[algorithms.mac().number()]], [3, 1])
    }
}

/// Two MD5 digests that differ in the last octet.
fn halves(parts: &[&[u8]; 2], last: [u8; 2]) -> Zeroizing<[u8; KEY_LEN]> {
    let mut key = Zeroizing::new([0; KEY_LEN]);
    for (half, last) in key.chunks_mut(KEY_LEN / 2).zip(last) {
        let digest = Hash::Md5.digest(&[parts[0], parts[1], &[last]]);
        half.copy_from_slice(digest.as_ref());
    }
    key
}

#[cfg(test)]
mod tests;

//! Dynamic WEP (IEEE 802.1X-2001 §7.6): after EAP an access point gives each station WEP keys,
//! encrypted and signed with EAP's key. EAP-MD5 has no key, so it goes with static WEP alone.
//! Legacy: RC4 and MD5, and nothing that proves the station has the key.

use crypto::hash::{Hash, is_equal};
use crypto::rand::Stream;
use crypto::rc;
use wire::codec::Writer;
use wire::ieee80211::{EAPOL_LEN, Eapol, PacketType, Rc4KeyFrame};
use zeroize::Zeroizing;

use super::cipher::{PermittedCipher, TemporalKey};
use crate::counters::{DropCounters, DropReason};
use crate::work::{Task, Work};

/// Octets of each half of EAP's key: the first encrypts, the second signs (RFC 2548 §2.4).
const HALF_LEN: usize = 32;
const EAPOL_VERSION: u8 = 1;

/// EAP's key, wiped on drop.
#[derive(Clone)]
pub struct SessionKey {
    encryption: Zeroizing<[u8; HALF_LEN]>,
    signature: Zeroizing<[u8; HALF_LEN]>,
}

impl SessionKey {
    /// Takes the first 64 octets of EAP's key. None if it is shorter.
    pub fn new(key: &[u8]) -> Option<Self> {
        let (encryption, rest) = key.split_first_chunk()?;
        Some(Self {
            encryption: Zeroizing::new(*encryption),
            signature: Zeroizing::new(*rest.first_chunk()?),
        })
    }

    fn apply(&self, iv: &[u8; 16], key: &mut [u8]) {
        let seed = Zeroizing::new([&iv[..], &self.encryption[..]].concat());
        rc::rc4_from(&seed, 0, key);
    }

    fn sign(&self, packet: &[u8], work: &mut Work) -> [u8; 16] {
        work.count(Task::Prf(Hash::Md5), packet.len() as u64);
        let signature = Hash::Md5.hmac(&self.signature[..], &[packet]);
        *signature.as_ref().first_chunk().expect("16 octets")
    }
}

/// A key that an access point gives or a station gets.
#[derive(Clone, PartialEq, Eq)]
pub struct GivenKey {
    /// The key.
    pub key: TemporalKey,
    /// Its number, 0 to 3.
    pub key_id: u8,
    /// For this station alone. Without it, for groups.
    pub is_unicast: bool,
}

/// Gives keys to one station.
pub struct KeyGiver {
    session: SessionKey,
    replay_counter: u64,
    work: Work,
}

/// Gets keys from the access point.
pub struct KeyTaker {
    session: SessionKey,
    cipher: PermittedCipher,
    replay_counter: Option<u64>,
    taken: Vec<GivenKey>,
    drops: DropCounters,
    work: Work,
}

impl KeyGiver {
    /// For the station that EAP has authenticated with this key.
    pub fn new(session: SessionKey) -> Self {
        Self {
            session,
            replay_counter: 0,
            work: Work::default(),
        }
    }

    /// The EAPOL packet that gives a key.
    pub fn give(&mut self, given: &GivenKey, random: &mut Stream) -> Vec<u8> {
        self.replay_counter += 1;
        let mut iv = [0; 16];
        random.fill(&mut iv);
        let mut key = given.key.octets().to_vec();
        self.session.apply(&iv, &mut key);
        self.work.count(Task::KeyData, key.len() as u64);
        let frame = Rc4KeyFrame {
            key_length: key.len() as u16,
            replay_counter: self.replay_counter,
            iv,
            index: given.key_id,
            is_unicast: given.is_unicast,
            signature: [0; 16],
            key: &key,
        };
        let (mut body, mut w) = (Writer::new(), Writer::new());
        frame.write(&mut body);
        let eapol = Eapol {
            version: EAPOL_VERSION,
            kind: PacketType::Key,
            body: body.as_slice(),
        };
        eapol.write(&mut w);
        let mut packet = w.into_vec();
        let signature = self.session.sign(&packet, &mut self.work);
        packet[Rc4KeyFrame::SIGNATURE_AT].copy_from_slice(&signature);
        packet
    }

    /// What was done so far.
    pub fn work(&self) -> &Work {
        &self.work
    }
}

impl KeyTaker {
    /// For the access point that EAP has authenticated with this key.
    pub fn new(session: SessionKey, cipher: PermittedCipher) -> Self {
        Self {
            session,
            cipher,
            replay_counter: None,
            taken: Vec::new(),
            drops: DropCounters::default(),
            work: Work::default(),
        }
    }

    /// Takes an EAPOL packet. None if it has the key already: the access point cannot know. A drop
    /// is counted.
    pub fn handle(&mut self, packet: &[u8]) -> Result<Option<GivenKey>, DropReason> {
        let handled = self.handle_uncounted(packet);
        handled.inspect_err(|reason| self.drops.count(*reason))
    }

    fn handle_uncounted(&mut self, packet: &[u8]) -> Result<Option<GivenKey>, DropReason> {
        let malformed = |_| DropReason::MalformedMessage;
        let eapol = Eapol::parse(packet).map_err(malformed)?;
        if eapol.kind != PacketType::Key {
            return Err(DropReason::UnexpectedMessage);
        }
        let frame = Rc4KeyFrame::parse(eapol.body).map_err(malformed)?;
        if self
            .replay_counter
            .is_some_and(|last| frame.replay_counter <= last)
        {
            return Err(DropReason::Replayed);
        }
        let mut zeroed = packet[..EAPOL_LEN + eapol.body.len()].to_vec();
        zeroed[Rc4KeyFrame::SIGNATURE_AT].fill(0);
        let signature = self.session.sign(&zeroed, &mut self.work);
        if !is_equal(&signature, &frame.signature) {
            return Err(DropReason::BadHash);
        }
        self.replay_counter = Some(frame.replay_counter);
        let mut key = Zeroizing::new(frame.key.to_vec());
        if key.is_empty() {
            // The station has the key already: the start of EAP's.
            let len = usize::from(frame.key_length).min(HALF_LEN);
            key.extend(&self.session.encryption[..len]);
        } else {
            self.work.count(Task::KeyData, key.len() as u64);
            self.session.apply(&frame.iv, &mut key);
        }
        let key = TemporalKey::new(self.cipher, &key);
        let given = GivenKey {
            key: key.ok_or(DropReason::NoProposalChosen)?,
            key_id: frame.index & 3,
            is_unicast: frame.is_unicast,
        };
        if self.taken.contains(&given) {
            return Ok(None);
        }
        let place = (given.key_id, given.is_unicast);
        self.taken.retain(|it| (it.key_id, it.is_unicast) != place);
        self.taken.push(given.clone());
        Ok(Some(given))
    }

    /// Drops by reason.
    pub fn drops(&self) -> &DropCounters {
        &self.drops
    }

    /// What was done so far.
    pub fn work(&self) -> &Work {
        &self.work
    }
}

#[cfg(test)]
mod tests {
    use crypto::rand::Seed;

    use super::*;
    use crate::link::wireless::LinkCipher;

    fn ends() -> (KeyGiver, KeyTaker, GivenKey) {
        let octets: Vec<u8> = (0..64).collect();
        let session = SessionKey::new(&octets).unwrap();
        let cipher = LinkCipher::Wep104.permit(true).unwrap();
        let given = GivenKey {
            key: TemporalKey::new(cipher, &[7; 13]).unwrap(),
            key_id: 1,
            is_unicast: false,
        };
        let taker = KeyTaker::new(session.clone(), cipher);
        (KeyGiver::new(session), taker, given)
    }

    #[test]
    fn a_key_is_given_once_and_unchanged() {
        let (mut giver, mut taker, given) = ends();
        let mut random = Seed::new([1; 32]).stream("iv", 0);
        let packet = giver.give(&given, &mut random);
        assert!(!packet.windows(13).any(|part| part == [7; 13]));
        for at in 5..packet.len() {
            let mut changed = packet.clone();
            changed[at] ^= 8;
            assert!(taker.handle(&changed).is_err(), "{at}");
            assert!(taker.handle(&packet[..at]).is_err(), "{at}");
        }
        let padded = [&packet[..], &[0; 2]].concat();
        assert!(
            taker
                .handle(&padded)
                .is_ok_and(|it| it.as_ref() == Some(&given))
        );
        // Given again, it is not to be installed again.
        let again = giver.give(&given, &mut random);
        assert!(taker.handle(&again).is_ok_and(|it| it.is_none()));
        assert_eq!(taker.handle(&packet).err(), Some(DropReason::Replayed));
        let unicast = GivenKey {
            is_unicast: true,
            key_id: 0,
            ..given
        };
        let packet = giver.give(&unicast, &mut random);
        assert!(taker.handle(&packet).is_ok_and(|it| it == Some(unicast)));
        assert_eq!(giver.work().entries()[1], (Task::KeyData, 3, 39));
    }

    /// RC4 and HMAC-MD5 by hand, as IEEE 802.1X-2001 §7.6 has them.
    #[test]
    fn the_key_is_under_iv_and_the_first_half() {
        let (mut giver, _, given) = ends();
        let packet = giver.give(&given, &mut Seed::new([1; 32]).stream("iv", 0));
        let frame = Rc4KeyFrame::parse(&packet[4..]).unwrap();
        let half: Vec<u8> = (0..32).collect();
        let mut key = frame.key.to_vec();
        rc::rc4_from(&[&frame.iv[..], &half].concat(), 0, &mut key);
        assert_eq!(key, [7; 13]);
        let mut zeroed = packet.clone();
        zeroed[32..48].fill(0);
        let other: Vec<u8> = (32..64).collect();
        let signature = Hash::Md5.hmac(&other, &[&zeroed]);
        assert_eq!(frame.signature, signature.as_ref());
    }

    #[test]
    fn without_a_key_the_start_of_eaps_counts() {
        let (giver, mut taker, _) = ends();
        let mut frame = Rc4KeyFrame {
            key_length: 13,
            replay_counter: 1,
            iv: [0; 16],
            index: 0,
            is_unicast: true,
            signature: [0; 16],
            key: &[],
        };
        let packet_of = |frame: &Rc4KeyFrame<'_>| {
            let mut w = Writer::new();
            w.bytes(&[1, 3, 0, 44]);
            frame.write(&mut w);
            let mut packet = w.into_vec();
            let signature = giver.session.sign(&packet, &mut Work::default());
            packet[Rc4KeyFrame::SIGNATURE_AT].copy_from_slice(&signature);
            packet
        };
        let taken = taker.handle(&packet_of(&frame)).ok().flatten().unwrap();
        let expected: Vec<u8> = (0..13).collect();
        assert_eq!(taken.key.octets(), expected);
        (frame.key_length, frame.replay_counter) = (5, 2);
        let refused = taker.handle(&packet_of(&frame)).err();
        assert_eq!(refused, Some(DropReason::NoProposalChosen));
        assert!(SessionKey::new(&[0; 63]).is_none());
    }
}

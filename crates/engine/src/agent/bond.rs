//! What Host and Target have of each other before they talk: their long-term keys, and so a key of
//! the two alone. Each message between them carries a time and a MAC by it, which are checked
//! first: opening one costs two operations of public keys, and anybody can forge a name and an
//! address.
//!
//! The key is HKDF over what the two sealing keys share, as HPKE's mode with an authenticated
//! sender has it (RFC 9180 §4.1); the label binds it to this use. It proves a message to its
//! receiver alone, and is not forward secret: the signature inside proves it to everybody. A
//! message that was opened is not opened again, so who repeats what he has heard costs an HMAC.

use std::collections::BTreeSet;

use crypto::hash::{Hash, HmacKey, expand, extract, is_equal};
use wire::agent::{MAC_LEN, Proof, Sealed};
use zeroize::Zeroizing;

use super::CLOCKS_APART_MAX;
use super::flood::PEER;
use super::identity::{Identity, Keys};
use crate::rate::Bucket;
use crate::time::Instant;

/// Messages that are remembered: those of all of the time in which one could be repeated, at the
/// rate of [`PEER`].
const SEEN_MAX: usize = 1 << 16;

/// Of Host and a Target, or of Target and a Host.
pub struct Bond {
    key: HmacKey,
    /// Messages of the other that were opened, the oldest first.
    seen: BTreeSet<Proof>,
    opened: Bucket,
}

/// Why a message is not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unproven {
    /// The other has not made it.
    Forged,
    /// Its time is too far from ours.
    ClocksApart,
    /// It was opened before.
    Repeated,
    /// There are too many.
    OverRate,
}

impl Bond {
    /// That with this peer. None if its key is of low order, which every key agrees with.
    pub fn new(own: &Keys, peer: &Identity) -> Option<Self> {
        let shared = own.sealing.agree(peer.sealing).ok()?;
        let secret = extract(
            Hash::Sha256,
            b"caravan tunnel-agent 3 bond",
            shared.as_ref(),
        );
        let secret = HmacKey::new(Hash::Sha256, secret.as_ref());
        let mut both = [own.identity().fingerprint(), peer.fingerprint()];
        both.sort_unstable();
        let mut key = Zeroizing::new([0; 32]);
        let [first, second] = both.map(|it| it.0.0);
        expand(&secret, &[b"mac", &first, &second], &mut key[..]);
        Some(Self {
            key: HmacKey::new(Hash::Sha256, &key[..]),
            seen: BTreeSet::new(),
            opened: Bucket::default(),
        })
    }

    /// The octets of a message to the peer, at this time. One that is sent again is proven again.
    pub fn prove(&self, sealed: &Sealed, time_ms: u64) -> Vec<u8> {
        let mut sealed = sealed.clone();
        let mac = self.mac(&sealed, time_ms);
        sealed.proof = Proof { time_ms, mac };
        sealed.to_vec()
    }

    /// Whether a message is opened: the peer has made it, now and once.
    pub fn admit(&mut self, sealed: &Sealed, time_ms: u64, now: Instant) -> Result<(), Unproven> {
        let proof = sealed.proof;
        if !is_equal(&proof.mac, &self.mac(sealed, proof.time_ms)) {
            return Err(Unproven::Forged);
        }
        let apart = u64::try_from(CLOCKS_APART_MAX.as_millis()).unwrap_or(u64::MAX);
        if proof.time_ms.abs_diff(time_ms) > apart {
            return Err(Unproven::ClocksApart);
        }
        // What is older than this is refused by its time.
        let oldest = time_ms.saturating_sub(apart);
        while self.seen.first().is_some_and(|it| it.time_ms < oldest) {
            self.seen.pop_first();
        }
        if self.seen.contains(&proof) {
            return Err(Unproven::Repeated);
        }
        if self.seen.len() >= SEEN_MAX || !self.opened.take_one(PEER, now) {
            return Err(Unproven::OverRate);
        }
        self.seen.insert(proof);
        Ok(())
    }

    fn mac(&self, sealed: &Sealed, time_ms: u64) -> [u8; MAC_LEN] {
        let mac = self.key.sign(&[
            &[sealed.kind.number()],
            &sealed.label,
            &time_ms.to_be_bytes(),
            &sealed.encapsulated,
            &sealed.ciphertext,
        ]);
        *mac.as_ref().first_chunk().expect("SHA-256")
    }
}

#[cfg(test)]
mod tests {
    use crypto::hpke::{PublicKey, SecretKey};
    use crypto::rand::Seed;
    use wire::agent::{Kind, Message};

    use super::*;
    use crate::time::Duration;

    const TODAY_MS: u64 = 1_795_000_000_000;

    fn keys(number: u8) -> Keys {
        Keys::generate(&mut Seed::new([number; 32]).stream("keys", 0))
    }

    fn bond(own: u8, peer: u8) -> Bond {
        Bond::new(&keys(own), &keys(peer).identity()).expect("a sound key")
    }

    fn message(number: u32) -> Sealed {
        Sealed {
            kind: Kind::Inquiry,
            cookie: None,
            label: keys(1).identity().name().0,
            proof: Proof::default(),
            encapsulated: [7; 32],
            ciphertext: number.to_be_bytes().to_vec(),
        }
    }

    fn read(octets: &[u8]) -> Sealed {
        match Message::parse(octets) {
            Ok(Message::Sealed(sealed)) => sealed,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_the_peer_s_messages_are_opened_each_once_and_in_time() {
        let (host, mut target, now) = (bond(1, 2), bond(2, 1), Instant(0));
        let sent = read(&host.prove(&message(1), TODAY_MS));
        let mut admit = |it: &Sealed, time_ms| target.admit(it, time_ms, now);
        for other in [bond(3, 2), bond(1, 3), bond(2, 3)] {
            let forged = read(&other.prove(&message(1), TODAY_MS));
            assert_eq!(admit(&forged, TODAY_MS), Err(Unproven::Forged));
        }
        let octets = sent.to_vec();
        // Each octet after the start, with the length of the cookie.
        for at in (4..octets.len()).filter(|at| *at != 5) {
            let mut changed = octets.clone();
            changed[at] ^= 1;
            if let Ok(Message::Sealed(changed)) = Message::parse(&changed) {
                assert_eq!(admit(&changed, TODAY_MS), Err(Unproven::Forged), "{at}");
            }
        }
        for time_ms in [TODAY_MS - 300_001, TODAY_MS + 300_001] {
            assert_eq!(admit(&sent, time_ms), Err(Unproven::ClocksApart));
        }
        assert_eq!(admit(&sent, TODAY_MS + 300_000), Ok(()));
        for time_ms in [TODAY_MS, TODAY_MS + 300_000] {
            assert_eq!(admit(&sent, time_ms), Err(Unproven::Repeated));
        }
        // Its sender may repeat it.
        let again = read(&host.prove(&sent, TODAY_MS + 500));
        assert_eq!(admit(&again, TODAY_MS + 500), Ok(()));
    }

    #[test]
    fn what_is_remembered_is_bounded_and_only_true_messages_spend_the_rate() {
        let (host, mut target) = (bond(1, 2), bond(2, 1));
        let stranger = bond(3, 2);
        let mut now = Instant(0);
        for number in 0..1_000 {
            let forged = read(&stranger.prove(&message(number), TODAY_MS));
            assert_eq!(target.admit(&forged, TODAY_MS, now), Err(Unproven::Forged));
        }
        let mut count = 0;
        for number in 0..1_000 {
            let sent = read(&host.prove(&message(number), TODAY_MS));
            let admitted = target.admit(&sent, TODAY_MS, now);
            count += u32::from(admitted.is_ok());
            assert!(admitted.is_ok() || admitted == Err(Unproven::OverRate));
        }
        assert_eq!((count, target.seen.len()), (PEER.burst, count as usize));
        let later = TODAY_MS + 700_000;
        now = now + Duration::from_secs(700);
        let sent = read(&host.prove(&message(1), later));
        assert_eq!(target.admit(&sent, later, now), Ok(()));
        assert_eq!(target.seen.len(), 1);
    }

    #[test]
    fn a_key_of_low_order_makes_no_bond() {
        let peer = Identity {
            sealing: PublicKey([0; 32]),
            signing: keys(2).identity().signing,
        };
        assert!(Bond::new(&keys(1), &peer).is_none());
        let zero = SecretKey::of(&[0; 32]);
        assert!(zero.agree(keys(1).identity().sealing).is_ok());
    }
}

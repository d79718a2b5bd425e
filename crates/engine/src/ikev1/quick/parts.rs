//! The parts that both roles share: sorted payloads, keys, addresses.

use std::net::IpAddr;

use crypto::dh::{Group, KeyPair, SharedSecret};
use crypto::packet::Encryption;
use crypto::rand::Stream;
use wire::isakmp::{Identification, Located, Notify, Payload, SaPayload};
use zeroize::Zeroizing;

use super::super::IsakmpSa;
use super::super::keys::{check_strength, keymat};
use super::super::phase2_proposal::Terms;
use super::{NONCE_LEN, NegotiatedChild};
use crate::ike::{Fault, Refusal, Role};
use crate::sa::{Mode, OriginalAddresses, Secret};
use crate::selector::TrafficSelector;
use crate::work::{Task, Work};

/// The payloads of message 1 or 2. Others are ignored.
pub(super) struct Parts<'a> {
    pub(super) offer: &'a SaPayload,
    pub(super) nonce: &'a [u8],
    pub(super) public: Option<&'a [u8]>,
    /// IDci and IDcr.
    pub(super) ids: Option<(&'a Identification, &'a Identification)>,
    /// NAT-OA payloads in their order, two at most.
    originals: Vec<IpAddr>,
    pub(super) notices: Vec<&'a Notify>,
}

impl<'a> Parts<'a> {
    pub(super) fn sort(located: &'a [Located]) -> Result<Self, Fault> {
        let mut offers = Vec::new();
        let mut nonces = Vec::new();
        let mut publics = Vec::new();
        let mut ids = Vec::new();
        let mut originals = Vec::new();
        let mut notices = Vec::new();
        for found in located {
            match &found.payload {
                Payload::Sa(offer) => offers.push(offer),
                Payload::Nonce(nonce) => nonces.push(nonce.as_slice()),
                Payload::KeyExchange(public) => publics.push(public.as_slice()),
                Payload::Identification(id) => ids.push(id),
                Payload::NatOriginalAddress(address) => originals.push(*address),
                Payload::Notify(notify) => notices.push(notify),
                _ => {}
            }
        }
        let ([offer], [nonce]) = (offers.as_slice(), nonces.as_slice()) else {
            let what = "quick mode needs exactly one SA payload and one nonce";
            return Err(Fault::Misbehaved(what.into()));
        };
        if publics.len() > 1 || originals.len() > 2 {
            let what = "more than one public value or two original addresses";
            return Err(Fault::Misbehaved(what.into()));
        }
        let ids = match ids.as_slice() {
            [] => None,
            [initiator, responder] => Some((*initiator, *responder)),
            _ => {
                let what = "quick mode has either no ID payloads or two";
                return Err(Fault::Misbehaved(what.into()));
            }
        };
        Ok(Self {
            offer,
            nonce,
            public: publics.first().copied(),
            ids,
            originals,
            notices,
        })
    }

    /// The initiator's and the responder's traffic. Without ID payloads it is that between the two
    /// addresses (RFC 2409 §5.5).
    pub(super) fn selectors(
        &self,
        initiator: IpAddr,
        responder: IpAddr,
    ) -> Result<(TrafficSelector, TrafficSelector), Fault> {
        let Some((of_initiator, of_responder)) = self.ids else {
            let hosts = (
                TrafficSelector::host(initiator),
                TrafficSelector::host(responder),
            );
            return Ok(hosts);
        };
        let read = |id: &Identification| {
            TrafficSelector::from_identification(id).ok_or_else(|| Fault::Incompatible {
                what: format!("the peer's traffic selector {id} is not one that we read"),
                refusal: Refusal::Selectors,
            })
        };
        Ok((read(of_initiator)?, read(of_responder)?))
    }

    /// The addresses before translation, according to the sender, which is the peer. `role` is
    /// ours. A peer that implements the drafts sends only its own.
    pub(super) fn original(&self, role: Role, sa: &IsakmpSa) -> Option<OriginalAddresses> {
        let own = sa.path.local.ip();
        match (self.originals.as_slice(), role) {
            ([initiator, responder], Role::Responder) => Some(OriginalAddresses {
                peer: *initiator,
                own: *responder,
            }),
            ([initiator, responder], Role::Initiator) => Some(OriginalAddresses {
                peer: *responder,
                own: *initiator,
            }),
            ([peer], _) => Some(OriginalAddresses { peer: *peer, own }),
            _ => None,
        }
    }
}

/// A nonce of phase 2, wiped on drop. It is sent encrypted. Without PFS, the nonces are all that an
/// attacker with SKEYID_d still needs for the keys of an exchange.
pub(super) type Nonce = Zeroizing<Vec<u8>>;

/// Makes a nonce.
pub(super) fn fresh_nonce(random: &mut Stream) -> Nonce {
    let mut nonce = Nonce::new(vec![0; NONCE_LEN]);
    random.fill(&mut nonce);
    nonce
}

/// A Diffie-Hellman pair for PFS.
pub(super) fn fresh_pair(group: Group, random: &mut Stream, work: &mut Work) -> KeyPair {
    work.count(Task::KeyPair(group), 0);
    KeyPair::generate(group, random)
}

/// g^xy of PFS, if the peer sent a valid public value.
pub(super) fn agree(
    pair: &KeyPair,
    public: Option<&[u8]>,
    work: &mut Work,
) -> Result<SharedSecret, Fault> {
    let refused = |what: String| Fault::Incompatible {
        what,
        refusal: Refusal::KeyExchange,
    };
    let number = pair.group().number();
    let Some(public) = public else {
        let what = format!("PFS with group {number} was agreed, and the peer sent no public value");
        return Err(refused(what));
    };
    work.count(Task::Agree(pair.group()), 0);
    pair.agree(public)
        .map_err(|fault| refused(format!("{fault}, in group {number}")))
}

/// The agreed terms, before there are keys.
pub(super) struct Agreed {
    pub(super) terms: Terms,
    pub(super) spi_in: u32,
    pub(super) spi_out: u32,
    pub(super) local: TrafficSelector,
    pub(super) remote: TrafficSelector,
    pub(super) original: Option<OriginalAddresses>,
}

impl Agreed {
    /// Derives keys of both directions from both nonces and the PFS shared value. A weak key is an
    /// error at both ends.
    pub(super) fn with_keys(
        self,
        sa: &IsakmpSa,
        shared: Option<&SharedSecret>,
        ni: &[u8],
        nr: &[u8],
        work: &mut Work,
    ) -> Result<NegotiatedChild, Fault> {
        let Terms {
            suite,
            mode,
            is_udp,
            life,
        } = self.terms;
        let key_len = suite.protection.encryption_key_len();
        let len = key_len + suite.protection.integrity_key_len();
        let shared = shared.map(AsRef::as_ref);
        let mut keys = |spi| {
            let blocks = len.div_ceil(sa.suite.hash.len());
            let bytes = blocks * (ni.len() + nr.len() + 5);
            work.add(Task::Prf(sa.suite.hash), blocks as u64, bytes as u64);
            let all = keymat(sa, shared, suite.protocol, spi, ni, nr, len);
            let (encryption, integrity) = all.0.split_at(key_len);
            (Secret(encryption.to_vec()), Secret(integrity.to_vec()))
        };
        let (keys_in, keys_out) = (keys(self.spi_in), keys(self.spi_out));
        if let Encryption::Cbc(cipher) = suite.protection.encryption {
            check_strength(cipher, &keys_in.0)?;
            check_strength(cipher, &keys_out.0)?;
        }
        let needs_original = mode == Mode::Transport && is_udp;
        Ok(NegotiatedChild {
            suite,
            mode,
            is_udp_encapsulated: is_udp,
            spi_in: self.spi_in,
            spi_out: self.spi_out,
            keys_in,
            keys_out,
            local: vec![self.local],
            remote: vec![self.remote],
            original: self.original.filter(|_| needs_original),
            lifetime_s: life.seconds,
            lifetime_bytes: life
                .kilobytes
                .map(|kilobytes| kilobytes.saturating_mul(1024)),
        })
    }
}

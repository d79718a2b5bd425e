//! The responder's half: reading message 1, the decision, message 2, and message 3.

use std::net::IpAddr;

use crypto::dh::KeyPair;
use crypto::rand::Stream;
use wire::codec::Writer;
use wire::isakmp::{
    Attribute, Identification, Notify, NotifyType, Payload, Proposal, ProtocolId, SaPayload,
};

use super::super::IsakmpSa;
use super::super::message::Message;
use super::super::names_read;
use super::super::phase2::{Label, list, sealed};
use super::super::phase2_proposal::{Choice, Life, choose, first_mode, incompatible};
use super::super::protect::{Iv, Opened};
use super::parts::{Agreed, Nonce, Parts, agree, fresh_nonce, fresh_pair};
use super::{ChildOffer, NegotiatedChild};
use crate::config::Child;
use crate::ike::retransmit::{Answered, Retransmit};
use crate::ike::{Fault, Outbox, Refusal, Role, Step};
use crate::sa::{Mode, Path};
use crate::selector::TrafficSelector;
use crate::suite::Pfs;
use crate::time::Instant;

/// Message 1 as read.
pub(super) struct Offered {
    request: Vec<u8>,
    sa_payload: SaPayload,
    nonce: Nonce,
    public: Option<Vec<u8>>,
    ids: Option<(Identification, Identification)>,
    offer: ChildOffer,
}

/// The decision, ready to be sent.
pub(super) struct Decided {
    child: NegotiatedChild,
    proposal: Proposal,
    nonce: Nonce,
    pair: Option<KeyPair>,
    /// Our lifetime, if it is shorter than the offered one.
    shorter_life: Option<Life>,
}

/// Message 2 was sent.
pub(super) struct WaitsForThird {
    pub(super) retransmit: Retransmit,
    first: Answered,
    initiator_nonce: Nonce,
    nonce: Nonce,
    child: NegotiatedChild,
}

impl Offered {
    pub(super) fn read(
        sa: &IsakmpSa,
        message: &[u8],
        opened: &Opened,
    ) -> Result<(Self, ChildOffer), Fault> {
        let parts = Parts::sort(&opened.payloads)?;
        let (peer, own) = (sa.path.remote.ip(), sa.path.local.ip());
        let (remote, local) = parts.selectors(peer, own)?;
        let offer = ChildOffer {
            remote: vec![remote],
            local: vec![local],
            mode: first_mode(parts.offer),
            original: parts.original(Role::Responder, sa),
            renews: None,
        };
        let offered = Self {
            request: message.to_vec(),
            sa_payload: parts.offer.clone(),
            nonce: Nonce::new(parts.nonce.to_vec()),
            public: parts.public.map(<[u8]>::to_vec),
            ids: parts.ids.map(|(ci, cr)| (ci.clone(), cr.clone())),
            offer: offer.clone(),
        };
        Ok((offered, offer))
    }

    /// Chooses by our preference, and derives keys.
    pub(super) fn decide(
        &self,
        sa: &IsakmpSa,
        child: &Child,
        spi: u32,
        random: &mut Stream,
        out: &mut Outbox,
    ) -> Result<Decided, Fault> {
        self.check_selectors(child)?;
        let Choice {
            mut terms,
            spi: spi_out,
            proposal,
        } = choose(&self.sa_payload, child, sa)?;
        let life = Life::of(child);
        let shorter_life = life.ends_before(terms.life).then_some(life);
        terms.life = life.shorter(terms.life);
        let public = self.public.as_deref();
        if terms.suite.pfs.is_none() && public.is_some() {
            let what = "the peer sent a public value, and the proposal is one without PFS";
            return Err(incompatible(what.into()));
        }
        let nonce = fresh_nonce(random);
        let pair = terms
            .suite
            .pfs
            .and_then(Pfs::group)
            .map(|group| fresh_pair(group, random, &mut out.work));
        let shared = match &pair {
            Some(pair) => Some(agree(pair, public, &mut out.work)?),
            None => None,
        };
        let agreed = Agreed {
            terms,
            spi_in: spi,
            spi_out,
            local: self.offer.local[0],
            remote: self.offer.remote[0],
            original: self.offer.original,
        };
        let child = agreed.with_keys(sa, shared.as_ref(), &self.nonce, &nonce, &mut out.work)?;
        Ok(Decided {
            child,
            proposal,
            nonce,
            pair,
            shorter_life,
        })
    }

    /// Sends message 2.
    pub(super) fn answer(
        &self,
        sa: &IsakmpSa,
        decided: Decided,
        own: IpAddr,
        label: Label,
        iv: &mut Iv,
        now: Instant,
        out: &mut Outbox,
    ) -> WaitsForThird {
        let protocol = decided.proposal.protocol;
        let spi = decided.child.spi_in.to_be_bytes().to_vec();
        let chosen = Proposal {
            spi: spi.clone(),
            ..decided.proposal
        };
        let mut chain = vec![
            Payload::Sa(SaPayload {
                proposals: vec![chosen],
            }),
            Payload::Nonce(decided.nonce.to_vec()),
        ];
        if let Some(pair) = &decided.pair {
            chain.push(Payload::KeyExchange(pair.public().to_vec()));
        }
        // Unchanged, because an initiator compares them with its own.
        if let Some((of_initiator, of_responder)) = &self.ids {
            chain.push(Payload::Identification(of_initiator.clone()));
            chain.push(Payload::Identification(of_responder.clone()));
        }
        if decided.child.mode == Mode::Transport && decided.child.is_udp_encapsulated {
            chain.push(Payload::NatOriginalAddress(sa.path.remote.ip()));
            chain.push(Payload::NatOriginalAddress(own));
        }
        if let Some(life) = decided.shorter_life {
            chain.push(Payload::Notify(responder_lifetime(protocol, spi, life)));
        }
        let id = label.message_id.to_be_bytes();
        let sent = sealed(sa, label, iv, &[&id, &self.nonce], chain, out);
        WaitsForThird {
            first: Answered::sent(&self.request, Some(sent.clone())),
            retransmit: Retransmit::send(sent, now, out),
            initiator_nonce: self.nonce.clone(),
            nonce: decided.nonce,
            child: decided.child,
        }
    }

    /// In tunnel mode each side must be within one of the child's selectors, if it has any. In
    /// transport mode behind a NAT we cannot judge the addresses, only the ports.
    fn check_selectors(&self, child: &Child) -> Result<(), Fault> {
        let (local, remote) = (&self.offer.local[0], &self.offer.remote[0]);
        let mode = &self.offer.mode;
        let holds = |own: &[TrafficSelector], offered: &TrafficSelector| {
            own.is_empty()
                || own.iter().any(|own| match mode {
                    Mode::Tunnel => own.contains(offered),
                    Mode::Transport => own.holds_ports_of(offered),
                })
        };
        let is_held = holds(&child.local, local) && holds(&child.remote, remote);
        if *mode == child.mode && !is_held {
            return Err(Fault::Incompatible {
                what: format!(
                    "selectors differ: the peer asks for {local} === {remote} in {}, child {} \
                     protects {} === {}",
                    mode,
                    child.name,
                    side(&child.local),
                    side(&child.remote)
                ),
                refusal: Refusal::Selectors,
            });
        }
        Ok(())
    }
}

impl WaitsForThird {
    pub(super) fn child(&self) -> Box<NegotiatedChild> {
        Box::new(self.child.clone())
    }

    /// Repetitions take this path.
    pub(super) fn move_to(&mut self, path: Path) {
        self.first.move_to(path);
        self.retransmit.move_to(path);
    }

    /// Answers message 1 again, if this is a duplicate of it. Returns whether it is.
    pub(super) fn take_duplicate(&mut self, message: &[u8], out: &mut Outbox) -> bool {
        self.first.take_duplicate(message, out).is_some()
    }

    /// Whether this is message 3. One that does not verify is counted.
    pub(super) fn is_third(
        &self,
        sa: &IsakmpSa,
        message: &Message<'_>,
        message_id: u32,
        iv: &mut Iv,
        out: &mut Outbox,
    ) -> bool {
        let id = message_id.to_be_bytes();
        // RFC 2409 §5.5: 0 is one octet.
        let prefix = [&[0][..], &id, &self.initiator_nonce, &self.nonce];
        match sa.open_hashed(message, iv, &prefix, &mut out.work) {
            Ok(opened) => {
                out.heard(Step::Quick(3), message.size(), names_read(&opened.payloads));
                true
            }
            Err(reason) => {
                out.drops.count(reason);
                false
            }
        }
    }
}

/// RFC 2407 §4.6.3.1: the responder's own lifetime, if it is the shorter one.
fn responder_lifetime(protocol: ProtocolId, spi: Vec<u8>, life: Life) -> Notify {
    let mut value = Writer::new();
    Attribute::write_all(&life.attributes(), &mut value);
    Notify {
        protocol,
        spi,
        kind: NotifyType::ResponderLifetime,
        value: value.into_vec(),
    }
}

fn side(selectors: &[TrafficSelector]) -> String {
    if selectors.is_empty() {
        "dynamic".into()
    } else {
        list(selectors)
    }
}

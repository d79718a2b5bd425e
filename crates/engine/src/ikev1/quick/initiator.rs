//! The initiator's half: message 1, the evaluation of message 2, and message 3.

use crypto::dh::KeyPair;
use crypto::packet::Encryption;
use crypto::rand::Stream;
use wire::codec::Reader;
use wire::isakmp::{Attribute, NotifyType, Payload};

use super::super::IsakmpSa;
use super::super::message::Message;
use super::super::notify::notify_name;
use super::super::phase2::{Label, list, sealed};
use super::super::phase2_proposal::{Life, Offerable, chosen, incompatible, offer, offerable};
use super::super::protect::{Iv, Opened};
use super::parts::{Agreed, Nonce, Parts, agree, fresh_nonce, fresh_pair};
use super::{ChildRequest, NegotiatedChild};
use crate::config::{Child, ChildLayer};
use crate::ike::retransmit::Retransmit;
use crate::ike::{Fault, Outbox, Refusal, Role, Sent};
use crate::sa::{Mode, Protocol};
use crate::selector::TrafficSelector;
use crate::suite::{EspSuite, Pfs};
use crate::time::Instant;

/// Message 1 was sent.
pub(super) struct Proposed {
    pub(super) retransmit: Retransmit,
    suites: Vec<EspSuite>,
    mode: Mode,
    is_udp: bool,
    life: Life,
    spi: u32,
    local: TrafficSelector,
    remote: TrafficSelector,
    nonce: Nonce,
    pair: Option<KeyPair>,
    /// The child has suites with another group that was not refused.
    has_more: bool,
}

impl Proposed {
    pub(super) fn send(
        sa: &IsakmpSa,
        request: &ChildRequest<'_>,
        label: Label,
        iv: &mut Iv,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<Self, Fault> {
        let child = request.child;
        // RFC 2409 §5.5 has room for one selector of each side.
        let (local, remote) = (request.local[0], request.remote[0]);
        let is_udp = sa.nat.is_between() || request.needs_udp;
        if is_udp && !sa.nat.is_supported {
            let what = "packets must travel in UDP, and the peer does not speak RFC 3947";
            return Err(incompatible(what.into()));
        }
        let Offerable { suites, has_more } = offerable(child, &request.groups, sa, is_udp);
        if suites.is_empty() {
            return Err(incompatible(nothing_to_offer(sa, child, is_udp)));
        }
        let life = Life::of(child);
        let nonce = fresh_nonce(random);
        let pair = suites[0]
            .pfs
            .and_then(Pfs::group)
            .map(|group| fresh_pair(group, random, &mut out.work));
        let sa_payload = offer(&suites, child.mode, is_udp, life, request.spi);
        let mut chain = vec![Payload::Sa(sa_payload), Payload::Nonce(nonce.to_vec())];
        if let Some(pair) = &pair {
            chain.push(Payload::KeyExchange(pair.public().to_vec()));
        }
        for selector in [local, remote] {
            let id = selector.to_identification();
            let id = id.map_err(|fault| incompatible(fault.to_string()))?;
            chain.push(Payload::Identification(id));
        }
        if child.mode == Mode::Transport && is_udp {
            chain.push(Payload::NatOriginalAddress(sa.path.local.ip()));
            chain.push(Payload::NatOriginalAddress(sa.path.remote.ip()));
        }
        let id = label.message_id.to_be_bytes();
        let sent = sealed(sa, label, iv, &[&id], chain, out);
        Ok(Self {
            retransmit: Retransmit::send(sent, now, out),
            suites,
            mode: child.mode,
            is_udp,
            life,
            spi: request.spi,
            local,
            remote,
            nonce,
            pair,
            has_more,
        })
    }

    /// The group of the offer, if others could be offered afterwards.
    pub(super) fn group_before_others(&self) -> Option<Option<Pfs>> {
        self.has_more.then(|| self.suites[0].pfs)
    }

    /// The request of message 1 in words, and our SPI in it.
    pub(super) fn words(&self) -> (String, u32) {
        let (way, suites) = (carriage(self.mode, self.is_udp), list(&self.suites));
        let words = format!("{way}, {suites}, {} === {}", self.local, self.remote);
        (words, self.spi)
    }

    /// Whether every offered suite has PFS.
    pub(super) fn needs_pfs(&self) -> bool {
        self.suites.iter().all(|suite| suite.pfs.is_some())
    }

    /// Decrypts a possible message 2. Returns `None`, counted, if it does not verify.
    pub(super) fn open(
        &self,
        sa: &IsakmpSa,
        message: &Message<'_>,
        message_id: u32,
        iv: &mut Iv,
        out: &mut Outbox,
    ) -> Option<Opened> {
        let id = message_id.to_be_bytes();
        let prefix = [&id[..], &self.nonce];
        match sa.open_hashed(message, iv, &prefix, &mut out.work) {
            Ok(opened) => Some(opened),
            Err(reason) => {
                out.drops.count(reason);
                None
            }
        }
    }

    /// Reads the agreement in message 2.
    pub(super) fn read(
        &self,
        sa: &IsakmpSa,
        opened: &Opened,
        out: &mut Outbox,
    ) -> Result<NegotiatedChild, Fault> {
        let parts = Parts::sort(&opened.payloads)?;
        if let Some(error) = parts.notices.iter().find(|n| n.kind.is_error()) {
            let name = notify_name(error.kind);
            return Err(incompatible(format!("the peer refused with {name}")));
        }
        let (mut terms, spi_out) = chosen(parts.offer, sa.peer.caravan)?;
        if !self.suites.contains(&terms.suite) {
            return Err(incompatible(format!(
                "the peer chose {}, we offered {}",
                terms.suite,
                list(&self.suites)
            )));
        }
        if (terms.mode, terms.is_udp) != (self.mode, self.is_udp) {
            return Err(incompatible(format!(
                "the peer chose {}, we offered {}",
                carriage(terms.mode, terms.is_udp),
                carriage(self.mode, self.is_udp)
            )));
        }
        let (mut local, mut remote) = parts.selectors(sa.path.local.ip(), sa.path.remote.ip())?;
        if self.is_translated(sa, &parts, (&local, &remote)) {
            (local, remote) = (self.local, self.remote);
        }
        // RFC 2409 §5.5 requires the responder to repeat the requested selectors. strongSwan
        // answers with the part that it protects: that is a subset of what we let in.
        let is_part = self.mode == Mode::Tunnel
            && self.local.contains(&local)
            && self.remote.contains(&remote);
        if !is_part && (local, remote) != (self.local, self.remote) {
            return Err(Fault::Incompatible {
                what: format!(
                    "selectors differ: the peer answered {local} === {remote}, we asked for \
                     {} === {}",
                    self.local, self.remote
                ),
                refusal: Refusal::Selectors,
            });
        }
        terms.life = self.life.shorter(terms.life);
        for notice in &parts.notices {
            if notice.kind == NotifyType::ResponderLifetime
                && let Some(life) = responder_life(&notice.value)
            {
                terms.life = terms.life.shorter(life);
            }
        }
        let shared = match &self.pair {
            Some(pair) => Some(agree(pair, parts.public, &mut out.work)?),
            None => None,
        };
        let agreed = Agreed {
            terms,
            spi_in: self.spi,
            spi_out,
            local,
            remote,
            original: parts.original(Role::Initiator, sa),
        };
        let (ni, nr) = (&self.nonce, parts.nonce);
        agreed.with_keys(sa, shared.as_ref(), ni, nr, &mut out.work)
    }

    /// Whether a transport mode answer names the two ends as its sender sees them through the
    /// detected NAT, with the addresses in its NAT-OA payloads (RFC 3947 §5.2). In transport mode
    /// the addresses do not matter, because packets always have those of the two ends; protocol and
    /// port must be the requested ones.
    fn is_translated(
        &self,
        sa: &IsakmpSa,
        parts: &Parts<'_>,
        (local, remote): (&TrafficSelector, &TrafficSelector),
    ) -> bool {
        let Some(told) = parts.original(Role::Initiator, sa) else {
            return false;
        };
        let is_end = |asked: &TrafficSelector, found: &TrafficSelector, told, is_behind: bool| {
            found == asked || (is_behind && *found == asked.at(told))
        };
        self.mode == Mode::Transport
            && self.is_udp
            && is_end(&self.local, local, told.own, sa.nat.is_local)
            && is_end(&self.remote, remote, told.peer, sa.nat.is_remote)
    }

    /// Makes message 3. `opened` is a message 2 that [`Self::read`] has accepted.
    pub(super) fn third(
        &self,
        sa: &IsakmpSa,
        opened: &Opened,
        label: Label,
        iv: &mut Iv,
        out: &mut Outbox,
    ) -> Sent {
        let id = label.message_id.to_be_bytes();
        let nr = Parts::sort(&opened.payloads).map_or(&[][..], |parts| parts.nonce);
        // RFC 2409 §5.5: 0 is one octet.
        let prefix = [&[0][..], &id, &self.nonce, nr];
        sealed(sa, label, iv, &prefix, Vec::new(), out)
    }
}

/// The attributes of a RESPONDER-LIFETIME notification.
fn responder_life(value: &[u8]) -> Option<Life> {
    let attributes = Attribute::read_all(&mut Reader::new(value)).ok()?;
    Life::read(&attributes)
}

/// Why none of a child's suites can be offered to this peer.
fn nothing_to_offer(sa: &IsakmpSa, child: &Child, is_udp: bool) -> String {
    let has = |is_it: fn(&EspSuite) -> bool| child.proposals.iter().any(is_it);
    let mut causes = Vec::new();
    if is_udp && has(|suite| suite.protocol == Protocol::Ah) {
        causes.push(match sa.nat.is_local || sa.nat.is_remote {
            true => "AH does not pass a NAT, and one is on the way",
            false => "AH does not travel in UDP, which an end asks for: `encap = false` at both",
        });
    }
    if is_udp && child.layer == ChildLayer::Inside {
        causes.push("AH around it does not pass a NAT, and one is on the way");
    }
    let is_chacha = |suite: &EspSuite| suite.protection.encryption == Encryption::ChaCha20Poly1305;
    if !sa.peer.caravan && has(is_chacha) {
        causes.push("ChaCha20-Poly1305 has no number in IKEv1, and only a Caravan takes ours");
    }
    if causes.is_empty() {
        causes.push("the peer has refused each");
    }
    let (name, suites) = (&child.name, list(&child.proposals));
    format!(
        "child {name} cannot offer {suites} here: {}",
        causes.join("; ")
    )
}

fn carriage(mode: Mode, is_udp: bool) -> String {
    let way = if is_udp { " in UDP" } else { "" };
    format!("{mode}{way}")
}

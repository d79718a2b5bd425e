//! MOBIKE (RFC 4555): a session whose ends change their addresses.
//!
//! ```text
//! initiator                                                                       responder
//! N(UPDATE_SA_ADDRESSES), N(NAT_DETECTION_*), N(COOKIE2), N(ADDITIONAL_*_ADDRESS) -->
//!                                               <-- N(NAT_DETECTION_*), N(COOKIE2)
//! ```
//!
//! The initiator of the first IKE SA decides where both ends send. It sends from a new address at
//! once, and tells the responder in the next request, before anything else that waits. A request
//! that is open when the path changes is repeated over the new path, and an update follows it. The
//! node decides on paths; it also bounds what goes to an address that is not proven.

use std::net::IpAddr;

use wire::ikev2::{Exchange, Notify, NotifyType, Payload};

use super::addresses::{AskedUpdate, MAX_ADDRESSES, additional, is_usable};
use super::established::Established;
use super::init::{detection, find_nat};
use super::parts::{Parts, notify, notify_name, notify_with};
use super::tasks::Awaited;
use super::window::{At, Opened};
use crate::counters::DropReason;
use crate::ike::{Fact, Fault, Notification, Role, Spi};
use crate::sa::{Path, Protocol};

/// Our private status: octets that say nothing (RFC 7296 §3.10.1). An update after a move has them,
/// because the peer may send three times as many to the new address before that is proven: then its
/// first packets need not wait (as in RFC 9000 §8.1). So has a responder's message from another
/// address, which an update answers.
const PADDING: NotifyType = NotifyType::Other(40_962);
/// Octets of payloads of an update after a move. Every path carries it in one piece.
const PADDED_TO: usize = 1_040;
/// Octets that say nothing of addresses that changed.
const SHORT_PADDING: usize = 32;
/// Octets of our COOKIE2.
const COOKIE2_LEN: usize = 16;

impl Established {
    /// Both ends have authenticated. `own`: what we have said of our addresses.
    pub(super) fn begin_mobility(&mut self, parts: &Parts<'_>, own: &[IpAddr], at: &mut At<'_>) {
        self.peer.mobike = self.connection.mobike && parts.has(NotifyType::MobikeSupported);
        if self.peer.mobike {
            self.mobility.own = own.to_vec();
            self.mobility.told = Some(own.to_vec());
            self.mobility.is_proven = true;
            self.take_addresses(parts, at.path, at);
        }
    }

    /// We decide where both ends send.
    pub(super) fn is_mover(&self) -> bool {
        self.peer.mobike && self.role == Role::Initiator
    }

    /// The session is at another path: the peer must be told.
    pub(super) fn note_moved(&mut self) {
        self.mobility.is_due = self.is_mover();
    }

    /// We have lost our address, and send from another one.
    pub(super) fn note_lost(&mut self) {
        self.mobility.names_path = true;
    }

    /// Our addresses are these; the next message that names them says so. `is_proven`: whether the
    /// peer's address is.
    pub(super) fn set_addresses(&mut self, own: Vec<IpAddr>, is_proven: bool) {
        self.mobility.own = own;
        self.mobility.is_proven = is_proven;
    }

    /// Sends what the peer must know of addresses, before all that waits. Returns whether there was
    /// something.
    pub(super) fn ask_addresses(&mut self, at: &mut At<'_>) -> bool {
        if self.mobility.is_due {
            let number = self.queue.take_probe();
            self.ask_update(number, at);
            return true;
        }
        let is_told = self.mobility.told.as_ref() == Some(&self.mobility.own);
        let is_told = is_told && !self.mobility.names_path;
        if !self.peer.mobike || is_told || !self.mobility.is_proven {
            return false;
        }
        let mut named = self.mobility.own.clone();
        self.mobility.told = Some(named.clone());
        let names_path = core::mem::take(&mut self.mobility.names_path);
        if names_path {
            // The IP header says it too (RFC 4555 §3.6), but that is not authentic.
            named.truncate(MAX_ADDRESSES - 1);
            named.push(at.path.local.ip());
        }
        let mut chain = additional(&named);
        chain.push(notify_with(PADDING, vec![0; SHORT_PADDING]));
        let awaited = Awaited::Addresses { names_path };
        self.current()
            .ask(Exchange::Informational, &chain, awaited, None, at);
        true
    }

    /// Whether a probe says where we are, too: it must after a move, and it may behind a NAT, whose
    /// mapping may be another one after silence (RFC 4555 §3.8).
    pub(super) fn probe_is_update(&self) -> bool {
        self.is_mover() && (self.mobility.is_due || self.nat.is_local)
    }

    /// Asks the peer to send where we are. `number`: it is a probe too.
    pub(super) fn ask_update(&mut self, number: Option<u32>, at: &mut At<'_>) {
        let is_move = core::mem::take(&mut self.mobility.is_due);
        let may_be_long = self.mobility.is_proven;
        let mut chain = vec![notify(NotifyType::UpdateSaAddresses)];
        chain.extend(detection(self.sas[0].spis, at.path));
        if self.forbids_nats() {
            let ends = Notify::no_nats(at.path.local, at.path.remote);
            chain.extend(ends.map(Payload::Notify));
        }
        let cookie = fresh_cookie(at);
        chain.push(notify_with(NotifyType::Cookie2, cookie.clone()));
        if may_be_long {
            self.mobility.told = Some(self.mobility.own.clone());
            chain.extend(additional(&self.mobility.own));
        }
        if is_move && may_be_long {
            let octets: usize = chain.iter().map(|it| it.body().len() + 4).sum();
            let rest = PADDED_TO.saturating_sub(octets);
            chain.push(notify_with(PADDING, vec![0; rest]));
        }
        let awaited = Awaited::Update(Box::new(AskedUpdate {
            path: at.path,
            cookie,
            number,
        }));
        self.current()
            .ask(Exchange::Informational, &chain, awaited, None, at);
    }

    /// AH cannot pass a NAT: a path with one is refused at once (RFC 4555 §3.9).
    fn forbids_nats(&self) -> bool {
        let is_ah = |it: &crate::suite::EspSuite| it.protocol == Protocol::Ah;
        let children = &self.connection.children;
        let mut all = children.iter().flat_map(|child| &child.proposals);
        !children.is_empty() && all.all(is_ah)
    }

    /// The answer to an update. One that was first sent elsewhere says nothing of this path, and
    /// the next update is on its way (RFC 4555 §3.5).
    pub(super) fn on_update_answer(
        &mut self,
        own: Spi,
        asked: &AskedUpdate,
        opened: &Opened,
        at: &mut At<'_>,
    ) -> Vec<Fact> {
        let Ok(parts) = opened.parts() else {
            return vec![Fact::Heard];
        };
        let mut notices = Vec::new();
        let returned = parts.notice(NotifyType::Cookie2).map(|it| &it.value[..]);
        if returned.is_some_and(|it| it != asked.cookie) {
            return vec![Fact::Failed(wrong_cookie())];
        }
        let is_proof = returned.is_some();
        if let Some(number) = asked.number.filter(|_| is_proof) {
            notices.push(Notification::IAmHere(number));
        }
        let came = (opened.from.local.ip(), opened.from.remote.ip());
        let is_of_this_path =
            asked.path == at.path && came == (at.path.local.ip(), at.path.remote.ip());
        if is_of_this_path {
            let mut all = parts.notices.iter();
            let refusal = all.find(|it| {
                matches!(
                    it.kind,
                    NotifyType::UnacceptableAddresses | NotifyType::UnexpectedNatDetected
                )
            });
            notices.push(match refusal {
                Some(refusal) => Notification::StaysBehind(notify_name(refusal.kind)),
                None => {
                    if let (Some(sa), true) = (self.sa_of(own), has_detection(&parts)) {
                        self.nat = find_nat(sa.spis, at.path, &parts);
                    }
                    Notification::Followed
                }
            });
        }
        match notices.is_empty() {
            true => vec![Fact::Heard],
            false => vec![Fact::Told(0, notices)],
        }
    }

    /// What a request of the peer says of addresses: the answer, and what the node must know.
    pub(super) fn on_addresses(
        &mut self,
        index: usize,
        opened: &Opened,
        parts: &Parts<'_>,
        at: &mut At<'_>,
    ) -> (Vec<Payload>, Vec<Notification>) {
        let (mut answer, mut notices) = (Vec::new(), Vec::new());
        // RFC 4555 §3.7: the proof that we receive at this address.
        let cookie = parts.notice(NotifyType::Cookie2);
        if let Some(Ok(cookie)) = cookie.map(Notify::to_cookie) {
            answer.push(notify_with(NotifyType::Cookie2, cookie.to_vec()));
        }
        if !self.peer.mobike {
            return (answer, notices);
        }
        let is_update = parts.has(NotifyType::UpdateSaAddresses) && self.role == Role::Responder;
        let refusal = is_update.then(|| self.refusal_of(opened.from, parts, at));
        if let Some(Some(refusal)) = refusal {
            answer.push(notify(refusal));
            return (answer, notices);
        }
        if has_detection(parts) {
            let spis = self.sas[index].spis;
            answer.extend(detection(spis, opened.from));
            if is_update {
                self.nat = find_nat(spis, opened.from, parts);
            }
        }
        if is_update {
            notices.push(Notification::Moved { came: 0, went: 0 });
        }
        if self.take_addresses(parts, opened.from, at) {
            notices.push(Notification::Addresses { came: 0, went: 0 });
        }
        (answer, notices)
    }

    /// Why a peer may not be at the other end of this path.
    fn refusal_of(&self, from: Path, parts: &Parts<'_>, at: &mut At<'_>) -> Option<NotifyType> {
        let seen = (from.remote, from.local);
        let named = parts.notice(NotifyType::NoNatsAllowed);
        if named.is_some_and(|it| it.to_no_nats() != Ok(seen)) {
            return Some(NotifyType::UnexpectedNatDetected);
        }
        if !self.connection.takes(from) {
            at.out.drops.count(DropReason::UnusableAddress);
            return Some(NotifyType::UnacceptableAddresses);
        }
        None
    }

    /// The peer's addresses, if it names them: they replace all that it has named before, except
    /// the one that it sends from (RFC 4555 §3.6). Returns whether it does.
    fn take_addresses(&mut self, parts: &Parts<'_>, from: Path, at: &mut At<'_>) -> bool {
        let mut is_told = parts.has(NotifyType::NoAdditionalAddresses);
        let mut peers: Vec<IpAddr> = Vec::new();
        for notice in &parts.notices {
            if !matches!(
                notice.kind,
                NotifyType::AdditionalIp4Address | NotifyType::AdditionalIp6Address
            ) {
                continue;
            }
            is_told = true;
            let address = notice.to_additional_address().ok().filter(is_usable);
            match address {
                Some(address) if peers.contains(&address) => {}
                Some(address) if peers.len() < MAX_ADDRESSES => peers.push(address),
                _ => at.out.drops.count(DropReason::UnusableAddress),
            }
        }
        if is_told {
            let source = from.remote.ip();
            if self.mobility.peers.contains(&source) && !peers.contains(&source) {
                peers.truncate(MAX_ADDRESSES - 1);
                peers.push(source);
            }
            self.mobility.peers = peers;
        }
        is_told
    }
}

fn has_detection(parts: &Parts<'_>) -> bool {
    parts.has(NotifyType::NatDetectionSourceIp) && parts.has(NotifyType::NatDetectionDestinationIp)
}

/// Then the IKE SA must be closed (RFC 4555 §3.7).
pub(super) fn wrong_cookie() -> Fault {
    Fault::Misbehaved("the peer returned another COOKIE2 than ours".into())
}

/// A COOKIE2.
pub(super) fn fresh_cookie(at: &mut At<'_>) -> Vec<u8> {
    let mut cookie = vec![0; COOKIE2_LEN];
    at.random.fill(&mut cookie);
    cookie
}

//! How stations join an access point and leave it.

use wire::codec::Writer;
use wire::ieee80211::{
    Address, AssociationRequest, AssociationResponse, Authentication, Beacon, Header,
    OPEN_ALGORITHM, SAE_ALGORITHM, control, element_id, extension, find_extension, read_reason,
    reason, status, write_comeback, write_diffie_hellman, write_rates,
};

use super::{
    AccessPoint, BEACON_INTERVAL, EXCHANGE_PATIENCE, Exchange, Keys, LONG_SILENCE,
    MOST_AUTHENTICATED, MOST_EXCHANGES, Member, NamedKey, Traffic,
};
use crate::counters::DropReason;
use crate::link::wireless::handshake::Akm;
use crate::link::wireless::network::{Credential, Mismatch, Security, whole};
use crate::link::wireless::outbox::{AirOutbox, LinkEvent, LinkFailure};
use crate::link::wireless::owe::{OwePair, OweRole};
use crate::link::wireless::port::MAX_STATIONS;
use crate::link::wireless::sae::{Admission, Sae, SaeConfig, SaeOutbox};
use crate::time::Instant;

/// After which a refused station may ask again: the one that has its place was asked by then.
const COMEBACK_TIME_UNITS: u32 = 1_024;

/// A station that may join.
pub(super) struct Admitted {
    association_id: u16,
    /// If it is known.
    master: Option<NamedKey>,
    /// A member with keys has its name.
    has_keys: bool,
}

impl AccessPoint {
    pub(super) fn manage(
        &mut self,
        header: &Header,
        body: &[u8],
        now: Instant,
        out: &mut AirOutbox,
    ) -> Result<(), DropReason> {
        let kind = header.control & control::KIND;
        let is_probe = kind == control::PROBE_REQUEST;
        if header.receiver != self.own && !(is_probe && header.receiver.is_group()) {
            return Err(DropReason::LinkNotForUs);
        }
        if is_probe {
            return self.probed(header.transmitter, body, now, out);
        }
        let from = header.transmitter;
        match kind {
            control::AUTHENTICATION => self.authenticate(from, body, now, out),
            control::ASSOCIATION_REQUEST => {
                let request = AssociationRequest::parse(body);
                let request = request.map_err(|_| DropReason::MalformedMessage)?;
                self.check_authenticated(from, now, out)?;
                self.associate(from, &request, now, out);
                Ok(())
            }
            control::DEAUTHENTICATION | control::DISASSOCIATION => {
                let Some(member) = self.members.get_mut(&from) else {
                    return Err(DropReason::LinkUnknownStation);
                };
                let reason = read_reason(body);
                let reason = reason.map_err(|_| DropReason::MalformedMessage)?;
                if member.is_secured && self.network.security.asks_first() {
                    member.said_to_leave = Some(reason);
                    self.ask(from, now, out);
                    return Ok(());
                }
                self.forget_left(from, now);
                let left = LinkFailure::PeerLeft(reason);
                out.events.push(LinkEvent::Left(from, left));
                Ok(())
            }
            _ => Err(DropReason::LinkUnsupportedFrame),
        }
    }

    pub(super) fn probed(
        &mut self,
        station: Address,
        elements: &[u8],
        now: Instant,
        out: &mut AirOutbox,
    ) -> Result<(), DropReason> {
        if !self.network.is_sought(elements) {
            return Err(DropReason::LinkNotForUs);
        }
        if self.port.mic_failures().are_active(now) {
            return Err(DropReason::LinkCountermeasures);
        }
        let mut elements = Writer::new();
        self.network.write_name(&mut elements);
        elements.bytes(&self.network.security.rsn());
        let beacon = Beacon {
            timestamp: now.0 / 1_000,
            interval: BEACON_INTERVAL,
            capabilities: self.network.security.capabilities(),
            elements: elements.as_slice(),
        };
        let mut body = Writer::new();
        beacon.write(&mut body);
        self.send(control::PROBE_RESPONSE, station, body.as_slice(), out);
        Ok(())
    }

    pub(super) fn authenticate(
        &mut self,
        station: Address,
        body: &[u8],
        now: Instant,
        out: &mut AirOutbox,
    ) -> Result<(), DropReason> {
        let message = Authentication::parse(body);
        let message = message.map_err(|_| DropReason::MalformedMessage)?;
        match message.algorithm {
            SAE_ALGORITHM if self.network.security.is_sae() => {
                self.exchange(station, body, message.transaction, now, out)
            }
            OPEN_ALGORITHM if !self.network.security.is_sae() && message.transaction == 1 => {
                let answer = Authentication {
                    algorithm: OPEN_ALGORITHM,
                    transaction: 2,
                    status: status::SUCCESS,
                    fields: &[],
                };
                let mut body = Writer::new();
                answer.write(&mut body);
                self.send(control::AUTHENTICATION, station, body.as_slice(), out);
                self.note_authenticated(station, now);
                Ok(())
            }
            _ => Err(DropReason::UnexpectedMessage),
        }
    }

    fn note_authenticated(&mut self, station: Address, now: Instant) {
        self.authenticated
            .retain(|_, at| *at + EXCHANGE_PATIENCE > now);
        if self.authenticated.len() >= MOST_AUTHENTICATED {
            let oldest = self.authenticated.iter().min_by_key(|(_, at)| **at);
            let oldest = oldest.map(|(station, _)| *station);
            oldest.map(|it| self.authenticated.remove(&it));
        }
        self.authenticated.insert(station, now);
    }

    /// A station asks for association after it has authenticated. With SAE its confirm may still be
    /// on the way: it asks again.
    fn check_authenticated(
        &mut self,
        station: Address,
        now: Instant,
        out: &mut AirOutbox,
    ) -> Result<(), DropReason> {
        let is_authenticated = match self.exchanges.get(&station) {
            Some(exchange) => exchange.keys.is_some(),
            None => self
                .authenticated
                .get(&station)
                .is_some_and(|at| *at + EXCHANGE_PATIENCE > now),
        };
        let is_known = self.exchanges.contains_key(&station) || self.members.contains_key(&station);
        if !is_authenticated && !is_known {
            self.dismiss(station, reason::NOT_AUTHENTICATED, out);
        }
        match is_authenticated {
            true => Ok(()),
            false => Err(DropReason::LinkUnknownStation),
        }
    }

    pub(super) fn exchange(
        &mut self,
        station: Address,
        body: &[u8],
        transaction: u16,
        now: Instant,
        out: &mut AirOutbox,
    ) -> Result<(), DropReason> {
        let Security::Rsn {
            credential: Credential::Password(method),
            ..
        } = &self.network.security
        else {
            return Err(DropReason::UnexpectedMessage);
        };
        let method = method.clone();
        let mut answer = SaeOutbox::default();
        if let Some(mut exchange) = self.exchanges.remove(&station) {
            // A drop is counted.
            let handled = exchange.sae.handle(body, now, &mut answer);
            // A station that has begun anew has forgotten the exchange that it has completed.
            let is_new = transaction == 1 && handled == Err(DropReason::UnexpectedMessage);
            if !(is_new && exchange.keys.is_some()) {
                self.exchanged(station, exchange, answer, out);
                return Ok(());
            }
            self.retire_exchange(&exchange);
        }
        if self.exchanges.len() >= MOST_EXCHANGES {
            return Err(DropReason::TooManyExchanges);
        }
        let open = self.exchanges.len();
        let is_hash_to_element = method.is_hash_to_element();
        let admitted = self
            .gate
            .admit(body, is_hash_to_element, station, open, now)?;
        let commit = match admitted {
            Admission::Admitted(commit) => commit,
            Admission::Refused(body) => {
                self.send(control::AUTHENTICATION, station, &body, out);
                return Ok(());
            }
        };
        if !self.costly.take(now) {
            return Err(DropReason::TooManyExchanges);
        }
        let config = SaeConfig {
            method,
            own: self.own,
            peer: station,
        };
        let mut random = self.stream("sae");
        let sae = Sae::answer(config, commit, &mut random, now, &mut answer);
        let exchange = Exchange {
            sae,
            began: now,
            keys: None,
        };
        self.exchanged(station, exchange, answer, out);
        Ok(())
    }

    /// Sends what an exchange has put out, and puts it back unless it has failed.
    pub(super) fn exchanged(
        &mut self,
        station: Address,
        mut exchange: Exchange,
        answer: SaeOutbox,
        out: &mut AirOutbox,
    ) {
        for body in answer.bodies {
            self.send(control::AUTHENTICATION, station, &body, out);
        }
        match answer.result {
            Some(Err(failure)) => {
                self.retire_exchange(&exchange);
                out.events.push(LinkEvent::Left(station, failure.into()));
                return;
            }
            Some(Ok(keys)) => exchange.keys = Some(keys),
            None => {}
        }
        self.exchanges.insert(station, exchange);
    }

    pub(super) fn retire_exchange(&mut self, exchange: &Exchange) {
        self.counts.add(exchange.sae.drops(), exchange.sae.work());
    }

    pub(super) fn associate(
        &mut self,
        station: Address,
        request: &AssociationRequest<'_>,
        now: Instant,
        out: &mut AirOutbox,
    ) {
        let mut own = Writer::new();
        write_rates(&mut own);
        let admitted = self.admit(station, request, &mut own, now, out);
        let (status, association_id) = match &admitted {
            Ok(it) => (status::SUCCESS, it.association_id),
            Err(status) => (*status, 0),
        };
        let response = AssociationResponse {
            capabilities: self.network.security.capabilities(),
            status,
            association_id,
            elements: own.as_slice(),
        };
        let mut body = Writer::new();
        response.write(&mut body);
        self.send(control::ASSOCIATION_RESPONSE, station, body.as_slice(), out);
        let Ok(admitted) = admitted else {
            return;
        };
        let rsn = whole(request.elements, element_id::RSN);
        if let (Some((master, pmkid)), true) = (&admitted.master, admitted.has_keys) {
            return self.begin_again(station, rsn, (master.clone(), *pmkid), now, out);
        }
        out.events.push(LinkEvent::Joined(station));
        if !self.network.security.has_key_packets() {
            self.secured(station, out);
        }
        if let Some((master, pmkid)) = admitted.master {
            self.begin(station, master, pmkid, now, out);
        }
    }

    /// Lets a station join. Otherwise the status.
    pub(super) fn admit(
        &mut self,
        station: Address,
        request: &AssociationRequest<'_>,
        own: &mut Writer,
        now: Instant,
        out: &mut AirOutbox,
    ) -> Result<Admitted, u16> {
        if station.is_group() || station == self.own || !self.network.is_named(request.elements) {
            return Err(status::UNSPECIFIED);
        }
        if self.port.mic_failures().are_active(now) {
            return Err(status::UNSPECIFIED);
        }
        let security = &self.network.security;
        let same = security.check(request.capabilities, request.elements);
        same.map_err(status_of)?;
        let known = self.members.get(&station).filter(|it| it.is_secured);
        if let Some(known) = known.filter(|_| security.asks_first()) {
            if !known.is_gone {
                write_comeback(COMEBACK_TIME_UNITS, own);
                self.ask(station, now, out);
                return Err(status::REFUSED_TEMPORARILY);
            }
            self.forget_left(station, now);
        }
        let master = match &self.network.security {
            Security::Rsn { akm: Akm::Owe, .. } => {
                let element = find_extension(request.elements, extension::DIFFIE_HELLMAN);
                let element = element.ok_or(status::INVALID_ELEMENT)?;
                Some(self.agree_openly(element, own, now)?)
            }
            Security::Rsn {
                credential: Credential::Password(_),
                ..
            } => {
                // The exchange stays until the station has keys: anybody can send this request,
                // and the station itself repeats it if our answer is lost.
                let exchange = self.exchanges.get(&station);
                let keys = exchange.and_then(|it| it.keys.as_ref());
                let keys = keys.ok_or(status::UNSPECIFIED)?;
                Some((keys.master.clone(), Some(keys.pmkid)))
            }
            Security::Rsn {
                credential: Credential::Master(master),
                ..
            } => Some((master.clone(), None)),
            _ => None,
        };
        let has_key_packets = self.network.security.has_key_packets();
        let known = self.members.get(&station);
        let has_keys = has_key_packets && known.is_some_and(|it| it.is_secured);
        if has_keys && master.is_none() {
            // It notices that it has no link, and joins once more.
            let why = LinkFailure::JoinedAgain;
            self.leave(station, reason::NOT_ASSOCIATED, why, now, out);
            return Err(status::UNSPECIFIED);
        }
        let id = self.make_room(station, now, out);
        let association_id = id.ok_or(status::NO_ROOM)?;
        let admitted = Admitted {
            association_id,
            master,
            has_keys,
        };
        if !has_keys {
            self.enrol(station, association_id, request, now);
        }
        Ok(admitted)
    }

    fn agree_openly(
        &mut self,
        element: &[u8],
        own: &mut Writer,
        now: Instant,
    ) -> Result<NamedKey, u16> {
        if let Err(reason) = OwePair::check(element) {
            self.counts.drops.count(reason);
            return Err(status::UNSUPPORTED_GROUP);
        }
        if !self.costly.take(now) {
            self.counts.drops.count(DropReason::TooManyExchanges);
            return Err(status::UNSPECIFIED);
        }
        let mut random = self.stream("owe");
        let pair = OwePair::generate(&mut random, &mut self.counts.work);
        let keys = pair.agree(OweRole::AccessPoint, element, &mut self.counts.work);
        let keys = keys.map_err(|reason| {
            self.counts.drops.count(reason);
            status::UNSUPPORTED_GROUP
        })?;
        // RFC 8110 §4.3
        own.bytes(&self.network.security.rsn());
        write_diffie_hellman(&pair.element(), own);
        Ok((keys.master, Some(keys.pmkid)))
    }

    fn enrol(
        &mut self,
        station: Address,
        association_id: u16,
        request: &AssociationRequest<'_>,
        now: Instant,
    ) {
        self.forget(station);
        self.port.join(station);
        self.streams += 1;
        let member = Member {
            association_id,
            rsn: whole(request.elements, element_id::RSN),
            keys: Keys::None,
            again: None,
            said_to_leave: None,
            is_gone: false,
            is_secured: false,
            joined: self.streams,
            heard_at: now,
            asked_at: now,
            traffic: Traffic::default(),
        };
        self.members.insert(station, member);
    }

    /// A free association identifier. If there is none, the oldest station without keys goes, or
    /// the one that is silent for longest.
    pub(super) fn make_room(
        &mut self,
        station: Address,
        now: Instant,
        out: &mut AirOutbox,
    ) -> Option<u16> {
        if let Some(known) = self.members.get(&station) {
            return Some(known.association_id);
        }
        if self.members.len() >= MAX_STATIONS {
            let members = || self.members.iter();
            let without = members().filter(|(_, it)| !it.is_secured);
            let oldest = without.min_by_key(|(_, it)| it.joined);
            let silent = members().filter(|(_, it)| it.heard_at + LONG_SILENCE <= now);
            let longest = silent.min_by_key(|(_, it)| it.heard_at);
            let goes = *oldest.or(longest)?.0;
            self.leave(goes, reason::NO_ROOM, LinkFailure::Displaced, now, out);
        }
        let mut taken = vec![false; MAX_STATIONS + 1];
        for member in self.members.values() {
            taken[usize::from(member.association_id)] = true;
        }
        (1..=MAX_STATIONS as u16).find(|id| !taken[usize::from(*id)])
    }

    pub(super) fn leave(
        &mut self,
        station: Address,
        reason: u16,
        why: LinkFailure,
        now: Instant,
        out: &mut AirOutbox,
    ) {
        self.dismiss(station, reason, out);
        self.forget_left(station, now);
        out.events.push(LinkEvent::Left(station, why));
    }

    /// A station with keys does not answer whether it is there. If it was said to leave, it has.
    pub(super) fn unanswered(&mut self, station: Address, now: Instant, out: &mut AirOutbox) {
        let Some(member) = self.members.get_mut(&station) else {
            return;
        };
        member.is_gone = true;
        if let Some(reason) = member.said_to_leave {
            self.forget_left(station, now);
            let left = LinkFailure::PeerLeft(reason);
            out.events.push(LinkEvent::Left(station, left));
        }
    }

    /// Forgets a station that has left: it must not read what is sent to groups from now on.
    fn forget_left(&mut self, station: Address, now: Instant) {
        let member = self.members.get(&station);
        let has_group = member.is_some_and(|it| it.is_secured);
        self.forget(station);
        if let Some(group) = self.group.as_mut().filter(|_| has_group) {
            group.note_leaving(now);
        }
    }

    pub(super) fn dismiss(&mut self, station: Address, reason: u16, out: &mut AirOutbox) {
        let kind = control::DEAUTHENTICATION;
        self.send(kind, station, &reason.to_le_bytes(), out);
    }

    fn forget(&mut self, station: Address) {
        if let Some(member) = self.members.remove(&station) {
            member.add_to(&mut self.counts);
        }
        self.port.leave(station);
        // It may have been the last one without the next key.
        self.replace_group();
    }

    pub(super) fn send(&mut self, kind: u16, to: Address, body: &[u8], out: &mut AirOutbox) {
        out.frames.push(self.port.manage(kind, to, body));
    }
}

const fn status_of(mismatch: Mismatch) -> u16 {
    match mismatch {
        Mismatch::Element => status::INVALID_ELEMENT,
        Mismatch::Akm => status::INVALID_AKM,
        Mismatch::GroupCipher => status::INVALID_GROUP_CIPHER,
        Mismatch::PairwiseCipher => status::INVALID_PAIRWISE_CIPHER,
    }
}

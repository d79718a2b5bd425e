//! How a station finds an access point, joins it and leaves it.

use wire::codec::Writer;
use wire::ieee80211::{
    Address, AssociationRequest, AssociationResponse, Authentication, Beacon, Header,
    OPEN_ALGORITHM, control, element_id, extension, find_extension, read_comeback, read_reason,
    reason, status, write_diffie_hellman,
};

use super::{
    ATTEMPTS, Association, FAST_PROBES, KEEP_ALIVE, LISTEN_INTERVAL, SILENCE, SILENT_ATTEMPTS,
    SILENT_TIMEOUT, SLOW_PROBE, Stage, Station, TIMEOUT, Told,
};
use crate::counters::DropReason;
use crate::link::wireless::handshake::{Akm, Failure, MasterKey};
use crate::link::wireless::network::{Credential, Security, whole};
use crate::link::wireless::outbox::{AirOutbox, LinkEvent, LinkFailure};
use crate::link::wireless::owe::{OwePair, OweRole};
use crate::link::wireless::sae::{Sae, SaeConfig, SaeOutbox};
use crate::time::{Duration, Instant};

const TIME_UNIT: Duration = Duration::from_micros(1_024);
/// The longest time after which it asks again for an association that was refused for a while:
/// anybody can send such an answer.
const MOST_COMEBACK_TIME_UNITS: u32 = 2_048;

impl Station {
    pub(super) fn probe(&mut self, now: Instant, out: &mut AirOutbox) {
        let mut body = Writer::new();
        self.network.write_name(&mut body);
        let kind = control::PROBE_REQUEST;
        self.send(kind, Address::BROADCAST, body.as_slice(), out);
        self.attempts = self.attempts.saturating_add(1);
        let is_fast = self.attempts < FAST_PROBES;
        if !is_fast
            && !self.told.not_suitable
            && !core::mem::replace(&mut self.told.not_found, true)
        {
            out.events.push(LinkEvent::NotFound);
        }
        self.next_at = Some(now + if is_fast { TIMEOUT } else { SLOW_PROBE });
    }

    /// Sends the request of the stage.
    pub(super) fn ask(&mut self, now: Instant, out: &mut AirOutbox) {
        let mut body = Writer::new();
        let (kind, to) = match &self.stage {
            Stage::Authenticating(access_point) => {
                let request = Authentication {
                    algorithm: OPEN_ALGORITHM,
                    transaction: 1,
                    status: status::SUCCESS,
                    fields: &[],
                };
                request.write(&mut body);
                (control::AUTHENTICATION, *access_point)
            }
            Stage::Associating(access_point, association) => {
                let mut elements = Writer::new();
                self.network.write_name(&mut elements);
                elements.bytes(&self.network.security.rsn());
                if let Some(pair) = &association.pair {
                    write_diffie_hellman(&pair.element(), &mut elements);
                }
                let request = AssociationRequest {
                    capabilities: self.network.security.capabilities(),
                    listen_interval: LISTEN_INTERVAL,
                    elements: elements.as_slice(),
                };
                request.write(&mut body);
                (control::ASSOCIATION_REQUEST, *access_point)
            }
            _ => return,
        };
        self.send(kind, to, body.as_slice(), out);
        self.next_at = Some(now + TIMEOUT * (1 << self.attempts));
        self.attempts += 1;
    }

    /// Asks an access point that is not heard, or gives it up.
    pub(super) fn ask_silent(&mut self, access_point: Address, now: Instant, out: &mut AirOutbox) {
        let due = self.heard_at + SILENCE;
        if due > now {
            self.attempts = 0;
            self.next_at = Some(due);
            if self.looked_at + KEEP_ALIVE <= now {
                if !core::mem::take(&mut self.has_spoken) {
                    self.probe_access_point(access_point, out);
                }
                self.looked_at = now;
            }
        } else if self.attempts < SILENT_ATTEMPTS {
            self.probe_access_point(access_point, out);
            self.next_at = Some(now + SILENT_TIMEOUT * (1 << self.attempts));
            self.attempts += 1;
        } else {
            self.fail(LinkFailure::NoAnswer("probe"), now, out);
        }
    }

    fn probe_access_point(&mut self, access_point: Address, out: &mut AirOutbox) {
        let mut body = Writer::new();
        self.network.write_name(&mut body);
        self.send(control::PROBE_REQUEST, access_point, body.as_slice(), out);
    }

    pub(super) fn send(&mut self, kind: u16, to: Address, body: &[u8], out: &mut AirOutbox) {
        out.frames.push(self.port.manage(kind, to, body));
    }

    pub(super) fn manage(
        &mut self,
        header: &Header,
        body: &[u8],
        now: Instant,
        out: &mut AirOutbox,
    ) -> Result<(), DropReason> {
        let malformed = |_| DropReason::MalformedMessage;
        let from = header.transmitter;
        if header.receiver != self.own && !header.receiver.is_group() {
            return Err(DropReason::LinkNotForUs);
        }
        let is_ours = self.stage.access_point() == Some(from);
        match header.control & control::KIND {
            control::PROBE_RESPONSE | control::BEACON => {
                let beacon = Beacon::parse(body).map_err(malformed)?;
                self.found(from, &beacon, now, out)
            }
            _ if !is_ours => Err(DropReason::LinkNotForUs),
            control::AUTHENTICATION => self.authenticated(from, body, now, out),
            control::ASSOCIATION_RESPONSE => {
                let response = AssociationResponse::parse(body).map_err(malformed)?;
                self.associated(from, &response, now, out)
            }
            control::DEAUTHENTICATION | control::DISASSOCIATION => {
                let reason = read_reason(body).map_err(malformed)?;
                let knows_key = matches!(
                    self.network.security,
                    Security::Rsn {
                        credential: Credential::Master(_),
                        ..
                    }
                );
                let why = match reason {
                    reason::HANDSHAKE_TIMEOUT if knows_key => LinkFailure::KeysRefused,
                    _ => LinkFailure::PeerLeft(reason),
                };
                self.fail(why, now, out);
                Ok(())
            }
            _ => Err(DropReason::LinkUnsupportedFrame),
        }
    }

    pub(super) fn found(
        &mut self,
        access_point: Address,
        beacon: &Beacon<'_>,
        now: Instant,
        out: &mut AirOutbox,
    ) -> Result<(), DropReason> {
        // A second answer, or a beacon of our own network.
        if !matches!(self.stage, Stage::Searching) || self.next_at.is_none() {
            return Ok(());
        }
        let security = &self.network.security;
        if !self.network.is_named(beacon.elements) {
            return Err(DropReason::LinkNotForUs);
        }
        let same = security.check(beacon.capabilities, beacon.elements);
        if same.is_err() {
            if !core::mem::replace(&mut self.told.not_suitable, true) {
                let announced = Security::announced(beacon.capabilities, beacon.elements);
                out.events
                    .push(LinkEvent::NotSuitable(access_point, announced));
            }
            return Err(DropReason::NoProposalChosen);
        }
        self.told = Told::default();
        self.access_point_rsn = whole(beacon.elements, element_id::RSN);
        self.port.associate(access_point);
        self.attempts = 0;
        if let Security::Rsn {
            credential: Credential::Password(method),
            ..
        } = security
        {
            let config = SaeConfig {
                method: method.clone(),
                own: self.own,
                peer: access_point,
            };
            let mut random = self.stream("sae");
            let mut exchanged = SaeOutbox::default();
            let sae = Sae::begin(config, &mut random, now, &mut exchanged);
            self.next_at = None;
            self.enter(Stage::Exchanging(access_point, Box::new(sae)));
            self.exchanged(exchanged, now, out);
        } else {
            self.enter(Stage::Authenticating(access_point));
            self.ask(now, out);
        }
        Ok(())
    }

    pub(super) fn authenticated(
        &mut self,
        access_point: Address,
        body: &[u8],
        now: Instant,
        out: &mut AirOutbox,
    ) -> Result<(), DropReason> {
        if let Some(sae) = self.stage.sae_mut() {
            let mut exchanged = SaeOutbox::default();
            // A drop is counted.
            let _ = sae.handle(body, now, &mut exchanged);
            self.exchanged(exchanged, now, out);
            return Ok(());
        }
        let message = Authentication::parse(body);
        let message = message.map_err(|_| DropReason::MalformedMessage)?;
        let is_answer = message.algorithm == OPEN_ALGORITHM && message.transaction == 2;
        if !matches!(self.stage, Stage::Authenticating(_)) || !is_answer {
            return Err(DropReason::UnexpectedMessage);
        }
        match message.status {
            status::SUCCESS => self.associate(access_point, None, now, out),
            refused => self.fail(LinkFailure::Refused("authentication", refused), now, out),
        }
        Ok(())
    }

    /// Goes on to another stage. The counts of a machine of SAE that ends are kept.
    pub(super) fn enter(&mut self, stage: Stage) {
        if let Some(sae) = self.stage.sae() {
            self.counts.add(sae.drops(), sae.work());
        }
        self.stage = stage;
    }

    pub(super) fn exchanged(&mut self, exchanged: SaeOutbox, now: Instant, out: &mut AirOutbox) {
        let Some(access_point) = self.stage.access_point() else {
            return;
        };
        for body in exchanged.bodies {
            self.send(control::AUTHENTICATION, access_point, &body, out);
        }
        match exchanged.result {
            None => {}
            Some(Ok(keys)) => self.associate(access_point, Some(keys.master), now, out),
            Some(Err(failure)) => self.fail(failure.into(), now, out),
        }
    }

    pub(super) fn associate(
        &mut self,
        access_point: Address,
        master: Option<MasterKey>,
        now: Instant,
        out: &mut AirOutbox,
    ) {
        let is_owe = matches!(self.network.security, Security::Rsn { akm: Akm::Owe, .. });
        let mut random = self.stream("owe");
        let pair = is_owe.then(|| OwePair::generate(&mut random, &mut self.counts.work));
        let sae = match core::mem::replace(&mut self.stage, Stage::Searching) {
            Stage::Exchanging(_, sae) => Some(sae),
            _ => None,
        };
        let accepted = master.zip(sae);
        self.enter(Stage::Associating(
            access_point,
            Association { accepted, pair },
        ));
        self.attempts = 0;
        self.ask(now, out);
    }

    pub(super) fn associated(
        &mut self,
        access_point: Address,
        response: &AssociationResponse<'_>,
        now: Instant,
        out: &mut AirOutbox,
    ) -> Result<(), DropReason> {
        let Stage::Associating(_, association) = &self.stage else {
            return Err(DropReason::UnexpectedMessage);
        };
        let comeback = read_comeback(response.elements);
        if let (status::REFUSED_TEMPORARILY, Some(comeback)) = (response.status, comeback)
            && self.attempts < ATTEMPTS
        {
            let comeback = TIME_UNIT * comeback.min(MOST_COMEBACK_TIME_UNITS);
            self.next_at = Some(now + comeback);
            return Ok(());
        }
        if response.status != status::SUCCESS {
            let failure = LinkFailure::Refused("association", response.status);
            self.fail(failure, now, out);
            return Ok(());
        }
        let accepted = association.accepted.as_ref();
        let mut master = accepted.map(|(master, _)| master.clone());
        if let Some(pair) = &association.pair {
            let security = &self.network.security;
            let same = security.check(response.capabilities, response.elements);
            same.map_err(|_| DropReason::NoProposalChosen)?;
            let element = find_extension(response.elements, extension::DIFFIE_HELLMAN);
            let element = element.ok_or(DropReason::IncompleteMessage)?;
            let keys = pair.agree(OweRole::Client, element, &mut self.counts.work)?;
            master = Some(keys.master);
        }
        if let Security::Rsn {
            credential: Credential::Master(known),
            ..
        } = &self.network.security
        {
            master = Some(known.clone());
        }
        self.enter(Stage::Associated(access_point));
        (self.has_spoken, self.looked_at) = (true, now);
        self.next_at = Some(now + SILENCE);
        self.attempts = 0;
        self.retire();
        self.early.clear();
        if let Some(master) = master {
            out.tell_master(&master);
            self.keys = self.supplicant(access_point, master, now);
        }
        out.events.push(LinkEvent::Joined(access_point));
        if !self.network.security.has_key_packets() {
            out.events.push(LinkEvent::Secured(access_point));
        }
        Ok(())
    }

    pub(super) fn fail(&mut self, failure: LinkFailure, now: Instant, out: &mut AirOutbox) {
        let reason = match failure {
            LinkFailure::Handshake(Failure::OtherRsn) => reason::OTHER_ELEMENT,
            LinkFailure::Handshake(_) => reason::HANDSHAKE_TIMEOUT,
            _ => reason::LEAVING,
        };
        self.leave(reason, failure, now, out);
    }

    pub(super) fn leave(
        &mut self,
        reason: u16,
        why: LinkFailure,
        now: Instant,
        out: &mut AirOutbox,
    ) {
        if let Some(access_point) = self.stage.access_point() {
            // Who was refused has nothing to leave. Another may have the name that it has.
            let has_none = LinkFailure::Refused("association", status::REFUSED_TEMPORARILY);
            let is_over = matches!(why, LinkFailure::PeerLeft(_) | LinkFailure::KeysRefused);
            if !is_over && why != has_none {
                let kind = control::DEAUTHENTICATION;
                self.send(kind, access_point, &reason.to_le_bytes(), out);
            }
            out.events.push(LinkEvent::Left(access_point, why));
            self.port.associate(Address::BROADCAST);
        }
        self.retire();
        self.early.clear();
        self.enter(Stage::Searching);
        self.attempts = 0;
        self.next_at = Some(now + SLOW_PROBE);
    }
}

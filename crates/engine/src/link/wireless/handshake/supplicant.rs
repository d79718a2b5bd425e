//! The station's end.

use crypto::rand::Stream;
use wire::codec::Reader;
use wire::ieee80211::{
    Address, Element, Gtk, KeyData, KeyDatum, KeyFrame, NONCE_LEN, element_id,
    key_information as info,
};

use super::akm::Akm;
use super::keys::{MasterKey, Setting, TransientKey};
use super::message::{Received, frame, signed};
use super::outbox::{Fact, Failure, Outbox};
use crate::counters::{DropCounters, DropReason};
use crate::link::wireless::cipher::{GroupKey, PermittedCipher, TemporalKey};
use crate::time::{Deadline, Duration, Instant};
use crate::work::Work;

/// How long a station waits for its first keys.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// What a station knows before the handshake.
#[derive(Clone)]
pub struct SupplicantConfig {
    /// Where the master key comes from.
    pub akm: Akm,
    /// Protects frames to one station.
    pub pairwise: PermittedCipher,
    /// Protects frames to groups.
    pub group: PermittedCipher,
    /// The station.
    pub own: Address,
    /// The access point.
    pub authenticator: Address,
    /// The master key.
    pub master: MasterKey,
    /// Our RSN element, as in the association request.
    pub rsn: Vec<u8>,
    /// That of the access point, as in its beacons.
    pub authenticator_rsn: Vec<u8>,
}

/// The station's end of the handshakes.
pub struct Supplicant {
    setting: Setting,
    config: SupplicantConfig,
    random: Stream,
    /// The counter of the last message with a right MIC.
    replay_counter: Option<u64>,
    /// Our nonce since the first message, until a third message proves it.
    snonce: Option<[u8; NONCE_LEN]>,
    /// Proven by a third message.
    proven: Option<Proven>,
    installed: Option<TemporalKey>,
    installed_groups: [Option<TemporalKey>; 4],
    has_wrong_mic: bool,
    give_up_at: Option<Instant>,
    drops: DropCounters,
    work: Work,
}

struct Proven {
    anonce: [u8; NONCE_LEN],
    key: TransientKey,
}

impl Supplicant {
    /// Waits for the first message.
    pub fn new(config: SupplicantConfig, random: Stream, now: Instant) -> Self {
        Self {
            setting: Setting {
                akm: config.akm,
                pairwise: config.pairwise,
                authenticator: config.authenticator,
                supplicant: config.own,
            },
            config,
            random,
            replay_counter: None,
            snonce: None,
            proven: None,
            installed: None,
            installed_groups: [const { None }; 4],
            has_wrong_mic: false,
            give_up_at: Some(now + PATIENCE),
            drops: DropCounters::default(),
            work: Work::default(),
        }
    }

    /// Takes an EAPOL packet of the access point. A drop is counted.
    pub fn handle(&mut self, packet: &[u8], out: &mut Outbox) -> Result<(), DropReason> {
        let handled = self.handle_uncounted(packet, out);
        handled.inspect_err(|reason| self.drops.count(*reason))
    }

    fn handle_uncounted(&mut self, packet: &[u8], out: &mut Outbox) -> Result<(), DropReason> {
        let received = Received::read(packet, &self.setting)?;
        if !received.frame.has(info::ACK) {
            return Err(DropReason::UnexpectedMessage);
        }
        let counter = received.frame.replay_counter;
        if self.replay_counter.is_some_and(|last| counter <= last) {
            return Err(DropReason::Replayed);
        }
        let is_pairwise = received.frame.has(info::PAIRWISE);
        match (is_pairwise, received.frame.has(info::MIC)) {
            (true, false) => self.first(&received, out),
            (true, true) => self.third(&received, out),
            (false, true) => self.of_group(&received, out),
            (false, false) => Err(DropReason::UnexpectedMessage),
        }
    }

    /// Message 1 has no MIC: it is answered, and leaves nothing but our nonce, which stays until it
    /// is proven. So a forged one costs no more than an answer.
    fn first(&mut self, received: &Received<'_>, out: &mut Outbox) -> Result<(), DropReason> {
        let random = &mut self.random;
        let snonce = *self.snonce.get_or_insert_with(|| {
            let mut nonce = [0; NONCE_LEN];
            random.fill(&mut nonce);
            nonce
        });
        let key = self.derive(&received.frame.nonce, &snonce);
        let counter = received.frame.replay_counter;
        let mut second = frame(&self.setting, info::PAIRWISE | info::MIC, counter);
        second.nonce = snonce;
        second.data = &self.config.rsn;
        out.packets.push(signed(&second, &key, &mut self.work));
        Ok(())
    }

    fn derive(&mut self, anonce: &[u8; NONCE_LEN], snonce: &[u8; NONCE_LEN]) -> TransientKey {
        let master = &self.config.master;
        self.setting.derive(master, anonce, snonce, &mut self.work)
    }

    /// The key that message 3 is signed with: that of our last message 2, or the proven one if
    /// our message 4 was lost. Its own nonce counts: a message 1 may be forged.
    fn key_of_third(&mut self, received: &Received<'_>) -> Result<TransientKey, DropReason> {
        let anonce = received.frame.nonce;
        let is_it = |proven: &&Proven| proven.anonce == anonce;
        if let Some(proven) = self.proven.as_ref().filter(is_it)
            && received.verify(&proven.key, &mut self.work).is_ok()
        {
            return Ok(proven.key.clone());
        }
        let snonce = self.snonce.ok_or(DropReason::UnexpectedMessage)?;
        let key = self.derive(&anonce, &snonce);
        received.verify(&key, &mut self.work)?;
        Ok(key)
    }

    fn third(&mut self, received: &Received<'_>, out: &mut Outbox) -> Result<(), DropReason> {
        let message = &received.frame;
        if !message.has(info::SECURE | info::INSTALL | info::ENCRYPTED) {
            return Err(DropReason::UnexpectedMessage);
        }
        let key = self.key_of_third(received);
        let key = key.inspect_err(|reason| self.has_wrong_mic |= *reason == DropReason::BadHash)?;
        let data = key.decrypt(message.data, &message.iv, &mut self.work)?;
        let parts = Parts::read(&data)?;
        self.replay_counter = Some(message.replay_counter);
        if parts.rsn != Some(&self.config.authenticator_rsn[..]) {
            self.give_up_at = None;
            out.facts.push(Fact::Failed(Failure::OtherRsn));
            return Err(DropReason::AuthenticationFailed);
        }
        let group = parts.group(&received.frame, self.config.group)?;
        let counter = message.replay_counter;
        let fourth = info::PAIRWISE | info::MIC | info::SECURE;
        let fourth = frame(&self.setting, fourth, counter);
        out.packets.push(signed(&fourth, &key, &mut self.work));
        if self.installed.as_ref() != Some(key.temporal()) {
            self.installed = Some(key.temporal().clone());
            out.facts.push(Fact::Pairwise(key.temporal().clone()));
            self.snonce = None;
        }
        self.install_group(group, out);
        if self.give_up_at.take().is_some() || self.proven.is_none() {
            out.facts.push(Fact::Done);
        }
        let anonce = message.nonce;
        self.proven = Some(Proven { anonce, key });
        Ok(())
    }

    fn of_group(&mut self, received: &Received<'_>, out: &mut Outbox) -> Result<(), DropReason> {
        let message = &received.frame;
        let proven = self.proven.as_ref();
        let key = &proven.ok_or(DropReason::UnexpectedMessage)?.key;
        if !message.has(info::SECURE | info::ENCRYPTED) {
            return Err(DropReason::UnexpectedMessage);
        }
        received.verify(key, &mut self.work)?;
        let data = key.decrypt(message.data, &message.iv, &mut self.work)?;
        let group = Parts::read(&data)?.group(message, self.config.group)?;
        self.replay_counter = Some(message.replay_counter);
        let answer = frame(
            &self.setting,
            info::MIC | info::SECURE,
            message.replay_counter,
        );
        out.packets.push(signed(&answer, key, &mut self.work));
        self.install_group(group, out);
        Ok(())
    }

    fn install_group(&mut self, group: GroupKey, out: &mut Outbox) {
        let key = Some(&group.key);
        if self.installed_groups.iter().any(|it| it.as_ref() == key) {
            return;
        }
        self.installed_groups[usize::from(group.key_id)] = Some(group.key.clone());
        out.facts.push(Fact::Group(group));
    }

    /// When to call [`Self::fire`].
    pub fn deadline(&self) -> Option<Deadline> {
        self.give_up_at.map(|at| Deadline {
            at,
            why: "give up the handshake",
        })
    }

    /// Gives up if it is time.
    pub fn fire(&mut self, now: Instant, out: &mut Outbox) {
        if self.give_up_at.take_if(|at| *at <= now).is_some() {
            let failure = match self.has_wrong_mic {
                true => Failure::WrongKey,
                false => Failure::NoMessage,
            };
            out.facts.push(Fact::Failed(failure));
        }
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

/// What we look for in key data.
struct Parts<'a> {
    /// The whole element.
    rsn: Option<&'a [u8]>,
    group: Option<Gtk<'a>>,
}

impl<'a> Parts<'a> {
    fn read(data: &'a [u8]) -> Result<Self, DropReason> {
        let mut parts = Self {
            rsn: None,
            group: None,
        };
        for datum in KeyData::new(data) {
            match datum.map_err(|_| DropReason::MalformedMessage)? {
                KeyDatum::Gtk(gtk) => parts.group = Some(gtk),
                KeyDatum::Element(element) if element.id == element_id::RSN => {
                    parts.rsn = whole(data, element);
                }
                _ => {}
            }
        }
        Ok(parts)
    }

    fn group(
        &self,
        message: &KeyFrame<'_>,
        cipher: PermittedCipher,
    ) -> Result<GroupKey, DropReason> {
        let gtk = self.group.as_ref().ok_or(DropReason::IncompleteMessage)?;
        let key = TemporalKey::new(cipher, gtk.key);
        let key = key.ok_or(DropReason::MalformedMessage)?;
        let [a, b, c, d, e, f, _, _] = message.receive_sequence;
        Ok(GroupKey {
            key,
            key_id: gtk.key_id,
            last_number: u64::from_le_bytes([a, b, c, d, e, f, 0, 0]),
        })
    }
}

/// The element with its two octets before the body.
fn whole<'a>(data: &'a [u8], element: Element<'a>) -> Option<&'a [u8]> {
    let mut r = Reader::new(data);
    while !r.is_empty() {
        let rest = r.clone().rest();
        let next = Element::read(&mut r).ok()?;
        if next == element {
            return rest.get(..2 + next.body.len());
        }
    }
    None
}

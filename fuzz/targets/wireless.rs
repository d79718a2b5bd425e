//! A wireless link between a station and an access point whose air an attacker owns: what is
//! delivered was sent, once and in order (WEP alone may repeat); every drop is counted; a key is
//! installed once, and both ends have the same; a station that was disturbed while it joined works
//! once it is left alone.
//!
//! The input is a choice of cipher and AKM, then steps: what, position, bits.
#![no_main]

use std::collections::VecDeque;
use std::sync::OnceLock;

use crypto::rand::Seed;
use engine::counters::{DropCounters, DropReason};
use engine::link::wireless::handshake::{
    Akm, Authenticator, AuthenticatorConfig, Fact, MasterKey, Outbox, Supplicant, SupplicantConfig,
};
use engine::link::wireless::sae::{Method, Password, PasswordToken};
use engine::link::wireless::{
    AccessPoint, AirOutbox, Credential, GroupKey, LinkCipher, LinkEvent, MAX_GROWTH, Network, Port,
    Privacy, Received, Role, Security, Station, TemporalKey,
};
use engine::time::{Duration, Instant};
use engine::work::Work;
use libfuzzer_sys::fuzz_target;
use wire::ieee80211::{Address, EthernetHeader};

const AP: Address = Address([2, 0, 0, 0, 0, 1]);
const STATION: Address = Address([2, 0, 0, 0, 0, 2]);
const WIRED: Address = Address([2, 0, 0, 0, 0, 9]);
const SSID: &[u8] = b"air";
const MOST_STEPS: usize = 64;
/// Frames and waits after which a station that nobody disturbs works.
const MOST_CALM: usize = 1_000;

fuzz_target!(|input: &[u8]| {
    let Some((choice, rest)) = input.split_first() else {
        return;
    };
    let cipher = LinkCipher::ALL[usize::from(choice >> 4) % LinkCipher::ALL.len()];
    let akm = Akm::ALL[usize::from(choice & 15) % Akm::ALL.len()];
    let steps: Vec<[u8; 3]> = rest
        .as_chunks()
        .0
        .iter()
        .take(MOST_STEPS)
        .copied()
        .collect();
    frames(cipher, &steps, rest);
    let is_wep = cipher.is_wep();
    if !is_wep {
        handshake(akm, cipher, &steps, rest);
        joining(akm, cipher, &steps, rest);
    }
});

/// A station and an access point from the first probe on: each frame is delivered, changed, lost,
/// repeated, or made of the input. Then nobody disturbs, and the station works.
fn joining(akm: Akm, cipher: LinkCipher, steps: &[[u8; 3]], rest: &[u8]) {
    let credential = match akm {
        Akm::Psk | Akm::PskSha256 => Credential::Master(MasterKey::new(&[5; 32])),
        Akm::Ieee8021x | Akm::Ieee8021xSha256 => Credential::None,
        Akm::Sae => Credential::Password(method()),
        Akm::Owe => Credential::None,
    };
    let security = Security::Rsn {
        akm,
        cipher: permit(cipher),
        credential,
    };
    let mut air = Air::new(security);
    for &[what, at, bits] in steps {
        air.wait();
        let mut frame = match what % 5 {
            3 if !air.all.is_empty() => air.all[usize::from(at) % air.all.len()].clone(),
            4 => rest.to_vec(),
            _ => match air.queue.pop_front() {
                Some(frame) => frame,
                None => continue,
            },
        };
        air.all.push(frame.clone());
        match what % 5 {
            1 if !frame.is_empty() => {
                let at = usize::from(at) % frame.len();
                frame[at] ^= bits;
            }
            2 => continue,
            _ => {}
        }
        air.deliver(frame);
        assert!(air.access_point.stations().len() <= steps.len());
    }
    for _ in 0..MOST_CALM {
        match air.queue.pop_front() {
            Some(frame) => drop(air.deliver(frame)),
            None if air.carries() => return,
            None => air.wait(),
        }
    }
    panic!(
        "the station does not work: it has joined {:?}, which knows {:?} at {:?}",
        air.station.access_point(),
        air.access_point.station(STATION),
        air.now
    );
}

/// The point of a password, which costs more than an exchange: made once.
fn method() -> Method {
    static TOKEN: OnceLock<PasswordToken> = OnceLock::new();
    let token =
        TOKEN.get_or_init(|| Password::new(b"mellon").token(SSID, b"", &mut Work::default()));
    Method::HashToElement(token.clone())
}

struct Air {
    access_point: AccessPoint,
    station: Station,
    has_eap: bool,
    /// It has joined, and EAP has not ended yet.
    wants_session: bool,
    now: Instant,
    queue: VecDeque<Vec<u8>>,
    all: Vec<Vec<u8>>,
}

impl Air {
    fn new(security: Security) -> Self {
        let has_eap = security.wants_session();
        let network = Network {
            ssid: SSID.to_vec(),
            security,
        };
        Self {
            access_point: AccessPoint::new(network.clone(), AP, Seed::new([3; 32])),
            station: Station::new(network, STATION, Seed::new([4; 32]), Instant(0)),
            has_eap,
            wants_session: false,
            now: Instant(0),
            queue: VecDeque::new(),
            all: Vec::new(),
        }
    }

    /// If nothing is in the air, time passes until somebody does something.
    fn wait(&mut self) {
        let ends = [self.station.deadline(), self.access_point.deadline()];
        let next = ends.into_iter().flatten().map(|it| it.at).min();
        if let Some(next) = next
            && self.queue.is_empty()
        {
            self.now = self.now.max(next);
            let mut out = AirOutbox::default();
            self.station.fire(self.now, &mut out);
            self.access_point.fire(self.now, &mut out);
            self.take(out);
        }
    }

    /// Both hear it. Whether the access point passes something on.
    fn deliver(&mut self, mut frame: Vec<u8>) -> bool {
        let mut out = AirOutbox::default();
        let _ = self.station.receive(&mut frame.clone(), self.now, &mut out);
        let received = self.access_point.receive(&mut frame, self.now, &mut out);
        self.take(out);
        matches!(received, Received::Frame { .. })
    }

    fn take(&mut self, out: AirOutbox) {
        self.queue.extend(out.frames);
        let joined = LinkEvent::Joined(STATION);
        self.wants_session |= self.has_eap && out.events.contains(&joined);
        if self.wants_session && self.station.access_point().is_some() {
            self.wants_session = false;
            let mut out = AirOutbox::default();
            // It may have been told to leave in the meantime.
            let _ = self
                .access_point
                .session(STATION, &[0x5e; 64], self.now, &mut out);
            let _ = self.station.session(&[0x5e; 64], self.now, &mut out);
            self.queue.extend(out.frames);
        }
    }

    /// Whether a frame of the station gets through. Without keys it begins EAP again.
    fn carries(&mut self) -> bool {
        self.now = self.now + Duration::from_secs(1);
        let mut frame = ethernet(&[7; 40]);
        if self.passes(&frame) {
            return true;
        }
        // EAPOL-Start to the access point.
        frame[..6].copy_from_slice(&AP.0);
        frame.splice(12.., [0x88, 0x8e, 1, 1, 0, 0]);
        self.wants_session = self.has_eap && self.passes(&frame);
        self.take(AirOutbox::default());
        false
    }

    fn passes(&mut self, frame: &[u8]) -> bool {
        let mut air = vec![0; frame.len() + MAX_GROWTH];
        let Ok(len) = self.station.protect(frame, &mut air) else {
            return false;
        };
        air.truncate(len);
        self.deliver(air)
    }
}

/// Frames from a station: each is delivered, changed, repeated, or made of the input.
fn frames(cipher: LinkCipher, steps: &[[u8; 3]], rest: &[u8]) {
    let is_wep = cipher.is_wep();
    let key = TemporalKey::new(permit(cipher), &vec![7; cipher.key_len()]).expect("its length");
    let mut station = Port::new(Role::Station(AP), STATION, Privacy::Protected);
    let mut access_point = Port::new(Role::AccessPoint, AP, Privacy::Protected);
    assert!(access_point.join(STATION));
    assert!(station.install_pairwise(AP, &key));
    assert!(access_point.install_pairwise(STATION, &key));
    let (mut sent, mut newest, mut drops) = (Vec::new(), None, 0);
    for (number, &[what, at, bits]) in (0u8..).zip(steps) {
        let mut frame = ethernet(&[number; 40]);
        let mut air = vec![0; frame.len() + MAX_GROWTH];
        let len = station.protect(&frame, &mut air).expect("it has a key");
        air.truncate(len);
        let original = air.clone();
        sent.push((original.clone(), frame.clone()));
        let mut of = usize::from(number);
        match what % 4 {
            0 => {}
            1 => {
                let at = usize::from(at) % air.len();
                air[at] ^= bits;
            }
            2 => {
                of = usize::from(at) % sent.len();
                (air, frame) = sent[of].clone();
            }
            _ => air = rest.to_vec(),
        }
        let is_original = sent[of].0 == air;
        let opened = access_point.unprotect(&mut air, Instant(u64::from(number)));
        match opened {
            Ok(opened) if opened.is_protected => {
                let delivered = &air[opened.frame];
                // WEP protects neither header nor order, and TKIP not what it does not need.
                if !is_wep {
                    assert_eq!(delivered, frame);
                    assert!(newest.is_none_or(|newest| newest < of), "in order");
                    newest = Some(of);
                }
            }
            Ok(opened) => assert!(opened.frame.end <= air.len()),
            Err(reason) => {
                drops += 1;
                let is_late = newest.is_some_and(|newest| of <= newest);
                let is_excused =
                    reason == DropReason::LinkNoKey || reason == DropReason::LinkCountermeasures;
                assert!(!is_original || is_late || is_excused, "{reason:?}");
            }
        }
        assert_eq!(count(access_point.drops()), drops);
    }
}

/// Messages of a handshake: each is delivered, changed, lost, or repeated, and time passes.
fn handshake(akm: Akm, cipher: LinkCipher, steps: &[[u8; 3]], rest: &[u8]) {
    let (mut station, mut access_point, mut out) = ends(akm, cipher);
    let group = GroupKey {
        key: TemporalKey::new(permit(cipher), &vec![9; cipher.key_len()]).expect("its length"),
        key_id: 1,
        last_number: 0,
    };
    let mut now = Instant(0);
    let mut all: Vec<(bool, Vec<u8>)> = Vec::new();
    let mut queue: Vec<(bool, Vec<u8>)> = out.packets.drain(..).map(|it| (true, it)).collect();
    let (mut of_station, mut of_access_point) = (Vec::new(), Vec::new());
    for &[what, at, bits] in steps {
        if queue.is_empty()
            && let Some(deadline) = access_point.deadline()
        {
            assert!(deadline.at >= now);
            now = deadline.at;
            access_point.fire(now, true, &mut out);
            queue.extend(out.packets.drain(..).map(|it| (true, it)));
            of_access_point.append(&mut out.facts);
        }
        let (is_down, mut packet) = match what % 5 {
            3 if !all.is_empty() => all[usize::from(at) % all.len()].clone(),
            4 => (bits & 1 == 0, rest.to_vec()),
            _ if queue.is_empty() => continue,
            _ => queue.remove(0),
        };
        all.push((is_down, packet.clone()));
        match what % 5 {
            1 if !packet.is_empty() => {
                let at = usize::from(at) % packet.len();
                packet[at] ^= bits;
            }
            2 => continue,
            _ => {}
        }
        let mut answer = Outbox::default();
        let dropped = match is_down {
            true => station.handle(&packet, &mut answer),
            false => access_point.handle(&packet, &group, now, &mut answer),
        };
        assert!(dropped.is_ok() || answer.packets.is_empty());
        queue.extend(answer.packets.into_iter().map(|it| (!is_down, it)));
        match is_down {
            true => of_station.extend(answer.facts),
            false => of_access_point.extend(answer.facts),
        }
    }
    // Nobody but the two ends knows the key: what is installed is from both, and only once.
    let (theirs, ours) = (pairwise(&of_access_point), pairwise(&of_station));
    assert!(theirs.len() <= 1 && theirs.iter().all(|key| ours.contains(key)));
    assert!(
        ours.iter()
            .enumerate()
            .all(|(at, key)| !ours[..at].contains(key))
    );
    let groups = of_station.iter().filter(|it| matches!(it, Fact::Group(_)));
    assert!(groups.count() <= 1);
    while let Some(deadline) = access_point.deadline() {
        access_point.fire(deadline.at, true, &mut out);
    }
    if let Some(deadline) = station.deadline() {
        station.fire(deadline.at, &mut out);
    }
    assert!(station.deadline().is_none());
}

fn ends(akm: Akm, cipher: LinkCipher) -> (Supplicant, Authenticator, Outbox) {
    let seed = Seed::new([1; 32]);
    let (rsn, master) = (akm.element(cipher), MasterKey::new(&[5; 32]));
    let station = SupplicantConfig {
        akm,
        pairwise: permit(cipher),
        group: permit(cipher),
        own: STATION,
        authenticator: AP,
        master: master.clone(),
        rsn: rsn.clone(),
        authenticator_rsn: rsn.clone(),
    };
    let access_point = AuthenticatorConfig {
        akm,
        pairwise: permit(cipher),
        own: AP,
        supplicant: STATION,
        master,
        pmkid: None,
        rsn: rsn.clone(),
        supplicant_rsn: rsn,
    };
    let mut out = Outbox::default();
    let random = seed.stream("access point", 0);
    let access_point = Authenticator::new(access_point, random, Instant(0), &mut out);
    let station = Supplicant::new(station, seed.stream("station", 0), Instant(0));
    (station, access_point, out)
}

fn permit(cipher: LinkCipher) -> engine::link::wireless::PermittedCipher {
    cipher.permit(true).expect("legacy is permitted")
}

fn pairwise(facts: &[Fact]) -> Vec<&TemporalKey> {
    let keys = facts.iter().filter_map(|fact| match fact {
        Fact::Pairwise(key) => Some(key),
        _ => None,
    });
    keys.collect()
}

fn count(drops: &DropCounters) -> u64 {
    DropReason::ALL.iter().map(|it| drops.of(*it)).sum()
}

fn ethernet(body: &[u8]) -> Vec<u8> {
    let header = EthernetHeader {
        destination: WIRED,
        source: STATION,
        ethertype: 0x0800,
    };
    [&header.octets()[..], body].concat()
}

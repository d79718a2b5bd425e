//! A station and an access point with an air between them.

use crypto::rand::Seed;
use wire::ieee80211::{Address, EthernetHeader, Header, control};

use crate::counters::DropReason;
use crate::link::wireless::handshake::{Akm, MasterKey};
use crate::link::wireless::sae::{Method, Password};
use crate::link::wireless::*;
use crate::time::{Duration, Instant};
use crate::work::Work;

pub(super) const AP: Address = Address([2, 0, 0, 0, 0, 1]);
pub(super) const STATION: Address = Address([2, 0, 0, 0, 0, 2]);
pub(super) const OTHER: Address = Address([2, 0, 0, 0, 0, 3]);
pub(super) const WIRED: Address = Address([2, 0, 0, 0, 0, 9]);
pub(super) const SESSION: [u8; 64] = [0x5e; 64];

/// Of the eight octets that the catalogue's exchanges reckon with.
const SSID: &[u8; 8] = b"caravans";

pub(super) fn network(security: Security) -> Network {
    let ssid = SSID.to_vec();
    Network { ssid, security }
}

pub(super) fn permit(cipher: LinkCipher) -> PermittedCipher {
    cipher.permit(true).unwrap()
}

pub(super) fn wep(octet: u8) -> Security {
    let key = TemporalKey::new(permit(LinkCipher::Wep104), &[octet; 13]).unwrap();
    Security::StaticWep { key, key_id: 0 }
}

pub(super) fn rsn(akm: Akm, cipher: LinkCipher, credential: Credential) -> Security {
    let cipher = permit(cipher);
    Security::Rsn {
        akm,
        cipher,
        credential,
    }
}

pub(super) fn master(octet: u8) -> Credential {
    Credential::Master(MasterKey::new(&[octet; 32]))
}

pub(super) fn password(text: &[u8], is_hash_to_element: bool) -> Credential {
    let password = Password::new(text);
    Credential::Password(match is_hash_to_element {
        true => Method::HashToElement(password.token(SSID, b"", &mut Work::default())),
        false => Method::HuntingAndPecking(password),
    })
}

/// Every kind of security, with EAP's key where one is wanted.
pub(super) fn all() -> Vec<Security> {
    use LinkCipher::{Ccmp128, Gcmp256, Tkip, Wep40, Wep104};
    vec![
        Security::Open,
        wep(7),
        Security::DynamicWep(permit(Wep40)),
        Security::DynamicWep(permit(Wep104)),
        rsn(Akm::Psk, Tkip, master(1)),
        rsn(Akm::Psk, Ccmp128, master(1)),
        rsn(Akm::PskSha256, Gcmp256, master(1)),
        rsn(Akm::Ieee8021x, Ccmp128, Credential::None),
        rsn(Akm::Ieee8021xSha256, Gcmp256, Credential::None),
        rsn(Akm::Sae, Ccmp128, password(b"mellon", false)),
        rsn(Akm::Sae, Gcmp256, password(b"mellon", true)),
        rsn(Akm::Owe, Ccmp128, Credential::None),
    ]
}

pub(super) struct Air {
    pub(super) now: Instant,
    pub(super) access_point: AccessPoint,
    pub(super) stations: Vec<(Address, Station)>,
    pub(super) events: Vec<LinkEvent>,
    /// Of which frame of management or keys, by number, each is lost.
    pub(super) lost: Option<usize>,
    pub(super) count: usize,
    /// Data in the clear that went through the air.
    pub(super) clear: usize,
    /// Frames of management and keys.
    pub(super) carried: Vec<Vec<u8>>,
}

impl Air {
    pub(super) fn new(at_access_point: Security, at_station: Security) -> Self {
        let station = |address, number| {
            let seed = Seed::new([number; 32]);
            let it = Station::new(network(at_station.clone()), address, seed, Instant(0));
            (address, it)
        };
        Self {
            now: Instant(0),
            access_point: AccessPoint::new(network(at_access_point), AP, Seed::new([1; 32])),
            stations: vec![station(STATION, 2), station(OTHER, 3)],
            events: Vec::new(),
            lost: None,
            count: 0,
            clear: 0,
            carried: Vec::new(),
        }
    }

    pub(super) fn of(security: &Security) -> Self {
        Self::new(security.clone(), security.clone())
    }

    /// Carries frames and lets time pass, until it has.
    pub(super) fn run(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            let ends = self.stations.iter().map(|(_, it)| it.deadline());
            let ends = ends.chain([self.access_point.deadline()]);
            let Some(next) = ends.flatten().map(|it| it.at).min().filter(|at| *at <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(next);
            let mut out = AirOutbox::default();
            self.access_point.fire(self.now, &mut out);
            for (_, station) in &mut self.stations {
                station.fire(self.now, &mut out);
            }
            self.carry(out);
        }
    }

    pub(super) fn carry(&mut self, out: AirOutbox) {
        let mut queue = out.frames;
        self.events.extend(out.events);
        while !queue.is_empty() {
            let air = queue.remove(0);
            self.count += 1;
            if self.lost == Some(self.count) {
                continue;
            }
            let mut answer = AirOutbox::default();
            self.deliver(&air, &mut answer);
            self.carried.push(air);
            queue.extend(answer.frames);
            self.events.extend(answer.events);
        }
    }

    /// Everybody hears a frame; Ethernet frames that come out.
    pub(super) fn deliver(&mut self, air: &[u8], answer: &mut AirOutbox) -> Vec<Vec<u8>> {
        let (header, _) = Header::parse(air).unwrap();
        let mut frames = Vec::new();
        let mut take = |received, air: &[u8], clear: &mut usize| {
            if let Received::Frame {
                frame,
                is_protected,
            } = received
            {
                *clear += usize::from(!is_protected);
                frames.push(air[frame].to_vec());
            }
        };
        let mut heard = air.to_vec();
        if header.transmitter == AP {
            for (address, station) in &mut self.stations {
                if header.receiver == *address || header.receiver.is_group() {
                    let mut heard = air.to_vec();
                    let received = station.receive(&mut heard, self.now, answer);
                    take(received, &heard, &mut self.clear);
                }
            }
        } else {
            let received = self.access_point.receive(&mut heard, self.now, answer);
            take(received, &heard, &mut self.clear);
        }
        frames
    }

    pub(super) fn up(&mut self, frame: &[u8]) -> Result<Vec<Vec<u8>>, DropReason> {
        let mut air = vec![0; frame.len() + MAX_GROWTH];
        let len = self.stations[0].1.protect(frame, &mut air)?;
        Ok(self.deliver(&air[..len], &mut AirOutbox::default()))
    }

    pub(super) fn down(&mut self, frame: &[u8]) -> Result<Vec<Vec<u8>>, DropReason> {
        let mut air = vec![0; frame.len() + MAX_GROWTH];
        let len = self.access_point.protect(frame, &mut air)?;
        Ok(self.deliver(&air[..len], &mut AirOutbox::default()))
    }

    /// What an EAP exchange gives both ends, the access point first.
    pub(super) fn authenticate(&mut self) {
        for at in 0..self.stations.len() {
            let address = self.stations[at].0;
            let mut out = AirOutbox::default();
            let given = self
                .access_point
                .session(address, &SESSION, self.now, &mut out);
            assert_eq!(given, Ok(()));
            self.carry(out);
            let mut out = AirOutbox::default();
            let given = self.stations[at].1.session(&SESSION, self.now, &mut out);
            assert_eq!(given, Ok(()));
            self.carry(out);
        }
    }

    pub(super) fn secured(&self, peer: Address) -> usize {
        let is_it = |event: &&LinkEvent| **event == LinkEvent::Secured(peer);
        self.events.iter().filter(is_it).count()
    }

    pub(super) fn failures(&self) -> Vec<LinkFailure> {
        let failures = self.events.iter().filter_map(|event| match event {
            LinkEvent::Left(_, failure) => Some(*failure),
            _ => None,
        });
        failures.collect()
    }

    pub(super) fn works_alone(&mut self) {
        let up = data(WIRED, STATION);
        assert_eq!(self.up(&up), Ok(vec![up]));
    }

    pub(super) fn works(&mut self) {
        let (up, down) = (data(WIRED, STATION), data(STATION, WIRED));
        let to_all = data(Address::BROADCAST, WIRED);
        assert_eq!(self.up(&up), Ok(vec![up]));
        assert_eq!(self.down(&down), Ok(vec![down]));
        // Both stations get it.
        assert_eq!(self.down(&to_all), Ok(vec![to_all.clone(), to_all]));
    }
}

pub(super) fn data(destination: Address, source: Address) -> Vec<u8> {
    let header = EthernetHeader {
        destination,
        source,
        ethertype: 0x0800,
    };
    [&header.octets()[..], b"an IP packet, not really"].concat()
}

/// What a station sends until it has joined, the association request last.
pub(super) fn joining(security: &Security, address: Address) -> Vec<Vec<u8>> {
    let network = network(security.clone());
    let mut station = Station::new(network.clone(), address, Seed::new([2; 32]), Instant(0));
    let mut access_point = AccessPoint::new(network, AP, Seed::new([1; 32]));
    let (mut out, mut sent) = (AirOutbox::default(), Vec::new());
    station.fire(Instant(0), &mut out);
    loop {
        let mut air = out.frames.remove(0);
        let (header, _) = Header::parse(&air).unwrap();
        if header.transmitter != address {
            station.receive(&mut air, Instant(0), &mut out);
            continue;
        }
        sent.push(air.clone());
        if header.control == control::ASSOCIATION_REQUEST {
            return sent;
        }
        access_point.receive(&mut air, Instant(0), &mut out);
    }
}

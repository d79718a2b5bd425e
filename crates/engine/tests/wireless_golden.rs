//! Frames of every cipher and handshake, for `python/tests/test_wireless.py`: there tshark, given
//! the keys, must read them. `CARAVAN_BLESS=1` writes the file again.

use crypto::rand::{Seed, Stream};
use engine::counters::DropReason;
use engine::link::wireless::handshake::{
    Akm, Authenticator, AuthenticatorConfig, Fact, MasterKey, Outbox, Supplicant, SupplicantConfig,
};
use engine::link::wireless::owe::{OwePair, OweRole};
use engine::link::wireless::sae::{
    Admission, Method, Password, Sae, SaeConfig, SaeKeys, SaeOutbox, TokenGate,
};
use engine::link::wireless::{GroupKey, LinkCipher, MAX_GROWTH, Port, Privacy, Role, TemporalKey};
use engine::time::Instant;
use engine::work::Work;
use wire::codec::Writer;
use wire::ieee80211::{
    Address, ETHERTYPE_EAPOL, Element, EthernetHeader, control, element_id, extension,
    write_extension,
};

const GOLDEN: &str = include_str!("../testdata/wireless/air.txt");
const AP: Address = Address([2, 0, 0, 0, 0, 1]);
const STATION: Address = Address([2, 0, 0, 0, 0, 2]);
const WIRED: Address = Address([2, 0, 0, 0, 0, 9]);
const SSID: &[u8] = b"a network";
const NOW: Instant = Instant(0);

#[test]
fn the_golden_frames_are_those_of_the_link() {
    let mut text = String::new();
    for cipher in LinkCipher::ALL {
        text += &keyed(cipher);
    }
    for (akm, cipher) in [
        (Akm::Psk, LinkCipher::Tkip),
        (Akm::Psk, LinkCipher::Ccmp128),
        (Akm::Ieee8021x, LinkCipher::Ccmp128),
        (Akm::PskSha256, LinkCipher::Ccmp128),
        (Akm::Ieee8021xSha256, LinkCipher::Ccmp128),
        (Akm::Ieee8021xSha256, LinkCipher::Gcmp256),
        (Akm::Sae, LinkCipher::Ccmp128),
        (Akm::Sae, LinkCipher::Gcmp256),
        (Akm::Owe, LinkCipher::Ccmp128),
    ] {
        text += &agreed(akm, cipher);
    }
    bless(&text);
    assert!(text == GOLDEN, "CARAVAN_BLESS=1 writes the file again");
}

#[expect(
    clippy::disallowed_methods,
    reason = "writes the golden file when a person asks for it"
)]
fn bless(text: &str) {
    if std::env::var("CARAVAN_BLESS").is_ok() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/wireless/air.txt");
        std::fs::write(path, text).expect("the folder is there");
    }
}

/// A capture with a temporal key that both have from the start; WEP's is shared by all.
fn keyed(cipher: LinkCipher) -> String {
    let mut air = Air::new(cipher);
    let octets: Vec<u8> = (1..=cipher.key_len() as u8).collect();
    let key = TemporalKey::new(cipher.permit(true).expect("legacy"), &octets).expect("its length");
    let is_wep = cipher.is_wep();
    for port in [&mut air.station, &mut air.access_point] {
        if is_wep {
            port.install_shared(&key, 0);
        }
    }
    if !is_wep {
        assert!(air.station.install_pairwise(AP, &key));
        assert!(air.access_point.install_pairwise(STATION, &key));
    }
    for number in 0..3 {
        air.up(&datagram(WIRED, STATION, number));
        air.down(&datagram(STATION, WIRED, number));
    }
    if is_wep {
        air.down(&datagram(Address::BROADCAST, WIRED, 3));
    }
    let kind = if is_wep { "wep" } else { "tk" };
    format!(
        "capture {} {kind} {}\n{}",
        cipher.name(),
        hex(&octets),
        air.lines
    )
}

/// A capture that begins with the key agreement, for who has the pairwise master key.
fn agreed(akm: Akm, cipher: LinkCipher) -> String {
    let mut air = Air::new(cipher);
    let seed = Seed::new([11; 32]);
    let mut random = seed.stream("air", 0);
    let element = akm.element(cipher);
    air.manage_down(control::BEACON, &beacon(&element));
    let keys = match akm {
        Akm::Sae => Some(air.sae(&mut random)),
        _ => None,
    };
    let (ours, theirs) = owe_pairs(akm, &mut random);
    air.manage_up(
        control::ASSOCIATION_REQUEST,
        &association(&[1, 0, 10, 0], &element, &ours),
    );
    let of_access_point = association(&[1, 0, 0, 0, 1, 0xc0], &[], &theirs);
    air.manage_down(control::ASSOCIATION_RESPONSE, &of_access_point);
    let mut pmkid = keys.as_ref().map(|keys| keys.pmkid);
    let master = match (akm, keys) {
        (Akm::Psk | Akm::PskSha256, _) => {
            MasterKey::of_passphrase(b"a passphrase", SSID, &mut Work::default())
        }
        (Akm::Owe, _) => {
            let (ours, theirs) = (ours.expect("OWE"), theirs.expect("OWE"));
            let work = &mut Work::default();
            let agreed = ours.agree(OweRole::Client, &theirs.element(), work);
            let agreed = agreed.expect("a good value");
            pmkid = Some(agreed.pmkid);
            agreed.master
        }
        (_, Some(keys)) => keys.master,
        _ => MasterKey::of_eap(&[0x5e; 64]).expect("long enough"),
    };
    air.handshake(akm, &master, pmkid, &element, &seed);
    let (name, suite) = (cipher.name(), akm.suite().number() & 0xff);
    let key = hex(master.octets());
    format!("capture {name}-akm-{suite} wpa-psk {key}\n{}", air.lines)
}

fn owe_pairs(akm: Akm, random: &mut Stream) -> (Option<OwePair>, Option<OwePair>) {
    let mut pair = || {
        let is_owe = akm == Akm::Owe;
        is_owe.then(|| OwePair::generate(random, &mut Work::default()))
    };
    (pair(), pair())
}

/// Two ends, and what went through the air between them.
struct Air {
    cipher: LinkCipher,
    station: Port,
    access_point: Port,
    /// A frame and the Ethernet frame in it, or a dash.
    lines: String,
}

impl Air {
    fn new(cipher: LinkCipher) -> Self {
        let mut access_point = Port::new(Role::AccessPoint, AP, Privacy::Protected);
        assert!(access_point.join(STATION));
        Self {
            cipher,
            station: Port::new(Role::Station(AP), STATION, Privacy::Protected),
            access_point,
            lines: String::new(),
        }
    }

    fn up(&mut self, frame: &[u8]) {
        let air = sent(&mut self.station, frame);
        assert_eq!(received(&mut self.access_point, &air).as_deref(), Ok(frame));
        self.lines += &format!("{} {}\n", hex(&air), hex(frame));
    }

    fn down(&mut self, frame: &[u8]) {
        let air = sent(&mut self.access_point, frame);
        assert_eq!(received(&mut self.station, &air).as_deref(), Ok(frame));
        self.lines += &format!("{} {}\n", hex(&air), hex(frame));
    }

    fn manage_up(&mut self, kind: u16, body: &[u8]) {
        self.lines += &managed(&mut self.station, kind, AP, body);
    }

    fn manage_down(&mut self, kind: u16, body: &[u8]) {
        let to = match kind {
            control::BEACON => Address::BROADCAST,
            _ => STATION,
        };
        self.lines += &managed(&mut self.access_point, kind, to, body);
    }

    /// commit -->, <-- commit, confirm, confirm -->
    fn sae(&mut self, random: &mut Stream) -> SaeKeys {
        let password = Password::new(b"a password");
        let token = password.token(SSID, b"", &mut Work::default());
        let config = |own, peer| SaeConfig {
            method: match self.cipher {
                LinkCipher::Gcmp256 => Method::HashToElement(token.clone()),
                _ => Method::HuntingAndPecking(password.clone()),
            },
            own,
            peer,
        };
        let (of_station, of_access_point) = (config(STATION, AP), config(AP, STATION));
        let mut out = SaeOutbox::default();
        let mut station = Sae::begin(of_station, random, NOW, &mut out);
        let commit = out.bodies.remove(0);
        self.manage_up(control::AUTHENTICATION, &commit);
        let mut theirs = SaeOutbox::default();
        let mut gate = TokenGate::new(1, Seed::new([12; 32]).stream("gate", 0));
        let is_hash_to_element = of_access_point.method.is_hash_to_element();
        let admitted = gate.admit(&commit, is_hash_to_element, STATION, 0, Instant(0));
        let Ok(Admission::Admitted(commit)) = admitted else {
            panic!("a good commit");
        };
        let mut access_point = Sae::answer(of_access_point, commit, random, NOW, &mut theirs);
        for body in &theirs.bodies {
            self.manage_down(control::AUTHENTICATION, body);
            assert_eq!(station.handle(body, NOW, &mut out), Ok(()));
        }
        let confirm = out.bodies.remove(0);
        self.manage_up(control::AUTHENTICATION, &confirm);
        assert_eq!(access_point.handle(&confirm, NOW, &mut theirs), Ok(()));
        assert!(theirs.result.is_some_and(|it| it.is_ok()));
        out.result.and_then(Result::ok).expect("accepted")
    }

    /// The four messages, data, a new group key, data.
    fn handshake(
        &mut self,
        akm: Akm,
        master: &MasterKey,
        pmkid: Option<[u8; 16]>,
        element: &[u8],
        seed: &Seed,
    ) {
        let permitted = self.cipher.permit(true).expect("legacy");
        let mut out = Outbox::default();
        let config = AuthenticatorConfig {
            akm,
            pairwise: permitted,
            own: AP,
            supplicant: STATION,
            master: master.clone(),
            pmkid,
            rsn: element.to_vec(),
            supplicant_rsn: element.to_vec(),
        };
        let random = seed.stream("access point", 0);
        let mut access_point = Authenticator::new(config, random, NOW, &mut out);
        let config = SupplicantConfig {
            akm,
            pairwise: permitted,
            group: permitted,
            own: STATION,
            authenticator: AP,
            master: master.clone(),
            rsn: element.to_vec(),
            authenticator_rsn: element.to_vec(),
        };
        let mut station = Supplicant::new(config, seed.stream("station", 0), NOW);
        let first = self.group(1);
        self.access_point.install_group(&first);
        self.carry(&mut station, &mut access_point, &first, out);
        self.up(&datagram(WIRED, STATION, 1));
        self.down(&datagram(STATION, WIRED, 2));
        self.down(&datagram(Address::BROADCAST, WIRED, 3));
        let (next, mut out) = (self.group(2), Outbox::default());
        assert!(access_point.give_group(&next, NOW, &mut out));
        self.carry(&mut station, &mut access_point, &next, out);
        self.access_point.install_group(&next);
        self.down(&datagram(Address::BROADCAST, WIRED, 4));
        self.up(&datagram(WIRED, STATION, 5));
    }

    fn group(&self, key_id: u8) -> GroupKey {
        let permitted = self.cipher.permit(true).expect("legacy");
        let octets = vec![0x60 + key_id; self.cipher.key_len()];
        GroupKey {
            key: TemporalKey::new(permitted, &octets).expect("its length"),
            key_id,
            last_number: 0,
        }
    }

    /// Carries messages between both ends until nobody has more to say.
    fn carry(
        &mut self,
        station: &mut Supplicant,
        access_point: &mut Authenticator,
        group: &GroupKey,
        mut out: Outbox,
    ) {
        while !out.packets.is_empty() {
            let mut answers = Outbox::default();
            for packet in out.packets.drain(..) {
                self.down(&eapol(STATION, AP, &packet));
                assert_eq!(station.handle(&packet, &mut answers), Ok(()));
            }
            apply(&mut self.access_point, STATION, &mut out);
            for packet in answers.packets.drain(..) {
                self.up(&eapol(AP, STATION, &packet));
                let handled = access_point.handle(&packet, group, NOW, &mut out);
                assert_eq!(handled, Ok(()));
            }
            apply(&mut self.station, AP, &mut answers);
        }
        apply(&mut self.access_point, STATION, &mut out);
    }
}

fn apply(port: &mut Port, peer: Address, out: &mut Outbox) {
    for fact in out.facts.drain(..) {
        match fact {
            Fact::Pairwise(key) => assert!(port.install_pairwise(peer, &key)),
            Fact::Group(group) => port.install_group(&group),
            Fact::GroupTaken | Fact::Done => {}
            Fact::Failed(failure) => panic!("{failure}"),
            Fact::Unanswered => panic!("nobody was asked"),
        }
    }
}

fn sent(port: &mut Port, frame: &[u8]) -> Vec<u8> {
    let mut air = vec![0; frame.len() + MAX_GROWTH];
    let len = port.protect(frame, &mut air).expect("it has a key");
    air.truncate(len);
    air
}

fn received(port: &mut Port, air: &[u8]) -> Result<Vec<u8>, DropReason> {
    let mut air = air.to_vec();
    let opened = port.unprotect(&mut air, NOW)?;
    Ok(air[opened.frame].to_vec())
}

fn managed(port: &mut Port, kind: u16, to: Address, body: &[u8]) -> String {
    format!("{} -\n", hex(&port.manage(kind, to, body)))
}

/// Time, interval, capabilities, name, RSN.
fn beacon(element: &[u8]) -> Vec<u8> {
    let mut w = Writer::new();
    w.bytes(&[0; 8]);
    w.bytes(&[100, 0, 0x11, 0]);
    write_network(&mut w);
    w.bytes(element);
    w.into_vec()
}

/// Fixed fields, name, rates, RSN, and the public value of OWE.
fn association(fixed: &[u8], element: &[u8], owe: &Option<OwePair>) -> Vec<u8> {
    let mut w = Writer::new();
    w.bytes(fixed);
    write_network(&mut w);
    w.bytes(element);
    if let Some(pair) = owe {
        write_extension(extension::DIFFIE_HELLMAN, &pair.element(), &mut w);
    }
    w.into_vec()
}

/// The network's name, and the rates of 802.11b.
fn write_network(w: &mut Writer) {
    const RATES: u8 = 1;
    for (id, body) in [(element_id::SSID, SSID), (RATES, &[0x82, 0x84, 0x8b, 0x96])] {
        Element { id, body }.write(w);
    }
}

fn eapol(destination: Address, source: Address, packet: &[u8]) -> Vec<u8> {
    ethernet(destination, source, ETHERTYPE_EAPOL, packet)
}

/// UDP over IPv4 to port 9, with a text of its own.
fn datagram(destination: Address, source: Address, number: u8) -> Vec<u8> {
    let text = format!("frame {number} of the air");
    let (udp_len, ip_len) = (8 + text.len(), 28 + text.len());
    let mut packet = vec![0x45, 0, 0, ip_len as u8, 0, number, 0, 0, 64, 17, 0, 0];
    packet.extend([192, 0, 2, source.0[5], 192, 0, 2, destination.0[5]]);
    let sum = packet
        .chunks(2)
        .map(|it| u32::from(it[0]) << 8 | u32::from(it[1]));
    let sum: u32 = sum.sum();
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet.extend([0xc0, 0, 0, 9, 0, udp_len as u8, 0, 0]);
    packet.extend(text.as_bytes());
    ethernet(destination, source, 0x0800, &packet)
}

fn ethernet(destination: Address, source: Address, ethertype: u16, body: &[u8]) -> Vec<u8> {
    let header = EthernetHeader {
        destination,
        source,
        ethertype,
    };
    [header.octets().as_slice(), body].concat()
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

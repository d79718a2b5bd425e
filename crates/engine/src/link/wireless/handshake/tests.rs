//! Both ends with a network between them that the test makes.

use crypto::rand::Seed;
use wire::ieee80211::{Address, KeyFrame};

use super::*;
use crate::counters::DropReason;
use crate::link::wireless::{GroupKey, LinkCipher, TemporalKey};
use crate::time::{Duration, Instant};
use crate::work::Task;

const AP: Address = Address([2, 0, 0, 0, 0, 1]);
const STATION: Address = Address([2, 0, 0, 0, 0, 2]);
const START: Instant = Instant(1_000_000_000);

struct Pair {
    station: Supplicant,
    access_point: Authenticator,
    group: GroupKey,
    now: Instant,
    to_station: Vec<Vec<u8>>,
    to_access_point: Vec<Vec<u8>>,
    station_facts: Vec<Fact>,
    access_point_facts: Vec<Fact>,
}

fn group(cipher: LinkCipher, octet: u8) -> GroupKey {
    let permitted = cipher.permit(true).unwrap();
    GroupKey {
        key: TemporalKey::new(permitted, &vec![octet; cipher.key_len()]).unwrap(),
        key_id: 1 + octet % 2,
        last_number: 0x0102_0304_0506,
    }
}

impl Pair {
    fn new(akm: Akm, cipher: LinkCipher) -> Self {
        Self::with(akm, cipher, |_, _| {})
    }

    fn with(
        akm: Akm,
        cipher: LinkCipher,
        change: impl Fn(&mut SupplicantConfig, &mut AuthenticatorConfig),
    ) -> Self {
        let seed = Seed::new([7; 32]);
        let permitted = cipher.permit(true).unwrap();
        let (master, element) = (MasterKey::new(&[0x42; 32]), akm.element(cipher));
        let mut station = SupplicantConfig {
            akm,
            pairwise: permitted,
            group: permitted,
            own: STATION,
            authenticator: AP,
            master: master.clone(),
            rsn: element.clone(),
            authenticator_rsn: element.clone(),
        };
        let mut access_point = AuthenticatorConfig {
            akm,
            pairwise: permitted,
            own: AP,
            supplicant: STATION,
            master,
            pmkid: Some([0x33; 16]),
            rsn: element.clone(),
            supplicant_rsn: element,
        };
        change(&mut station, &mut access_point);
        let mut out = Outbox::default();
        let random = seed.stream("access point", 0);
        let access_point = Authenticator::new(access_point, random, START, &mut out);
        Self {
            station: Supplicant::new(station, seed.stream("station", 0), START),
            access_point,
            group: group(cipher, 1),
            now: START,
            to_station: out.packets,
            to_access_point: Vec::new(),
            station_facts: Vec::new(),
            access_point_facts: Vec::new(),
        }
    }

    /// Delivers the oldest packet for the station.
    fn down(&mut self) -> Result<(), DropReason> {
        let packet = self.to_station.remove(0);
        self.give_station(&packet)
    }

    fn give_station(&mut self, packet: &[u8]) -> Result<(), DropReason> {
        let mut out = Outbox::default();
        let handled = self.station.handle(packet, &mut out);
        self.to_access_point.extend(out.packets);
        self.station_facts.extend(out.facts);
        handled
    }

    fn up(&mut self) -> Result<(), DropReason> {
        let packet = self.to_access_point.remove(0);
        self.give_access_point(&packet)
    }

    fn give_access_point(&mut self, packet: &[u8]) -> Result<(), DropReason> {
        let mut out = Outbox::default();
        let now = self.now;
        let handled = self.access_point.handle(packet, &self.group, now, &mut out);
        self.take(out);
        handled
    }

    /// What the access point has put out.
    fn take(&mut self, out: Outbox) {
        self.to_station.extend(out.packets);
        self.access_point_facts.extend(out.facts);
    }

    /// Lets time pass until the access point does something.
    fn wait(&mut self) {
        let mut out = Outbox::default();
        self.now = self.access_point.deadline().expect("it waits").at;
        self.access_point.fire(self.now, true, &mut out);
        self.take(out);
    }

    /// The four messages.
    fn complete(&mut self) {
        // {ANonce} -->, <-- {SNonce, RSN, MIC}
        assert_eq!((self.down(), self.up()), (Ok(()), Ok(())));
        // {ANonce, RSN, GTK, MIC} -->, <-- {MIC}
        assert_eq!((self.down(), self.up()), (Ok(()), Ok(())));
        assert!(self.to_station.is_empty() && self.to_access_point.is_empty());
    }
}

#[test]
fn who_has_the_keys_answers_whether_it_is_there() {
    for (akm, cipher) in CHOICES {
        let mut pair = Pair::new(akm, cipher);
        pair.complete();
        let installed = group_keys(&pair.station_facts);
        let ask = |pair: &mut Pair| {
            let (mut out, group) = (Outbox::default(), pair.group.clone());
            pair.access_point.ask(&group, pair.now, &mut out);
            pair.take(out);
        };
        // {GTK, MIC} -->, <-- {MIC}
        ask(&mut pair);
        ask(&mut pair);
        assert_eq!(pair.to_station.len(), 1, "asked once");
        assert_eq!((pair.down(), pair.up()), (Ok(()), Ok(())));
        assert!(pair.access_point_facts.last() == Some(&Fact::GroupTaken));
        // The same key is not installed again.
        assert_eq!(group_keys(&pair.station_facts), installed);
        let began = pair.now;
        ask(&mut pair);
        for _ in 0..5 {
            assert!(pair.access_point_facts.last() == Some(&Fact::GroupTaken));
            pair.wait();
        }
        assert!(pair.access_point_facts.last() == Some(&Fact::Unanswered));
        assert_eq!(
            pair.now.since(began),
            5 * Duration::from_micros(201 * 1_024)
        );
        assert_eq!(pair.to_station.len(), 5);
        // An answer is too late then, but the station has its keys, and can be asked again.
        pair.to_station.drain(..4);
        assert_eq!(pair.down(), Ok(()));
        assert_eq!(pair.up(), Err(DropReason::Replayed));
        assert!(pair.access_point.has_keys() && pair.access_point.deadline().is_none());
        ask(&mut pair);
        assert_eq!((pair.down(), pair.up()), (Ok(()), Ok(())));
        assert!(pair.access_point_facts.last() == Some(&Fact::GroupTaken));
    }
}

fn pairwise_keys(facts: &[Fact]) -> Vec<&TemporalKey> {
    let keys = facts.iter().filter_map(|fact| match fact {
        Fact::Pairwise(key) => Some(key),
        _ => None,
    });
    keys.collect()
}

fn group_keys(facts: &[Fact]) -> usize {
    let is_group = |fact: &&Fact| matches!(fact, Fact::Group(_));
    facts.iter().filter(is_group).count()
}

const CHOICES: [(Akm, LinkCipher); 9] = [
    (Akm::Psk, LinkCipher::Tkip),
    (Akm::Ieee8021x, LinkCipher::Tkip),
    (Akm::Psk, LinkCipher::Ccmp128),
    (Akm::Ieee8021x, LinkCipher::Ccmp128),
    (Akm::PskSha256, LinkCipher::Ccmp128),
    (Akm::Ieee8021xSha256, LinkCipher::Gcmp256),
    (Akm::Sae, LinkCipher::Ccmp128),
    (Akm::Sae, LinkCipher::Gcmp256),
    (Akm::Owe, LinkCipher::Ccmp128),
];

#[test]
fn both_ends_get_the_same_keys_with_every_akm() {
    for (akm, cipher) in CHOICES {
        let mut pair = Pair::new(akm, cipher);
        pair.complete();
        let station = pairwise_keys(&pair.station_facts);
        let access_point = pairwise_keys(&pair.access_point_facts);
        assert!(station.len() == 1 && station == access_point, "{akm:?}");
        assert_eq!(station[0].cipher(), cipher);
        assert!(pair.station_facts[1] == Fact::Group(pair.group.clone()));
        assert!(pair.station_facts[2..] == [Fact::Done]);
        assert!(pair.access_point_facts[1..] == [Fact::Done]);
        let ends = (pair.station.deadline(), pair.access_point.deadline());
        assert_eq!(ends, (None, None));
        let tasks = pair.station.work().entries();
        assert!(tasks.iter().any(|(task, ..)| matches!(task, Task::Prf(_))));
    }
}

#[test]
fn any_message_may_be_lost_once() {
    for (akm, cipher) in CHOICES {
        for lost in 1..=4 {
            let mut pair = Pair::new(akm, cipher);
            let mut count = 0;
            let mut is_lost = |queue: &mut Vec<Vec<u8>>| {
                count += 1;
                if count == lost {
                    queue.remove(0);
                }
                count == lost
            };
            while pair.access_point_facts.is_empty() {
                if pair.to_station.is_empty() && pair.to_access_point.is_empty() {
                    pair.wait();
                }
                while !pair.to_station.is_empty() {
                    if !is_lost(&mut pair.to_station) {
                        assert_eq!(pair.down(), Ok(()));
                    }
                }
                while !pair.to_access_point.is_empty() {
                    if !is_lost(&mut pair.to_access_point) {
                        assert_eq!(pair.up(), Ok(()));
                    }
                }
            }
            let station = pairwise_keys(&pair.station_facts);
            assert!(station.len() == 1, "{akm:?} {lost}");
            assert!(station == pairwise_keys(&pair.access_point_facts));
            assert_eq!(group_keys(&pair.station_facts), 1);
        }
    }
}

/// Key reinstallation (KRACK): a message 3 that comes again, under a new counter as authenticators
/// repeat it, is answered, and installs nothing.
#[test]
fn a_repeated_message_3_installs_nothing() {
    let mut pair = Pair::new(Akm::Psk, LinkCipher::Ccmp128);
    assert_eq!((pair.down(), pair.up()), (Ok(()), Ok(())));
    let third = pair.to_station[0].clone();
    assert_eq!(pair.down(), Ok(()));
    assert_eq!(pair.give_station(&third), Err(DropReason::Replayed));
    // Message 4 is lost.
    pair.to_access_point.clear();
    for _ in 0..3 {
        pair.wait();
        assert_eq!(pair.down(), Ok(()));
    }
    assert_eq!(pairwise_keys(&pair.station_facts).len(), 1);
    assert_eq!(group_keys(&pair.station_facts), 1);
    assert_eq!(pair.to_access_point.len(), 3);
    // An answer to any repetition counts, once.
    assert_eq!(pair.up(), Ok(()));
    assert_eq!(pair.up(), Err(DropReason::Replayed));
}

#[test]
fn silence_is_told_by_message() {
    let mut pair = Pair::new(Akm::Psk, LinkCipher::Ccmp128);
    let mut at = Vec::new();
    while pair.access_point_facts.is_empty() {
        pair.wait();
        at.push(pair.now.since(START).as_millis());
    }
    assert_eq!(at, [100, 1_100, 2_100, 3_100]);
    assert_eq!(pair.to_station.len(), 4);
    let failed = |number| Fact::Failed(Failure::NoAnswer(number));
    assert!(pair.access_point_facts == [failed(1)]);

    let mut pair = Pair::new(Akm::Psk, LinkCipher::Ccmp128);
    assert_eq!((pair.down(), pair.up()), (Ok(()), Ok(())));
    while pair.access_point_facts.is_empty() {
        pair.wait();
    }
    assert!(pair.access_point_facts == [failed(3)]);
    let mut out = Outbox::default();
    pair.station
        .fire(START + (PATIENCE - Duration::from_nanos(1)), &mut out);
    assert!(out.facts.is_empty());
    pair.station.fire(START + PATIENCE, &mut out);
    assert!(out.facts == [Fact::Failed(Failure::NoMessage)]);
    assert!(pair.station.deadline().is_none());
}

#[test]
fn another_master_key_is_noticed_by_the_access_point() {
    for (akm, cipher) in CHOICES {
        let mut pair = Pair::with(akm, cipher, |station, _| {
            station.master = MasterKey::new(&[0x43; 32]);
        });
        while pair.access_point_facts.is_empty() {
            assert_eq!(pair.down(), Ok(()));
            assert_eq!(pair.up(), Err(DropReason::BadHash));
            pair.wait();
        }
        assert!(pair.access_point_facts == [Fact::Failed(Failure::WrongKey)]);
        assert_eq!(pair.access_point.drops().of(DropReason::BadHash), 4);
        assert!(pair.station_facts.is_empty());
    }
}

/// Whoever changed beacons or the association request, to weaken the ciphers, is found out.
#[test]
fn other_rsn_elements_end_the_handshake() {
    let weak = Akm::Psk.element(LinkCipher::Tkip);
    let mut pair = Pair::with(Akm::Psk, LinkCipher::Ccmp128, |_, access_point| {
        access_point.supplicant_rsn = weak.clone();
    });
    assert_eq!(pair.down(), Ok(()));
    assert_eq!(pair.up(), Err(DropReason::AuthenticationFailed));
    assert!(pair.access_point_facts == [Fact::Failed(Failure::OtherRsn)]);
    assert!(pair.access_point.deadline().is_none());

    let mut pair = Pair::with(Akm::Psk, LinkCipher::Ccmp128, |station, _| {
        station.authenticator_rsn = weak.clone();
    });
    assert_eq!((pair.down(), pair.up()), (Ok(()), Ok(())));
    assert_eq!(pair.down(), Err(DropReason::AuthenticationFailed));
    assert!(pair.station_facts == [Fact::Failed(Failure::OtherRsn)]);
    assert!(pair.to_access_point.is_empty());
}

#[test]
fn a_changed_message_is_dropped() {
    for (akm, cipher) in [
        (Akm::Psk, LinkCipher::Ccmp128),
        (Akm::Psk, LinkCipher::Tkip),
    ] {
        let mut pair = Pair::new(akm, cipher);
        assert_eq!(pair.down(), Ok(()));
        let second = pair.to_access_point[0].clone();
        for at in 5..second.len() {
            let mut changed = second.clone();
            changed[at] ^= 2;
            assert!(pair.give_access_point(&changed).is_err(), "{at}");
        }
        assert!(pair.to_station.is_empty());
        assert_eq!(pair.up(), Ok(()));
        let third = pair.to_station[0].clone();
        for at in 5..third.len() {
            let mut changed = third.clone();
            changed[at] ^= 2;
            // A changed type or MIC bit may make it a message 1, which is tried.
            if !(5..=6).contains(&at) {
                assert!(pair.give_station(&changed).is_err(), "{at}");
            }
        }
        for end in 0..third.len() {
            assert!(pair.give_station(&third[..end]).is_err(), "{end}");
        }
        assert!(pair.station_facts.is_empty());
        assert_eq!(pair.down(), Ok(()));
        assert_eq!(group_keys(&pair.station_facts), 1);
    }
}

/// A forged message 1 has no MIC. An access point that has sent message 3 sends no message 1 again.
#[test]
fn a_forged_first_message_costs_nothing() {
    let mut pair = Pair::new(Akm::Psk, LinkCipher::Ccmp128);
    let mut forged = pair.to_station[0].clone();
    forged[20] ^= 1;
    forged[9..17].fill(0xff);
    assert_eq!((pair.down(), pair.up()), (Ok(()), Ok(())));
    assert_eq!(pair.give_station(&forged), Ok(()));
    pair.to_access_point.clear();
    assert_eq!((pair.down(), pair.up()), (Ok(()), Ok(())));
    let keys = pairwise_keys(&pair.station_facts);
    assert!(keys.len() == 1 && keys == pairwise_keys(&pair.access_point_facts));
}

/// Message 4 is lost, and comes again under the key that the station has, whatever is forged.
#[test]
fn a_forged_first_message_after_the_third_costs_nothing() {
    let mut pair = Pair::new(Akm::Psk, LinkCipher::Ccmp128);
    let mut forged = pair.to_station[0].clone();
    forged[20] ^= 1;
    forged[9..17].fill(0xff);
    assert_eq!(
        (pair.down(), pair.up(), pair.down()),
        (Ok(()), Ok(()), Ok(()))
    );
    assert_eq!(pair.give_station(&forged), Ok(()));
    pair.to_access_point.clear();
    pair.wait();
    assert_eq!((pair.down(), pair.up()), (Ok(()), Ok(())));
    let keys = pairwise_keys(&pair.station_facts);
    assert!(keys.len() == 1 && keys == pairwise_keys(&pair.access_point_facts));
}

#[test]
fn a_new_group_key_is_given_and_installed_once() {
    for (akm, cipher) in CHOICES {
        let mut pair = Pair::new(akm, cipher);
        let mut out = Outbox::default();
        let next = group(cipher, 2);
        assert!(!pair.access_point.give_group(&next, START, &mut out));
        pair.complete();
        pair.group = next.clone();
        assert!(pair.access_point.give_group(&next, START, &mut out));
        pair.take(out);
        let message = pair.to_station[0].clone();
        assert_eq!(pair.down(), Ok(()));
        assert_eq!(pair.give_station(&message), Err(DropReason::Replayed));
        // The answer is lost; the repetition is answered and installs nothing.
        pair.to_access_point.clear();
        pair.wait();
        assert_eq!((pair.down(), pair.up()), (Ok(()), Ok(())));
        assert_eq!(group_keys(&pair.station_facts), 2);
        assert!(pair.station_facts.last() == Some(&Fact::Group(next)));
        assert!(pair.access_point_facts[1..] == [Fact::Done, Fact::GroupTaken]);
        let group = pair.group.clone();
        assert!(pair.access_point.has_group(&group));
        assert!(
            !pair
                .access_point
                .give_group(&group, START, &mut Outbox::default())
        );
        assert!(pair.access_point.deadline().is_none());
    }
}

#[test]
fn what_is_no_message_of_ours_is_dropped() {
    let mut pair = Pair::new(Akm::Psk, LinkCipher::Ccmp128);
    let first = pair.to_station[0].clone();
    let refused = |pair: &mut Pair, at: usize, value: u8| {
        let mut packet = first.clone();
        packet[at] = value;
        pair.give_station(&packet).unwrap_err()
    };
    let unexpected = DropReason::UnexpectedMessage;
    assert_eq!(refused(&mut pair, 1, 0), unexpected);
    assert_eq!(refused(&mut pair, 4, 254), unexpected);
    assert_eq!(refused(&mut pair, 4, 1), DropReason::MalformedMessage);
    // Another descriptor version, and no answer wanted.
    assert_eq!(refused(&mut pair, 6, 0x8b), unexpected);
    assert_eq!(refused(&mut pair, 6, 0x0a), unexpected);
    assert_eq!(pair.give_access_point(&first), Err(unexpected));
    // The padding of Ethernet does not count.
    let padded = [&first[..], &[0; 9]].concat();
    assert_eq!(pair.give_station(&padded), Ok(()));
    let mut second = pair.to_access_point.remove(0);
    second.extend([0; 4]);
    assert_eq!(pair.give_access_point(&second), Ok(()));
    let third = &pair.to_station[1];
    let frame = KeyFrame::parse(&third[4..]).unwrap();
    assert_eq!(frame.receive_sequence, [6, 5, 4, 3, 2, 1, 0, 0]);
    assert_eq!((frame.key_length, frame.replay_counter), (16, 2));
}

#[test]
fn master_keys_come_from_passphrases_and_from_eap() {
    let mut work = crate::work::Work::default();
    let key = MasterKey::of_passphrase(b"password", b"IEEE", &mut work);
    assert_eq!(key.octets()[..4], [0xf4, 0x2c, 0x6f, 0xc5]);
    assert_eq!(work.entries(), [(Task::Passphrase, 1, 8)]);
    let session: Vec<u8> = (0..64).collect();
    let key = MasterKey::of_eap(&session).unwrap();
    assert_eq!(key.octets()[..], session[..32]);
    assert!(MasterKey::of_eap(&session[..63]).is_none());
}

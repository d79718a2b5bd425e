use crypto::cipher::Cipher;
use crypto::dh::Group;
use crypto::hash::Hash;
use crypto::packet::Encryption;
use crypto::rand::{Seed, Stream};
use proptest::prelude::*;
use wire::isakmp::{
    Attribute, AttributeValue, Identification, NotifyType, Payload, PayloadKind, SaPayload, phase2,
};

use super::*;
use crate::ike::{Fault, Groups, Outbox, Role, Step};
use crate::ikev1::NatFinding;
use crate::ikev1::protect::Opened;
use crate::ikev1::testing::{child, isakmp_pair, selector};
use crate::sa::{Mode, Protocol, Secret};
use crate::selector::TrafficSelector;
use crate::suite::{EspSuite, Pfs};
use crate::time::Duration;
use crate::work::Task;

/// Passes octets to an exchange. Those without a valid header do not reach it.
fn takes(
    quick: &mut Quick,
    sa: &IsakmpSa,
    octets: &[u8],
    now: Instant,
    out: &mut Outbox,
) -> Result<QuickProgress, Fault> {
    match Message::parse(octets) {
        Ok(message) => quick.on_message(sa, &message, now, out),
        Err(reason) => {
            out.drops.count(reason);
            Ok(QuickProgress::Pending)
        }
    }
}

fn read_offer(
    sa: &IsakmpSa,
    octets: &[u8],
    out: &mut Outbox,
) -> Result<(Quick, ChildOffer), Fault> {
    Quick::offered(sa, &Message::parse(octets)?, out)
}

const ID: u32 = 0x0102_0304;
const SPI_I: u32 = 0x1111_0001;
const SPI_R: u32 = 0x2222_0002;

/// A client and a gateway with an ISAKMP SA.
struct Pair {
    station: IsakmpSa,
    gateway: IsakmpSa,
    station_child: Child,
    gateway_child: Child,
    random: Stream,
    now: Instant,
}

/// Both ends' results and the messages between them.
struct Done {
    station: NegotiatedChild,
    gateway: NegotiatedChild,
    messages: Vec<Vec<u8>>,
    work: [crate::work::Work; 2],
}

impl Pair {
    fn new(words: &[&str]) -> Self {
        let (station, gateway) = isakmp_pair("aes128-sha256-modp2048");
        let mut pair = Self {
            station,
            gateway,
            station_child: child(),
            gateway_child: child(),
            random: Seed::new([7; 32]).stream("quick", 0),
            now: Instant(0),
        };
        let suites: Vec<EspSuite> = words.iter().map(|word| word.parse().unwrap()).collect();
        pair.station_child.proposals = suites.clone();
        pair.gateway_child.proposals = suites;
        pair.station_child.local = vec![selector("10.9.0.1")];
        pair.station_child.remote = vec![selector("10.1.0.0/16")];
        pair.gateway_child.local = vec![selector("10.1.0.0/16")];
        pair.gateway_child.remote = vec![selector("10.9.0.0/24")];
        pair
    }

    fn transport(mut self) -> Self {
        for child in [&mut self.station_child, &mut self.gateway_child] {
            child.mode = Mode::Transport;
            child.local.clear();
            child.remote.clear();
        }
        self
    }

    /// The client is behind a NAT.
    fn with_nat(mut self) -> Self {
        let nat = NatFinding {
            is_supported: true,
            is_local: true,
            is_remote: false,
            is_pretended: false,
        };
        self.station.nat = nat;
        self.gateway.nat = NatFinding {
            is_local: false,
            is_remote: true,
            ..nat
        };
        self
    }

    fn request(&self) -> ChildRequest<'_> {
        let own = |child: &Child, path: IpAddr| match child.mode {
            Mode::Tunnel => child.local[0],
            Mode::Transport => TrafficSelector::host(path),
        };
        let peer = |child: &Child, path: IpAddr| match child.mode {
            Mode::Tunnel => child.remote[0],
            Mode::Transport => TrafficSelector::host(path),
        };
        ChildRequest {
            child: &self.station_child,
            spi: SPI_I,
            local: vec![own(&self.station_child, self.station.path.local.ip())],
            remote: vec![peer(&self.station_child, self.station.path.remote.ip())],
            needs_udp: false,
            groups: Groups::default(),
        }
    }

    /// Message 1 -->
    fn ask(&mut self) -> Result<(Quick, Outbox), Fault> {
        let mut out = Outbox::default();
        let mut random = Seed::new([1; 32]).stream("station", 0);
        let request = self.request();
        let quick = Quick::initiate(&self.station, request, ID, &mut random, self.now, &mut out)?;
        Ok((quick, out))
    }

    /// <-- message 2
    fn answer(&mut self, first: &[u8]) -> Result<(Quick, Box<NegotiatedChild>, Outbox), Fault> {
        let mut out = Outbox::default();
        let (mut quick, _) = read_offer(&self.gateway, first, &mut out)?;
        let own = self.gateway.path.local.ip();
        let (sa, child) = (&self.gateway, &self.gateway_child);
        let agreed = quick.accept(sa, child, SPI_R, own, &mut self.random, self.now, &mut out)?;
        Ok((quick, agreed, out))
    }

    fn run(&mut self) -> Result<Done, Fault> {
        // HASH(1), SA, Ni, ... -->
        let (mut asked, mut out_i) = self.ask()?;
        let first = only(&out_i);
        // <-- HASH(2), SA, Nr, ...
        let (mut answered, inbound, mut out_r) = self.answer(&first)?;
        let second = only(&out_r);
        out_i.messages.clear();
        let progress = takes(&mut asked, &self.station, &second, self.now, &mut out_i)?;
        let QuickProgress::Complete(station) = progress else {
            panic!("the initiator has no child");
        };
        // HASH(3) -->
        let third = only(&out_i);
        let progress = takes(&mut answered, &self.gateway, &third, self.now, &mut out_r)?;
        let QuickProgress::Complete(gateway) = progress else {
            panic!("the responder has no child");
        };
        assert!(asked.is_done() && answered.is_done());
        assert!(inbound.keys_in.0.0 == gateway.keys_in.0.0 && inbound.spi_in == gateway.spi_in);
        Ok(Done {
            station: *station,
            gateway: *gateway,
            messages: vec![first, second, third],
            work: [out_i.work, out_r.work],
        })
    }

    fn fault(&mut self) -> String {
        match self.run() {
            Ok(_) => panic!("it succeeded"),
            Err(fault) => fault.to_string(),
        }
    }
}

fn only(out: &Outbox) -> Vec<u8> {
    assert_eq!(out.messages.len(), 1);
    out.messages[0].message.clone()
}

fn is_pending(progress: Result<QuickProgress, Fault>) -> bool {
    matches!(progress, Ok(QuickProgress::Pending))
}

/// Message 1 decrypted.
fn opened_first(pair: &Pair, message: &[u8]) -> Opened {
    let mut iv = pair.gateway.first_iv(ID);
    let id = ID.to_be_bytes();
    let mut work = crate::work::Work::default();
    let opened = pair.gateway.open_hashed(
        &Message::parse(message).unwrap(),
        &mut iv,
        &[&id],
        &mut work,
    );
    opened.unwrap_or_else(|_| panic!("message 1 does not open"))
}

/// A message that a peer with our keys could have sent.
fn forged_first(pair: &Pair, change: impl FnOnce(&mut Vec<Payload>)) -> Vec<u8> {
    let mut out = Outbox::default();
    let mut random = Seed::new([1; 32]).stream("station", 0);
    let made = Quick::initiate(
        &pair.station,
        pair.request(),
        ID,
        &mut random,
        Instant(0),
        &mut out,
    );
    assert!(made.is_ok());
    let opened = opened_first(pair, &only(&out));
    let located = opened.payloads.iter().skip(1);
    let mut chain: Vec<Payload> = located.map(|located| located.payload.clone()).collect();
    change(&mut chain);
    let mut iv = pair.station.first_iv(ID);
    let id = ID.to_be_bytes();
    let (exchange, work) = (Exchange::QuickMode, &mut out.work);
    pair.station
        .seal_hashed(exchange, ID, &mut iv, &[&id], chain, work)
}

fn sa_of(chain: &mut [Payload]) -> &mut SaPayload {
    chain
        .iter_mut()
        .find_map(|payload| match payload {
            Payload::Sa(sa) => Some(sa),
            _ => None,
        })
        .unwrap()
}

fn check_agreement(done: &Done, pair: &Pair, suite: EspSuite, is_udp: bool) {
    let (station, gateway) = (&done.station, &done.gateway);
    for child in [station, gateway] {
        assert_eq!(child.suite, suite);
        assert_eq!(child.mode, pair.station_child.mode);
        assert_eq!(child.is_udp_encapsulated, is_udp);
        let (key_len, hash_len) = (
            suite.protection.encryption_key_len(),
            suite.protection.integrity_key_len(),
        );
        assert_eq!(child.keys_in.0.0.len(), key_len);
        assert_eq!(child.keys_in.1.0.len(), hash_len);
    }
    assert!(station.keys_in.0.0 == gateway.keys_out.0.0);
    assert!(station.keys_in.1.0 == gateway.keys_out.1.0);
    assert!(station.keys_out.0.0 == gateway.keys_in.0.0);
    assert!(station.keys_out.1.0 == gateway.keys_in.1.0);
    let key = |keys: &(Secret, Secret)| [keys.0.0.clone(), keys.1.0.clone()].concat();
    assert!(key(&station.keys_in) != key(&station.keys_out));
    assert_eq!((station.spi_in, station.spi_out), (SPI_I, SPI_R));
    assert_eq!((gateway.spi_in, gateway.spi_out), (SPI_R, SPI_I));
    assert_eq!(station.local, gateway.remote);
    assert_eq!(station.remote, gateway.local);
}

#[test]
fn every_suite_agrees_in_both_modes_with_and_without_pfs_and_nat() {
    for suite in EspSuite::catalogue() {
        let curve = Some(Group::Curve25519.into());
        let modp = Some(Group::Modp1024.into());
        for (pfs, has_esn) in [(None, false), (modp, true), (curve, false)] {
            let has_esn = has_esn && suite.protection.is_authenticated();
            let suite = EspSuite {
                pfs,
                has_esn,
                ..suite
            };
            for (is_transport, has_nat) in
                [(false, false), (false, true), (true, false), (true, true)]
            {
                let mut pair = Pair::new(&[&suite.to_string()]);
                pair = if is_transport { pair.transport() } else { pair };
                pair = if has_nat { pair.with_nat() } else { pair };
                let done = pair.run();
                if suite.protocol == Protocol::Ah && has_nat {
                    let fault = done.err().unwrap().to_string();
                    assert!(
                        fault.ends_with("AH does not pass a NAT, and one is on the way"),
                        "{fault}"
                    );
                    continue;
                }
                let done = done.unwrap_or_else(|fault| panic!("{suite}: {fault}"));
                check_agreement(&done, &pair, suite, has_nat);
                assert_eq!(done.gateway.original.is_some(), is_transport && has_nat);
            }
        }
    }
}

#[test]
fn original_addresses_are_told_both_ways_in_transport_mode_behind_a_nat() {
    let mut pair = Pair::new(&["aes128gcm16"]).transport().with_nat();
    let done = pair.run().ok().unwrap();
    let (station, gateway) = (&pair.station.path, &pair.gateway.path);
    assert_ne!(
        station.local.ip(),
        gateway.remote.ip(),
        "the NAT translates"
    );
    let told = done.gateway.original.unwrap();
    assert_eq!(told.peer, station.local.ip());
    assert_eq!(told.own, station.remote.ip());
    let told = done.station.original.unwrap();
    assert_eq!(told.peer, gateway.local.ip());
    assert_eq!(told.own, gateway.remote.ip());
}

#[test]
fn messages_carry_what_rfc_2409_says_and_cost_what_they_cost() {
    let mut pair = Pair::new(&["aes128gcm16-modp1024"]);
    let (_, out) = pair.ask().ok().unwrap();
    assert_eq!(out.messages[0].step, Step::Quick(1));
    assert_eq!(out.messages[0].payloads, "HASH SA NONCE KE ID ID");
    let (_, _, out) = pair.answer(&only(&out)).ok().unwrap();
    assert_eq!(out.messages[0].payloads, "HASH SA NONCE KE ID ID");
    assert_eq!(out.received[0].payloads, "HASH SA NONCE KE ID ID");
    let done = pair.run().ok().unwrap();
    for work in &done.work {
        let count = |task| {
            let found = work.entries().iter().find(|entry| entry.0 == task);
            found.map_or(0, |entry| entry.1)
        };
        assert_eq!(count(Task::KeyPair(Group::Modp1024)), 1);
        assert_eq!(count(Task::Agree(Group::Modp1024)), 1);
        assert_eq!(count(Task::MessageCipher(Cipher::Aes128)), 3);
        // Three hashes, and one block of KEYMAT for each direction.
        assert_eq!(count(Task::Prf(Hash::Sha256)), 5);
    }
}

#[test]
fn hashes_are_those_of_rfc_2409() {
    let mut pair = Pair::new(&["aes128gcm16"]);
    let done = pair.run().ok().unwrap();
    let (cipher, hash) = (Cipher::Aes128, Hash::Sha256);
    assert_eq!(
        (pair.station.suite.cipher, pair.station.suite.hash),
        (cipher, hash)
    );
    let key = crypto::cipher::CbcKey::new(cipher, &pair.station.cipher_key.0);
    let mut iv = hash
        .digest(&[&pair.station.last_iv, &ID.to_be_bytes()])
        .as_ref()[..16]
        .to_vec();
    let mut nonces: Vec<Vec<u8>> = Vec::new();
    for (i, message) in done.messages.iter().enumerate() {
        let mut body = message[28..].to_vec();
        let next_iv = body[body.len() - 16..].to_vec();
        key.decrypt(&iv, &mut body);
        iv = next_iv;
        let found = wire::isakmp::payloads(PayloadKind::Hash, &body).unwrap();
        let covered = &body[found[0].range.end..found.last().unwrap().range.end];
        let parts: Vec<&[u8]> = match i {
            0 => vec![&[1, 2, 3, 4], covered],
            1 => vec![&[1, 2, 3, 4], &nonces[0], covered],
            _ => vec![&[0], &[1, 2, 3, 4], &nonces[0], &nonces[1]],
        };
        let expected = hash.hmac(&pair.station.skeyid_a.0, &parts);
        assert_eq!(&body[found[0].body_range()], expected.as_ref());
        let nonce = found.iter().find_map(|located| match &located.payload {
            Payload::Nonce(nonce) => Some(nonce.clone()),
            _ => None,
        });
        nonces.extend(nonce);
    }
    assert!(nonces.iter().all(|nonce| nonce.len() == 32));
    // KEYMAT: prf(SKEYID_d, protocol | SPI | Ni_b | Nr_b), 20 of 32 octets.
    let spi = SPI_I.to_be_bytes();
    let parts = [&[3][..], &spi, &nonces[0], &nonces[1]];
    let keymat = hash.hmac(&pair.station.skeyid_d.0, &parts);
    assert!(done.station.keys_in.0.0 == keymat.as_ref()[..20]);
}

#[test]
fn the_responder_chooses_by_its_own_preference() {
    let mut pair = Pair::new(&["null-sha1", "aes128-sha1", "aes256gcm16"]);
    pair.gateway_child.proposals = vec![
        "chacha20poly1305".parse().unwrap(),
        "aes256gcm16".parse().unwrap(),
        "null-sha1".parse().unwrap(),
    ];
    let done = pair.run().ok().unwrap();
    assert_eq!(done.station.suite.to_string(), "aes256gcm16");
}

#[test]
fn esp_and_ah_are_choices_in_their_order() {
    let mut pair = Pair::new(&["aes128gcm16", "ah-sha256", "ah-sha1", "null-sha1"]);
    pair.gateway_child.proposals = vec!["ah-sha1".parse().unwrap()];
    let (_, out) = pair.ask().ok().unwrap();
    let opened = opened_first(&pair, &only(&out));
    let Payload::Sa(offered) = &opened.payloads[1].payload else {
        panic!("no SA payload");
    };
    let shape: Vec<_> = offered
        .proposals
        .iter()
        .map(|proposal| (proposal.number, proposal.transforms.len()))
        .collect();
    assert_eq!(shape, [(1, 1), (2, 2), (3, 1)]);
    let done = pair.run().ok().unwrap();
    assert_eq!(done.gateway.suite.protocol, Protocol::Ah);
}

#[test]
fn chacha_is_offered_to_a_caravan_only() {
    let mut pair = Pair::new(&["chacha20poly1305", "aes128gcm16"]);
    pair.station.peer.caravan = false;
    let done = pair.run().ok().unwrap();
    assert_eq!(done.station.suite.to_string(), "aes128gcm16");
    pair.station_child.proposals.truncate(1);
    assert!(pair.fault().ends_with("only a Caravan takes ours"));
    // Another implementation that offers it is not understood.
    pair.station.peer.caravan = true;
    pair.gateway.peer.caravan = false;
    assert!(pair.fault().contains("ESP transform 253"));
}

#[test]
fn all_offers_have_the_group_of_the_first() {
    let mut pair = Pair::new(&["aes128gcm16-modp1024", "aes128-sha1", "null-sha1-modp1024"]);
    let (_, out) = pair.ask().ok().unwrap();
    let opened = opened_first(&pair, &only(&out));
    let Payload::Sa(offered) = &opened.payloads[1].payload else {
        panic!("no SA payload");
    };
    assert_eq!(offered.proposals[0].transforms.len(), 2);
}

#[test]
fn groups_are_offered_in_their_order_and_a_renewal_begins_with_the_one_that_was_agreed() {
    let words = [
        "aes128gcm16-modp2048",
        "aes128gcm16",
        "aes128-sha1-modp1024",
    ];
    let mut pair = Pair::new(&words);
    pair.station_child
        .proposals
        .push(pair.station_child.proposals[1]);
    let (sa, child) = (&pair.station, &pair.station_child);
    let offered = |agreed, refused: &[Option<Pfs>]| {
        let groups = Groups { agreed, refused };
        let found = crate::ikev1::phase2_proposal::offerable(child, &groups, sa, false);
        (
            found.suites.first().map(|it| it.pfs),
            found.suites.len(),
            found.has_more,
        )
    };
    let (strong, weak) = (Some(Group::Modp2048.into()), Some(Group::Modp1024.into()));
    assert_eq!(offered(None, &[]), (Some(strong), 1, true));
    assert_eq!(offered(None, &[strong]), (Some(None), 2, true));
    assert_eq!(offered(None, &[strong, None]), (Some(weak), 1, false));
    assert_eq!(offered(None, &[strong, None, weak]), (None, 0, false));
    assert_eq!(offered(Some(weak), &[]), (Some(weak), 1, true));
    assert_eq!(offered(Some(weak), &[weak]), (Some(strong), 1, true));
}

#[test]
fn curve25519_comes_last_where_the_peer_did_not_choose_it_in_phase_1() {
    let curve = Some(Group::Curve25519.into());
    let modp = Some(Group::Modp2048.into());
    let orders = |phase_1: &str, pfs: &[Option<Pfs>]| {
        let (sa, _) = isakmp_pair(phase_1);
        let mut child = Pair::new(&["aes128gcm16"]).station_child;
        let plain = child.proposals[0];
        let suites = pfs.iter().map(|&pfs| EspSuite { pfs, ..plain });
        child.proposals = suites.collect();
        let mut refused = Vec::new();
        loop {
            let groups = Groups {
                agreed: None,
                refused: &refused,
            };
            let found = crate::ikev1::phase2_proposal::offerable(&child, &groups, &sa, false);
            let Some(first) = found.suites.first() else {
                return refused;
            };
            refused.push(first.pfs);
        }
    };
    let (known, unknown) = ("aes128-sha256-curve25519", "aes128-sha256-modp2048");
    assert_eq!(orders(known, &[curve, modp, None]), [curve, modp, None]);
    assert_eq!(orders(unknown, &[curve, modp, None]), [modp, None, curve]);
    assert_eq!(orders(unknown, &[curve, modp]), [modp, curve]);
    // A configuration's preference of PFS over none is kept.
    assert_eq!(orders(unknown, &[curve, None]), [curve, None]);
    assert_eq!(orders(unknown, &[None, curve, modp]), [None, modp, curve]);
    assert_eq!(orders(unknown, &[curve]), [curve]);
}

#[test]
fn a_public_value_of_low_order_is_refused_by_either_end_of_pfs() {
    let pair = Pair::new(&["aes128gcm16-curve25519"]);
    for (value, part) in [
        (vec![0; 32], "of low order in the group, in group 31"),
        (vec![9; 31], "not as long as those of the group"),
    ] {
        let value = Payload::KeyExchange(value);
        let message = forged_first(&pair, |chain| chain[2] = value.clone());
        let mut gateway = Pair::new(&["aes128gcm16-curve25519"]);
        let fault = gateway.answer(&message).err().unwrap().to_string();
        assert!(fault.contains(part), "{fault}");
        let station = Pair::new(&["aes128gcm16-curve25519"]);
        let answered = answered_to(station, |chain| {
            let is_public = |it: &&mut Payload| matches!(it, Payload::KeyExchange(_));
            *chain.iter_mut().find(is_public).unwrap() = value.clone();
        });
        let fault = answered.err().unwrap().to_string();
        assert!(fault.contains(part), "{fault}");
    }
}

/// The answer of a gateway that sees the client, or itself, at another address: both identities and
/// both NAT-OA payloads.
fn seen_at(station: &str, gateway: &str, told: [&str; 2]) -> impl Fn(&mut Vec<Payload>) {
    let ids = [station, gateway].map(|text| selector(text).to_identification().unwrap());
    let told = told.map(|text| text.parse::<IpAddr>().unwrap());
    move |chain| {
        chain.retain(|it| {
            !matches!(
                it,
                Payload::Identification(_) | Payload::NatOriginalAddress(_)
            )
        });
        chain.extend(ids.iter().cloned().map(Payload::Identification));
        chain.extend(told.map(Payload::NatOriginalAddress));
    }
}

#[test]
fn a_station_in_transport_mode_may_be_answered_by_the_address_that_its_nat_gave_it() {
    let (own, outside, gateway) = ("10.0.0.2", "192.0.2.77", "198.51.100.1");
    let behind = || Pair::new(&["aes128gcm16"]).transport().with_nat();
    let agreed = |result| match result {
        Ok(QuickProgress::Complete(child)) => (child.local, child.remote, child.original),
        Ok(_) => panic!("nothing was agreed"),
        Err(fault) => panic!("{fault}"),
    };
    let answer = seen_at(outside, gateway, [outside, gateway]);
    let (local, remote, original) = agreed(answered_to(behind(), answer));
    assert_eq!(
        (local, remote),
        (vec![selector(own)], vec![selector(gateway)])
    );
    assert_eq!(original.map(|it| it.own), outside.parse().ok());

    // The gateway is behind a NAT as well, and names its own address.
    let mut both = behind();
    both.station.nat.is_remote = true;
    let inside = "172.16.0.1";
    let answer = seen_at(outside, inside, [outside, inside]);
    let (_, remote, original) = agreed(answered_to(both, answer));
    assert_eq!(remote, [selector(gateway)]);
    assert_eq!(original.map(|it| it.peer), inside.parse().ok());

    // An address other than in its NAT-OA, another port, an end without a NAT.
    let wrong = [
        seen_at("192.0.2.78", gateway, [outside, gateway]),
        seen_at("192.0.2.77[udp/1701]", gateway, [outside, gateway]),
        seen_at(outside, inside, [outside, inside]),
    ];
    let mut refused: Vec<_> = wrong.map(|answer| answered_to(behind(), answer)).into();
    // No NAT at all, and tunnel mode.
    let answer = || seen_at(outside, gateway, [outside, gateway]);
    refused.push(answered_to(
        Pair::new(&["aes128gcm16"]).transport(),
        answer(),
    ));
    refused.push(answered_to(
        Pair::new(&["aes128gcm16"]).with_nat(),
        answer(),
    ));
    for result in refused {
        let fault = result.err().expect("refused").to_string();
        assert!(fault.starts_with("selectors differ"), "{fault}");
    }
}

#[test]
fn one_sentence_says_what_differed() {
    let mut pair = Pair::new(&["aes128-sha1-modp1024"]);
    pair.gateway_child.proposals = vec![
        "aes256gcm16".parse().unwrap(),
        "aes128-sha1".parse().unwrap(),
    ];
    assert_eq!(
        pair.fault(),
        "PFS differs: the peer offers aes128-sha1-modp1024; child lan accepts aes128-sha1 without \
         PFS"
    );

    let mut pair = Pair::new(&["aes128-sha1"]);
    pair.gateway_child.proposals = vec![
        "aes256gcm16".parse().unwrap(),
        "aes128-sha1-modp2048".parse().unwrap(),
        "aes128-sha1-modp3072".parse().unwrap(),
    ];
    assert_eq!(
        pair.fault(),
        "PFS differs: the peer offers aes128-sha1 without PFS; child lan accepts \
         aes128-sha1-modp2048, aes128-sha1-modp3072"
    );

    let mut pair = Pair::new(&["aes128-sha1-modp1024"]);
    pair.gateway_child.proposals = vec!["aes256gcm16".parse().unwrap()];
    assert_eq!(
        pair.fault(),
        "no proposal in common: the peer offers aes128-sha1-modp1024; child lan accepts \
         aes256gcm16"
    );

    let mut pair = Pair::new(&["aes128gcm16"]);
    pair.gateway_child.mode = Mode::Transport;
    assert_eq!(
        pair.fault(),
        "modes differ: the peer asks for tunnel mode, child lan is transport mode"
    );

    let mut pair = Pair::new(&["aes128gcm16"]);
    pair.station_child.remote = vec![selector("10.0.0.0/8")];
    assert_eq!(
        pair.fault(),
        "selectors differ: the peer asks for 10.0.0.0/8 === 10.9.0.1 in tunnel mode, child lan \
         protects 10.1.0.0/16 === 10.9.0.0/24"
    );

    // The gateway sees a NAT, the client does not.
    let mut pair = Pair::new(&["aes128gcm16"]).with_nat();
    pair.station.nat = NatFinding::default();
    assert_eq!(
        pair.fault(),
        "the peer offers ESP without UDP, but there is a NAT between us"
    );

    let mut pair = Pair::new(&["aes128gcm16"]).with_nat();
    pair.station.nat.is_supported = false;
    assert!(pair.fault().contains("does not speak RFC 3947"));
}

#[test]
fn the_shorter_lifetime_counts_and_the_responder_tells_its_own() {
    let seconds = Duration::from_secs;
    let mut pair = Pair::new(&["aes128gcm16"]);
    pair.station_child.lifetime = seconds(3600);
    pair.gateway_child.lifetime = seconds(7200);
    let done = pair.run().ok().unwrap();
    assert_eq!(
        (done.station.lifetime_s, done.gateway.lifetime_s),
        (3600, 3600)
    );

    pair.gateway_child.lifetime = seconds(600);
    pair.gateway_child.lifetime_bytes = 1 << 30;
    let (_, out) = pair.ask().ok().unwrap();
    let (_, _, out) = pair.answer(&only(&out)).ok().unwrap();
    assert!(out.messages[0].payloads.ends_with("ID ID N"));
    let done = pair.run().ok().unwrap();
    for child in [done.station, done.gateway] {
        assert_eq!(child.lifetime_s, 600);
        assert_eq!(child.lifetime_bytes, Some(1 << 30));
    }
}

#[test]
fn a_lifetime_of_a_second_does_not_make_us_renew_every_second() {
    let mut pair = Pair::new(&["aes128gcm16"]);
    pair.station_child.lifetime = Duration::from_secs(1);
    let done = pair.run().ok().unwrap();
    assert_eq!(done.gateway.lifetime_s, 60);
}

#[test]
fn a_duplicate_of_message_1_is_answered_with_the_same_message_2() {
    let mut pair = Pair::new(&["aes128gcm16"]);
    let (mut asked, mut out_i) = pair.ask().ok().unwrap();
    // The answer is lost; message 1 is repeated.
    let deadline = asked.deadline().unwrap();
    assert!(!asked.on_deadline(deadline.at, &mut out_i).unwrap());
    assert_eq!(out_i.messages[0].message, out_i.messages[1].message);
    let first = out_i.messages[0].message.clone();
    let (mut answered, _, mut out_r) = pair.answer(&first).ok().unwrap();
    let again = takes(&mut answered, &pair.gateway, &first, pair.now, &mut out_r);
    assert!(is_pending(again));
    assert_eq!(out_r.messages.len(), 2);
    assert_eq!(out_r.messages[0], out_r.messages[1]);
    assert_eq!(out_r.drops.of(DropReason::RetransmittedMessage), 1);
}

#[test]
fn a_lost_message_3_is_sent_again_on_a_repeated_message_2() {
    let mut pair = Pair::new(&["aes128gcm16"]);
    let (mut asked, out) = pair.ask().ok().unwrap();
    let (mut answered, _, mut out_r) = pair.answer(&only(&out)).ok().unwrap();
    let mut out_i = Outbox::default();
    let second = only(&out_r);
    let done = takes(&mut asked, &pair.station, &second, pair.now, &mut out_i);
    assert!(matches!(done, Ok(QuickProgress::Complete(_))));
    // HASH(3) --> lost; the responder repeats message 2.
    let deadline = answered.deadline().unwrap();
    assert!(!answered.on_deadline(deadline.at, &mut out_r).unwrap());
    assert_eq!(out_r.messages[1].message, second);
    let again = takes(&mut asked, &pair.station, &second, pair.now, &mut out_i);
    assert!(matches!(again, Ok(QuickProgress::Unread)));
    assert_eq!(out_i.messages.len(), 2);
    assert_eq!(out_i.messages[0], out_i.messages[1]);
    let third = &out_i.messages[1].message;
    let done = takes(&mut answered, &pair.gateway, third, pair.now, &mut out_r);
    assert!(matches!(done, Ok(QuickProgress::Complete(_))));
    // A repeated message 3 changes nothing, and both exchanges are forgotten in time.
    assert!(is_pending(takes(
        &mut answered,
        &pair.gateway,
        third,
        pair.now,
        &mut out_r
    )));
    for quick in [&mut asked, &mut answered] {
        let at = quick.deadline().unwrap().at;
        assert!(!quick.on_deadline(Instant(at.0 - 1), &mut out_r).unwrap());
        assert!(quick.on_deadline(at, &mut out_r).unwrap());
    }
}

#[test]
fn silence_ends_an_exchange_on_either_side() {
    let mut pair = Pair::new(&["aes128gcm16"]);
    let (asked, mut out) = pair.ask().ok().unwrap();
    let (answered, _, _) = pair.answer(&only(&out)).ok().unwrap();
    for (mut quick, step) in [(asked, Step::Quick(1)), (answered, Step::Quick(2))] {
        let fault = loop {
            let at = quick.deadline().unwrap().at;
            if let Err(fault) = quick.on_deadline(at, &mut out) {
                break fault;
            }
        };
        assert!(
            matches!(&fault, Fault::TimedOut(asked) if asked.step == step),
            "{fault}"
        );
    }
}

#[test]
fn a_message_changed_or_cut_anywhere_is_counted_and_the_exchange_goes_on() {
    let mut pair = Pair::new(&["aes128gcm16-modp1024"]);
    let (mut asked, out) = pair.ask().ok().unwrap();
    let first = only(&out);
    for wrong in hostile(&first) {
        let mut out = Outbox::default();
        assert!(read_offer(&pair.gateway, &wrong, &mut out).is_err());
    }
    let (mut answered, _, out_r) = pair.answer(&first).ok().unwrap();
    let second = only(&out_r);
    let mut out = Outbox::default();
    for wrong in hostile(&second) {
        assert!(is_pending(takes(
            &mut asked,
            &pair.station,
            &wrong,
            pair.now,
            &mut out
        )));
    }
    let done = takes(&mut asked, &pair.station, &second, pair.now, &mut out);
    assert!(matches!(done, Ok(QuickProgress::Complete(_))));
    let third = only(&out);
    for wrong in hostile(&third) {
        assert!(is_pending(takes(
            &mut answered,
            &pair.gateway,
            &wrong,
            pair.now,
            &mut out
        )));
    }
    let done = takes(&mut answered, &pair.gateway, &third, pair.now, &mut out);
    assert!(matches!(done, Ok(QuickProgress::Complete(_))));
    assert!(out.drops.of(DropReason::BadHash) > 0);
}

#[test]
fn own_messages_reflected_prove_nothing() {
    let mut pair = Pair::new(&["aes128gcm16"]);
    let (mut asked, out) = pair.ask().ok().unwrap();
    let first = only(&out);
    let mut out = Outbox::default();
    assert!(is_pending(takes(
        &mut asked,
        &pair.station,
        &first,
        pair.now,
        &mut out
    )));
    let (mut answered, _, out_r) = pair.answer(&first).ok().unwrap();
    assert!(is_pending(takes(
        &mut answered,
        &pair.gateway,
        &only(&out_r),
        pair.now,
        &mut out
    )));
}

#[test]
fn a_peer_with_our_keys_that_breaks_a_rule_is_refused() {
    let pair = Pair::new(&["aes128gcm16-modp1024"]);
    let mut cases: Vec<(&str, Vec<u8>)> = Vec::new();
    let mut case = |part: &'static str, change: &dyn Fn(&mut Vec<Payload>)| {
        cases.push((part, forged_first(&pair, |chain| change(chain))));
    };
    case("exactly one SA", &|chain| {
        let again = chain[0].clone();
        chain.push(again);
    });
    case("exactly one SA", &|chain| {
        chain.remove(1);
    });
    case("no ID payloads or two", &|chain| {
        chain.pop();
    });
    case("sent no public value", &|chain| {
        chain.remove(2);
    });
    case("not in 2..p-2", &|chain| {
        chain[2] = Payload::KeyExchange(vec![0xff; 128]);
    });
    case("not in 2..p-2", &|chain| {
        chain[2] = Payload::KeyExchange(vec![1; 127]);
    });
    case("is not one that we read", &|chain| {
        let fqdn = Identification::of(wire::isakmp::IdentificationType::Fqdn, "x");
        chain[3] = Payload::Identification(fqdn);
    });
    case("SPI is not four octets", &|chain| {
        sa_of(chain).proposals[0].spi = vec![0, 0, 0, 255];
    });
    case("no proposal in common", &|chain| {
        // A bundle: both proposals belong together.
        let sa = sa_of(chain);
        let again = sa.proposals[0].clone();
        sa.proposals.push(again);
    });
    case("no proposal in common", &|chain| {
        let unknown = Attribute::short(99, 1);
        let proposal = &mut sa_of(chain).proposals[0];
        proposal.transforms[0].attributes.push(unknown);
    });
    case("no proposal in common", &|chain| {
        let proposal = &mut sa_of(chain).proposals[0];
        let attributes = &mut proposal.transforms[0].attributes;
        attributes.retain(|found| found.kind != phase2::KEY_LENGTH);
    });
    case("no proposal in common", &|chain| {
        let proposal = &mut sa_of(chain).proposals[0];
        let attributes = &mut proposal.transforms[0].attributes;
        attributes[1].value = AttributeValue::Long(vec![0; 4]);
    });
    for (part, message) in cases {
        let mut pair = Pair::new(&["aes128gcm16-modp1024"]);
        let fault = pair.answer(&message).err().unwrap().to_string();
        assert!(fault.contains(part), "{part}: {fault}");
    }
}

#[test]
fn an_answer_that_was_not_offered_is_refused() {
    for (part, change) in [
        (
            "the peer chose null-sha1, we offered aes128gcm16",
            Box::new(|chain: &mut Vec<Payload>| {
                let other = Pair::new(&["null-sha1"]);
                *chain = first_chain(&other);
            }) as Box<dyn Fn(&mut Vec<Payload>)>,
        ),
        (
            "selectors differ: the peer answered 10.9.0.2",
            Box::new(|chain: &mut Vec<Payload>| {
                chain[2] =
                    Payload::Identification(selector("10.9.0.2").to_identification().unwrap());
            }),
        ),
        (
            "tunnel mode in UDP, we offered tunnel mode",
            Box::new(|chain: &mut Vec<Payload>| {
                *chain = first_chain(&Pair::new(&["aes128gcm16"]).with_nat());
            }),
        ),
        (
            "exactly one of our proposals",
            Box::new(|chain: &mut Vec<Payload>| {
                let sa = sa_of(chain);
                let again = sa.proposals[0].clone();
                sa.proposals.push(again);
            }),
        ),
        (
            "the peer refused with NO-PROPOSAL-CHOSEN",
            Box::new(|chain: &mut Vec<Payload>| {
                let notify = NotifyType::NoProposalChosen;
                let sa = Pair::new(&["aes128gcm16"]).gateway;
                chain.push(crate::ikev1::informational::notification(&sa, notify, None));
            }),
        ),
    ] {
        let fault = answered_with(change).err().unwrap().to_string();
        assert!(fault.contains(part), "{part}: {fault}");
    }
}

#[test]
fn an_answer_for_a_part_of_what_was_asked_is_taken_and_for_more_is_not() {
    let remote = |text: &'static str| {
        answered_with(move |chain| {
            chain[3] = Payload::Identification(selector(text).to_identification().unwrap());
        })
    };
    let part = selector("10.9.0.0/16[tcp/80]");
    let asked = Pair::new(&["aes128gcm16"]).station_child.remote[0];
    let inside = TrafficSelector {
        first: asked.first,
        last: asked.first,
        ..part
    };
    let Ok(QuickProgress::Complete(child)) = answered_with(move |chain| {
        chain[3] = Payload::Identification(inside.to_identification().unwrap());
    }) else {
        panic!("a part was refused");
    };
    assert_eq!(child.remote, [inside]);
    for more in ["0.0.0.0/0", "192.168.0.0/24", "::/0"] {
        let fault = remote(more).err().unwrap().to_string();
        assert!(fault.starts_with("selectors differ"), "{more}: {fault}");
    }
}

/// How a client handles a message 2 with these payloads.
fn answered_with(change: impl Fn(&mut Vec<Payload>)) -> Result<QuickProgress, Fault> {
    answered_to(Pair::new(&["aes128gcm16"]), change)
}

/// How an initiator handles its own message 1, changed and encrypted as message 2.
fn answered_to(mut pair: Pair, change: impl Fn(&mut Vec<Payload>)) -> Result<QuickProgress, Fault> {
    let (mut asked, out) = pair.ask().ok().unwrap();
    let first = opened_first(&pair, &only(&out));
    let mut chain = first_chain(&pair);
    change(&mut chain);
    let Payload::Nonce(nonce) = &first.payloads[2].payload else {
        panic!("no nonce");
    };
    let (mut iv, id) = (first.next_iv, ID.to_be_bytes());
    let mut out = Outbox::default();
    let prefix = [&id[..], nonce];
    let (exchange, work) = (Exchange::QuickMode, &mut out.work);
    let second = pair
        .gateway
        .seal_hashed(exchange, ID, &mut iv, &prefix, chain, work);
    takes(&mut asked, &pair.station, &second, pair.now, &mut out)
}

/// The payloads of a pair's message 1 after its hash.
fn first_chain(pair: &Pair) -> Vec<Payload> {
    let mut found = Vec::new();
    forged_first(pair, |chain| found.clone_from(chain));
    found
}

/// The message truncated at every length, and with every octet changed.
fn hostile(message: &[u8]) -> Vec<Vec<u8>> {
    let cut = (0..message.len()).map(|len| message[..len].to_vec());
    let changed = (0..message.len()).map(|at| {
        let mut wrong = message.to_vec();
        wrong[at] ^= 0x41;
        wrong
    });
    // The hash does not cover version and flags, and they have no further meaning.
    let is_covered = |(at, _): &(usize, Vec<u8>)| ![17, 19].contains(at);
    let changed = changed
        .enumerate()
        .filter(is_covered)
        .map(|(_, wrong)| wrong);
    cut.chain(changed).collect()
}

#[test]
fn tunnel_mode_is_what_a_transform_without_encapsulation_means() {
    let mut pair = Pair::new(&["aes128gcm16"]);
    let message = forged_first(&pair, |chain| {
        let proposal = &mut sa_of(chain).proposals[0];
        let attributes = &mut proposal.transforms[0].attributes;
        attributes.retain(|found| found.kind != phase2::ENCAPSULATION);
    });
    assert!(pair.answer(&message).is_ok());
}

#[test]
fn without_identities_the_selectors_are_the_two_addresses() {
    let mut pair = Pair::new(&["aes128gcm16"]).transport();
    let message = forged_first(&pair, |chain| chain.truncate(2));
    let mut out = Outbox::default();
    let (_, offer) = read_offer(&pair.gateway, &message, &mut out).ok().unwrap();
    assert_eq!(
        offer.remote,
        [TrafficSelector::host(pair.gateway.path.remote.ip())]
    );
    let (_, _, out) = pair.answer(&message).ok().unwrap();
    assert_eq!(out.messages[0].payloads, "HASH SA NONCE");
}

proptest! {
    #[test]
    fn any_octets_are_dropped(octets in proptest::collection::vec(any::<u8>(), 0..200)) {
        let pair = Pair::new(&["aes128gcm16"]);
        let mut out = Outbox::default();
        prop_assert!(read_offer(&pair.gateway, &octets, &mut out).is_err());
    }
}

#[test]
fn roles_are_told() {
    let mut pair = Pair::new(&["aes128gcm16"]);
    let (asked, out) = pair.ask().ok().unwrap();
    let (answered, _, _) = pair.answer(&only(&out)).ok().unwrap();
    assert!(asked.is_initiator() && !answered.is_initiator());
    assert!(!asked.is_done() && !answered.is_done());
    assert_eq!((asked.message_id(), answered.message_id()), (ID, ID));
    assert_eq!(pair.station.role, Role::Initiator);
    let is_gcm =
        |suite: &EspSuite| matches!(suite.protection.encryption, Encryption::AesGcm { .. });
    assert!(pair.station_child.proposals.iter().all(is_gcm));
}

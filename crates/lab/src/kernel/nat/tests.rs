use super::super::ip;
use super::*;

const INNER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const SECOND: u64 = 1_000_000_000;

fn at(seconds: u64) -> Instant {
    Instant(seconds * SECOND)
}

fn nat() -> Nat {
    Nat::new(NatConfig::default())
}

fn out(nat: &mut Nat, port: u16, now: Instant) -> Option<u16> {
    let mut packet = ip::udp((INNER, port), (SERVER, 4500), b"hello", 1);
    nat.outward(&mut packet, now).then(|| {
        let flow = Flow::of(&packet).expect("a packet");
        assert_eq!(flow.source, IpAddr::V4(nat.config.address));
        assert!(ip::has_valid_checksums(&packet));
        flow.ports.expect("ports").0
    })
}

fn back(nat: &mut Nat, port: u16, now: Instant) -> Option<(IpAddr, u16)> {
    let mut packet = ip::udp((SERVER, 4500), (nat.config.address, port), b"hello", 1);
    nat.inward(&mut packet, now).then(|| {
        assert!(ip::has_valid_checksums(&packet));
        let flow = Flow::of(&packet).expect("a packet");
        (flow.destination, flow.ports.expect("ports").1)
    })
}

#[test]
fn a_mapping_lasts_as_long_as_it_is_used_and_leads_back() {
    let mut nat = nat();
    assert_eq!(out(&mut nat, 500, at(0)), Some(20_000));
    assert_eq!(out(&mut nat, 4500, at(0)), Some(20_001));
    assert_eq!(back(&mut nat, 20_000, at(29)), Some((INNER.into(), 500)));
    // answered: 120 s
    assert_eq!(out(&mut nat, 500, at(148)), Some(20_000));
    // never answered: 30 s
    assert_eq!(back(&mut nat, 20_001, at(30)), None);
    assert_eq!(out(&mut nat, 4500, at(31)), Some(20_002));
    assert_eq!(nat.counters().unknown, 1);
}

#[test]
fn only_whom_it_was_sent_to_may_answer() {
    let mut nat = nat();
    out(&mut nat, 500, at(0));
    let stranger = Ipv4Addr::new(198, 51, 100, 7);
    let mut packet = ip::udp((stranger, 4500), (nat.config.address, 20_000), b"x", 1);
    assert!(!nat.inward(&mut packet, at(1)));
    assert_eq!(back(&mut nat, 20_001, at(1)), None);
}

#[test]
fn rebinding_takes_other_ports_and_forgets_the_old() {
    let mut nat = nat();
    out(&mut nat, 500, at(0));
    nat.rebind();
    assert_eq!(back(&mut nat, 20_000, at(1)), None);
    assert_eq!(out(&mut nat, 500, at(1)), Some(30_000));
    assert_eq!(nat.mappings(), 1);
}

#[test]
fn echoes_pass_by_their_identifier() {
    let mut nat = nat();
    let mut request = ip::echo((INNER, SERVER), true, (77, 1), 56);
    assert!(nat.outward(&mut request, at(0)));
    assert!(ip::has_valid_checksums(&request));
    let identifier = u16::from_be_bytes([request[24], request[25]]);
    let mut reply = ip::echo((SERVER, nat.config.address), false, (identifier, 1), 56);
    assert!(nat.inward(&mut reply, at(1)));
    assert!(ip::has_valid_checksums(&reply));
    assert_eq!(u16::from_be_bytes([reply[24], reply[25]]), 77);
}

#[test]
fn ports_run_out_and_come_back() {
    let mut nat = Nat::new(NatConfig {
        port_ranges: vec![(1000, 1009)],
        ..NatConfig::default()
    });
    for port in 0..10 {
        assert!(out(&mut nat, port, at(0)).is_some());
    }
    assert_eq!(out(&mut nat, 10, at(1)), None);
    assert_eq!(nat.counters().exhausted, 1);
    assert!(out(&mut nat, 10, at(30)).is_some());
}

#[test]
fn a_flood_of_flows_is_bounded_and_rubbish_is_counted() {
    let mut nat = Nat::new(NatConfig {
        port_ranges: vec![(1, u16::MAX)],
        ..NatConfig::default()
    });
    for flow in 0..2 * MAX_MAPPINGS as u32 {
        let there = Ipv4Addr::from(0x0a00_0000 + flow);
        let mut packet = ip::udp((INNER, 5), (there, 5), b"", 1);
        nat.outward(&mut packet, at(0));
    }
    assert_eq!(nat.mappings(), MAX_MAPPINGS);
    for length in 0..40 {
        nat.inward(&mut vec![0x45; length], at(0));
        nat.outward(&mut vec![0x45; length], at(0));
    }
    assert!(nat.counters().malformed > 40);
}

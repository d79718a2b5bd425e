//! SAs inside SAs, as in the paper on mobile virtual private networks: a mobile node's packets go
//! in a reverse tunnel to the home agent, and that tunnel goes in ESP to the firewall.

use super::support::*;
use super::tunnels::{CARE_OF, CORRESPONDENT, HOME, HOME_AGENT, everything, host};
use crate::counters::DropReason;
use crate::plane::inner::be16;
use crate::plane::path_mtu::REPORT_HOLDS;
use crate::plane::{InboundChange, MAX_NESTED, Notice, OutboundChange, TooBig, Verdict};
use crate::sa::{ChildId, Direction, Encapsulation, Path, Sa};
use crate::selector::TrafficSelector;
use crate::work::Task;
use wire::ip::protocol::{ESP, TCP, UDP};

const FIREWALL: &str = "192.0.2.1";
const FIREWALL_CHILD: ChildId = ChildId(70);

/// The node's reverse tunnel to the home agent.
fn reverse_tunnel() -> Sa {
    let name = (Direction::Outbound, CHILD, 1);
    let path = raw_path(CARE_OF, HOME_AGENT);
    let form = Encapsulation::IpInIp;
    let mut sa = Sa::tunnel(name, form, path, vec![host(HOME)], everything());
    sa.is_nested = true;
    sa
}

/// ESP from the node to the firewall, for what goes to the home agent.
fn to_firewall(path: Path) -> Sa {
    Sa {
        child: FIREWALL_CHILD,
        path,
        local: vec![host(CARE_OF)],
        remote: vec![host(HOME_AGENT)],
        ..tunnel_sa(AES_GCM)
    }
}

fn node(path: Path) -> Pair {
    let mut pair = Pair::with_offloads(reverse_tunnel(), OFFLOADS);
    let esp = to_firewall(path);
    let theirs = inbound(&esp);
    pair.sender
        .apply(OutboundChange::Install(Box::new(esp)), NOW);
    pair.receiver
        .apply(InboundChange::Install(Box::new(theirs)));
    pair
}

fn paths() -> [Path; 2] {
    [path(CARE_OF, FIREWALL), raw_path(CARE_OF, FIREWALL)]
}

fn from_home(length: usize) -> Vec<u8> {
    packet(HOME, CORRESPONDENT, UDP, &udp((5, 53), &data(length)))
}

fn told_size(pair: &Pair) -> Option<usize> {
    let answers: Vec<&[u8]> = pair.datagrams.replies().collect();
    assert!(answers.len() <= 1);
    let answer = answers.first()?;
    // to the sender, not to the tunnel's end
    assert_eq!(answer[10 + 16..10 + 20], [10, 18, 3, 17]);
    Some(be16(&answer[10..], 26).into())
}

#[test]
fn packets_go_through_both_and_come_out_whole() {
    for path in paths() {
        let mut pair = node(path);
        let clear = plain(&from_home(100));
        let sent = pair.seal(core::slice::from_ref(&clear));
        assert_eq!(sent.len(), 1);
        assert_eq!(sent[0].path, path);
        assert_eq!(pair.open(&sent), [clear]);
        let whole = packet(HOME, CORRESPONDENT, TCP, &tcp(1, 0x10, &[], &data(20_000)));
        let sent = pair.seal(&[super_packet(&whole, 1_300)]);
        assert_eq!(sent.len(), 20_000usize.div_ceil(1_300));
        let writes = pair.open(&sent);
        assert_eq!(writes.len(), 1);
        assert_eq!(writes[0][50..], whole[40..]);
        let work = pair.receiver.report().work;
        let taken = work
            .entries()
            .iter()
            .map(|(task, times, _)| (*task, *times));
        let opened = crate::sa::Protocol::Esp;
        let both = [
            (Task::Open(opened, AES_GCM), 17),
            (Task::Decapsulate(Encapsulation::IpInIp), 17),
        ];
        assert_eq!(taken.collect::<Vec<_>>(), both);
    }
}

#[test]
fn without_the_outer_child_nothing_leaves() {
    let mut pair = Pair::with_offloads(reverse_tunnel(), OFFLOADS);
    let clear = plain(&from_home(100));
    assert_eq!(pair.seal(core::slice::from_ref(&clear)).len(), 0);
    assert_eq!(pair.sent_drops(DropReason::NoPolicy), 1);
    // An expected one is asked for, and the packet waits for it.
    let (local, remote) = (vec![host(CARE_OF)], vec![host(HOME_AGENT)]);
    let expect = OutboundChange::Expect(FIREWALL_CHILD, local, remote);
    pair.sender.apply(expect, NOW);
    assert_eq!(pair.seal(core::slice::from_ref(&clear)).len(), 0);
    let asked = Notice::Acquire {
        child: FIREWALL_CHILD,
    };
    assert_eq!(pair.datagrams.notices(), [asked]);
    let esp = to_firewall(path(CARE_OF, FIREWALL));
    let theirs = inbound(&esp);
    pair.sender
        .apply(OutboundChange::Install(Box::new(esp)), NOW);
    pair.receiver
        .apply(InboundChange::Install(Box::new(theirs)));
    let sent = pair.release(NOW);
    assert_eq!(sent.len(), 1);
    assert_eq!(pair.open(&sent), [clear]);
}

#[test]
fn a_nested_sa_on_a_path_with_udp_seals_nothing() {
    let mut pair = node(path(CARE_OF, FIREWALL));
    let mut sa = reverse_tunnel();
    sa.path = Path::udp_with_type((ip(CARE_OF), 434), (ip(HOME_AGENT), 434));
    pair.sender
        .apply(OutboundChange::Install(Box::new(sa)), NOW);
    assert_eq!(pair.seal(&[plain(&from_home(10))]).len(), 0);
    assert_eq!(pair.sent_drops(DropReason::WrongEncapsulation), 1);
}

#[test]
fn the_sender_learns_the_size_of_both_tunnels_together() {
    for path in paths() {
        let mut pair = node(path);
        let esp = shape_of(&to_firewall(path));
        let largest = |mtu| esp.largest_packet(mtu) - 20;
        let mut now = NOW;
        let try_size = |pair: &mut Pair, length: usize, now| {
            pair.datagrams.clear();
            let mut frame = plain(&from_home(length - 28));
            let verdict = pair.sender.seal(&mut frame, now, &mut pair.datagrams);
            (verdict == Verdict::Sealed, told_size(pair))
        };
        assert_eq!(
            try_size(&mut pair, 1_480, now),
            (false, Some(largest(1_500)))
        );
        assert_eq!(try_size(&mut pair, largest(1_500), now), (true, None));
        // A router between node and firewall carries less: the report quotes ESP.
        let sent = pair.datagrams.bytes(&pair.datagrams.runs()[0]).to_vec();
        let report = TooBig {
            remote: path.remote,
            via: path.via,
            mtu: 1_000,
            quoted: &sent[..28],
        };
        assert!(pair.sender.too_big(&report, now));
        let refused = try_size(&mut pair, largest(1_500), now);
        assert_eq!(refused, (false, Some(largest(1_000))));
        assert_eq!(try_size(&mut pair, largest(1_000), now), (true, None));
        assert_eq!(pair.datagrams.runs().len(), 1);
        now = now + REPORT_HOLDS;
        assert_eq!(try_size(&mut pair, largest(1_500), now), (true, None));
        // Nobody is asked about the link of a nested SA.
        let asked: Vec<_> = core::iter::from_fn(|| pair.sender.link_to_ask(now)).collect();
        assert_eq!(asked, [(FIREWALL_CHILD, path)]);
    }
}

#[test]
fn what_may_be_cut_is_cut_before_the_first_tunnel() {
    let mut pair = node(path(CARE_OF, FIREWALL));
    let mut big = from_home(3_000);
    big[6] = 0;
    let length = big.len();
    crate::plane::sealer::finish_ip_header(&mut big[..20], length);
    let sent = pair.seal(&[plain(&big)]);
    assert_eq!(sent.len(), 3);
    let opened = pair.open(&sent);
    assert_eq!(opened.len(), 3);
    assert!(
        opened
            .iter()
            .all(|it| it[10 + 12..10 + 16] == [10, 18, 3, 17])
    );
}

#[test]
fn depth_is_bounded_in_both_directions() {
    // Tunnel n goes from 10.0.n.1 to 10.0.n.2, through tunnel n + 1.
    let end = |n: usize, side: u8| format!("10.0.{n}.{side}");
    let ends = |n: usize| {
        let inside = match n {
            0 => (host(HOME), host(CORRESPONDENT)),
            _ => (host(&end(n - 1, 1)), host(&end(n - 1, 2))),
        };
        let name = (Direction::Outbound, ChildId(n as u32), 1);
        let (form, path) = (Encapsulation::IpInIp, raw_path(&end(n, 1), &end(n, 2)));
        Sa::tunnel(name, form, path, vec![inside.0], vec![inside.1])
    };
    for count in 1..=MAX_NESTED + 2 {
        let mut pair = Pair::with_offloads(ends(0), OFFLOADS);
        for n in (0..count).rev() {
            let mut sa = ends(n);
            sa.is_nested = n + 1 < count;
            let theirs = inbound(&sa);
            pair.sender
                .apply(OutboundChange::Install(Box::new(sa)), NOW);
            pair.receiver
                .apply(InboundChange::Install(Box::new(theirs)));
        }
        let clear = plain(&from_home(50));
        let sent = pair.seal(core::slice::from_ref(&clear));
        let is_deep = count > MAX_NESTED;
        assert_eq!(sent.is_empty(), is_deep, "{count}");
        assert_eq!(pair.sent_drops(DropReason::NestedTooDeep), is_deep.into());
        // A peer may nest deeper.
        let wrapped = (0..count).fold(from_home(50), |inner, n| {
            packet(&end(n, 1), &end(n, 2), 4, &inner)
        });
        let last = count - 1;
        let coming = Sent {
            path: raw_path(&end(last, 1), &end(last, 2)),
            traffic_class: 0,
            bytes: wrapped,
        };
        let opened = pair.open(core::slice::from_ref(&coming));
        assert_eq!(opened.is_empty(), is_deep, "{count}");
        assert_eq!(
            pair.received_drops(DropReason::NestedTooDeep),
            is_deep.into()
        );
        if !is_deep {
            assert_eq!(pair.open(&sent), [clear]);
        }
    }
}

#[test]
fn a_circle_of_tunnels_ends() {
    let mut sa = reverse_tunnel();
    // Its own packets are its traffic.
    sa.local = everything();
    let mut pair = Pair::with_offloads(sa, OFFLOADS);
    assert_eq!(pair.seal(&[plain(&from_home(50))]).len(), 0);
    assert_eq!(pair.sent_drops(DropReason::NestedTooDeep), 1);
}

#[test]
fn an_opened_packet_for_another_host_is_delivered() {
    // The firewall passes the tunnel to the home agent on.
    let mut pair = node(path(CARE_OF, FIREWALL));
    let tunnel = inbound(&reverse_tunnel());
    let (child, number) = (tunnel.child, tunnel.spi());
    pair.receiver.apply(InboundChange::Remove(child, number));
    let sent = pair.seal(&[plain(&from_home(100))]);
    let opened = pair.open(&sent);
    assert_eq!(opened.len(), 1);
    assert_eq!(opened[0][10 + 9], 4);
    assert_eq!(opened[0][10 + 20..], from_home(100));
}

#[test]
fn a_broadcast_is_wrapped_twice_for_a_node_behind_a_foreign_agent() {
    // RFC 5944 §4.3: to the home address, and then to the foreign agent.
    let name = (Direction::Outbound, CHILD, 1);
    let form = Encapsulation::IpInIp;
    let path = raw_path(HOME_AGENT, HOME);
    let broadcasts = vec![host("255.255.255.255"), host("10.18.3.255")];
    let mut broadcast = Sa::tunnel(name, form, path, everything(), broadcasts);
    broadcast.is_nested = true;
    let name = (Direction::Outbound, ChildId(8), 1);
    let path = raw_path(HOME_AGENT, CARE_OF);
    let unicast = Sa::tunnel(name, form, path, everything(), vec![host(HOME)]);
    let mut pair = Pair::with_offloads(broadcast, NO_OFFLOADS);
    pair.sender
        .apply(OutboundChange::Install(Box::new(unicast)), NOW);
    let clear = packet("10.18.3.4", "10.18.3.255", UDP, &udp((137, 137), b"who"));
    let sent = pair.seal(core::slice::from_ref(&clear));
    assert_eq!(sent.len(), 1);
    let bytes = &sent[0].bytes;
    assert_eq!(bytes[12..20], [203, 0, 113, 1, 198, 51, 100, 7]);
    assert_eq!(bytes[32..40], [203, 0, 113, 1, 10, 18, 3, 17]);
    assert_eq!(bytes[40..], clear);
}

/// By the link: [`FIREWALL_CHILD`]'s packets, and those of IKE.
const LINK_CHILD: ChildId = ChildId(71);

fn by_link() -> Sa {
    let of = |protocol| TrafficSelector {
        protocol,
        ..host(FIREWALL)
    };
    let path = raw_path(CARE_OF, FIREWALL);
    Sa::nothing(
        (LINK_CHILD, 1),
        path,
        vec![host(CARE_OF)],
        vec![of(ESP), of(UDP)],
    )
}

/// A foreign agent delivers what a node sends from an address that a home agent keeps.
#[test]
fn what_an_sa_seals_may_leave_by_a_link_as_it_is() {
    let path = raw_path(CARE_OF, FIREWALL);
    let mut pair = node(path);
    let mut esp = to_firewall(path);
    esp.is_nested = true;
    pair.sender
        .apply(OutboundChange::Install(Box::new(esp)), NOW);
    let clear = plain(&from_home(100));
    assert_eq!(pair.seal(core::slice::from_ref(&clear)).len(), 0);
    assert_eq!(pair.sent_drops(DropReason::NoPolicy), 1);
    let install = OutboundChange::Install(Box::new(by_link()));
    pair.sender.apply(install, NOW);
    let sent = pair.seal(core::slice::from_ref(&clear));
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].path, path);
    assert_eq!(pair.open(&sent), [clear]);
    // What fits the link fits the tunnels in it.
    let largest = |mtu| shape_of(&to_firewall(path)).largest_packet(mtu) - 20;
    pair.sender
        .apply(OutboundChange::LinkMtu(LINK_CHILD, 1_300), NOW);
    assert_eq!(
        pair.seal(&[plain(&from_home(largest(1_300) - 28 + 1))])
            .len(),
        0
    );
    assert_eq!(told_size(&pair), Some(largest(1_300)));
    let fitting = plain(&from_home(largest(1_300) - 28));
    assert_eq!(pair.seal(core::slice::from_ref(&fitting)).len(), 1);
    // A message of IKE leaves as it came, in fragments where it must.
    let message = |length| {
        let mut packet = packet(CARE_OF, FIREWALL, UDP, &udp((500, 500), &data(length)));
        packet[6] = 0;
        let whole = packet.len();
        crate::plane::sealer::finish_ip_header(&mut packet[..20], whole);
        packet
    };
    let sent = pair.seal(&[plain(&message(200))]);
    assert_eq!((sent.len(), &*sent[0].bytes), (1, &*message(200)));
    assert_eq!(pair.seal(&[plain(&message(2_000))]).len(), 2);
    // Nothing else has that way, and nothing comes by it.
    let other = packet(CARE_OF, FIREWALL, TCP, &tcp(1, 0x10, &[], &data(10)));
    assert_eq!(pair.seal(&[plain(&other)]).len(), 0);
    let coming = Sa {
        direction: Direction::Inbound,
        ..by_link()
    };
    let install = InboundChange::Install(Box::new(coming));
    assert_eq!(pair.receiver.apply(install), None);
}

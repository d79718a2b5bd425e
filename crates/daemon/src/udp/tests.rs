use super::*;
use crate::sys::datagram::{Batch, receive_error};

fn sockets() -> UdpSockets {
    let config = UdpConfig {
        ports: vec![(0, Via::Udp), (0, Via::UdpWithMarker)],
        mark: None,
    };
    let mut all = UdpSockets::bind(config).expect("loopback sockets");
    // Ports chosen by the kernel replace the configured ones.
    for port in &mut all.sockets {
        let bound = port.receiving.local_addr().expect("bound");
        port.role.port = bound.as_socket().expect("an address").port();
    }
    all
}

fn esp_port(all: &UdpSockets, is_v4: bool) -> u16 {
    esp_of(all, is_v4).role.port
}

fn esp_of(all: &UdpSockets, is_v4: bool) -> &Port {
    let esp = |port: &&Port| port.role.via == Via::UdpWithMarker && port.is_v4 == is_v4;
    all.sockets.iter().find(esp).expect("a socket")
}

fn loopback(is_v4: bool, port: u16) -> SocketAddr {
    let address = if is_v4 {
        IpAddr::V4(Ipv4Addr::LOCALHOST)
    } else {
        IpAddr::V6(Ipv6Addr::LOCALHOST)
    };
    SocketAddr::new(address, port)
}

fn receive_all(all: &UdpSockets, is_v4: bool, want: usize) -> (Vec<Vec<u8>>, Vec<u8>, SocketAddr) {
    let mut batch = Batch::new(16, 65_535, 0);
    let fd = esp_of(all, is_v4).receiving.as_fd();
    let (mut datagrams, mut classes) = (Vec::new(), Vec::new());
    let mut remote = loopback(is_v4, 0);
    while datagrams.len() < want {
        let mut polled = [nix::poll::PollFd::new(fd, nix::poll::PollFlags::POLLIN)];
        let ready = nix::poll::poll(&mut polled, 2000u16).expect("poll");
        assert_eq!(ready, 1, "datagrams are missing");
        for index in 0..batch.receive(fd).expect("receive") {
            let incoming = batch.incoming(index);
            assert_eq!(incoming.local, loopback(is_v4, 0).ip());
            remote = incoming.remote;
            classes.push(incoming.traffic_class);
            let bytes = batch.bytes(index, incoming.len);
            let each = bytes.chunks(incoming.segment());
            datagrams.extend(each.map(<[u8]>::to_vec));
        }
    }
    (datagrams, classes, remote)
}

fn run_arrives(is_v4: bool, refuse: bool) {
    let (from, to) = (sockets(), sockets());
    from.gso_refused.store(refuse, Ordering::Relaxed);
    let path = Path::udp_with_marker(
        loopback(is_v4, esp_port(&from, is_v4)),
        loopback(is_v4, esp_port(&to, is_v4)),
    );
    let bytes: Vec<u8> = (0..10 * 1000 + 10).map(|n| (n / 1000) as u8).collect();
    let run = Run {
        path,
        traffic_class: 0x28,
        segment_bytes: 1000,
        is_oversize: false,
        range: 0..bytes.len(),
    };
    let sent = from.send_run(&run, &bytes);
    assert_eq!((sent.datagrams, sent.failed), (11, 0));
    assert_eq!(sent.calls, if refuse { 11 } else { 1 });
    let (datagrams, classes, remote) = receive_all(&to, is_v4, 11);
    assert_eq!(remote, path.local);
    assert_eq!(datagrams.concat(), bytes);
    assert_eq!(datagrams[10].len(), 10);
    assert!(classes.iter().all(|&class| class == 0x28));
}

#[test]
fn a_run_arrives_whole_over_ipv4() {
    run_arrives(true, false);
}

#[test]
fn a_run_arrives_one_by_one_where_the_kernel_refused_to_cut() {
    run_arrives(true, true);
}

#[test]
fn a_run_arrives_over_ipv6_where_the_machine_has_it() {
    let has_v6 = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    if has_v6 {
        run_arrives(false, false);
    }
}

#[test]
fn a_control_message_leaves_from_the_address_of_its_path() {
    let (from, to) = (sockets(), sockets());
    let path = Path::udp_with_marker(
        ([127, 0, 0, 9], esp_port(&from, true)),
        loopback(true, esp_port(&to, true)),
    );
    from.send(&path, b"hello").expect("sent");
    let (datagrams, _, remote) = receive_all(&to, true, 1);
    assert_eq!((datagrams, remote), (vec![b"hello".to_vec()], path.local));
}

#[test]
fn what_may_be_fragmented_leaves_from_the_same_port_and_nothing_comes_back_to_it() {
    for is_v4 in [true, false] {
        if UdpSocket::bind((loopback(is_v4, 0).ip(), 0)).is_err() {
            continue;
        }
        let (from, to) = (sockets(), sockets());
        let path = Path::udp_with_marker(
            loopback(is_v4, esp_port(&from, is_v4)),
            loopback(is_v4, esp_port(&to, is_v4)),
        );
        // Larger than any Ethernet frame. Over IPv6 it is fragmented at 1280 octets, even over
        // loopback.
        let message = vec![7; 9_000];
        from.send(&path, &message).expect("sent");
        let (datagrams, _, remote) = receive_all(&to, is_v4, 1);
        assert_eq!((datagrams, remote), (vec![message], path.local));
        to.send(&path.reversed(), b"answer").expect("sent");
        let (datagrams, _, remote) = receive_all(&from, is_v4, 1);
        assert_eq!((datagrams, remote), (vec![b"answer".to_vec()], path.remote));
    }
}

#[test]
fn a_closed_port_is_told_with_the_host_that_says_so() {
    for is_v4 in [true, false] {
        let Ok(closed) = UdpSocket::bind((loopback(is_v4, 0).ip(), 0)) else {
            continue;
        };
        let remote = closed.local_addr().expect("bound");
        drop(closed);
        let from = sockets();
        let path = Path::udp_with_marker(loopback(is_v4, esp_port(&from, is_v4)), remote);
        from.send(&path, b"hello").expect("sent");
        let fd = esp_of(&from, is_v4).receiving.as_fd();
        let mut polled = [nix::poll::PollFd::new(fd, nix::poll::PollFlags::POLLERR)];
        assert_eq!(nix::poll::poll(&mut polled, 2000u16).expect("poll"), 1);
        let error = receive_error(fd).expect("read").expect("an error");
        assert_eq!(error.destination, remote);
        let expected = Unreachable {
            why: NotReached::Port,
            by: remote.ip(),
        };
        assert_eq!(unreachable(&error), Some(expected));
    }
}

#[test]
fn nobody_shares_a_port_even_who_asks_for_that() {
    let all = sockets();
    let port = esp_port(&all, true);
    let other = Socket::new(Domain::IPV4, Type::DGRAM, None).expect("a socket");
    other.set_reuse_address(true).expect("set");
    let taken = other.bind(&SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port).into());
    assert_eq!(taken.expect_err("taken").kind(), io::ErrorKind::AddrInUse);
}

#[test]
fn the_kernel_tells_our_address_towards_a_peer() {
    let remote = IpAddr::V4(Ipv4Addr::LOCALHOST);
    assert_eq!(local_address(remote, None).expect("a route"), remote);
}

#[test]
fn a_port_that_is_taken_is_named_with_what_to_do() {
    let one = std::net::UdpSocket::bind("0.0.0.0:0").expect("a socket");
    let port = one.local_addr().expect("its address").port();
    let config = UdpConfig {
        ports: vec![(port, Via::Udp), (0, Via::UdpWithMarker)],
        ..UdpConfig::default()
    };
    let said = UdpSockets::bind(config).err().expect("taken").to_string();
    assert!(said.contains(&format!("UDP port {port}")), "{said}");
    assert!(said.contains("into one file"), "{said}");
}

#[test]
fn a_port_that_cannot_be_bound_is_told_with_what_it_needs() {
    let said = |kind: io::ErrorKind| taken(500, kind.into()).to_string();
    assert!(said(io::ErrorKind::AddrInUse).contains("`ss -ulpn` names it"));
    let refused = said(io::ErrorKind::PermissionDenied);
    assert!(
        refused.contains("UDP port 500 needs CAP_NET_BIND_SERVICE"),
        "{refused}"
    );
    assert_eq!(said(io::ErrorKind::OutOfMemory), "out of memory");
}

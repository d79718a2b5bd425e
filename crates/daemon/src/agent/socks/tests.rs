//! A whole way over loopback: local programs, the way, and a gateway with a small host behind it,
//! which is the engine's endpoint and smoltcp in a thread.

mod far;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use engine::config::Config;
use tokio::runtime::Builder;

use super::*;
use far::{ECHO_PORT, Far, HOST, SILENT_PORT};

const PATIENCE: Duration = Duration::from_secs(60);

/// The client's end of [`Far`].
fn order(far: &Far) -> Order {
    let mut config = far::config(
        "vips = [\"0.0.0.0\"]\nremote_addrs = [\"127.0.0.1\"]\n",
        ("ms.example", "sg.example"),
        "remote_ts = [\"10.1.0.0/24\"]",
    );
    let connection = Arc::get_mut(&mut config.connections[0]).expect("its only owner");
    connection.remote_addrs = vec![far.address];
    of(config)
}

fn of(config: Config) -> Order {
    Order {
        config,
        listen: "127.0.0.1:0".parse().expect("an address"),
        access: Access::Password,
        until: None,
        reconnects: false,
    }
}

/// Waits for a state.
fn until(way: &mut Way, is_it: impl Fn(&State) -> bool) -> State {
    let runtime = Builder::new_current_thread().enable_all().build();
    let wait = async {
        let mut state = way.state();
        while !is_it(&state) {
            assert!(!matches!(state, State::Over(_)), "{state:?}");
            state = way.changed().await;
        }
        state
    };
    let wait = async { tokio::time::timeout(PATIENCE, wait).await };
    let state = runtime.expect("a runtime").block_on(wait);
    state.expect("it comes in time")
}

fn is_up(state: &State) -> bool {
    matches!(state, State::Up { .. })
}

/// A way that is up.
fn begun(far: &Far) -> Way {
    let mut way = Way::start(order(far)).expect("a way");
    until(&mut way, is_up);
    way
}

/// A program that has logged in.
fn program(way: &Way) -> TcpStream {
    let mut program = TcpStream::connect(way.address()).expect("connected");
    program.set_read_timeout(Some(PATIENCE)).expect("set");
    let password = way.login().expect("a login").password().as_bytes();
    let name = NAME.as_bytes();
    let login = wire::socks::Login { name, password }.to_vec();
    program.write_all(&[5, 1, 2]).expect("written");
    assert_eq!(heard::<2>(&mut program), [5, 2]);
    program
        .write_all(&login.expect("a login"))
        .expect("written");
    assert_eq!(heard::<2>(&mut program), [1, 0]);
    program
}

fn heard<const N: usize>(program: &mut TcpStream) -> [u8; N] {
    let mut octets = [0; N];
    program.read_exact(&mut octets).expect("an answer");
    octets
}

/// Asks for a connection. Returns the outcome.
fn ask(program: &mut TcpStream, request: &[u8]) -> u8 {
    program.write_all(request).expect("written");
    let [5, outcome, 0, 1, ..] = heard::<10>(program) else {
        panic!("no answer of SOCKS");
    };
    outcome
}

fn to(host: [u8; 4], port: u16) -> Vec<u8> {
    let port = port.to_be_bytes();
    [&[5, 1, 0, 1][..], &host, &port].concat()
}

fn by_name(name: &str, port: u16) -> Vec<u8> {
    let len = u8::try_from(name.len()).expect("a short name");
    let port = port.to_be_bytes();
    [&[5, 1, 0, 3, len][..], name.as_bytes(), &port].concat()
}

#[test]
fn octets_pass_both_ways_and_each_end_closes_alone() {
    let far = Far::start(true);
    let way = begun(&far);
    let mut program = program(&way);
    assert_eq!(ask(&mut program, &to(HOST, ECHO_PORT)), 0);
    // More than all buffers on the way hold.
    let sent: Vec<u8> = (0..12 << 20).map(|at: u32| (at % 251) as u8).collect();
    let mut writing = program.try_clone().expect("the same socket");
    let copy = sent.clone();
    let writer = std::thread::spawn(move || {
        writing.write_all(&copy).expect("all is taken");
        writing
            .shutdown(Shutdown::Write)
            .expect("this direction ends");
    });
    let mut received = Vec::new();
    program
        .read_to_end(&mut received)
        .expect("all comes back, then the end");
    writer.join().expect("no panic");
    assert!(received == sent, "{} of {}", received.len(), sent.len());
    let (end, counts) = way.stop();
    assert_eq!(end, End::Stopped);
    assert_eq!((counts.accepted, counts.connected), (1, 1));
    assert_eq!(counts.octets_in, sent.len() as u64);
    assert_eq!(counts.octets_out, sent.len() as u64);
    assert_eq!(
        counts.misbehaved + counts.refused_logins + counts.unsealed,
        0
    );
    assert!(far.is_left(), "the peer is told that the tunnel ends");
}

#[test]
fn what_follows_a_request_at_once_is_not_lost() {
    let far = Far::start(true);
    let way = begun(&far);
    let mut program = program(&way);
    let mut request = to(HOST, ECHO_PORT);
    request.extend_from_slice(b"early");
    assert_eq!(ask(&mut program, &request), 0);
    program.write_all(b" and late").expect("written");
    assert_eq!(&heard::<14>(&mut program), b"early and late");
}

#[test]
fn names_are_resolved_at_the_far_end() {
    let far = Far::start(true);
    let way = begun(&far);
    let mut found = program(&way);
    assert_eq!(ask(&mut found, &by_name("echo.example", ECHO_PORT)), 0);
    found.write_all(b"hello").expect("written");
    assert_eq!(&heard::<5>(&mut found), b"hello");
    let mut text = program(&way);
    assert_eq!(ask(&mut text, &by_name("10.1.0.1", ECHO_PORT)), 0);
    let mut unknown = program(&way);
    assert_eq!(ask(&mut unknown, &by_name("nowhere.example", ECHO_PORT)), 4);
    let State::Up { inner, dns, .. } = way.state() else {
        panic!("it is up");
    };
    assert_eq!((inner.len(), dns), (1, vec![HOST.into()]));
}

#[test]
fn each_refusal_has_its_code() {
    let far = Far::start(false);
    let way = begun(&far);
    for (request, code) in [
        (to(HOST, 9), 5),
        // Outside of the tunnel's networks.
        (to([192, 0, 2, 1], 80), 2),
        // No resolver came with the inner address.
        (by_name("echo.example", ECHO_PORT), 8),
        ([&[5, 2, 0, 1][..], &HOST, &[0, 80]].concat(), 7),
        ([&[5, 3, 0, 1][..], &HOST, &[0, 80]].concat(), 7),
    ] {
        let mut program = program(&way);
        assert_eq!(ask(&mut program, &request), code, "{request:?}");
        let mut rest = Vec::new();
        program.read_to_end(&mut rest).expect("then it ends");
        assert!(rest.is_empty());
    }
    assert_eq!(way.stop().1.refused_requests, 5);
}

#[test]
fn nobody_comes_in_without_the_password() {
    let far = Far::start(true);
    let way = begun(&far);
    let answer = |said: &[u8]| {
        let mut program = TcpStream::connect(way.address()).expect("connected");
        program.write_all(said).expect("written");
        let mut answer = Vec::new();
        // What is no SOCKS gets no answer, and may be reset.
        let _ = program.read_to_end(&mut answer);
        answer
    };
    assert_eq!(answer(&[5, 1, 0]), [5, 255]);
    let mut wrong = vec![5, 1, 2, 1, 7];
    wrong.extend_from_slice(b"caravan\x05wrong");
    wrong.extend_from_slice(&to(HOST, ECHO_PORT));
    assert_eq!(answer(&wrong), [5, 2, 1, 1]);
    assert_eq!(answer(b"GET http://10.1.0.1/ HTTP/1.1\r\n\r\n"), b"");
    assert_eq!(answer(&[4, 1, 0, 80, 10, 1, 0, 1, 0]), b"");
    let counts = way.stop().1;
    assert_eq!((counts.refused_logins, counts.misbehaved), (2, 2));
    assert_eq!(counts.connected, 0);
}

#[test]
fn programs_of_the_same_user_need_no_password_if_so_ordered() {
    let far = Far::start(true);
    let access = Access::SameUser;
    let mut way = Way::start(Order {
        access,
        ..order(&far)
    })
    .expect("a way");
    until(&mut way, is_up);
    assert!(way.login().is_none());
    let mut program = TcpStream::connect(way.address()).expect("connected");
    program.write_all(&[5, 1, 0]).expect("written");
    assert_eq!(heard::<2>(&mut program), [5, 0]);
    assert_eq!(ask(&mut program, &to(HOST, ECHO_PORT)), 0);
    assert_eq!(way.stop().1.strangers, 0);
}

#[test]
fn a_reset_reaches_the_other_end() {
    let far = Far::start(true);
    let way = begun(&far);
    let mut program = program(&way);
    // The host there takes the connection and resets it at the first octet.
    assert_eq!(ask(&mut program, &to(HOST, SILENT_PORT)), 0);
    program.write_all(b"x").expect("written");
    let fault = program
        .read(&mut [0; 1])
        .expect_err("a reset, no end of a file");
    assert_eq!(fault.kind(), std::io::ErrorKind::ConnectionReset);
}

#[test]
fn there_are_no_more_connections_than_allowed() {
    let far = Far::start(true);
    let way = begun(&far);
    let mut known: Vec<TcpStream> = (0..CONNECTIONS_MAX).map(|_| program(&way)).collect();
    let mut last = TcpStream::connect(way.address()).expect("the kernel takes it");
    last.write_all(&[5, 1, 2]).expect("written");
    last.set_read_timeout(Some(Duration::from_millis(200)))
        .expect("set");
    last.read(&mut [0; 1]).expect_err("it waits in the queue");
    known.truncate(CONNECTIONS_MAX - 1);
    last.set_read_timeout(Some(PATIENCE)).expect("set");
    assert_eq!(heard::<2>(&mut last), [5, 2]);
}

/// Half of them have begun to log in.
#[test]
fn connections_that_never_log_in_do_not_keep_others_away() {
    let far = Far::start(true);
    let way = begun(&far);
    let mut before = program(&way);
    assert_eq!(ask(&mut before, &to(HOST, ECHO_PORT)), 0);
    let connect = |at: usize| {
        let mut stranger = TcpStream::connect(way.address()).expect("the kernel takes it");
        stranger
            .write_all(&[5, 1, 2][..at % 2 * 3])
            .expect("written");
        stranger
    };
    let mut strangers: Vec<TcpStream> = (0..2 * STRANGERS_MAX).map(connect).collect();
    let mut after = program(&way);
    assert_eq!(ask(&mut after, &to(HOST, ECHO_PORT)), 0);
    // The oldest had to go. One whose time is over is closed, and not reset.
    let oldest = &mut strangers[0];
    oldest.set_read_timeout(Some(PATIENCE)).expect("set");
    let fault = oldest.read(&mut [0; 1]).expect_err("no end of a file");
    assert_eq!(fault.kind(), std::io::ErrorKind::ConnectionReset);
    for program in [&mut before, &mut after] {
        program.write_all(b"hello").expect("written");
        assert_eq!(&heard::<5>(program), b"hello");
    }
    drop(strangers);
    assert!(way.stop().1.misbehaved > 0);
}

#[test]
fn the_end_of_the_tunnel_is_told() {
    let far = Far::start(true);
    // An address of its own: other tests listen at the same time.
    let listen = "127.8.7.6:0".parse().expect("an address");
    let order_of = Order {
        listen,
        ..order(&far)
    };
    let mut way = Way::start(order_of).expect("a way");
    until(&mut way, is_up);
    let mut program = program(&way);
    assert_eq!(ask(&mut program, &to(HOST, ECHO_PORT)), 0);
    far.end_tunnel();
    let is_over = |state: &State| *state == State::Over(End::DeletedByPeer);
    until(&mut way, is_over);
    program
        .read(&mut [0; 1])
        .expect_err("its connection is reset");
    TcpStream::connect(way.address()).expect_err("nobody listens");
    assert_eq!(way.stop().0, End::DeletedByPeer);

    let far = Far::start(true);
    // From the start: a slow machine has to be up before.
    let span = Some(Duration::from_secs(3));
    let order = Order {
        until: span,
        ..order(&far)
    };
    let mut way = Way::start(order).expect("a way");
    until(&mut way, is_up);
    until(&mut way, |state| *state == State::Over(End::TimeOver));
    drop(way);
    assert!(far.is_left());
}

#[test]
fn what_this_way_cannot_do_is_refused_with_the_reason() {
    let suitable = "vips = [\"0.0.0.0\"]\nremote_addrs = [\"192.0.2.1\"]\n";
    let child = "remote_ts = [\"10.1.0.0/24\"]";
    let ids = ("ms.example", "sg.example");
    for (says, child, reason) in [
        ("remote_addrs = [\"192.0.2.1\"]\n", child, "vips"),
        (suitable, "mode = \"transport\"", "transport"),
        (
            suitable,
            "remote_ts = [\"10.1.0.0/24\"]\nah_proposals = [\"sha256\"]",
            "AH",
        ),
    ] {
        let refused = Way::start(of(far::config(says, ids, child))).err();
        let text = refused.map(|fault| fault.to_string()).unwrap_or_default();
        assert!(text.contains(reason), "{text}");
    }
    let listen: SocketAddr = "0.0.0.0:0".parse().expect("an address");
    let config = far::config(suitable, ids, child);
    let refused = Way::start(Order {
        listen,
        ..of(config)
    })
    .err();
    assert!(matches!(refused, Some(WayError::NotLoopback(_))));
}

use crypto::cert::{Authority, KeyMaterial, Request, SigningKey};
use engine::ike::NotReached;

use super::*;
use crate::config::{Names, load};

const TIMEOUT: Duration = Duration::from_secs(30);
/// A possible reason for silence after our proof in main mode.
const WRONG_KEY: &str =
    "the peer answers but cannot read our authentication: a wrong PSK looks like this";
const SOON: Duration = Duration::from_secs(1);

/// Two clients in main mode with one key; the first has two addresses of its gateway.
fn stations() -> Vec<Arc<Connection>> {
    let one = |name: &str, addresses: &str| {
        format!(
            "[connections.{name}]\nlegacy = true\naggressive = false\n\
             remote_addrs = [{addresses}]\n\
             local = {{ auth = \"psk\", secret = \"s\", id = \"ms.example\" }}\n\
             remote = {{ auth = \"psk\", id = \"sg.example\" }}\n\
             [connections.{name}.children.net]\nremote_ts = [\"10.10.0.0/24\"]\n"
        )
    };
    let text = one("a", "\"192.0.2.1\", \"192.0.2.2\"") + &one("b", "\"192.0.2.3\"");
    let own = (std::process::id(), std::thread::current().id());
    let path = std::env::temp_dir().join(format!("caravan-readiness-{own:?}.toml"));
    std::fs::write(&path, text).expect("written");
    let loaded = load(&path, Names::Wanted).expect("good");
    std::fs::remove_file(&path).expect("removed");
    loaded.engine.connections.clone()
}

fn message(connection: &str, step: Step, is_sent: bool) -> Event {
    message_at(gateway(), connection, step, is_sent)
}

fn message_at(remote: SocketAddr, connection: &str, step: Step, is_sent: bool) -> Event {
    Event::Message {
        connection: Some(connection.to_owned()),
        step,
        is_sent,
        message_id: is_sent.then_some(0),
        remote: is_sent.then_some(remote),
        bytes: 100,
        datagrams: 1,
        payloads: String::new(),
    }
}

fn gateway() -> SocketAddr {
    "192.0.2.3:500".parse().expect("an address")
}

fn closed(at: SocketAddr) -> Unreachable {
    Unreachable {
        why: NotReached::Port,
        by: at.ip(),
    }
}

fn retry(connection: &str, attempt: u32) -> Event {
    Event::RetryScheduled {
        connection: connection.to_owned(),
        in_ms: 500,
        attempt,
        is_refused: false,
    }
}

fn failure(connection: &str, reason: &str) -> Event {
    let address = ([192, 0, 2, 1], 500);
    Event::NegotiationFailed {
        connection: Some(connection.to_owned()),
        path: engine::sa::Path::udp(address, address),
        reason: reason.to_owned(),
    }
}

fn established(connection: &str) -> Event {
    Event::IkeEstablished {
        connection: connection.to_owned(),
        version: 2,
        peer: "sg.example".to_owned(),
        suite: String::new(),
        ppk: None,
        has_full_transcript: true,
        is_resumed: false,
        path: engine::sa::Path::udp(([198, 51, 100, 1], 500), gateway()),
        nat: (false, false),
    }
}

fn complaint(remote: SocketAddr, is_proven: bool) -> Event {
    Event::PeerComplains {
        connection: Some("b".to_owned()),
        path: engine::sa::Path::udp(([198, 51, 100, 1], 500), remote),
        complaint: "NO-PROPOSAL-CHOSEN".to_owned(),
        is_proven,
    }
}

/// The line about an event.
fn told_of(
    progress: &mut Progress,
    event: &Event,
    connections: &[Arc<Connection>],
) -> Option<String> {
    let note = progress.on_event(event, connections)?;
    Some(note.words())
}

/// The lines on the way, and the final sentence.
fn after(events: &[Event], waited: Duration) -> (Vec<String>, Option<String>) {
    let connections = stations();
    let mut progress = Progress::default();
    let told = events.iter();
    let told = told.filter_map(|event| told_of(&mut progress, event, &connections));
    let told = told.collect();
    (told, progress.end((waited, TIMEOUT), &connections, None))
}

#[test]
fn one_attempt_at_each_address_is_enough() {
    let silent = failure("b", "no answer to main 1");
    let (told, end) = after(&[silent.clone(), retry("b", 1)], SOON);
    assert_eq!(told, ["b: no answer to main 1", "b: trying again in 0.5 s"]);
    let expected =
        "not up after 1 attempt, and nothing is left in the background: no answer to main 1";
    assert_eq!(end.as_deref(), Some(expected));
    // Another address of the first gateway is not yet tried.
    assert_eq!(after(&[retry("a", 1)], SOON).1, None);
    let (_, end) = after(&[silent, retry("a", 1), retry("a", 2)], SOON);
    let expected = "not up after 2 attempts, and nothing is left in the background: no route to \
                    the peer";
    assert_eq!(end.as_deref(), Some(expected));
}

#[test]
fn an_attempt_that_failed_before_the_tunnel_was_up_counts_no_more() {
    let up = Event::ChildEstablished {
        connection: "b".to_owned(),
        child: "net".to_owned(),
        suite: String::new(),
        spis: (1, 2),
        is_rekey: false,
    };
    assert_eq!(after(&[retry("b", 1), up], SOON).1, None);
}

#[test]
fn patience_ends_while_an_attempt_goes_on() {
    let sent = message("b", Step::Main(1), true);
    let events = [sent.clone(), sent.clone(), sent];
    let (told, end) = after(&events, SOON);
    let silence =
        "no reply from 192.0.2.3, UDP 500 (3 tries): is the address right and the port open?";
    assert_eq!(told[1], format!("b: {silence}"));
    assert_eq!(end, None);
    let (_, end) = after(&events, TIMEOUT);
    let expected =
        format!("not up after 30 s (--timeout), and nothing is left in the background: {silence}");
    assert_eq!(end, Some(expected));
}

#[test]
fn silence_after_main_modes_proof_looks_like_another_key() {
    let answered = [
        message("b", Step::Main(3), true),
        message("b", Step::Main(4), false),
    ];
    let proof = [
        message("b", Step::Main(5), true),
        message("b", Step::Main(5), true),
    ];
    let events = [&answered[..], &proof[..]].concat();
    let (told, end) = after(&events, TIMEOUT);
    assert!(told[0].contains(WRONG_KEY), "{told:?}");
    let end = end.expect("its end");
    assert!(end.contains(WRONG_KEY), "{end}");
    // An answer removes the suspicion.
    let end = after(
        &[&events[..], &[message("b", Step::Main(6), false)]].concat(),
        TIMEOUT,
    );
    assert!(end.1.is_some_and(|end| !end.contains(WRONG_KEY)));
}

#[test]
fn silence_on_another_port_than_the_one_that_answers_looks_like_a_firewall() {
    for (port, is_suspected) in [(4500, true), (500, false)] {
        let at = SocketAddr::new(gateway().ip(), port);
        let proof = || message_at(at, "b", Step::Main(5), true);
        let events = [
            message("b", Step::Main(3), true),
            message("b", Step::Main(4), false),
            proof(),
            proof(),
        ];
        let (told, _) = after(&events, TIMEOUT);
        let suspects = told[0].contains("a firewall that drops UDP 4500");
        assert_eq!(suspects, is_suspected, "{told:?}");
    }
}

#[test]
fn two_exchanges_at_once_are_no_repetition() {
    let of = |message_id| match message("b", Step::Quick(1), true) {
        Event::Message {
            connection,
            step,
            is_sent,
            bytes,
            datagrams,
            payloads,
            remote,
            ..
        } => Event::Message {
            connection,
            step,
            is_sent,
            message_id: Some(message_id),
            remote,
            bytes,
            datagrams,
            payloads,
        },
        other => other,
    };
    assert!(after(&[of(1), of(2)], SOON).0.is_empty());
    let (told, _) = after(&[of(1), of(2), of(1)], SOON);
    assert_eq!(
        told,
        ["b: no reply from 192.0.2.3, UDP 500, to quick 1 (2 tries)"]
    );
}

#[test]
fn a_closed_port_is_told_once_and_ends_nothing() {
    let connections = stations();
    let mut progress = Progress::default();
    let elsewhere = "198.51.100.9:500".parse().expect("an address");
    assert_eq!(progress.unreachable(gateway(), closed(gateway())), None);
    progress.on_event(&message("b", Step::Main(1), true), &connections);
    assert_eq!(progress.unreachable(elsewhere, closed(elsewhere)), None);
    let hint = "192.0.2.3 says that nothing listens on UDP 500 (ICMP port unreachable, 1 try): \
                does the gateway run there?";
    assert_eq!(
        progress.unreachable(gateway(), closed(gateway())),
        Some(format!("b: {hint}"))
    );
    assert_eq!(progress.unreachable(gateway(), closed(gateway())), None);
    assert_eq!(progress.end((SOON, TIMEOUT), &connections, None), None);
    let end = progress
        .end((TIMEOUT, TIMEOUT), &connections, None)
        .expect("its end");
    assert!(
        end.contains("says that nothing listens on UDP 500"),
        "{end}"
    );
    // An address that answers is reachable.
    progress.on_event(&message("b", Step::Main(2), false), &connections);
    assert!(
        !progress
            .end((TIMEOUT, TIMEOUT), &connections, None)
            .expect("its end")
            .contains("ICMP")
    );
}

#[test]
fn what_our_own_host_does_not_send_is_no_silence() {
    let connections = stations();
    let mut progress = Progress::default();
    let forbidden = io::Error::from(io::ErrorKind::PermissionDenied);
    let elsewhere = "198.51.100.9:500".parse().expect("an address");
    progress.on_event(&message("b", Step::Main(1), true), &connections);
    assert_eq!(progress.refused(elsewhere, &forbidden), None);
    let words = format!(
        "cannot send to 192.0.2.3:500: {forbidden}: does a firewall of this host forbid it?"
    );
    let line = Some(format!("b: {words}"));
    assert_eq!(progress.refused(gateway(), &forbidden), line);
    assert_eq!(progress.refused(gateway(), &forbidden), None);
    assert_eq!(progress.missing("b"), Some(words));
    let failed = told_of(&mut progress, &failure("b", "no reply"), &connections);
    assert_eq!(failed, line);
    // Once a message has left, the peer is the silent one.
    progress.on_event(&retry("b", 1), &connections);
    progress.unsent.sent(gateway());
    let failed = told_of(&mut progress, &failure("b", "no reply"), &connections);
    assert_eq!(failed.as_deref(), Some("b: no reply"));
}

#[test]
fn a_refusal_that_is_believed_later_is_told_once_an_attempt() {
    let connections = stations();
    let mut progress = Progress::default();
    let refused = failure("b", "the peer refused");
    let told: Vec<bool> = [&refused, &refused, &retry("b", 1), &refused]
        .map(|event| {
            let is_told = progress.is_told(event);
            assert_eq!(
                told_of(&mut progress, event, &connections).is_none(),
                is_told
            );
            progress.logged(event);
            is_told
        })
        .into();
    assert_eq!(told, [false, true, false, false]);
    assert!(!progress.is_told(&failure("b", "no reply")));
    assert!(!progress.is_told(&failure("a", "the peer refused")));
}

#[test]
fn a_failure_that_the_log_had_no_room_for_is_not_held_back_later() {
    let connections = stations();
    let mut progress = Progress::default();
    let refused = failure("b", "the peer refused");
    progress.on_event(&refused, &connections);
    assert!(!progress.is_told(&refused));
    progress.logged(&refused);
    assert!(progress.is_told(&refused));
}

#[test]
fn what_fails_under_an_ike_sa_is_told_each_time_also_after_another_one_has_ended() {
    let connections = stations();
    let mut progress = Progress::default();
    let refused = failure("b", "the peer refused a child");
    let closed = |had_children| Event::IkeClosed {
        connection: "b".to_owned(),
        had_children,
        cause: node::EndCause::DeletedByPeer,
    };
    progress.on_event(&established("b"), &connections);
    // The loser of a race, or what an IKE SA of IKEv1 was renewed from.
    progress.on_event(&closed(false), &connections);
    for _ in 0..2 {
        assert!(!progress.is_told(&refused));
        progress.on_event(&refused, &connections);
        progress.logged(&refused);
    }
    // The tunnel ends, and an attempt follows.
    progress.on_event(&closed(true), &connections);
    assert!(!progress.is_told(&refused));
    progress.logged(&refused);
    assert!(progress.is_told(&refused));
    // It is over once there is an IKE SA.
    progress.on_event(&established("b"), &connections);
    assert!(!progress.is_told(&refused));
}

#[test]
fn what_cannot_be_sent_again_is_said_once() {
    let connections = stations();
    let mut progress = Progress::default();
    let message = message("b", Step::Main(1), true);
    assert_eq!(told_of(&mut progress, &message, &connections), None);
    let unreachable = io::Error::from(io::ErrorKind::NetworkUnreachable);
    assert!(progress.refused(gateway(), &unreachable).is_some());
    assert_eq!(told_of(&mut progress, &message, &connections), None);
    progress.unsent.sent(gateway());
    assert!(told_of(&mut progress, &message, &connections).is_some());
}

#[test]
fn what_a_gateway_that_is_proven_does_not_do_is_told() {
    let connections = stations();
    let mut progress = Progress::default();
    progress.on_event(&established("b"), &connections);
    // Another address of the gateway has lost the race.
    let loser = Event::IkeClosed {
        connection: "b".to_owned(),
        had_children: false,
        cause: node::EndCause::OtherAddressFirst,
    };
    progress.on_event(&loser, &connections);
    // A request is open, about another child.
    progress.on_event(&message("b", Step::Quick(1), true), &connections);
    let line = told_of(&mut progress, &complaint(gateway(), true), &connections);
    assert_eq!(line.as_deref(), Some("b: NO-PROPOSAL-CHOSEN"));
}

#[test]
fn a_message_in_clear_is_not_taken_for_the_gateway_s_while_there_is_a_tunnel() {
    let connections = stations();
    let mut progress = Progress::default();
    progress.on_event(&established("b"), &connections);
    let hint = complaint(gateway(), false);
    assert_eq!(told_of(&mut progress, &hint, &connections), None);
    progress.on_event(&message("b", Step::Quick(1), true), &connections);
    let line = told_of(&mut progress, &hint, &connections).expect("a hint");
    assert!(
        line.contains("without proof that it is the gateway"),
        "{line}"
    );
}

#[test]
fn a_refusal_in_clear_is_no_silence() {
    let connections = stations();
    let mut progress = Progress::default();
    let complaint = |remote: &str| complaint(remote.parse().expect("an address"), false);
    assert_eq!(
        told_of(&mut progress, &complaint("192.0.2.3:500"), &connections),
        None
    );
    progress.on_event(&message("b", Step::Main(1), true), &connections);
    assert_eq!(
        told_of(&mut progress, &complaint("192.0.2.4:500"), &connections),
        None
    );
    let hint = "192.0.2.3 refuses, without proof that it is the gateway: NO-PROPOSAL-CHOSEN";
    assert_eq!(
        told_of(&mut progress, &complaint("192.0.2.3:500"), &connections),
        Some(format!("b: {hint}"))
    );
    // It is reported once, and stays during further tries.
    let again = message("b", Step::Main(1), true);
    assert_eq!(told_of(&mut progress, &again, &connections), None);
    let end = progress.end((TIMEOUT, TIMEOUT), &connections, None);
    let end = end.expect("its end");
    assert!(end.contains(hint) && !end.contains("no reply"), "{end}");
}

/// When the certificate of [`certified`] becomes valid, and when it expires.
const IN_FORCE: (i64, i64) = (1_800_000_000, 1_800_000_000 + 2 * 86_400);

/// A client that authenticates with a certificate.
fn certified() -> Vec<Arc<Connection>> {
    let [own, other] = [(); 2].map(|()| SigningKey::generate(2048).expect("a key"));
    let authority = Authority::create("CN=ca", other, &[1], IN_FORCE.0, 30).expect("made");
    let request = Request {
        subject: "CN=ms.example",
        alternative_names: &["ms.example".to_owned()],
        key: KeyMaterial::Pair(&own),
        serial: &[2],
        now: IN_FORCE.0,
        days: 2,
    };
    let issued = authority.issue(&request).expect("issued");
    let id = (std::process::id(), std::thread::current().id());
    let folder = std::env::temp_dir().join(format!("caravan-certified-{id:?}"));
    std::fs::create_dir_all(&folder).expect("a folder");
    let text = "[connections.b]\nremote_addrs = [\"192.0.2.3\"]\n\
                local = { certs = [\"ms.pem\"], key = \"ms.key\" }\n\
                remote = { cacerts = [\"ca.pem\"], id = \"sg.example\" }\n\
                [connections.b.children.net]\nremote_ts = [\"10.10.0.0/24\"]\n";
    for (name, text) in [
        ("ms.pem", issued.as_str()),
        ("ms.key", &own.to_pem()),
        ("ca.pem", authority.certificate_pem()),
        ("x.toml", text),
    ] {
        std::fs::write(folder.join(name), text).expect("written");
    }
    let loaded = load(&folder.join("x.toml"), Names::Needed).expect("good");
    std::fs::remove_dir_all(&folder).expect("removed");
    loaded.engine.connections
}

#[test]
fn a_certificate_of_ours_that_is_not_in_force_is_told_with_a_failure() {
    let connections = certified();
    let refused = "the peer refused with AUTHENTICATION-FAILED in IKEv1 main mode";
    let told = |now: i64| {
        let mut progress = Progress {
            calendar: Calendar(now),
            ..Progress::default()
        };
        let event = progress.explained(failure("b", refused), &connections);
        progress.on_event(&event, &connections);
        progress.on_event(&retry("b", 1), &connections);
        let end = progress.end((SOON, TIMEOUT), &connections, None);
        (progress.trouble("b"), end)
    };
    for (now, own) in [
        (
            IN_FORCE.0 - 86_400,
            "our own certificate CN=ms.example is not valid before 2027-01-",
        ),
        (
            IN_FORCE.1 + 86_400,
            "our own certificate CN=ms.example expired at 2027-01-17",
        ),
    ] {
        let (trouble, end) = told(now);
        let (trouble, end) = (trouble.expect("a reason"), end.expect("its end"));
        assert!(
            trouble.starts_with(own) && trouble.ends_with(refused),
            "{trouble}"
        );
        assert!(end.ends_with(&trouble), "{end}");
    }
    assert_eq!(told(IN_FORCE.0 + 86_400).0.as_deref(), Some(refused));
}

#[test]
fn a_peer_that_only_falls_silent_is_told_with_a_certificate_of_ours_that_is_over() {
    let connections = certified();
    let mut progress = Progress {
        calendar: Calendar(IN_FORCE.1 + 1),
        ..Progress::default()
    };
    progress.on_event(&message("b", Step::Main(5), true), &connections);
    let end = progress
        .end((TIMEOUT, TIMEOUT), &connections, None)
        .expect("its end");
    let words = "in the background: our own certificate CN=ms.example expired at";
    assert!(
        end.contains(words) && end.contains("no reply from"),
        "{end}"
    );
}

#[test]
fn why_the_last_tunnel_ended_is_known_until_there_is_another() {
    let connections = stations();
    let mut progress = Progress::default();
    let closed = |had_children| Event::IkeClosed {
        connection: "b".to_owned(),
        had_children,
        cause: node::EndCause::DeletedByPeer,
    };
    progress.on_event(&closed(false), &connections);
    assert_eq!(progress.last_end("b"), None, "no tunnel was up");
    progress.on_event(&closed(true), &connections);
    progress.on_event(&failure("b", "no reply"), &connections);
    assert_eq!(
        progress.last_end("b").as_deref(),
        Some("deleted by the peer")
    );
    let up = Event::ChildEstablished {
        connection: "b".to_owned(),
        child: "net".to_owned(),
        suite: String::new(),
        spis: (1, 2),
        is_rekey: false,
    };
    progress.on_event(&up, &connections);
    assert_eq!(progress.last_end("b"), None);
    let child = Event::ChildClosed {
        connection: "b".to_owned(),
        child: "net".to_owned(),
        cause: node::EndCause::PeerSilent,
    };
    progress.on_event(&child, &connections);
    progress.on_event(&closed(false), &connections);
    let mut status = crate::status::ConnectionStatus {
        name: "b".to_owned(),
        ..Default::default()
    };
    progress.tell(&mut status);
    let said = status.last_end.as_deref();
    assert_eq!(said, Some("the peer does not answer"));
    status.state = ConnectionState::Established;
    progress.tell(&mut status);
    assert_eq!(status.last_end, None);
}

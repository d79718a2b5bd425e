//! The program's agents as processes on loopback, with back-ends that only write texts: the ten
//! steps, refusals, restarts, and `kill -9` at every step.

mod bed;

use std::net::UdpSocket;
use std::path::Path;
use std::thread;
use std::time::Duration;

use bed::{Bed, Ended};

/// Lines of each agent's log for one tunnel, in their order.
const CLIENT: [&str; 3] = ["requested", "accepted", "up"];
const HOST: [&str; 5] = [
    "authenticated",
    "key-taken",
    "referred",
    "authorized",
    "key-used",
];
const TARGET: [&str; 3] = ["admitted", "built", "authorized"];

#[test]
fn a_key_makes_one_tunnel_and_is_refused_again() {
    let mut bed = Bed::new("once");
    bed.start();
    let client = bed.client(1, &[]);
    client.wait_for("up");
    assert_eq!(bed.texts("client").len(), 1);
    assert_eq!(bed.texts("target").len(), 1);
    let handle = client.field("up", "key");
    let ended = client.stop();
    assert!(ended.is_success, "{}", ended.said);
    bed.target().wait_for("authorized");
    assert_eq!(ended.steps(), [&CLIENT[..], &["ended"]].concat());
    assert!(bed.texts("client").is_empty());
    let again = bed.client(1, &[]).end();
    assert!(!again.is_success);
    assert!(
        again.said.contains("the key was used before"),
        "{}",
        again.said
    );
    assert_eq!(bed.state_of(&handle), "used");
    bed.stop();
    // Target has taken its end down with itself.
    assert!(bed.texts("target").is_empty());
    assert_eq!(bed.log("host", &handle), [&HOST[..], &["refused"]].concat());
    assert_eq!(
        bed.log("target", &handle),
        [&TARGET[..], &["ended"]].concat()
    );
}

#[test]
fn what_is_wrong_with_a_request_is_refused_without_a_tunnel() {
    let mut bed = Bed::new("wrong");
    bed.start();
    let refused = |bed: &Bed, ended: Ended, words: &str| {
        assert!(
            !ended.is_success && ended.said.contains(words),
            "{}",
            ended.said
        );
        assert!(bed.texts("client").is_empty() && bed.texts("target").is_empty());
    };
    // Another user's key, and an option that nobody may use: the key is not spent.
    let ended = bed.client_as("mallory", 1, &[]).end();
    refused(&bed, ended, "you may not");
    // ESP alone is a member's.
    let all = ["--objectives", "DataExchangeConf,NonRepudiation"];
    let ended = bed.client(2, &all).end();
    refused(&bed, ended, "you may not");
    let revoked = bed.client(3, &[]);
    revoked.wait_for("up");
    let handle = revoked.field("up", "key");
    revoked.stop();
    let said = bed.fails(&["revoke", "-c", "host.toml", "--key", &handle]);
    assert!(said.contains("is no valid key"), "{said}");
    bed.does(&["revoke", "-c", "host.toml", "--user", "alice"]);
    let ended = bed.client(4, &[]).end();
    refused_by(&ended, "the key was revoked");
    let cut = bed.half_written(5);
    let ended = bed.client_with(&cut, 1, "alice", &[]).end();
    refused_by(&ended, "typing error");
    bed.stop();
}

/// What an end needs is gone: Target is asked before a key is spent, and says what is wrong.
#[test]
fn a_target_that_cannot_build_or_write_its_log_spends_no_key() {
    let mut bed = Bed::new("cannot-build");
    bed.start();
    let first = bed.client(1, &[]);
    first.wait_for("up");
    first.stop();
    let refused = |bed: &Bed, says: &str| {
        // An offer holds for a second.
        thread::sleep(Duration::from_millis(1_500));
        let client = bed.client(2, &[]);
        let handle = client.field("requested", "key");
        let ended = client.end();
        refused_by(&ended, "Target cannot build a tunnel now");
        refused_by(&ended, "the key is not spent");
        assert_eq!(bed.state_of(&handle), "valid");
        bed.target().wait_to_say(says);
    };
    bed.set_mode("target", 0o777);
    refused(&bed, "other users can write into");
    bed.set_mode("target", 0o700);
    bed.rename("target", "away");
    refused(&bed, "cannot open the folder");
    bed.rename("away", "target");
    bed.rename("target.log", "away");
    refused(&bed, "was removed or replaced");
    bed.rename("away", "target.log");
    thread::sleep(Duration::from_millis(1_500));
    let last = bed.client(2, &[]);
    last.wait_for("up");
    last.stop();
    bed.stop();
}

/// `check` finds what the start refuses, in the same words.
#[test]
fn what_the_start_refuses_check_refuses_too() {
    let bed = Bed::new("check");
    let issue = ["pki", "issue", "--ca", "guests", "--name", "other.example"];
    bed.runs(&issue);
    let refused = |words: &str| {
        let said = bed.check_fails("target.toml");
        assert!(said.contains(words), "check: {said}");
        refused_by(&bed.agent("target", &["-c", "target.toml"]).end(), words);
    };
    let text = bed.read("target.toml");
    let files = "kind = \"files\"\nwriter = \"caravan\"\n";
    let roles = "role = \"client\", \"host\" or \"target\"";
    for (from, to, words) in [
        ("\"10.77.0.0/24\"", "\"10.77.0.0/33\"", "is no pool"),
        ("\"caravan\"", "\"caravn\"", "'caravan'"),
        (files, "", "needs connection"),
        (files, "kind = \"socks\"\n", "Client's way without root"),
        ("host.keys.pub", "target.keys.pub", "this Target itself"),
        (
            "target.example.key",
            "other.example.key",
            "private key is not that of",
        ),
        (
            "identity = \"target.example\"",
            "identity = \"other.example\"",
            "no name of the certificate",
        ),
        ("role = \"target\"", "role = \"tagret\"", roles),
        ("role = \"target\"", "[tagret]", roles),
    ] {
        let changed = text.replace(from, to);
        assert_ne!(changed, text, "{from}");
        bed.write("target.toml", &changed);
        refused(words);
    }
    bed.write("target.toml", &text);
    assert!(bed.runs(&["check", "target.toml"]).contains("is valid"));
    bed.set_mode("target", 0o777);
    refused("other users can write into");
    bed.set_mode("target", 0o700);
    bed.write("target.log", "no log\n");
    refused("is no log of this agent");
    bed.write("target.log", "");
    bed.write(
        "target.db",
        "no database, but a file of some other program\n",
    );
    refused("no database of tunnel agents");
}

fn refused_by(ended: &Ended, words: &str) {
    assert!(
        !ended.is_success && ended.said.contains(words),
        "{}",
        ended.said
    );
}

#[test]
fn agents_that_listen_on_ipv6_serve_both_families() {
    // A machine may have no IPv6.
    if UdpSocket::bind("[::1]:0").is_err() {
        return;
    }
    let mut bed = Bed::new("families");
    bed.replace(&format!("listen = \"{}:", bed.address), "listen = \"[::]:");
    bed.start();
    let four = bed.client(1, &[]);
    four.wait_for("up");
    four.stop();
    bed.replace(
        &format!("addresses = [\"{}:", bed.address),
        "addresses = [\"[::1]:",
    );
    let issue = ["issue", "-c", "host.toml", "--user", "alice"];
    bed.does(&[&issue[..], &["--out", "six.txt"]].concat());
    let six = bed.client_with(Path::new("six.txt"), 1, "alice", &[]);
    six.wait_for("up");
    six.stop();
    bed.stop();
}

#[test]
fn a_second_host_of_the_same_file_is_refused() {
    let mut bed = Bed::new("second");
    bed.start();
    let second = bed.agent("host", &["-c", "second.toml"]).end();
    refused_by(&second, "PostgreSQL");
    bed.stop();
}

/// Killed once a line of the log says that a step is done. A tunnel that was not finished is taken
/// down by the next agent, and the key makes no other one.
#[test]
fn a_kill_at_any_step_leaves_no_half_built_tunnel() {
    let host = HOST.map(|step| ("host", step));
    let target = TARGET.map(|step| ("target", step));
    let cases: Vec<_> = host.into_iter().chain(target).collect();
    thread::scope(|scope| {
        for (role, step) in cases {
            scope.spawn(move || killed_at(role, step));
        }
    });
}

fn killed_at(role: &str, step: &str) {
    let case = format!("{role}-{step}");
    let mut bed = Bed::new(&case);
    bed.start();
    let client = bed.client(1, &["--lifetime", "1m"]);
    bed.agent_of(role).wait_for(step);
    bed.kill(role);
    let handle = client.field("requested", "key");
    bed.restart(role);
    let has_come = client.wait_within("up", Duration::from_secs(15));
    client.stop();
    assert!(bed.texts("client").is_empty(), "{case}");
    if !has_come {
        bed.wait_until(&format!("{case}: target's end is gone"), |bed| {
            bed.texts("target").is_empty()
        });
    }
    let again = bed.client(1, &[]).end();
    assert!(!again.is_success, "{case}: {}", again.said);
    assert_ne!(bed.state_of(&handle), "valid", "{case}");
    bed.stop();
    assert!(bed.texts("target").is_empty(), "{case}");
    for role in ["host", "target"] {
        bed.does(&["audit", &format!("{role}.log")]);
    }
}

/// What a killed Client has built is removed by hand: nobody else knows of its texts. Target's end
/// is taken down at its end.
#[test]
fn a_killed_client_leaves_nothing_at_target() {
    let mut bed = Bed::new("client");
    bed.start();
    for (key, step) in (1..).zip(CLIENT) {
        let client = bed.client(key, &[]);
        client.wait_for(step);
        client.kill();
    }
    bed.stop();
    assert!(bed.texts("target").is_empty());
}

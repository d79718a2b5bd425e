//! Scripts that reach the states of each machine, in which mutations begin. Making them asserts
//! that they do.

use super::{Script, client, host, target};

/// Target, name and script.
pub fn all() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let mut list = Vec::new();
    for (name, granted, script) in hosts() {
        let mut stage = host::Stage::default();
        Script::new(&script).play(|kind, script| stage.step(kind, script));
        assert_eq!(stage.granted(), granted, "{name}");
        stage.end();
        list.push(("agent_host", name, script));
    }
    for (name, granted, script) in targets() {
        let mut stage = target::Stage::default();
        Script::new(&script).play(|kind, script| stage.step(kind, script));
        assert_eq!(stage.granted(), granted, "{name}");
        stage.end();
        list.push(("agent_target", name, script));
    }
    for (name, is_built, script) in clients() {
        let mut stage = client::Stage::default();
        Script::new(&script).play(|kind, script| stage.step(kind, script));
        assert_eq!(stage.was_built(), is_built, "{name}");
        stage.end();
        list.push(("agent_client", name, script));
    }
    list
}

/// An undamaged message.
const WHOLE: [u8; 2] = [0, 0];

/// A good request: kind, Request ID, lifetime, tunnel key.
const REQUEST: [u8; 4] = [0, 7, 20, 1];

/// With the number of tunnels that clients were told of.
fn hosts() -> Vec<(&'static str, usize, Vec<u8>)> {
    let request = [&[1, 1, 0][..], &REQUEST, &WHOLE, &[0]].concat();
    let other = [&[1, 1, 0, 0, 8, 20, 1][..], &WHOLE, &[0]].concat();
    // The first question is the sweep.
    let answer = [4, 1, 0];
    let offer = [&[5, 0, 60][..], &WHOLE].concat();
    let grant = [&[6, 0, 0, 1, 9][..], &WHOLE].concat();
    let refusal = [&[6, 0, 7, 0][..], &WHOLE].concat();
    let begun = [&request[..], &answer, &offer, &answer].concat();
    let repeated = [3, 0, 0];
    let minutes = [8, 100, 0].repeat(4);
    vec![
        ("granted", 1, [&begun[..], &grant, &answer].concat()),
        (
            "repeated",
            2,
            [&begun[..], &grant, &answer, &repeated].concat(),
        ),
        (
            "used",
            1,
            [&begun[..], &grant, &answer, &other, &answer].concat(),
        ),
        ("refused", 0, [&begun[..], &refusal].concat()),
        ("silent", 0, [&begun[..], &minutes].concat()),
        ("locked", 0, [&begun[..], &grant, &[4, 1, 255]].concat()),
    ]
}

/// With the number of tunnels that Host was told of.
fn targets() -> Vec<(&'static str, usize, Vec<u8>)> {
    let referral = [&[1, 1][..], &REQUEST, &[0], &WHOLE].concat();
    let other = [&[1, 1, 0, 8, 20, 1, 0][..], &WHOLE].concat();
    let answer = [4, 0, 0];
    let built = [&referral[..], &answer.repeat(4)].concat();
    let arrived = [6, 0, 0];
    let closed = [6, 0, 1];
    let inquiry = [&[5, 1, 0, 0][..], &WHOLE].concat();
    let failed = [4, 0, 255];
    let legacy = [&[1, 1, 16, 7, 20, 0][..], &WHOLE, &answer.repeat(3)].concat();
    vec![
        ("inquiry", 0, inquiry),
        ("built", 1, built.clone()),
        ("arrived", 1, [&built[..], &arrived].concat()),
        (
            "closed",
            1,
            [&built[..], &arrived, &closed, &answer].concat(),
        ),
        (
            "never_came",
            1,
            [&built[..], &[8, 100, 0], &answer].concat(),
        ),
        ("spent", 1, [&built[..], &other, &answer, &answer].concat()),
        (
            "half_built",
            0,
            [&referral[..], &answer.repeat(3), &failed, &answer].concat(),
        ),
        ("legacy", 1, legacy),
    ]
}

/// Whether there was an end of a tunnel.
fn clients() -> Vec<(&'static str, bool, Vec<u8>)> {
    let signed = [1, 0];
    // Kind, until, a certificate; Target's part whole, the message whole.
    let granted = [&[2, 0, 2, 88, 5][..], &WHOLE, &WHOLE].concat();
    let false_target = [&[2, 2, 2, 88, 5][..], &WHOLE, &WHOLE].concat();
    let clocks = [&[2, 1, 4, 2, 88, 5][..], &WHOLE, &WHOLE].concat();
    let up = [&signed[..], &granted, &[5, 0]].concat();
    vec![
        ("up", true, up.clone()),
        ("logged_out", true, [&up[..], &[6, 1], &[5, 3]].concat()),
        ("failed", true, [&signed[..], &granted, &[5, 1]].concat()),
        ("cookie", true, [&signed[..], &[4, 9], &granted].concat()),
        ("false_target", false, [&signed[..], &false_target].concat()),
        (
            "clocks",
            true,
            [&signed[..], &clocks, &signed, &granted].concat(),
        ),
        ("no_token", false, vec![1, 255]),
    ]
}

//! Scripts that reach the states of each machine, in which mutations begin. Making them asserts
//! that they do.

use super::{Script, firewall, foreign_agent, home_agent, mobile_node};

/// Target, name and script.
pub fn all() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let mut list = Vec::new();
    for (name, bindings, script) in home_agents() {
        let mut stage = home_agent::Stage::new(script[0]);
        Script::new(&script[1..]).play(|kind, script| stage.step(kind, script));
        assert_eq!(stage.bindings(), bindings, "{name}");
        stage.end();
        list.push(("mip4_home_agent", name, script));
    }
    for (name, visitors, script) in foreign_agents() {
        let mut stage = foreign_agent::Stage::new(script[0]);
        Script::new(&script[1..]).play(|kind, script| stage.step(kind, script));
        assert_eq!(stage.visitors(), visitors, "{name}");
        stage.end();
        list.push(("mip4_foreign_agent", name, script));
    }
    for (name, states, script) in mobile_nodes() {
        let mut stage = mobile_node::Stage::new(script[0]);
        Script::new(&script[1..]).play(|kind, script| stage.step(kind, script));
        assert_eq!(stage.states(), states, "{name}");
        stage.end();
        list.push(("mip4_mobile_node", name, script));
    }
    for (name, bindings, script) in firewalls() {
        let mut stage = firewall::Stage::new(script[0]);
        Script::new(&script[1..]).play(|kind, script| stage.step(kind, script));
        assert_eq!(stage.bindings(), bindings, "{name}");
        stage.end();
        list.push(("firewall", name, script));
    }
    list
}

/// An undamaged message.
const WHOLE: [u8; 2] = [0, 0];
/// Ten seconds.
const WAIT: [u8; 2] = [3, 232];

/// With the number of bindings at the end.
fn firewalls() -> Vec<(&'static str, usize, Vec<u8>)> {
    const SERVER: &[u8] = &[1];
    let (care_of, agent, home, home_agent, on_link) = ([2, 0], [2, 1], [2, 2], [2, 3], [2, 4]);
    let stranger = [2, 6];
    // Form, the ends of the tunnel, those of the packet in it; whose key, from which address.
    let data = |form, from: [u8; 2], own: [u8; 2], sender: &[u8]| {
        let tunnel = [&[1, form][..], &from, &home_agent].concat();
        [&tunnel[..], &own, SERVER, sender, &WHOLE].concat()
    };
    let first = data(0, care_of, home, &[0, 0]);
    let first_elsewhere = data(1, agent, home, &[0, 1]);
    let second = data(0, on_link, stranger, &[1, 2]);
    let second_there = data(0, care_of, stranger, &[1, 0]);
    let in_udp = data(0, care_of, home, &[0x42, 0, 6]);
    let second_in_udp = data(0, care_of, stranger, &[0x43, 0, 6]);
    let back = |to: [u8; 2], own: [u8; 2]| {
        let tunnel = [&[4, 0][..], &home_agent, &to, SERVER].concat();
        [&tunnel[..], &own, &WHOLE].concat()
    };
    let answer = back(care_of, home);
    let host = [&[1, 5, 2, 0, 2, 0, 0, 1, 2][..], &WHOLE].concat();
    let wait = [&[7][..], &WAIT].concat();
    let minutes = wait.repeat(9);
    let restart = [6, 0];
    let there = &second_there;
    let udp = [&[0][..], &in_udp, &second_in_udp, &answer, &wait].concat();
    let moved = [&[0][..], &first, &wait, &first_elsewhere, &answer].concat();
    let displaced = [&[0][..], &first, &minutes, there, &wait].concat();
    let restarted = [&[0][..], &first, &restart, &first, &answer].concat();
    let bound = [&[0][..], &first, &answer, &[5, 1, 1, 6]].concat();
    let two = [&[0][..], &first, &second, &wait, &answer].concat();
    let taken = [&[0][..], &first, &second, &wait, there].concat();
    let parsed_in_udp = [&[1][..], &in_udp, &answer, &wait].concat();
    vec![
        ("bound", 1, bound),
        ("moved", 1, moved),
        ("two", 2, two),
        ("taken", 2, taken),
        ("displaced", 1, displaced),
        ("udp", 2, udp),
        ("parsed", 0, [&[1][..], &first, &answer, &second].concat()),
        ("parsed_in_udp", 1, parsed_in_udp),
        ("short_form", 1, [&[2][..], &first, &answer].concat()),
        ("restarted", 1, restarted),
        ("host", 0, [&[0][..], &host].concat()),
    ]
}

/// With the number of bindings at the end.
fn home_agents() -> Vec<(&'static str, usize, Vec<u8>)> {
    // Extensions, care-of address, a later identification, flags, lifetime, firewall; sender.
    let request = |extensions, care_of, late, flags, lifetime, firewall, from| {
        let start = [1, extensions, care_of, late, flags, lifetime, firewall];
        [&start[..], &[from], &WHOLE].concat()
    };
    let direct = request(0, 0, 0, 0x22, 0, 0, 0);
    let through = request(0x60, 1, 1, 2, 0, 0, 1);
    let natted = request(2, 0, 2, 0x22, 0, 0, 6);
    let firewall = request(0xc, 0, 3, 0x22, 0, 0, 0);
    let untrusted = request(8, 0, 4, 0x22, 0, 1, 0);
    let simultaneous = request(1, 4, 5, 0xa2, 0, 0, 4);
    let home = request(0, 2, 6, 0, 1, 0, 2);
    // Of the foreign agent, a second later.
    let revoked = [&[4, 0, 9, 0, 0][..], &[1], &WHOLE].concat();
    let wait = [&[7][..], &WAIT].concat();
    let with_firewalls = vec![
        ("direct", 1, [&direct[..], &[3, 0], &wait].concat()),
        ("through_an_agent", 1, through.clone()),
        ("revoked_by_an_agent", 0, [&through[..], &revoked].concat()),
        (
            "revoked_here",
            0,
            [&through[..], &wait, &[5], &wait].concat(),
        ),
        // Nobody asks in clear from behind a NAT where a node may be outside.
        ("natted_before_firewalls", 0, natted.clone()),
        ("firewall", 1, [&firewall[..], &untrusted].concat()),
        ("simultaneous", 2, [&direct[..], &simultaneous].concat()),
        ("home", 0, [&direct[..], &home].concat()),
        ("clock", 1, [&[6, 1, 0][..], &direct, &[6, 0, 0]].concat()),
    ];
    let kind = |kind: u8| {
        move |(name, bindings, script): (&'static str, usize, Vec<u8>)| {
            (name, bindings, [&[kind][..], &script].concat())
        }
    };
    let without = ("natted", 1, natted);
    let all = with_firewalls.into_iter().map(kind(0));
    all.chain([without].map(kind(1))).collect()
}

/// With the number of visitors at the end.
fn foreign_agents() -> Vec<(&'static str, usize, Vec<u8>)> {
    // Link-layer address, extensions, home, flags, lifetime, home agent, care-of, identification.
    let request = |mac, extensions, home, flags, id| {
        let start = [1, mac, extensions, home, flags, 0, 0, 0, 0, id];
        [&start[..], &WHOLE, &[0, 0]].concat()
    };
    // Which request, extensions, code, lifetime; sender.
    let reply = |extensions, code| [&[3, 0, extensions, code, 0][..], &WHOLE, &[0]].concat();
    let wait = [&[9][..], &WAIT].concat();
    let came = [request(1, 0, 0, 2, 1), reply(6, 0)].concat();
    let strict = [request(1, 0x18, 0, 2, 1), reply(6, 0)].concat();
    let revoked = [&[5, 3, 9, 0, 0][..], &WHOLE].concat();
    vec![
        ("came", 1, [&[0][..], &came, &wait].concat()),
        (
            "denied",
            0,
            [&[0][..], &request(1, 0, 0, 2, 1), &reply(0, 133)].concat(),
        ),
        ("strict", 1, [&[1][..], &wait, &strict].concat()),
        ("revoked", 0, [&[2][..], &came, &revoked].concat()),
        ("revokes", 0, [&[2][..], &came, &wait, &[6], &wait].concat()),
        (
            "unreachable",
            0,
            [&[0][..], &request(1, 0, 0, 2, 1), &[8, 1]].concat(),
        ),
        (
            "named",
            1,
            [&[0][..], &request(1, 1, 1, 2, 1), &reply(5, 0)].concat(),
        ),
    ]
}

/// How often the node was registered or at home.
fn mobile_nodes() -> Vec<(&'static str, usize, Vec<u8>)> {
    let colocated = [3, 0, 0];
    // Which request, extensions, identification, code, lifetime.
    let reply = |extensions, code| [&[1, 0, extensions, 0, 0, code, 0][..], &WHOLE].concat();
    let advertised = [&[4, 0, 0x11, 0, 0, 3, 0, 0][..], &WHOLE].concat();
    let revoked = [&[5, 1, 9, 1, 1][..], &WHOLE, &[3]].concat();
    let wait = [&[8][..], &WAIT].concat();
    vec![
        (
            "colocated",
            1,
            [&[0][..], &colocated, &reply(2, 0), &wait].concat(),
        ),
        (
            "revoked",
            1,
            [&[0][..], &colocated, &reply(2, 0), &revoked, &wait].concat(),
        ),
        (
            "natted",
            1,
            [&[2][..], &colocated, &reply(1, 0), &wait].concat(),
        ),
        (
            "denied",
            0,
            [&[0][..], &colocated, &reply(0, 133), &wait].concat(),
        ),
        (
            "visiting",
            1,
            [&[1][..], &[3, 1], &advertised, &reply(4, 0), &wait].concat(),
        ),
        (
            "home",
            2,
            [&[0][..], &colocated, &reply(0, 0), &[3, 2], &reply(0, 0)].concat(),
        ),
        (
            "sides",
            2,
            [&[0][..], &colocated, &reply(0, 0), &[7, 1], &reply(0, 0)].concat(),
        ),
    ]
}

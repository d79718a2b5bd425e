//! Requests that an attacker in the network process may send to its steward.

use engine::dns::{MAX_DOMAINS, MAX_TRUST_ANCHORS};
use proptest::prelude::*;
use tokio::io::duplex;

use super::allowed::{Allowed, Refusal};
use super::*;
use crate::config::{Loaded, Names, load};
use crate::routes::full::Purpose;
use crate::routes::roaming::{ByAgent, Place, Router, Visitor};

const STATION: &str = "[connections.home]\nlegacy = true\nremote_addrs = [\"192.0.2.1\"]\n\
    vips = [\"0.0.0.0\"]\nlocal = { auth = \"psk\", secret = \"s\", id = \"a.example\" }\n\
    remote = { auth = \"psk\", id = \"b.example\" }\n\
    [connections.home.children.net]\nremote_ts = [\"10.10.0.0/24\"]\n";

fn loaded(name: &str, text: &str) -> Loaded {
    let own = std::process::id();
    let path = std::env::temp_dir().join(format!("caravan-steward-{own}-{name}.toml"));
    std::fs::write(&path, text).unwrap();
    let loaded = load(&path, Names::Unasked).unwrap_or_else(|fault| panic!("{fault}"));
    std::fs::remove_file(&path).unwrap();
    loaded
}

/// The requests to the steward while the client of `STATION` is up.
fn station() -> (Desired, Resolvers) {
    let network: Prefix = "10.10.0.0/24".parse().unwrap();
    let inner: IpAddr = "10.99.0.1".parse().unwrap();
    let desired = Desired {
        addresses: [inner].into(),
        routes: [(network, Some(inner))].into(),
        blocks: [("home".to_owned(), [network].into())].into(),
        ..Desired::default()
    };
    let resolvers = Resolvers {
        addresses: vec!["10.10.0.53".parse().unwrap()],
        domains: vec!["corp.example".into()],
        trust_anchors: Vec::new(),
    };
    (desired, resolvers)
}

fn judged(text: &str, change: impl FnOnce(&mut Desired, &mut Resolvers)) -> Result<(), Refusal> {
    let name = std::thread::current().name().unwrap_or("").replace(':', "");
    let (mut desired, mut resolvers) = station();
    change(&mut desired, &mut resolvers);
    Allowed::new(&loaded(&name, text)).check(&desired, &resolvers, &BTreeSet::new())
}

#[test]
fn what_the_configuration_names_is_done() {
    assert_eq!(judged(STATION, |_, _| {}), Ok(()));
    // `down` requests less.
    assert_eq!(judged(STATION, |desired, _| desired.blocks.clear()), Ok(()));
}

#[test]
fn routes_and_blocks_beyond_the_selectors_are_refused() {
    for strange in [
        "0.0.0.0/0",
        "10.10.0.0/23",
        "10.10.0.0/25",
        "192.0.2.1/32",
        "::/0",
    ] {
        let strange: Prefix = strange.parse().unwrap();
        let route = |desired: &mut Desired, _: &mut Resolvers| {
            desired.routes.insert(strange, None);
        };
        assert_eq!(judged(STATION, route), Err(Refusal::Route(strange)));
        for name in ["home", "work", "../home"] {
            let block = |desired: &mut Desired, _: &mut Resolvers| {
                desired.blocks.insert(name.to_owned(), [strange].into());
            };
            let refused = Err(Refusal::Block(name.to_owned(), strange));
            assert_eq!(judged(STATION, block), refused);
        }
    }
    let passing = STATION.replacen(
        "legacy = true\n",
        "legacy = true\non_failure = \"pass\"\n",
        1,
    );
    assert!(matches!(
        judged(&passing, |_, _| {}),
        Err(Refusal::Block(..))
    ));
}

#[test]
fn only_a_full_tunnel_refuses_a_family_and_spares_the_local_network() {
    let everything: Prefix = "::/0".parse().unwrap();
    let near: Prefix = "192.168.0.0/16".parse().unwrap();
    let full = |desired: &mut Desired, _: &mut Resolvers| {
        let all: Prefix = "0.0.0.0/0".parse().unwrap();
        desired.routes = [(all, None)].into();
        let blocked = [all, everything].into();
        desired.blocks = [("home".to_owned(), blocked)].into();
        desired.rules = [(false, Purpose::Local(near)), (false, Purpose::Spared)].into();
    };
    let all = STATION.replace("10.10.0.0/24", "0.0.0.0/0");
    assert_eq!(judged(&all, full), Ok(()));
    assert!(judged(STATION, full).is_err());
    for strange in ["0.0.0.0/1", "8.8.8.0/24", "10.0.0.0/9"] {
        let purpose = Purpose::Local(strange.parse().unwrap());
        let spares = |desired: &mut Desired, resolvers: &mut Resolvers| {
            full(desired, resolvers);
            desired.rules.insert((false, purpose.clone()));
        };
        assert_eq!(judged(&all, spares), Err(Refusal::Rule(purpose)));
    }
    // DNS of the resolvers that it has, and of no other host.
    for (host, is_lent) in [("10.10.0.53/32", true), ("10.10.0.54/32", false)] {
        for purpose in [Purpose::Kept, Purpose::Secured] {
            let purpose = purpose(host.parse().unwrap());
            let keeps = |desired: &mut Desired, resolvers: &mut Resolvers| {
                full(desired, resolvers);
                desired.rules.insert((false, purpose.clone()));
            };
            let expected = match is_lent {
                true => Ok(()),
                false => Err(Refusal::Rule(purpose.clone())),
            };
            assert_eq!(judged(&all, keeps), expected);
        }
    }
    let passes = |desired: &mut Desired, resolvers: &mut Resolvers| {
        full(desired, resolvers);
        desired.passing.insert("home".to_owned());
    };
    assert!(matches!(judged(&all, passes), Err(Refusal::Passing(_))));
}

#[test]
fn addresses_and_resolvers_that_nobody_can_lend_are_refused() {
    for address in [
        "127.0.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "2001:db8::1",
    ] {
        let address: IpAddr = address.parse().unwrap();
        let add = |desired: &mut Desired, _: &mut Resolvers| {
            desired.addresses.insert(address);
        };
        assert_eq!(judged(STATION, add), Err(Refusal::Address(address)));
    }
    let many = |desired: &mut Desired, _: &mut Resolvers| {
        let all = (0..3u8).map(|n| IpAddr::from([10, 99, 0, n + 1]));
        desired.addresses.extend(all);
    };
    assert!(matches!(
        judged(STATION, many),
        Err(Refusal::TooMany { .. })
    ));
    let local: IpAddr = "127.0.0.1".parse().unwrap();
    let own = |_: &mut Desired, resolvers: &mut Resolvers| resolvers.addresses.push(local);
    assert_eq!(judged(STATION, own), Err(Refusal::Resolver(local)));
    for strange in [
        "~corp.example",
        "--help",
        "Corp.Example",
        "corp.example.",
        "a b",
        "",
    ] {
        let add = |_: &mut Desired, it: &mut Resolvers| it.domains.push(strange.into());
        let refusal = Refusal::Domain(strange.into());
        assert_eq!(judged(STATION, add), Err(refusal));
    }
    let more = |_: &mut Desired, it: &mut Resolvers| {
        it.domains = (0..=MAX_DOMAINS).map(|n| format!("d{n}.example")).collect();
    };
    let refusal = Refusal::Domains(MAX_DOMAINS + 1);
    assert_eq!(judged(STATION, more), Err(refusal));
    let silent = format!("[daemon]\ndns = false\n{STATION}");
    assert_eq!(judged(&silent, |_, _| {}), Err(Refusal::Resolvers));
    assert_eq!(
        judged(&silent, |_, resolvers| resolvers.addresses.clear()),
        Ok(())
    );
}

fn key(domain: &str, tag: usize) -> String {
    format!("{domain}. IN DS {tag} 13 1 {}", "07".repeat(20))
}

#[test]
fn keys_of_dnssec_of_domains_that_no_connection_lists_are_refused() {
    let listed = STATION.replacen(
        "legacy = true\n",
        "legacy = true\ndnssec_domains = [\"corp.example\"]\n",
        1,
    );
    let add = |text: &str, record: &str| {
        let record = record.to_owned();
        judged(text, |_, it| it.trust_anchors.push(record))
    };
    for domain in ["corp.example", "lab.corp.example"] {
        let record = key(domain, 1);
        assert_eq!(add(&listed, &record), Ok(()));
        let refusal = Refusal::TrustAnchor(record.clone());
        assert_eq!(add(STATION, &record), Err(refusal));
    }
    let good = key("corp.example", 1);
    for strange in [
        key("lab.example", 1),
        key("", 1),
        good.replace("IN DS ", ""),
        good.to_lowercase(),
        good.replace("07", ""),
        format!("{good}\nlab.example. IN DS 1 13 1 00"),
        format!("{good} "),
    ] {
        let refusal = Refusal::TrustAnchor(strange.clone());
        assert_eq!(add(&listed, &strange), Err(refusal));
    }
    let many = |_: &mut Desired, it: &mut Resolvers| {
        let tags = 0..=MAX_TRUST_ANCHORS;
        it.trust_anchors = tags.map(|tag| key("corp.example", tag)).collect();
    };
    assert!(matches!(
        judged(&listed, many),
        Err(Refusal::TooMany { .. })
    ));
    // Without its resolvers, too: another program on this host may ask them.
    let silent = format!("[daemon]\ndns = false\n{listed}");
    let keys = |_: &mut Desired, it: &mut Resolvers| {
        it.addresses.clear();
        it.trust_anchors.push(good.clone());
    };
    assert_eq!(judged(&silent, keys), Ok(()));
}

#[test]
fn a_source_of_the_other_family_is_refused() {
    let of_other = |desired: &mut Desired, _: &mut Resolvers| {
        let source = desired.routes.values_mut().next().unwrap();
        *source = Some("2001:db8::1".parse().unwrap());
    };
    assert!(matches!(
        judged(STATION, of_other),
        Err(Refusal::Source(..))
    ));
}

#[test]
fn only_peers_without_a_pool_address_are_routed_by_their_own() {
    let gateway = "[connections.ms]\nlegacy = true\npools = [\"inner\"]\n\
        local = { auth = \"psk\", secret = \"s\", id = \"a.example\" }\n\
        remote = { auth = \"psk\", id = \"b.example\" }\n[connections.ms.children.net]\nMODE\
        [pools.inner]\naddrs = \"10.99.0.0/24\"\n";
    let peer: Prefix = "198.51.100.7/32".parse().unwrap();
    let judged = |text: &str, prefix: Prefix| {
        let desired = Desired {
            routes: [(prefix, None)].into(),
            ..Desired::default()
        };
        Allowed::new(&loaded(&format!("peers{}", prefix.length), text)).check(
            &desired,
            &Resolvers::default(),
            &BTreeSet::new(),
        )
    };
    let tunnel = gateway.replace("MODE", "local_ts = [\"10.10.0.0/24\"]\n");
    assert_eq!(judged(&tunnel, peer), Err(Refusal::Route(peer)));
    assert_eq!(judged(&tunnel, "10.99.0.0/24".parse().unwrap()), Ok(()));
    let bare = gateway.replace("MODE", "mode = \"transport\"\n");
    let bare = bare.replace("pools = [\"inner\"]\n", "");
    assert_eq!(judged(&bare, peer), Ok(()));
    for wide in ["198.51.100.0/31", "127.0.0.1/32", "224.0.0.1/32"] {
        let wide = wide.parse().unwrap();
        assert_eq!(judged(&bare, wide), Err(Refusal::Route(wide)));
    }
}

fn request() -> impl Strategy<Value = Request> {
    let address = prop_oneof![
        any::<u32>().prop_map(|bits| IpAddr::from(bits.to_be_bytes())),
        any::<u128>().prop_map(|bits| IpAddr::from(bits.to_be_bytes())),
    ];
    let list = prop::collection::vec(address.clone(), 0..4);
    prop_oneof![
        any::<u16>().prop_map(|mtu| Request::Device { mtu }),
        any::<u16>().prop_map(|mtu| Request::Resize { mtu }),
        (list.clone(), list.clone(), "[a-z]{1,8}").prop_map(|(some, addresses, name)| {
            let hosts = some.iter().map(|address| Prefix::host(*address));
            let desired = Desired {
                addresses: some.iter().copied().collect(),
                routes: hosts.clone().map(|host| (host, None)).collect(),
                blocks: [(name, hosts.collect())].into(),
                ..Desired::default()
            };
            let desired = Box::new(desired);
            let domains = vec!["corp.example".into()];
            let resolvers = Resolvers {
                addresses,
                domains,
                trust_anchors: vec![key("corp.example", 1)],
            };
            Request::Apply { desired, resolvers }
        }),
        (list.clone(), list).prop_map(|(peers, named)| Request::Ways { peers, named }),
        Just(Request::KeptOut),
        Just(Request::Read),
        Just(Request::Adopt),
        any::<bool>().prop_map(|lifts| Request::End { lifts }),
    ]
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
}

proptest! {
    #[test]
    fn a_request_is_read_as_it_was_written(request in request()) {
        let read = runtime().block_on(async {
            let (mut near, mut far) = duplex(1 << 16);
            write_frame(&mut near, &request).await.unwrap();
            read_frame(&mut far, REQUEST_BYTES_MAX).await.unwrap().unwrap()
        });
        prop_assert_eq!(parse(&read), Ok(request));
    }

    #[test]
    fn whatever_is_no_request_is_told_so(frame in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(parse(&frame).is_err());
    }

    #[test]
    fn a_damaged_request_is_refused_or_another_one(
        request in request(),
        at in any::<prop::sample::Index>(),
        with in any::<u8>(),
    ) {
        let mut frame = serde_json::to_vec(&request).unwrap();
        let at = at.index(frame.len());
        frame[at] = with;
        if let Ok(read) = parse(&frame) {
            let again = serde_json::to_vec(&read).unwrap();
            prop_assert_eq!(parse(&again), Ok(read));
        }
        frame.truncate(at);
        prop_assert!(parse(&frame).is_err());
    }
}

#[test]
fn words_beyond_the_list_are_no_requests() {
    let plain = r#"{"request": "apply", "desired": {"addresses": [], "routes": {}, "blocks": {},
        "passing": [], "rules": []},
        "resolvers": {"addresses": [], "domains": [], "trust_anchors": []}}"#;
    assert!(parse(plain.as_bytes()).is_ok());
    for text in [
        r#"{"request": "apply", "desired": {"addresses": [], "routes": {}, "blocks": {},
            "passing": [], "rules": []},
            "resolvers": {"addresses": [], "domains": [], "trust_anchors": []},
            "nft": "add table inet x"}"#,
        r#"{"request": "apply", "desired": {"addresses": [], "routes": {}, "blocks": {},
            "passing": [], "rules": [], "table": 254},
            "resolvers": {"addresses": [], "domains": [], "trust_anchors": []}}"#,
        r#"{"request": "device", "mtu": 1400, "tun": "eth0"}"#,
        r#"{"request": "run"}"#,
        r#"{"request": "device", "mtu": 65536}"#,
        r#"{"request": "resize", "mtu": -1}"#,
        r#"{"request": "adopt"} {"request": "adopt"}"#,
    ] {
        assert!(parse(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn a_frame_longer_than_the_limit_is_not_waited_for() {
    let fault = runtime().block_on(async {
        let (mut near, mut far) = duplex(64);
        near.write_all(&u32::MAX.to_be_bytes()).await.unwrap();
        read_frame(&mut far, REQUEST_BYTES_MAX).await.err().unwrap()
    });
    assert_eq!(fault.kind(), io::ErrorKind::InvalidData);
    let gone = runtime().block_on(async {
        let (near, mut far) = duplex(64);
        drop(near);
        read_frame(&mut far, REQUEST_BYTES_MAX).await.unwrap()
    });
    assert!(gone.is_none());
}

const KEY: &str = "association = { spi = 1000, key = \"30313233343536373839616263646566\" }\n";
const NODE: &str = "[mobile]\nhome_address = \"10.18.3.17\"\nprefix = 24\n\
    home_agent = \"10.18.3.1\"\ninterfaces = [\"eth0\", \"wlan0\"]\n";
const HOME_AGENT: &str = "[home_agent]\naddress = \"10.18.3.1\"\nprefix = 24\n\
    interface = \"eth1\"\n[mobile_nodes.ms]\nhome_address = \"10.18.3.17\"\n";
const FOREIGN_AGENT: &str = "[foreign_agent]\naddress = \"198.51.100.1\"\ninterface = \"wlan0\"\n\
    care_of = \"192.0.2.9\"\nmax_visitors = 2\n";
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// What the steward says to a part in Mobile IPv4.
fn judged_part(text: &str, change: impl FnOnce(&mut Desired)) -> Result<(), Refusal> {
    let name = std::thread::current().name().unwrap_or("").replace(':', "");
    let text = match text == FOREIGN_AGENT {
        true => text.to_owned(),
        false => format!("{text}{KEY}"),
    };
    let mut desired = Desired::default();
    change(&mut desired);
    let local = ["198.51.100.0/24", "203.0.113.7/32"].map(|it| it.parse().unwrap());
    Allowed::new(&loaded(&name, &text)).check(&desired, &Resolvers::default(), &local.into())
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn a_mobile_node_has_its_home_address_and_a_router_on_its_own_interfaces() {
    let router = |interface: &str, address: &str, mac| Router {
        interface: interface.to_owned(),
        address: address.parse().unwrap(),
        mac,
        is_default: true,
    };
    let away = |router: Option<Router>, care_of: Option<&str>| {
        judged_part(NODE, |desired| {
            let home = address("10.18.3.17");
            desired.addresses.insert(home);
            desired.routes.insert(Prefix::everything(false), Some(home));
            desired.roaming.place = Some(Place::Away {
                may_be_home: false,
                is_given: false,
                care_of: care_of.map(|it| it.parse().unwrap()),
                router,
                is_registered: true,
            });
        })
    };
    assert_eq!(away(None, Some("192.0.2.7")), Ok(()));
    assert_eq!(
        away(Some(router("wlan0", "198.51.100.1", MAC)), None),
        Ok(())
    );
    let strange = Err(Refusal::Roaming("such interface"));
    assert_eq!(away(Some(router("lo", "198.51.100.1", MAC)), None), strange);
    let strange = Err(Refusal::Roaming("such router"));
    assert_eq!(away(Some(router("eth0", "224.0.0.1", MAC)), None), strange);
    assert_eq!(
        away(Some(router("eth0", "192.0.2.1", [0xff; 6])), None),
        strange
    );
    assert_eq!(away(None, Some("127.0.0.1")), strange);
    let home = |interface: &str| {
        let interface = interface.to_owned();
        judged_part(NODE, |desired| {
            desired.roaming.place = Some(Place::Home { interface });
        })
    };
    assert_eq!(home("eth0"), Ok(()));
    assert_eq!(home("eth1"), Err(Refusal::Roaming("such interface")));
}

#[test]
fn a_mobile_node_gets_no_other_address_or_route() {
    let other = address("10.18.3.18");
    let strange = judged_part(NODE, |desired| {
        desired.addresses.insert(other);
    });
    assert_eq!(strange, Err(Refusal::Address(other)));
    for (prefix, source) in [
        (Prefix::everything(false), Some(other)),
        (Prefix::everything(false), None),
        (Prefix::everything(true), None),
        (Prefix::host(other), Some(address("10.18.3.17"))),
    ] {
        let route = judged_part(NODE, |desired| {
            desired.routes.insert(prefix, source);
        });
        assert_eq!(route, Err(Refusal::Route(prefix)), "{prefix} {source:?}");
    }
    let visitor = judged_part(NODE, visited("10.18.3.18", MAC));
    assert_eq!(visitor, Err(Refusal::Roaming("visitors")));
}

const OUTSIDE: &str = "[connections.work]\nremote_addrs = [\"203.0.113.1\"]\n\
    vips = [\"0.0.0.0\"]\nlocal = { auth = \"psk\", secret = \"a long secret of both ends\", \
    id = \"ms.example\" }\nremote = { auth = \"psk\", id = \"gw.example\" }\n\
    [connections.work.children.net]\nremote_ts = [\"10.18.3.1/32\"]\n\
    [mobile.gateway]\nconnection = \"work\"\n[mobile.gateway.outside]\n\
    home_agent = \"198.51.100.30\"\nhome_address = \"198.51.100.66\"\n";

/// Only the gateway's messages come to the address that a home agent outside keeps.
#[test]
fn a_node_with_a_home_agent_outside_has_its_address_and_a_route_to_the_gateway() {
    let text = format!("{NODE}{KEY}{OUTSIDE}");
    let own = address("198.51.100.66");
    let judged = |to: IpAddr, source: IpAddr| {
        judged_part(&text, |desired| {
            desired.addresses.insert(address("10.18.3.17"));
            desired.addresses.insert(own);
            desired.routes.insert(Prefix::host(to), Some(source));
        })
    };
    let gateway = address("203.0.113.1");
    assert_eq!(judged(gateway, own), Ok(()));
    for (to, source) in [
        (gateway, address("10.18.3.17")),
        (address("203.0.113.2"), own),
        (address("198.51.100.30"), own),
    ] {
        let strange = Err(Refusal::Route(Prefix::host(to)));
        assert_eq!(judged(to, source), strange, "{to} from {source}");
    }
}

/// A foreign agent gets the node's IPsec to its gateway, and no other packets.
#[test]
fn a_foreign_agent_outside_takes_ipsec_of_the_outer_address_to_the_gateway_alone() {
    let text = format!("{NODE}{KEY}{OUTSIDE}");
    let good = ByAgent {
        own: [198, 51, 100, 66].into(),
        gateways: [[203, 0, 113, 1].into()].into(),
        interface: "wlan0".to_owned(),
        address: [192, 0, 2, 1].into(),
        mac: MAC,
    };
    let judged = |text: &str, it: ByAgent| {
        judged_part(text, |desired| {
            let (home, agent) = (address("10.18.3.17"), address("10.18.3.1"));
            desired.routes.insert(Prefix::host(agent), Some(home));
            desired.roaming.by_agent = Some(it);
        })
    };
    assert_eq!(judged(&text, good.clone()), Ok(()));
    type Change = fn(&mut ByAgent);
    let changes: [Change; 5] = [
        |it| it.own = [10, 18, 3, 17].into(),
        |it| _ = it.gateways.insert([203, 0, 113, 2].into()),
        |it| it.interface = "lo".to_owned(),
        |it| it.address = [224, 0, 0, 1].into(),
        |it| it.mac = [0xff; 6],
    ];
    let strange = Err(Refusal::Roaming("such agent outside"));
    for change in changes {
        let mut wrong = good.clone();
        change(&mut wrong);
        assert_eq!(judged(&text, wrong.clone()), strange, "{wrong:?}");
    }
    // Without a home agent outside, nothing leads to the home agent but everything.
    let home_agent = Prefix::host(address("10.18.3.1"));
    assert_eq!(judged(NODE, good), Err(Refusal::Route(home_agent)));
}

#[test]
fn a_home_agent_leads_the_addresses_of_its_nodes_alone() {
    let route = |to: &str, source: Option<IpAddr>| {
        let prefix: Prefix = to.parse().unwrap();
        judged_part(HOME_AGENT, |desired| {
            desired.routes.insert(prefix, source);
        })
    };
    assert_eq!(route("10.18.3.17/32", None), Ok(()));
    for (to, source) in [
        ("10.18.3.18/32", None),
        ("10.18.3.0/24", None),
        ("0.0.0.0/0", None),
        ("10.18.3.17/32", Some(address("10.18.3.1"))),
    ] {
        assert!(matches!(route(to, source), Err(Refusal::Route(_))), "{to}");
    }
    let place = judged_part(HOME_AGENT, |desired| {
        let interface = "eth1".to_owned();
        desired.roaming.place = Some(Place::Home { interface });
    });
    assert_eq!(place, Err(Refusal::Roaming("home address")));
    let added = |own: IpAddr| {
        judged_part(HOME_AGENT, |desired| {
            desired.addresses.insert(own);
        })
    };
    assert_eq!(added(address("10.18.3.1")), Ok(()));
    let other = address("10.18.3.2");
    assert_eq!(added(other), Err(Refusal::Address(other)));
}

fn visited(home: &str, mac: [u8; 6]) -> impl FnOnce(&mut Desired) {
    let home = home.parse().unwrap();
    move |desired| {
        let visitor = Visitor {
            mac,
            is_led_into_tunnel: true,
        };
        desired.roaming.visitors.insert(home, visitor);
    }
}

#[test]
fn a_foreign_agent_has_hosts_as_visitors_and_not_more_than_it_may() {
    let judged = |home: &str, mac| judged_part(FOREIGN_AGENT, visited(home, mac));
    assert_eq!(judged("10.18.3.17", MAC), Ok(()));
    let strange = Err(Refusal::Roaming("such visitors"));
    // Its own addresses, and those of the link, would lead others' packets to a visitor.
    for home in [
        "198.51.100.1",
        "192.0.2.9",
        "198.51.100.77",
        "203.0.113.7",
        "0.0.0.0",
        "127.0.0.1",
        "224.0.0.5",
    ] {
        assert_eq!(judged(home, MAC), strange, "{home}");
    }
    assert_eq!(judged("10.18.3.17", [1, 0, 0, 0, 0, 1]), strange);
    let many = judged_part(FOREIGN_AGENT, |desired| {
        for home in ["10.18.3.17", "10.18.3.18", "10.18.3.19"] {
            visited(home, MAC)(desired);
        }
    });
    assert_eq!(many, strange);
    let own = address("198.51.100.1");
    let added = judged_part(FOREIGN_AGENT, |desired| {
        desired.addresses.insert(own);
    });
    assert_eq!(added, Ok(()), "for the reverse path filter");
    let other = address("192.0.2.9");
    let added = judged_part(FOREIGN_AGENT, |desired| {
        desired.addresses.insert(other);
    });
    assert_eq!(added, Err(Refusal::Address(other)));
    let route = judged_part(FOREIGN_AGENT, |desired| {
        desired.routes.insert(Prefix::host(other), None);
    });
    assert_eq!(route, Err(Refusal::Route(Prefix::host(other))));
}

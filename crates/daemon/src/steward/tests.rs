//! Requests that an attacker in the network process may send to its steward.

use proptest::prelude::*;
use tokio::io::duplex;

use super::allowed::{Allowed, Refusal};
use super::*;
use crate::config::{Loaded, Names, load};
use crate::routes::full::Purpose;

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
fn station() -> (Desired, Vec<IpAddr>) {
    let network: Prefix = "10.10.0.0/24".parse().unwrap();
    let inner: IpAddr = "10.99.0.1".parse().unwrap();
    let desired = Desired {
        addresses: [inner].into(),
        routes: [(network, Some(inner))].into(),
        blocks: [("home".to_owned(), [network].into())].into(),
        ..Desired::default()
    };
    (desired, vec!["10.10.0.53".parse().unwrap()])
}

fn judged(text: &str, change: impl FnOnce(&mut Desired, &mut Vec<IpAddr>)) -> Result<(), Refusal> {
    let name = std::thread::current().name().unwrap_or("").replace(':', "");
    let (mut desired, mut resolvers) = station();
    change(&mut desired, &mut resolvers);
    Allowed::new(&loaded(&name, text)).check(&desired, &resolvers)
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
        let route = |desired: &mut Desired, _: &mut Vec<IpAddr>| {
            desired.routes.insert(strange, None);
        };
        assert_eq!(judged(STATION, route), Err(Refusal::Route(strange)));
        for name in ["home", "work", "../home"] {
            let block = |desired: &mut Desired, _: &mut Vec<IpAddr>| {
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
    let full = |desired: &mut Desired, _: &mut Vec<IpAddr>| {
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
        let spares = |desired: &mut Desired, resolvers: &mut Vec<IpAddr>| {
            full(desired, resolvers);
            desired.rules.insert((false, purpose));
        };
        assert_eq!(judged(&all, spares), Err(Refusal::Rule(purpose)));
    }
    let passes = |desired: &mut Desired, resolvers: &mut Vec<IpAddr>| {
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
        let add = |desired: &mut Desired, _: &mut Vec<IpAddr>| {
            desired.addresses.insert(address);
        };
        assert_eq!(judged(STATION, add), Err(Refusal::Address(address)));
    }
    let many = |desired: &mut Desired, _: &mut Vec<IpAddr>| {
        let all = (0..3u8).map(|n| IpAddr::from([10, 99, 0, n + 1]));
        desired.addresses.extend(all);
    };
    assert!(matches!(
        judged(STATION, many),
        Err(Refusal::TooMany { .. })
    ));
    let local: IpAddr = "127.0.0.1".parse().unwrap();
    let own = |_: &mut Desired, resolvers: &mut Vec<IpAddr>| resolvers.push(local);
    assert_eq!(judged(STATION, own), Err(Refusal::Resolver(local)));
    let silent = format!("[daemon]\ndns = false\n{STATION}");
    assert_eq!(judged(&silent, |_, _| {}), Err(Refusal::Resolvers));
    assert_eq!(judged(&silent, |_, resolvers| resolvers.clear()), Ok(()));
}

#[test]
fn a_source_of_the_other_family_is_refused() {
    let of_other = |desired: &mut Desired, _: &mut Vec<IpAddr>| {
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
        Allowed::new(&loaded(&format!("peers{}", prefix.length), text)).check(&desired, &[])
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
        (list.clone(), list.clone(), "[a-z]{1,8}").prop_map(|(some, resolvers, name)| {
            let hosts = some.iter().map(|address| Prefix::host(*address));
            let desired = Desired {
                addresses: some.iter().copied().collect(),
                routes: hosts.clone().map(|host| (host, None)).collect(),
                blocks: [(name, hosts.collect())].into(),
                ..Desired::default()
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
        "passing": [], "rules": []}, "resolvers": []}"#;
    assert!(parse(plain.as_bytes()).is_ok());
    for text in [
        r#"{"request": "apply", "desired": {"addresses": [], "routes": {}, "blocks": {},
            "passing": [], "rules": []}, "resolvers": [], "nft": "add table inet x"}"#,
        r#"{"request": "apply", "desired": {"addresses": [], "routes": {}, "blocks": {},
            "passing": [], "rules": [], "table": 254}, "resolvers": []}"#,
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

//! The gate for peers without a pool address, against a steward that the test plays.

use std::path::Path;

use crypto::rand::Seed;

use super::*;
use crate::config::{Names, load};
use crate::run::keeper::tests::Played;
use crate::run::setup::engine_config;
use crate::steward::allowed::Allowed;
use crate::steward::{Reply, Request};

fn host() -> (Host, Played) {
    let (steward, played) = Played::steward();
    let leases = LeaseFile::open(Path::new("/no/such/folder"), &["road".into()]);
    let names = ("road", "no-such-device");
    let host = Host::new(Role::Gateway, steward, BTreeMap::new(), leases, names);
    (host, played)
}

fn peers<const N: usize>(last: [u8; N]) -> BTreeSet<Prefix> {
    let hosts = last.map(|it| Prefix::host(IpAddr::from([198, 51, 100, it])));
    hosts.into()
}

/// Wants routes to these peers, as [`Host::update`] does.
fn route(host: &mut Host, bare: &BTreeSet<Prefix>) {
    let routes = bare.iter().map(|to| (*to, None)).collect();
    let desired = Desired {
        routes,
        ..Desired::default()
    };
    let resolvers = Resolvers::default();
    host.want(HostState { desired, resolvers });
    host.note_bare(bare);
}

/// Returns the peers whose sessions must end.
async fn refused(host: &mut Host, played: &mut Played) -> BTreeSet<IpAddr> {
    let text = "no".to_owned();
    played.reply(Reply::Failed { text }).await;
    let KeeperEvent::Refused(number, _) = host.next_event().await else {
        panic!("not refused")
    };
    host.on_refused(number, "no".to_owned())
}

/// The routes of the next request.
async fn applies(played: &mut Played) -> BTreeSet<Prefix> {
    match played.request().await {
        Request::Apply { desired, .. } => desired.routes.into_keys().collect(),
        other => panic!("{other:?}"),
    }
}

async fn done(host: &mut Host, played: &mut Played) {
    played.reply(Reply::Done).await;
    assert!(matches!(host.next_event().await, KeeperEvent::Applied(_)));
    host.on_applied();
}

#[tokio::test(start_paused = true)]
async fn no_message_is_read_until_the_route_to_every_bare_peer_is_there() {
    let (mut host, mut played) = host();
    route(&mut host, &peers([1]));
    assert!(host.misses_routes());
    assert_eq!(applies(&mut played).await, peers([1]));
    // Another peer comes while the route to the first one is made.
    route(&mut host, &peers([1, 2]));
    done(&mut host, &mut played).await;
    assert!(host.misses_routes(), "the second route is not there yet");
    assert_eq!(applies(&mut played).await, peers([1, 2]));
    done(&mut host, &mut played).await;
    assert!(!host.misses_routes());
    // What is there, and what goes, keeps nobody waiting.
    route(&mut host, &peers([1]));
    assert!(!host.misses_routes());
    route(&mut host, &peers([1, 3]));
    assert!(host.misses_routes());
    route(&mut host, &peers([1]));
    assert!(!host.misses_routes());
}

fn addresses(peers: &BTreeSet<Prefix>) -> BTreeSet<IpAddr> {
    peers.iter().map(|peer| peer.address).collect()
}

#[tokio::test(start_paused = true)]
async fn after_a_refusal_messages_go_on_without_the_peers_whose_routes_are_missing() {
    let (mut host, mut played) = host();
    route(&mut host, &peers([1]));
    applies(&mut played).await;
    done(&mut host, &mut played).await;
    route(&mut host, &peers([1, 2]));
    applies(&mut played).await;
    // A third peer comes before the steward answers: the state with both is tried first.
    route(&mut host, &peers([1, 2, 3]));
    assert!(refused(&mut host, &mut played).await.is_empty());
    assert!(host.misses_routes());
    applies(&mut played).await;
    // The first peer is left alone.
    let unroutable = refused(&mut host, &mut played).await;
    assert_eq!(unroutable, addresses(&peers([2, 3])));
    assert!(host.warnings().any(|it| it.ends_with(": no")));
    // Their sessions end, and the next state is without them.
    let (connection, cause) = ("road".to_owned(), EndCause::Unroutable);
    host.on_event(&Event::IkeClosed {
        connection,
        had_children: true,
        cause,
    });
    route(&mut host, &peers([1]));
    assert!(!host.misses_routes());
    assert_eq!(applies(&mut played).await, peers([1]));
    done(&mut host, &mut played).await;
    let warnings: Vec<String> = host.warnings().collect();
    assert!(matches!(&warnings[..], [one] if one.ends_with("routes to their peers: 1")));
}

#[tokio::test(start_paused = true)]
async fn resolvers_that_could_not_be_taken_are_not_claimed_and_are_tried_again() {
    let (mut host, _played) = host();
    let resolver = IpAddr::from([10, 10, 0, 2]);
    let lease = Lease {
        dns: vec![resolver],
        ..Lease::default()
    };
    host.leases.insert("road".to_owned(), lease);
    let want = |host: &mut Host| {
        let resolvers = Resolvers {
            addresses: vec![resolver],
            ..Resolvers::default()
        };
        let desired = Desired::default();
        host.want(HostState { desired, resolvers });
    };
    want(&mut host);
    assert_eq!(host.resolvers_of("road"), [resolver]);
    assert!(!host.forget_refusal());
    let untaken = Untaken {
        addresses: vec![resolver],
        reason: "cannot write /etc/resolv.conf: Read-only file system".to_owned(),
    };
    let told = "the gateway's resolvers 10.10.0.2 are not in use: cannot write /etc/resolv.conf: \
                Read-only file system";
    assert_eq!(host.on_resolvers(Some(untaken)).as_deref(), Some(told));
    assert!(host.resolvers_of("road").is_empty());
    assert_eq!(host.warnings().collect::<Vec<_>>(), [told]);
    assert!(host.forget_refusal());
    want(&mut host);
    assert_eq!(host.on_resolvers(None), None);
    assert_eq!(host.resolvers_of("road"), [resolver]);
    assert_eq!(host.warnings().count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_route_that_the_host_refused_stays_missing() {
    let (mut host, mut played) = host();
    route(&mut host, &peers([1]));
    applies(&mut played).await;
    refused(&mut host, &mut played).await;
    assert!(host.misses_routes());
    // It is tried again.
    assert!(host.forget_refusal());
    route(&mut host, &peers([1]));
    assert_eq!(applies(&mut played).await, peers([1]));
    done(&mut host, &mut played).await;
    assert!(!host.forget_refusal() && !host.misses_routes());
}

#[tokio::test(start_paused = true)]
async fn routes_that_are_there_are_not_missing_after_a_reload_that_the_host_refuses() {
    let (mut host, mut played) = host();
    route(&mut host, &peers([1, 2]));
    applies(&mut played).await;
    done(&mut host, &mut played).await;
    // As `follow` does: the same routes are wanted again.
    host.wanted = None;
    route(&mut host, &peers([1, 2]));
    assert!(!host.misses_routes());
    applies(&mut played).await;
    assert!(refused(&mut host, &mut played).await.is_empty());
    assert!(!host.misses_routes());
    // A route that was removed meanwhile is another matter, whichever state the host takes.
    route(&mut host, &peers([1]));
    applies(&mut played).await;
    route(&mut host, &peers([1, 2]));
    assert!(host.misses_routes());
    done(&mut host, &mut played).await;
    assert!(host.misses_routes(), "the route is gone");
    applies(&mut played).await;
    done(&mut host, &mut played).await;
    assert!(!host.misses_routes());
}

#[tokio::test(start_paused = true)]
async fn a_refused_state_is_not_tried_at_every_change_of_the_host() {
    let (mut host, mut played) = host();
    route(&mut host, &peers([1]));
    applies(&mut played).await;
    refused(&mut host, &mut played).await;
    // The attempt itself changes the host, and each change derives the state again.
    for _ in 0..3 {
        route(&mut host, &peers([1]));
        assert!(played.is_idle().await);
    }
    // Another state is tried at once.
    route(&mut host, &peers([1, 2]));
    assert_eq!(applies(&mut played).await, peers([1, 2]));
    refused(&mut host, &mut played).await;
    assert!(host.forget_refusal());
    route(&mut host, &peers([1, 2]));
    assert_eq!(applies(&mut played).await, peers([1, 2]));
    done(&mut host, &mut played).await;
}

#[tokio::test(start_paused = true)]
async fn blocks_that_the_host_refused_are_not_shown() {
    let (mut host, mut played) = host();
    let block = |host: &mut Host, names: &[&str]| {
        let of = |name: &&str| ((*name).to_owned(), peers([9]));
        let desired = Desired {
            blocks: names.iter().map(of).collect(),
            ..Desired::default()
        };
        let resolvers = Resolvers::default();
        host.want(HostState { desired, resolvers });
    };
    block(&mut host, &["road"]);
    applies(&mut played).await;
    assert!(!host.blocks("road"), "not there yet");
    done(&mut host, &mut played).await;
    assert!(host.blocks("road"));
    block(&mut host, &["road", "rail"]);
    assert_eq!(host.blocking().len(), 2, "the end applies it first");
    applies(&mut played).await;
    refused(&mut host, &mut played).await;
    assert!(host.blocks("road") && !host.blocks("rail"));
    assert_eq!(host.blocking().len(), 1);
}

const ROAD: &str = "[connections.road]\nversion = 1\nlegacy = true\naggressive = true\n\
    local = { auth = \"psk\", id = \"sg.example\", secret = \"s\" }\n\
    remote = { auth = \"psk\", id = \"ms.example\" }\n\
    [connections.road.children.ports]\nmode = \"transport\"\n";

/// A client whose full tunnel comes with resolvers that it must not use.
const FULL: &str = "[daemon]\ndns = false\n[connections.home]\nremote_addrs = [\"192.0.2.1\"]\n\
    vips = [\"0.0.0.0\"]\nlocal = { auth = \"psk\", secret = \"s\", id = \"a.example\" }\n\
    remote = { auth = \"psk\", id = \"b.example\" }\n\
    [connections.home.children.net]\nremote_ts = [\"0.0.0.0/0\"]\n";

fn read(name: &str, text: &str) -> Loaded {
    let file = format!("caravan-host-{}-{name}.toml", std::process::id());
    let path = std::env::temp_dir().join(file);
    std::fs::write(&path, text).unwrap();
    let loaded = load(&path, Names::Unasked).unwrap_or_else(|fault| panic!("{fault}"));
    std::fs::remove_file(&path).unwrap();
    loaded
}

/// A gateway has lent an address to the client of `FULL`.
fn lent(trust_anchors: Vec<TrustAnchor>) -> Event {
    Event::InnerAddress {
        connection: "home".to_owned(),
        addresses: vec!["10.99.0.1".parse().unwrap()],
        dns: vec!["10.0.0.53".parse().unwrap()],
        domains: Vec::new(),
        trust_anchors,
        refused_anchors: Vec::new(),
    }
}

/// What the real steward allows.
fn allowed(name: &str) -> Allowed {
    Allowed::new(&read(name, ROAD))
}

/// Wants routes to these peers and blocks, also for former ones, as [`Host::update`] does.
fn follow(host: &mut Host, bare: &BTreeSet<Prefix>) {
    let mut desired = Desired {
        routes: bare.iter().map(|to| (*to, None)).collect(),
        ..Desired::default()
    };
    let up = bare.iter().map(|to| ("road".to_owned(), *to)).collect();
    host.former.block(up, &mut desired);
    let resolvers = Resolvers::default();
    host.want(HostState { desired, resolvers });
    host.note_bare(bare);
}

/// Answers the next request as the steward does, and a kernel that refuses these routes. Returns
/// the blocks of the request, and the peers whose sessions must end or `None` if it was applied.
async fn judge(
    (host, played): (&mut Host, &mut Played),
    allowed: &Allowed,
    kernel_refuses: &BTreeSet<Prefix>,
) -> (BTreeSet<Prefix>, Option<BTreeSet<IpAddr>>) {
    let Request::Apply { desired, resolvers } = played.request().await else {
        panic!("no state")
    };
    let blocks = desired.blocks.values().flatten().copied().collect();
    let is_allowed = allowed
        .check(&desired, &resolvers, &BTreeSet::new())
        .is_ok();
    if is_allowed
        && !kernel_refuses
            .iter()
            .any(|to| desired.routes.contains_key(to))
    {
        done(host, played).await;
        return (blocks, None);
    }
    (blocks, Some(refused(host, played).await))
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_the_steward_refuses_leaves_no_block_that_it_would_refuse_again() {
    let (mut host, mut played) = host();
    let allowed = allowed("refused");
    let nothing = BTreeSet::new();
    follow(&mut host, &peers([1]));
    let answer = judge((&mut host, &mut played), &allowed, &nothing).await;
    assert_eq!(answer, (peers([1]), None));
    let strange = Prefix::host([127, 0, 0, 2].into());
    for _ in 0..2 {
        let mut both = peers([1]);
        both.insert(strange);
        follow(&mut host, &both);
        let answer = judge((&mut host, &mut played), &allowed, &nothing).await;
        assert_eq!(answer, (both, Some([strange.address].into())));
        // Its session ends.
        follow(&mut host, &peers([1]));
        let answer = judge((&mut host, &mut played), &allowed, &nothing).await;
        assert_eq!(answer, (peers([1]), None));
        assert!(!host.misses_routes());
    }
}

#[tokio::test(start_paused = true)]
async fn a_former_peer_stays_blocked_although_the_kernel_refuses_its_next_route() {
    let (mut host, mut played) = host();
    let allowed = allowed("former");
    let nothing = BTreeSet::new();
    // The second peer was up and has gone; the third was never up.
    for up in [peers([1, 2]), peers([1])] {
        follow(&mut host, &up);
        let answer = judge((&mut host, &mut played), &allowed, &nothing).await;
        assert_eq!(answer, (peers([1, 2]), None));
    }
    follow(&mut host, &peers([1, 2, 3]));
    let answer = judge((&mut host, &mut played), &allowed, &peers([2, 3])).await;
    let ended = addresses(&peers([2, 3]));
    assert_eq!(answer, (peers([1, 2, 3]), Some(ended)));
    follow(&mut host, &peers([1]));
    let answer = judge((&mut host, &mut played), &allowed, &nothing).await;
    assert_eq!(answer, (peers([1, 2]), None));
}

#[tokio::test(start_paused = true)]
async fn without_dns_the_steward_takes_the_state_whatever_resolver_the_gateway_lends() {
    let (mut host, mut played) = host();
    host.role = Role::Station;
    let loaded = read("resolver", FULL);
    host.adopt(&loaded);
    host.on_event(&lent(Vec::new()));
    let node = Node::new(engine_config(&loaded), &Seed::new([7; 32]));
    let downed = BTreeSet::new();
    host.update(&loaded, (&node, Instant(0)), &downed, |_| {});
    let allowed = Allowed::new(&loaded);
    let answer = judge((&mut host, &mut played), &allowed, &BTreeSet::new()).await;
    assert_eq!(answer.1, None, "it is not refused");
    let wanted = host.wanted.as_ref().unwrap();
    assert!(wanted.resolvers.addresses.is_empty() && !wanted.desired.rules.is_empty());
}

#[tokio::test]
async fn keys_of_dnssec_are_those_of_domains_that_the_configuration_lists() {
    let (mut host, _played) = host();
    host.role = Role::Station;
    let listing = |list: &str| {
        let keys = format!("dnssec_domains = [{list}]\nvips");
        read("keys", &FULL.replace("vips", &keys))
    };
    let keys = ["corp.example", "lab.example"].map(|domain| {
        let record = format!("{domain}. IN DS 43547 13 1 {}", "07".repeat(20));
        record.parse::<TrustAnchor>().unwrap()
    });
    let [corp, lab] = keys.clone().map(|it| it.to_string());
    let both = listing("\"corp.example\", \"lab.example\"");
    host.adopt(&both);
    host.on_event(&lent(keys.to_vec()));
    let node = Node::new(engine_config(&both), &Seed::new([7; 32]));
    let mut wanted = |loaded: &Loaded, downed: &BTreeSet<String>| {
        host.follow(&["home".to_owned()], loaded);
        host.update(loaded, (&node, Instant(0)), downed, |_| {});
        let wanted = host.wanted.as_ref().unwrap();
        wanted.resolvers.trust_anchors.clone()
    };
    assert_eq!(wanted(&both, &BTreeSet::new()), [corp.clone(), lab]);
    let one = listing("\"corp.example\"");
    assert_eq!(wanted(&one, &BTreeSet::new()), [corp]);
    assert_eq!(wanted(&one, &["home".to_owned()].into()), [""; 0]);
    // Without an IKE SA there are none.
    host.on_event(&lent(keys.to_vec()));
    assert_eq!(host.trust_anchors_of("home").len(), 1);
    host.drop_keys("home", &node);
    assert_eq!(host.trust_anchors_of("home").len(), 0);
}

#[tokio::test]
async fn a_way_counts_only_from_an_address_that_the_connection_may_use() {
    let (mut host, _played) = host();
    let [peer, own, gone] = [1, 10, 11].map(|it| IpAddr::from([192, 0, 2, it]));
    assert_eq!(host.no_way(peer, &[gone]), None, "nobody has said yet");
    assert!(host.take_ways(Ways::of_one(own, [peer]), vec![own]));
    assert!(!host.take_ways(Ways::of_one(own, [peer]), vec![own]));
    assert_eq!(host.no_way(peer, &[]), None);
    assert_eq!(host.no_way(peer, &[own, gone]), None);
    let said = "cannot send to 192.0.2.1: no route from local_addrs = [192.0.2.11]";
    assert_eq!(host.no_way(peer, &[gone]).as_deref(), Some(said));
    let nowhere = Ways(BTreeMap::from([(peer, Vec::new())]));
    assert!(host.take_ways(nowhere, vec![own]));
    let said = "cannot send to 192.0.2.1: no route";
    assert_eq!(host.no_way(peer, &[]).as_deref(), Some(said));
}

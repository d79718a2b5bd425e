//! The gate for peers without a pool address, against a steward that the test plays.

use std::path::Path;

use super::*;
use crate::run::keeper::tests::Played;
use crate::steward::{Reply, Request};

fn host() -> (Host, Played) {
    let (steward, played) = Played::steward();
    let leases = LeaseFile::open(Path::new("/no/such/folder"), "road");
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
    host.find_missing(bare.clone());
    let routes = bare.iter().map(|to| (*to, None)).collect();
    let desired = Desired {
        routes,
        ..Desired::default()
    };
    let resolvers = Vec::new();
    host.want(HostState { desired, resolvers });
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

#[tokio::test(start_paused = true)]
async fn a_route_that_the_host_refused_stays_missing() {
    let (mut host, mut played) = host();
    route(&mut host, &peers([1]));
    applies(&mut played).await;
    let text = "no".to_owned();
    played.reply(Reply::Failed { text }).await;
    assert!(matches!(host.next_event().await, KeeperEvent::Failed(_)));
    host.on_refused();
    assert!(host.is_refused() && host.misses_routes());
    // It is tried again.
    route(&mut host, &peers([1]));
    assert_eq!(applies(&mut played).await, peers([1]));
    done(&mut host, &mut played).await;
    assert!(!host.is_refused() && !host.misses_routes());
}

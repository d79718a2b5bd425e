//! The cryptographic operations of a gateway, by algorithm: two connections with different suites.

use crypto::cipher::Cipher;
use crypto::hash::Hash;

use super::identities::Crowd;
use super::*;
use crate::work::Task;

/// The differences between connections: the station's name, and the proposals.
type Terms = (&'static str, &'static str, &'static str);

const OLD: Terms = ("old.example", "3des-md5-modp1024", "3des-md5-modp1024");
const NEW: Terms = (
    "new.example",
    "aes256-sha512-modp2048",
    "aes256gcm16-modp2048",
);

/// The work of a gateway after one station of each connection has connected.
fn work_with(all: &[Terms]) -> Work {
    let connection = |is_station, (name, ike, esp): Terms| {
        let plain: Change = Arc::new(|_, _| {});
        let mut connection = config(is_station, &plain).connections.remove(0);
        let it = Arc::get_mut(&mut connection).expect("the only one");
        it.name = name.into();
        it.proposals = vec![ike.parse().expect("a suite")];
        it.children[0].proposals = vec![esp.parse().expect("a suite")];
        let identity = Identity::parse(name).expect("an identity");
        match is_station {
            true => it.local.identity = identity,
            false => it.remote.identities = vec![IdentityPattern::Is(identity)],
        }
        Arc::into_inner(connection).expect("the only one")
    };
    let gateway = all.iter().map(|terms| connection(false, *terms)).collect();
    let mut crowd = Crowd::new(gateway);
    for (host, terms) in (11..).zip(all) {
        let station = crowd.enter([192, 0, 2, host], connection(true, *terms));
        assert!(crowd.is_up(station), "{}", crowd.refusal());
    }
    crowd.gateway().work().clone()
}

#[test]
fn two_connections_on_one_gateway_count_under_their_own_algorithms() {
    let both = work_with(&[OLD, NEW]);
    let mut sum = work_with(&[OLD]);
    sum.merge(&work_with(&[NEW]));
    assert_eq!(both, sum);
    let tasks: Vec<Task> = both.entries().iter().map(|entry| entry.0).collect();
    for task in [
        Task::Prf(Hash::Md5),
        Task::Prf(Hash::Sha512),
        Task::MessageCipher(Cipher::TripleDes),
        Task::MessageCipher(Cipher::Aes256),
    ] {
        assert!(tasks.contains(&task), "{tasks:?}");
    }
}

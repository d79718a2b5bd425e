use super::*;
use crate::sa::Via;

fn connection(name: &str, own: &[&str], peers: &[&str]) -> Arc<Connection> {
    let auth = |id: &str| Identity::Fqdn(id.into());
    let key = || Arc::new(Secret(vec![7; 16]));
    let local = LocalAuth {
        identity: auth("own.example"),
        method: LocalMethod::PresharedKey(key()),
    };
    let remote = RemoteAuth {
        identities: vec![IdentityPattern::Any],
        method: RemoteMethod::PresharedKey(key()),
    };
    let mut connection = Connection::new(name, Vec::new(), local, remote, Vec::new());
    connection.local_addrs = own.iter().map(|it| it.parse().unwrap()).collect();
    let peer = |it: &&str| SocketAddr::new(it.parse().unwrap(), 500);
    connection.remote_addrs = peers.iter().map(peer).collect();
    Arc::new(connection)
}

#[test]
fn a_peer_may_belong_to_connections_of_both_addresses_first_to_those_that_name_its_own() {
    let config = Config {
        connections: vec![
            connection("elsewhere", &["203.0.113.1"], &[]),
            connection("anybody", &[], &[]),
            connection("another peer", &[], &["10.0.0.3"]),
            connection("the peer", &["192.0.2.1"], &["10.0.0.2"]),
        ],
        pools: Vec::new(),
        radius: None,
        limits: Limits::default(),
    };
    let names = |local: &str, remote: &str| -> Vec<String> {
        let at = |ip: &str| SocketAddr::new(ip.parse().unwrap(), 500);
        let path = Path {
            via: Via::Udp,
            local: at(local),
            remote: at(remote),
        };
        let found = config.between(path).into_iter();
        found.map(|it| it.name.clone()).collect()
    };
    assert_eq!(names("192.0.2.1", "10.0.0.2"), ["the peer", "anybody"]);
    assert_eq!(
        names("192.0.2.1", "::ffff:10.0.0.2"),
        ["the peer", "anybody"]
    );
    assert_eq!(names("203.0.113.1", "10.0.0.9"), ["elsewhere", "anybody"]);
}

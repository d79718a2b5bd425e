//! Resolvers of a gateway's pools that no tunnel leads to.

use std::net::IpAddr;

use engine::config::{Connection, Pool};
use wire::ip::protocol::UDP;

const DNS_PORT: u16 = 53;

/// One sentence for each pool of a connection whose `dns` is outside all its `local_ts`.
pub(super) fn astray(connection: &Connection, pools: &[Pool]) -> Vec<String> {
    let children = &connection.children;
    // Without `local_ts` it is the gateway's own address, which is not in the file.
    if children.iter().any(|child| child.local.is_empty()) {
        return Vec::new();
    }
    let is_inside = |resolver: &IpAddr| {
        let mut selectors = children.iter().flat_map(|child| &child.local);
        selectors.any(|it| it.contains_address(*resolver) && it.takes(UDP, Some(DNS_PORT)))
    };
    let lent = connection.pools.iter().map(|at| &pools[*at]);
    let found = lent.filter_map(|pool| {
        let outside = pool.dns.iter().filter(|it| !is_inside(it));
        let outside: Vec<String> = outside.map(ToString::to_string).collect();
        (!outside.is_empty()).then(|| {
            format!(
                "no tunnel leads to dns = {} of [pools.{}]: no local_ts of this connection covers \
                 it. Caravan clients do not use it, and others query it unencrypted; add it to \
                 local_ts, or name a resolver inside",
                outside.join(", "),
                pool.name
            )
        })
    });
    found.collect()
}
